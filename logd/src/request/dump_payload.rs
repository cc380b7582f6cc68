//! The bytes of a dumped string: type, length, content, version, checksum.
//! Guarantees: a length is bounded by what follows before it is believed; nothing is given from a payload whose checksum
//! differs.
//! Must not know: requests.
//! Next: dump.rs.
//!
//! A payload is `type:1 string version:2 crc:8`, the last two little-endian. A string is a length and its bytes, or
//! a byte of the form 11xxxxxx and a small integer (xxxxxx 0, 1, 2: of 8, 16, 32 bits) or compressed bytes (3). We write no
//! compressed ones. A length is 00xxxxxx, 01xxxxxx and a byte, 10000000 and 32 bits, or 10000001 and 64, big-endian.
//! "7" is 00 c0 07 0a 00 and the checksum.

use super::value::STRING_BYTES_MAX;
use crate::number::parse_i64;

/// What we write: the version of 7.0, which knows strings as every version does.
const VERSION: u16 = 10;
/// The newest that we read: that of 7.2.
const VERSION_MAX: u16 = 11;
const TYPE_STRING: u8 = 0;
const FOOT_BYTES: usize = 10;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too short, of a newer version, or the checksum differs.
    Unproven,
    /// The checksum is right, but this is no string.
    Malformed,
}

/// The payload of a string.
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut payload = vec![TYPE_STRING];
    match parse_i64(bytes).and_then(|number| i32::try_from(number).ok()) {
        Some(number) => push_integer(&mut payload, number),
        None => {
            push_len(&mut payload, bytes.len());
            payload.extend_from_slice(bytes);
        }
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

fn push_integer(payload: &mut Vec<u8>, number: i32) {
    if let Ok(number) = i8::try_from(number) {
        payload.extend_from_slice(&[0xc0, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        payload.push(0xc1);
        payload.extend_from_slice(&number.to_le_bytes());
    } else {
        payload.push(0xc2);
        payload.extend_from_slice(&number.to_le_bytes());
    }
}

fn push_len(payload: &mut Vec<u8>, len: usize) {
    match len {
        0..=0x3f => payload.push(len as u8),
        0x40..=0x3fff => payload.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        _ => {
            let len = u32::try_from(len).expect("a string is shorter than 4 GiB");
            payload.push(0x80);
            payload.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// The string of a payload.
pub fn decode(payload: &[u8]) -> Result<Vec<u8>, Fault> {
    let (body, foot) = payload.split_at_checked(payload.len().wrapping_sub(FOOT_BYTES)).ok_or(Fault::Unproven)?;
    let (version, sum) = foot.split_first_chunk().ok_or(Fault::Unproven)?;
    let is_whole = crc64(&payload[..payload.len() - 8]).to_le_bytes() == sum;
    if u16::from_le_bytes(*version) > VERSION_MAX || !is_whole {
        return Err(Fault::Unproven);
    }
    match body {
        [TYPE_STRING, string @ ..] => read_string(string).ok_or(Fault::Malformed),
        _ => Err(Fault::Malformed),
    }
}

fn read_string(bytes: &[u8]) -> Option<Vec<u8>> {
    match bytes {
        [0xc0, byte] => Some((*byte as i8).to_string().into_bytes()),
        [0xc1, rest @ ..] => Some(i16::from_le_bytes(rest.try_into().ok()?).to_string().into_bytes()),
        [0xc2, rest @ ..] => Some(i32::from_le_bytes(rest.try_into().ok()?).to_string().into_bytes()),
        [0xc3, rest @ ..] => {
            let (packed_len, rest) = read_len(rest)?;
            let (len, packed) = read_len(rest)?;
            (packed.len() == packed_len && len <= STRING_BYTES_MAX).then(|| unpack(packed, len))?
        }
        rest => {
            let (len, rest) = read_len(rest)?;
            (rest.len() == len).then(|| rest.to_vec())
        }
    }
}

fn read_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match first >> 6 {
        0 => Some((usize::from(first & 0x3f), rest)),
        1 => {
            let (second, rest) = rest.split_first()?;
            Some((usize::from(first & 0x3f) << 8 | usize::from(*second), rest))
        }
        2 if *first == 0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_be_bytes(*len)).ok()?, rest))
        }
        2 if *first == 0x81 => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u64::from_be_bytes(*len)).ok()?, rest))
        }
        _ => None,
    }
}

/// Undoes LZF: 000lllll is l+1 bytes as they are; lllddddd d is l+2 bytes from d+1 before, where l of 7 has one more byte.
fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // It grows with what is read, not with what is claimed: a claim may be a lie.
    let mut bytes = Vec::new();
    while let Some((head, rest)) = packed.split_first() {
        if *head < 32 {
            let (plain, rest) = rest.split_at_checked(usize::from(*head) + 1)?;
            bytes.extend_from_slice(plain);
            packed = rest;
        } else {
            let (more, rest) = if head >> 5 == 7 { rest.split_first()? } else { (&0, rest) };
            let (low, rest) = rest.split_first()?;
            let count = usize::from(head >> 5) + usize::from(*more) + 2;
            let back = (usize::from(head & 0x1f) << 8 | usize::from(*low)) + 1;
            let start = bytes.len().checked_sub(back)?;
            // Byte by byte, since the run may reach into what it writes.
            for at in start..start + count {
                bytes.push(bytes[at]);
            }
            packed = rest;
        }
        if bytes.len() > len {
            return None;
        }
    }
    (bytes.len() == len).then_some(bytes)
}

/// CRC-64 with the polynomial ad93d23594c935a9, bits mirrored, begun at 0: "123456789" has e9c6d914c4b8d9ca.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| CRC_TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8))
}

const CRC_TABLE: [u64; 256] = crc_table();

const fn crc_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut sum = at as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x95ac_9329_ac4b_c9b5 } else { sum >> 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn every_form_of_a_string_is_read() {
        for value in ["", "7", "-128", "128", "-32769", "2147483647", "2147483648", "01", &"x".repeat(63)] {
            assert_eq!(decode(&encode(value.as_bytes())).as_deref(), Ok(value.as_bytes()));
        }
        let long = vec![b'z'; 70_000];
        assert_eq!(decode(&encode(&long)), Ok(long));
        let packed = [0xc3, 5, 12, 0x01, b'a', b'b', 0xe0, 1, 1];
        assert_eq!(read_string(&packed), None, "the run is longer than the claimed length");
        assert_eq!(read_string(&[0xc3, 6, 12, 0x01, b'a', b'b', 0xe0, 1, 1]).as_deref(), Some(&b"abababababab"[..]));
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        for bytes in
            [&[0x05, b'a'][..], &[0x81, 255, 255, 255, 255, 255, 255, 255, 255], &[0xc3, 2, 0x3f, 0x20, 9], &[]]
        {
            assert_eq!(read_string(bytes), None, "{bytes:?}");
        }
        assert_eq!(decode(b""), Err(Fault::Unproven));
    }
}
