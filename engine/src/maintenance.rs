//! Everything that happens beside the write path: spare segments, checkpoints, expiry.
//! Guarantees: a step is bounded; idle means no write and no timer; a checkpoint that fails leaves the store as it was and is
//! tried again when the log has grown further.
//! Must not know: threads; whoever owns one calls `step`, then `wait`.
//! Next: checkpoint.rs has the order of a checkpoint; log/prepare.rs makes segments.

use crate::checkpoint::{
    Checkpoint, CheckpointNext, CheckpointOptions, Cut, SnapshotKind, SnapshotReport, SnapshotReports, Source,
};
use crate::core::Core;
use crate::disk::{Disk, DiskWaker};
use crate::error::{Error, Failed};
use crate::log::{PrepareNext, Preparer, SegmentSpan};
use crate::manifest::{CleanMark, FILE, Manifest, ManifestFile};
use crate::snapshot::Part;
use crate::units::{Lsn, Millis, Nanos, SegmentId};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Log, beyond this many times what triggers a checkpoint, that makes a running one hurry.
const URGENT_FACTOR: u64 = 2;

/// When checkpoints are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Bytes of segments behind the newest snapshot.
    pub log_bytes: u64,
    /// Time since the last one; zero for no limit.
    pub span: Nanos,
    /// How each one is taken.
    pub checkpoint: CheckpointOptions,
}

/// What callers and the maintenance driver share about checkpoints.
#[derive(Default)]
pub struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    wanted: bool,
    running: bool,
    finished_count: u64,
    stopped: bool,
    newest: Lsn,
    bytes_written: u64,
    reports: SnapshotReports,
}

/// A reading of the desk.
#[derive(Clone, Debug, Default)]
pub struct DeskNow {
    /// Whether a checkpoint is running or wanted.
    pub running: bool,
    /// LSN of the newest snapshot.
    pub newest: Lsn,
    /// Bytes written to snapshots since the store was opened.
    pub bytes_written: u64,
    /// The last checkpoints, oldest first.
    pub reports: Vec<SnapshotReport>,
}

impl Desk {
    /// Asks for a checkpoint. False if one is running or asked for already.
    pub fn ask(&self) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.running && !state.wanted;
        state.wanted = true;
        is_new
    }

    /// Asks for a checkpoint, wakes the driver and waits until one that started after this call has ended.
    /// `None`: the store was closed before.
    pub fn take(&self, wake: impl FnOnce()) -> Option<SnapshotReport> {
        let mut state = self.state.lock();
        state.wanted = true;
        // One that runs already froze its state before this call: the next one counts.
        let target = state.finished_count + 1 + u64::from(state.running);
        wake();
        while state.finished_count < target && !state.stopped {
            self.changed.wait(&mut state);
        }
        (state.finished_count >= target).then(|| state.reports.iter().last().cloned()).flatten()
    }

    /// Reads it.
    pub fn now(&self) -> DeskNow {
        let state = self.state.lock();
        DeskNow {
            running: state.running || state.wanted,
            newest: state.newest,
            bytes_written: state.bytes_written,
            reports: state.reports.iter().cloned().collect(),
        }
    }

    fn take_wish(&self) -> bool {
        std::mem::take(&mut self.state.lock().wanted)
    }

    fn started(&self) {
        self.state.lock().running = true;
    }

    fn finished(&self, report: SnapshotReport, newest: Lsn) {
        let mut state = self.state.lock();
        state.running = false;
        state.finished_count += 1;
        state.newest = newest;
        state.bytes_written += report.bytes;
        state.reports.push(report);
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
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
    checkpoint: Option<Checkpoint>,
    last_start: Nanos,
    /// Log bytes behind the newest snapshot at which the next checkpoint is due: raised after a failure.
    due_bytes: u64,
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
        let preparer = Preparer::new(Arc::clone(&core.log));
        let bell = Bell::new(disk.waker());
        core.log.set_preparer(bell.waker());
        desk.state.lock().newest = newest_lsn(manifest.manifest());
        Maintenance {
            disk,
            bell,
            core,
            desk,
            preparer,
            manifest,
            policy,
            checkpoint: None,
            last_start: now,
            due_bytes: policy.log_bytes,
        }
    }

    /// Ends a `wait` from another thread.
    pub fn waker(&self) -> DiskWaker {
        self.bell.waker()
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
        prepared.sooner(expired).sooner(self.step_checkpoint(now))
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
            let before = self.desk.state.lock().finished_count;
            let next = self.step(clock());
            let state = self.desk.state.lock();
            if state.finished_count > before && !state.wanted {
                return state.reports.iter().last().map_or(Ok(()), |report| report.result.clone());
            }
            drop(state);
            self.wait(next, clock());
        }
    }

    /// Marks the store as cleanly left, once the log is closed and synced. The very last write. `None` after a failure.
    pub fn finish(mut self, clean: Option<CleanMark>) -> Result<(), Error> {
        self.desk.stop();
        let Some(clean) = clean else { return Ok(()) };
        let time = self.core.time.now();
        // LSNs that were left out after an unclean stop and are not in the log yet would be given out again after a clean one.
        let is_dense = self.core.log.next_lsn() == self.core.log.watermarks().assigned.next();
        self.manifest.mark_stop(self.disk.as_mut(), clean, is_dense, time)
    }

    /// Notes in the manifest that there is a new segment, once it is durable, so that its loss cannot pass for a log that ended before.
    fn prove_segment(&mut self) {
        let proven = self.manifest.manifest().segment_proof;
        let span = self.core.log.spans().last().copied();
        let synced = self.core.log.watermarks().synced;
        let is_news = |span: &SegmentSpan| span.segment > proven && span.first_lsn <= synced;
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

    fn step_checkpoint(&mut self, now: Nanos) -> MaintenanceNext {
        if let Some(failed) = self.core.log.failure() {
            return self.refuse_checkpoint(failed, now);
        }
        if self.checkpoint.is_none() {
            match self.due(now) {
                Ok(kind) => self.start(kind, now),
                Err(next) => return next,
            }
        }
        let log_bytes = self.log_bytes();
        let checkpoint = self.checkpoint.as_mut().expect("started above");
        checkpoint.set_urgent(log_bytes > URGENT_FACTOR * self.policy.log_bytes || self.core.log.space().is_some());
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
        let changed = self.core.log.watermarks().assigned > newest_lsn(self.manifest.manifest());
        if self.policy.span == Nanos(0) || !changed {
            return Err(MaintenanceNext::Idle);
        }
        let at = self.last_start.after(self.policy.span);
        if now >= at { Ok(SnapshotKind::Time) } else { Err(MaintenanceNext::Until(at)) }
    }

    fn start(&mut self, kind: SnapshotKind, now: Nanos) {
        self.desk.started();
        self.last_start = now;
        self.checkpoint = Some(Checkpoint::new(self.policy.checkpoint, kind, now));
    }

    fn end(&mut self, report: SnapshotReport) {
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

struct CoreSource<'a>(&'a Core);

impl Source for CoreSource<'_> {
    fn cut(&self) -> Cut {
        let view = self.0.view();
        let meta = view.meta(self.0.log.store());
        let parts = view.shards.into_iter().enumerate().flat_map(|(shard, trees)| {
            trees.into_iter().enumerate().map(move |(keyspace, view)| (shard, keyspace, view))
        });
        let catalog = view.catalog;
        let parts = parts.filter(|(_, keyspace, view)| catalog.is_logged(*keyspace) && !view.is_empty());
        let parts = parts.map(|(shard, keyspace, view)| Part { shard: shard as u16, keyspace: keyspace as u16, view });
        Cut { meta, parts: parts.collect() }
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
