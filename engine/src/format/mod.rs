//! The bytes on disk: one structure a file, pure encode and decode.
//! Guarantees: little-endian, explicit widths; a length is bounded before it is believed; reserved bytes are zero and checked.
//! Must not know: files, disks, indexes.
//! Next: docs/FORMAT.md shows the same tables; a test holds the two together.

pub mod command;
pub mod damage;
pub mod manifest;
pub mod snapshot;
pub mod snapshot_block;

/// One row of a format table: what docs/FORMAT.md must show too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte place in the structure.
    pub offset: usize,
    /// Width in bytes; 0 for "the rest".
    pub bytes: usize,
    /// Name.
    pub name: &'static str,
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
