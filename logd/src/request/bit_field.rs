//! BITFIELD: numbers of any width at any bit of a string.
//! Guarantees: every step is read before the first runs; a step that overflows under FAIL changes nothing.
//! Must not know: single bits.
//! Next: bit.rs.

use super::value::{STRING_BYTES_MAX, TAG_STRING, integer};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::number::parse_i64;
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new(
        "bitfield",
        -2,
        flags::GROW,
        KeyPlaces::ONE,
        "bitmap",
        bitfield,
        "Reads and changes numbers at bits.",
    ),
    DataSpec::new("bitfield_ro", -2, flags::READ_FAST, KeyPlaces::ONE, "bitmap", bitfield_ro, "Reads numbers at bits."),
];

const INVALID_TYPE: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// Width and sign of a number, and its first bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    is_signed: bool,
    bits: u32,
    start: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

impl Step {
    /// The first bit behind what it writes.
    fn end_written(&self) -> Option<usize> {
        match self {
            Step::Get(_) => None,
            Step::Set(field, ..) | Step::Add(field, ..) => Some(field.start + field.bits as usize),
        }
    }
}

impl Field {
    fn parse(kind: &[u8], place: &[u8]) -> Result<Field, Failure> {
        let invalid = || Failure::reply(INVALID_TYPE);
        let (is_signed, digits) = match kind {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(invalid()),
        };
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = parse_i64(digits).filter(|bits| (1..=bits_max).contains(bits)).ok_or_else(invalid)?;
        let (number, unit) = match place {
            [b'#', number @ ..] => (number, bits),
            number => (number, 1),
        };
        let start = parse_i64(number).and_then(|number| number.checked_mul(unit));
        let start = start.and_then(|start| usize::try_from(start).ok()).filter(|start| start / 8 < STRING_BYTES_MAX);
        let start = start.ok_or_else(|| Failure::reply("ERR bit offset is not an integer or out of range"))?;
        Ok(Field { is_signed, bits: bits as u32, start })
    }

    fn range(self) -> (i128, i128) {
        if self.is_signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// The number of the lowest bits.
    fn cut(self, value: i128) -> i128 {
        let low = value & ((1 << self.bits) - 1);
        let is_negative = self.is_signed && low >> (self.bits - 1) == 1;
        if is_negative { low - (1 << self.bits) } else { low }
    }

    /// The number that is kept for a value; `None` if none is.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (low, high) = self.range();
        match overflow {
            _ if (low..=high).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.cut(value)),
            Overflow::Saturate => Some(value.clamp(low, high)),
            Overflow::Fail => None,
        }
    }

    /// Reads it; bits behind the end are zeros.
    fn read(self, bytes: &[u8]) -> i128 {
        let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
        let value = (self.start..self.start + self.bits as usize).fold(0, |sum, at| sum << 1 | i128::from(bit(at)));
        self.cut(value)
    }

    /// Writes it; the bytes are there.
    fn write(self, bytes: &mut [u8], value: i128) {
        for (at, shift) in (self.start..).zip((0..self.bits).rev()) {
            let mask = 0x80 >> (at % 8);
            let byte = &mut bytes[at / 8];
            *byte = if value >> shift & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }
}

fn parse(words: &Words<'_>) -> Result<Vec<Step>, Failure> {
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    let mut rest = words;
    while let Some((name, after)) = rest.split_first() {
        rest = match (name.to_ascii_lowercase().as_slice(), after) {
            (b"overflow", [kind, after @ ..]) => {
                overflow = match kind.to_ascii_lowercase().as_slice() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(Failure::reply("ERR Invalid OVERFLOW type specified")),
                };
                after
            }
            (b"get", [kind, place, after @ ..]) => {
                steps.push(Step::Get(Field::parse(kind, place)?));
                after
            }
            (b"set", [kind, place, value, after @ ..]) => {
                steps.push(Step::Set(Field::parse(kind, place)?, integer(value)?, overflow));
                after
            }
            (b"incrby", [kind, place, value, after @ ..]) => {
                steps.push(Step::Add(Field::parse(kind, place)?, integer(value)?, overflow));
                after
            }
            _ => return Err(errors::syntax()),
        };
    }
    Ok(steps)
}

fn bitfield(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let steps = parse(&words[2..])?;
    run(data, words[1], &steps, out)
}

fn bitfield_ro(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let steps = parse(&words[2..])?;
    if steps.iter().any(|step| step.end_written().is_some()) {
        return Err(Failure::reply("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    run(data, words[1], &steps, out)
}

fn run(data: &mut Data<'_, '_>, key: &[u8], steps: &[Step], out: &mut Out) -> Result<(), Failure> {
    let end = steps.iter().filter_map(Step::end_written).max();
    let old = if end.is_some() { data.string(key)? } else { data.read_string(key)? };
    let expiry = old.and_then(|old| old.expiry);
    let before = old.map_or(&[][..], |old| old.bytes);
    let mut bytes = before.to_vec();
    // It grows as far as the last step may write, whether that step fails or not.
    bytes.resize(before.len().max(end.unwrap_or(0).div_ceil(8)), 0);
    let mut told = Vec::with_capacity(steps.len());
    for step in steps {
        told.push(match *step {
            Step::Get(field) => Some(field.read(&bytes)),
            Step::Set(field, value, overflow) => {
                let was = field.read(&bytes);
                // A negative number for an unsigned field is the large one with the same bits.
                let value = if field.is_signed { value.into() } else { i128::from(value as u64) };
                let kept = field.fit(value, overflow);
                kept.inspect(|kept| field.write(&mut bytes, *kept)).map(|_| was)
            }
            Step::Add(field, more, overflow) => {
                let kept = field.fit(field.read(&bytes) + i128::from(more), overflow);
                kept.inspect(|kept| field.write(&mut bytes, *kept))
            }
        });
    }
    if bytes != before {
        let value = [&[TAG_STRING], bytes.as_slice()].concat();
        data.put_value(key, &value, expiry)?;
    }
    out.array(told.len());
    for number in told {
        match number {
            Some(number) => out.integer(number as i64),
            None => out.null(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: &str, start: usize) -> Field {
        Field::parse(kind.as_bytes(), start.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_number_is_read_back_as_written_at_every_bit_and_width() {
        for bits in 1..=64 {
            for start in 0..9 {
                for kind in ['i', 'u'].into_iter().filter(|kind| *kind == 'i' || bits < 64) {
                    let field = field(&format!("{kind}{bits}"), start);
                    let (low, high) = field.range();
                    for value in [low, high, 0, high / 3] {
                        let mut bytes = [0xa5; 10];
                        field.write(&mut bytes, value);
                        assert_eq!(field.read(&bytes), value, "{kind}{bits} at {start}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_wraps_saturates_or_fails() {
        let (byte, signed) = (field("u8", 0), field("i8", 0));
        assert_eq!(byte.fit(257, Overflow::Wrap), Some(1));
        assert_eq!(byte.fit(-1, Overflow::Wrap), Some(255));
        assert_eq!(byte.fit(-1, Overflow::Saturate), Some(0));
        assert_eq!(signed.fit(128, Overflow::Wrap), Some(-128));
        assert_eq!(signed.fit(128, Overflow::Saturate), Some(127));
        assert_eq!(signed.fit(-129, Overflow::Fail), None);
        assert_eq!(field("i64", 0).fit(i128::from(i64::MAX) + 1, Overflow::Wrap), Some(i64::MIN.into()));
    }
}
