//! Whole strings as rows of bits: where the first one or zero is, and strings combined bit by bit.
//! Guarantees: a string that is not there reads as zeros without end; a combination has the longest source's length.
//! Must not know: single bits; they are in bit.rs.
//! Next: bit_field.rs.

use super::value::integer;
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("bitpos", -3, flags::READ, KeyPlaces::ONE, "bitmap", bitpos, "Finds the first bit that is so."),
    DataSpec::new(
        "bitop",
        -4,
        flags::GROW,
        KeyPlaces { first: 2, last: -1, step: 1 },
        "bitmap",
        bitop,
        "Combines strings bit by bit and sets the result.",
    ),
];

fn bitpos(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let wants_one = match integer(words[2])? {
        bit @ 0..=1 => bit == 1,
        _ => return Err(Failure::reply("ERR The bit argument must be 1 or 0.")),
    };
    // Without a string the other words are not looked at.
    let Some(string) = data.read_string(words[1])? else {
        out.integer(if wants_one { -1 } else { 0 });
        return Ok(());
    };
    let bytes = string.bytes;
    let (first, last, is_bits) = match words[3..] {
        [] => (0, -1, false),
        [first] => (integer(first)?, -1, false),
        [first, last] => (integer(first)?, integer(last)?, false),
        [first, last, unit] => {
            let first = integer(first)?;
            let is_bits = unit.eq_ignore_ascii_case(b"bit");
            if !is_bits && !unit.eq_ignore_ascii_case(b"byte") {
                return Err(errors::syntax());
            }
            (first, integer(last)?, is_bits)
        }
        _ => return Err(errors::syntax()),
    };
    let units = bytes.len() as i64 * if is_bits { 8 } else { 1 };
    let place = |number: i64| if number < 0 { (units + number).max(0) } else { number };
    let (first, last) = (place(first), place(last).min(units - 1));
    if first > last {
        out.integer(-1);
        return Ok(());
    }
    let (first, last) = (first as usize, last as usize);
    let (start, end) = if is_bits { (first, last + 1) } else { (first * 8, last * 8 + 8) };
    let found = first_bit(bytes, start, end, wants_one);
    // Zeros go on behind the string, unless the request names an end.
    let goes_on = !wants_one && words.len() < 5;
    out.integer(found.map_or(if goes_on { end as i64 } else { -1 }, |bit| bit as i64));
    Ok(())
}

/// The first bit of a kind from one place to another, the latter excluded.
fn first_bit(bytes: &[u8], start: usize, end: usize, wants_one: bool) -> Option<usize> {
    let without = if wants_one { 0x00 } else { 0xff };
    let is_wanted = |bit: &usize| (bytes[bit / 8] & (0x80 >> (bit % 8)) != 0) == wants_one;
    let head_end = start.next_multiple_of(8).min(end);
    if let Some(bit) = (start..head_end).find(is_wanted) {
        return Some(bit);
    }
    let whole = &bytes[head_end / 8..end.div_ceil(8)];
    let skipped = whole.iter().position(|byte| *byte != without)?;
    (head_end + skipped * 8..end).take(8).find(is_wanted)
}

fn bitop(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let combine: fn(u8, u8) -> u8 = match words[1].to_ascii_lowercase().as_slice() {
        b"and" => |left, right| left & right,
        b"or" => |left, right| left | right,
        b"xor" => |left, right| left ^ right,
        b"not" if words.len() == 4 => |_, right| !right,
        b"not" => return Err(Failure::reply("ERR BITOP NOT must be called with a single source key.")),
        _ => return Err(errors::syntax()),
    };
    let is_not = words[1].eq_ignore_ascii_case(b"not");
    let mut sources = Vec::with_capacity(words.len() - 3);
    for key in &words[3..] {
        sources.push(data.read_string(key)?.map_or(&[][..], |string| string.bytes));
    }
    let bytes = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = sources[0].to_vec();
    result.resize(bytes, 0);
    let others = if is_not { &sources[..] } else { &sources[1..] };
    for source in others {
        let (both, rest) = result.split_at_mut(source.len());
        both.iter_mut().zip(*source).for_each(|(left, right)| *left = combine(*left, *right));
        rest.iter_mut().for_each(|left| *left = combine(*left, 0));
    }
    if result.is_empty() {
        data.transaction.delete(data.keyspace(), words[2]);
    } else {
        data.put_string(words[2], &result, None)?;
    }
    out.integer(bytes as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::first_bit;

    #[test]
    fn the_first_bit_is_found_from_any_place_to_any_place() {
        let bytes = [0x00, 0x00, 0x10, 0xff, 0xff, 0xfe, 0x00];
        for start in 0..bytes.len() * 8 {
            for end in start + 1..=bytes.len() * 8 {
                for wants_one in [false, true] {
                    let plain = (start..end).find(|bit| (bytes[bit / 8] >> (7 - bit % 8) & 1 == 1) == wants_one);
                    assert_eq!(first_bit(&bytes, start, end, wants_one), plain, "{start} {end} {wants_one}");
                }
            }
        }
    }
}
