//! A snapshot file's frame: head, block index, trailer. Its blocks are in `snapshot_block.rs`.
//!
//! ```text
//! file      head (header 64 | metadata | zeros to 4096) | blocks | index (32 bytes a block | zeros to 4096) | trailer 4096
//! ```
//! Guarantees: every byte of the file is covered by a checksum or must be zero; a length is compared with the file's before use.
//! Must not know: files, disks, trees.
//! Cases: a file length, b header, c metadata, d trailer, e index, f block header, g block payload, h record, i counts or digest.
//! Next: snapshot_block.rs; snapshot/writer.rs puts them together.

use super::damage::{Flaw, check_crc, check_equal, check_zero};
use super::snapshot_block::BlockPlace;
use super::{Field, fields};
use crate::limits::{BLOCK_BYTES, TIME_MILLIS_MAX};
use crate::units::{Lsn, Millis};
use rkyv::util::AlignedVec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Newest version of the format that is known here; the one that is written.
pub const VERSION: u32 = 1;
/// Bytes of the header before the metadata.
pub const HEADER_BYTES: usize = 64;
/// Bytes of an index row.
pub const PLACE_BYTES: usize = 32;

const MAGIC_HEAD: [u8; 8] = *b"logdSNAP";
const MAGIC_TRAILER: [u8; 8] = *b"logdSEND";
const BLOCK: u64 = BLOCK_BYTES as u64;

/// The header's table.
pub const HEADER_FIELDS: &[Field] = &[
    Field { offset: 0, bytes: 8, name: "magic" },
    Field { offset: 8, bytes: 4, name: "version" },
    Field { offset: 12, bytes: 4, name: "crc" },
    Field { offset: 16, bytes: 16, name: "store_id" },
    Field { offset: 32, bytes: 8, name: "lsn" },
    Field { offset: 40, bytes: 8, name: "time_millis" },
    Field { offset: 48, bytes: 4, name: "metadata_bytes" },
    Field { offset: 52, bytes: 4, name: "metadata_crc" },
    Field { offset: 56, bytes: 2, name: "shards" },
    Field { offset: 58, bytes: 2, name: "routing" },
    Field { offset: 60, bytes: 4, name: "reserved" },
];

/// The trailer's table.
pub const TRAILER_FIELDS: &[Field] = &[
    Field { offset: 0, bytes: 8, name: "magic" },
    Field { offset: 8, bytes: 4, name: "version" },
    Field { offset: 12, bytes: 4, name: "crc" },
    Field { offset: 16, bytes: 8, name: "lsn" },
    Field { offset: 24, bytes: 8, name: "block_count" },
    Field { offset: 32, bytes: 8, name: "record_count" },
    Field { offset: 40, bytes: 8, name: "index_offset" },
    Field { offset: 48, bytes: 4, name: "index_crc" },
    Field { offset: 52, bytes: 4, name: "reserved" },
    Field { offset: 56, bytes: 8, name: "file_bytes" },
    Field { offset: 64, bytes: 16, name: "digest" },
    Field { offset: 80, bytes: 0, name: "zeros" },
];

/// The index row's table.
pub const PLACE_FIELDS: &[Field] = &[
    Field { offset: 0, bytes: 8, name: "offset" },
    Field { offset: 8, bytes: 4, name: "payload_bytes" },
    Field { offset: 12, bytes: 4, name: "record_count" },
    Field { offset: 16, bytes: 2, name: "shard" },
    Field { offset: 18, bytes: 2, name: "keyspace" },
    Field { offset: 20, bytes: 4, name: "payload_crc" },
    Field { offset: 24, bytes: 8, name: "reserved" },
];

/// A keyspace as the snapshot remembers it; the numbers mean what they mean in `KeyspaceEffect`.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct KeyspaceDefinition {
    /// Its number.
    pub keyspace: u16,
    /// Default level.
    pub level: u8,
    /// How keys find their shard.
    pub routing: u8,
    /// For routing by prefix.
    pub prefix_bytes: u16,
    /// Its name.
    pub name: String,
}

/// A procedure as the snapshot remembers it.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ProcedureDefinition {
    /// Its number.
    pub procedure: u32,
    /// Version hash.
    pub version: u32,
    /// 1: logged as effects, 2: logged as calls.
    pub form: u8,
    /// Its name.
    pub name: String,
}

/// The archived part of the head, version 1. A later version gets a type of its own and a conversion.
#[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
struct MetadataV1 {
    keyspaces: Vec<KeyspaceDefinition>,
    procedures: Vec<ProcedureDefinition>,
}

/// Table of the metadata's root, which stands at the metadata's end.
pub const METADATA_FIELDS: &[Field] = fields!(ArchivedMetadataV1 { keyspaces: 8, procedures: 8 });
/// Table of one element of `keyspaces`.
pub const KEYSPACE_FIELDS: &[Field] =
    fields!(ArchivedKeyspaceDefinition { keyspace: 2, level: 1, routing: 1, prefix_bytes: 2, name: 8 });
/// Table of one element of `procedures`.
pub const PROCEDURE_FIELDS: &[Field] =
    fields!(ArchivedProcedureDefinition { procedure: 4, version: 4, form: 1, name: 8 });

/// What a snapshot says about itself before its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The store it belongs to.
    pub store_id: u128,
    /// The last command it contains.
    pub lsn: Lsn,
    /// Engine time of the cut.
    pub time_millis: Millis,
    /// Shards its blocks are sorted into.
    pub shards: u16,
    /// Number of the hash that chose the shards.
    pub routing: u16,
    /// Keyspaces.
    pub keyspaces: Vec<KeyspaceDefinition>,
    /// Procedures.
    pub procedures: Vec<ProcedureDefinition>,
}

/// What a snapshot says about itself after its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The last command it contains.
    pub lsn: Lsn,
    /// Number of blocks.
    pub block_count: u64,
    /// Number of records in all blocks.
    pub record_count: u64,
    /// Where the index lies.
    pub index_offset: u64,
    /// CRC-32 of the index rows.
    pub index_crc: u32,
    /// Length of the whole file.
    pub file_bytes: u64,
    /// Sum of the hashes of all records.
    pub digest: u128,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    store_id: [u8; 16],
    lsn: U64,
    time_millis: U64,
    metadata_bytes: U32,
    metadata_crc: U32,
    shards: U16,
    routing: U16,
    reserved: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct TrailerBytes {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    lsn: U64,
    block_count: U64,
    record_count: U64,
    index_offset: U64,
    index_crc: U32,
    reserved: [u8; 4],
    file_bytes: U64,
    digest: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct PlaceBytes {
    offset: U64,
    payload_bytes: U32,
    record_count: U32,
    shard: U16,
    keyspace: U16,
    payload_crc: U32,
    reserved: [u8; 8],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES, "the header is as long as its table says");
const _: () = assert!(size_of::<PlaceBytes>() == PLACE_BYTES, "an index row is as long as its table says");

/// Bytes up to the next whole block.
pub fn padded(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// The head, padded to whole blocks.
pub fn encode_head(meta: &SnapshotMeta) -> Vec<u8> {
    let body = MetadataV1 { keyspaces: meta.keyspaces.clone(), procedures: meta.procedures.clone() };
    let metadata = rkyv::to_bytes::<rkyv::rancor::Error>(&body).expect("writing to memory does not fail");
    let mut header = Header {
        magic: MAGIC_HEAD,
        version: VERSION.into(),
        crc: 0.into(),
        store_id: meta.store_id.to_le_bytes(),
        lsn: meta.lsn.0.into(),
        time_millis: meta.time_millis.0.into(),
        metadata_bytes: u32::try_from(metadata.len()).expect("names are bounded in number and length").into(),
        metadata_crc: crc32fast::hash(&metadata).into(),
        shards: meta.shards.into(),
        routing: meta.routing.into(),
        reserved: [0; 4],
    };
    header.crc = crc32fast::hash(header.as_bytes()).into();
    let mut head = header.as_bytes().to_vec();
    head.extend_from_slice(&metadata);
    head.resize(padded(head.len() as u64) as usize, 0);
    head
}

/// How long the head is, from its first block; bounded by the file's length.
pub fn decode_head_bytes(block: &[u8], file_bytes: u64) -> Result<u64, Flaw> {
    let header = decode_header(block)?;
    let bytes = padded(HEADER_BYTES as u64 + u64::from(header.metadata_bytes.get()));
    if bytes.saturating_add(BLOCK) > file_bytes {
        return Err(Flaw::damaged("snapshot metadata", 'c', 48, format!("less than {file_bytes} bytes"), bytes));
    }
    Ok(bytes)
}

/// Decodes a whole head, as long as `decode_head_bytes` said.
pub fn decode_head(head: &[u8]) -> Result<SnapshotMeta, Flaw> {
    const WHAT: &str = "snapshot metadata";
    let header = decode_header(head)?;
    let rest = &head[HEADER_BYTES..];
    let cut = || Flaw::damaged(WHAT, 'c', 48, format!("at most {} bytes", rest.len()), header.metadata_bytes);
    let (metadata, padding) = rest.split_at_checked(header.metadata_bytes.get() as usize).ok_or_else(cut)?;
    check_crc(WHAT, 'c', HEADER_BYTES as u64, header.metadata_crc.get(), crc32fast::hash(metadata))?;
    check_zero(WHAT, 'c', (HEADER_BYTES + metadata.len()) as u64, padding)?;
    let mut aligned = AlignedVec::<16>::with_capacity(metadata.len());
    aligned.extend_from_slice(metadata);
    let body = rkyv::from_bytes::<MetadataV1, rkyv::rancor::Error>(&aligned)
        .map_err(|error| Flaw::damaged(WHAT, 'c', HEADER_BYTES as u64, "names and numbers", error))?;
    Ok(SnapshotMeta {
        store_id: u128::from_le_bytes(header.store_id),
        lsn: Lsn(header.lsn.get()),
        time_millis: Millis(header.time_millis.get()),
        shards: header.shards.get(),
        routing: header.routing.get(),
        keyspaces: body.keyspaces,
        procedures: body.procedures,
    })
}

fn decode_header(bytes: &[u8]) -> Result<Header, Flaw> {
    const WHAT: &str = "snapshot header";
    let (header, _) = Header::read_from_prefix(bytes)
        .map_err(|_| Flaw::damaged(WHAT, 'b', 0, format!("{HEADER_BYTES} bytes"), bytes.len()))?;
    check_magic(WHAT, 'b', MAGIC_HEAD, header.magic)?;
    let mut bare = header.clone();
    bare.crc = 0.into();
    check_crc(WHAT, 'b', 12, header.crc.get(), crc32fast::hash(bare.as_bytes()))?;
    check_version(header.version.get())?;
    check_zero(WHAT, 'b', 60, &header.reserved)?;
    if header.time_millis.get() > TIME_MILLIS_MAX {
        return Err(Flaw::damaged(WHAT, 'b', 40, "an engine time within its bounds", header.time_millis));
    }
    Ok(header)
}

fn check_magic(what: &'static str, case: char, expected: [u8; 8], found: [u8; 8]) -> Result<(), Flaw> {
    if expected == found {
        return Ok(());
    }
    Err(Flaw::damaged(what, case, 0, expected.escape_ascii(), found.escape_ascii()))
}

fn check_version(found: u32) -> Result<(), Flaw> {
    if (1..=VERSION).contains(&found) { Ok(()) } else { Err(Flaw::Newer { found, known: VERSION }) }
}

/// The index rows, padded to whole blocks, and the checksum of the rows.
pub fn encode_index(places: &[BlockPlace]) -> (Vec<u8>, u32) {
    let mut rows = Vec::with_capacity(padded((places.len() * PLACE_BYTES) as u64) as usize);
    for place in places {
        let row = PlaceBytes {
            offset: place.offset.into(),
            payload_bytes: place.payload_bytes.into(),
            record_count: place.record_count.into(),
            shard: place.shard.into(),
            keyspace: place.keyspace.into(),
            payload_crc: place.payload_crc.into(),
            reserved: [0; 8],
        };
        rows.extend_from_slice(row.as_bytes());
    }
    let crc = crc32fast::hash(&rows);
    rows.resize(padded(rows.len() as u64) as usize, 0);
    (rows, crc)
}

/// Bytes of the padded index, checked against the file's length before anything is read or reserved.
pub fn index_bytes(trailer: &Trailer, head_bytes: u64) -> Result<u64, Flaw> {
    let rows = trailer.block_count.checked_mul(PLACE_BYTES as u64).filter(|rows| *rows < trailer.file_bytes);
    let end = rows.and_then(|rows| trailer.index_offset.checked_add(padded(rows))?.checked_add(BLOCK));
    let fits = end == Some(trailer.file_bytes) && trailer.index_offset >= head_bytes;
    if !fits || !trailer.index_offset.is_multiple_of(BLOCK) {
        let found = format!("{} rows at {}", trailer.block_count, trailer.index_offset);
        return Err(Flaw::damaged("snapshot trailer", 'd', 24, "an index that fits into the file", found));
    }
    Ok(padded(rows.unwrap_or(0)))
}

/// Decodes the index. Places must follow each other without a gap, so that no byte of the file goes unchecked.
pub fn decode_index(bytes: &[u8], trailer: &Trailer, head_bytes: u64) -> Result<Vec<BlockPlace>, Flaw> {
    const WHAT: &str = "snapshot index";
    let rows_bytes = index_bytes(trailer, head_bytes)?.min(trailer.block_count * PLACE_BYTES as u64) as usize;
    let cut = || Flaw::damaged(WHAT, 'e', 0, format!("{rows_bytes} bytes"), bytes.len());
    let (rows, padding) = bytes.split_at_checked(rows_bytes).ok_or_else(cut)?;
    check_crc(WHAT, 'e', 0, trailer.index_crc, crc32fast::hash(rows))?;
    check_zero(WHAT, 'e', rows_bytes as u64, padding)?;
    let (mut next, mut record_count) = (head_bytes, 0_u64);
    let mut places = Vec::with_capacity(rows.len() / PLACE_BYTES);
    for (row_bytes, at) in rows.chunks_exact(PLACE_BYTES).zip((0..).step_by(PLACE_BYTES)) {
        let row = PlaceBytes::read_from_bytes(row_bytes).expect("a chunk is as long as a row");
        let place = decode_place(&row, at, next, trailer)?;
        next += place.file_bytes();
        record_count = record_count.saturating_add(u64::from(place.record_count));
        places.push(place);
    }
    check_equal(WHAT, 'e', 0, trailer.index_offset, next)?;
    check_equal("snapshot record count", 'i', 0, trailer.record_count, record_count)?;
    Ok(places)
}

fn decode_place(row: &PlaceBytes, at: u64, next: u64, trailer: &Trailer) -> Result<BlockPlace, Flaw> {
    const WHAT: &str = "snapshot index";
    check_equal(WHAT, 'e', at, next, row.offset.get())?;
    check_zero(WHAT, 'e', at + 24, &row.reserved)?;
    let place = BlockPlace {
        offset: row.offset.get(),
        payload_bytes: row.payload_bytes.get(),
        record_count: row.record_count.get(),
        shard: row.shard.get(),
        keyspace: row.keyspace.get(),
        payload_crc: row.payload_crc.get(),
    };
    if place.offset.saturating_add(place.file_bytes()) > trailer.index_offset {
        return Err(Flaw::damaged(WHAT, 'e', at + 8, "a block that ends before the index", place.payload_bytes));
    }
    Ok(place)
}

/// The trailer's block.
pub fn encode_trailer(trailer: &Trailer) -> Vec<u8> {
    let mut bytes = TrailerBytes {
        magic: MAGIC_TRAILER,
        version: VERSION.into(),
        crc: 0.into(),
        lsn: trailer.lsn.0.into(),
        block_count: trailer.block_count.into(),
        record_count: trailer.record_count.into(),
        index_offset: trailer.index_offset.into(),
        index_crc: trailer.index_crc.into(),
        reserved: [0; 4],
        file_bytes: trailer.file_bytes.into(),
        digest: trailer.digest.to_le_bytes(),
    };
    bytes.crc = crc32fast::hash(bytes.as_bytes()).into();
    let mut block = bytes.as_bytes().to_vec();
    block.resize(BLOCK_BYTES, 0);
    block
}

/// Decodes the last block of a file of `file_bytes` bytes.
pub fn decode_trailer(block: &[u8], file_bytes: u64) -> Result<Trailer, Flaw> {
    const WHAT: &str = "snapshot trailer";
    let (bytes, padding) = TrailerBytes::read_from_prefix(block)
        .map_err(|_| Flaw::damaged(WHAT, 'd', 0, format!("{BLOCK_BYTES} bytes"), block.len()))?;
    check_magic(WHAT, 'd', MAGIC_TRAILER, bytes.magic)?;
    let mut bare = bytes.clone();
    bare.crc.zero();
    check_crc(WHAT, 'd', 12, bytes.crc.get(), crc32fast::hash(bare.as_bytes()))?;
    check_version(bytes.version.get())?;
    check_zero(WHAT, 'd', 52, &bytes.reserved)?;
    check_zero(WHAT, 'd', size_of::<TrailerBytes>() as u64, padding)?;
    check_equal(WHAT, 'a', 56, bytes.file_bytes.get(), file_bytes)?;
    Ok(Trailer {
        lsn: Lsn(bytes.lsn.get()),
        block_count: bytes.block_count.get(),
        record_count: bytes.record_count.get(),
        index_offset: bytes.index_offset.get(),
        index_crc: bytes.index_crc.get(),
        file_bytes: bytes.file_bytes.get(),
        digest: u128::from_le_bytes(bytes.digest),
    })
}
