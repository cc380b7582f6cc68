//! Commands on whole databases.
//! Guarantees: FLUSHALL leaves no record in any keyspace of the store, also those that are no database.
//! Must not know: keys.
//! Next: scan.rs.

use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::number::parse_i64;
use crate::resp::Out;

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
        "Would swap two databases; refused here.",
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

/// Records know their keyspace, so a swap would rewrite every one of both databases in one command: refused.
fn swapdb(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let number = |word: &[u8]| parse_i64(word).and_then(|number| i32::try_from(number).ok());
    let first = number(words[1]).ok_or_else(|| Failure::reply("ERR invalid first DB index"))?;
    let second = number(words[2]).ok_or_else(|| Failure::reply("ERR invalid second DB index"))?;
    let is_there = |number: i32| usize::try_from(number).is_ok_and(|number| number < data.databases.len());
    if !is_there(first) || !is_there(second) {
        return Err(errors::database_out_of_range());
    }
    if first != second {
        return Err(Failure::reply("ERR SWAPDB is not supported"));
    }
    out.ok();
    Ok(())
}
