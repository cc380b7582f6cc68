//! How a Redis value stands in a record: one byte that says its type, then its bytes.
//! Guarantees: a value of another type is never read as a string; nothing longer than a string may be is built.
//! Must not know: replies.
//! Next: string.rs.

use super::{Data, Failure, errors};
use crate::number::parse_i64;
use logd_engine::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use logd_engine::units::Millis;

/// First byte of a record that holds a string.
pub const TAG_STRING: u8 = 0;

/// Longest string in bytes: the longest value without its type byte, one short of Redis' default.
pub const STRING_BYTES_MAX: usize = VALUE_BYTES_MAX - 1;

/// Longest string that Redis keeps in one allocation with its header; only told, not done here.
const EMBEDDED_BYTES_MAX: usize = 44;

/// A string and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringRecord<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// When it ends, in engine time.
    pub expiry: Option<Millis>,
}

/// The string in a record's value; WRONGTYPE if it is something else.
pub fn string_of(value: &[u8]) -> Result<&[u8], Failure> {
    match value {
        [TAG_STRING, bytes @ ..] => Ok(bytes),
        _ => Err(errors::wrong_type()),
    }
}

/// The record's value for a string.
pub fn string_value(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(1 + bytes.len());
    value.push(TAG_STRING);
    value.extend_from_slice(bytes);
    value
}

/// The type of a record's value, as TYPE tells it.
pub fn type_of(value: &[u8]) -> &'static str {
    match value.first() {
        Some(&TAG_STRING) => "string",
        _ => "unknown",
    }
}

/// How Redis would keep a string made by SET, as OBJECT ENCODING tells it.
pub fn encoding_of(bytes: &[u8]) -> &'static str {
    if parse_i64(bytes).is_some() {
        "int"
    } else if bytes.len() <= EMBEDDED_BYTES_MAX {
        "embstr"
    } else {
        "raw"
    }
}

/// An argument that is an integer.
pub fn integer(word: &[u8]) -> Result<i64, Failure> {
    parse_i64(word).ok_or_else(errors::not_an_integer)
}

/// Refuses a key that no record can have. Commands that change several records ask before the first change.
pub fn check_key(key: &[u8]) -> Result<(), Failure> {
    let bytes = key.len();
    if bytes > KEY_BYTES_MAX {
        return Err(Failure::reply(format!("ERR key of {bytes} bytes is longer than {KEY_BYTES_MAX}")));
    }
    Ok(())
}

/// Refuses a string that would get too long; before it is built.
pub fn check_string_bytes(start: usize, more: usize) -> Result<(), Failure> {
    match start.checked_add(more) {
        Some(bytes) if bytes <= STRING_BYTES_MAX => Ok(()),
        _ => Err(errors::string_too_long()),
    }
}

impl Data<'_, '_> {
    /// Whether there is a record of a key.
    pub fn exists(&self, key: &[u8]) -> bool {
        self.transaction.get(self.keyspace(), key).is_some()
    }

    /// The string of a key.
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRecord<'_>>, Failure> {
        let Some(record) = self.transaction.get(self.keyspace(), key) else { return Ok(None) };
        Ok(Some(StringRecord { bytes: string_of(record.value)?, expiry: record.expiry }))
    }

    /// The string of a key, for a command that reads: it counts as found or missed.
    pub fn read_string(&self, key: &[u8]) -> Result<Option<StringRecord<'_>>, Failure> {
        let Some(record) = self.look_up(key) else { return Ok(None) };
        Ok(Some(StringRecord { bytes: string_of(record.value)?, expiry: record.expiry }))
    }

    /// Sets the string of a key. One that ended already is as good as deleted, and is deleted.
    pub fn put_string(&mut self, key: &[u8], bytes: &[u8], expiry: Option<Millis>) -> Result<(), Failure> {
        check_string_bytes(bytes.len(), 0)?;
        self.put_value(key, &string_value(bytes), expiry)
    }

    /// The same for a value that has its type byte.
    pub fn put_value(&mut self, key: &[u8], value: &[u8], expiry: Option<Millis>) -> Result<(), Failure> {
        check_key(key)?;
        let keyspace = self.keyspace();
        if self.is_past(expiry) {
            self.transaction.delete(keyspace, key);
        } else {
            self.transaction.put(keyspace, key, value, expiry)?;
        }
        Ok(())
    }

    /// Whether a record with this expiry would be due.
    pub fn is_past(&self, expiry: Option<Millis>) -> bool {
        expiry.is_some_and(|expiry| expiry <= self.transaction.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_type_is_no_string() {
        assert!(matches!(string_of(&[TAG_STRING, b'a']), Ok(b"a")));
        assert!(matches!(string_of(&[7, b'a']), Err(Failure::Reply(text)) if text.starts_with("WRONGTYPE ")));
        assert!(string_of(&[]).is_err());
        assert_eq!(type_of(&string_value(b"")), "string");
    }

    #[test]
    fn lengths_are_refused_without_overflow() {
        assert!(check_string_bytes(STRING_BYTES_MAX - 1, 1).is_ok());
        assert!(check_string_bytes(STRING_BYTES_MAX, 1).is_err());
        assert!(check_string_bytes(usize::MAX, 1).is_err());
        assert!(check_key(&[0; KEY_BYTES_MAX + 1]).is_err());
    }
}
