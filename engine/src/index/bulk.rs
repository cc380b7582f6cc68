//! Building a tree from records in order: each node is filled once and then fitted to its content.
//! Guarantees: the tree is the one that inserting would give, but denser.
//! Must not know: memory; where the records come from.
//! Next: tree.rs.

use super::insert::{NODE_BYTES_MAX, SLOTS_MAX};
use super::node::Node;
use super::search::separator;
use super::{Entry, Tree};

/// Filled to seven eighths, so that the first insertion into a node does not split it.
const FILL_BYTES_MAX: usize = NODE_BYTES_MAX * 7 / 8;
const FILL_SLOTS_MAX: usize = SLOTS_MAX * 7 / 8;

/// Builds a tree from records that come in order, denser and faster than by inserting.
#[derive(Default)]
pub struct BulkBuilder {
    /// The right-most node of each level, leaves first.
    levels: Vec<Level>,
    len: usize,
    bytes: usize,
}

struct Level {
    node: Node,
    /// The key this node will have in its parent.
    separator: Vec<u8>,
}

impl BulkBuilder {
    /// Starts with nothing.
    pub fn new() -> BulkBuilder {
        BulkBuilder::default()
    }

    /// Adds the next record. False, and nothing done, if its key is not above the last.
    pub fn push(&mut self, key: &[u8], entry: Entry<'_>) -> bool {
        if let Some(leaf) = self.levels.first() {
            let last = leaf.node.key(leaf.node.count() - 1);
            if last >= key {
                return false;
            }
            if is_full(&leaf.node) {
                let separator = separator(last, key).to_vec();
                self.close(0, separator);
            }
        } else {
            let first = self.open(0, Vec::new());
            self.levels.push(first);
        }
        let leaf = &mut self.levels[0].node;
        let index = leaf.count();
        leaf.unique(&mut self.bytes).insert_record(index, key, entry);
        self.len += 1;
        true
    }

    /// The tree.
    pub fn finish(mut self) -> Tree {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.close(level, Vec::new());
            level += 1;
        }
        let root = self.levels.pop().map(|mut top| {
            top.node.unique(&mut self.bytes).fit();
            top.node
        });
        // What `finish` itself began below the top is empty.
        let begun: usize = self.levels.iter().map(|level| level.node.capacity()).sum();
        Tree::from_parts(root, self.len, self.bytes - begun)
    }

    /// Begins the node of a level, which everything from `separator` on belongs to.
    fn open(&mut self, level: usize, separator: Vec<u8>) -> Level {
        let node = Node::new(level as u8, Node::capacity_for(NODE_BYTES_MAX));
        self.bytes += node.capacity();
        Level { node, separator }
    }

    /// Ends the node of a level, begins the next one, and gives the ended one to the level above, where the same may follow.
    fn close(&mut self, level: usize, separator: Vec<u8>) {
        let next = self.open(level, separator);
        let mut done = std::mem::replace(&mut self.levels[level], next);
        done.node.unique(&mut self.bytes).fit();
        let above = level + 1;
        if above == self.levels.len() {
            let first = self.open(above, Vec::new());
            self.levels.push(first);
        } else if is_full(&self.levels[above].node) {
            self.close(above, done.separator.clone());
        }
        let parent = &mut self.levels[above].node;
        let index = parent.count();
        parent.unique(&mut self.bytes).insert_child(index, &done.separator, done.node);
    }
}

fn is_full(node: &Node) -> bool {
    node.count() >= FILL_SLOTS_MAX || node.used_bytes() >= FILL_BYTES_MAX
}
