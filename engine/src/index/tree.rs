//! The ordered map of one shard and keyspace. PLACEHOLDER on std's map, replaced by the copy-on-write tree with the same face.
use super::{Entry, Previous};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// An ordered map from key bytes to entries.
#[derive(Clone, Default)]
pub struct Tree {
    map: Arc<Map>,
}

/// A frozen state of a tree.
#[derive(Clone)]
pub struct View {
    tree: Tree,
}

impl Tree {
    /// An empty tree; allocates nothing.
    pub fn new() -> Tree {
        Tree::default()
    }
    /// Number of records.
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
    /// Bytes held by nodes and out-of-line values.
    pub fn bytes(&self) -> usize {
        self.map.iter().map(|(k, v)| k.len() + v.0.len() + 80).sum()
    }
    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.map.get(key).map(|(value, expiry)| Entry { value, expiry_millis: *expiry })
    }
    /// Sets the entry of a key.
    pub fn insert(&mut self, key: &[u8], entry: Entry<'_>) -> Previous {
        let old = Arc::make_mut(&mut self.map).insert(key.to_vec(), (entry.value.to_vec(), entry.expiry_millis));
        previous(old)
    }
    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) -> Previous {
        previous(Arc::make_mut(&mut self.map).remove(key))
    }
    /// Changes when a record ends; nothing if the key is not there.
    pub fn set_expiry(&mut self, key: &[u8], expiry_millis: u64) -> Previous {
        match Arc::make_mut(&mut self.map).get_mut(key) {
            Some(found) => {
                let previous = Previous { existed: true, expiry_millis: found.1, value_bytes: found.0.len() };
                found.1 = expiry_millis;
                previous
            }
            None => Previous::default(),
        }
    }
    /// A frozen copy of the present state; O(1).
    pub fn view(&self) -> View {
        View { tree: self.clone() }
    }
    /// Records between two bounds, in order; can be walked from both ends.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        let empty = match (from, to) {
            (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
            _ => false,
        };
        Range { inner: if empty { None } else { Some(self.map.range::<[u8], _>((from, to))) } }
    }
    /// Some record, chosen by a random number; `None` only if the tree is empty.
    pub fn sample(&self, random: u64) -> Option<(&[u8], Entry<'_>)> {
        let at = random as usize % self.map.len().max(1);
        self.map.iter().nth(at).map(|(k, v)| (k.as_slice(), Entry { value: &v.0, expiry_millis: v.1 }))
    }
}

fn previous(old: Option<(Vec<u8>, u64)>) -> Previous {
    old.map_or(Previous::default(), |(value, expiry_millis)| Previous {
        existed: true,
        expiry_millis,
        value_bytes: value.len(),
    })
}

impl View {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.tree.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }
    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.tree.get(key)
    }
    /// Records between two bounds, in order; can be walked from both ends.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        self.tree.range(from, to)
    }
}

/// Walks records in order, from both ends.
pub struct Range<'a> {
    inner: Option<std::collections::btree_map::Range<'a, Vec<u8>, (Vec<u8>, u64)>>,
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], Entry<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        self.inner.as_mut()?.next().map(|(k, v)| (k.as_slice(), Entry { value: &v.0, expiry_millis: v.1 }))
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.inner.as_mut()?.next_back().map(|(k, v)| (k.as_slice(), Entry { value: &v.0, expiry_millis: v.1 }))
    }
}

/// Builds a tree from records that come in order, denser and faster than by inserting.
#[derive(Default)]
pub struct BulkBuilder {
    map: Map,
}

impl BulkBuilder {
    /// Starts with nothing.
    pub fn new() -> BulkBuilder {
        BulkBuilder::default()
    }
    /// Adds the next record. False, and nothing done, if its key is not above the last.
    pub fn push(&mut self, key: &[u8], entry: Entry<'_>) -> bool {
        if self.map.last_key_value().is_some_and(|(last, _)| last.as_slice() >= key) {
            return false;
        }
        self.map.insert(key.to_vec(), (entry.value.to_vec(), entry.expiry_millis));
        true
    }
    /// The tree.
    pub fn finish(self) -> Tree {
        Tree { map: Arc::new(self.map) }
    }
}
