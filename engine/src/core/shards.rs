//! All shards of a store, each behind its lock.
//! Guarantees: locks are taken in ascending order, so no two transactions wait for each other; no lock is held over a wait.
//! Must not know: the log.
//! Next: transaction.rs holds the guards given out here.

use super::catalog::Keyspace;
use super::scope::{Scope, ShardSet, route};
use super::shard::Shard;
use crate::canary::{Canary, planted};
use crate::index::{Entry, Tree};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Bound;

/// Keeps each lock on cache lines of its own.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// The shards.
pub struct Shards {
    all: Box<[Padded]>,
}

/// Where a walk over a keyspace stands: after `key` in `shard`, or at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanPosition {
    /// Shard number.
    pub shard: usize,
    /// Last key seen there.
    pub after: Option<Box<[u8]>>,
}

/// Locked shards.
pub enum Guards<'a> {
    /// One shard, the usual case.
    One(usize, MutexGuard<'a, Shard>),
    /// Several, by number.
    Many(Vec<Option<MutexGuard<'a, Shard>>>),
}

impl Shards {
    /// Takes over filled shards.
    pub fn new(shards: Vec<Shard>) -> Shards {
        Shards { all: shards.into_iter().map(|shard| Padded(Mutex::new(shard))).collect() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The shard of a key.
    pub fn route(&self, keyspace: Keyspace, key: &[u8]) -> usize {
        route(keyspace, key, self.all.len())
    }

    /// Locks one shard.
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.all[shard].0.lock()
    }

    /// Locks what a scope names.
    pub fn lock_scope(&self, scope: Scope<'_>) -> Guards<'_> {
        let set = match scope {
            Scope::Key(keyspace, key) => {
                let shard = self.route(keyspace, key);
                return Guards::One(shard, self.lock(shard));
            }
            Scope::Keys(keys) => self.set_of(keys),
            Scope::Shards(set) => set,
            Scope::All => ShardSet::all(self.all.len()),
        };
        let mut guards: Vec<_> = self.all.iter().map(|_| None).collect();
        let mut last = None;
        let take = |shard| {
            assert!(last < Some(shard), "shards: locks are taken in ascending order, not {shard} after {last:?}");
            last = Some(shard);
            guards[shard] = Some(self.lock(shard));
        };
        if planted(Canary::ShardsDescending) {
            set.iter().collect::<Vec<_>>().into_iter().rev().for_each(take);
        } else {
            set.iter().for_each(take);
        }
        if planted(Canary::ShardLeftUnlocked) {
            last.into_iter().for_each(|shard| guards[shard] = None);
        }
        Guards::Many(guards)
    }

    /// The shards of some keys.
    pub fn set_of(&self, keys: &[(Keyspace, &[u8])]) -> ShardSet {
        let mut set = ShardSet::new();
        keys.iter().for_each(|(keyspace, key)| set.insert(self.route(*keyspace, key)));
        set
    }

    /// Visits up to `limit` records from a position on, shard by shard. `None` at the end. A record that is there all
    /// the while is visited exactly once over a whole walk.
    pub fn visit(
        &self,
        keyspace: Keyspace,
        from: &ScanPosition,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], Entry<'_>),
    ) -> Option<ScanPosition> {
        let mut walk = Walk { position: from.clone(), left: limit };
        while walk.position.shard < self.all.len() {
            let shard = self.lock(walk.position.shard);
            if walk.shard(&shard, keyspace, visit) {
                return Some(walk.position);
            }
        }
        None
    }

    /// Number of records of a keyspace, due ones included.
    pub fn len(&self, keyspace: Keyspace) -> usize {
        self.sum(|shard| shard.tree(keyspace.number).map_or(0, Tree::len))
    }

    /// Number of records of a keyspace that have a due time.
    pub fn expiring_len(&self, keyspace: Keyspace) -> usize {
        self.sum(|shard| shard.expiry().len_of(keyspace.number))
    }

    /// Records of all keyspaces and the bytes they take.
    pub fn size(&self) -> (u64, u64) {
        (0..self.count()).fold((0, 0), |(records, bytes), shard| {
            let shard = self.lock(shard);
            let trees = shard.trees().iter();
            let (more, size) = trees.fold((0, 0), |(count, size), tree| (count + tree.len(), size + tree.bytes()));
            (records + more as u64, bytes + (size + shard.expiry().bytes()) as u64)
        })
    }

    /// Some key, chosen by a random number; `None` if there is none.
    pub fn sample(&self, keyspace: Keyspace, random: u64) -> Option<Vec<u8>> {
        let start = (random >> 32) as usize % self.count();
        (0..self.count()).find_map(|step| {
            let shard = self.lock((start + step) % self.count());
            shard.tree(keyspace.number)?.sample(random).map(|(key, _)| key.to_vec())
        })
    }

    fn sum(&self, of: impl Fn(&Shard) -> usize) -> usize {
        (0..self.count()).map(|shard| of(&self.lock(shard))).sum()
    }

    /// Earliest due time of all shards, or `u64::MAX`.
    pub fn next_due(&self) -> u64 {
        (0..self.count()).filter_map(|shard| self.lock(shard).expiry().next_due()).min().unwrap_or(u64::MAX)
    }
}

/// A walk over a keyspace in progress.
pub struct Walk {
    /// Where it stands.
    pub position: ScanPosition,
    /// Records it may still visit.
    pub left: usize,
}

impl Walk {
    /// Goes on in the shard where it stands. True when it may visit no more; else it stands at the next shard's start.
    pub fn shard(&mut self, shard: &Shard, keyspace: Keyspace, visit: &mut dyn FnMut(&[u8], Entry<'_>)) -> bool {
        if let Some(tree) = shard.tree(keyspace.number) {
            let bound = self.position.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut last = None;
            for (key, entry) in tree.range(bound, Bound::Unbounded).take(self.left) {
                visit(key, entry);
                self.left -= 1;
                last = Some(key);
            }
            if self.left == 0 {
                self.position.after = last.map(Box::from).or(self.position.after.take());
                return true;
            }
        }
        self.position = ScanPosition { shard: self.position.shard + 1, after: None };
        false
    }
}

impl Guards<'_> {
    /// A locked shard. Panics if it is not: a transaction touched a key outside its scope.
    pub fn shard(&self, shard: usize) -> &Shard {
        match self {
            Guards::One(locked, guard) if *locked == shard => guard,
            Guards::Many(guards) if guards[shard].is_some() => guards[shard].as_deref().expect("just seen"),
            _ => panic!("a transaction touched a key outside its scope (shard {shard} is not locked)"),
        }
    }

    /// The same, to change it.
    pub fn shard_mut(&mut self, shard: usize) -> &mut Shard {
        match self {
            Guards::One(locked, guard) if *locked == shard => guard,
            Guards::Many(guards) if guards[shard].is_some() => guards[shard].as_deref_mut().expect("just seen"),
            _ => panic!("a transaction touched a key outside its scope (shard {shard} is not locked)"),
        }
    }

    /// Whether a shard is locked.
    pub fn holds(&self, shard: usize) -> bool {
        match self {
            Guards::One(locked, _) => *locked == shard,
            Guards::Many(guards) => guards[shard].is_some(),
        }
    }
}
