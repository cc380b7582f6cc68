//! The parts of the daemon, for its main program and tests, and its procedures for programs that embed the engine.
//! Next: server.rs for how it starts and stops; net/connection.rs for how a reply is released; executor.rs for how a request runs.
#![allow(missing_docs, reason = "a program's parts; what is for others is documented: voter and reply")]

pub mod args;
pub mod clients;
pub mod config;
pub mod executor;
pub mod glob;
pub mod latency;
pub mod net;
pub mod notes;
pub mod number;
mod procedures;
pub mod request;
pub mod resp;
pub mod server;
pub mod session;
pub mod settings;
pub mod shared;
pub mod shutdown;
#[cfg(test)]
mod testing;

pub use procedures::{reply, voter};
