//! The bound on what a power cut may take: how old and how much the unsynced part of the log is.
//! Guarantees: the bound counts every unsynced command, also those nobody was told about, so it errs on the safe side.
//! Must not know: clocks; readings are given.
//! Next: append.rs asks whether acknowledgements without a sync are still allowed.

use crate::canary::{Canary, planted};
use crate::units::{Lsn, Nanos};
use std::collections::VecDeque;

/// One batch on its way to stable storage.
#[derive(Clone, Copy, Debug)]
struct Unsynced {
    last_lsn: Lsn,
    oldest: Nanos,
    bytes: u64,
}

/// Keeps the age and size of what is unsynced.
#[derive(Debug)]
pub(super) struct Lag {
    span: Nanos,
    bytes_max: u64,
    batches: VecDeque<Unsynced>,
    bytes: u64,
}

/// Age and size of the open batch, which no sync can cover yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenLag {
    pub oldest: Option<Nanos>,
    pub bytes: u64,
}

impl Lag {
    pub fn new(span: Nanos, bytes_max: u64) -> Lag {
        Lag { span, bytes_max, batches: VecDeque::new(), bytes: 0 }
    }

    /// A batch left the queue.
    pub fn taken(&mut self, last_lsn: Lsn, oldest: Nanos, bytes: u64) {
        self.batches.push_back(Unsynced { last_lsn, oldest, bytes });
        self.bytes += bytes;
    }

    /// Everything up to `lsn` is on stable storage.
    pub fn synced(&mut self, lsn: Lsn) {
        while let Some(batch) = self.batches.front().filter(|batch| batch.last_lsn <= lsn) {
            self.bytes -= batch.bytes;
            self.batches.pop_front();
        }
    }

    /// Whether a command may be acknowledged before it is synced.
    pub fn holds(&self, now: Nanos, open: OpenLag) -> bool {
        let young = self.oldest(open).is_none_or(|oldest| now.since(oldest) < self.span);
        (young && self.bytes + open.bytes < self.bytes_max) || planted(Canary::LagIgnored)
    }

    /// When a sync has to be started so that the bound is not reached: half-way. `None`: nothing is unsynced.
    pub fn due_at(&self, open: OpenLag) -> Option<Nanos> {
        let oldest = self.oldest(open).filter(|_| !planted(Canary::LagIgnored))?;
        let full = self.bytes + open.bytes >= self.bytes_max / 2;
        Some(if full { Nanos(0) } else { oldest.after(Nanos(self.span.0 / 2)) })
    }

    fn oldest(&self, open: OpenLag) -> Option<Nanos> {
        if planted(Canary::LagFromNewest) {
            return open.oldest.or(self.batches.back().map(|batch| batch.oldest));
        }
        self.batches.front().map(|batch| batch.oldest).or(open.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: OpenLag = OpenLag { oldest: None, bytes: 0 };

    #[test]
    fn the_bound_breaks_by_age_and_by_bytes_and_heals_with_a_sync() {
        let mut lag = Lag::new(Nanos(100), 1000);
        assert!(lag.holds(Nanos(5), NOTHING));
        assert_eq!(lag.due_at(NOTHING), None);
        lag.taken(Lsn(3), Nanos(10), 400);
        assert!(lag.holds(Nanos(109), NOTHING));
        assert!(!lag.holds(Nanos(110), NOTHING));
        assert_eq!(lag.due_at(NOTHING), Some(Nanos(60)));
        let open = OpenLag { oldest: Some(Nanos(20)), bytes: 600 };
        assert!(!lag.holds(Nanos(21), open));
        assert_eq!(lag.due_at(open), Some(Nanos(0)));
        lag.synced(Lsn(2));
        assert!(!lag.holds(Nanos(21), open));
        lag.synced(Lsn(3));
        assert!(lag.holds(Nanos(21), open));
        assert_eq!(lag.due_at(OpenLag { bytes: 10, ..open }), Some(Nanos(70)));
    }
}
