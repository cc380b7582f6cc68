//! Single bits of strings, and how many are set.
//! Guarantees: bit 0 is the highest bit of byte 0; a string grows with zeros only as far as a bit is written.
//! Must not know: numbers over several bits; they are in bit_field.rs.
//! Next: bit_group.rs.

use super::value::{STRING_BYTES_MAX, TAG_STRING, integer};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::number::parse_i64;
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new(
        "setbit",
        4,
        flags::GROW,
        KeyPlaces::ONE,
        "bitmap",
        setbit,
        "Sets or clears one bit and tells what it was.",
    ),
    DataSpec::new("getbit", 3, flags::READ_FAST, KeyPlaces::ONE, "bitmap", getbit, "Tells one bit."),
    DataSpec::new("bitcount", -2, flags::READ, KeyPlaces::ONE, "bitmap", bitcount, "Counts the bits that are set."),
];

/// A bit's byte and its mask there.
fn bit_place(word: &[u8]) -> Result<(usize, u8), Failure> {
    let bit = parse_i64(word).and_then(|number| usize::try_from(number).ok());
    let bit = bit.filter(|bit| bit / 8 < STRING_BYTES_MAX);
    let bit = bit.ok_or_else(|| Failure::reply("ERR bit offset is not an integer or out of range"))?;
    Ok((bit / 8, 0x80 >> (bit % 8)))
}

fn setbit(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (place, mask) = bit_place(words[2])?;
    let is_set = match parse_i64(words[3]) {
        Some(bit @ 0..=1) => bit == 1,
        _ => return Err(Failure::reply("ERR bit is not an integer or out of range")),
    };
    let old = data.string(words[1])?;
    let expiry = old.and_then(|old| old.expiry);
    let old = old.map_or(&[][..], |old| old.bytes);
    let length = old.len();
    let mut value = Vec::with_capacity(1 + old.len().max(place + 1));
    value.push(TAG_STRING);
    value.extend_from_slice(old);
    value.resize(1 + old.len().max(place + 1), 0);
    let byte = &mut value[1 + place];
    let was_set = *byte & mask != 0;
    *byte = if is_set { *byte | mask } else { *byte & !mask };
    if was_set != is_set || value.len() - 1 > length {
        data.put_value(words[1], &value, expiry)?;
    }
    out.integer(was_set.into());
    Ok(())
}

fn getbit(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let (place, mask) = bit_place(words[2])?;
    let byte = data.read_string(words[1])?.and_then(|string| string.bytes.get(place).copied());
    out.integer((byte.unwrap_or(0) & mask != 0).into());
    Ok(())
}

fn bitcount(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    // Without a string the other words are not looked at.
    let Some(string) = data.read_string(words[1])? else {
        out.integer(0);
        return Ok(());
    };
    let bytes = string.bytes;
    let (first, last, unit) = match words[2..] {
        [] => {
            out.integer(ones(bytes));
            return Ok(());
        }
        [first, last] => (integer(first)?, integer(last)?, &b"byte"[..]),
        [first, last, unit] => (integer(first)?, integer(last)?, unit),
        _ => return Err(errors::syntax()),
    };
    if first < 0 && last < 0 && first > last {
        out.integer(0);
        return Ok(());
    }
    let is_bits = unit.eq_ignore_ascii_case(b"bit");
    if !is_bits && !unit.eq_ignore_ascii_case(b"byte") {
        return Err(errors::syntax());
    }
    let units = bytes.len() as i64 * if is_bits { 8 } else { 1 };
    let place = |number: i64| if number < 0 { (units + number).max(0) } else { number };
    let (first, last) = (place(first), place(last).min(units - 1));
    let count = match (first > last, is_bits) {
        (true, _) => 0,
        (false, false) => ones(&bytes[first as usize..=last as usize]),
        (false, true) => ones_between(bytes, first as usize, last as usize),
    };
    out.integer(count);
    Ok(())
}

fn ones(bytes: &[u8]) -> i64 {
    bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()
}

/// Bits set from one bit to another, both included.
fn ones_between(bytes: &[u8], first: usize, last: usize) -> i64 {
    let whole = ones(&bytes[first / 8..=last / 8]);
    let before = bytes[first / 8] & !(0xff >> (first % 8));
    let after = bytes[last / 8] & (0x7f >> (last % 8));
    whole - ones(&[before, after])
}
