//! Procedures in Rust that run inside the engine.
//! Next: reply.rs is their form of arguments and replies; voter.rs is one set of them.

mod area_codes;
pub mod reply;
pub mod voter;
