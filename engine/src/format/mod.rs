//! The bytes on disk: one structure a file, pure encode and decode.
//! Guarantees: little-endian, explicit widths; a length is bounded before it is believed; reserved bytes are zero and checked.
//! Must not know: files, disks, indexes.
//! Next: docs/FORMAT.md shows the same tables; a test holds the two together.

pub mod batch;
pub mod checksum;
pub mod command;
pub mod damage;
pub mod loss;
pub mod manifest;
pub mod segment;
pub mod snapshot;
pub mod snapshot_block;

/// Names a store. Mixed into every checksum of its log, so that a file of another store never verifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

/// Why bytes are not the structure that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Nothing but zeros.
    #[error("zeros")]
    Zeros,
    /// Something else stands there.
    #[error("no {0} magic")]
    Magic(&'static str),
    /// The checksum of the header differs.
    #[error("header checksum {found:08x} instead of {expected:08x}")]
    Header {
        /// What the bytes give.
        expected: u32,
        /// What the header says.
        found: u32,
    },
    /// The checksum of what the header describes differs.
    #[error("payload checksum {found:08x} instead of {expected:08x}")]
    Payload {
        /// What the bytes give.
        expected: u32,
        /// What the header says.
        found: u32,
    },
    /// Sound, but of a version that this program does not know.
    #[error("format version {0}")]
    Version(u32),
    /// The checksum is right, the value is not allowed.
    #[error("{0}")]
    Value(&'static str),
    /// It would run past the end of what may hold it.
    #[error("a length that runs past the end of the segment")]
    Length,
}

/// Table of a structure's fields, made from the structure itself.
macro_rules! fields {
    ($raw:ty { $($name:ident: $bytes:literal),* $(,)? }) => {
        &[$($crate::format::Field {
            offset: std::mem::offset_of!($raw, $name),
            bytes: $bytes,
            name: stringify!($name),
        }),*]
    };
}
use fields;

/// One row of a format table: what docs/FORMAT.md must show too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte place in the structure; behind a field of no fixed width it is counted as if that one were empty.
    pub offset: usize,
    /// Width in bytes; 0 for "as long as another field says", or "the rest".
    pub bytes: usize,
    /// Name.
    pub name: &'static str,
}

/// Table of a structure that is written field by field, without a gap.
const fn packed<const N: usize>(widths: [(&'static str, usize); N]) -> [Field; N] {
    let mut table = [Field { offset: 0, bytes: 0, name: "" }; N];
    let (mut row, mut offset) = (0, 0);
    while row < N {
        let (name, bytes) = widths[row];
        table[row] = Field { offset, bytes, name };
        offset += bytes;
        row += 1;
    }
    table
}

/// Reads little-endian values from a slice, refusing to run past its end.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the front.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(front)
    }

    /// The next bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next 16-bit number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
