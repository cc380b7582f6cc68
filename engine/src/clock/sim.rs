//! Clocks that stand still until the simulation moves them.
//! Guarantees: no two readings differ unless the simulation moved the clock between them.
//! Must not know: the schedule.
//! Next: disk/sim.rs is the simulated disk.

use super::Clock;
use crate::units::{Millis, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pair of clocks under a test's control; clones share them.
#[derive(Clone, Debug)]
pub struct SimClock {
    monotonic: Arc<AtomicU64>,
    wall: Arc<AtomicU64>,
}

impl SimClock {
    /// Clocks that start at zero and at a wall time.
    pub fn new(wall: Millis) -> SimClock {
        SimClock { monotonic: Arc::new(AtomicU64::new(0)), wall: Arc::new(AtomicU64::new(wall.0)) }
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, span: Nanos) {
        let before = self.monotonic.fetch_add(span.0, Ordering::SeqCst);
        let millis = (before + span.0) / 1_000_000 - before / 1_000_000;
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }

    /// Steps the wall clock only, as a time server or a flat battery would.
    pub fn set_wall(&self, wall: Millis) {
        self.wall.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Nanos {
        Nanos(self.monotonic.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Millis {
        Millis(self.wall.load(Ordering::SeqCst))
    }
}
