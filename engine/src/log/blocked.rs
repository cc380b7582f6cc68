//! How a caller's thread sleeps until a word changes, with a time limit of its own.
//! Guarantees: returns whenever the word has changed or was woken; early for no reason at times, so callers look again.
//! Must not know: what the word stands for. Blocked callers are outside of the deterministic core, and so is their clock.
//! Next: waiters.rs decides who sleeps on which word.

use crate::units::Nanos;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::AtomicU32;

/// A moment after which a caller waits no longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Nanos);

impl Deadline {
    /// The moment a span from now.
    pub fn after(span: Nanos) -> Deadline {
        Deadline(monotonic().after(span))
    }
}

/// Sleeps while the word is `seen`. False, without sleeping, if the deadline has passed.
pub(super) fn sleep(word: &AtomicU32, seen: u32, deadline: Option<Deadline>) -> bool {
    let left = deadline.map(|deadline| deadline.0.since(monotonic()));
    if left == Some(Nanos(0)) {
        return false;
    }
    // Any way it ends (woken, changed, interrupted, timed out) the caller looks again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, left.map(timespec).as_ref());
    true
}

/// Wakes all who sleep on a word, with one system call.
pub(super) fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn timespec(span: Nanos) -> Timespec {
    let seconds = i64::try_from(span.0 / 1_000_000_000).expect("nanoseconds of 64 bits are few enough seconds");
    Timespec { tv_sec: seconds, tv_nsec: (span.0 % 1_000_000_000) as _ }
}
