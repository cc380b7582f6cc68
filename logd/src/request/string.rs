//! Commands that read strings, parts of them, and change them as a whole or in part.
//! Guarantees: what extends or overwrites a part keeps the expiry, what sets a string anew drops it.
//! Must not know: options of SET; they are in set.rs.
//! Next: set.rs, counter.rs.

use super::value::{TAG_STRING, check_key, check_string_bytes, integer, string_of};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("get", 2, flags::READ_FAST, KeyPlaces::ONE, "string", get, "Tells a string."),
    DataSpec::new("mget", -2, flags::READ_FAST, KeyPlaces::ALL, "string", mget, "Tells several strings at once."),
    DataSpec::new("strlen", 2, flags::READ_FAST, KeyPlaces::ONE, "string", strlen, "Tells a string's length in bytes."),
    DataSpec::new("getrange", 4, flags::READ, KeyPlaces::ONE, "string", getrange, "Tells a part of a string."),
    DataSpec::new("substr", 4, flags::READ, KeyPlaces::ONE, "string", getrange, "The old name of GETRANGE."),
    DataSpec::new("getdel", 2, flags::WRITE_FAST, KeyPlaces::ONE, "string", getdel, "Tells a string and removes it."),
    DataSpec::new("append", 3, flags::GROW_FAST, KeyPlaces::ONE, "string", append, "Extends a string at its end."),
    DataSpec::new("setrange", 4, flags::GROW, KeyPlaces::ONE, "string", setrange, "Overwrites a part of a string."),
    DataSpec::new("mset", -3, flags::GROW, KeyPlaces::PAIRS, "string", mset, "Sets several strings at once."),
    DataSpec::new(
        "msetnx",
        -3,
        flags::GROW,
        KeyPlaces::PAIRS,
        "string",
        msetnx,
        "Sets several strings if none is there.",
    ),
];

fn get(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    match data.read_string(words[1])? {
        Some(string) => out.bulk(string.bytes),
        None => out.null(),
    }
    Ok(())
}

/// A value of another type reads as none here.
fn mget(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    out.array(words.len() - 1);
    for key in &words[1..] {
        match data.look_up(key).and_then(|record| string_of(record.value).ok()) {
            Some(bytes) => out.bulk(bytes),
            None => out.null(),
        }
    }
    Ok(())
}

fn strlen(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    out.integer(data.read_string(words[1])?.map_or(0, |string| string.bytes.len() as i64));
    Ok(())
}

fn getrange(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (first, last) = (integer(words[2])?, integer(words[3])?);
    let string = data.read_string(words[1])?;
    out.bulk(string.map_or(&[], |string| part(string.bytes, first, last)));
    Ok(())
}

/// The bytes from `first` to `last`, both included, negative ones counted from the end.
fn part(bytes: &[u8], first: i64, last: i64) -> &[u8] {
    let len = bytes.len() as i64;
    if bytes.is_empty() || (first < 0 && last < 0 && first > last) {
        return &[];
    }
    let place = |number: i64| if number < 0 { (len + number).max(0) } else { number };
    let (first, last) = (place(first), place(last).min(len - 1));
    if first > last { &[] } else { &bytes[first as usize..=last as usize] }
}

fn getdel(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    match data.read_string(words[1])? {
        Some(string) => out.bulk(string.bytes),
        None => out.null(),
    }
    data.transaction.delete(data.keyspace(), words[1]);
    Ok(())
}

fn append(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let old = data.string(words[1])?;
    let expiry = old.and_then(|old| old.expiry);
    let start = old.map_or(&[][..], |old| old.bytes);
    check_string_bytes(start.len(), words[2].len())?;
    let value = [&[TAG_STRING], start, words[2]].concat();
    data.put_value(words[1], &value, expiry)?;
    out.integer(value.len() as i64 - 1);
    Ok(())
}

fn setrange(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (place, patch) = (integer(words[2])?, words[3]);
    let place = usize::try_from(place).map_err(|_| Failure::reply("ERR offset is out of range"))?;
    let old = data.string(words[1])?;
    let expiry = old.and_then(|old| old.expiry);
    let old = old.map_or(&[][..], |old| old.bytes);
    if patch.is_empty() {
        out.integer(old.len() as i64);
        return Ok(());
    }
    check_string_bytes(place, patch.len())?;
    let end = place + patch.len();
    let mut value = Vec::with_capacity(1 + old.len().max(end));
    value.push(TAG_STRING);
    value.extend_from_slice(old);
    value.resize(1 + old.len().max(end), 0);
    value[1 + place..1 + end].copy_from_slice(patch);
    data.put_value(words[1], &value, expiry)?;
    out.integer(value.len() as i64 - 1);
    Ok(())
}

fn mset(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    check_pairs(words, "mset")?;
    put_pairs(data, words)?;
    out.ok();
    Ok(())
}

fn msetnx(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    check_pairs(words, "msetnx")?;
    if words[1..].iter().step_by(2).any(|key| data.exists(key)) {
        out.integer(0);
        return Ok(());
    }
    put_pairs(data, words)?;
    out.integer(1);
    Ok(())
}

fn check_pairs(words: &Words<'_>, command: &str) -> Result<(), Failure> {
    let pairs = words[1..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(errors::wrong_arity(command));
    }
    pairs.into_iter().try_for_each(|pair| check_key(pair[0]).and(check_string_bytes(pair[1].len(), 0)))
}

fn put_pairs(data: &mut Data<'_, '_>, words: &Words<'_>) -> Result<(), Failure> {
    words[1..].chunks_exact(2).try_for_each(|pair| data.put_string(pair[0], pair[1], None))
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_is_cut_to_the_string_for_every_mix_of_signs() {
        let cases: &[(i64, i64, &[u8])] = &[
            (0, 3, b"This"),
            (-3, -1, b"ing"),
            (0, -1, b"This is a string"),
            (10, 100, b"string"),
            (-100, 3, b"This"),
            (-1, -3, b""),
            (5, 2, b""),
            (16, 20, b""),
            (0, -100, b"T"),
            (-100, -100, b"T"),
            (i64::MIN, i64::MAX, b"This is a string"),
            (i64::MAX, i64::MIN, b""),
        ];
        for (first, last, expected) in cases {
            assert_eq!(part(b"This is a string", *first, *last), *expected, "{first} {last}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
