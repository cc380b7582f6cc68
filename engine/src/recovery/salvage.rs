//! Carries a plan out in place: what is damaged goes to `quarantine/`, what is whole stays a store.
//!
//! ```text
//! note of the loss, durable → cut bytes copied → files behind the damage moved, newest first → damaged snapshots moved
//!   → the cut place zeroed → manifest, durable → the note says that it is done
//! ```
//! Guarantees: nothing is removed; a crash at any step and a further salvage come to the same store and the same note.
//! Must not know: why.
//! Next: plan.rs decides what is done here.

use super::plan::Plan;
use super::quarantine;
use super::seam::LogCut;
use crate::disk::{BlockingDisk, Disk, DiskErrorKind, OpenMode};
use crate::error::Error;
use crate::limits::BLOCK_BYTES;
use crate::log::{Cut, segment_name};
use crate::loss::{self, Loss};
use crate::manifest::{self, ManifestRead};
use crate::snapshot;

const BLOCK: u64 = BLOCK_BYTES as u64;
const PIECE_BYTES: u64 = 1 << 20;
const LOG_DIRECTORY: &str = "log";

/// Carries it out. Answers the note of the loss as it stands now.
pub fn salvage(disk: &mut dyn Disk, plan: &Plan) -> Result<Loss, Error> {
    crate::mark!("salvage");
    for directory in [LOG_DIRECTORY, snapshot::DIRECTORY, quarantine::DIRECTORY] {
        disk.create_directory(directory)?;
    }
    disk.sync_directory("")?;
    let noted = loss::read(disk)?.0.with(&plan.loss);
    loss::write(disk, &noted)?;
    if let Some(cut) = plan.log.cut {
        quarantine::keep(
            disk,
            &segment_name(cut.segment),
            &LogCut { segment: cut.segment, from: cut.from, to: cut.to },
        )?;
    }
    // The newest first, so that what a crash leaves is a log that ends earlier, never one with a hole of our own.
    for (segment, _) in plan.log.moved.iter().rev() {
        put_aside(disk, &segment_name(*segment), LOG_DIRECTORY)?;
    }
    for (lsn, _) in &plan.snapshots_damaged {
        put_aside(disk, &snapshot::file_name(*lsn), snapshot::DIRECTORY)?;
    }
    if let Some(cut) = plan.log.cut {
        zero(disk, &cut)?;
    }
    match manifest::read(disk)? {
        ManifestRead::Present(mut file, _) => file.replace(disk, plan.manifest.clone())?,
        _ => {
            put_aside(disk, manifest::FILE, "")?;
            manifest::create_from(disk, plan.manifest.clone(), plan.sequence)?;
        }
    }
    finish(disk, &noted)
}

/// Says in the note that the salvage is done.
pub fn finish(disk: &mut dyn Disk, noted: &Loss) -> Result<Loss, Error> {
    let done = Loss { under_way: false, ..*noted };
    loss::write(disk, &done)?;
    Ok(done)
}

/// Moves a file to quarantine under a name that is free there. It is no error if it is gone already.
fn put_aside(disk: &mut dyn Disk, name: &str, directory: &str) -> Result<(), Error> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let taken = disk.list(quarantine::DIRECTORY)?;
    let is_free = |wanted: &String| taken.iter().all(|listed| listed.name != *wanted);
    let numbered = (0_u32..).map(|number| if number == 0 { last.to_owned() } else { format!("{last}-{number}") });
    let free = numbered.into_iter().find(is_free).expect("there are more numbers than files");
    match disk.rename(name, &format!("{}/{free}", quarantine::DIRECTORY)) {
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
        renamed => {
            renamed?;
            disk.sync_directory(quarantine::DIRECTORY)?;
            Ok(disk.sync_directory(directory)?)
        }
    }
}

/// Zeros the cut part, durably: what stood there is kept already.
fn zero(disk: &mut dyn Disk, cut: &Cut) -> Result<(), Error> {
    let file = disk.open(&segment_name(cut.segment), OpenMode::Write)?;
    let zeroed = zero_file(disk, file, cut.from);
    disk.close(file);
    zeroed
}

fn zero_file(disk: &mut dyn Disk, file: crate::disk::FileId, from: u64) -> Result<(), Error> {
    // From the back, so that the place where reading in order ends stays where it is until all behind it is gone.
    let end = disk.file_bytes(file)? / BLOCK * BLOCK;
    let mut to = end;
    while to > from {
        let start = to.saturating_sub(PIECE_BYTES).max(from);
        let zeros = disk.buffer((to - start) as usize);
        disk.write_at(file, start, zeros, false)?;
        to = start;
    }
    Ok(disk.sync(file)?)
}
