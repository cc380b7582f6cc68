//! Finds out what stands behind the last good batch, for the decision in tail.rs.
//! Guarantees: every block up to the segment's end is looked at, so a batch that proves something is not missed.
//! Must not know: what follows from the facts.
//! Next: tail.rs has the table.

use super::tail::{Later, Place};
use super::walk::{Stop, WalkEnd, Window};
use crate::disk::Disk;
use crate::error::Error;
use crate::format::segment::SegmentHeader;
use crate::format::{StoreId, Unreadable, batch};
use crate::limits::BLOCK_BYTES;
use crate::units::{FileOffset, Lsn, SegmentId};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What a search found. The default is a search that found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Sound headers of the generation, behind the first block.
    pub later_count: u64,
    /// Highest LSN and sequence that any of them names, the first block's included.
    pub lsn_max: Lsn,
    pub sequence_max: u64,
    /// Highest LSN that one of them knew to be synced.
    pub lsn_synced_max: Lsn,
    /// Behind the last byte of these batches.
    pub batches_end: FileOffset,
    /// Behind the last block that is not all zeros; 0 for none.
    pub bytes_end: FileOffset,
}

impl Found {
    /// Adds what was found in another file.
    pub fn merge(&mut self, other: &Found) {
        self.later_count += other.later_count;
        self.lsn_max = self.lsn_max.max(other.lsn_max);
        self.sequence_max = self.sequence_max.max(other.sequence_max);
        self.lsn_synced_max = self.lsn_synced_max.max(other.lsn_synced_max);
    }

    /// What the later batches say about the LSN that is missing.
    pub fn later(&self, missing: Lsn) -> Later {
        match self.later_count {
            0 => Later::Nothing,
            _ if self.lsn_synced_max >= missing => Later::Proves,
            _ => Later::Unproven,
        }
    }
}

/// Looks at all blocks from `from` on for headers of one segment. `later_from`: from where on they count as later ones.
pub(super) fn search(
    disk: &mut dyn Disk,
    store: StoreId,
    window: &mut Window,
    generation: SegmentId,
    from: FileOffset,
    later_from: FileOffset,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut offset = from;
    while offset + BLOCK <= window.readable {
        let room = window.readable - offset;
        let block = window.get(disk, offset, BLOCK)?;
        if block.iter().any(|byte| *byte != 0) {
            found.bytes_end = offset + BLOCK;
            let header = batch::decode_header(store, block, room).ok();
            if let Some(header) = header.filter(|header| header.generation == generation) {
                found.later_count += u64::from(offset >= later_from);
                found.lsn_max = found.lsn_max.max(header.last_lsn());
                found.sequence_max = found.sequence_max.max(header.sequence);
                found.lsn_synced_max = found.lsn_synced_max.max(header.lsn_synced);
                found.batches_end = found.batches_end.max(offset + header.padded_bytes());
            }
        }
        offset += BLOCK;
    }
    Ok(found)
}

/// What stands at the end of a walk.
pub(super) fn place(
    disk: &mut dyn Disk,
    window: &mut Window,
    segment: &SegmentHeader,
    end: &WalkEnd,
    found: &Found,
) -> Result<Place, Error> {
    if window.readable < segment.segment_bytes {
        return Ok(Place::Torn);
    }
    let zeros = found.bytes_end == 0;
    Ok(match &end.stop {
        Stop::Limit => Place::SegmentEnd,
        Stop::Short => Place::Torn,
        Stop::Disorder { .. } => Place::Disorder,
        Stop::OtherGeneration(other) if *other < segment.segment => Place::Stale,
        Stop::OtherGeneration(_) => Place::Torn,
        Stop::Bytes(unreadable) => {
            let block = window.get(disk, end.offset, BLOCK)?;
            let own = batch::claimed_generation(block) == Some(segment.segment);
            match unreadable {
                _ if own => Place::Torn,
                _ if segment.recycled => Place::Stale,
                Unreadable::Zeros if zeros => Place::Zeros,
                _ => Place::Torn,
            }
        }
    })
}

/// Behind the last byte of what is cut at `from`.
pub(super) fn cut_end(window: &Window, segment: &SegmentHeader, from: FileOffset, found: &Found) -> FileOffset {
    let bytes_end = if segment.recycled { 0 } else { found.bytes_end };
    found.batches_end.max(bytes_end).max(from + BLOCK).min(window.readable).max(from)
}
