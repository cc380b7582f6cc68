//! What the fuzz targets do with their bytes, as plain functions: `tests/fuzz` calls them under libFuzzer on a nightly compiler,
//! `tests/fuzz_corpus.rs` with the kept inputs in every `cargo test`.
//! Guarantees: a function returns if all is well and panics if not; the first byte chooses the manner, the others are the input.
//! Must not know: who calls.
//! Next: docs/TESTING.md tells how to run them; log.rs, snapshot.rs, manifest.rs, resp.rs, requests.rs.

mod log;
mod manifest;
mod requests;
mod resp;
mod snapshot;

use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::limits::BLOCK_BYTES;

/// A target's function.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("log_segment", log::run),
    ("snapshot", snapshot::run),
    ("manifest", manifest::run),
    ("resp", resp::run),
    ("requests", requests::run),
];

/// The target of a name. Panics if there is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no fuzz target {name}")).1
}

/// A medium that holds nothing but one file.
fn medium(name: &str, bytes: &[u8]) -> SimStorage {
    let storage = SimStorage::new(SimOptions::default());
    storage.put(name, bytes);
    storage
}

/// The bytes with zeros up to a whole block.
fn whole_blocks(bytes: &[u8]) -> Vec<u8> {
    let mut whole = bytes.to_vec();
    whole.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    whole
}

fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Sets the checksum of a structure whose checksum field counts as zeros.
fn seal_bare(bytes: &mut [u8], at: usize) {
    put_u32(bytes, at, 0);
    let crc = crc32fast::hash(bytes);
    put_u32(bytes, at, crc);
}
