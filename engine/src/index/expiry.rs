//! Due times in order: which records end next.
//! Guarantees: each record once, at the time last set; equal times in order of keyspace and key.
//! Must not know: clocks and trees of records; whoever sets an expiry there tells it here.
//! Next: nothing; this is a leaf.

use super::{BulkBuilder, Entry, Tree};
use std::ops::Bound;

/// Where keyspace and key begin behind the due time.
const KEYSPACE_AT: usize = 8;
const KEY_AT: usize = 10;
const NOTHING: Entry<'static> = Entry { value: &[], expiry_millis: 0 };

/// Which records of one shard end when. Kept in a `Tree` under due time, keyspace and key, all big-endian.
#[derive(Default)]
pub struct ExpiryIndex {
    tree: Tree,
    place: Vec<u8>,
    /// Records by keyspace.
    counts: Vec<usize>,
}

impl ExpiryIndex {
    /// Starts with nothing.
    pub fn new() -> ExpiryIndex {
        ExpiryIndex::default()
    }

    /// Moves a record from its old due time to a new one; 0 stands for none.
    pub fn set(&mut self, keyspace: u16, key: &[u8], old_millis: u64, new_millis: u64) {
        if old_millis == new_millis {
            return;
        }
        for (millis, is_new) in [(old_millis, false), (new_millis, true)] {
            if millis == 0 {
                continue;
            }
            self.place.clear();
            self.place.extend_from_slice(&millis.to_be_bytes());
            self.place.extend_from_slice(&keyspace.to_be_bytes());
            self.place.extend_from_slice(key);
            if is_new {
                self.tree.insert(&self.place, NOTHING);
                *self.count_mut(keyspace) += 1;
            } else {
                self.tree.remove(&self.place);
                *self.count_mut(keyspace) -= 1;
            }
        }
    }

    /// Number of records of one keyspace that have a due time.
    pub fn len_of(&self, keyspace: u16) -> usize {
        self.counts.get(usize::from(keyspace)).copied().unwrap_or(0)
    }

    fn count_mut(&mut self, keyspace: u16) -> &mut usize {
        let at = usize::from(keyspace);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }

    /// When the next record ends.
    pub fn next_due(&self) -> Option<u64> {
        self.tree.first().map(|(place, _)| due_millis(place))
    }

    /// Records that have ended by now, longest ended first, and not more than `limit`.
    pub fn peek_due(&self, now_millis: u64, limit: usize) -> Vec<(u16, Box<[u8]>)> {
        let all = self.tree.range(Bound::Unbounded, Bound::Unbounded);
        let due = all.map(|(place, _)| place).take_while(|place| due_millis(place) <= now_millis);
        due.take(limit).map(|place| (keyspace(place), place[KEY_AT..].into())).collect()
    }

    /// Takes out records that have ended by now, longest ended first, and not more than `limit`.
    pub fn pop_due(&mut self, now_millis: u64, limit: usize) -> Vec<(u16, Box<[u8]>)> {
        let mut popped = Vec::new();
        while popped.len() < limit {
            let Some((place, _)) = self.tree.first() else { break };
            if due_millis(place) > now_millis {
                break;
            }
            let place = Box::<[u8]>::from(place);
            popped.push((keyspace(&place), place[KEY_AT..].into()));
            self.tree.remove(&place);
            *self.count_mut(keyspace(&place)) -= 1;
        }
        popped
    }

    /// Forgets all records of a keyspace. Rare, so it goes through all.
    pub fn clear_keyspace(&mut self, keyspace_gone: u16) {
        if self.len_of(keyspace_gone) == 0 {
            return;
        }
        *self.count_mut(keyspace_gone) = 0;
        let mut kept = BulkBuilder::new();
        for (place, nothing) in self.tree.range(Bound::Unbounded, Bound::Unbounded) {
            if keyspace(place) != keyspace_gone {
                let is_above = kept.push(place, nothing);
                debug_assert!(is_above, "a walk comes in order");
            }
        }
        self.tree = kept.finish();
    }

    /// Number of records with a due time.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> usize {
        self.tree.bytes()
    }
}

fn due_millis(place: &[u8]) -> u64 {
    u64::from_be_bytes(*place.first_chunk().expect("every place begins with a due time"))
}

fn keyspace(place: &[u8]) -> u16 {
    u16::from_be_bytes(*place[KEYSPACE_AT..].first_chunk().expect("a keyspace follows the due time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_due_in_order_and_at_the_time_last_set() {
        let mut index = ExpiryIndex::new();
        index.set(1, b"late", 0, 300);
        index.set(1, b"early", 0, 100);
        index.set(2, b"moved", 0, 50);
        index.set(2, b"moved", 50, 200);
        index.set(1, b"gone", 0, 10);
        index.set(1, b"gone", 10, 0);
        assert_eq!((index.len(), index.next_due()), (3, Some(100)));
        assert!(index.pop_due(99, 10).is_empty());
        assert_eq!(index.peek_due(200, 10).len(), 2);
        assert_eq!(index.pop_due(200, 1), [(1, b"early"[..].into())]);
        assert_eq!(index.pop_due(200, 10), [(2, b"moved"[..].into())]);
        assert_eq!(index.next_due(), Some(300));
    }

    #[test]
    fn clearing_a_keyspace_leaves_the_others() {
        let mut index = ExpiryIndex::new();
        for millis in 1..500_u64 {
            index.set((millis % 3) as u16, &millis.to_le_bytes(), 0, 1000 - millis);
        }
        index.clear_keyspace(1);
        assert!(index.peek_due(1000, 1000).iter().all(|(keyspace, _)| *keyspace != 1));
        assert_eq!(index.pop_due(1000, 1000).len(), 499 - 167);
        assert!(index.is_empty());
        assert_eq!((index.bytes(), index.next_due()), (0, None));
    }
}
