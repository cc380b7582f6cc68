//! The log's files as recovery and verify read them.
//! Guarantees: nothing is decided here; the log's own reader and table decide.
//! Must not know: snapshots, commands.
//! Next: log/reader.rs.

use super::seam::{LogCut, LogProof, LogReader, LogTail, Visit};
use crate::canary::{Canary, planted};
use crate::disk::Disk;
use crate::error::Error;
use crate::format::StoreId;
use crate::limits::BLOCK_BYTES;
use crate::log::{LogEnd, Proof, SpareFile, scan, segment_name};
use crate::units::{Lsn, SegmentId};

/// The segments in `log/`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFiles;

impl LogReader for LogFiles {
    type End = LogEnd;

    fn scan(
        &self,
        disk: &mut dyn Disk,
        store_id: u128,
        from: Lsn,
        proof: LogProof,
        visit: &mut Visit<'_>,
    ) -> Result<(LogTail, LogEnd), Error> {
        let proof = Proof { synced: proof.synced, segment: proof.segment };
        let store = StoreId(store_id.to_le_bytes());
        let end = scan(disk, store, from, proof, &mut |batch| {
            let time = batch.header.time;
            let frame_count = batch.header.frame_count as usize;
            let applied = if planted(Canary::HalfBatch) { frame_count / 2 } else { frame_count };
            let frames = batch.frames().take(applied).filter(|(lsn, _)| *lsn >= from);
            frames.into_iter().try_for_each(|(lsn, frame)| visit(lsn, time, frame))
        })?;
        Ok((tail_of(&end), end))
    }

    fn segment_name(&self, segment: SegmentId) -> String {
        segment_name(segment)
    }
}

fn tail_of(end: &LogEnd) -> LogTail {
    let in_segment = end.cut.map(|cut| LogCut { segment: cut.segment, from: cut.from, to: cut.to });
    let bytes_of = |segment: &SegmentId| {
        let file: Option<&SpareFile> = end.spare_files.iter().find(|file| file.segment == *segment);
        file.map_or(BLOCK_BYTES as u64, |file| file.bytes)
    };
    let whole_files = end.torn_files.iter().map(|segment| LogCut { segment: *segment, from: 0, to: bytes_of(segment) });
    LogTail {
        last_lsn: end.last_lsn,
        next_lsn: end.next_lsn,
        segment_proven: end
            .active
            .filter(|active| active.proven > 0 || planted(Canary::SegmentProvenUnsynced))
            .map(|active| active.segment),
        case: end.case,
        cuts: in_segment.into_iter().chain(whole_files).collect(),
        time: end.time,
    }
}
