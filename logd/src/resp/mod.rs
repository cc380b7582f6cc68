//! The Redis protocol without sockets: RESP2 and RESP3, requests in, replies out.
//! Guarantees: incremental and bounded; the same answer wherever the bytes are split.
//! Must not know: connections, commands, the engine.
//! Next: encode.rs; parse.rs.

pub mod encode;
mod inline;
pub mod parse;

pub use encode::Out;
