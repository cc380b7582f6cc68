//! What `logctl replay --check` compares with: a digest, a snapshot, another directory, a daemon.
//! Guarantees: the same digest means the same records; where there is another, the first differing key is named if the other side
//! can be read.
//! Must not know: how the state was replayed.
//! Next: compare.rs.

use super::export::{database_of, from_server};
use super::{ToolError, digest};
use crate::compare::{Difference, first_difference, text};
use crate::directory::{self, procedures};
use crate::filter::Filter;
use crate::place::Place;
use crate::render::bytes_text;
use crate::state::{Limit, limit_of, load, rebuild, start_lsn};
use crate::store::Store;
use logd_engine::core::StateView;
use logd_engine::index::Entry;
use logd_engine::units::Lsn;
use std::collections::HashSet;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_128;

/// What to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A digest.
    Digest(String),
    /// The newest snapshot of the same store.
    Snapshot,
    /// Another store.
    Place(Place),
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Check, String> {
        let is_hexadecimal = u128::from_str_radix(text, 16).is_ok();
        match text {
            "snapshot" => Ok(Check::Snapshot),
            _ if text.len() == 32 && is_hexadecimal => Ok(Check::Digest(text.to_ascii_lowercase())),
            _ if is_hexadecimal => Err("a digest has 32 hexadecimal digits".to_owned()),
            place => place.parse().map(Check::Place),
        }
    }
}

/// What came of it.
pub struct Checked {
    /// Whether the digests agree.
    pub agrees: bool,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// The newest snapshot within a limit.
pub fn newest_snapshot(store: &mut dyn Store, limit: Limit) -> Result<Lsn, ToolError> {
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let limit = limit_of(store, &manifest, limit)?;
    start_lsn(&manifest, limit).ok_or_else(|| ToolError::Usage("there is no snapshot to compare with".to_owned()))
}

/// Compares. `store`: the one that was replayed.
pub fn run(check: &Check, store: &mut dyn Store, view: &StateView, filter: &Filter) -> Result<Checked, ToolError> {
    let (_, found) = filter.digest(view);
    let there = match check {
        Check::Digest(digest) => return Ok(Checked { agrees: *digest == found.to_string(), difference: None }),
        Check::Snapshot => load(store, view.lsn, procedures())?,
        Check::Place(Place::Directory(path)) => {
            rebuild(directory::open(path)?.as_mut(), Limit::End, procedures())?.rebuild
        }
        Check::Place(place) => return with_server(place, view, filter),
    };
    let there = there.view();
    let agrees = filter.digest(&there).1 == found;
    let difference = if agrees { None } else { first_difference(view, &there, filter) };
    Ok(Checked { agrees, difference })
}

/// A daemon tells its digest; another server, or one whose digest differs, tells all its records.
fn with_server(place: &Place, view: &StateView, filter: &Filter) -> Result<Checked, ToolError> {
    if filter.is_open() && digest::of_server(place).is_ok_and(|digest| digest == view.digest().to_string()) {
        return Ok(Checked { agrees: true, difference: None });
    }
    let (mut seen, mut first) = (HashSet::new(), None);
    from_server(place, true, &mut |record| {
        let name = format!("db{}", record.database);
        if !filter.takes_keyspace(&name) || !filter.takes_key(&record.key) {
            return Ok(());
        }
        let number = view.catalog.find(&name).map(usize::from);
        let trees = view.shards.iter().filter_map(|trees| trees.get(number?));
        let here = trees.filter_map(|tree| tree.get(&record.key)).next();
        seen.insert((record.database, xxh3_128(&record.key)));
        let value: Vec<u8> = [&[logd::request::value::TAG_STRING][..], &record.value].concat();
        let there = Entry { value: &value, expiry_millis: record.expiry_millis };
        let is_equal = here.is_some_and(|here| here.value == value && here.expiry_millis == record.expiry_millis);
        if !is_equal {
            keep_first(&mut first, (name, record.key.clone(), text(here), text(Some(there))));
        }
        Ok(())
    })?;
    filter.visit(view, &mut |keyspace, key, entry| {
        let name = &view.catalog.keyspaces[usize::from(keyspace)].name;
        let is_there = database_of(name).is_some_and(|database| seen.contains(&(database, xxh3_128(key))));
        // What has come to its end is told by no server.
        let has_ended = entry.expiry_millis != 0 && entry.expiry_millis <= view.time.0;
        if !is_there && !has_ended {
            keep_first(&mut first, (name.clone(), key.to_vec(), text(Some(entry)), text(None)));
        }
    });
    let difference =
        first.map(|(keyspace, key, here, there)| Difference { keyspace, key: bytes_text(&key), here, there });
    Ok(Checked { agrees: difference.is_none(), difference })
}

type Found = (String, Vec<u8>, String, String);

fn keep_first(first: &mut Option<Found>, found: Found) {
    if first.as_ref().is_none_or(|first| (&found.0, &found.1) < (&first.0, &first.1)) {
        *first = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_to_compare_with_is_checked_before_an_hour_of_replay() {
        let digest = "0123456789abcdef0123456789abcdef";
        assert_eq!("0123456789ABCDEF0123456789abcdef".parse(), Ok(Check::Digest(digest.to_owned())));
        assert!("0123".parse::<Check>().is_err());
        assert_eq!("snapshot".parse(), Ok(Check::Snapshot));
        assert!(matches!("redis://h:1".parse(), Ok(Check::Place(Place::Tcp(_)))));
        assert!(matches!("/var/lib/logd".parse(), Ok(Check::Place(Place::Directory(_)))));
    }
}
