//! Wakes a thread that sleeps inside io_uring.
//! Guarantees: no wake is lost: either the sleeper sees the state before it sleeps, or the eventfd ends its sleep.
//! A wake costs one atomic exchange while nobody sleeps. One that crosses the end of a sleep may end the next early.
//! Must not know: the ring; uring.rs watches the eventfd.
//! Next: uring.rs.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const WOKEN: u8 = 2;

/// Shared by the sleeper and all who may wake it.
pub(super) struct Bell {
    state: AtomicU8,
    pub(super) eventfd: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> Result<Bell, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { state: AtomicU8::new(AWAKE), eventfd })
    }

    /// Wakes the sleeper, or makes its next sleep end at once.
    pub(super) fn ring(&self) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == SLEEPING {
            // The counter is never read, since the watch on it sees each write; 2^64 of them do not happen.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Announces a sleep. False if there was a wake since the last one: then do not sleep.
    pub(super) fn may_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, SLEEPING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The sleep is over, or was not needed. Forgets wakes, since the caller is about to look at everything.
    pub(super) fn stay_awake(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
    }
}
