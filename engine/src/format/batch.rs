//! A batch: the frames that are written and made durable together, behind one header, padded with zeros to whole blocks.
//!
//! Guarantees: the header's own checksum makes its lengths believable before the payload is read; the payload's checksum
//! covers the padding too, so no byte of a batch changes unnoticed. A batch has at least one frame.
//! Must not know: files, what a frame means.
//! Next: segment.rs has what stands before the first batch; log/tail.rs decides what a bad one means.

use super::{Field, StoreId, Unreadable, checksum::checksum, command, fields};
use crate::canary::{Canary, planted};
use crate::limits::{BLOCK_BYTES, TIME_MILLIS_MAX};
use crate::units::{Lsn, Millis, SegmentId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a batch.
pub const BATCH_MAGIC: [u8; 4] = *b"LGDB";
/// Newest version known here.
pub const BATCH_VERSION: u32 = 1;
/// Bytes before the payload.
pub const BATCH_HEADER_BYTES: usize = size_of::<Raw>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    version: U32,
    header_crc: U32,
    payload_crc: U32,
    generation: U64,
    sequence: U64,
    first_lsn: U64,
    lsn_synced: U64,
    time_millis: U64,
    wall_millis: U64,
    frame_count: U32,
    payload_bytes: U32,
    reserved: [u8; 8],
}

/// The header's table, as docs/FORMAT.md shows it. The payload follows, then zeros to the block's end.
pub const FIELDS: &[Field] = fields!(Raw {
    magic: 4,
    version: 4,
    header_crc: 4,
    payload_crc: 4,
    generation: 8,
    sequence: 8,
    first_lsn: 8,
    lsn_synced: 8,
    time_millis: 8,
    wall_millis: 8,
    frame_count: 4,
    payload_bytes: 4,
    reserved: 8,
});

/// What a batch says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Id of the segment it was written to. Another one: old bytes of a recycled file.
    pub generation: SegmentId,
    /// Its number, dense over the whole log.
    pub sequence: u64,
    /// LSN of its first frame.
    pub first_lsn: Lsn,
    /// What was known to be on stable storage when it was formed: proof for the bytes before it.
    pub lsn_synced: Lsn,
    /// Engine time of its newest command.
    pub time: Millis,
    /// Wall clock at the same moment, for people.
    pub wall: Millis,
    /// Frames in it.
    pub frame_count: u32,
    /// Bytes of the frames.
    pub payload_bytes: u32,
}

impl BatchHeader {
    /// LSN of its last frame.
    pub fn last_lsn(&self) -> Lsn {
        self.first_lsn.plus(u64::from(self.frame_count) - 1)
    }

    /// Bytes it takes in the segment.
    pub fn padded_bytes(&self) -> u64 {
        padded_bytes(self.payload_bytes as usize) as u64
    }
}

/// Bytes that a batch with this payload takes in the segment.
pub fn padded_bytes(payload_bytes: usize) -> usize {
    (BATCH_HEADER_BYTES + payload_bytes).next_multiple_of(BLOCK_BYTES)
}

/// Completes a batch in place: `bytes` is header room, payload and padding, whole blocks; fills header and padding.
pub fn seal(store: StoreId, header: &BatchHeader, bytes: &mut [u8]) {
    let payload_end = BATCH_HEADER_BYTES + header.payload_bytes as usize;
    assert_eq!(bytes.len(), padded_bytes(header.payload_bytes as usize), "a batch fills whole blocks");
    assert!(header.frame_count > 0, "a batch has a frame");
    bytes[payload_end..].fill(0);
    let mut raw = Raw {
        magic: BATCH_MAGIC,
        version: BATCH_VERSION.into(),
        header_crc: 0.into(),
        payload_crc: payload_crc(store, &bytes[BATCH_HEADER_BYTES..]).into(),
        generation: header.generation.0.into(),
        sequence: header.sequence.into(),
        first_lsn: header.first_lsn.0.into(),
        lsn_synced: header.lsn_synced.0.into(),
        time_millis: header.time.0.into(),
        wall_millis: header.wall.0.into(),
        frame_count: header.frame_count.into(),
        payload_bytes: header.payload_bytes.into(),
        reserved: [0; 8],
    };
    raw.header_crc = header_crc(store, &raw).into();
    bytes[..BATCH_HEADER_BYTES].copy_from_slice(raw.as_bytes());
}

/// Reads a header at the front of `bytes`; the batch may take at most `room_bytes` from there on.
pub fn decode_header(store: StoreId, bytes: &[u8], room_bytes: u64) -> Result<BatchHeader, Unreadable> {
    let (raw, _) = Raw::ref_from_prefix(bytes).map_err(|_| Unreadable::Length)?;
    if raw.magic != BATCH_MAGIC {
        let zeros = raw.as_bytes().iter().all(|byte| *byte == 0);
        return Err(if zeros { Unreadable::Zeros } else { Unreadable::Magic("batch") });
    }
    let expected = header_crc(store, raw);
    if raw.header_crc.get() != expected {
        return Err(Unreadable::Header { expected, found: raw.header_crc.get() });
    }
    if raw.version.get() != BATCH_VERSION {
        return Err(Unreadable::Version(raw.version.get()));
    }
    check_values(raw)?;
    let header = BatchHeader {
        generation: SegmentId(raw.generation.get()),
        sequence: raw.sequence.get(),
        first_lsn: Lsn(raw.first_lsn.get()),
        lsn_synced: Lsn(raw.lsn_synced.get()),
        time: Millis(raw.time_millis.get()),
        wall: Millis(raw.wall_millis.get()),
        frame_count: raw.frame_count.get(),
        payload_bytes: raw.payload_bytes.get(),
    };
    if header.padded_bytes() > room_bytes { Err(Unreadable::Length) } else { Ok(header) }
}

/// Which segment a header at the front of `bytes` claims, believed or not: tells old bytes from a damaged header.
pub fn claimed_generation(bytes: &[u8]) -> Option<SegmentId> {
    let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
    (raw.magic == BATCH_MAGIC).then(|| SegmentId(raw.generation.get()))
}

/// Checks the payload of a whole batch whose header was decoded, padding included, and that its frames add up.
pub fn check_payload(store: StoreId, header: &BatchHeader, batch: &[u8]) -> Result<(), Unreadable> {
    let (raw, body) = Raw::ref_from_prefix(batch).map_err(|_| Unreadable::Length)?;
    let expected = payload_crc(store, body);
    if raw.payload_crc.get() != expected && !planted(Canary::IgnoreBatchChecksum) {
        return Err(Unreadable::Payload { expected, found: raw.payload_crc.get() });
    }
    let (payload, padding) = body.split_at_checked(header.payload_bytes as usize).ok_or(Unreadable::Length)?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err(Unreadable::Value("padding of a batch is not zero"));
    }
    let mut rest = payload;
    for _ in 0..header.frame_count {
        (_, rest) = command::split_frame(rest).map_err(|_| Unreadable::Value("a frame runs past its batch"))?;
    }
    if rest.is_empty() { Ok(()) } else { Err(Unreadable::Value("bytes behind the last frame of a batch")) }
}

/// Walks the frames of a checked batch with their LSNs.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    next: Lsn,
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// The frames of a batch that `check_payload` has passed.
    pub fn new(header: &BatchHeader, batch: &'a [u8]) -> Frames<'a> {
        let payload = &batch[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + header.payload_bytes as usize];
        Frames { next: header.first_lsn, rest: payload }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (Lsn, &'a [u8]);

    fn next(&mut self) -> Option<(Lsn, &'a [u8])> {
        if self.rest.is_empty() {
            return None;
        }
        let (frame, rest) = command::split_frame(self.rest).ok()?;
        let lsn = self.next;
        self.next = lsn.next();
        self.rest = rest;
        Some((lsn, frame))
    }
}

/// Covers everything behind the header.
fn payload_crc(store: StoreId, body: &[u8]) -> u32 {
    checksum(store, &[if planted(Canary::BatchChecksumEmpty) { &[] } else { body }])
}

/// Covers the header but for the checksum itself.
fn header_crc(store: StoreId, raw: &Raw) -> u32 {
    let bytes = raw.as_bytes();
    checksum(store, &[&bytes[..8], &bytes[12..]])
}

fn check_values(raw: &Raw) -> Result<(), Unreadable> {
    let frames_bytes_min = u64::from(raw.frame_count.get()) * command::FRAME_HEADER_BYTES as u64;
    let rules = [
        (raw.reserved == [0; 8], "reserved bytes of a batch are not zero"),
        (raw.frame_count.get() > 0, "a batch without frames"),
        (frames_bytes_min <= u64::from(raw.payload_bytes.get()), "more frames than the payload can hold"),
        (raw.first_lsn.get() > raw.lsn_synced.get(), "a batch that claims to have been synced before it was written"),
        (raw.first_lsn.get() <= u64::MAX / 2, "an LSN out of its bounds"),
        (raw.time_millis.get() <= TIME_MILLIS_MAX, "an engine time out of its bounds"),
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

    fn batch() -> (BatchHeader, Vec<u8>) {
        let header = BatchHeader {
            generation: SegmentId(3),
            sequence: 12,
            first_lsn: Lsn(40),
            lsn_synced: Lsn(39),
            time: Millis(1000),
            wall: Millis(999),
            frame_count: 2,
            payload_bytes: 19,
        };
        let mut bytes = vec![0xee; padded_bytes(19)];
        bytes[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + 11].copy_from_slice(&[3, 0, 0, 0, 1, 0, 0, 0, 5, 1, 0]);
        bytes[BATCH_HEADER_BYTES + 11..BATCH_HEADER_BYTES + 19].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        seal(STORE, &header, &mut bytes);
        (header, bytes)
    }

    fn read(bytes: &[u8]) -> Result<BatchHeader, Unreadable> {
        let header = decode_header(STORE, bytes, bytes.len() as u64)?;
        check_payload(STORE, &header, &bytes[..header.padded_bytes() as usize])?;
        Ok(header)
    }

    #[test]
    fn what_is_sealed_is_read_frame_by_frame() {
        let (header, bytes) = batch();
        assert_eq!(read(&bytes), Ok(header));
        assert_eq!(header.last_lsn(), Lsn(41));
        let frames: Vec<_> = Frames::new(&header, &bytes).map(|(lsn, frame)| (lsn.0, frame.len())).collect();
        assert_eq!(frames, [(40, 11), (41, 8)]);
        assert_eq!(FIELDS.iter().map(|field| field.bytes).sum::<usize>(), BATCH_HEADER_BYTES);
    }

    #[test]
    fn every_flipped_byte_of_a_batch_is_noticed_padding_included() {
        let (_, mut bytes) = batch();
        for place in 0..bytes.len() {
            bytes[place] ^= 0x04;
            assert!(read(&bytes).is_err(), "byte {place}");
            bytes[place] ^= 0x04;
        }
    }

    #[test]
    fn a_wild_length_is_refused_before_the_payload_is_looked_at() {
        let (mut header, mut bytes) = batch();
        assert_eq!(decode_header(STORE, &bytes, 4095), Err(Unreadable::Length));
        header.frame_count = u32::MAX;
        seal(STORE, &header, &mut bytes);
        assert!(decode_header(STORE, &bytes, 4096).is_err());
    }
}
