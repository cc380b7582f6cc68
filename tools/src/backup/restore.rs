//! Makes a store of a backup, as of its end or of a point within it.
//! Guarantees: every byte is checked against the catalogue; an incomplete or damaged backup is refused; the backup is not
//! changed; the store has its name only when it is whole.
//! Must not know: what a command does.
//! Next: state.rs rebuilds the state of a point, rewrite.rs writes it.

use super::catalogue::{Catalogue, FILE, SegmentCopy, SnapshotCopy, Stretch};
use super::copy::{copy, crc_of, write_manifest};
use crate::command::ToolError;
use crate::directory::{self, procedures};
use crate::filter::Filter;
use crate::fresh::{Fresh, failed};
use crate::moment::Moment;
use crate::progress::Progress;
use crate::rewrite::write_store;
use crate::state::{Limit, State, rebuild};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path};
use tar::Archive;
use tempfile::TempDir;

/// What a restore did.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Last LSN of the backup that is in the store.
    pub lsn: u64,
    /// Its digest, where the state was rebuilt for it.
    pub digest: Option<String>,
    /// Bytes read.
    pub bytes: u64,
}

/// Restores. `backup`: a directory, a tar file, or `-` for a tar stream on standard input.
pub fn run(backup: &Path, target: &Path, limit: Limit) -> Result<Restored, ToolError> {
    let fresh = Fresh::begin(target)?;
    if backup.is_dir() {
        return from_directory(backup, fresh, limit);
    }
    let scratch = scratch(&fresh)?;
    unpack(backup, scratch.path())?;
    from_directory(scratch.path(), fresh, limit)
}

/// A directory on the disk of the new store.
fn scratch(fresh: &Fresh) -> Result<TempDir, ToolError> {
    tempfile::tempdir_in(fresh.parent()).map_err(|error| failed("make a directory in", fresh.parent(), &error))
}

fn unpack(backup: &Path, into: &Path) -> Result<(), ToolError> {
    let read: Box<dyn Read> = match backup.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(backup).map_err(|error| failed("open", backup, &error))?),
    };
    let mut archive = Archive::new(BufReader::with_capacity(1 << 20, read));
    let short = |error: io::Error| {
        ToolError::Damaged(format!("{} is no whole tar stream of a backup: {error}", backup.display()))
    };
    let mut progress = Progress::of("unpack", "files", 0);
    for member in archive.entries().map_err(short)? {
        let mut member = member.map_err(short)?;
        let name = member.path().map_err(short)?.into_owned();
        if name.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(ToolError::Damaged(format!("{} leaves the directory", name.display())));
        }
        if member.header().entry_type().is_dir() {
            continue;
        }
        let target = into.join(&name);
        let mut write = || -> io::Result<u64> {
            fs::create_dir_all(target.parent().unwrap_or(into))?;
            io::copy(&mut member, &mut File::create_new(&target)?)
        };
        let bytes = write().map_err(short)?;
        progress.add(1, bytes);
    }
    progress.finish();
    Ok(())
}

fn from_directory(backup: &Path, fresh: Fresh, limit: Limit) -> Result<Restored, ToolError> {
    let catalogue = Catalogue::read(backup)?;
    let stretches = catalogue.stretches();
    let stretch = choose(&stretches, limit)?;
    if limit == Limit::End {
        let bytes = assemble(backup, fresh.path(), &catalogue, &stretch.segments, &stretch.snapshots)?;
        fresh.finish()?;
        return Ok(Restored { lsn: stretch.last_lsn(), digest: None, bytes });
    }
    let scratch = scratch(&fresh)?;
    let segments: Vec<&SegmentCopy> =
        stretch.segments.iter().copied().filter(|one| begins_within(one, limit)).collect();
    let last_lsn = segments.last().map_or(0, |segment| segment.last_lsn);
    let mut snapshots = stretch.snapshots.clone();
    snapshots.retain(|snapshot| snapshot.lsn <= last_lsn);
    let bytes = assemble(backup, scratch.path(), &catalogue, &segments, &snapshots)?;
    let mut store = directory::open(scratch.path())?;
    let State { rebuild, .. } = rebuild(store.as_mut(), limit, procedures())?;
    drop(store);
    // The state is in memory by now, and the disk may be small.
    drop(scratch);
    let view = rebuild.view();
    write_store(&view, fresh.path(), &Filter::default())?;
    fresh.finish()?;
    Ok(Restored { lsn: view.lsn.0, digest: Some(view.digest().to_string()), bytes })
}

/// Whether commands of a segment may be within a limit.
fn begins_within(segment: &SegmentCopy, limit: Limit) -> bool {
    match limit {
        Limit::End => true,
        Limit::Lsn(lsn) => segment.first_lsn <= lsn.0,
        Limit::Moment(moment) => segment.first_millis <= moment.0,
    }
}

/// Wall time of the last command of a stretch.
fn ended(stretch: &Stretch<'_>) -> u64 {
    stretch.segments.last().map_or(0, |segment| segment.last_millis)
}

/// The stretch that a point lies in.
fn choose<'s, 'c>(stretches: &'s [Stretch<'c>], limit: Limit) -> Result<&'s Stretch<'c>, ToolError> {
    let known = || -> String {
        let spans = stretches.iter().filter_map(|stretch| stretch.first_lsn().map(|first| (first, stretch)));
        let texts =
            spans.map(|(first, stretch)| format!("LSN {first} to {} ({})", stretch.last_lsn(), Moment(ended(stretch))));
        texts.collect::<Vec<_>>().join("; ")
    };
    let reaches_back = |stretch: &&Stretch<'_>| stretch.first_lsn().is_some();
    let chosen = match limit {
        Limit::End => stretches.last().filter(reaches_back),
        Limit::Lsn(lsn) => stretches
            .iter()
            .find(|stretch| stretch.first_lsn().is_some_and(|first| (first..=stretch.last_lsn()).contains(&lsn.0))),
        Limit::Moment(moment) => {
            let has_begun = |stretch: &&Stretch<'_>| stretch.segments.iter().any(|one| one.first_millis <= moment.0);
            let place = stretches.iter().rposition(|stretch| has_begun(&stretch));
            // Behind the end of any but the last stretch, commands are missing that belong to this moment.
            let is_in_gap = |place: usize| place + 1 < stretches.len() && moment.0 > ended(&stretches[place]);
            place.filter(|place| !is_in_gap(*place)).map(|place| &stretches[place]).filter(reaches_back)
        }
    };
    chosen.ok_or_else(|| ToolError::Usage(format!("this point is not within the backup, which has {}", known())))
}

/// Copies files with their checksums compared, and makes the manifest that belongs to them.
fn assemble(
    backup: &Path,
    target: &Path,
    catalogue: &Catalogue,
    segments: &[&SegmentCopy],
    snapshots: &[&SnapshotCopy],
) -> Result<u64, ToolError> {
    for name in ["log", "snapshot"] {
        fs::create_dir_all(target.join(name)).map_err(|error| failed("make", &target.join(name), &error))?;
    }
    let bytes = segments.iter().map(|one| one.used_bytes).chain(snapshots.iter().map(|one| one.bytes)).sum();
    let mut progress = Progress::of("restore", "files", bytes);
    for snapshot in snapshots {
        let to = target.join(&snapshot.file);
        take(&backup.join(&snapshot.file), &to, snapshot.bytes, snapshot.bytes, snapshot.crc, &mut progress)?;
    }
    for segment in segments {
        let to = target.join("log").join(Path::new(&segment.file).file_name().unwrap_or_default());
        take(&backup.join(&segment.file), &to, segment.used_bytes, segment.bytes, segment.crc, &mut progress)?;
    }
    write_manifest(target, catalogue.manifest(segments, snapshots)?)?;
    Ok(progress.finish().bytes)
}

fn take(from: &Path, to: &Path, used: u64, bytes: u64, crc: u32, progress: &mut Progress) -> Result<(), ToolError> {
    let of_backup = |error| match error {
        ToolError::Overtaken(text) => {
            ToolError::Damaged(format!("the backup is not complete: {text}, but {FILE} names it"))
        }
        error => error,
    };
    let found = copy(from, to, used, bytes, progress).map_err(of_backup)?;
    let read_back = crc_of(to, used)?;
    if found != crc || read_back != crc {
        let text = format!("{} has checksum {found:08x}; {FILE} says {crc:08x}", from.display());
        return Err(ToolError::Damaged(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use logd_engine::units::Lsn;

    fn segment(segment: u64, previous_segment: u64, first_lsn: u64, last_lsn: u64) -> SegmentCopy {
        SegmentCopy {
            file: format!("log/{segment}"),
            segment,
            previous_segment,
            previous_last_lsn: first_lsn - 1,
            bytes: 1,
            used_bytes: 1,
            crc: 0,
            first_lsn,
            last_lsn,
            first_millis: first_lsn * 10,
            last_millis: last_lsn * 10,
            sealed: true,
        }
    }

    #[test]
    fn a_point_is_looked_for_in_the_stretch_that_has_it() {
        let segments = vec![segment(1, 0, 1, 20), segment(5, 4, 51, 60), segment(9, 8, 91, 95)];
        let snapshot = |lsn| SnapshotCopy {
            file: String::new(),
            lsn,
            bytes: 0,
            crc: 0,
            digest: String::new(),
            time_millis: 0,
            records: 0,
        };
        let catalogue = Catalogue { segments, snapshots: vec![snapshot(50)], ..Catalogue::default() };
        let stretches = catalogue.stretches();
        let last = |limit| choose(&stretches, limit).map(Stretch::last_lsn).map_err(|error| error.to_string());
        assert_eq!(last(Limit::Lsn(Lsn(7))), Ok(20));
        assert_eq!(last(Limit::Lsn(Lsn(55))), Ok(60));
        assert!(last(Limit::Lsn(Lsn(30))).unwrap_err().contains("LSN 0 to 20"), "a gap");
        assert!(last(Limit::Lsn(Lsn(92))).is_err(), "a stretch without a snapshot before it");
        assert!(last(Limit::End).is_err());
        assert_eq!(last(Limit::Moment(Moment(150))), Ok(20));
        assert!(last(Limit::Moment(Moment(300))).is_err(), "a moment in a gap");
        assert_eq!(last(Limit::Moment(Moment(555))), Ok(60));
        assert!(last(Limit::Moment(Moment(5))).is_err());
    }
}
