//! Manifests: arbitrary bytes as the manifest's file, plain or with magics and checksums made right.
//! Must not know: what is expected; only that a manifest that is believed comes back as it was, and can be replaced.

use super::{medium, put_u32, seal_bare};
use logd_engine::disk::Storage;
use logd_engine::format::manifest::{SLOT_BYTES, decode, encode};
use logd_engine::manifest::{ManifestRead, read};

/// Manners: bit 0 checksums made right.
pub fn run(input: &[u8]) {
    let Some((manner, bytes)) = input.split_first() else { return };
    let mut file = bytes.to_vec();
    if manner & 1 != 0 {
        file.resize(2 * SLOT_BYTES, 0);
        for slot in file.chunks_exact_mut(SLOT_BYTES) {
            slot[..8].copy_from_slice(b"logdMANI");
            put_u32(slot, 8, 1);
            seal_bare(slot, 12);
        }
    }
    let storage = medium("manifest", &file);
    let mut disk = storage.disk().expect("a simulated disk");
    match read(&mut *disk) {
        Ok(ManifestRead::Empty) => panic!("a manifest's file never passes for a fresh directory"),
        Ok(ManifestRead::Present(mut known, _)) => {
            let manifest = known.manifest().clone();
            assert_eq!(decode(&encode(&manifest, 1)), Ok((manifest.clone(), 1)), "it comes back as it was");
            known.replace(&mut *disk, manifest).expect("a simulated disk");
        }
        Ok(ManifestRead::Unreadable(_)) | Err(_) => {}
    }
}
