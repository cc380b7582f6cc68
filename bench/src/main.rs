//! logbench entry.
fn main() {}
