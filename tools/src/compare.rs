//! Finds the first record in which two states differ, by keyspace name and key.
//! Guarantees: states with equal digests have none; both are walked in order, nothing is copied.
//! Must not know: where the states come from.
//! Next: command/replay.rs.

use crate::filter::Filter;
use crate::render::bytes_text;
use logd_engine::core::StateView;
use logd_engine::index::{Entry, Range};
use serde::Serialize;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::Bound;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Keyspace.
    pub keyspace: String,
    /// Key, escaped.
    pub key: String,
    /// What the replayed state has: value and expiry, or "nothing".
    pub here: String,
    /// What the other has.
    pub there: String,
}

/// The records of one keyspace over all shards, in the order of their keys.
struct Merged<'a> {
    ranges: Vec<Peekable<Range<'a>>>,
}

impl<'a> Merged<'a> {
    fn new(view: &'a StateView, keyspace: &str) -> Merged<'a> {
        let number = view.catalog.find(keyspace).map(usize::from);
        let trees = view.shards.iter().filter_map(|trees| trees.get(number?));
        Merged { ranges: trees.map(|tree| tree.range(Bound::Unbounded, Bound::Unbounded).peekable()).collect() }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a [u8], Entry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let heads =
            self.ranges.iter_mut().enumerate().filter_map(|(at, range)| range.peek().map(|(key, _)| (*key, at)));
        let (_, at) = heads.min()?;
        self.ranges[at].next()
    }
}

/// The first difference between two states among the records that a filter takes.
pub fn first_difference(here: &StateView, there: &StateView, filter: &Filter) -> Option<Difference> {
    let catalogs = [&here.catalog, &there.catalog];
    let names: BTreeSet<&str> =
        catalogs.iter().flat_map(|catalog| catalog.keyspaces.iter().map(|keyspace| keyspace.name.as_str())).collect();
    names.into_iter().filter(|name| filter.takes_keyspace(name)).find_map(|name| {
        let records = |view| Merged::new(view, name).filter(|(key, _)| filter.takes_key(key));
        let (key, here, there) = first_in(records(here), records(there))?;
        let (here, there) = (text(here), text(there));
        Some(Difference { keyspace: name.to_owned(), key: bytes_text(key), here, there })
    })
}

type Found<'a> = (&'a [u8], Option<Entry<'a>>, Option<Entry<'a>>);

fn first_in<'a>(
    here: impl Iterator<Item = (&'a [u8], Entry<'a>)>,
    there: impl Iterator<Item = (&'a [u8], Entry<'a>)>,
) -> Option<Found<'a>> {
    let (mut here, mut there) = (here, there);
    loop {
        match (here.next(), there.next()) {
            (None, None) => return None,
            (Some((key, entry)), None) => return Some((key, Some(entry), None)),
            (None, Some((key, entry))) => return Some((key, None, Some(entry))),
            (Some((mine, entry)), Some((theirs, _))) if mine < theirs => return Some((mine, Some(entry), None)),
            (Some((mine, _)), Some((theirs, entry))) if mine > theirs => return Some((theirs, None, Some(entry))),
            (Some((key, mine)), Some((_, theirs))) => {
                if mine.value != theirs.value || mine.expiry_millis != theirs.expiry_millis {
                    return Some((key, Some(mine), Some(theirs)));
                }
            }
        }
    }
}

/// A record as text. The first byte of the daemon's values is their type.
pub fn text(entry: Option<Entry<'_>>) -> String {
    match entry {
        None => "nothing".to_owned(),
        Some(entry) if entry.expiry_millis == 0 => bytes_text(entry.value),
        Some(entry) => format!("{} until {}", bytes_text(entry.value), entry.expiry_millis),
    }
}
