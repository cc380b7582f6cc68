//! placeholder
/// o
pub struct SimOptions;
/// s
pub struct SimStorage;
