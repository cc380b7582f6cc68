//! One ordered, in-memory map with copy-on-write views: what the engine keeps its records in.
//! Guarantees: a `View` is O(1) to take and never changes; order is that of the key bytes.
//! Must not know: the log, disks, time, keyspaces, shards.
//! Next: tree.rs, then node.rs.

mod bulk;
mod cursor;
mod edit;
mod expiry;
mod insert;
mod node;
mod past;
mod remove;
mod rubble;
mod search;
mod tree;

pub use bulk::BulkBuilder;
pub use cursor::Range;
pub use expiry::ExpiryIndex;
pub use past::{Past, PastRange, PastView};
pub use rubble::Rubble;
pub use tree::{Tree, View};

/// What stands behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When the record ends, in engine milliseconds; 0 for never.
    pub expiry_millis: u64,
}

/// What an insertion or removal found in the key's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Previous {
    /// Whether the key was there.
    pub existed: bool,
    /// Its expiry; 0 for none.
    pub expiry_millis: u64,
    /// Length of its value in bytes.
    pub value_bytes: usize,
}

#[cfg(test)]
mod tests;
