//! One block of a snapshot: records of one shard and keyspace, sorted by key.
//!
//! ```text
//! block   header 48 | payload | zeros to 4096
//! record  key_bytes u16 | flags u8 (bit 0: has an expiry) | value_bytes u32 | [expiry_millis u64] | key | value
//! ```
//! Guarantees: a block that was put to another place, or belongs to another snapshot, does not decode.
//! Must not know: files, trees, the block index.
//! Next: snapshot/reader.rs reads them.

use super::damage::{Flaw, check_crc, check_equal, check_zero};
use super::snapshot::padded;
use super::{Cursor, Field, packed};
use crate::canary::{Canary, planted};
use crate::index::Entry;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::units::{FileOffset, Lsn};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes before a block's payload.
pub const BLOCK_HEADER_BYTES: usize = 48;

const MAGIC: [u8; 4] = *b"lSBK";
const FLAG_EXPIRY: u8 = 1;

/// The block header's table.
pub const BLOCK_FIELDS: &[Field] = &[
    Field { offset: 0, bytes: 4, name: "magic" },
    Field { offset: 4, bytes: 4, name: "header_crc" },
    Field { offset: 8, bytes: 4, name: "payload_crc" },
    Field { offset: 12, bytes: 4, name: "payload_bytes" },
    Field { offset: 16, bytes: 4, name: "record_count" },
    Field { offset: 20, bytes: 2, name: "shard" },
    Field { offset: 22, bytes: 2, name: "keyspace" },
    Field { offset: 24, bytes: 2, name: "flags" },
    Field { offset: 26, bytes: 6, name: "reserved" },
    Field { offset: 32, bytes: 8, name: "lsn" },
    Field { offset: 40, bytes: 8, name: "offset" },
];

/// Table of a record without an expiry.
pub const RECORD_FIELDS: &[Field] =
    &packed([("key_bytes", 2), ("flags", 1), ("value_bytes", 4), ("key", 0), ("value", 0)]);
/// Table of a record with an expiry.
pub const RECORD_EXPIRY_FIELDS: &[Field] =
    &packed([("key_bytes", 2), ("flags", 1), ("value_bytes", 4), ("expiry_millis", 8), ("key", 0), ("value", 0)]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct BlockHeader {
    magic: [u8; 4],
    header_crc: U32,
    payload_crc: U32,
    payload_bytes: U32,
    record_count: U32,
    shard: U16,
    keyspace: U16,
    /// None known yet; one will say that the records are not sorted.
    flags: U16,
    reserved: [u8; 6],
    lsn: U64,
    offset: U64,
}

const _: () = assert!(size_of::<BlockHeader>() == BLOCK_HEADER_BYTES, "the header is as long as its table says");
const _: () = assert!(VALUE_BYTES_MAX + KEY_BYTES_MAX + 15 < u32::MAX as usize, "one record fits into a block");

/// A block's row in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Where it lies.
    pub offset: FileOffset,
    /// Bytes of records.
    pub payload_bytes: u32,
    /// Number of records.
    pub record_count: u32,
    /// Shard.
    pub shard: u16,
    /// Keyspace.
    pub keyspace: u16,
    /// CRC-32 of the payload.
    pub payload_crc: u32,
}

impl BlockPlace {
    /// Bytes it takes in the file.
    pub fn file_bytes(&self) -> u64 {
        padded(BLOCK_HEADER_BYTES as u64 + u64::from(self.payload_bytes))
    }
}

/// Bytes a record takes.
pub fn record_bytes(key: &[u8], entry: Entry<'_>) -> usize {
    let expiry_bytes = if entry.expiry_millis == 0 { 0 } else { 8 };
    7 + expiry_bytes + key.len() + entry.value.len()
}

/// Puts a record at the front of `out`, which is long enough. Returns its length.
pub fn encode_record(out: &mut [u8], key: &[u8], entry: Entry<'_>) -> usize {
    let bytes = record_bytes(key, entry);
    let key_bytes = u16::try_from(key.len()).expect("a key's length was checked");
    let value_bytes = u32::try_from(entry.value.len()).expect("a value's length was checked");
    out[..2].copy_from_slice(&key_bytes.to_le_bytes());
    out[3..7].copy_from_slice(&value_bytes.to_le_bytes());
    let mut at = 7;
    if entry.expiry_millis == 0 {
        out[2] = 0;
    } else {
        out[2] = FLAG_EXPIRY;
        out[7..15].copy_from_slice(&entry.expiry_millis.to_le_bytes());
        at = 15;
    }
    out[at..at + key.len()].copy_from_slice(key);
    out[at + key.len()..bytes].copy_from_slice(entry.value);
    bytes
}

/// Completes a block whose records are in place: zeros behind them, checksums and header in front.
pub fn seal_block(block: &mut [u8], mut place: BlockPlace, lsn: Lsn) -> BlockPlace {
    assert_eq!(block.len() as u64, place.file_bytes(), "a block's buffer is as long as the block");
    let (header_bytes, rest) = block.split_at_mut(BLOCK_HEADER_BYTES);
    let (payload, padding) = rest.split_at_mut(place.payload_bytes as usize);
    padding.fill(0);
    place.payload_crc = crc32fast::hash(payload);
    let mut header = BlockHeader {
        magic: MAGIC,
        header_crc: 0.into(),
        payload_crc: place.payload_crc.into(),
        payload_bytes: place.payload_bytes.into(),
        record_count: place.record_count.into(),
        shard: place.shard.into(),
        keyspace: place.keyspace.into(),
        flags: 0.into(),
        reserved: [0; 6],
        lsn: lsn.0.into(),
        offset: place.offset.into(),
    };
    header.header_crc = crc32fast::hash(header.as_bytes()).into();
    header_bytes.copy_from_slice(header.as_bytes());
    place
}

/// Checks a block against its row in the index and its own checksums.
pub fn check_block(block: &[u8], place: &BlockPlace, lsn: Lsn) -> Result<(), Flaw> {
    const WHAT: &str = "snapshot block header";
    let (header, rest) = BlockHeader::read_from_prefix(block)
        .map_err(|_| Flaw::damaged(WHAT, 'f', 0, format!("{BLOCK_HEADER_BYTES} bytes"), block.len()))?;
    if header.magic != MAGIC {
        return Err(Flaw::damaged(WHAT, 'f', 0, MAGIC.escape_ascii(), header.magic.escape_ascii()));
    }
    let mut bare = header.clone();
    bare.header_crc = 0.into();
    check_crc(WHAT, 'f', 4, header.header_crc.get(), crc32fast::hash(bare.as_bytes()))?;
    check_equal(WHAT, 'f', 24, 0, header.flags.get())?;
    check_zero(WHAT, 'f', 26, &header.reserved)?;
    check_equal(WHAT, 'f', 32, lsn.0, header.lsn.get())?;
    let found = BlockPlace {
        offset: header.offset.get(),
        payload_bytes: header.payload_bytes.get(),
        record_count: header.record_count.get(),
        shard: header.shard.get(),
        keyspace: header.keyspace.get(),
        payload_crc: header.payload_crc.get(),
    };
    if found != *place {
        return Err(Flaw::damaged(WHAT, 'f', 8, format!("{place:?}"), format!("{found:?}")));
    }
    check_payload(rest, place)
}

fn check_payload(rest: &[u8], place: &BlockPlace) -> Result<(), Flaw> {
    const WHAT: &str = "snapshot block";
    let base = BLOCK_HEADER_BYTES as u64;
    let cut = || Flaw::damaged(WHAT, 'g', base, format!("{} bytes", place.payload_bytes), rest.len());
    let (payload, padding) = rest.split_at_checked(place.payload_bytes as usize).ok_or_else(cut)?;
    if !planted(Canary::IgnoreBlockChecksum) {
        check_crc(WHAT, 'g', base, place.payload_crc, crc32fast::hash(payload))?;
    }
    check_zero(WHAT, 'g', base + payload.len() as u64, padding)
}

/// Walks the records of a checked block. Ends after the first flaw.
#[derive(Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    payload_bytes: usize,
    left: u32,
    last: Option<&'a [u8]>,
}

impl<'a> Records<'a> {
    /// Starts at the front of a block that `check_block` has passed.
    pub fn new(block: &'a [u8], place: &BlockPlace) -> Records<'a> {
        let payload = block.get(BLOCK_HEADER_BYTES..).and_then(|rest| rest.get(..place.payload_bytes as usize));
        let payload = payload.expect("a checked block holds its payload");
        Records { cursor: Cursor::new(payload), payload_bytes: payload.len(), left: place.record_count, last: None }
    }

    fn decode(&mut self) -> Option<(&'a [u8], Entry<'a>)> {
        let key_bytes = self.cursor.u16()? as usize;
        let flags = self.cursor.u8()?;
        let value_bytes = self.cursor.u32()? as usize;
        let expiry_millis = if flags == FLAG_EXPIRY { self.cursor.u64()? } else { 0 };
        let key = self.cursor.take(key_bytes)?;
        let value = self.cursor.take(value_bytes)?;
        if planted(Canary::SnapshotLosesExpiry) {
            return Some((key, Entry { value, expiry_millis: 0 }));
        }
        (flags <= FLAG_EXPIRY && (flags == 0) == (expiry_millis == 0)).then_some((key, Entry { value, expiry_millis }))
    }

    fn flaw(&mut self, at: usize, expected: &str, found: impl ToString) -> Flaw {
        self.left = 0;
        self.cursor = Cursor::new(&[]);
        Flaw::damaged("snapshot record", 'h', (BLOCK_HEADER_BYTES + at) as u64, expected, found)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], Entry<'a>), Flaw>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.payload_bytes - self.cursor.rest().len();
        if self.left == 0 {
            let rest = self.cursor.rest().len();
            return (rest != 0).then(|| Err(self.flaw(at, "no more bytes than records", rest)));
        }
        self.left -= 1;
        let Some((key, entry)) = self.decode() else {
            return Some(Err(self.flaw(at, "a record that ends within its block", "another")));
        };
        if self.last.is_some_and(|last| last >= key) {
            return Some(Err(self.flaw(at, "keys in order", key.escape_ascii())));
        }
        self.last = Some(key);
        Some(Ok((key, entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(records: &[(&[u8], Entry<'_>)]) -> (Vec<u8>, BlockPlace) {
        let payload_bytes: usize = records.iter().map(|(key, entry)| record_bytes(key, *entry)).sum();
        let place = BlockPlace {
            offset: 8192,
            payload_bytes: payload_bytes as u32,
            record_count: records.len() as u32,
            shard: 3,
            keyspace: 9,
            payload_crc: 0,
        };
        let mut block = vec![0xee; place.file_bytes() as usize];
        let mut at = BLOCK_HEADER_BYTES;
        for (key, entry) in records {
            at += encode_record(&mut block[at..], key, *entry);
        }
        let place = seal_block(&mut block, place, Lsn(5));
        (block, place)
    }

    fn some_records() -> Vec<(&'static [u8], Entry<'static>)> {
        vec![
            (b"", Entry { value: b"", expiry_millis: 0 }),
            (b"a", Entry { value: b"one", expiry_millis: 77 }),
            (b"b", Entry { value: b"two", expiry_millis: 0 }),
        ]
    }

    #[test]
    fn records_come_back_as_they_went_in() {
        let (block, place) = block_of(&some_records());
        assert_eq!(check_block(&block, &place, Lsn(5)), Ok(()));
        assert_eq!(Records::new(&block, &place).collect::<Result<Vec<_>, _>>(), Ok(some_records()));
    }

    #[test]
    fn a_block_of_another_snapshot_or_place_is_refused() {
        let (block, place) = block_of(&some_records());
        assert!(check_block(&block, &place, Lsn(6)).is_err());
        assert!(check_block(&block, &BlockPlace { offset: 4096, ..place }, Lsn(5)).is_err());
    }

    #[test]
    fn records_out_of_order_or_too_many_are_refused_though_checksums_are_right() {
        let mut records = some_records();
        records.swap(1, 2);
        let (block, place) = block_of(&records);
        assert!(Records::new(&block, &place).any(|record| record.is_err()));
        let (block, place) = block_of(&some_records());
        for record_count in [0, 1, 2, 4, u32::MAX] {
            let place = BlockPlace { record_count, ..place };
            assert!(Records::new(&block, &place).any(|record| record.is_err()), "count {record_count}");
        }
    }

    #[test]
    fn extreme_lengths_inside_a_record_are_refused() {
        for (at, bytes) in [(0, 2), (3, 4)] {
            let (mut block, place) = block_of(&some_records());
            block[BLOCK_HEADER_BYTES + at..BLOCK_HEADER_BYTES + at + bytes].fill(0xff);
            let place = seal_block(&mut block, place, Lsn(5));
            assert!(Records::new(&block, &place).any(|record| record.is_err()), "at {at}");
        }
    }
}
