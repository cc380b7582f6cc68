//! Commands on whole databases.
//! Guarantees: FLUSHALL leaves no record in any keyspace of the store, also those that are no database.
//! Must not know: keys.
//! Next: scan.rs.

use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::number::parse_i64;
use crate::resp::Out;
use logd_engine::units::Millis;
use logd_engine::{Keyspace, ScanPosition};

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("dbsize", 1, flags::READ_FAST, KeyPlaces::NONE, "server", dbsize, "Counts the keys of the database."),
    DataSpec::new(
        "flushdb",
        -1,
        flags::WRITE,
        KeyPlaces::NONE,
        "server",
        clear_database,
        "Removes all keys of the database.",
    ),
    DataSpec::new(
        "flushall",
        -1,
        flags::WRITE,
        KeyPlaces::NONE,
        "server",
        clear_all,
        "Removes all records of the store.",
    ),
    DataSpec::new(
        "swapdb",
        3,
        flags::WRITE_FAST,
        KeyPlaces::NONE,
        "server",
        swapdb,
        "Swaps two databases, if they are small.",
    ),
];

/// Keys that ended and were not removed yet count, as in Redis.
fn dbsize(data: &mut Data<'_, '_>, _: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    out.integer(data.transaction.len(data.keyspace()) as i64);
    Ok(())
}

fn clear_database(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    check_manner(words)?;
    data.transaction.clear(data.keyspace());
    out.ok();
    Ok(())
}

fn clear_all(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    check_manner(words)?;
    for keyspace in data.databases.iter().chain(data.all_keyspaces) {
        data.transaction.clear(*keyspace);
    }
    out.ok();
    Ok(())
}

/// ASYNC and SYNC are the same here: a database is let go of as a whole.
fn check_manner(words: &Words<'_>) -> Result<(), Failure> {
    match words[1..] {
        [] => Ok(()),
        [manner] if manner.eq_ignore_ascii_case(b"async") || manner.eq_ignore_ascii_case(b"sync") => Ok(()),
        _ => Err(errors::syntax()),
    }
}

/// Most bytes of both databases that SWAPDB swaps.
const SWAP_BYTES_MAX: usize = 16 << 20;

/// A record knows its keyspace, so a swap writes all records of both databases anew, as one command of the log: larger
/// databases are refused rather than half swapped.
fn swapdb(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let number = |word: &[u8]| parse_i64(word).and_then(|number| i32::try_from(number).ok());
    let first = number(words[1]).ok_or_else(|| Failure::reply("ERR invalid first DB index"))?;
    let second = number(words[2]).ok_or_else(|| Failure::reply("ERR invalid second DB index"))?;
    let keyspace = |number: i32| usize::try_from(number).ok().and_then(|number| data.databases.get(number)).copied();
    let first = keyspace(first).ok_or_else(errors::database_out_of_range)?;
    let second = keyspace(second).ok_or_else(errors::database_out_of_range)?;
    if first != second {
        let (ours, theirs) = (contents(data, first), contents(data, second));
        let bytes = ours.iter().chain(&theirs).map(|(key, value, _)| key.len() + value.len()).sum::<usize>();
        if bytes > SWAP_BYTES_MAX {
            let text = format!("ERR SWAPDB of {bytes} bytes is refused: more than {SWAP_BYTES_MAX}");
            return Err(Failure::Reply(text));
        }
        data.transaction.clear(first);
        data.transaction.clear(second);
        for (keyspace, records) in [(first, theirs), (second, ours)] {
            for (key, value, expiry) in records {
                data.transaction.put(keyspace, &key, &value, expiry)?;
            }
        }
    }
    out.ok();
    Ok(())
}

type Owned = (Vec<u8>, Vec<u8>, Option<Millis>);

/// All records of a keyspace; one more than may be swapped at most.
fn contents(data: &Data<'_, '_>, keyspace: Keyspace) -> Vec<Owned> {
    let mut records: Vec<Owned> = Vec::new();
    let mut bytes = 0;
    data.transaction.visit(keyspace, &ScanPosition::default(), usize::MAX, &mut |key, record| {
        if bytes <= SWAP_BYTES_MAX {
            bytes += key.len() + record.value.len();
            records.push((key.to_vec(), record.value.to_vec(), record.expiry));
        }
    });
    records
}
