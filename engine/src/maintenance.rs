//! Everything that happens beside the write path: spare segments, checkpoints, expiry.
//! Guarantees: a step is bounded; idle means no write and no timer; a checkpoint that fails leaves the store as it was and is
//! tried again when the log has grown further.
//! Must not know: threads; whoever owns one calls `step`, then `wait`.
//! Next: checkpoint.rs has the order of a checkpoint; log/prepare.rs makes segments.

mod desk;
mod space;

use crate::canary::{Canary, planted};
use crate::checkpoint::{
    Checkpoint, CheckpointNext, CheckpointOptions, Cut, Pieces, SnapshotKind, SnapshotReport, Source, give_up_older,
};
use crate::core::Core;
use crate::disk::{Disk, DiskWaker};
use crate::error::{Error, Failed, Full};
use crate::index::Rubble;
use crate::log::{PrepareNext, Preparer, SegmentSpan};
use crate::manifest::{CleanMark, FILE, Manifest, ManifestFile};
use crate::units::{Lsn, Millis, Nanos, SegmentId};
pub use desk::{Desk, DeskNow};
use space::{Gain, Measured, Room};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Log, beyond this many times what triggers a checkpoint, that makes a running one hurry.
const URGENT_FACTOR: u64 = 2;
/// Old records kept for a snapshot may take one in so many bytes of all records, and never less than the bytes below, before
/// the snapshot is no longer paced.
const KEPT_SHARE: u64 = 10;
const KEPT_BYTES_MIN: u64 = 4 << 20;
/// Nodes freed in one step.
const FREE_NODES: usize = 256;

/// When checkpoints are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Bytes of segments behind the newest snapshot.
    pub log_bytes: u64,
    /// Time since the last one; zero for no limit.
    pub span: Nanos,
    /// How each one is taken.
    pub checkpoint: CheckpointOptions,
    /// Free bytes that growth leaves alone; `None`: chosen by the size of segments and snapshots.
    pub reserve_bytes: Option<u64>,
}

/// When the driver has to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceNext {
    /// At once.
    Again,
    /// At this monotonic time, or when woken.
    Until(Nanos),
    /// When woken.
    Idle,
}

impl MaintenanceNext {
    fn sooner(self, other: MaintenanceNext) -> MaintenanceNext {
        use MaintenanceNext::{Again, Idle, Until};
        match (self, other) {
            (Again, _) | (_, Again) => Again,
            (Until(one), Until(two)) => Until(one.min(two)),
            (Until(at), Idle) | (Idle, Until(at)) => Until(at),
            (Idle, Idle) => Idle,
        }
    }
}

/// Remembers that somebody rang while the driver was busy. The disk's own waker would be used up by the first blocking operation of
/// a step, and the driver would then sleep over work that it was told of.
struct Bell {
    rung: Arc<AtomicBool>,
    disk: DiskWaker,
}

impl Bell {
    fn new(disk: DiskWaker) -> Bell {
        Bell { rung: Arc::new(AtomicBool::new(false)), disk }
    }

    fn waker(&self) -> DiskWaker {
        let (rung, disk) = (Arc::clone(&self.rung), self.disk.clone());
        DiskWaker(Arc::new(move || {
            rung.store(true, Ordering::SeqCst);
            disk.wake();
        }))
    }

    fn take(&self) -> bool {
        self.rung.swap(false, Ordering::SeqCst)
    }
}

/// The maintenance driver of one store.
pub struct Maintenance {
    disk: Box<dyn Disk>,
    bell: Bell,
    core: Arc<Core>,
    desk: Arc<Desk>,
    preparer: Preparer,
    manifest: ManifestFile,
    policy: Policy,
    pieces: Pieces,
    checkpoint: Option<Checkpoint>,
    /// Trees that are being freed.
    rubble: Rubble,
    last_start: Nanos,
    /// Log bytes behind the newest snapshot at which the next checkpoint is due: raised after a failure.
    due_bytes: u64,
    room: Room,
    /// When it was last measured.
    measured: Nanos,
    /// What was free then.
    free_bytes: u64,
    /// No checkpoint for room before this time.
    space_start: Nanos,
    /// Size of the index when the last checkpoint began; at first without a bound, since nobody measured.
    index_bytes: u64,
    /// Its size at the last measurement.
    index_bytes_now: u64,
    /// The log wants a segment that the disk has no room for.
    is_starved: bool,
    /// The last checkpoint failed.
    has_failed: bool,
}

impl Maintenance {
    /// A driver over its own user of the storage.
    pub fn new(
        disk: Box<dyn Disk>,
        core: Arc<Core>,
        desk: Arc<Desk>,
        manifest: ManifestFile,
        policy: Policy,
        now: Nanos,
    ) -> Maintenance {
        let mut preparer = Preparer::new(Arc::clone(&core.log));
        preparer.defer_full();
        let bell = Bell::new(disk.waker());
        core.log.set_preparer(bell.waker());
        desk.begin(newest_lsn(manifest.manifest()));
        Maintenance {
            disk,
            bell,
            core,
            desk,
            preparer,
            manifest,
            policy,
            pieces: Pieces::default(),
            checkpoint: None,
            rubble: Rubble::new(),
            last_start: now,
            due_bytes: policy.log_bytes,
            room: Room::Roomy,
            measured: Nanos(0),
            free_bytes: u64::MAX,
            space_start: now,
            index_bytes: u64::MAX,
            index_bytes_now: 0,
            is_starved: false,
            has_failed: false,
        }
    }

    /// Ends a `wait` from another thread.
    pub fn waker(&self) -> DiskWaker {
        self.bell.waker()
    }

    /// Sets the pieces in which snapshots are written.
    #[cfg(feature = "sim")]
    pub fn set_pieces(&mut self, pieces: Pieces) {
        self.pieces = pieces;
    }

    /// Does one bounded piece of each kind of work.
    pub fn step(&mut self, now: Nanos) -> MaintenanceNext {
        let prepared = match self.preparer.step(self.disk.as_mut(), now) {
            PrepareNext::Again => MaintenanceNext::Again,
            PrepareNext::Until(at) => MaintenanceNext::Until(at),
            PrepareNext::Idle => MaintenanceNext::Idle,
        };
        self.prove_segment();
        let expired = self.expire(now);
        let is_preparing = prepared == MaintenanceNext::Again;
        let measured = if self.needs_measure(now) { self.measure(now) } else { MaintenanceNext::Idle };
        let beside = prepared.sooner(expired).sooner(measured);
        beside.sooner(self.step_checkpoint(now, is_preparing)).sooner(self.free())
    }

    /// A snapshot takes thousands of steps, and a measurement looks into every shard: while there is plenty of room, rarely.
    fn needs_measure(&mut self, now: Nanos) -> bool {
        self.room != Room::Roomy || self.preparer.is_starved() || now >= self.measured.after(space::MEASURE_PAUSE)
    }

    /// Looks how much room there is, and says when to look again.
    fn measure(&mut self, now: Nanos) -> MaintenanceNext {
        self.measured = now;
        self.is_starved = self.preparer.is_starved();
        let Ok(space) = self.disk.space() else {
            // Where nobody can tell the room there is no reserve, but who waits for a segment has to be told all the same.
            self.tell_full();
            return MaintenanceNext::Idle;
        };
        self.index_bytes_now = self.core.shards.size().1;
        // A snapshot that is being written takes the part of the reserve that is meant for it; the log beside it takes its own.
        let taken = self.checkpoint.as_ref().map_or(0, Checkpoint::written_bytes);
        let measured = Measured {
            total: space.total,
            free: space.free.saturating_add(taken),
            is_log_full: self.is_starved,
            // The index is larger than a snapshot of it.
            snapshot_bytes: self.index_bytes_now,
            segment_bytes: self.core.options.segment_bytes,
        };
        let reserve = space::reserve_bytes(self.policy.reserve_bytes, &measured);
        self.room = space::room(self.room, reserve, &measured);
        self.free_bytes = space.free;
        self.core.log.reserve().set(space.free, reserve, self.room == Room::Low);
        // The log of deletes must leave room for the snapshot that shortens it.
        self.preparer.set_floor(if self.room == Room::Low { self.index_bytes_now.min(reserve) } else { 0 });
        self.tell_full();
        // Only a low disk is worth a timer; otherwise whoever writes wakes the driver in time.
        if self.room == Room::Low {
            MaintenanceNext::Until(now.after(space::LOOK_AGAIN))
        } else {
            MaintenanceNext::Idle
        }
    }

    /// Who waits for a segment waits on while room is being made, and is refused where nothing can be done.
    fn tell_full(&self) {
        let full = (self.is_starved && self.checkpoint.is_none() && !self.can_relieve()).then_some(Full::Disk);
        let known = self.core.log.space();
        if known != full && !matches!(known, Some(Full::Log { .. })) {
            self.core.log.set_space(full);
        }
    }

    /// Whether a checkpoint right now would get a log that has no segment left going again.
    fn can_relieve(&self) -> bool {
        self.is_starved && !self.has_failed && self.core.log.failure().is_none() && self.is_changed()
    }

    fn is_changed(&self) -> bool {
        self.core.log.watermarks().assigned > newest_lsn(self.manifest.manifest())
    }

    /// What a checkpoint could free.
    fn gain(&self) -> Gain {
        let manifest = self.manifest.manifest();
        let spans = self.core.log.spans();
        let sealed = spans.split_last().map_or(&[][..], |(_, sealed)| sealed);
        Gain {
            log_bytes: sealed.iter().map(|span| span.bytes).sum(),
            older_snapshots: manifest.snapshots.len().saturating_sub(1),
            snapshot_bytes: manifest.snapshots.last().map_or(0, |newest| newest.file_bytes),
            index_bytes_then: self.index_bytes,
            index_bytes_now: if self.is_changed() { self.index_bytes_now } else { self.index_bytes },
        }
    }

    /// Where there is little room, older snapshots make place for the next one.
    fn make_room(&mut self) -> Result<(), Error> {
        if self.room == Room::Low
            || self.free_bytes < self.index_bytes_now.saturating_add(self.core.options.segment_bytes)
        {
            give_up_older(self.disk.as_mut(), &mut self.manifest, &CoreSource(&self.core))?;
        }
        Ok(())
    }

    /// Blocks until there is something to do.
    pub fn wait(&mut self, next: MaintenanceNext, now: Nanos) {
        if self.bell.take() {
            return;
        }
        match next {
            MaintenanceNext::Again => {}
            MaintenanceNext::Until(at) => self.disk.wait(Some(at.since(now))),
            MaintenanceNext::Idle => self.disk.wait(None),
        }
    }

    /// Takes a checkpoint to its end, in the caller's time. The log writer must be driven by somebody else meanwhile.
    pub fn checkpoint_now(&mut self, clock: &dyn Fn() -> Nanos) -> Result<(), Error> {
        self.desk.ask();
        loop {
            let before = self.desk.finished_count();
            let next = self.step(clock());
            if let Some(result) = self.desk.result_since(before) {
                return result;
            }
            self.wait(next, clock());
        }
    }

    /// Marks the store as cleanly left, once the log is closed and synced. The very last write. `None` after a failure.
    pub fn finish(mut self, clean: Option<CleanMark>) -> Result<(), Error> {
        self.desk.stop();
        let Some(clean) = clean else { return Ok(()) };
        let time = self.core.time.now();
        // LSNs that were left out after an unclean stop and are not in the log yet would be given out again after a clean one.
        let is_dense =
            self.core.log.next_lsn() == self.core.log.watermarks().assigned.next() || planted(Canary::GapForgotten);
        self.manifest.mark_stop(self.disk.as_mut(), clean, is_dense, time)
    }

    /// Notes in the manifest which segment there is, once something of it is durable, so that its loss cannot pass for a log that
    /// ended before it, or never was. Two blocks for each segment.
    fn prove_segment(&mut self) {
        let proven = self.manifest.manifest().segment_proof;
        let span = self.core.log.spans().last().copied();
        let synced = self.core.log.watermarks().synced;
        let is_news = |span: &SegmentSpan| {
            span.segment > proven && (span.first_lsn <= synced || planted(Canary::SegmentProvenEarly))
        };
        if let Some(span) = span.filter(is_news)
            && let Err(error) = self.manifest.prove_segment(self.disk.as_mut(), span.segment)
        {
            self.core.log.latch(failed(&error));
        }
    }

    fn expire(&mut self, now: Nanos) -> MaintenanceNext {
        let due_millis = self.core.expire_due();
        if due_millis == u64::MAX {
            return MaintenanceNext::Idle;
        }
        let ahead = due_millis.saturating_sub(self.core.time.now().0);
        if ahead == 0 { MaintenanceNext::Again } else { MaintenanceNext::Until(now.after(Nanos::from_millis(ahead))) }
    }

    /// Frees a piece of what nobody needs any more.
    fn free(&mut self) -> MaintenanceNext {
        self.core.take_discarded().into_iter().for_each(|tree| self.rubble.add(tree));
        if self.rubble.clear_some(FREE_NODES) { MaintenanceNext::Idle } else { MaintenanceNext::Again }
    }

    fn step_checkpoint(&mut self, now: Nanos, is_preparing: bool) -> MaintenanceNext {
        if let Some(failed) = self.core.log.failure() {
            return self.refuse_checkpoint(failed, now);
        }
        if self.checkpoint.is_none() {
            match self.due(now) {
                Ok(kind) => self.start(kind, now),
                Err(next) => return next,
            }
        }
        let (log_bytes, room) = (self.log_bytes(), self.room);
        let checkpoint = self.checkpoint.as_mut().expect("started above");
        checkpoint.set_urgent(log_bytes > URGENT_FACTOR * self.policy.log_bytes || room != Room::Roomy);
        let (kept, all) = self.core.past_bytes();
        checkpoint.set_kept(kept, (all / KEPT_SHARE).max(KEPT_BYTES_MIN), is_preparing);
        let source = CoreSource(&self.core);
        match checkpoint.step(self.disk.as_mut(), &mut self.manifest, &source, now) {
            CheckpointNext::Again => MaintenanceNext::Again,
            CheckpointNext::Until(at) => MaintenanceNext::Until(at),
            CheckpointNext::WaitForSync(_) => MaintenanceNext::Until(now.after(Nanos::MILLI)),
            CheckpointNext::Done(report) => {
                self.end(report);
                MaintenanceNext::Again
            }
        }
    }

    /// After a failure no snapshot is taken any more, and nobody may wait for one: ends what runs, then what was asked for.
    fn refuse_checkpoint(&mut self, failed: Failed, now: Nanos) -> MaintenanceNext {
        let wished = self.checkpoint.is_none() && self.desk.take_wish();
        let asked = wished.then(|| Checkpoint::new(self.policy.checkpoint, SnapshotKind::Manual, now));
        let Some(checkpoint) = self.checkpoint.take().or(asked) else { return MaintenanceNext::Idle };
        crate::mark!("checkpoint_refused");
        self.end(checkpoint.fail(failed.into(), now));
        MaintenanceNext::Again
    }

    /// Why a checkpoint is due, or when to look again.
    fn due(&self, now: Nanos) -> Result<SnapshotKind, MaintenanceNext> {
        if self.desk.take_wish() {
            return Ok(SnapshotKind::Manual);
        }
        if self.log_bytes() >= self.due_bytes {
            return Ok(SnapshotKind::LogBytes);
        }
        let changed = self.is_changed();
        if self.can_relieve() {
            return Ok(SnapshotKind::Space);
        }
        if self.room != Room::Roomy && self.gain().is_worth_it(self.room) {
            let is_time = now >= self.space_start;
            return if is_time { Ok(SnapshotKind::Space) } else { Err(MaintenanceNext::Until(self.space_start)) };
        }
        if self.policy.span == Nanos(0) || !changed {
            return Err(MaintenanceNext::Idle);
        }
        let at = self.last_start.after(self.policy.span);
        if now >= at { Ok(SnapshotKind::Time) } else { Err(MaintenanceNext::Until(at)) }
    }

    fn start(&mut self, kind: SnapshotKind, now: Nanos) {
        self.desk.started();
        self.last_start = now;
        let mut options = self.policy.checkpoint;
        if self.room != Room::Roomy {
            self.index_bytes = self.index_bytes_now;
            options.snapshots_kept = 1;
            if let Err(error) = self.make_room() {
                self.core.log.latch(failed(&error));
            }
        }
        self.checkpoint = Some(Checkpoint::new(options, kind, now).in_pieces(self.pieces));
    }

    fn end(&mut self, report: SnapshotReport) {
        self.space_start = space::next_start(report.start, report.end);
        self.has_failed = report.result.is_err();
        self.preparer.retry_now();
        self.checkpoint = None;
        self.due_bytes = match &report.result {
            Ok(()) => self.policy.log_bytes,
            Err(_) => self.log_bytes() + self.policy.log_bytes / 2,
        };
        self.desk.finished(report, newest_lsn(self.manifest.manifest()));
    }

    /// Bytes of segments that hold commands behind the newest snapshot, the active one whole.
    fn log_bytes(&self) -> u64 {
        let newest = newest_lsn(self.manifest.manifest());
        self.core.log.spans().iter().filter(|span| span.last_lsn > newest).map(|span| span.bytes).sum()
    }
}

fn failed(error: &Error) -> Failed {
    Failed { operation: "write", file: FILE.to_owned(), reason: error.to_string() }
}

fn newest_lsn(manifest: &Manifest) -> Lsn {
    manifest.snapshots.last().map_or(Lsn::NONE, |snapshot| snapshot.lsn)
}

struct CoreSource<'a>(&'a Arc<Core>);

impl Source for CoreSource<'_> {
    fn cut(&self) -> Cut {
        self.0.cut()
    }

    fn segment(&self) -> SegmentId {
        // Not one whose header is still on its way: a power cut may take it, and the manifest would miss it for ever.
        let synced = self.0.log.watermarks().synced;
        let spans = self.0.log.spans();
        let durable = spans.iter().rev().find(|span| span.first_lsn <= synced);
        durable.map_or(SegmentId(0), |span| span.segment)
    }

    fn lsn_synced(&self) -> Lsn {
        self.0.log.watermarks().synced
    }

    fn request_sync(&self) {
        self.0.log.request_sync();
    }

    fn retire_log(&self, last: Lsn) {
        self.0.log.retire(last);
    }
}

/// The wall time of a monotonic moment, for reports: people want dates.
pub fn wall_of(moment: Nanos, now: Nanos, wall: Millis) -> Millis {
    Millis(wall.0.saturating_sub(now.since(moment).0 / 1_000_000))
}
