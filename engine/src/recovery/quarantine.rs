//! Keeps what recovery cuts off: `quarantine/<20 digits of the segment>-<first byte>.cut`.
//! Guarantees: a file of that name is whole and durable; none is ever overwritten; a recovery that is interrupted and starts
//! again does not keep the same bytes twice.
//! Must not know: why something was cut.
//! Next: start.rs calls it before anything can be written behind the cut.

use super::report::Kept;
use super::seam::LogCut;
use crate::canary::{Canary, planted};
use crate::disk::{BlockingDisk, Buffer, Disk, DiskErrorKind, FileId, OpenMode};
use crate::error::Error;
use crate::limits::BLOCK_BYTES;

/// Where cut bytes are kept.
pub(super) const DIRECTORY: &str = "quarantine";
const PIECE_BYTES: u64 = 1 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Copies the cut bytes of a segment's file. `None` if no whole block of them is there.
pub(super) fn keep(disk: &mut dyn Disk, segment_name: &str, cut: &LogCut) -> Result<Option<Kept>, Error> {
    let source = disk.open(segment_name, OpenMode::Read)?;
    let kept = keep_from(disk, source, cut);
    disk.close(source);
    kept
}

fn keep_from(disk: &mut dyn Disk, source: FileId, cut: &LogCut) -> Result<Option<Kept>, Error> {
    // Only whole blocks can be read; a file whose last block is cut short keeps the rest of it where it is.
    let end = disk.file_bytes(source)?.min(cut.to.div_ceil(BLOCK).saturating_mul(BLOCK)) / BLOCK * BLOCK;
    let start = cut.from / BLOCK * BLOCK;
    if start >= end {
        return Ok(None);
    }
    let stem = format!("{DIRECTORY}/{:020}-{}", cut.segment.0, cut.from);
    for number in 0_u32.. {
        let name = if number == 0 { format!("{stem}.cut") } else { format!("{stem}-{number}.cut") };
        match disk.open(&name, OpenMode::Read) {
            Ok(file) if planted(Canary::QuarantineOverwritten) => {
                disk.close(file);
                copy(disk, source, &name, start, end)?;
                return Ok(Some(Kept { name, bytes: end - start }));
            }
            Ok(file) => {
                let same = is_same(disk, source, file, start, end);
                disk.close(file);
                if same? {
                    crate::mark!("quarantine_kept_already");
                    // An opening that was killed may have made it: what it had not synced yet would go with the next power cut.
                    let kept = disk.open(&name, OpenMode::Write)?;
                    let synced = disk.sync(kept);
                    disk.close(kept);
                    synced?;
                    disk.sync_directory(DIRECTORY)?;
                    return Ok(Some(Kept { name, bytes: end - start }));
                }
            }
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                copy(disk, source, &name, start, end)?;
                return Ok(Some(Kept { name, bytes: end - start }));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    (start..end).step_by(PIECE_BYTES as usize).map(move |at| (at, PIECE_BYTES.min(end - at)))
}

fn read(disk: &mut dyn Disk, file: FileId, at: u64, bytes: u64) -> Result<Buffer, Error> {
    let buffer = disk.buffer(bytes as usize);
    Ok(disk.read_at(file, at, buffer)?)
}

fn is_same(disk: &mut dyn Disk, source: FileId, file: FileId, start: u64, end: u64) -> Result<bool, Error> {
    if disk.file_bytes(file)? != end - start {
        return Ok(false);
    }
    for (at, bytes) in pieces(start, end) {
        if read(disk, source, at, bytes)?[..] != read(disk, file, at - start, bytes)?[..] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy(disk: &mut dyn Disk, source: FileId, name: &str, start: u64, end: u64) -> Result<(), Error> {
    let unfinished = format!("{name}.tmp");
    match disk.remove(&unfinished) {
        Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = disk.open(&unfinished, OpenMode::Create)?;
    let copied = copy_into(disk, source, file, start, end);
    disk.close(file);
    if let Err(error) = copied {
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    disk.rename(&unfinished, name)?;
    Ok(disk.sync_directory(DIRECTORY)?)
}

fn copy_into(disk: &mut dyn Disk, source: FileId, file: FileId, start: u64, end: u64) -> Result<(), Error> {
    disk.allocate(file, end - start)?;
    for (at, bytes) in pieces(start, end) {
        let buffer = read(disk, source, at, bytes)?;
        disk.write_at(file, at - start, buffer, false)?;
    }
    Ok(disk.sync(file)?)
}
