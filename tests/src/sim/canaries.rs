//! Planted faults: each must make some run fail within a thousand seeds.
//! Guarantees: every fault runs in a process of its own, so that one that panics does not end the others.
//! Must not know: what the faults are; the engine has the list.
//! Next: engine/src/canary.rs.

/// Seeds within which a planted fault must be caught.
pub const SEEDS_MAX: u64 = 1000;
