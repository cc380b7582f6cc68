//! The state digest: one number for all records of a store, whatever their order, shards or way into memory.
//! Guarantees: equal states have equal digests; a directory, a running store and a replay give the same.
//! Must not know: trees, files, commands.
//! Next: snapshot/writer.rs adds one up while it writes; verify.rs compares.
//!
//! Hashed for each record, all numbers little-endian:
//! `name_bytes u8 | keyspace name | key_bytes u16 | key | expiry_millis u64 | value`. The XXH3-128 hashes are added up modulo 2^128.

use crate::index::Entry;
use std::fmt;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Records up to this many bytes are hashed in one go, which is several times faster than feeding a hasher.
const WHOLE_BYTES_MAX: usize = 1024;

/// A sum of record hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub u128);

impl Digest {
    /// Of no record at all.
    pub const EMPTY: Digest = Digest(0);

    /// Counts a record in.
    pub fn add(&mut self, keyspace: &str, key: &[u8], entry: Entry<'_>) {
        self.0 = self.0.wrapping_add(record_hash(keyspace, key, entry));
    }

    /// Takes a record out again.
    pub fn subtract(&mut self, keyspace: &str, key: &[u8], entry: Entry<'_>) {
        self.0 = self.0.wrapping_sub(record_hash(keyspace, key, entry));
    }

    /// Counts in all that another digest counted.
    pub fn add_all(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

fn record_hash(keyspace: &str, key: &[u8], entry: Entry<'_>) -> u128 {
    let name_bytes = u8::try_from(keyspace.len()).expect("a name's length was checked");
    let key_bytes = u16::try_from(key.len()).expect("a key's length was checked");
    let pieces: [&[u8]; 6] = [
        &[name_bytes],
        keyspace.as_bytes(),
        &key_bytes.to_le_bytes(),
        key,
        &entry.expiry_millis.to_le_bytes(),
        entry.value,
    ];
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    if bytes <= WHOLE_BYTES_MAX { hash_whole(&pieces, bytes) } else { hash_in_pieces(&pieces) }
}

fn hash_whole(pieces: &[&[u8]], bytes: usize) -> u128 {
    let mut whole = [0; WHOLE_BYTES_MAX];
    let mut end = 0;
    for piece in pieces {
        whole[end..end + piece.len()].copy_from_slice(piece);
        end += piece.len();
    }
    assert_eq!(end, bytes, "the pieces are as long as they were measured");
    xxh3_128(&whole[..end])
}

fn hash_in_pieces(pieces: &[&[u8]]) -> u128 {
    let mut hasher = Xxh3::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &[u8], expiry_millis: u64) -> Entry<'_> {
        Entry { value, expiry_millis }
    }

    fn digest_of(records: &[(&str, &[u8], Entry<'_>)]) -> Digest {
        let mut digest = Digest::EMPTY;
        records.iter().for_each(|(keyspace, key, entry)| digest.add(keyspace, key, *entry));
        digest
    }

    #[test]
    fn order_does_not_matter_and_subtracting_undoes() {
        let a: (&str, &[u8], _) = ("one", b"a", entry(b"1", 0));
        let b: (&str, &[u8], _) = ("two", b"b", entry(b"2", 9));
        assert_eq!(digest_of(&[a, b]), digest_of(&[b, a]));
        let mut digest = digest_of(&[a, b]);
        digest.subtract(a.0, a.1, a.2);
        assert_eq!(digest, digest_of(&[b]));
    }

    #[test]
    fn every_part_of_a_record_counts() {
        let base = digest_of(&[("ks", b"key", entry(b"value", 1))]);
        assert_ne!(base, digest_of(&[("kt", b"key", entry(b"value", 1))]));
        assert_ne!(base, digest_of(&[("ks", b"kez", entry(b"value", 1))]));
        assert_ne!(base, digest_of(&[("ks", b"key", entry(b"valuf", 1))]));
        assert_ne!(base, digest_of(&[("ks", b"key", entry(b"value", 2))]));
        assert_ne!(base, digest_of(&[("k", b"skey", entry(b"value", 1))]), "the border between name and key counts");
    }

    #[test]
    fn hashing_in_pieces_gives_the_same_as_in_one_go() {
        let value = vec![7; 900];
        let pieces: [&[u8]; 3] = [b"abc", &value, b"z"];
        assert_eq!(hash_whole(&pieces, 904), hash_in_pieces(&pieces));
    }

    #[test]
    fn it_is_shown_as_32_hex_digits() {
        assert_eq!(Digest(0xab).to_string(), "000000000000000000000000000000ab");
    }
}
