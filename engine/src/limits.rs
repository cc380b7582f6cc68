//! All bounds of the engine and how they relate to each other.
//! Guarantees: the relations are checked when the crate is compiled.
//! Must not know: settings; `options.rs` checks those against these bounds.
//! Next: options.rs.

/// Bytes a write to the log is padded to, and the alignment of every buffer, place and length given to a disk.
pub const BLOCK_BYTES: usize = 4096;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Longest value in bytes, before the segment size lowers it: a command must fit into a quarter of a segment.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Smallest log segment in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Smallest log segment of a store that is driven step by step (feature `sim`): it takes commands of 2 KiB.
#[cfg(feature = "sim")]
pub const SEGMENT_BYTES_MIN_STEPPED: u64 = 40 << 10;
/// Largest log segment in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Share of a segment that one command, and the queue before the log, may take: one in so many.
pub const SEGMENT_SHARE: u64 = 4;
/// Most keyspaces of one store.
pub const KEYSPACES_MAX: usize = 4096;
/// Longest name of a keyspace or procedure in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most shards of one store.
pub const SHARDS_MAX: usize = 256;
/// Latest engine time in milliseconds that a file may claim: far beyond any clock, and sums with it do not overflow.
pub const TIME_MILLIS_MAX: u64 = u64::MAX / 4;
/// Snapshots a store may be told to keep.
pub const SNAPSHOTS_KEPT_MAX: usize = 16;
/// Bytes of records after which a snapshot block is closed; a single larger record makes a larger block.
pub const SNAPSHOT_BLOCK_BYTES: usize = 256 << 10;

const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(BLOCK_BYTES as u64), "segments are whole blocks");
const _: () = assert!(
    SEGMENT_BYTES_MIN / SEGMENT_SHARE > 2 * BLOCK_BYTES as u64 + KEY_BYTES_MAX as u64,
    "the smallest segment takes a command with the longest key"
);
const _: () = assert!(SEGMENT_BYTES_MAX / SEGMENT_SHARE <= u32::MAX as u64, "a batch length fits 32 bits");
