//! Commands on keys, whatever their values are.
//! Guarantees: values move and are copied as they are, with their expiry.
//! Must not know: types of values.
//! Next: expiry.rs, scan.rs.
//!
//! MOVE and COPY reach into another database. Their keys are those of the selected one, and all databases route keys
//! alike, so the shard of a key is the same in each.

use super::value::{check_key, integer, type_of};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;
use logd_engine::units::Millis;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("del", -2, flags::WRITE, KeyPlaces::ALL, "generic", del, "Removes keys."),
    DataSpec::new(
        "unlink",
        -2,
        flags::WRITE_FAST,
        KeyPlaces::ALL,
        "generic",
        del,
        "Removes keys; the same as DEL here.",
    ),
    DataSpec::new(
        "exists",
        -2,
        flags::READ_FAST,
        KeyPlaces::ALL,
        "generic",
        count,
        "Counts which of the keys have a value.",
    ),
    DataSpec::new(
        "touch",
        -2,
        flags::READ_FAST,
        KeyPlaces::ALL,
        "generic",
        count,
        "Counts which of the keys have a value; there is no access time to change.",
    ),
    DataSpec::new("type", 2, flags::READ_FAST, KeyPlaces::ONE, "generic", type_name, "Tells the type of a value."),
    DataSpec::new("rename", 3, flags::WRITE, KeyPlaces::TWO, "generic", rename, "Gives a value another key."),
    DataSpec::new(
        "renamenx",
        3,
        flags::WRITE_FAST,
        KeyPlaces::TWO,
        "generic",
        renamenx,
        "Gives a value another key if that one has none.",
    ),
    DataSpec::new(
        "copy",
        -3,
        flags::GROW,
        KeyPlaces::TWO,
        "generic",
        copy,
        "Copies a value to another key or database.",
    ),
    DataSpec::new(
        "move",
        3,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        move_key,
        "Moves a key to another database.",
    ),
];

fn del(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let keyspace = data.keyspace();
    let deleted = words[1..].iter().filter(|key| data.transaction.delete(keyspace, key)).count();
    out.integer(deleted as i64);
    Ok(())
}

fn count(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    out.integer(words[1..].iter().filter(|key| data.look_up(key).is_some()).count() as i64);
    Ok(())
}

fn type_name(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let record = data.look_up(words[1]);
    out.simple(record.map_or("none", |record| type_of(record.value)));
    Ok(())
}

fn rename(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (value, expiry) = copied(data, words[1]).ok_or_else(errors::no_such_key)?;
    if words[1] != words[2] {
        rename_to(data, words, &value, expiry)?;
    }
    out.ok();
    Ok(())
}

fn renamenx(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (value, expiry) = copied(data, words[1]).ok_or_else(errors::no_such_key)?;
    // The same key twice is covered: it has a value.
    let is_free = !data.exists(words[2]);
    if is_free {
        rename_to(data, words, &value, expiry)?;
    }
    out.integer(is_free.into());
    Ok(())
}

fn rename_to(data: &mut Data<'_, '_>, words: &Words<'_>, value: &[u8], expiry: Option<Millis>) -> Result<(), Failure> {
    data.put_value(words[2], value, expiry)?;
    data.transaction.delete(data.keyspace(), words[1]);
    Ok(())
}

fn copied(data: &Data<'_, '_>, key: &[u8]) -> Option<(Vec<u8>, Option<Millis>)> {
    data.transaction.get(data.keyspace(), key).map(|record| (record.value.to_vec(), record.expiry))
}

fn copy(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let mut target = data.database;
    let mut is_replacing = false;
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        match word.to_ascii_uppercase().as_slice() {
            b"REPLACE" => is_replacing = true,
            b"DB" => target = database(data, rest.next().ok_or_else(errors::syntax)?)?,
            _ => return Err(errors::syntax()),
        }
    }
    if target == data.database && words[1] == words[2] {
        return Err(errors::same_object());
    }
    let target = data.databases[target];
    let source = copied(data, words[1]);
    data.lookups.note(source.is_some());
    let is_free = is_replacing || data.transaction.get(target, words[2]).is_none();
    let Some((value, expiry)) = source.filter(|_| is_free) else {
        out.integer(0);
        return Ok(());
    };
    check_key(words[2])?;
    data.transaction.put(target, words[2], &value, expiry)?;
    out.integer(1);
    Ok(())
}

fn move_key(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let key = words[1];
    let target = database(data, words[2])?;
    if target == data.database {
        return Err(errors::same_object());
    }
    let target = data.databases[target];
    let is_free = data.transaction.get(target, key).is_none();
    let Some((value, expiry)) = copied(data, key).filter(|_| is_free) else {
        out.integer(0);
        return Ok(());
    };
    data.transaction.put(target, key, &value, expiry)?;
    data.transaction.delete(data.keyspace(), key);
    out.integer(1);
    Ok(())
}

/// Reads the number of a database.
fn database(data: &Data<'_, '_>, word: &[u8]) -> Result<usize, Failure> {
    let number = integer(word)?;
    if i32::try_from(number).is_err() {
        let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
        return Err(Failure::reply(text));
    }
    let is_there = usize::try_from(number).is_ok_and(|number| number < data.databases.len());
    if is_there { Ok(number as usize) } else { Err(errors::database_out_of_range()) }
}
