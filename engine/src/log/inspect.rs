//! Reports everything that is found in a log, damage and what stands behind it included: for verify and dump.
//! Guarantees: damage is reported, not returned; only a disk that cannot be read, or a newer format, is an error.
//! Must not know: what the report is for.
//! Next: reader.rs is the strict way.

use super::catalog;
use super::reader::{LogEnd, scan};
use super::tail::Proof;
use super::walk::{Batch, read_batch};
use crate::disk::Disk;
use crate::error::{Corrupt, Error};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::format::{StoreId, Unreadable};
use crate::limits::BLOCK_BYTES;
use crate::units::{FileOffset, Lsn, SegmentId};

/// Takes a report. Every method may be left out.
pub trait Observer {
    /// A segment file with its length, and its header or why it is not in use.
    fn file(&mut self, segment: SegmentId, bytes: u64, header: &Result<SegmentHeader, Unreadable>) {
        let _ = (segment, bytes, header);
    }
    /// A whole batch, in order, before any damage.
    fn batch(&mut self, batch: &Batch<'_>) {
        let _ = batch;
    }
    /// The place where reading in order ends for good.
    fn damage(&mut self, damage: &Corrupt) {
        let _ = damage;
    }
    /// A whole batch behind the damage.
    fn batch_behind(&mut self, batch: &Batch<'_>) {
        let _ = batch;
    }
    /// Bytes behind the damage that are no whole batch, though batches follow.
    fn unreadable(&mut self, segment: SegmentId, from: FileOffset, to: FileOffset) {
        let _ = (segment, from, to);
    }
}

/// Reports a whole log. Answers its end, or `None` if there is damage.
pub fn inspect(
    disk: &mut dyn Disk,
    store: StoreId,
    proof: Proof,
    observer: &mut dyn Observer,
) -> Result<Option<LogEnd>, Error> {
    let files = catalog::list(disk, store)?;
    for (segment, listed) in &files {
        observer.file(*segment, listed.bytes, &listed.header);
    }
    let mut sequence = 0;
    let result = scan(disk, store, Lsn::NONE, proof, &mut |batch| {
        sequence = batch.header.sequence;
        observer.batch(&batch);
        Ok(())
    });
    let damage = match result {
        Ok(end) => return Ok(Some(end)),
        Err(Error::Corrupt(damage)) => damage,
        Err(error) => return Err(error),
    };
    observer.damage(&damage);
    for header in files.values().filter_map(|listed| listed.header.as_ref().ok()) {
        behind(disk, store, header, sequence, observer)?;
    }
    Ok(None)
}

/// Reports the batches of a segment whose sequence is above `after`, wherever they stand.
fn behind(
    disk: &mut dyn Disk,
    store: StoreId,
    header: &SegmentHeader,
    after: u64,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let mut window = catalog::open(disk, header)?;
    let limit = window.readable;
    let mut offset = SEGMENT_HEADER_BYTES as u64;
    let mut bad_from = None;
    while offset < limit {
        let read = read_batch(disk, store, &mut window, header.segment, offset, limit)?;
        let Ok(batch) = read else {
            bad_from.get_or_insert(offset);
            offset += BLOCK_BYTES as u64;
            continue;
        };
        if batch.header.sequence > after {
            if let Some(from) = bad_from {
                observer.unreadable(header.segment, from, offset);
            }
            observer.batch_behind(&batch);
        }
        bad_from = None;
        offset += batch.header.padded_bytes();
    }
    disk.close(window.file());
    Ok(())
}
