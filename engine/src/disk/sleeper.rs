//! Where a disk without a kernel queue sleeps until its waker is used.
//! Guarantees: a wake before the sleep ends that sleep; several wakes are as one.
//! Must not know: operations and completions.
//! Next: syscall.rs and sim/disk.rs sleep here.

use super::DiskWaker;
use crate::units::Nanos;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// One sleeping place.
#[derive(Default)]
pub(super) struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    /// Ends the sleep that is going on, or else the next.
    pub(super) fn wake(&self) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }

    /// Sleeps until woken or the time passed.
    pub(super) fn sleep(&self, limit: Option<Nanos>) {
        let mut woken = self.woken.lock();
        match limit {
            None => self.changed.wait_while(&mut woken, |woken| !*woken),
            Some(limit) => {
                self.changed.wait_while_for(&mut woken, |woken| !*woken, Duration::from_nanos(limit.0));
            }
        }
        *woken = false;
    }

    /// Forgets a wake: the caller is about to look at everything anyway.
    pub(super) fn forget(&self) {
        *self.woken.lock() = false;
    }

    /// A handle that wakes.
    pub(super) fn waker(self: &Arc<Self>) -> DiskWaker {
        let sleeper = Arc::clone(self);
        DiskWaker(Arc::new(move || sleeper.wake()))
    }
}
