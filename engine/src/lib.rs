//! logd-engine: a durable, ordered, in-memory store with a group-committed command log.
//!
//! Reading order: `durability`, `units`, `disk`, `log`, `core`, `db`. docs/ARCHITECTURE.md has the picture.

pub mod clock;
pub mod disk;
pub mod durability;
pub mod error;
pub mod format;
pub mod index;
pub mod limits;
pub mod log;
pub mod mark;
pub mod options;
pub mod prng;
pub mod units;

pub use durability::DurabilityLevel;
pub use error::Error;
pub use options::Options;
