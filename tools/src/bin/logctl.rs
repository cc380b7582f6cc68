//! logctl: placeholder entry, filled by the tools.
fn main() {}
