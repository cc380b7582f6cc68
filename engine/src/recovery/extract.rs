//! Carries a plan out into another, empty directory: `logctl repair`.
//! Guarantees: the damaged store is read only; the new one gets its manifest last, so that before that it is none.
//! Must not know: which directory it is, what is shown of the progress.
//! Next: plan.rs decides what is copied.

use super::plan::Plan;
use super::quarantine;
use crate::disk::{BlockingDisk, Disk, DiskErrorKind, FileId, OpenMode};
use crate::error::Error;
use crate::limits::BLOCK_BYTES;
use crate::log::segment_name;
use crate::loss::{self, Loss};
use crate::manifest;
use crate::snapshot;
use crate::units::SegmentId;

const BLOCK: u64 = BLOCK_BYTES as u64;
const PIECE_BYTES: u64 = 1 << 20;

/// Copies what the plan keeps, without the damaged rest. `progress` is told of bytes as they are copied.
pub fn extract(
    source: &mut dyn Disk,
    target: &mut dyn Disk,
    plan: &Plan,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    for directory in ["log", snapshot::DIRECTORY, quarantine::DIRECTORY] {
        target.create_directory(directory)?;
    }
    target.sync_directory("")?;
    for reference in &plan.manifest.snapshots {
        copy(source, target, &snapshot::file_name(reference.lsn), None, progress)?;
    }
    for segment in kept_segments(source, plan)? {
        let cut = plan.log.cut.filter(|cut| cut.segment == segment);
        copy(source, target, &segment_name(segment), cut.map(|cut| cut.from), progress)?;
    }
    for directory in ["log", snapshot::DIRECTORY] {
        target.sync_directory(directory)?;
    }
    let before = loss::read(source)?.0;
    if plan.loss.files > 0 || plan.loss.last_lsn > crate::units::Lsn::NONE || before != Loss::default() {
        let loss = if plan.damage.is_empty() { before } else { before.with(&plan.loss) };
        loss::write(target, &Loss { under_way: false, ..loss })?;
    }
    manifest::create_from(target, plan.manifest.clone(), plan.sequence)?;
    Ok(())
}

/// Segments up to the last one that is kept: also those before the newest snapshot, which an older one may need.
fn kept_segments(source: &mut dyn Disk, plan: &Plan) -> Result<Vec<SegmentId>, Error> {
    let listed = match source.list("log") {
        Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let ids = listed.iter().filter_map(|file| file.name.strip_suffix(".seg")?.parse().ok().map(SegmentId));
    let is_whole = plan.log.damage.is_none();
    Ok(ids.filter(|segment| is_whole || *segment <= plan.log.segment).collect())
}

/// Copies a file; from `end` on zeros stand in the copy.
fn copy(
    source: &mut dyn Disk,
    target: &mut dyn Disk,
    name: &str,
    end: Option<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let from = source.open(name, OpenMode::Read)?;
    let to = target.open(name, OpenMode::Create)?;
    let copied = copy_open(source, target, (from, to), end, progress);
    source.close(from);
    target.close(to);
    copied
}

fn copy_open(
    source: &mut dyn Disk,
    target: &mut dyn Disk,
    (from, to): (FileId, FileId),
    end: Option<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let bytes = source.file_bytes(from)? / BLOCK * BLOCK;
    if bytes > 0 {
        target.allocate(to, bytes)?;
    }
    let mut at = 0;
    while at < bytes {
        let stop = end.filter(|end| at < *end).unwrap_or(bytes).min(bytes);
        let piece = PIECE_BYTES.min(stop - at);
        let mut buffer = source.buffer(piece as usize);
        if end.is_none_or(|end| at < end) {
            buffer = source.read_at(from, at, buffer)?;
        }
        // A buffer may be registered with the disk that made it.
        let mut copy = target.buffer(piece as usize);
        copy.copy_from_slice(&buffer);
        target.write_at(to, at, copy, false)?;
        progress(piece);
        at += piece;
    }
    Ok(target.sync(to)?)
}
