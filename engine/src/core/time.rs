//! Engine time: what expiries are stored in.
//! Guarantees: never goes back, neither within a process nor across restarts; steps of the wall clock change nothing while running.
//! Must not know: what expires.
//! Next: expire.rs.

use crate::clock::Clock;
use crate::log::Stamp;
use crate::units::{Millis, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How far a measured lead of the wall clock may differ from the one in use and still be taken for the same. The two
/// clocks tick at different moments within a millisecond, so the measured lead swings by one without any step.
const LEAD_SWING_MILLIS: u64 = 2;

/// A millisecond clock that starts at the wall clock, or at the newest time in the log if that is later (a box without
/// a clock battery boots in the past), and then follows the monotonic clock.
#[derive(Clone)]
pub struct EngineTime {
    clock: Arc<dyn Clock>,
    base_millis: u64,
    base_monotonic: Nanos,
    /// Wall clock minus engine time, shared by all clones: the same moment must translate the same way there and back.
    wall_lead_millis: Arc<AtomicI64>,
}

impl EngineTime {
    /// Starts engine time. `floor` is the newest engine time found in the log or snapshot.
    pub fn start(clock: Arc<dyn Clock>, floor: Millis) -> EngineTime {
        let base_millis = clock.wall().0.max(floor.0);
        let lead = clock.wall().0 as i64 - base_millis as i64;
        let wall_lead_millis = Arc::new(AtomicI64::new(lead));
        EngineTime { base_monotonic: clock.monotonic(), base_millis, wall_lead_millis, clock }
    }

    /// Engine time now.
    pub fn now(&self) -> Millis {
        self.at(self.clock.monotonic())
    }

    /// The monotonic clock, for spans.
    pub fn monotonic(&self) -> Nanos {
        self.clock.monotonic()
    }

    /// The wall clock, for people.
    pub fn wall(&self) -> Millis {
        self.clock.wall()
    }

    /// Engine time of a moment given in wall time: as far ahead of engine now as it is of the wall clock now.
    /// A moment that has passed maps to 1, which is in the past and yet not "never".
    pub fn from_wall(&self, wall_millis: i64) -> Millis {
        let time = i128::from(wall_millis) - i128::from(self.wall_lead());
        Millis(time.clamp(1, i128::from(u64::MAX / 2)) as u64)
    }

    /// Wall time of a moment given in engine time, by the wall clock of now.
    pub fn to_wall(&self, time: Millis) -> i64 {
        (i128::from(time.0) + i128::from(self.wall_lead())).clamp(0, i128::from(i64::MAX)) as i64
    }

    /// All clocks at one moment, as the log wants them.
    pub fn stamp(&self) -> Stamp {
        let now = self.clock.monotonic();
        Stamp { now, time: self.at(now), wall: self.clock.wall() }
    }

    /// How far the wall clock is ahead of engine time, by the wall clock of now, without the swing of a millisecond.
    fn wall_lead(&self) -> i64 {
        let measured = self.clock.wall().0 as i64 - self.now().0 as i64;
        let known = self.wall_lead_millis.load(Ordering::Relaxed);
        if measured.abs_diff(known) <= LEAD_SWING_MILLIS {
            return known;
        }
        self.wall_lead_millis.store(measured, Ordering::Relaxed);
        measured
    }

    fn at(&self, monotonic: Nanos) -> Millis {
        Millis(self.base_millis + monotonic.since(self.base_monotonic).0 / 1_000_000)
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::clock::SimClock;

    #[test]
    fn a_wall_clock_that_boots_in_the_past_does_not_turn_engine_time_back() {
        let clock = SimClock::new(Millis(1_000));
        let time = EngineTime::start(Arc::new(clock.clone()), Millis(5_000));
        clock.advance(Nanos::SECOND);
        assert_eq!(time.now(), Millis(6_000));
    }

    #[test]
    fn a_step_of_the_wall_clock_changes_no_expiry() {
        let clock = SimClock::new(Millis(1_000_000));
        let time = EngineTime::start(Arc::new(clock.clone()), Millis(0));
        let due = time.from_wall(1_010_000);
        clock.set_wall(Millis(9_000_000));
        clock.advance(Nanos(9 * Nanos::SECOND.0));
        assert!(time.now() < due);
        clock.advance(Nanos(Nanos::SECOND.0));
        assert_eq!(time.now(), due);
    }

    #[test]
    fn a_wall_time_comes_back_as_it_was_though_the_clocks_tick_at_different_moments() {
        let clock = SimClock::new(Millis(1_000_000));
        let time = EngineTime::start(Arc::new(clock.clone()), Millis(0));
        let due = time.from_wall(2_000_000);
        clock.set_wall(Millis(1_000_001));
        assert_eq!(time.to_wall(due), 2_000_000);
        assert_eq!(time.from_wall(2_000_000), due);
    }
}
