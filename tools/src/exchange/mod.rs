//! Files of other stores: RDB and AOF as Redis and Valkey write them, and what is made for them.
//! Guarantees: a length is bounded by what is really there before it is believed; a file is read as a stream, one value in memory.
//! Must not know: stores, command lines.
//! Next: rdb_read.rs, aof.rs for the way in; rdb_write.rs for the way out.

pub mod aof;
pub mod input;
mod lzf;
pub mod rdb_read;
mod rdb_skip;
pub mod rdb_write;

/// A string as all these files have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Number of the database.
    pub database: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When it ends, in wall milliseconds; 0 for never.
    pub expiry_millis: u64,
}
