//! What a snapshot is made of: the state at one LSN, read shard by shard while everything goes on changing in place.
//! Guarantees: the cut is one LSN over all shards and costs O(shards and keyspaces); no lock is held while records are copied;
//! memory beside the state is the old records of what was changed and not yet written, nothing else.
//! Must not know: files, pacing.
//! Next: index/past.rs keeps the old records; snapshot/writer.rs asks for the looks.

use super::scope::{Scope, ShardSet};
use super::{Core, image};
use crate::canary::{Canary, planted};
use crate::checkpoint::Cut;
use crate::index::{PastView, Tree};
use crate::snapshot::{Content, Part};
use parking_lot::MutexGuard;
use std::sync::Arc;

/// Old records forgotten under one hold of a shard's lock.
const FORGET_MAX: usize = 64;

/// One shard's records of one keyspace as they were at the cut. Dropping it ends the keeping of old records.
struct CutPart {
    core: Arc<Core>,
    shard: usize,
    keyspace: u16,
}

impl Content for CutPart {
    fn behind(&mut self, after: Option<&[u8]>) -> PastView {
        loop {
            let mut shard = self.core.shards.lock(self.shard);
            if let Some(look) = shard.view_past(self.keyspace, after, FORGET_MAX) {
                return look;
            }
            // Whoever waits for the lock gets it between two holds.
            MutexGuard::unlock_fair(shard);
        }
    }
}

impl Drop for CutPart {
    fn drop(&mut self) {
        let ended = self.core.shards.lock(self.shard).end_past(self.keyspace);
        if let Some(past) = ended {
            past.into_trees().for_each(|tree| self.core.discard(tree));
        }
    }
}

impl Core {
    /// Cuts: from here on every change keeps what the snapshot of the present state still needs. One cut at a time; it ends
    /// when its parts are dropped.
    pub fn cut(self: &Arc<Core>) -> Cut {
        let catalog = self.catalog.read();
        let mut guards = self.shards.lock_scope(Scope::Shards(ShardSet::all(self.shards.count())));
        let (assigned, time) = (self.log.watermarks().assigned, self.time.now());
        let lsn = if planted(Canary::AppliedTwice) { assigned.previous() } else { assigned };
        let meta = image::meta(self.log.store(), &catalog, lsn, time, self.shards.count());
        let mut parts = Vec::new();
        for shard in 0..self.shards.count() {
            let trees = guards.shard(shard).trees().iter().enumerate();
            let logged = trees.filter(|(number, tree)| catalog.is_logged(*number) && !tree.is_empty());
            let numbers: Vec<u16> = logged.map(|(number, _)| number as u16).collect();
            for keyspace in numbers {
                guards.shard_mut(shard).begin_past(keyspace);
                let content = Box::new(CutPart { core: Arc::clone(self), shard, keyspace });
                let keyspace = keyspace.saturating_sub(u16::from(planted(Canary::KeyspaceNumberOff)));
                parts.push(Part { shard: shard as u16, keyspace, content });
            }
        }
        Cut { meta, parts }
    }

    /// Bytes held for a snapshot alone, and bytes of all records.
    pub fn past_bytes(&self) -> (u64, u64) {
        (0..self.shards.count()).fold((0, 0), |(kept, all), shard| {
            let shard = self.shards.lock(shard);
            let bytes: usize = shard.trees().iter().map(Tree::bytes).sum();
            (kept + shard.past_bytes() as u64, all + bytes as u64)
        })
    }

    /// Leaves a tree that nobody needs to the maintenance driver, which frees it in pieces.
    pub(super) fn discard(&self, tree: Tree) {
        if !tree.is_empty() {
            self.discarded.lock().push(tree);
            self.wake_maintenance();
        }
    }

    /// Trees to be freed.
    pub fn take_discarded(&self) -> Vec<Tree> {
        std::mem::take(&mut *self.discarded.lock())
    }
}

#[cfg(test)]
mod tests;
