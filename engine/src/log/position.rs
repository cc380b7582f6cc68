//! Where a log goes on after it was opened, and the settings it runs with.
//! Guarantees: `next_lsn` and `next_sequence` are above everything that ever stood in the log.
//! Must not know: how the end was found.
//! Next: reader.rs makes a position from what it read; writer.rs starts from it.

use super::segments::SpareFile;
use crate::canary::{Canary, planted};
use crate::format::StoreId;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::limits::{BLOCK_BYTES, SEGMENT_SHARE};
use crate::options::Options;
use crate::units::{FileOffset, Lsn, Nanos, SegmentId};

/// The segment in which the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveSegment {
    /// Its id.
    pub segment: SegmentId,
    /// Length of its file.
    pub bytes: u64,
    /// First LSN in it.
    pub first_lsn: Lsn,
    /// Everything before this place is known to be on stable storage; from here to `end` it may be in the page cache only.
    pub proven: FileOffset,
    /// Where the next batch would stand.
    pub end: FileOffset,
}

/// Where the log goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The store.
    pub store: StoreId,
    /// Last LSN of the log; all of it is on stable storage once the writer has started.
    pub last_lsn: Lsn,
    /// Last LSN of the state: above `last_lsn` where the end of the log was cut below the newest snapshot.
    pub state_lsn: Lsn,
    /// LSN of the next command.
    pub next_lsn: Lsn,
    /// Sequence of the last batch.
    pub last_sequence: u64,
    /// Sequence of the next batch.
    pub next_sequence: u64,
    /// Where it ended; `None` for a log without segments.
    pub active: Option<ActiveSegment>,
    /// Whether batches may be appended there: only after a clean stop. Otherwise a new segment is started.
    pub goes_on: bool,
    /// An id above all that were ever used.
    pub next_segment: SegmentId,
    /// Sealed segments, oldest first, without the active one.
    pub sealed: Vec<super::SegmentSpan>,
    /// Files in the log directory that hold nothing of the log.
    pub spare_files: Vec<SpareFile>,
}

impl LogPosition {
    /// The segment that is appended to: a gap in the LSNs stands at the head of a segment only, so one needs a new segment.
    pub(super) fn appended_to(&self) -> Option<ActiveSegment> {
        self.active.filter(|_| self.goes_on && (self.next_lsn == self.last_lsn.next() || planted(Canary::TornTailKept)))
    }

    /// The last command there is, in the log or in a snapshot only.
    pub(super) fn newest_lsn(&self) -> Lsn {
        self.last_lsn.max(self.state_lsn)
    }

    /// A log that was never written.
    pub fn fresh(store: StoreId) -> LogPosition {
        LogPosition {
            store,
            last_lsn: Lsn::NONE,
            state_lsn: Lsn::NONE,
            next_lsn: Lsn(1),
            last_sequence: 0,
            next_sequence: 1,
            active: None,
            goes_on: false,
            next_segment: SegmentId(1),
            sealed: Vec::new(),
            spare_files: Vec::new(),
        }
    }
}

/// What the log needs of the store's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Longest time an acknowledged command may stay unsynced.
    pub lag: Nanos,
    /// Most bytes that may.
    pub lag_bytes: u64,
    /// Length of a full-grown segment.
    pub segment_bytes: u64,
    /// Most bytes of the open batch, unless one command is larger.
    pub batch_bytes_max: usize,
    /// Batches in flight.
    pub batches_in_flight_max: usize,
    /// Cap on all files of the log together; `None` for none.
    pub log_bytes_max: Option<u64>,
}

impl LogOptions {
    /// The log's part of the settings; `segment_bytes` has been chosen by now.
    pub fn new(options: &Options, segment_bytes: u64) -> LogOptions {
        LogOptions {
            lag: Nanos::from_millis(options.lag_millis),
            lag_bytes: options.lag_bytes,
            segment_bytes,
            batch_bytes_max: options.batch_bytes_max,
            batches_in_flight_max: options.batches_in_flight_max,
            log_bytes_max: None,
        }
    }

    /// Largest frame the log takes: its share of a segment, less both headers with their padding.
    pub fn command_bytes_max(&self) -> usize {
        (self.segment_bytes / SEGMENT_SHARE) as usize - SEGMENT_HEADER_BYTES - BLOCK_BYTES
    }
}
