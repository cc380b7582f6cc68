//! The records of one shard: a tree per keyspace, due times, watches. The only place that changes the index.
//! Guarantees: the due times agree with the trees; every change is told to the watches, and to a snapshot being written
//! before it is made.
//! Must not know: the log, locks, other shards.
//! Next: shards.rs puts a lock around it; transaction.rs calls it.

use super::watch::Watched;
use crate::canary::{Canary, planted};
use crate::index::{Entry, ExpiryIndex, Past, PastView, Previous, Tree};
use std::ops::Bound;

/// One part of the store.
#[derive(Default)]
pub struct Shard {
    trees: Vec<Tree>,
    expiry: ExpiryIndex,
    /// By keyspace: what a snapshot that is being written still needs. Empty while there is none.
    pasts: Vec<Option<Past>>,
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
        self.keep_past(keyspace, key);
        let previous = self.tree_mut(keyspace).insert(key, entry);
        self.expiry.set(keyspace, key, previous.expiry_millis, entry.expiry_millis);
        self.watched.touch(keyspace, key);
        previous
    }

    /// Removes a key.
    pub fn delete(&mut self, keyspace: u16, key: &[u8]) -> Previous {
        if !planted(Canary::DeleteNotKept) {
            self.keep_past(keyspace, key);
        }
        let previous = self.tree_mut(keyspace).remove(key);
        if previous.existed {
            self.expiry.set(keyspace, key, previous.expiry_millis, 0);
            self.watched.touch(keyspace, key);
        }
        previous
    }

    /// Changes when a record ends.
    pub fn set_expiry(&mut self, keyspace: u16, key: &[u8], expiry_millis: u64) -> Previous {
        self.keep_past(keyspace, key);
        let previous = self.tree_mut(keyspace).set_expiry(key, expiry_millis);
        if previous.existed {
            self.expiry.set(keyspace, key, previous.expiry_millis, expiry_millis);
            self.watched.touch(keyspace, key);
        }
        previous
    }

    /// Removes all records of a keyspace and gives them back as they were.
    pub fn clear(&mut self, keyspace: u16) -> Tree {
        self.keep_all(keyspace);
        let tree = std::mem::take(self.tree_mut(keyspace));
        self.expiry.clear_keyspace(keyspace);
        self.watched.touch_cleared(keyspace, |key| tree.get(key).is_some());
        tree
    }

    /// Puts a whole tree in the place of a keyspace's records: loading, and undoing `clear`.
    pub fn set_tree(&mut self, keyspace: u16, tree: Tree) {
        self.keep_all(keyspace);
        self.expiry.clear_keyspace(keyspace);
        for (key, entry) in tree.range(Bound::Unbounded, Bound::Unbounded) {
            if !planted(Canary::DueTimesNotLoaded) {
                self.expiry.set(keyspace, key, 0, entry.expiry_millis);
            }
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

    /// The present state of a keyspace is what a snapshot will hold.
    pub fn begin_past(&mut self, keyspace: u16) {
        let at = usize::from(keyspace);
        if at >= self.pasts.len() {
            self.pasts.resize_with(at + 1, || None);
        }
        assert!(self.pasts[at].is_none(), "one snapshot is written at a time");
        self.pasts[at] = Some(Past::new());
    }

    /// A keyspace behind `after`, as it was at `begin_past`. `None` when more than `forget_max` records had to be forgotten first:
    /// then it has to be asked for again.
    pub fn view_past(&mut self, keyspace: u16, after: Option<&[u8]>, forget_max: usize) -> Option<PastView> {
        let at = usize::from(keyspace);
        let past = self.pasts.get_mut(at).and_then(Option::as_mut).expect("begun, and not ended yet");
        if after.is_some_and(|after| !past.pass(after, forget_max)) {
            return None;
        }
        Some(past.view(&self.trees[at]))
    }

    /// The snapshot needs nothing more of a keyspace. What had been kept for it comes back.
    pub fn end_past(&mut self, keyspace: u16) -> Option<Past> {
        let ended = self.pasts.get_mut(usize::from(keyspace)).and_then(Option::take);
        if self.pasts.iter().all(Option::is_none) {
            self.pasts = Vec::new();
        }
        ended
    }

    /// Bytes held for a snapshot alone.
    pub fn past_bytes(&self) -> usize {
        self.pasts.iter().flatten().map(Past::bytes).sum()
    }

    #[inline]
    fn keep_past(&mut self, keyspace: u16, key: &[u8]) {
        if !self.pasts.is_empty() {
            self.with_past(keyspace, |past, tree| past.note(tree, key));
        }
    }

    fn keep_all(&mut self, keyspace: u16) {
        self.with_past(keyspace, Past::note_all);
    }

    fn with_past(&mut self, keyspace: u16, note: impl FnOnce(&mut Past, &Tree)) {
        let at = usize::from(keyspace);
        if let Some(past) = self.pasts.get_mut(at).and_then(Option::as_mut) {
            note(past, &self.trees[at]);
        }
    }

    fn tree_mut(&mut self, keyspace: u16) -> &mut Tree {
        let at = usize::from(keyspace);
        if at >= self.trees.len() {
            self.trees.resize_with(at + 1, Tree::new);
        }
        &mut self.trees[at]
    }
}
