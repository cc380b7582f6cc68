//! The header of a log segment: block 0 of its file.
//!
//! Guarantees: the place of magic, version and checksum, and what the checksum covers, stay so in all versions, so that
//! a newer header is told from a damaged one. A header names where the segment before it ended: that is a durable cut.
//! Must not know: files, batches.
//! Next: batch.rs has what follows from block 1 on; log/reader.rs walks both.

use super::{Field, StoreId, Unreadable, checksum::checksum, fields};
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX};
use crate::units::{FileOffset, Lsn, SegmentId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a segment file in use.
pub const SEGMENT_MAGIC: [u8; 8] = *b"LOGDSEG\0";
/// Newest version known here.
pub const SEGMENT_VERSION: u32 = 1;
/// Bytes the header takes in the file; the part that is not described here is zero.
pub const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;

const RAW_BYTES: usize = size_of::<Raw>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    header_crc: U32,
    store_id: [u8; 16],
    segment: U64,
    segment_bytes: U64,
    previous_segment: U64,
    previous_last_lsn: U64,
    previous_last_sequence: U64,
    previous_end: U64,
    first_lsn: U64,
    first_sequence: U64,
    recycled: U32,
    reserved: [u8; 4],
}

/// The header's table, as docs/FORMAT.md shows it. Bytes behind it up to the block's end are zero.
pub const FIELDS: &[Field] = fields!(Raw {
    magic: 8,
    version: 4,
    header_crc: 4,
    store_id: 16,
    segment: 8,
    segment_bytes: 8,
    previous_segment: 8,
    previous_last_lsn: 8,
    previous_last_sequence: 8,
    previous_end: 8,
    first_lsn: 8,
    first_sequence: 8,
    recycled: 4,
    reserved: 4,
});

/// What a segment says about itself and about the end of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its id, which is also the generation of its batches.
    pub segment: SegmentId,
    /// Length of the file.
    pub segment_bytes: u64,
    /// The segment before it; 0 for none.
    pub previous_segment: SegmentId,
    /// Last LSN of the log before this segment.
    pub previous_last_lsn: Lsn,
    /// Last batch sequence of the log before this segment.
    pub previous_last_sequence: u64,
    /// Where the segment before it ended: nothing from there on counts.
    pub previous_end: FileOffset,
    /// LSN of its first command; above `previous_last_lsn` by more than one only after a recovery that cut something.
    pub first_lsn: Lsn,
    /// Sequence of its first batch, with the same gap.
    pub first_sequence: u64,
    /// Whether the file held an older segment, so that old bytes stand behind the end; else zeros do.
    pub recycled: bool,
}

impl SegmentHeader {
    /// Writes the header to the front of a block.
    pub fn encode(&self, store: StoreId, block: &mut [u8]) {
        let mut raw = Raw {
            magic: SEGMENT_MAGIC,
            version: SEGMENT_VERSION.into(),
            header_crc: 0.into(),
            store_id: store.0,
            segment: self.segment.0.into(),
            segment_bytes: self.segment_bytes.into(),
            previous_segment: self.previous_segment.0.into(),
            previous_last_lsn: self.previous_last_lsn.0.into(),
            previous_last_sequence: self.previous_last_sequence.into(),
            previous_end: self.previous_end.into(),
            first_lsn: self.first_lsn.0.into(),
            first_sequence: self.first_sequence.into(),
            recycled: u32::from(self.recycled).into(),
            reserved: [0; 4],
        };
        raw.header_crc = header_crc(store, &raw).into();
        block[..RAW_BYTES].copy_from_slice(raw.as_bytes());
        block[RAW_BYTES..SEGMENT_HEADER_BYTES].fill(0);
    }

    /// Reads the header from block 0.
    pub fn decode(store: StoreId, block: &[u8]) -> Result<SegmentHeader, Unreadable> {
        let block = block.get(..SEGMENT_HEADER_BYTES).ok_or(Unreadable::Length)?;
        let (raw, rest) = Raw::ref_from_prefix(block).map_err(|_| Unreadable::Length)?;
        if raw.magic != SEGMENT_MAGIC {
            let zeros = block.iter().all(|byte| *byte == 0);
            return Err(if zeros { Unreadable::Zeros } else { Unreadable::Magic("segment") });
        }
        let expected = header_crc(store, raw);
        if raw.header_crc.get() != expected {
            return Err(Unreadable::Header { expected, found: raw.header_crc.get() });
        }
        if raw.version.get() != SEGMENT_VERSION {
            return Err(Unreadable::Version(raw.version.get()));
        }
        check_values(raw, rest)?;
        Ok(SegmentHeader {
            segment: SegmentId(raw.segment.get()),
            segment_bytes: raw.segment_bytes.get(),
            previous_segment: SegmentId(raw.previous_segment.get()),
            previous_last_lsn: Lsn(raw.previous_last_lsn.get()),
            previous_last_sequence: raw.previous_last_sequence.get(),
            previous_end: raw.previous_end.get(),
            first_lsn: Lsn(raw.first_lsn.get()),
            first_sequence: raw.first_sequence.get(),
            recycled: raw.recycled.get() == 1,
        })
    }
}

/// Covers the described part but for the checksum itself.
fn header_crc(store: StoreId, raw: &Raw) -> u32 {
    let bytes = raw.as_bytes();
    checksum(store, &[&bytes[..12], &bytes[16..]])
}

fn check_values(raw: &Raw, rest: &[u8]) -> Result<(), Unreadable> {
    let block = BLOCK_BYTES as u64;
    let rules = [
        (raw.reserved == [0; 4] && rest.iter().all(|byte| *byte == 0), "reserved bytes are not zero"),
        (raw.recycled.get() <= 1, "unknown origin of the segment"),
        (
            (2 * block..=SEGMENT_BYTES_MAX).contains(&raw.segment_bytes.get())
                && raw.segment_bytes.get().is_multiple_of(block),
            "segment length out of its bounds",
        ),
        (raw.segment.get() > raw.previous_segment.get(), "segment id is not above that of the segment before"),
        (raw.first_lsn.get() > raw.previous_last_lsn.get(), "first LSN is not above the last one before"),
        (
            raw.first_sequence.get() > raw.previous_last_sequence.get(),
            "first batch sequence is not above the last one before",
        ),
        (
            raw.previous_end.get() <= SEGMENT_BYTES_MAX && raw.previous_end.get().is_multiple_of(block),
            "end of the segment before is no block of it",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Unreadable::Value(rule)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId(*b"a store of tests");

    fn header() -> SegmentHeader {
        SegmentHeader {
            segment: SegmentId(7),
            segment_bytes: 1 << 20,
            previous_segment: SegmentId(5),
            previous_last_lsn: Lsn(100),
            previous_last_sequence: 9,
            previous_end: 8192,
            first_lsn: Lsn(105),
            first_sequence: 11,
            recycled: true,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut block = vec![0xff; BLOCK_BYTES];
        header().encode(STORE, &mut block);
        assert_eq!(SegmentHeader::decode(STORE, &block), Ok(header()));
        assert_eq!(FIELDS.iter().map(|field| field.bytes).sum::<usize>(), RAW_BYTES);
    }

    #[test]
    fn every_flipped_bit_and_every_other_store_is_noticed() {
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(SegmentHeader::decode(STORE, &block), Err(Unreadable::Zeros));
        header().encode(STORE, &mut block);
        assert!(SegmentHeader::decode(StoreId([0; 16]), &block).is_err());
        for place in 0..block.len() {
            block[place] ^= 0x10;
            assert!(SegmentHeader::decode(STORE, &block).is_err(), "byte {place}");
            block[place] ^= 0x10;
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut block = vec![0; BLOCK_BYTES];
        header().encode(STORE, &mut block);
        block[8] = 2;
        let crc = checksum(STORE, &[&block[..12], &block[16..RAW_BYTES]]);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(STORE, &block), Err(Unreadable::Version(2)));
    }
}
