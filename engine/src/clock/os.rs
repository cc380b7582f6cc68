//! The system's clocks.
//! Guarantees: as in the contract of `Clock`.
//! Must not know: the rest of the engine.
//! Next: clock/sim.rs is the other implementation.

use super::Clock;
use crate::units::{Millis, Nanos};
use rustix::time::{ClockId, clock_gettime};

/// The clocks of the machine this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl Clock for OsClock {
    fn monotonic(&self) -> Nanos {
        let now = clock_gettime(ClockId::Boottime);
        Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn wall(&self) -> Millis {
        let now = clock_gettime(ClockId::Realtime);
        Millis(now.tv_sec.max(0) as u64 * 1000 + now.tv_nsec as u64 / 1_000_000)
    }
}
