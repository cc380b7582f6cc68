//! Strings that count: whole numbers and decimals.
//! Guarantees: a sum out of range changes nothing; the expiry stays.
//! Must not know: how numbers are written.
//! Next: number.rs.

use super::value::integer;
use super::{Data, DataSpec, Failure, KeyPlaces, Words, flags};
use crate::number::{self, SumFault};
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("incr", 2, flags::GROW_FAST, KeyPlaces::ONE, "string", incr, "Counts up by one."),
    DataSpec::new("decr", 2, flags::GROW_FAST, KeyPlaces::ONE, "string", decr, "Counts down by one."),
    DataSpec::new("incrby", 3, flags::GROW_FAST, KeyPlaces::ONE, "string", incrby, "Adds a whole number."),
    DataSpec::new("decrby", 3, flags::GROW_FAST, KeyPlaces::ONE, "string", decrby, "Takes a whole number away."),
    DataSpec::new("incrbyfloat", 3, flags::GROW_FAST, KeyPlaces::ONE, "string", incrbyfloat, "Adds a decimal number."),
];

fn incr(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    add(data, words[1], 1, out)
}

fn decr(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    add(data, words[1], -1, out)
}

fn incrby(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    add(data, words[1], integer(words[2])?, out)
}

fn decrby(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let step = integer(words[2])?.checked_neg().ok_or_else(|| Failure::reply("ERR decrement would overflow"))?;
    add(data, words[1], step, out)
}

fn add(data: &mut Data<'_, '_>, key: &[u8], step: i64, out: &mut Out) -> Result<(), Failure> {
    let old = data.string(key)?;
    let expiry = old.and_then(|old| old.expiry);
    let before = old.map_or(Ok(0), |old| integer(old.bytes))?;
    let overflow = || Failure::reply("ERR increment or decrement would overflow");
    let after = before.checked_add(step).ok_or_else(overflow)?;
    data.put_string(key, after.to_string().as_bytes(), expiry)?;
    out.integer(after);
    Ok(())
}

fn incrbyfloat(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let old = data.string(words[1])?;
    let expiry = old.and_then(|old| old.expiry);
    let sum = number::sum(old.map_or(b"0", |old| old.bytes), words[2]).map_err(|fault| {
        Failure::reply(match fault {
            SumFault::NotFloat => "ERR value is not a valid float",
            SumFault::NotFinite => "ERR increment would produce NaN or Infinity",
        })
    })?;
    data.put_string(words[1], sum.as_bytes(), expiry)?;
    out.bulk(sum.as_bytes());
    Ok(())
}
