//! What a transaction must do to leave no trace.
//! Guarantees: undone in reverse order, the trees are as before.
//! Must not know: the log.
//! Next: transaction.rs fills and uses it.

use super::shard::Shard;
use crate::index::{Entry, Tree};

/// One step back.
pub enum Undo {
    /// The key was not there.
    Remove {
        /// Its shard.
        shard: usize,
        /// Its keyspace.
        keyspace: u16,
        /// The key.
        key: Box<[u8]>,
    },
    /// The key had another record.
    Restore {
        /// Its shard.
        shard: usize,
        /// Its keyspace.
        keyspace: u16,
        /// The key.
        key: Box<[u8]>,
        /// The value it had.
        value: Box<[u8]>,
        /// The expiry it had.
        expiry_millis: u64,
    },
    /// The keyspace had these records in the shard.
    Tree {
        /// The shard.
        shard: usize,
        /// The keyspace.
        keyspace: u16,
        /// What it held.
        tree: Tree,
    },
}

impl Undo {
    /// The step back from whatever will be done to a key now.
    pub fn of(shards_place: usize, shard: &Shard, keyspace: u16, key: &[u8]) -> Undo {
        match shard.get(keyspace, key) {
            None => Undo::Remove { shard: shards_place, keyspace, key: key.into() },
            Some(Entry { value, expiry_millis }) => {
                Undo::Restore { shard: shards_place, keyspace, key: key.into(), value: value.into(), expiry_millis }
            }
        }
    }

    /// The shard it is about.
    pub fn shard(&self) -> usize {
        match self {
            Undo::Remove { shard, .. } | Undo::Restore { shard, .. } | Undo::Tree { shard, .. } => *shard,
        }
    }

    /// Takes the step.
    pub fn apply(self, shard: &mut Shard) {
        match self {
            Undo::Remove { keyspace, key, .. } => {
                shard.delete(keyspace, &key);
            }
            Undo::Restore { keyspace, key, value, expiry_millis, .. } => {
                shard.put(keyspace, &key, Entry { value: &value, expiry_millis });
            }
            Undo::Tree { keyspace, tree, .. } => shard.set_tree(keyspace, tree),
        }
    }
}
