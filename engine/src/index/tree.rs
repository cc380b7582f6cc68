//! The ordered map of one shard and keyspace, and its frozen views: the face of the index.
//! Guarantees: a view is O(1) to take and to copy and never changes; the tree copies the nodes on the way to a change if
//! a view can see them, and changes them in place if not.
//! Must not know: memory, cells.
//! Next: insert.rs, remove.rs, cursor.rs.

use super::cursor::{Position, Range};
use super::node::Node;
use super::{Entry, Previous, insert, remove};
use std::ops::Bound;

/// An ordered map from key bytes to entries. A clone is O(1), and each goes its own way from there.
#[derive(Clone, Default)]
pub struct Tree {
    root: Option<Node>,
    len: usize,
    bytes: usize,
}

/// A frozen state of a tree. Dropping the last view of a state frees what only that state held, all at once.
#[derive(Clone, Default)]
pub struct View {
    root: Option<Node>,
    len: usize,
}

impl Tree {
    /// An empty tree; allocates nothing.
    pub fn new() -> Tree {
        Tree::default()
    }

    pub(super) fn from_parts(root: Option<Node>, len: usize, bytes: usize) -> Tree {
        Tree { root, len, bytes }
    }

    /// What is left of it, to be taken apart.
    pub(super) fn into_root(self) -> Option<Node> {
        self.root
    }

    #[cfg(test)]
    pub(super) fn root(&self) -> Option<&Node> {
        self.root.as_ref()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all nodes and out-of-line keys and values that this tree reaches, shared with views or not, without the
    /// allocator's own. What only views still hold is not in it; without views it is what the tree costs.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        get(self.root.as_ref(), key)
    }

    /// Sets the entry of a key.
    pub fn insert(&mut self, key: &[u8], entry: Entry<'_>) -> Previous {
        let bytes = &mut self.bytes;
        let root = self.root.get_or_insert_with(|| new_node(0, bytes));
        let (previous, split) = insert::insert(root, bytes, key, entry);
        if let Some(split) = split {
            let above = new_node(root.level() + 1, bytes);
            let left = std::mem::replace(root, above);
            let mut root = root.unique(bytes);
            root.insert_child(0, &[], left);
            root.insert_child(1, &split.separator, split.right);
        }
        self.len += usize::from(!previous.existed);
        previous
    }

    /// Sets the expiry of a key that is there, 0 for none, and leaves its value as it is.
    pub fn set_expiry(&mut self, key: &[u8], expiry_millis: u64) -> Previous {
        let (true, Some(mut node)) = (self.get(key).is_some(), self.root.as_mut()) else {
            return Previous::default();
        };
        let mut bytes = &mut self.bytes;
        loop {
            let mut edit = node.unique(bytes);
            if edit.level() == 0 {
                return edit.find(key).map_or(Previous::default(), |index| edit.set_expiry(index, expiry_millis));
            }
            let index = edit.child_index(key);
            (node, bytes) = edit.into_child(index);
        }
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) -> Previous {
        // Looked up first: a key that is not there must not cost copies.
        let (true, Some(root)) = (self.get(key).is_some(), self.root.as_mut()) else {
            return Previous::default();
        };
        let previous = remove::remove(root, &mut self.bytes, key);
        self.len -= 1;
        while root.level() > 0 && root.count() == 1 {
            let child = root.unique(&mut self.bytes).take_child(0);
            self.bytes -= root.capacity();
            *root = child;
        }
        if root.count() == 0 {
            self.bytes -= root.capacity();
            self.root = None;
        }
        previous
    }

    /// Removes everything in O(1). What it was comes back as a view, which can be dropped where the time is not missed.
    pub fn clear(&mut self) -> View {
        let before = std::mem::take(self);
        View { root: before.root, len: before.len }
    }

    /// A frozen copy of the present state; O(1).
    pub fn view(&self) -> View {
        View { root: self.root.clone(), len: self.len }
    }

    /// Records between two bounds, in order; can be walked from both ends.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        Range::new(self.root.as_ref(), from, to)
    }

    /// The record with the lowest key.
    pub fn first(&self) -> Option<(&[u8], Entry<'_>)> {
        Some(Position::first(self.root.as_ref()?, Bound::Unbounded)?.record())
    }

    /// The record with the highest key.
    pub fn last(&self) -> Option<(&[u8], Entry<'_>)> {
        Some(Position::last(self.root.as_ref()?, Bound::Unbounded)?.record())
    }

    /// Some record, chosen by a random number; `None` only if the tree is empty. Each level chooses evenly among its
    /// children, so records in emptier nodes come up a little more often.
    pub fn sample(&self, random: u64) -> Option<(&[u8], Entry<'_>)> {
        let mut node = self.root.as_ref()?;
        let mut random = random;
        loop {
            // The high half of the product chooses, the low half stays as random for the next level.
            let product = u128::from(random) * node.count() as u128;
            let index = (product >> 64) as usize;
            random = product as u64;
            if node.level() == 0 {
                return Some((node.key(index), node.entry(index)));
            }
            node = node.child(index);
        }
    }
}

fn new_node(level: u8, bytes: &mut usize) -> Node {
    let node = Node::new(level, Node::capacity_for(0));
    *bytes += node.capacity();
    node
}

fn get<'a>(root: Option<&'a Node>, key: &[u8]) -> Option<Entry<'a>> {
    let mut node = root?;
    while node.level() > 0 {
        node = node.child(node.child_index(key));
    }
    node.find(key).map(|index| node.entry(index))
}

impl View {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        get(self.root.as_ref(), key)
    }

    /// Records between two bounds, in order; can be walked from both ends.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        Range::new(self.root.as_ref(), from, to)
    }
}
