//! placeholder
/// Aligned, zeroed, owned bytes.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}
impl Buffer {
    /// A zeroed buffer.
    pub fn zeroed(bytes: usize) -> Buffer {
        let length = bytes.next_multiple_of(crate::limits::BLOCK_BYTES);
        Buffer { bytes: vec![0; length], length }
    }
    /// Most bytes it can show.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }
    /// Shows the first `bytes` only; at most `capacity`. What they hold stays as it was.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len(), "a buffer shows no more than it has");
        self.length = bytes;
    }
}
impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}
