//! Which segments may go, given the last LSN that nobody needs any more. Pure.
//! Guarantees: only a run at the old end is given up, so the chain of those kept has no hole.
//! Must not know: files, snapshots.
//! Next: segments.rs recycles or removes what is given up.

use crate::canary::{Canary, planted};
use crate::units::{Lsn, SegmentId};

/// A segment and the LSNs in it. `last_lsn` is below `first_lsn` when it holds no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSpan {
    /// Its id.
    pub segment: SegmentId,
    /// First LSN in it, as its header says.
    pub first_lsn: Lsn,
    /// Last LSN in it, or before it.
    pub last_lsn: Lsn,
    /// Length of its file.
    pub bytes: u64,
}

/// How many of the sealed segments, oldest first, hold only LSNs up to `below`.
pub(super) fn retirable(sealed: &[SegmentSpan], below: Lsn) -> usize {
    let last_of =
        |span: &SegmentSpan| if planted(Canary::SegmentRecycledEarly) { span.first_lsn } else { span.last_lsn };
    let count = sealed.iter().take_while(|span| last_of(span) <= below).count();
    if planted(Canary::RetiredTooFar) && count > 0 { sealed.len().min(count + 1) } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_wholly_below_the_bound_go_and_only_from_the_old_end() {
        let span = |segment, last| SegmentSpan {
            segment: SegmentId(segment),
            first_lsn: Lsn(1),
            last_lsn: Lsn(last),
            bytes: 1 << 20,
        };
        let sealed = [span(1, 10), span(2, 20), span(4, 30)];
        for (below, count) in [(0, 0), (9, 0), (10, 1), (19, 1), (29, 2), (30, 3), (99, 3)] {
            assert_eq!(retirable(&sealed, Lsn(below)), count, "below {below}");
        }
    }
}
