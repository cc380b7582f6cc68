//! Removing a key from a tree of nodes, and giving back what a thinned-out tree does not need.
//! Guarantees: no empty node stays; a small node joins a neighbour when both together stay well below the bounds.
//! Must not know: memory.
//! Next: cursor.rs.

use super::Previous;
use super::edit::NodeMut;
use super::insert::{NODE_BYTES_MAX, SLOTS_MAX};
use super::node::Node;

/// A node is small up to a third of the bounds, and joins up to three quarters, so that it does not soon split again.
const SMALL_BYTES_MAX: usize = NODE_BYTES_MAX / 3;
const SMALL_SLOTS_MAX: usize = SLOTS_MAX / 3;
const JOINED_BYTES_MAX: usize = NODE_BYTES_MAX * 3 / 4;
const JOINED_SLOTS_MAX: usize = SLOTS_MAX * 3 / 4;

/// Removes a key below a node. The node may be left empty, or with a single child.
pub(super) fn remove(node: &mut Node, bytes: &mut usize, key: &[u8]) -> Previous {
    let mut edit = node.unique(bytes);
    if edit.level() == 0 {
        return edit.find(key).map_or(Previous::default(), |index| edit.remove_record(index));
    }
    let index = edit.child_index(key);
    let (child, bytes) = edit.child_mut(index);
    let previous = remove(child, bytes, key);
    tend(&mut edit, index);
    previous
}

/// Drops a child that is empty, joins one that is small.
fn tend(parent: &mut NodeMut<'_>, index: usize) {
    let child = parent.child(index);
    if child.count() == 0 {
        let gone = parent.take_child(index);
        *parent.account() -= gone.capacity();
        return;
    }
    if child.count() > SMALL_SLOTS_MAX || child.used_bytes() > SMALL_BYTES_MAX || parent.count() == 1 {
        return;
    }
    let left = if index + 1 < parent.count() { index } else { index - 1 };
    let (one, other) = (parent.child(left), parent.child(left + 1));
    if one.count() + other.count() <= JOINED_SLOTS_MAX && one.used_bytes() + other.used_bytes() <= JOINED_BYTES_MAX {
        let separator = parent.key(left + 1).to_vec();
        let right = parent.take_child(left + 1);
        let (left, bytes) = parent.child_mut(left);
        left.unique(bytes).append(&separator, right);
    }
}
