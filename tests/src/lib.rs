//! What the workspace-wide tests share: the real daemon as a child process, a plain client, loads that know their own truth.
//! Guarantees: ends only processes it started; everything it makes lives in a temporary directory.
//! Must not know: the engine's insides, but for `golden`, which knows its formats.
//! Next: daemon.rs, client.rs, load.rs, round.rs, image.rs; golden.rs and hex.rs for the formats; tests/ holds the claims.

pub mod client;
pub mod daemon;
pub mod fuzz;
pub mod golden;
pub mod hex;
pub mod image;
pub mod load;
pub mod round;
pub mod sim;
pub mod trace;
