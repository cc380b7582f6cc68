//! The file `loss`: what salvages have cost, until somebody acknowledges it, and the floors that stay for ever.
//! Guarantees: replaced as a whole and durably; a damaged note is told and never takes the store down.
//! Must not know: how a loss comes about.
//! Next: recovery/salvage.rs writes it first of all; db/heal.rs shows it.

use crate::disk::{BlockingDisk, Disk, DiskErrorKind, OpenMode};
use crate::error::Error;
use crate::format::loss::LOSS_BYTES;

pub use crate::format::loss::Loss;

/// Path of the note.
pub const FILE: &str = "loss";
const FILE_UNFINISHED: &str = "loss.tmp";

/// Reads the note; the default where there is none. With a remark if it cannot be read: the store itself is whole all the same.
pub fn read(disk: &mut dyn Disk) -> Result<(Loss, Option<String>), Error> {
    let file = match disk.open(FILE, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok((Loss::default(), None)),
        Err(error) => return Err(error.into()),
    };
    let bytes = disk.file_bytes(file)?;
    let block = if bytes < LOSS_BYTES as u64 {
        Vec::new()
    } else {
        let buffer = disk.buffer(LOSS_BYTES);
        disk.read_at(file, 0, buffer)?.to_vec()
    };
    disk.close(file);
    match Loss::decode(&block) {
        Ok(loss) => Ok((loss, None)),
        Err(flaw) => match flaw.into_error(FILE, 0) {
            Error::Corrupt(corrupt) => {
                crate::mark!("loss_note_damaged");
                // Somebody was to be told of a loss, and nobody knows any more of which.
                let unknown = Loss { salvage_count: 1, ..Loss::default() };
                Ok((unknown, Some(format!("the note of what an earlier salvage lost is damaged: {corrupt}"))))
            }
            newer => Err(newer),
        },
    }
}

/// Replaces the note durably.
pub fn write(disk: &mut dyn Disk, loss: &Loss) -> Result<(), Error> {
    match disk.remove(FILE_UNFINISHED) {
        Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = disk.open(FILE_UNFINISHED, OpenMode::Create)?;
    let written = write_block(disk, file, loss);
    disk.close(file);
    written?;
    disk.rename(FILE_UNFINISHED, FILE)?;
    Ok(disk.sync_directory("")?)
}

fn write_block(disk: &mut dyn Disk, file: crate::disk::FileId, loss: &Loss) -> Result<(), Error> {
    disk.allocate(file, LOSS_BYTES as u64)?;
    let mut buffer = disk.buffer(LOSS_BYTES);
    buffer.copy_from_slice(&loss.encode());
    disk.write_at(file, 0, buffer, false)?;
    Ok(disk.sync(file)?)
}
