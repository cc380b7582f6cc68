//! Setting a key in a tree of nodes: down to the leaf, and splits on the way back.
//! Guarantees: what a view can see is copied before it is changed; a node over its bounds is split.
//! Must not know: memory.
//! Next: remove.rs.

use super::edit::NodeMut;
use super::node::Node;
use super::search::separator;
use super::{Entry, Previous};
use crate::canary::{Canary, planted};

/// Most slots of a node.
pub(super) const SLOTS_MAX: usize = 64;
/// Bytes of content from which a node is split.
pub(super) const NODE_BYTES_MAX: usize = 4096;
/// Fewest children of an inner node that is split for its bytes.
const CHILDREN_MIN: usize = 8;

/// What a split leaves for the parent.
pub(super) struct Split {
    /// The shortest key that is above everything on the left.
    pub(super) separator: Box<[u8]>,
    /// The new right neighbour.
    pub(super) right: Node,
}

/// Sets the entry of a key below a node.
pub(super) fn insert(node: &mut Node, bytes: &mut usize, key: &[u8], entry: Entry<'_>) -> (Previous, Option<Split>) {
    let changed_anyway = planted(Canary::LeafNotCopied) && takes_in_place(node, key, entry);
    let mut edit = if changed_anyway { NodeMut::new(node, bytes) } else { node.unique(bytes) };
    if edit.level() == 0 {
        return insert_into_leaf(edit, key, entry);
    }
    let index = edit.child_index(key);
    let (child, bytes) = edit.child_mut(index);
    let (previous, split) = insert(child, bytes, key, entry);
    let Some(split) = split else { return (previous, None) };
    edit.insert_child(index + 1, &split.separator, split.right);
    let over = is_over(&edit);
    (previous, over.then(|| split_node(&mut edit, Some(index + 1))))
}

/// Whether an entry has the shape of the one it replaces, so that the leaf keeps its memory and views of it stay valid, if wrong.
fn takes_in_place(node: &Node, key: &[u8], entry: Entry<'_>) -> bool {
    let inline = node.level() == 0 && !node.header().has_out;
    inline.then(|| node.find(key)).flatten().is_some_and(|index| {
        let old = node.entry(index);
        old.value.len() == entry.value.len() && (old.expiry_millis == 0) == (entry.expiry_millis == 0)
    })
}

fn insert_into_leaf(mut leaf: NodeMut<'_>, key: &[u8], entry: Entry<'_>) -> (Previous, Option<Split>) {
    let (previous, inserted) = match leaf.place(key) {
        Ok(index) => (leaf.replace(index, entry), None),
        Err(index) => {
            leaf.insert_record(index, key, entry);
            (Previous::default(), Some(index))
        }
    };
    let over = is_over(&leaf);
    (previous, over.then(|| split_node(&mut leaf, inserted)))
}

fn is_over(node: &Node) -> bool {
    let count_min = if node.level() == 0 { 2 } else { CHILDREN_MIN };
    node.count() > SLOTS_MAX || node.used_bytes() > NODE_BYTES_MAX && node.count() >= count_min
}

fn split_node(node: &mut NodeMut<'_>, inserted: Option<usize>) -> Split {
    let middle = split_place(node, inserted);
    let separator = match node.level() {
        0 => separator(node.key(middle - 1), node.key(middle)).into(),
        _ => node.key(middle).into(),
    };
    Split { separator, right: node.split_off(middle) }
}

/// Where a split cuts: in the middle of the bytes, but at an end where the new key came last or first, since the next ones
/// of a rising or falling sequence will come there too and would find the other half never filled again.
fn split_place(node: &Node, inserted: Option<usize>) -> usize {
    let count = node.count();
    let place = match inserted {
        Some(index) if index + 1 == count => count * 15 / 16,
        Some(0) => count / 16,
        _ => {
            let half: usize = (0..count).map(|index| node.cell_bytes(index)).sum::<usize>() / 2;
            let mut before = 0;
            (0..count).take_while(|index| (before < half, before += node.cell_bytes(*index)).0).count()
        }
    };
    place.clamp(1, count - 1)
}
