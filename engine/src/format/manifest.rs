//! One slot of the manifest: which snapshots there are, what is proven to be durable, how the store was left.
//!
//! ```text
//! slot (4096 bytes)  magic 8 | version u32 | crc u32 | sequence u64 | body_bytes u32 | reserved 4 (zero) | body | zeros
//! ```
//! Guarantees: the checksum covers the whole slot; the body is validated before it is believed.
//! Must not know: files, which slot is the newer one.
//! Cases: m both slots damaged, n manifest missing beside data, o body or reference not believable.
//! Next: ../manifest.rs keeps two of these.

use super::damage::{Flaw, check_crc, check_zero};
use super::{Field, fields};
use crate::limits::{BLOCK_BYTES, TIME_MILLIS_MAX};
use crate::units::{Lsn, Millis, SegmentId};
use rkyv::util::AlignedVec;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Newest version of the format that is known here; the one that is written.
pub const VERSION: u32 = 1;
/// Bytes of one slot.
pub const SLOT_BYTES: usize = BLOCK_BYTES;

const MAGIC: [u8; 8] = *b"logdMANI";
const ENVELOPE_BYTES: usize = 32;
const WHAT: &str = "manifest slot";

/// The slot's table.
pub const SLOT_FIELDS: &[Field] = &[
    Field { offset: 0, bytes: 8, name: "magic" },
    Field { offset: 8, bytes: 4, name: "version" },
    Field { offset: 12, bytes: 4, name: "crc" },
    Field { offset: 16, bytes: 8, name: "sequence" },
    Field { offset: 24, bytes: 4, name: "body_bytes" },
    Field { offset: 28, bytes: 4, name: "reserved" },
    Field { offset: 32, bytes: 0, name: "body" },
];

/// What the manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Random number that all files of the store carry.
    pub store_id: u128,
    /// Wall clock at creation.
    pub created_millis: Millis,
    /// Segment size chosen at creation or set since.
    pub segment_bytes: u64,
    /// Shards when it was last opened.
    pub shards: u16,
    /// Engine time when this was written; a floor for the next start.
    pub time_millis: Millis,
    /// Up to here the log was durable when this was written.
    pub lsn_proof: Lsn,
    /// A segment with this id, or a later one, existed when this was written; 0 for none. A lost log shows by it.
    pub segment_proof: SegmentId,
    /// How a clean stop left the log.
    pub clean: Option<CleanMark>,
    /// Kept snapshots, newest last.
    pub snapshots: Vec<SnapshotReference>,
}

/// Where the log ended at a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanMark {
    /// Last command.
    pub last_lsn: Lsn,
    /// Active segment.
    pub segment: SegmentId,
    /// End of its last batch.
    pub end_offset: u64,
}

/// A snapshot that the manifest names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReference {
    /// Last command in it; also its name.
    pub lsn: Lsn,
    /// Length of the file.
    pub file_bytes: u64,
    /// State digest.
    pub digest: u128,
    /// Engine time of the cut.
    pub time_millis: Millis,
    /// Number of records.
    pub record_count: u64,
}

/// The archived body, version 1. A later version gets a type of its own and a conversion.
#[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
struct BodyV1 {
    store_id: [u8; 16],
    created_millis: u64,
    segment_bytes: u64,
    shards: u16,
    time_millis: u64,
    lsn_proof: u64,
    segment_proof: u64,
    clean: Option<(u64, u64, u64)>,
    snapshots: Vec<ReferenceV1>,
}

#[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
struct ReferenceV1 {
    lsn: u64,
    file_bytes: u64,
    digest: [u8; 16],
    time_millis: u64,
    record_count: u64,
}

/// Table of the body's root, which stands at the body's end.
pub const BODY_FIELDS: &[Field] = fields!(ArchivedBodyV1 {
    store_id: 16,
    created_millis: 8,
    segment_bytes: 8,
    shards: 2,
    time_millis: 8,
    lsn_proof: 8,
    segment_proof: 8,
    clean: 32,
    snapshots: 8,
});

/// Table of one element of `snapshots`.
pub const REFERENCE_FIELDS: &[Field] =
    fields!(ArchivedReferenceV1 { lsn: 8, file_bytes: 8, digest: 16, time_millis: 8, record_count: 8 });

/// Bytes of the body's root.
pub const BODY_ROOT_BYTES: usize = size_of::<ArchivedBodyV1>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Envelope {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    sequence: U64,
    body_bytes: U32,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<Envelope>() == ENVELOPE_BYTES, "the envelope is as long as its table says");

/// A slot, ready to be written.
pub fn encode(manifest: &Manifest, sequence: u64) -> Vec<u8> {
    let body = rkyv::to_bytes::<rkyv::rancor::Error>(&body_of(manifest)).expect("writing to memory does not fail");
    assert!(ENVELOPE_BYTES + body.len() <= SLOT_BYTES, "the number of kept snapshots bounds the manifest");
    let envelope = Envelope {
        magic: MAGIC,
        version: VERSION.into(),
        crc: 0.into(),
        sequence: sequence.into(),
        body_bytes: u32::try_from(body.len()).expect("a body fits its slot").into(),
        reserved: [0; 4],
    };
    let mut slot = envelope.as_bytes().to_vec();
    slot.extend_from_slice(&body);
    slot.resize(SLOT_BYTES, 0);
    let crc = crc32fast::hash(&slot);
    slot[12..16].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// Decodes a slot: the manifest and its sequence number.
pub fn decode(slot: &[u8]) -> Result<(Manifest, u64), Flaw> {
    let (envelope, rest) = Envelope::read_from_prefix(slot)
        .map_err(|_| Flaw::damaged(WHAT, 'm', 0, format!("{SLOT_BYTES} bytes"), slot.len()))?;
    if envelope.magic != MAGIC {
        return Err(Flaw::damaged(WHAT, 'm', 0, MAGIC.escape_ascii(), envelope.magic.escape_ascii()));
    }
    let mut crc = crc32fast::Hasher::new();
    [&slot[..12], &[0; 4], &slot[16..]].iter().for_each(|piece| crc.update(piece));
    check_crc(WHAT, 'm', 12, envelope.crc.get(), crc.finalize())?;
    let version = envelope.version.get();
    if !(1..=VERSION).contains(&version) {
        return Err(Flaw::Newer { found: version, known: VERSION });
    }
    check_zero(WHAT, 'm', 28, &envelope.reserved)?;
    let cut = || Flaw::damaged(WHAT, 'o', 24, format!("at most {}", rest.len()), envelope.body_bytes);
    let (body, padding) = rest.split_at_checked(envelope.body_bytes.get() as usize).ok_or_else(cut)?;
    check_zero(WHAT, 'o', (ENVELOPE_BYTES + body.len()) as u64, padding)?;
    let mut aligned = AlignedVec::<16>::with_capacity(body.len());
    aligned.extend_from_slice(body);
    let body = rkyv::from_bytes::<BodyV1, rkyv::rancor::Error>(&aligned)
        .map_err(|error| Flaw::damaged(WHAT, 'o', ENVELOPE_BYTES as u64, "a manifest", error))?;
    let sequence = envelope.sequence.get();
    if sequence > u64::MAX / 2 {
        return Err(Flaw::damaged(WHAT, 'o', 16, "a sequence that can still rise", sequence));
    }
    Ok((manifest_of(body)?, sequence))
}

fn body_of(manifest: &Manifest) -> BodyV1 {
    let reference = |snapshot: &SnapshotReference| ReferenceV1 {
        lsn: snapshot.lsn.0,
        file_bytes: snapshot.file_bytes,
        digest: snapshot.digest.to_le_bytes(),
        time_millis: snapshot.time_millis.0,
        record_count: snapshot.record_count,
    };
    BodyV1 {
        store_id: manifest.store_id.to_le_bytes(),
        created_millis: manifest.created_millis.0,
        segment_bytes: manifest.segment_bytes,
        shards: manifest.shards,
        time_millis: manifest.time_millis.0,
        lsn_proof: manifest.lsn_proof.0,
        segment_proof: manifest.segment_proof.0,
        clean: manifest.clean.map(|clean| (clean.last_lsn.0, clean.segment.0, clean.end_offset)),
        snapshots: manifest.snapshots.iter().map(reference).collect(),
    }
}

fn manifest_of(body: BodyV1) -> Result<Manifest, Flaw> {
    let rising = body.snapshots.is_sorted_by(|older, newer| older.lsn < newer.lsn);
    if !rising {
        return Err(Flaw::damaged(WHAT, 'o', ENVELOPE_BYTES as u64, "snapshots of rising LSN", "another order"));
    }
    let latest = body.snapshots.iter().map(|snapshot| snapshot.time_millis).fold(body.time_millis, u64::max);
    if latest > TIME_MILLIS_MAX {
        return Err(Flaw::damaged(WHAT, 'o', ENVELOPE_BYTES as u64, "an engine time within its bounds", latest));
    }
    let reference = |snapshot: ReferenceV1| SnapshotReference {
        lsn: Lsn(snapshot.lsn),
        file_bytes: snapshot.file_bytes,
        digest: u128::from_le_bytes(snapshot.digest),
        time_millis: Millis(snapshot.time_millis),
        record_count: snapshot.record_count,
    };
    let clean = |(last_lsn, segment, end_offset)| CleanMark {
        last_lsn: Lsn(last_lsn),
        segment: SegmentId(segment),
        end_offset,
    };
    Ok(Manifest {
        store_id: u128::from_le_bytes(body.store_id),
        created_millis: Millis(body.created_millis),
        segment_bytes: body.segment_bytes,
        shards: body.shards,
        time_millis: Millis(body.time_millis),
        lsn_proof: Lsn(body.lsn_proof),
        segment_proof: SegmentId(body.segment_proof),
        clean: body.clean.map(clean),
        snapshots: body.snapshots.into_iter().map(reference).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SNAPSHOTS_KEPT_MAX;

    fn full() -> Manifest {
        let reference = |lsn| SnapshotReference {
            lsn: Lsn(lsn),
            file_bytes: 8192,
            digest: u128::MAX - 1,
            time_millis: Millis(9),
            record_count: 3,
        };
        Manifest {
            store_id: 77,
            created_millis: Millis(1),
            segment_bytes: 1 << 20,
            shards: 16,
            time_millis: Millis(2),
            lsn_proof: Lsn(40),
            segment_proof: SegmentId(2),
            clean: Some(CleanMark { last_lsn: Lsn(41), segment: SegmentId(2), end_offset: 12288 }),
            snapshots: (1..=SNAPSHOTS_KEPT_MAX as u64 + 1).map(reference).collect(),
        }
    }

    #[test]
    fn the_largest_manifest_comes_back_as_it_went_in() {
        assert_eq!(decode(&encode(&full(), 12)), Ok((full(), 12)));
    }

    #[test]
    fn every_flipped_bit_of_a_slot_is_detected() {
        let slot = encode(&full(), 1);
        for at in 0..slot.len() {
            let mut damaged = slot.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_newer_version_is_not_called_damage() {
        let mut slot = encode(&full(), 1);
        slot[8..12].copy_from_slice(&2_u32.to_le_bytes());
        assert_eq!(decode(&with_right_crc(slot)), Err(Flaw::Newer { found: 2, known: 1 }));
    }

    #[test]
    fn extreme_lengths_with_a_right_checksum_are_refused_and_never_panic() {
        for length in [0, 1, 4095, 0x7fff_ffff, 0xffff_ffff_u32] {
            let mut slot = encode(&full(), 1);
            slot[24..28].copy_from_slice(&length.to_le_bytes());
            assert!(decode(&with_right_crc(slot)).is_err(), "length {length}");
        }
    }

    #[test]
    fn garbage_in_the_body_with_a_right_checksum_never_panics() {
        for at in ENVELOPE_BYTES..ENVELOPE_BYTES + 1024 {
            let mut slot = encode(&full(), 1);
            slot[at] = 0xff;
            let _ = decode(&with_right_crc(slot));
        }
    }

    fn with_right_crc(mut slot: Vec<u8>) -> Vec<u8> {
        slot[12..16].fill(0);
        let crc = crc32fast::hash(&slot);
        slot[12..16].copy_from_slice(&crc.to_le_bytes());
        slot
    }
}
