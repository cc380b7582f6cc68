//! Plans what can be saved of a damaged store: for the policies of a start and for `logctl repair`, which so lose the same.
//! Guarantees: reads only; every snapshot it relies on was read to its end; the log is believed up to the first hole and no further.
//! Must not know: what is done with the plan.
//! Next: salvage.rs carries it out in place, extract.rs into a new directory.

use super::defined::check_frame;
use super::start::{check_reference, log_proof};
use crate::canary::{Canary, planted};
use crate::digest::Digest;
use crate::disk::{BlockingDisk, Disk, DiskErrorKind, OpenMode};
use crate::error::{Corrupt, Error};
use crate::format::StoreId;
use crate::format::segment::SegmentHeader;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use crate::log::{Batch, Prefix, Proof, find_prefix};
use crate::loss::Loss;
use crate::manifest::{self, Manifest, ManifestRead, SnapshotReference};
use crate::snapshot::{self, Snapshot};
use crate::units::{Lsn, Millis};

/// Taken for the number of writes of a manifest that is gone. LSNs of commands that reached no disk may have been told since the
/// newest that did, and were counted from the true number; a store that writes one every second is below this for half a year.
const SEQUENCE_UNKNOWN: u64 = 1 << 24;

/// What can be saved, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All damage that was met, in the order of the check.
    pub damage: Vec<Corrupt>,
    /// The manifest of the result.
    pub manifest: Manifest,
    /// How often the manifest was written; far above what can be right, if nobody knows.
    pub sequence: u64,
    /// Whether the manifest itself could not be read and was put together from the other files.
    pub manifest_rebuilt: bool,
    /// Snapshots to be put aside: their LSNs and lengths.
    pub snapshots_damaged: Vec<(Lsn, u64)>,
    /// What of the log is believed.
    pub log: Prefix,
    /// What is lost, and what is put aside.
    pub loss: Loss,
}

impl Plan {
    /// Whether every command that was ever durable is saved.
    pub fn is_lossless(&self) -> bool {
        self.log.damage.is_none() && self.loss.last_lsn == Lsn::NONE
    }

    /// The snapshot that the result begins with.
    pub fn snapshot(&self) -> Option<&SnapshotReference> {
        self.manifest.snapshots.last()
    }

    /// Last command of the result.
    pub fn last_lsn(&self) -> Lsn {
        self.log.last_lsn
    }
}

/// Makes the plan for a store that nobody has open; `None` where there is none. `noted`: wall time, for the note of the loss.
/// Errors: disks that cannot be read, newer formats, and `Corrupt` where not even the store's id is left.
pub fn plan(disk: &mut dyn Disk, noted: Millis) -> Result<Option<Plan>, Error> {
    let (before, sequence, manifest_damage) = match manifest::read(disk)? {
        ManifestRead::Empty => return Ok(None),
        ManifestRead::Present(file, _) => (file.manifest().clone(), file.sequence(), None),
        ManifestRead::Unreadable(damage) => (rebuild_manifest(disk, &damage)?, SEQUENCE_UNKNOWN, Some(damage)),
    };
    let mut damage: Vec<Corrupt> = manifest_damage.iter().cloned().collect();
    let (whole, snapshots_damaged) = sort_snapshots(disk, &before, &mut damage)?;
    let from = whole.last().map_or(Lsn::NONE, |newest| newest.lsn).next();
    let log = prefix(disk, &before, from)?;
    damage.extend(log.damage.clone());
    let named = snapshot_files(disk)?.into_iter().map(|(lsn, _)| lsn).max().unwrap_or_default();
    let told = log_proof(&before).synced.max(log.behind.last_lsn).max(named);
    let mut loss = loss_of(&log, told, noted);
    loss.files += snapshots_damaged.len() as u64 + u64::from(manifest_damage.is_some());
    loss.bytes += snapshots_damaged.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let manifest_rebuilt = manifest_damage.is_some();
    let mut manifest = Manifest { snapshots: usable(disk, &before, whole, &log, &mut damage)?, ..before };
    if log.damage.is_some() || loss.last_lsn != Lsn::NONE || manifest_rebuilt {
        manifest = Manifest { lsn_proof: log.last_lsn, segment_proof: log.segment, clean: None, ..manifest };
    }
    manifest.time_millis = manifest.time_millis.max(log.time.unwrap_or_default());
    Ok(Some(Plan { damage, manifest, sequence, manifest_rebuilt, snapshots_damaged, log, loss }))
}

fn prefix(disk: &mut dyn Disk, manifest: &Manifest, from: Lsn) -> Result<Prefix, Error> {
    let proof = log_proof(manifest);
    let proof = Proof { synced: proof.synced, segment: proof.segment };
    find_prefix(disk, StoreId(manifest.store_id.to_le_bytes()), from, proof, &mut check_batch)
}

pub(super) fn check_batch(batch: Batch<'_>) -> Result<(), Error> {
    for (lsn, frame) in batch.frames() {
        if let Err(reason) = check_frame(frame, None) {
            let file = crate::log::segment_name(batch.segment);
            let (offset, expected) = (batch.offset, format!("a command with LSN {lsn}"));
            return Err(
                Corrupt { what: "command", file, offset, case: 'k', expected, found: reason.to_string() }.into()
            );
        }
    }
    Ok(())
}

fn loss_of(log: &Prefix, told: Lsn, noted: Millis) -> Loss {
    let wall = log.behind.wall.unwrap_or_default();
    let is_lost = told > log.last_lsn && !planted(Canary::LossNotCounted);
    let cut_bytes = log.cut.map_or(0, |cut| cut.to.saturating_sub(cut.from));
    Loss {
        salvage_count: 1,
        commands: log.behind.commands,
        first_lsn: if is_lost { log.last_lsn.next() } else { Lsn::NONE },
        last_lsn: if is_lost { told } else { Lsn::NONE },
        bytes: log.moved.iter().map(|(_, bytes)| bytes).sum::<u64>() + cut_bytes,
        files: log.moved.len() as u64 + u64::from(log.cut.is_some()),
        first_wall: wall.0,
        last_wall: wall.1,
        noted,
        lsn_floor: told,
        segment_floor: log.segment_last,
        ..Loss::default()
    }
}

type Sorted = (Vec<SnapshotReference>, Vec<(Lsn, u64)>);

/// Whole snapshots, newest last, and those that are there but damaged.
fn sort_snapshots(disk: &mut dyn Disk, manifest: &Manifest, damage: &mut Vec<Corrupt>) -> Result<Sorted, Error> {
    let files = snapshot_files(disk)?;
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for reference in &manifest.snapshots {
        match check_snapshot(disk, manifest.store_id, reference) {
            Ok(()) => whole.push(*reference),
            Err(Error::Corrupt(corrupt)) => {
                damage.push(*corrupt);
                damaged.extend(files.iter().find(|(lsn, _)| *lsn == reference.lsn));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((whole, damaged))
}

fn check_snapshot(disk: &mut dyn Disk, store_id: u128, reference: &SnapshotReference) -> Result<(), Error> {
    let snapshot = Snapshot::open(disk, reference.lsn)?;
    check_reference(store_id, reference, &snapshot)?;
    let file = snapshot.open_file(disk)?;
    let mut digest = Digest::EMPTY;
    let read = (0..snapshot.blocks.len())
        .try_for_each(|number| snapshot.digest_block(disk, file, number).map(|of_block| digest.add_all(of_block)));
    disk.close(file);
    read?;
    snapshot.check_digest(digest)
}

/// The newest whole snapshot, and of those before it the ones from which the log still leads to the same end.
fn usable(
    disk: &mut dyn Disk,
    before: &Manifest,
    whole: Vec<SnapshotReference>,
    log: &Prefix,
    damage: &mut Vec<Corrupt>,
) -> Result<Vec<SnapshotReference>, Error> {
    let (mut usable, newest) = (Vec::new(), whole.last().map(|newest| newest.lsn));
    for reference in whole {
        if Some(reference.lsn) == newest {
            usable.push(reference);
            continue;
        }
        // Damage between two whole snapshots costs nothing, but the older of them leads nowhere any more.
        let from_here = prefix(disk, before, reference.lsn.next())?;
        // Also where nothing is damaged: of a log that ends before the newest snapshot nothing is kept.
        let is_kept = log.damage.is_none() || log.segment.0 > 0;
        if is_kept && from_here.last_lsn == log.last_lsn {
            usable.push(reference);
        } else {
            damage.extend(from_here.damage);
        }
    }
    Ok(usable)
}

fn snapshot_files(disk: &mut dyn Disk) -> Result<Vec<(Lsn, u64)>, Error> {
    let listed = match disk.list(snapshot::DIRECTORY) {
        Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    Ok(listed.iter().filter_map(|file| snapshot::lsn_of_name(&file.name).map(|lsn| (lsn, file.bytes))).collect())
}

/// Puts a manifest together from the heads of the other files. It proves nothing about the end of the log.
fn rebuild_manifest(disk: &mut dyn Disk, damage: &Corrupt) -> Result<Manifest, Error> {
    crate::mark!("manifest_rebuilt");
    let mut snapshots = Vec::new();
    for (lsn, _) in snapshot_files(disk)? {
        match Snapshot::open(disk, lsn) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(Error::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let headers = segment_headers(disk)?;
    let newest = snapshots.last();
    let of_log = headers.last().map(|(store, _)| u128::from_le_bytes(store.0));
    let Some(store_id) = newest.map(|newest| newest.meta.store_id).or(of_log) else {
        return Err(damage.clone().into());
    };
    let time = newest.map_or(Millis(0), |newest| newest.meta.time_millis);
    let own = snapshots.iter().filter(|snapshot| snapshot.meta.store_id == store_id);
    let references = own.map(|snapshot| SnapshotReference {
        lsn: snapshot.meta.lsn,
        file_bytes: snapshot.trailer.file_bytes,
        digest: snapshot.trailer.digest,
        time_millis: snapshot.meta.time_millis,
        record_count: snapshot.trailer.record_count,
    });
    let segment_bytes = headers.iter().map(|(_, header)| header.segment_bytes).max().unwrap_or(SEGMENT_BYTES_MIN);
    Ok(Manifest {
        store_id,
        created_millis: time,
        segment_bytes,
        shards: newest.map_or(1, |newest| newest.meta.shards),
        time_millis: time,
        snapshots: references.collect(),
        ..Manifest::default()
    })
}

/// Sound segment headers, each believed by the store's id that stands in it.
fn segment_headers(disk: &mut dyn Disk) -> Result<Vec<(StoreId, SegmentHeader)>, Error> {
    let listed = match disk.list("log") {
        Err(error) if error.kind == DiskErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let mut headers = Vec::new();
    for file in listed.iter().filter(|file| file.name.ends_with(".seg") && file.bytes >= BLOCK_BYTES as u64) {
        let open = disk.open(&format!("log/{}", file.name), OpenMode::Read)?;
        let buffer = disk.buffer(BLOCK_BYTES);
        let read = disk.read_at(open, 0, buffer);
        disk.close(open);
        let block = read?;
        let mut store = StoreId::default();
        store.0.copy_from_slice(&block[16..32]);
        headers.extend(SegmentHeader::decode(store, &block).ok().map(|header| (store, header)));
    }
    Ok(headers)
}
