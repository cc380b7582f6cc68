//! logd: the daemon. Wiring only.
//! Next: args.rs, server.rs.
#![allow(dead_code, missing_docs)]
mod clients;
mod executor;
mod glob;
mod latency;
mod number;
mod request;
mod resp;
mod session;
mod settings;
mod shared;
#[cfg(test)]
mod testing;

fn main() {}
