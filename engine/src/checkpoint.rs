//! The checkpoint: the order in which a snapshot takes the place of log.
//!
//! ```text
//! left-overs removed → cut → blocks, paced → sync → rename → directory sync → log synced to the snapshot's LSN
//!   → manifest, durable → log below the oldest kept snapshot retired → older snapshots removed
//! ```
//! Guarantees: at every moment the old pair of manifest and files is whole or the new one is; nothing is retired or removed
//! before the manifest that no longer needs it is durable. A checkpoint that fails before that leaves everything as it was.
//! Must not know: threads, clocks, when a checkpoint is due; it is told the time and says when it wants to go on.
//! Next: snapshot/writer.rs writes the file; manifest.rs swaps.

use crate::canary::{Canary, planted};
use crate::disk::{Disk, DiskErrorKind};
use crate::error::Error;
use crate::format::snapshot::SnapshotMeta;
use crate::limits::SNAPSHOT_BLOCK_BYTES;
use crate::manifest::{Manifest, ManifestFile, SnapshotReference};
use crate::snapshot::{self, Part, SnapshotWriter, Written};
use crate::units::{Lsn, Millis, Nanos, SegmentId};
use std::collections::VecDeque;

/// Reports kept for statistics.
const REPORTS_MAX: usize = 16;

/// A frozen state of the whole store.
pub struct Cut {
    /// What it is of; its LSN is the last command in it.
    pub meta: SnapshotMeta,
    /// Its records, in the order they should be written and released.
    pub parts: Vec<Part>,
}

/// The engine, as a checkpoint sees it.
pub trait Source {
    /// Freezes the present state, for as long as the parts live.
    fn cut(&self) -> Cut;
    /// Up to here the log is on stable storage.
    fn lsn_synced(&self) -> Lsn;
    /// The segment that is written to, or the last durable one; 0 if there is none yet.
    fn segment(&self) -> SegmentId;
    /// Asks for a sync of everything logged so far.
    fn request_sync(&self);
    /// Commands up to and with this LSN are needed no more; segments that hold only such may go.
    fn retire_log(&self, last: Lsn);
}

/// What a checkpoint needs to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Snapshots kept, at least one.
    pub snapshots_kept: usize,
    /// Most bytes a second; 0 for no limit.
    pub bytes_per_second: u64,
}

/// The pieces in which a snapshot is written; the simulation's are small, so that much happens between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Bytes written between two looks at the clock.
    pub slice_bytes: u64,
    /// Length at which blocks end.
    pub block_bytes: usize,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces { slice_bytes: 256 << 10, block_bytes: SNAPSHOT_BLOCK_BYTES }
    }
}

/// Why a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// Somebody asked.
    Manual,
    /// The log had grown.
    LogBytes,
    /// The time had come.
    Time,
    /// After a recovery.
    Recovery,
    /// The disk was nearly full.
    Space,
}

/// How a checkpoint went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Why it was taken.
    pub kind: SnapshotKind,
    /// Last command in the snapshot.
    pub lsn: Lsn,
    /// When it started.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Bytes written; 0 if nothing had changed since the newest snapshot.
    pub bytes: u64,
    /// Records written.
    pub record_count: u64,
    /// How it ended.
    pub result: Result<(), Error>,
}

/// The last checkpoints, oldest first.
#[derive(Clone, Debug, Default)]
pub struct SnapshotReports {
    reports: VecDeque<SnapshotReport>,
}

impl SnapshotReports {
    /// Keeps a report and forgets the oldest beyond sixteen.
    pub fn push(&mut self, report: SnapshotReport) {
        if self.reports.len() == REPORTS_MAX {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &SnapshotReport> {
        self.reports.iter()
    }
}

/// When the next step is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointNext {
    /// At once.
    Again,
    /// Not before this time: the budget is spent until then.
    Until(Nanos),
    /// When the log is synced up to here.
    WaitForSync(Lsn),
    /// Never; this is how it went.
    Done(SnapshotReport),
}

/// A checkpoint under way. After `Done` it does nothing more.
pub struct Checkpoint {
    options: CheckpointOptions,
    pieces: Pieces,
    kind: SnapshotKind,
    urgent: bool,
    /// Share of the pause after a slice that is kept, in thousandths.
    pause_permille: u64,
    state: State,
    start: Nanos,
    /// Bytes of records written so far.
    written_bytes: u64,
    /// When they are paid for.
    paid: Nanos,
    report: SnapshotReport,
}

enum State {
    Begin,
    Blocks(Box<SnapshotWriter>, Millis),
    Sync(Written, Millis),
    Retire { oldest: Lsn },
    Remove,
    Done,
}

impl Checkpoint {
    /// A checkpoint that has not started.
    pub fn new(options: CheckpointOptions, kind: SnapshotKind, now: Nanos) -> Checkpoint {
        assert!(options.snapshots_kept > 0, "options keep at least one snapshot");
        let report =
            SnapshotReport { kind, lsn: Lsn::NONE, start: now, end: now, bytes: 0, record_count: 0, result: Ok(()) };
        Checkpoint {
            options,
            pieces: Pieces::default(),
            kind,
            urgent: false,
            pause_permille: 1000,
            state: State::Begin,
            start: now,
            written_bytes: 0,
            paid: now,
            report,
        }
    }

    /// Bytes of records written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Sets the pieces.
    pub fn in_pieces(mut self, pieces: Pieces) -> Checkpoint {
        self.pieces = pieces;
        self
    }

    /// With `true` the pacing ends: the log is near its cap, so the snapshot is more urgent than the delay it causes.
    pub fn set_urgent(&mut self, urgent: bool) {
        self.urgent = urgent;
    }

    /// Bytes that are held for the snapshot alone, and how many there may be. Beyond half of that the pauses get shorter, down
    /// to none: the longer a snapshot takes, the more is changed that it has not yet written. Half of each pause stays while
    /// the log `is_preparing` segments: commits wait for those, and they need the same disk.
    pub fn set_kept(&mut self, bytes: u64, bytes_max: u64, is_preparing: bool) {
        let left = u128::from(bytes_max.saturating_sub(bytes));
        let permille = (left * 2000 / u128::from(bytes_max.max(1))).min(1000) as u64;
        self.pause_permille = permille.max(if is_preparing { 500 } else { 0 });
    }

    /// Why it was started.
    pub fn kind(&self) -> SnapshotKind {
        self.kind
    }

    /// Does a bounded piece of work and says when to come again.
    pub fn step(
        &mut self,
        disk: &mut dyn Disk,
        manifest: &mut ManifestFile,
        source: &dyn Source,
        now: Nanos,
    ) -> CheckpointNext {
        let state = std::mem::replace(&mut self.state, State::Done);
        let stepped = match state {
            State::Begin => self.begin(disk, manifest, source),
            State::Blocks(writer, time) => self.write_blocks(disk, writer, time, now),
            State::Sync(written, time) => self.swap_manifest(disk, manifest, source, written, time),
            State::Retire { oldest } => {
                source.retire_log(oldest);
                Ok((State::Remove, CheckpointNext::Again))
            }
            State::Remove => remove_unnamed(disk, manifest.manifest()).map(|()| (State::Done, self.done(now))),
            State::Done => Ok((State::Done, self.done(now))),
        };
        match stepped {
            Ok((state, next)) => {
                self.state = state;
                next
            }
            Err(error) => {
                crate::mark!("checkpoint_failed");
                self.report.result = Err(error);
                self.done(now)
            }
        }
    }

    /// Gives up for a reason from outside. What was written is removed before the next snapshot.
    pub fn fail(mut self, error: Error, now: Nanos) -> SnapshotReport {
        self.report.result = Err(error);
        self.report.end = now;
        self.report
    }

    fn done(&mut self, now: Nanos) -> CheckpointNext {
        if self.report.end == self.start {
            self.report.end = now;
        }
        CheckpointNext::Done(self.report.clone())
    }

    fn begin(
        &mut self,
        disk: &mut dyn Disk,
        manifest: &ManifestFile,
        source: &dyn Source,
    ) -> Result<(State, CheckpointNext), Error> {
        manifest.check_certain()?;
        remove_unfinished(disk)?;
        let Cut { meta, parts } = source.cut();
        self.report.lsn = meta.lsn;
        let newest = manifest.manifest().snapshots.last().map(|newest| newest.lsn);
        assert!(newest <= Some(meta.lsn), "checkpoint: the state at {} is older than a snapshot of it", meta.lsn);
        if newest == Some(meta.lsn) {
            crate::mark!("checkpoint_without_change");
            return Ok((State::Remove, CheckpointNext::Again));
        }
        if planted(Canary::LogRetiredEarly) {
            source.retire_log(meta.lsn);
        }
        if planted(Canary::SnapshotRemovedEarly) {
            remove_unnamed(disk, &Manifest::default())?;
        }
        let time = meta.time_millis;
        let writer = SnapshotWriter::begin(disk, meta, parts)?.with_block_bytes(self.pieces.block_bytes);
        let writer = Box::new(writer);
        Ok((State::Blocks(writer, time), CheckpointNext::Again))
    }

    fn write_blocks(
        &mut self,
        disk: &mut dyn Disk,
        mut writer: Box<SnapshotWriter>,
        time: Millis,
        now: Nanos,
    ) -> Result<(State, CheckpointNext), Error> {
        if !self.urgent && now < self.paid {
            let paid = self.paid;
            return Ok((State::Blocks(writer, time), CheckpointNext::Until(paid)));
        }
        let step = match writer.step(disk, self.pieces.slice_bytes) {
            Ok(step) => step,
            Err(error) => {
                writer.abandon(disk);
                return Err(error);
            }
        };
        self.pay(step.written, now);
        if !step.done {
            let wait = !self.urgent && self.paid > now;
            let next = if wait { CheckpointNext::Until(self.paid) } else { CheckpointNext::Again };
            return Ok((State::Blocks(writer, time), next));
        }
        let written = writer.finish(disk)?;
        (self.report.bytes, self.report.record_count) = (written.file_bytes, written.record_count);
        Ok((State::Sync(written, time), CheckpointNext::Again))
    }

    /// 256 KiB at 64 MiB a second: the next slice is due 256/65536 s = 3.9 ms after this one. Lost time is not made up for.
    fn pay(&mut self, bytes: u64, now: Nanos) {
        self.written_bytes += bytes;
        let nanos = match self.options.bytes_per_second {
            0 => 0,
            rate => {
                let whole = u128::from(bytes) * u128::from(Nanos::SECOND.0) / u128::from(rate);
                whole * u128::from(self.pause_permille) / 1000
            }
        };
        self.paid = self.paid.max(now).after(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
    }

    fn swap_manifest(
        &mut self,
        disk: &mut dyn Disk,
        manifest: &mut ManifestFile,
        source: &dyn Source,
        written: Written,
        time: Millis,
    ) -> Result<(State, CheckpointNext), Error> {
        let lsn_synced = source.lsn_synced();
        if lsn_synced < written.lsn && !planted(Canary::SnapshotOutrunsLog) {
            // A snapshot may not outrun the log: after a power cut the state would hold what the log never held.
            source.request_sync();
            return Ok((State::Sync(written, time), CheckpointNext::WaitForSync(written.lsn)));
        }
        let mut next = manifest.manifest().clone();
        next.snapshots.push(SnapshotReference {
            lsn: written.lsn,
            file_bytes: written.file_bytes,
            digest: written.digest.0,
            time_millis: time,
            record_count: written.record_count,
        });
        let surplus = next.snapshots.len().saturating_sub(self.options.snapshots_kept);
        next.snapshots.drain(..surplus);
        next.lsn_proof = next.lsn_proof.max(lsn_synced);
        next.segment_proof = next.segment_proof.max(source.segment());
        next.time_millis = next.time_millis.max(time);
        let oldest = next.snapshots.first().expect("the new snapshot is kept").lsn;
        manifest.replace(disk, next)?;
        Ok((State::Retire { oldest }, CheckpointNext::Again))
    }
}

/// Gives up all snapshots but the newest, so that the next one has room: first a manifest that no longer names them, durably,
/// then their log and they themselves. False if there is no older one.
pub fn give_up_older(disk: &mut dyn Disk, manifest: &mut ManifestFile, source: &dyn Source) -> Result<bool, Error> {
    let Some((newest, older)) = manifest.manifest().snapshots.split_last() else { return Ok(false) };
    if older.is_empty() {
        return Ok(false);
    }
    crate::mark!("older_snapshots_given_up");
    let newest = *newest;
    manifest.replace(disk, Manifest { snapshots: vec![newest], ..manifest.manifest().clone() })?;
    source.retire_log(newest.lsn);
    remove_unnamed(disk, manifest.manifest())?;
    Ok(true)
}

/// Removes what an interrupted snapshot left.
fn remove_unfinished(disk: &mut dyn Disk) -> Result<(), Error> {
    for listed in disk.list(snapshot::DIRECTORY)? {
        if listed.name.ends_with(snapshot::SUFFIX_UNFINISHED) {
            crate::mark!("snapshot_left_unfinished");
            remove(disk, &listed.name)?;
        }
    }
    Ok(())
}

/// Removes whole snapshots that the manifest, durable by now, does not name.
fn remove_unnamed(disk: &mut dyn Disk, manifest: &Manifest) -> Result<(), Error> {
    for listed in disk.list(snapshot::DIRECTORY)? {
        let Some(lsn) = snapshot::lsn_of_name(&listed.name) else { continue };
        if !manifest.snapshots.iter().any(|kept| kept.lsn == lsn) {
            remove(disk, &listed.name)?;
        }
    }
    Ok(disk.sync_directory(snapshot::DIRECTORY)?)
}

fn remove(disk: &mut dyn Disk, name: &str) -> Result<(), Error> {
    match disk.remove(&format!("{}/{name}", snapshot::DIRECTORY)) {
        Err(error) if error.kind != DiskErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
