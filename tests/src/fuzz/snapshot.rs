//! Snapshots: arbitrary bytes as a snapshot's file, plain or with magics and checksums made right.
//! Must not know: what is expected; only that reading ends without a panic.

use super::{medium, put_u32, seal_bare, u32_at, u64_at, whole_blocks};
use logd_engine::digest::Digest;
use logd_engine::disk::Storage;
use logd_engine::format::snapshot::{HEADER_BYTES, PLACE_BYTES};
use logd_engine::format::snapshot_block::BLOCK_HEADER_BYTES;
use logd_engine::limits::BLOCK_BYTES;
use logd_engine::snapshot::{BlockStream, Snapshot, file_name};
use logd_engine::units::Lsn;

const LSN: Lsn = Lsn(5);

/// Manners: bit 0 checksums made right.
pub fn run(input: &[u8]) {
    let Some((manner, bytes)) = input.split_first() else { return };
    let mut file = whole_blocks(bytes);
    if manner & 1 != 0 {
        make_right(&mut file);
    }
    let storage = medium(&file_name(LSN), &file);
    let mut disk = storage.disk().expect("a simulated disk");
    let Ok(snapshot) = Snapshot::open(&mut *disk, LSN) else { return };
    let opened = snapshot.open_file(&mut *disk).expect("it was opened before");
    let mut digest = Digest::EMPTY;
    for number in 0..snapshot.blocks.len() {
        if let Ok(of_block) = snapshot.digest_block(&mut *disk, opened, number) {
            digest.add_all(of_block);
        }
    }
    let _ = snapshot.check_digest(digest);
    disk.close(opened);
    let numbers: Vec<usize> = (0..snapshot.blocks.len()).collect();
    let Ok(mut stream) = BlockStream::new(&snapshot, &mut *disk, &numbers) else { return };
    while let Some(Ok((number, block))) = stream.next_block() {
        if snapshot.records(&block, number).any(|record| record.is_err()) {
            break;
        }
    }
}

fn make_right(file: &mut [u8]) {
    if file.len() < 2 * BLOCK_BYTES {
        return;
    }
    let trailer = file.len() - BLOCK_BYTES;
    file[trailer..trailer + 8].copy_from_slice(b"logdSEND");
    put_u32(file, trailer + 8, 1);
    file[trailer + 16..trailer + 24].copy_from_slice(&LSN.0.to_le_bytes());
    let length = file.len() as u64;
    file[trailer + 56..trailer + 64].copy_from_slice(&length.to_le_bytes());
    make_index_right(file, trailer);
    file[trailer + 80..].fill(0);
    seal_bare(&mut file[trailer..trailer + 80], 12);
    file[..8].copy_from_slice(b"logdSNAP");
    put_u32(file, 8, 1);
    file[32..40].copy_from_slice(&LSN.0.to_le_bytes());
    let metadata_bytes = u32_at(file, 48) as usize;
    if let Some(metadata) = file.get(HEADER_BYTES..HEADER_BYTES.saturating_add(metadata_bytes)) {
        let crc = crc32fast::hash(metadata);
        put_u32(file, 52, crc);
    }
    seal_bare(&mut file[..HEADER_BYTES], 12);
}

fn make_index_right(file: &mut [u8], trailer: usize) {
    let (rows, index) = (u64_at(file, trailer + 24), u64_at(file, trailer + 40));
    let end = rows.checked_mul(PLACE_BYTES as u64).and_then(|bytes| bytes.checked_add(index));
    let Some(end) = end.filter(|end| *end <= trailer as u64) else { return };
    let (index, end) = (index as usize, end as usize);
    for row in (index..end).step_by(PLACE_BYTES) {
        make_block_right(file, row, index);
    }
    let crc = crc32fast::hash(&file[index..end]);
    put_u32(file, trailer + 48, crc);
}

/// Makes a block agree with its row in the index, if the row names one in front of the index.
fn make_block_right(file: &mut [u8], row: usize, index: usize) {
    let (offset, payload_bytes) = (u64_at(file, row), u32_at(file, row + 8) as usize);
    let end = offset.saturating_add((BLOCK_HEADER_BYTES + payload_bytes) as u64);
    if end > index as u64 {
        return;
    }
    let at = offset as usize;
    let crc = crc32fast::hash(&file[at + BLOCK_HEADER_BYTES..end as usize]);
    put_u32(file, row + 20, crc);
    let mut header = [0; BLOCK_HEADER_BYTES];
    header[..4].copy_from_slice(b"lSBK");
    header[8..12].copy_from_slice(&crc.to_le_bytes());
    header[12..20].copy_from_slice(&file[row + 8..row + 16]);
    header[20..24].copy_from_slice(&file[row + 16..row + 20]);
    header[32..40].copy_from_slice(&LSN.0.to_le_bytes());
    header[40..48].copy_from_slice(&offset.to_le_bytes());
    seal_bare(&mut header, 4);
    file[at..at + BLOCK_HEADER_BYTES].copy_from_slice(&header);
}
