//! What the store has done, counted.
//! Guarantees: relaxed atomics; a reading is not a consistent cut, each number is right by itself.
//! Must not know: how it is shown.
//! Next: db/stats.rs makes tables of it.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Running counts.
        #[derive(Debug, Default)]
        pub struct Counters { $(pub(crate) $name: AtomicU64),+ }

        /// The counts at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CountersNow { $($(#[$doc])* pub $name: u64),+ }

        impl Counters {
            /// Reads all.
            pub fn now(&self) -> CountersNow {
                CountersNow { $($name: self.$name.load(Ordering::Relaxed)),+ }
            }
        }

        impl CountersNow {
            /// What was added since an earlier reading.
            pub fn since(&self, earlier: &CountersNow) -> CountersNow {
                CountersNow { $($name: self.$name.wrapping_sub(earlier.$name)),+ }
            }
        }
    };
}

counters! {
    /// Commands that changed something.
    commands,
    /// Keys and values that users wrote, in bytes.
    user_bytes,
    /// Transactions rolled back.
    aborted,
    /// Records removed because they were due.
    expired,
    /// Procedure calls.
    calls,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
