//! logd-engine: a durable, ordered, in-memory store with a group-committed command log.
//!
//! Guarantees: acknowledged means durable, at the level chosen for each write; docs/DURABILITY.md has the table.
//! Next: read `durability`, `units`, `disk`, `log`, `core`, `db` in this order; docs/ARCHITECTURE.md has the picture.

pub mod canary;
pub mod checkpoint;
pub mod clock;
pub mod core;
pub mod db;
pub mod digest;
pub mod disk;
pub mod durability;
pub mod error;
pub mod format;
pub mod index;
pub mod limits;
pub mod log;
pub mod loss;
pub mod maintenance;
pub mod manifest;
pub mod mark;
pub mod options;
pub mod prng;
pub mod recovery;
pub mod snapshot;
#[cfg(test)]
mod test_disk;
pub mod units;
pub mod verify;

pub use core::{
    Context, Direction, EngineTime, Keyspace, KeyspaceOptions, LogForm, Procedure, Record, Routing, ScanPosition,
    Scope, Ticket, Transaction,
};
pub use db::{Batch, Db, Stats};
pub use durability::DurabilityLevel;
pub use error::Error;
pub use options::{OnCorruption, Options};
