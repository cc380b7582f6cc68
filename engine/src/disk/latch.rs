//! placeholder
/// Latch
pub struct Latch;
