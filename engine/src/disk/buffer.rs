//! Aligned, zeroed, owned bytes: what every read and write of a disk is made of.
//! Guarantees: start, length and capacity are whole blocks; never empty capacity; fresh bytes are zero.
//! Must not know: rings, files. It only carries the number under which a ring has registered it.
//! Next: syscall.rs uses it plainly, uring.rs as a registered buffer.

#![expect(unsafe_code, reason = "the standard collections promise no alignment, which O_DIRECT asks for")]

use crate::limits::BLOCK_BYTES;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Aligned, zeroed, owned bytes.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    capacity: usize,
    registered: Option<Registered>,
}

/// Under which number a ring knows the memory. `holder` is shared with that ring only: it tells rings apart,
/// and the ring learns from its count that the buffer is gone.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    pub(super) index: u16,
    pub(super) holder: Arc<()>,
}

impl Buffer {
    /// A zeroed buffer. `bytes` is rounded up to whole blocks, and to one at least.
    pub fn zeroed(bytes: usize) -> Buffer {
        let capacity = bytes.max(1).next_multiple_of(BLOCK_BYTES);
        let layout = layout(capacity);
        // SAFETY: the layout's size is at least one block.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Buffer { start, bytes: capacity, capacity, registered: None }
    }

    /// Bytes that a write writes and a read fills.
    #[expect(clippy::len_without_is_empty, reason = "a buffer of no bytes cannot be made")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Bytes that were reserved when it was made.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes how much of the buffer counts: whole blocks, at least one, at most the capacity. The bytes stay as they are.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "buffer length {bytes} is not whole blocks");
        assert!(bytes > 0, "a buffer keeps at least one block");
        assert!(bytes <= self.capacity, "buffer length {bytes} is beyond its capacity {}", self.capacity);
        self.bytes = bytes;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` holds `capacity` initialised bytes that only this buffer owns, and `bytes <= capacity`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; the borrow of `self` excludes every other.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Where the memory is. It stays there when the buffer is moved, until it is dropped.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn registered(&self) -> Option<&Registered> {
        self.registered.as_ref()
    }

    pub(super) fn set_registered(&mut self, registered: Registered) {
        self.registered = Some(registered);
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BLOCK_BYTES).expect("a buffer's size stays below isize::MAX")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated with this very layout and is freed once, here.
        unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) }
    }
}

// SAFETY: the memory is owned by the buffer alone and bound to no thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read.
unsafe impl Sync for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.bytes, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_whole_blocks() {
        for (asked, given) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)] {
            let buffer = Buffer::zeroed(asked);
            assert_eq!(buffer.len(), given);
            assert_eq!(buffer.as_slice().as_ptr().align_offset(BLOCK_BYTES), 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn shortening_hides_bytes_and_keeps_them() {
        let mut buffer = Buffer::zeroed(3 * BLOCK_BYTES);
        buffer.as_mut_slice().fill(7);
        buffer.set_len(BLOCK_BYTES);
        assert_eq!(buffer.len(), BLOCK_BYTES);
        buffer.set_len(3 * BLOCK_BYTES);
        assert!(buffer.iter().all(|&byte| byte == 7));
    }

    #[test]
    #[should_panic(expected = "not whole blocks")]
    fn a_length_of_half_a_block_is_a_bug() {
        Buffer::zeroed(BLOCK_BYTES).set_len(512);
    }

    #[test]
    fn a_buffer_can_be_dropped_by_another_thread() {
        let mut buffer = Buffer::zeroed(1);
        buffer[0] = 9;
        let first = std::thread::spawn(move || buffer[0]).join().expect("the thread returns");
        assert_eq!(first, 9);
    }
}
