//! CRC-32 over log structures, started from the store's id.
//! Guarantees: bytes of another store never verify, and neither do zeros.
//! Must not know: what the bytes mean.
//! Next: segment.rs and batch.rs say which bytes are covered.

use super::StoreId;

/// The checksum of the parts, one after the other, as a store with this id writes it.
pub fn checksum(store: StoreId, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&store.0);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_taken_as_one_run_of_bytes_behind_the_store_id() {
        let store = StoreId(*b"0123456789abcdef");
        assert_eq!(checksum(store, &[b"ab", b"c"]), crc32fast::hash(b"0123456789abcdefabc"));
        assert_ne!(checksum(store, &[b"abc"]), checksum(StoreId([1; 16]), &[b"abc"]));
    }
}
