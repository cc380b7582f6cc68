//! Which shards a transaction needs.
//! Guarantees: routing depends on nothing but the key bytes, the keyspace's routing and the number of shards.
//! Must not know: locks.
//! Next: shards.rs takes the locks.

use super::catalog::{Keyspace, Routing};
use crate::limits::SHARDS_MAX;
use xxhash_rust::xxh3::xxh3_64;

/// Names the routing hash in snapshots: a store written with another is re-routed while loading.
pub const ROUTING_HASH_ID: u16 = 1;

/// What a transaction will touch. Naming less locks less; touching what was not named panics.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// One key.
    Key(Keyspace, &'a [u8]),
    /// Several keys.
    Keys(&'a [(Keyspace, &'a [u8])]),
    /// Shards worked out before.
    Shards(ShardSet),
    /// Everything.
    All,
}

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet {
    bits: [u64; SHARDS_MAX / 64],
}

impl ShardSet {
    /// The empty set.
    pub fn new() -> ShardSet {
        ShardSet::default()
    }

    /// The first `count` shards.
    pub fn all(count: usize) -> ShardSet {
        let mut set = ShardSet::new();
        (0..count).for_each(|shard| set.insert(shard));
        set
    }

    /// Adds one.
    pub fn insert(&mut self, shard: usize) {
        self.bits[shard / 64] |= 1 << (shard % 64);
    }

    /// Whether one is in it.
    pub fn contains(&self, shard: usize) -> bool {
        self.bits[shard / 64] & (1 << (shard % 64)) != 0
    }

    /// The shards, ascending: the order in which locks are taken.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().flat_map(|(word, &bits)| {
            let mut rest = bits;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

/// The shard of a key.
pub fn route(keyspace: Keyspace, key: &[u8], shards: usize) -> usize {
    let routed = match keyspace.routing {
        Routing::WholeKey => key,
        Routing::Prefix(bytes) => &key[..key.len().min(usize::from(bytes))],
        Routing::OneShard => return usize::from(keyspace.number) % shards,
    };
    ((u128::from(xxh3_64(routed)) * shards as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_shards_in_ascending_order() {
        let mut set = ShardSet::new();
        [200, 3, 64, 63].into_iter().for_each(|shard| set.insert(shard));
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 200]);
        assert!(set.contains(64));
        assert!(!set.contains(65));
    }
}
