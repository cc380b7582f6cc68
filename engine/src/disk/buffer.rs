//! placeholder
/// Aligned, zeroed, owned bytes.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);
impl Buffer {
    /// A zeroed buffer.
    pub fn zeroed(bytes: usize) -> Buffer {
        Buffer(vec![0; bytes.next_multiple_of(crate::limits::BLOCK_BYTES)])
    }
}
impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
