//! logd daemon entry.
fn main() {}
