//! STAND-IN for the other half's lib.rs.
#![allow(missing_docs)]
pub mod args;
pub mod config;
pub mod executor;
pub mod net;
pub mod notes;
pub mod request;
pub mod resp;
pub mod server;
pub mod session;
pub mod settings;
pub mod shared;
pub mod shutdown;
