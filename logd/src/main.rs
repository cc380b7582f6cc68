//! logd: the daemon. Wiring only.
//! Next: args.rs, server.rs.
#![allow(dead_code, missing_docs)]
mod glob;
mod number;
mod request;
mod resp;

fn main() {}
