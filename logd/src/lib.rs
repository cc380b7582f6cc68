//! The procedures of the daemon, for programs that embed the engine and want to run the same ones.
//! Next: procedures/voter.rs.

mod procedures;

pub use procedures::{reply, voter};
