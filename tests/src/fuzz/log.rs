//! Log segments: arbitrary bytes as the files of a log, plain or with magics, versions and checksums made right.
//! Must not know: what is expected; only that reading ends, in order, without a panic.

use super::{medium, put_u32, u32_at, whole_blocks};
use logd_engine::Options;
use logd_engine::clock::SimClock;
use logd_engine::core::{EngineTime, Procedures, Rebuild};
use logd_engine::disk::Storage;
use logd_engine::format::StoreId;
use logd_engine::format::batch::{BATCH_HEADER_BYTES, BATCH_MAGIC, padded_bytes};
use logd_engine::format::checksum::checksum;
use logd_engine::format::command::{Command, decode};
use logd_engine::format::segment::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC};
use logd_engine::limits::BLOCK_BYTES;
use logd_engine::log::{Observer, Proof, inspect, scan, segment_name};
use logd_engine::units::{Lsn, Millis, SegmentId};
use std::sync::Arc;

const STORE: StoreId = StoreId(*b"the fuzzed store");
/// Bytes of a segment's header that its checksum covers.
const SEGMENT_RAW_BYTES: usize = 104;

struct Silent;
impl Observer for Silent {}

/// Manners: bit 0 checksums made right; bit 1 two segments; bit 2 from LSN 3 on, with a proof.
pub fn run(input: &[u8]) {
    let Some((manner, bytes)) = input.split_first() else { return };
    let middle =
        if manner & 2 != 0 { (bytes.len() / 2).next_multiple_of(BLOCK_BYTES).min(bytes.len()) } else { bytes.len() };
    let storage = medium("manifest", &[]);
    for (number, part) in [&bytes[..middle], &bytes[middle..]].into_iter().enumerate() {
        let mut file = whole_blocks(part);
        if manner & 1 != 0 {
            make_right(&mut file, number as u64 + 1);
        }
        if !file.is_empty() {
            storage.put(&segment_name(SegmentId(number as u64 + 1)), &file);
        }
    }
    let mut disk = storage.disk().expect("a simulated disk");
    let known = manner & 4 != 0;
    let proof = Proof { synced: Lsn(if known { 5 } else { 0 }), segment: SegmentId(u64::from(known)) };
    let _ = inspect(&mut *disk, STORE, proof, &mut Silent);
    let from = Lsn(if known { 3 } else { 1 });
    let time = EngineTime::start(Arc::new(SimClock::new(Millis(0))), Millis(0));
    let mut rebuild = Rebuild::new(&Options { shards: 2, ..Options::default() }, Procedures::new(), time);
    let (mut last, mut whole) = (Lsn::NONE, true);
    let scanned = scan(&mut *disk, STORE, from, proof, &mut |batch| {
        for (lsn, frame) in batch.frames().filter(|(lsn, _)| *lsn >= from) {
            assert!(lsn > last, "LSN {lsn} after {last}");
            last = lsn;
            read(frame);
            // A frame that cannot be applied ends a recovery; what comes behind it is only decoded.
            whole = whole && rebuild.apply(lsn, frame).is_ok();
        }
        Ok(())
    });
    if let Ok(end) = scanned {
        assert!(end.last_lsn >= last && end.next_lsn > end.last_lsn, "an end behind the last command");
    }
    let _ = rebuild.view().digest();
}

fn read(frame: &[u8]) {
    if let Ok(Command::Effects(effects)) = decode(frame) {
        let _ = effects.map(|effect| effect.is_ok()).filter(|sound| *sound).count();
    }
}

fn make_right(file: &mut [u8], segment: u64) {
    if file.len() < SEGMENT_HEADER_BYTES {
        return;
    }
    file[..8].copy_from_slice(&SEGMENT_MAGIC);
    put_u32(file, 8, 1);
    file[16..32].copy_from_slice(&STORE.0);
    file[32..40].copy_from_slice(&segment.to_le_bytes());
    file[SEGMENT_RAW_BYTES..SEGMENT_HEADER_BYTES].fill(0);
    let crc = checksum(STORE, &[&file[..12], &file[16..SEGMENT_RAW_BYTES]]);
    put_u32(file, 12, crc);
    let mut at = SEGMENT_HEADER_BYTES;
    while at < file.len() {
        at += make_batch_right(&mut file[at..], segment);
    }
}

/// Makes the batch at the front right, if something is there; gives the bytes it takes.
fn make_batch_right(rest: &mut [u8], segment: u64) -> usize {
    if rest[..BATCH_HEADER_BYTES].iter().all(|byte| *byte == 0) {
        return BLOCK_BYTES;
    }
    rest[..4].copy_from_slice(&BATCH_MAGIC);
    put_u32(rest, 4, 1);
    rest[16..24].copy_from_slice(&segment.to_le_bytes());
    let claimed = padded_bytes(u32_at(rest, 68) as usize);
    let bytes = if claimed <= rest.len() { claimed } else { BLOCK_BYTES };
    let payload_crc = checksum(STORE, &[&rest[BATCH_HEADER_BYTES..bytes]]);
    put_u32(rest, 12, payload_crc);
    let crc = checksum(STORE, &[&rest[..8], &rest[12..BATCH_HEADER_BYTES]]);
    put_u32(rest, 8, crc);
    bytes
}
