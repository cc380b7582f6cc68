//! A frozen state of the whole store at one LSN.
//! Guarantees: O(shards) to take; never changes; sees whole commands only.
//! Must not know: the log, files.
//! Next: checkpoint.rs writes one to disk.

use super::catalog::{Catalog, Keyspace};
use super::scope::{Scope, route};
use super::transaction::{Record, live};
use super::{Core, ShardSet};
use crate::canary::{Canary, planted};
use crate::index::{Entry, Range, View};
use crate::units::{Lsn, Millis};
use std::cmp::Ordering as Order;
use std::ops::Bound;

/// A frozen state. Holding it keeps old copies of what is changed meanwhile.
#[derive(Clone)]
pub struct StateView {
    /// LSN of the last command in it.
    pub lsn: Lsn,
    /// Engine time when it was taken: records due by then are left out of reads.
    pub time: Millis,
    /// Definitions as of its LSN.
    pub catalog: Catalog,
    /// Trees by shard, then by keyspace number.
    pub shards: Vec<Vec<View>>,
}

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    #[default]
    Forward,
    /// From the highest key down.
    Backward,
}

impl Core {
    /// Freezes the present state. All shards are locked for some microseconds.
    pub fn view(&self) -> StateView {
        let catalog = self.catalog.read();
        let guards = self.shards.lock_scope(Scope::Shards(ShardSet::all(self.shards.count())));
        self.freeze(catalog.clone(), &guards, self.log.watermarks().assigned)
    }

    pub(super) fn view_at(&self, lsn: Lsn) -> StateView {
        let catalog = self.catalog.read().clone();
        self.freeze(catalog, &self.shards.lock_scope(Scope::All), lsn)
    }

    fn freeze(&self, catalog: Catalog, guards: &super::shards::Guards<'_>, lsn: Lsn) -> StateView {
        let is_left_out = |shard| planted(Canary::ViewSkipsShard) && shard > 0 && shard + 1 == self.shards.count();
        let trees = |shard| if is_left_out(shard) { &[] } else { guards.shard(shard).trees() };
        let shards =
            (0..self.shards.count()).map(|shard| trees(shard).iter().map(crate::index::Tree::view).collect()).collect();
        StateView { lsn, time: self.time.now(), catalog, shards }
    }
}

impl StateView {
    /// The record of a key.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<Record<'_>> {
        let shard = route(keyspace, key, self.shards.len());
        let view = self.shards[shard].get(usize::from(keyspace.number))?;
        view.get(key).and_then(|entry| live(entry, self.time))
    }

    /// Records between two bounds in the order of their keys, merged over the shards. Due ones are left out.
    pub fn range(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> ViewRange<'_> {
        let number = usize::from(keyspace.number);
        let ranges = self.shards.iter().filter_map(|trees| trees.get(number)).map(|view| view.range(from, to));
        ViewRange::new(ranges.collect(), direction, self.time)
    }

    /// Records whose key begins with a prefix, in order.
    pub fn prefix(&self, keyspace: Keyspace, prefix: &[u8], direction: Direction) -> ViewRange<'_> {
        let end = prefix_end(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(keyspace, Bound::Included(prefix), to, direction)
    }

    /// Number of records of a keyspace, due ones included.
    pub fn len(&self, keyspace: Keyspace) -> usize {
        let number = usize::from(keyspace.number);
        self.shards.iter().filter_map(|trees| trees.get(number)).map(View::len).sum()
    }

    /// Every record of every logged keyspace, due or not, shard by shard: what digests and dumps are made of.
    pub fn visit_all(&self, visit: &mut dyn FnMut(u16, &[u8], Entry<'_>)) {
        let left_out = usize::from(planted(Canary::DigestSkipsShard) && self.shards.len() > 1);
        for trees in &self.shards[..self.shards.len() - left_out] {
            for (number, view) in trees.iter().enumerate().filter(|(number, _)| self.catalog.is_logged(*number)) {
                view.range(Bound::Unbounded, Bound::Unbounded)
                    .for_each(|(key, entry)| visit(number as u16, key, entry));
            }
        }
    }
}

/// The first key behind all that begin with a prefix; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Walks a range of a view.
pub struct ViewRange<'a> {
    ranges: Vec<Range<'a>>,
    heads: Vec<Option<(&'a [u8], Entry<'a>)>>,
    direction: Direction,
    time: Millis,
}

impl<'a> ViewRange<'a> {
    fn new(mut ranges: Vec<Range<'a>>, direction: Direction, time: Millis) -> ViewRange<'a> {
        let heads = ranges.iter_mut().map(|range| step(range, direction)).collect();
        ViewRange { ranges, heads, direction, time }
    }

    fn best(&self) -> Option<usize> {
        let heads = self.heads.iter().enumerate().filter_map(|(at, head)| head.map(|(key, _)| (at, key)));
        let order = |a: &(usize, &[u8]), b: &(usize, &[u8])| -> Order { a.1.cmp(b.1) };
        match self.direction {
            Direction::Forward => heads.min_by(order),
            Direction::Backward => heads.max_by(order),
        }
        .map(|(at, _)| at)
    }
}

fn step<'a>(range: &mut Range<'a>, direction: Direction) -> Option<(&'a [u8], Entry<'a>)> {
    match direction {
        Direction::Forward => range.next(),
        Direction::Backward => range.next_back(),
    }
}

impl<'a> Iterator for ViewRange<'a> {
    type Item = (&'a [u8], Record<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.best()?;
            let next = step(&mut self.ranges[at], self.direction);
            let (key, entry) = std::mem::replace(&mut self.heads[at], next).expect("the best head is there");
            if let Some(record) = live(entry, self.time) {
                return Some((key, record));
            }
        }
    }
}
