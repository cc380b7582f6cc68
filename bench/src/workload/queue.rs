//! The producer of a store-and-forward queue: appends under counted keys.
//! Guarantees: Q1 numbers are dense in the order of appending; Q2 what others may read is the acknowledged front, which
//! never contains a gap.
//! Must not know: the reader, targets.
//! Next: ../queue.rs runs it beside a reader.

use super::mixed::Counts;
use super::operation::{KeyOrder, Kind, Operation};
use super::{Outcome, Workload};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What the producer, the reader and the clock of the phases share.
#[derive(Debug, Default)]
pub struct QueueState {
    /// Messages before this one are acknowledged to the producer.
    pub appended: AtomicU64,
    /// Messages before this one are acknowledged by the reader and removed.
    pub removed: AtomicU64,
    /// The phase that goes on.
    pub phase: AtomicUsize,
}

/// The producer.
pub struct QueueWorkload {
    state: Arc<QueueState>,
    next: u64,
    bytes: u32,
    broken: bool,
    /// What became of the measured appends.
    pub counts: Counts,
}

impl QueueWorkload {
    /// Appends from number 0 on.
    pub fn new(state: &Arc<QueueState>, bytes: u32) -> QueueWorkload {
        QueueWorkload { state: Arc::clone(state), next: 0, bytes, broken: false, counts: Counts::default() }
    }
}

impl Workload for QueueWorkload {
    type Request = Operation;

    fn next(&mut self) -> Operation {
        self.next += 1;
        let number = self.next - 1;
        let (order, bytes) = (KeyOrder::Counted, self.bytes);
        Operation { kind: Kind::Insert, order, number, count: 1, bytes, fill: 1 }
    }

    fn note(&mut self, operation: &Operation, outcome: Outcome, measured: bool) {
        if measured {
            self.counts.note(operation, outcome);
        }
        match outcome {
            // Acknowledgements come in order over one session, so that this one covers all before it.
            Outcome::Code(_) if !self.broken => self.state.appended.store(operation.number + 1, Ordering::Release),
            _ => self.broken = true,
        }
    }

    fn class(&self, _operation: &Operation) -> usize {
        self.state.phase.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readable_front_ends_before_the_first_append_that_failed() {
        let state = Arc::new(QueueState::default());
        let mut queue = QueueWorkload::new(&state, 10);
        let appends: Vec<Operation> = (0..4).map(|_| queue.next()).collect();
        assert!(appends.iter().map(|append| append.number).eq(0..4));
        let ends = [Outcome::Code(0), Outcome::Code(0), Outcome::Aborted, Outcome::Code(0)];
        appends.iter().zip(ends).for_each(|(append, end)| queue.note(append, end, true));
        assert_eq!(state.appended.load(Ordering::Acquire), 2);
        assert_eq!((queue.counts.done, queue.counts.failed), (3, 1));
    }
}
