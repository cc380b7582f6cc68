//! Trees that nobody needs any more, freed piece by piece: freeing a large one takes long.
//! Guarantees: each call frees a bounded number of nodes; what a view still shares stays.
//! Must not know: who dropped what.
//! Next: maintenance.rs calls it.

use super::Tree;
use super::node::Node;

/// Trees on their way out.
#[derive(Default)]
pub struct Rubble {
    /// Nodes of which nothing but what is below them is left to free; the last one is next.
    nodes: Vec<Node>,
}

impl Rubble {
    /// Starts with nothing.
    pub fn new() -> Rubble {
        Rubble::default()
    }

    /// Takes a tree over.
    pub fn add(&mut self, tree: Tree) {
        self.nodes.extend(tree.into_root());
    }

    /// Frees up to about so many nodes. True if nothing is left.
    pub fn clear_some(&mut self, nodes_max: usize) -> bool {
        // Nobody reads the account of a tree that is gone; it only must not run out.
        let mut account = usize::MAX / 2;
        for _ in 0..nodes_max {
            let Some(top) = self.nodes.last_mut() else { return true };
            if top.level() == 0 || top.count() == 0 || top.is_shared() {
                self.nodes.pop();
                continue;
            }
            let last = top.count() - 1;
            let child = top.unique(&mut account).take_child(last);
            if child.level() > 0 {
                self.nodes.push(child);
            }
        }
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Entry, View};
    use std::ops::Bound;

    fn tree(count: u32) -> Tree {
        let mut tree = Tree::new();
        for index in 0..count {
            let value = [1; 600];
            let value = if index % 50 == 0 { &value[..] } else { &value[..10] };
            tree.insert(&index.to_be_bytes(), Entry { value, expiry_millis: 0 });
        }
        tree
    }

    #[test]
    fn a_tree_goes_in_pieces_and_what_a_view_shares_stays() {
        let count = if cfg!(miri) { 700 } else { 20_000 };
        let (mut whole, mut changed) = (tree(count), tree(count));
        let views: Vec<View> = vec![changed.view()];
        changed.remove(&7_u32.to_be_bytes());
        let mut rubble = Rubble::new();
        rubble.add(std::mem::take(&mut whole));
        rubble.add(changed);
        assert!(!rubble.clear_some(3), "three nodes are not all");
        while !rubble.clear_some(3) {}
        assert!(rubble.clear_some(1));
        assert_eq!(views[0].range(Bound::Unbounded, Bound::Unbounded).count() as u32, count);
    }
}
