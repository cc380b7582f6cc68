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
