//! The records of one shard: a tree per keyspace, due times, watches. The only place that changes the index.
//! Guarantees: the due times agree with the trees; every change is told to the watches.
//! Must not know: the log, locks, other shards.
//! Next: shards.rs puts a lock around it; transaction.rs calls it.

use super::watch::Watched;
use crate::index::{Entry, ExpiryIndex, Previous, Tree};
use std::ops::Bound;

/// One part of the store.
#[derive(Default)]
pub struct Shard {
    trees: Vec<Tree>,
    expiry: ExpiryIndex,
    /// Keys whose change somebody wants to notice.
    pub watched: Watched,
}

impl Shard {
    /// The entry of a key, whether due or not.
    pub fn get(&self, keyspace: u16, key: &[u8]) -> Option<Entry<'_>> {
        self.trees.get(usize::from(keyspace))?.get(key)
    }

    /// Sets an entry.
    pub fn put(&mut self, keyspace: u16, key: &[u8], entry: Entry<'_>) -> Previous {
        let previous = self.tree_mut(keyspace).insert(key, entry);
        self.expiry.set(keyspace, key, previous.expiry_millis, entry.expiry_millis);
        self.watched.touch(keyspace, key);
        previous
    }

    /// Removes a key.
    pub fn delete(&mut self, keyspace: u16, key: &[u8]) -> Previous {
        let previous = self.tree_mut(keyspace).remove(key);
        if previous.existed {
            self.expiry.set(keyspace, key, previous.expiry_millis, 0);
            self.watched.touch(keyspace, key);
        }
        previous
    }

    /// Changes when a record ends.
    pub fn set_expiry(&mut self, keyspace: u16, key: &[u8], expiry_millis: u64) -> Previous {
        let previous = self.tree_mut(keyspace).set_expiry(key, expiry_millis);
        if previous.existed {
            self.expiry.set(keyspace, key, previous.expiry_millis, expiry_millis);
            self.watched.touch(keyspace, key);
        }
        previous
    }

    /// Removes all records of a keyspace and gives them back as they were.
    pub fn clear(&mut self, keyspace: u16) -> Tree {
        let tree = std::mem::take(self.tree_mut(keyspace));
        self.expiry.clear_keyspace(keyspace);
        self.watched.touch_cleared(keyspace, |key| tree.get(key).is_some());
        tree
    }

    /// Puts a whole tree in the place of a keyspace's records: loading, and undoing `clear`.
    pub fn set_tree(&mut self, keyspace: u16, tree: Tree) {
        self.expiry.clear_keyspace(keyspace);
        for (key, entry) in tree.range(Bound::Unbounded, Bound::Unbounded) {
            self.expiry.set(keyspace, key, 0, entry.expiry_millis);
        }
        *self.tree_mut(keyspace) = tree;
    }

    /// The tree of a keyspace, if it ever had a record here.
    pub fn tree(&self, keyspace: u16) -> Option<&Tree> {
        self.trees.get(usize::from(keyspace))
    }

    /// All trees, by keyspace number.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Due times.
    pub fn expiry(&self) -> &ExpiryIndex {
        &self.expiry
    }

    fn tree_mut(&mut self, keyspace: u16) -> &mut Tree {
        let at = usize::from(keyspace);
        if at >= self.trees.len() {
            self.trees.resize_with(at + 1, Tree::new);
        }
        &mut self.trees[at]
    }
}
