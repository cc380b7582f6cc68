//! Walking a tree in key order, from both ends.
//! Guarantees: every record between the bounds once, in order, whichever ends it is taken from.
//! Must not know: memory; changes, since a tree that is walked does not change.
//! Next: tree.rs.

use super::Entry;
use super::node::Node;
use std::ops::Bound;

/// How many records ahead of a forward walk cells are fetched.
const CELLS_AHEAD: usize = 4;

/// One record of a tree, and the inner node above its leaf, so that the next leaf is found without a search.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    leaf: &'a Node,
    index: usize,
    parent: Option<(&'a Node, usize)>,
}

impl<'a> Position<'a> {
    /// The first record within a lower bound.
    pub(super) fn first(root: &'a Node, from: Bound<&[u8]>) -> Option<Position<'a>> {
        let (mut node, mut parent, mut turn) = (root, None, None);
        while node.level() > 0 {
            let index = match from {
                Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
                Bound::Unbounded => 0,
            };
            if index + 1 < node.count() {
                turn = Some((node, index + 1));
            }
            parent = Some((node, index));
            node = node.child(index);
        }
        let index = match from {
            Bound::Included(key) => node.place(key).unwrap_or_else(|index| index),
            Bound::Excluded(key) => node.place(key).map_or_else(|index| index, |index| index + 1),
            Bound::Unbounded => 0,
        };
        if index < node.count() {
            return Some(Position { leaf: node, index, parent });
        }
        turn.map(|(inner, index)| Position::leftmost(inner, index))
    }

    /// The last record within an upper bound.
    pub(super) fn last(root: &'a Node, to: Bound<&[u8]>) -> Option<Position<'a>> {
        let (mut node, mut parent, mut turn) = (root, None, None);
        while node.level() > 0 {
            let index = match to {
                Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
                Bound::Unbounded => node.count() - 1,
            };
            if index > 0 {
                turn = Some((node, index - 1));
            }
            parent = Some((node, index));
            node = node.child(index);
        }
        let end = match to {
            Bound::Included(key) => node.place(key).map_or_else(|index| index, |index| index + 1),
            Bound::Excluded(key) => node.place(key).unwrap_or_else(|index| index),
            Bound::Unbounded => node.count(),
        };
        if end > 0 {
            return Some(Position { leaf: node, index: end - 1, parent });
        }
        turn.map(|(inner, index)| Position::rightmost(inner, index))
    }

    fn leftmost(mut inner: &'a Node, mut index: usize) -> Position<'a> {
        while inner.level() > 1 {
            (inner, index) = (inner.child(index), 0);
        }
        Position { leaf: inner.child(index), index: 0, parent: Some((inner, index)) }
    }

    fn rightmost(mut inner: &'a Node, mut index: usize) -> Position<'a> {
        while inner.level() > 1 {
            inner = inner.child(index);
            index = inner.count() - 1;
        }
        let leaf = inner.child(index);
        Position { leaf, index: leaf.count() - 1, parent: Some((inner, index)) }
    }

    /// Its key and entry.
    #[inline]
    pub(super) fn record(&self) -> (&'a [u8], Entry<'a>) {
        self.leaf.record(self.index)
    }

    fn key(&self) -> &'a [u8] {
        self.leaf.key(self.index)
    }

    #[inline]
    fn is(&self, other: &Position<'a>) -> bool {
        self.index == other.index && std::ptr::eq(self.leaf, other.leaf)
    }

    /// Has the processor fetch the first cells from here and what the walk needs of the next leaf: waiting for memory is
    /// most of what a scan does.
    fn fetch_ahead(&self) {
        for ahead in 1..CELLS_AHEAD {
            self.leaf.prefetch_cell(self.index + ahead);
        }
        if let Some((inner, index)) = self.parent
            && index + 1 < inner.count()
        {
            inner.child(index + 1).prefetch_slots();
        }
    }

    /// The record after the last one of a leaf.
    #[inline(never)]
    fn in_next_leaf(&self, root: &'a Node) -> Option<Position<'a>> {
        match self.parent {
            Some((inner, index)) if index + 1 < inner.count() => {
                let next = Position::leftmost(inner, index + 1);
                next.fetch_ahead();
                Some(next)
            }
            _ => Position::first(root, Bound::Excluded(self.key())),
        }
    }

    /// The record before the first one of a leaf.
    #[inline(never)]
    fn in_previous_leaf(&self, root: &'a Node) -> Option<Position<'a>> {
        match self.parent {
            Some((inner, index)) if index > 0 => Some(Position::rightmost(inner, index - 1)),
            _ => Position::last(root, Bound::Excluded(self.key())),
        }
    }
}

/// Walks records in order, from both ends.
pub struct Range<'a> {
    walk: Option<Walk<'a>>,
}

/// The first and the last record that are still to come.
struct Walk<'a> {
    root: &'a Node,
    front: Position<'a>,
    back: Position<'a>,
}

impl<'a> Range<'a> {
    pub(super) fn new(root: Option<&'a Node>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'a> {
        Range { walk: root.and_then(|root| Walk::new(root, from, to)) }
    }
}

impl<'a> Walk<'a> {
    fn new(root: &'a Node, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<Walk<'a>> {
        let front = Position::first(root, from)?;
        let back = Position::last(root, to)?;
        front.fetch_ahead();
        (front.key() <= back.key()).then_some(Walk { root, front, back })
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], Entry<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let walk = self.walk.as_mut()?;
        let front = &mut walk.front;
        let record = front.record();
        if front.is(&walk.back) {
            self.walk = None;
        } else if front.index + 1 < front.leaf.count() {
            front.index += 1;
            front.leaf.prefetch_cell(front.index + CELLS_AHEAD);
        } else {
            walk.front = front.in_next_leaf(walk.root).expect("the back is still ahead");
        }
        Some(record)
    }
}

impl DoubleEndedIterator for Range<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let walk = self.walk.as_mut()?;
        let back = &mut walk.back;
        let record = back.record();
        if back.is(&walk.front) {
            self.walk = None;
        } else if back.index > 0 {
            back.index -= 1;
        } else {
            walk.back = back.in_previous_leaf(walk.root).expect("the front is still ahead");
        }
        Some(record)
    }
}
