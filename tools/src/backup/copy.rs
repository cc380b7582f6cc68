//! Copies what a survey found into a backup directory.
//! Guarantees: new files are copied aside, read back through the engine's readers, and only then take their places; the
//! catalogue comes last; a store that retires files meanwhile is surveyed again.
//! Must not know: what is in a batch.
//! Next: stream.rs is the same to a stream.

use super::catalogue::{Catalogue, SegmentCopy, SnapshotCopy};
use super::survey::{Survey, survey};
use crate::command::ToolError;
use crate::directory;
use crate::fresh::{failed, sync_directory};
use crate::progress::Progress;
use crate::store::{BatchFacts, LogVisitor, WalkEnd};
use logd_engine::Error;
use logd_engine::clock::{Clock, OsClock};
use logd_engine::digest::Digest;
use logd_engine::disk::{IoMode, OsStorage, Storage};
use logd_engine::error::Corrupt;
use logd_engine::manifest::{self, Manifest};
use logd_engine::snapshot::Snapshot;
use logd_engine::units::Lsn;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

const PIECE_BYTES: usize = 1 << 20;
/// Surveys before a store that retires files faster than they are copied is given up.
const ATTEMPTS: usize = 5;
const INCOMING: &str = "incoming";
const OLDER: &str = "older";
const DIRECTORIES: [&str; 2] = ["log", "snapshot"];

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// The backup now.
    pub catalogue: Catalogue,
    /// Files copied.
    pub files: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Snapshots that were linked and not copied.
    pub linked: u64,
    /// Surveys that were overtaken by the store.
    pub retries: u64,
}

/// Brings a backup directory up to date. `link`: snapshots become hard links where the file system allows.
pub fn run(source: &Path, backup: &Path, link: bool) -> Result<Done, ToolError> {
    let have = held(backup)?;
    let incoming = backup.join(INCOMING);
    let mut attempt = 0;
    loop {
        clear(&incoming)?;
        let tried = attempt_run(source, backup, &incoming, &have, link);
        match tried {
            Ok(mut done) => {
                done.retries = attempt as u64;
                return Ok(done);
            }
            Err(error) if attempt + 1 == ATTEMPTS || !is_overtaken(&error) => {
                let _ = fs::remove_dir_all(&incoming);
                return Err(error);
            }
            Err(_) => attempt += 1,
        }
    }
}

/// What is in the backup by now: nothing in a new directory.
fn held(backup: &Path) -> Result<Catalogue, ToolError> {
    fs::create_dir_all(backup).map_err(|error| failed("make", backup, &error))?;
    let mut names = fs::read_dir(backup).map_err(|error| failed("list", backup, &error))?;
    let is_foreign = |name: &str| ![INCOMING, "log", "snapshot", "manifest", "backup.json.tmp"].contains(&name);
    if backup.join(super::catalogue::FILE).exists() {
        return Catalogue::read(backup);
    }
    if names.any(|file| file.is_ok_and(|file| is_foreign(&file.file_name().to_string_lossy()))) {
        return Err(ToolError::Usage(format!("{} is neither empty nor a backup", backup.display())));
    }
    Ok(Catalogue::default())
}

/// Whether an error may come from a file that was retired or written anew under our hands.
fn is_overtaken(error: &ToolError) -> bool {
    matches!(error, ToolError::Engine(Error::Corrupt(_)) | ToolError::Overtaken(_))
}

fn clear(incoming: &Path) -> Result<(), ToolError> {
    if incoming.exists() {
        fs::remove_dir_all(incoming).map_err(|error| failed("clear", incoming, &error))?;
    }
    for name in DIRECTORIES {
        let path = incoming.join(name);
        fs::create_dir_all(&path).map_err(|error| failed("make", &path, &error))?;
    }
    Ok(())
}

fn attempt_run(source: &Path, backup: &Path, incoming: &Path, have: &Catalogue, link: bool) -> Result<Done, ToolError> {
    let Survey { mut new } = survey(source, have)?;
    let segment_bytes: u64 = new.segments.iter().map(|segment| segment.used_bytes).sum();
    let snapshot_bytes: u64 = new.snapshots.iter().map(|snapshot| snapshot.bytes).sum();
    let mut progress = Progress::of("backup", "files", segment_bytes + snapshot_bytes);
    let mut done = Done::default();
    for snapshot in &mut new.snapshots {
        let (from, to) = (source.join(&snapshot.file), incoming.join(&snapshot.file));
        // Snapshots are never written again, so that a link is as good as a copy; recycled segments are.
        let is_linked = link && fs::hard_link(&from, &to).is_ok();
        snapshot.crc = if is_linked {
            crc_of(&to, snapshot.bytes)?
        } else {
            copy(&from, &to, snapshot.bytes, snapshot.bytes, &mut progress)?
        };
        done.linked += u64::from(is_linked);
        done.bytes += if is_linked { 0 } else { snapshot.bytes };
    }
    for segment in &mut new.segments {
        let (from, to) = (source.join(&segment.file), incoming.join(&segment.file));
        segment.crc = copy(&from, &to, segment.used_bytes, segment.bytes, &mut progress)?;
        done.bytes += segment.used_bytes;
    }
    done.files = (new.snapshots.len() + new.segments.len()) as u64;
    progress.finish();
    check(incoming, &new)?;
    done.catalogue = take(backup, incoming, have, new)?;
    Ok(done)
}

/// Copies the first bytes of a file and fills up with zeros. Gives the CRC-32 of what was copied.
pub fn copy(from: &Path, to: &Path, bytes: u64, bytes_total: u64, progress: &mut Progress) -> Result<u32, ToolError> {
    let mut target = File::create_new(to).map_err(|error| failed("make", to, &error))?;
    let crc = pour(from, bytes, &mut |piece| {
        progress.add(0, piece.len() as u64);
        target.write_all(piece).map_err(|error| failed("write", to, &error))
    })?;
    progress.add(1, 0);
    let finish = || -> io::Result<()> {
        target.set_len(bytes_total)?;
        target.sync_all()
    };
    finish().map_err(|error| failed("write", to, &error))?;
    Ok(crc)
}

/// Hands out the first bytes of a file in pieces. Gives their CRC-32.
pub fn pour(from: &Path, bytes: u64, take: &mut dyn FnMut(&[u8]) -> Result<(), ToolError>) -> Result<u32, ToolError> {
    let file = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ToolError::Overtaken(format!("{} is gone", from.display())));
        }
        opened => opened.map_err(|error| failed("open", from, &error))?,
    };
    let (mut file, mut hasher, mut left) = (file.take(bytes), crc32fast::Hasher::new(), bytes);
    let mut piece = vec![0; PIECE_BYTES];
    while left > 0 {
        let read = file.read(&mut piece).map_err(|error| failed("read", from, &error))?;
        if read == 0 {
            let text = format!("{} ends {left} bytes too early", from.display());
            return Err(ToolError::Overtaken(text));
        }
        hasher.update(&piece[..read]);
        take(&piece[..read])?;
        left -= read as u64;
    }
    Ok(hasher.finalize())
}

/// CRC-32 of the first bytes of a file.
pub fn crc_of(path: &Path, bytes: u64) -> Result<u32, ToolError> {
    pour(path, bytes, &mut |_| Ok(()))
}

/// Reads back what was copied: every block of the snapshots, every batch of the segments.
fn check(incoming: &Path, new: &Catalogue) -> Result<(), ToolError> {
    let storage = OsStorage::new(incoming, IoMode::Auto).map_err(Error::from)?;
    for copied in &new.snapshots {
        check_snapshot(&storage, copied)?;
    }
    let Some(first) = new.segments.first() else { return Ok(()) };
    let manifest = new.manifest(&new.segments.iter().collect::<Vec<_>>(), &[])?;
    write_manifest(incoming, manifest)?;
    let mut last = Last::default();
    let walked = directory::open(incoming)?.log(Lsn(first.first_lsn), &mut last)?;
    let expected = new.segments.last().map_or(0, |segment| segment.last_lsn);
    match (walked, last) {
        (WalkEnd::End(end), last) if last.lsn == expected && !end.is_torn() => Ok(()),
        (_, Last { damage: Some(damage), .. }) => Err(ToolError::Engine(damage.into())),
        (_, last) => Err(ToolError::Overtaken(format!("the copy of the log ends at LSN {}, not {expected}", last.lsn))),
    }
}

/// Checks all blocks of a snapshot and its digest.
pub fn check_snapshot(storage: &dyn Storage, copied: &SnapshotCopy) -> Result<(), ToolError> {
    let mut disk = storage.disk().map_err(Error::from)?;
    let snapshot = Snapshot::open(&mut *disk, Lsn(copied.lsn))?;
    let file = snapshot.open_file(&mut *disk)?;
    let mut digest = Digest::EMPTY;
    for number in 0..snapshot.blocks.len() {
        digest.add_all(snapshot.digest_block(&mut *disk, file, number)?);
    }
    disk.close(file);
    Ok(snapshot.check_digest(digest)?)
}

/// Makes the manifest of a directory that has none, or replaces it.
pub fn write_manifest(directory: &Path, manifest: Manifest) -> Result<(), ToolError> {
    let storage = OsStorage::new(directory, IoMode::Auto).map_err(Error::from)?;
    let mut disk = storage.disk().map_err(Error::from)?;
    manifest::create(&mut *disk, manifest)?;
    Ok(())
}

#[derive(Default)]
struct Last {
    lsn: u64,
    damage: Option<Corrupt>,
}

impl LogVisitor for Last {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.lsn = batch.last_lsn().0;
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damage = Some(damage.clone());
    }
}

/// Puts the new files into their places, then the manifest, then the catalogue.
fn take(backup: &Path, incoming: &Path, have: &Catalogue, new: Catalogue) -> Result<Catalogue, ToolError> {
    let place = |file: &str| -> Result<(), ToolError> {
        let (from, to) = (incoming.join(file), backup.join(file));
        fs::rename(&from, &to).map_err(|error| failed("name", &to, &error))
    };
    for name in DIRECTORIES {
        let path = backup.join(name);
        fs::create_dir_all(&path).map_err(|error| failed("make", &path, &error))?;
    }
    new.snapshots.iter().try_for_each(|snapshot| place(&snapshot.file))?;
    new.segments.iter().try_for_each(|segment| place(&segment.file))?;
    for name in DIRECTORIES {
        sync_directory(&backup.join(name)).map_err(|error| failed("sync", &backup.join(name), &error))?;
    }
    let mut merged = merge(have, new);
    merged.finished_millis = OsClock.wall().0;
    let moved = set_aside(backup, &mut merged)?;
    let stretches = merged.stretches();
    let Some(newest) = stretches.last() else {
        return Err(ToolError::Io("the store has nothing to back up yet: no command was ever written".to_owned()));
    };
    write_manifest(backup, merged.manifest(&newest.segments, &newest.snapshots)?)?;
    merged.write(backup)?;
    // From here on the catalogue names the new places only.
    moved.iter().for_each(|name| drop(fs::remove_file(backup.join(name))));
    let _ = fs::remove_dir_all(incoming);
    Ok(merged)
}

/// Gives the segments before a gap a second name in `older/`, so that what is in `log/` is one log. Gives their old names.
fn set_aside(backup: &Path, merged: &mut Catalogue) -> Result<Vec<String>, ToolError> {
    let stretches = merged.stretches();
    let newest = stretches.last().and_then(|stretch| stretch.segments.first()).map_or(0, |segment| segment.segment);
    let older = backup.join(OLDER);
    let mut moved = Vec::new();
    for segment in merged.segments.iter_mut().filter(|segment| segment.segment < newest) {
        let Some(name) = segment.file.strip_prefix("log/") else { continue };
        let to = format!("{OLDER}/{name}");
        let (from, target) = (backup.join(&segment.file), backup.join(&to));
        let name_twice = || -> io::Result<()> {
            fs::create_dir_all(&older)?;
            let _ = fs::remove_file(&target);
            fs::hard_link(&from, &target).or_else(|_| fs::copy(&from, &target).map(drop))?;
            sync_directory(&older)
        };
        name_twice().map_err(|error| failed("set aside", &from, &error))?;
        moved.push(std::mem::replace(&mut segment.file, to));
    }
    Ok(moved)
}

/// New files stand for old ones of the same name; the rest stays.
fn merge(have: &Catalogue, new: Catalogue) -> Catalogue {
    let mut merged = new;
    let is_new = |segments: &[SegmentCopy], number| segments.iter().any(|one| one.segment == number);
    let mut kept: Vec<SegmentCopy> = have.segments.clone();
    kept.retain(|held| !is_new(&merged.segments, held.segment));
    merged.segments.extend(kept);
    merged.segments.sort_by_key(|segment| segment.segment);
    merged.snapshots.extend(have.snapshots.iter().cloned());
    merged.snapshots.sort_by_key(|snapshot| snapshot.lsn);
    // What follows another segment was sealed, whoever copied it last.
    for at in 1..merged.segments.len() {
        let previous = merged.segments[at].previous_segment;
        if merged.segments[at - 1].segment == previous {
            merged.segments[at - 1].sealed = true;
        }
    }
    merged
}
