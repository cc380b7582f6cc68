//! What the workspace-wide tests share: the real daemon as a child process, a plain client, loads that know their own truth.
//! Guarantees: ends only processes it started; everything it makes lives in a temporary directory.
//! Must not know: the engine's insides.
//! Next: daemon.rs, client.rs, load.rs; tests/ holds the claims.

pub mod client;
pub mod daemon;
pub mod load;
