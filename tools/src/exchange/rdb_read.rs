//! Reads an RDB file: versions 1 to 12 of Redis, and Valkey's 80.
//! Guarantees: every string with its expiry is told once; values of other types are passed over whole and told by name; the
//! checksum at the end is compared.
//! Must not know: where the records go.
//! Next: rdb_skip.rs passes over other types.

use super::Record;
use super::input::{Input, InputError};
use super::{lzf, rdb_skip};
use std::io::BufRead;

/// Newest versions whose types are known.
const VERSION_MAX: u32 = 12;
/// Valkey counts on from here.
const VERSION_VALKEY: u32 = 80;
/// First version with a checksum at its end.
const VERSION_CRC: u32 = 5;
const STRING_BYTES_MAX: u64 = 512 << 20;
const TYPE_STRING: u8 = 0;

/// What is found.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A string.
    Record(Record),
    /// A value of another type, passed over.
    Other(&'static str),
    /// Something beside the data that has no place here.
    Beside(&'static str),
}

/// A length, or how the string behind it is packed.
enum Length {
    Plain(u64),
    Packed(u8),
}

/// A file in the middle of being read.
pub struct RdbReader<'i, R> {
    pub(super) input: &'i mut Input<R>,
    pub(super) version: u32,
    database: u64,
    expiry_millis: u64,
}

impl<'i, R: BufRead> RdbReader<'i, R> {
    /// Reads the head.
    pub fn new(input: &'i mut Input<R>) -> Result<RdbReader<'i, R>, InputError> {
        input.start_digest();
        let head = input.array::<9>()?;
        let version = std::str::from_utf8(&head[5..]).ok().and_then(|digits| digits.parse().ok());
        let Some(version) = version.filter(|_| head.starts_with(b"REDIS")) else {
            return Err(input.wrong("no RDB file: it does not begin with REDIS and a version"));
        };
        if !(1..=VERSION_MAX).contains(&version) && version != VERSION_VALKEY {
            return Err(input.wrong(format!(
                "RDB version {version} is not known; known are 1 to {VERSION_MAX} and {VERSION_VALKEY}"
            )));
        }
        Ok(RdbReader { input, version, database: 0, expiry_millis: 0 })
    }

    /// The next find; `None` behind the last, with the checksum compared.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results hides the end from the `?` operator")]
    pub fn next(&mut self) -> Result<Option<Item>, InputError> {
        loop {
            match self.input.byte()? {
                0xff => return self.end().map(|()| None),
                0xfe => self.database = self.length()?,
                0xfd => self.expiry_millis = u64::from(u32::from_le_bytes(self.input.array()?)) * 1000,
                0xfc => self.expiry_millis = self.millis()?,
                0xfb => drop((self.length()?, self.length()?)),
                0xfa => {
                    self.skip_string()?;
                    self.skip_string()?;
                }
                0xf9 => drop(self.input.byte()?),
                0xf8 => drop(self.length()?),
                0xf7 => {
                    rdb_skip::module_aux(self)?;
                    return Ok(Some(Item::Beside("module data")));
                }
                0xf5 => {
                    self.skip_string()?;
                    return Ok(Some(Item::Beside("function library")));
                }
                0xf4 => drop((self.length()?, self.length()?, self.length()?)),
                kind if kind < 0xf0 => return self.record(kind).map(Some),
                code => return Err(self.input.wrong(format!("operation {code:#04x} is not known"))),
            }
        }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    fn millis(&mut self) -> Result<u64, InputError> {
        let millis = i64::from_le_bytes(self.input.array()?);
        // A moment before 1970 has passed; 0 would mean never.
        Ok(u64::try_from(millis).unwrap_or(1).max(1))
    }

    fn record(&mut self, kind: u8) -> Result<Item, InputError> {
        let expiry_millis = std::mem::take(&mut self.expiry_millis);
        let key = self.string()?;
        if kind != TYPE_STRING {
            return rdb_skip::value(self, kind).map(Item::Other);
        }
        Ok(Item::Record(Record { database: self.database, key, value: self.string()?, expiry_millis }))
    }

    fn end(&mut self) -> Result<(), InputError> {
        let found = self.input.take_digest();
        if self.version < VERSION_CRC {
            return Ok(());
        }
        let expected = u64::from_le_bytes(self.input.array()?);
        // Zero: written with `rdbchecksum no`.
        if expected != 0 && expected != found {
            return Err(self
                .input
                .wrong(format!("the checksum differs: expected {expected:016x}, found {found:016x}")));
        }
        Ok(())
    }

    fn any_length(&mut self) -> Result<Length, InputError> {
        let first = self.input.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => Length::Plain(u64::from(first & 63) << 8 | u64::from(self.input.byte()?)),
            3 => Length::Packed(first & 63),
            _ => match first {
                0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.input.array()?))),
                0x81 => Length::Plain(u64::from_be_bytes(self.input.array()?)),
                _ => return Err(self.input.wrong("a length of an unknown form")),
            },
        })
    }

    /// A number.
    pub(super) fn length(&mut self) -> Result<u64, InputError> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Packed(_) => Err(self.input.wrong("a number was expected, not a packed string")),
        }
    }

    /// A string in any of its forms.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, InputError> {
        match self.any_length()? {
            Length::Plain(bytes) => {
                self.check_string_bytes(bytes)?;
                self.input.bytes(bytes)
            }
            Length::Packed(0) => Ok(i8::from_le_bytes(self.input.array()?).to_string().into_bytes()),
            Length::Packed(1) => Ok(i16::from_le_bytes(self.input.array()?).to_string().into_bytes()),
            Length::Packed(2) => Ok(i32::from_le_bytes(self.input.array()?).to_string().into_bytes()),
            Length::Packed(3) => {
                let (packed, bytes) = (self.length()?, self.length()?);
                self.check_string_bytes(packed.max(bytes))?;
                let packed = self.input.bytes(packed)?;
                let plain = lzf::decompress(&packed, bytes as usize);
                plain.ok_or_else(|| self.input.wrong("a compressed string is damaged"))
            }
            Length::Packed(form) => Err(self.input.wrong(format!("a string of the unknown form {form}"))),
        }
    }

    /// Passes over a string without undoing its form.
    pub(super) fn skip_string(&mut self) -> Result<(), InputError> {
        match self.any_length()? {
            Length::Plain(bytes) => self.input.skip(bytes),
            Length::Packed(form @ 0..=2) => self.input.skip(1 << form),
            Length::Packed(3) => {
                let packed = self.length()?;
                self.length()?;
                self.input.skip(packed)
            }
            Length::Packed(form) => Err(self.input.wrong(format!("a string of the unknown form {form}"))),
        }
    }

    fn check_string_bytes(&self, bytes: u64) -> Result<(), InputError> {
        match bytes <= STRING_BYTES_MAX {
            true => Ok(()),
            false => Err(self.input.wrong(format!("a string of {bytes} bytes; the most are {STRING_BYTES_MAX}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Item>, InputError> {
        let mut input = Input::new(bytes, "test.rdb");
        let mut reader = RdbReader::new(&mut input)?;
        let mut items = Vec::new();
        while let Some(item) = reader.next()? {
            items.push(item);
        }
        Ok(items)
    }

    fn file(body: &[u8]) -> Vec<u8> {
        let mut bytes = b"REDIS0010".to_vec();
        bytes.extend_from_slice(body);
        bytes.push(0xff);
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }

    fn record(database: u64, key: &str, value: &str, expiry_millis: u64) -> Item {
        Item::Record(Record { database, key: key.into(), value: value.into(), expiry_millis })
    }

    #[test]
    fn all_forms_of_a_string_are_read() {
        let body = b"\xfa\x01a\xc0\x05\xfe\x03\xfb\x05\x00\
            \x00\x01a\xc0\xff\x00\x01b\xc1\x39\x30\x00\x01c\xc2\x00\x00\x00\x80\
            \x00\x01d\x40\x02hi\x00\x01e\x80\x00\x00\x00\x01x\x00\x01f\xc3\x05\x0c\x00a\xe0\x02\x00";
        let expected =
            [("a", "-1"), ("b", "12345"), ("c", "-2147483648"), ("d", "hi"), ("e", "x"), ("f", "aaaaaaaaaaaa")];
        let expected: Vec<Item> = expected.iter().map(|(key, value)| record(3, key, value, 0)).collect();
        assert_eq!(read(&file(body)).unwrap(), expected);
    }

    #[test]
    fn an_expiry_belongs_to_the_next_key_only() {
        let mut body = b"\xfc".to_vec();
        body.extend_from_slice(&1234_u64.to_le_bytes());
        body.extend_from_slice(b"\x00\x01a\x01x\x00\x01b\x01y\xfd\x02\x00\x00\x00\xf9\x07\xf8\x05\x00\x01c\x01z");
        let expected = vec![record(0, "a", "x", 1234), record(0, "b", "y", 0), record(0, "c", "z", 2000)];
        assert_eq!(read(&file(&body)).unwrap(), expected);
    }

    #[test]
    fn a_damaged_or_short_or_newer_file_is_refused_by_place() {
        let whole = file(b"\x00\x01a\x01x");
        let mut wrong_sum = whole.clone();
        *wrong_sum.last_mut().unwrap() = 1;
        assert!(read(&wrong_sum).unwrap_err().reason.contains("checksum differs"));
        for bytes in 0..whole.len() {
            assert!(read(&whole[..bytes]).unwrap_err().is_short, "{bytes}");
        }
        assert!(read(b"REDIS0099\xff").unwrap_err().reason.contains("version 99"));
        assert!(read(b"RUBBISH00").is_err());
        assert!(read(&file(b"\x00\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff")).is_err(), "a length beyond all bounds");
    }
}
