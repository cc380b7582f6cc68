//! The order in which a store is opened.
//! Guarantees: bytes that are cut are kept before anything is written; the clean mark is gone, durably, before anything is served.
//! Must not know: what a command does.
//! Next: load.rs, then quarantine.rs.

use super::load::{load_records, load_trees};
use super::quarantine;
use super::report::{Elapsed, Kept, Recovered};
use super::seam::{LogCut, LogProof, LogReader, LogTail, Parallel, Target};
use crate::canary::{Canary, planted};
use crate::clock::Clock;
use crate::disk::{Disk, Storage};
use crate::error::{Corrupt, Error};
use crate::limits::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::manifest::{self, Manifest, ManifestFile, ManifestRead, SnapshotReference};
use crate::options::Options;
use crate::snapshot::{self, Snapshot};
use crate::units::{Lsn, Millis};

/// Segment size where there is plenty of room.
const SEGMENT_BYTES_USUAL: u64 = 64 << 20;
/// Where there is not, one segment takes at most one in so many bytes of the free space.
const SEGMENT_SPACE_SHARE: u64 = 64;

/// What recovery works with. The caller holds the store's lock.
pub struct Recovery<'a, L> {
    /// The store's directory.
    pub storage: &'a dyn Storage,
    /// Settings, checked.
    pub options: &'a Options,
    /// Number of the hash by which keys find their shard.
    pub routing: u16,
    /// The log.
    pub log: &'a L,
    /// Threads, or none.
    pub parallel: &'a dyn Parallel,
    /// Clocks.
    pub clock: &'a dyn Clock,
    /// A random number, used if the store has to be made.
    pub store_id_fresh: u128,
}

/// Opens a store, or makes one where there is nothing at all.
pub fn recover<L: LogReader>(recovery: &Recovery<'_, L>, target: &mut dyn Target) -> Result<Recovered<L::End>, Error> {
    let started = recovery.clock.monotonic();
    let mut disk = recovery.storage.disk()?;
    let disk = &mut *disk;
    let mut notes = Vec::new();
    let (mut file, fresh) = open_manifest(recovery, disk, &mut notes)?;
    let snapshot_lsn = load_newest(recovery, disk, file.manifest(), target)?;
    note_older(disk, file.manifest(), &mut notes)?;
    let loaded = recovery.clock.monotonic();
    let replay = replay(recovery, disk, file.manifest(), snapshot_lsn, target)?;
    let replayed = recovery.clock.monotonic();
    let was_clean = check_end(file.manifest(), &replay.tail, snapshot_lsn, &mut notes)?;
    let kept = keep_cuts(recovery.log, disk, &replay.tail, &mut notes)?;
    let next = manifest_in_use(recovery, file.manifest(), &replay.tail);
    let (time_floor, segment_bytes) = (next.time_millis, next.segment_bytes);
    file.replace(disk, next)?;
    remove_unnamed(disk, file.manifest())?;
    let finished = recovery.clock.monotonic();
    let last_lsn = replay.tail.last_lsn.max(snapshot_lsn);
    let next_lsn = replay.tail.next_lsn.max(last_lsn.next());
    Ok(Recovered {
        manifest: file,
        log: replay.end,
        fresh,
        last_lsn,
        next_lsn,
        snapshot_lsn,
        replayed: replay.count,
        replayed_range: replay.range,
        case: replay.tail.case,
        cut_bytes: replay.tail.cuts.iter().map(|cut| cut_bytes(cut, &kept)).sum(),
        cut_range: (next_lsn > last_lsn.next()).then(|| (last_lsn.next(), next_lsn.previous())),
        kept: kept.into_iter().map(|(_, kept)| kept).collect(),
        notes,
        was_clean,
        time_floor,
        segment_bytes,
        elapsed: Elapsed {
            load: loaded.since(started),
            replay: replayed.since(loaded),
            finish: finished.since(replayed),
        },
    })
}

fn open_manifest<L>(
    recovery: &Recovery<'_, L>,
    disk: &mut dyn Disk,
    notes: &mut Vec<String>,
) -> Result<(ManifestFile, bool), Error> {
    let read = manifest::read(disk)?;
    if let ManifestRead::Unreadable(corrupt) = read {
        return Err(corrupt.into());
    }
    for directory in ["log", snapshot::DIRECTORY, quarantine::DIRECTORY] {
        disk.create_directory(directory)?;
    }
    disk.sync_directory("")?;
    match read {
        ManifestRead::Present(file, note) => {
            notes.extend(note);
            Ok((file, false))
        }
        _ => {
            let wall = recovery.clock.wall();
            let fresh = Manifest {
                store_id: recovery.store_id_fresh,
                created_millis: wall,
                segment_bytes: segment_bytes(recovery.options, disk.space()?.free),
                shards: recovery.options.shards as u16,
                time_millis: wall,
                ..Manifest::default()
            };
            Ok((manifest::create(disk, fresh)?, true))
        }
    }
}

/// 64 MiB where that is below 1/64 of the free space (4 GiB), else the power of two below that share, at least 1 MiB.
fn segment_bytes(options: &Options, free: u64) -> u64 {
    if options.segment_bytes != 0 {
        return options.segment_bytes;
    }
    let share = (free / SEGMENT_SPACE_SHARE).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    (1 << share.ilog2()).min(SEGMENT_BYTES_USUAL)
}

/// Loads the newest snapshot and returns its LSN. A damaged one is an error: what follows is a matter of `on_corruption`, and
/// plan.rs does it.
fn load_newest<L>(
    recovery: &Recovery<'_, L>,
    disk: &mut dyn Disk,
    manifest: &Manifest,
    target: &mut dyn Target,
) -> Result<Lsn, Error> {
    let Some(reference) = manifest.snapshots.last() else { return Ok(Lsn::NONE) };
    load_snapshot(recovery, disk, manifest.store_id, reference, target)
}

/// The older snapshots are not needed today; that one of them is damaged should be known before it is. Only their frames are
/// read, which is cheap; `logctl verify` reads all.
fn note_older(disk: &mut dyn Disk, manifest: &Manifest, notes: &mut Vec<String>) -> Result<(), Error> {
    let Some((_, older)) = manifest.snapshots.split_last() else { return Ok(()) };
    for reference in older {
        let opened = Snapshot::open(disk, reference.lsn);
        match opened.and_then(|snapshot| check_reference(manifest.store_id, reference, &snapshot)) {
            Err(Error::Corrupt(corrupt)) => {
                crate::mark!("older_snapshot_damaged");
                notes.push(format!(
                    "an older snapshot is damaged; nothing is lost, but it could not be fallen back on: {corrupt}"
                ));
            }
            checked => checked?,
        }
    }
    Ok(())
}

/// Loads the snapshot that a manifest means.
pub(super) fn load_snapshot<L>(
    recovery: &Recovery<'_, L>,
    disk: &mut dyn Disk,
    store_id: u128,
    reference: &SnapshotReference,
    target: &mut dyn Target,
) -> Result<Lsn, Error> {
    let snapshot = Snapshot::open(disk, reference.lsn)?;
    check_reference(store_id, reference, &snapshot)?;
    target.begin(&snapshot.meta)?;
    let same_shards = usize::from(snapshot.meta.shards) == recovery.options.shards;
    if same_shards && snapshot.meta.routing == recovery.routing {
        load_trees(recovery.storage, &snapshot, recovery.parallel, target)?;
    } else {
        load_records(recovery.storage, &snapshot, target)?;
    }
    Ok(reference.lsn)
}

/// The file must be the one that the manifest means, not another of the same name.
pub(crate) fn check_reference(store_id: u128, reference: &SnapshotReference, found: &Snapshot) -> Result<(), Error> {
    let expected = (store_id, reference.file_bytes, reference.digest, reference.record_count);
    let trailer = &found.trailer;
    let actual = (found.meta.store_id, trailer.file_bytes, trailer.digest, trailer.record_count);
    if expected == actual {
        return Ok(());
    }
    let words = |(store, bytes, digest, records): (u128, u64, u128, u64)| {
        format!("store {store:032x}, {bytes} bytes, digest {digest:032x}, {records} records")
    };
    let (expected, found_words) = (words(expected), words(actual));
    let what = "snapshot named by the manifest";
    Err(Corrupt { what, file: found.name.clone(), offset: 0, case: 'p', expected, found: found_words }.into())
}

/// Removes snapshots that no manifest came to name. One may hold commands that were cut off the log just now: whoever has to do
/// without the manifest some day must not take it for a part of what came after.
fn remove_unnamed(disk: &mut dyn Disk, manifest: &Manifest) -> Result<(), Error> {
    let mut is_changed = false;
    for listed in disk.list(snapshot::DIRECTORY)? {
        let Some(lsn) = snapshot::lsn_of_name(&listed.name) else { continue };
        if manifest.snapshots.iter().all(|named| named.lsn != lsn) {
            crate::mark!("unnamed_snapshot_removed");
            disk.remove(&snapshot::file_name(lsn))?;
            is_changed = true;
        }
    }
    if is_changed { Ok(disk.sync_directory(snapshot::DIRECTORY)?) } else { Ok(()) }
}

/// What a manifest proves about the log.
pub fn log_proof(manifest: &Manifest) -> LogProof {
    let clean = manifest.clean;
    LogProof {
        synced: clean.map_or(manifest.lsn_proof, |clean| clean.last_lsn.max(manifest.lsn_proof)),
        segment: clean.map_or(manifest.segment_proof, |clean| clean.segment.max(manifest.segment_proof)),
        clean: clean.is_some(),
    }
}

struct Replay<E> {
    tail: LogTail,
    end: E,
    count: u64,
    range: Option<(Lsn, Lsn)>,
}

fn replay<L: LogReader>(
    recovery: &Recovery<'_, L>,
    disk: &mut dyn Disk,
    manifest: &Manifest,
    snapshot_lsn: Lsn,
    target: &mut dyn Target,
) -> Result<Replay<L::End>, Error> {
    let from = snapshot_lsn.next();
    let (mut count, mut range, mut last) = (0, None, snapshot_lsn);
    let mut visit = |lsn: Lsn, time: Millis, frame: &[u8]| {
        if lsn < from {
            return Ok(());
        }
        assert!(lsn > last, "recovery: LSN {lsn} came after {last}");
        target.apply(lsn, time, frame)?;
        count += 1;
        last = lsn;
        range = Some((range.map_or(lsn, |(first, _)| first), lsn));
        Ok(())
    };
    let (tail, end) = recovery.log.scan(disk, manifest.store_id, from, log_proof(manifest), &mut visit)?;
    Ok(Replay { tail, end, count, range })
}

/// Compares the end of the log with what the manifest knows. True if the last stop was a clean one.
fn check_end(manifest: &Manifest, tail: &LogTail, snapshot_lsn: Lsn, notes: &mut Vec<String>) -> Result<bool, Error> {
    let last = tail.last_lsn.max(snapshot_lsn);
    let proof = log_proof(manifest);
    if last < proof.synced {
        let what = if proof.clean { "log after a clean stop" } else { "log" };
        let (expected, found) = (format!("commands up to LSN {}", proof.synced), format!("up to {last}"));
        return Err(Corrupt { what, file: "log".to_owned(), offset: 0, case: 'q', expected, found }.into());
    }
    if tail.last_lsn < snapshot_lsn {
        crate::mark!("snapshot_beyond_log");
        notes.push(format!("the log ends at LSN {}, before the snapshot at {snapshot_lsn}", tail.last_lsn));
    }
    let Some(clean) = manifest.clean else { return Ok(false) };
    let agrees = clean.last_lsn == last && tail.cuts.is_empty();
    if !agrees {
        crate::mark!("clean_mark_disagrees");
        let cut = if tail.cuts.is_empty() { "" } else { " with something behind it" };
        notes.push(format!(
            "the manifest says it was stopped cleanly at LSN {}, but the log ends at {last}{cut}",
            clean.last_lsn
        ));
    }
    Ok(agrees)
}

fn keep_cuts<L: LogReader>(
    log: &L,
    disk: &mut dyn Disk,
    tail: &LogTail,
    notes: &mut Vec<String>,
) -> Result<Vec<(LogCut, Kept)>, Error> {
    let mut all = Vec::new();
    for cut in &tail.cuts {
        match quarantine::keep(disk, &log.segment_name(cut.segment), cut) {
            Ok(Some(kept)) => all.push((*cut, kept)),
            Ok(None) => {
                // Not a whole block to copy: what there is stays where it is, and nobody may miss that it was there.
                crate::mark!("cut_below_a_block");
                let name = log.segment_name(cut.segment);
                notes.push(format!(
                    "{name} ends short of its length (case {}); the log ends at byte {}, and what stands behind it stays in that file",
                    tail.case, cut.from
                ));
            }
            Err(Error::Full(full)) => {
                // Nobody was told that these bytes are durable: a full disk is no reason not to start.
                crate::mark!("quarantine_full");
                notes.push(format!("the bytes cut off segment {} could not be kept: {full}", cut.segment));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn cut_bytes(cut: &LogCut, kept: &[(LogCut, Kept)]) -> u64 {
    let copy = kept.iter().find(|(of, _)| of == cut).map(|(_, kept)| kept.bytes);
    copy.unwrap_or(cut.to.saturating_sub(cut.from))
}

/// The manifest while the store is in use: no clean mark, and never less proof than before.
fn manifest_in_use<L>(recovery: &Recovery<'_, L>, before: &Manifest, tail: &LogTail) -> Manifest {
    let proof = log_proof(before);
    // Not a segment that only the page cache may hold: a power cut before it is written again would leave a manifest that
    // asks for it.
    let segment = tail.segment_proven.map_or(proof.segment, |segment| segment.max(proof.segment));
    let times = [tail.time, before.snapshots.last().map(|newest| newest.time_millis)];
    let time_before = if planted(Canary::StopTimeForgotten) { Millis(0) } else { before.time_millis };
    let segment_bytes = match recovery.options.segment_bytes {
        0 => before.segment_bytes,
        set => set,
    };
    Manifest {
        clean: before.clean.filter(|_| planted(Canary::CleanMarkKept)),
        lsn_proof: proof.synced,
        segment_proof: segment,
        segment_bytes,
        shards: recovery.options.shards as u16,
        time_millis: times.into_iter().flatten().fold(time_before, Millis::max),
        ..before.clone()
    }
}
