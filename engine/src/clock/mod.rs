//! What the engine may know of time.
//! Guarantees: `monotonic` never goes back within a process; `wall` promises nothing.
//! Must not know: who asks.
//! Next: core/time.rs makes engine time of the two.

mod os;
#[cfg(feature = "sim")]
mod sim;

pub use os::OsClock;
#[cfg(feature = "sim")]
pub use sim::SimClock;

use crate::units::{Millis, Nanos};

/// The two clocks of a machine.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment of this boot; never goes back.
    fn monotonic(&self) -> Nanos;
    /// The wall clock: may be wrong, may jump either way.
    fn wall(&self) -> Millis;
}
