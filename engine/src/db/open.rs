//! Brings a store up and lets go of it again.
//! Guarantees: nothing is served before recovery has ended and the store is durably marked as in use; a clean mark is the very last write.
//! Must not know: how recovery decides.
//! Next: recovery/ for what happens first; threads.rs for what runs afterwards.

use super::heal::{self, Opened, ReadOnly};
use super::threads::{ThreadPool, Threads};
use super::{Db, Inner, Running};
use crate::canary::{Canary, planted};
use crate::checkpoint::CheckpointOptions;
use crate::clock::{Clock, OsClock};
use crate::core::{
    ActiveProcedure, Core, CoreParts, EngineTime, LogForm, Procedure, Procedures, ROUTING_HASH_ID, Rebuild,
};
use crate::disk::{Disk, DiskReport, IoMode, LatchedStorage, LockGuard, OsStorage, Storage};
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::format::StoreId;
use crate::limits;
use crate::log::{Log, LogEnd, LogOptions, LogPosition, LogWriter, Purpose, Waiter};
use crate::loss::Loss;
use crate::maintenance::{Desk, Maintenance, Policy};
use crate::manifest::CleanMark;
use crate::options::Options;
use crate::prng::Prng;
use crate::recovery::{LogFiles, Parallel, Recovered, Recovery};
use crate::units::{Millis, Nanos};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_FILE: &str = "LOCK";
/// LSNs left out after an unclean stop: more than can have been given to commands that never reached the disk, since those
/// stood in a queue and a lag of bounded bytes.
const LSN_JUMP: u64 = 16 << 20;
/// Log behind the newest snapshot at which a checkpoint is taken, in segments, where it is chosen.
const CHECKPOINT_SEGMENTS: u64 = 4;

/// How to open a store.
pub struct Builder {
    path: PathBuf,
    options: Options,
    procedures: Procedures,
    io: IoMode,
    storage: Option<Arc<dyn Storage>>,
    clock: Arc<dyn Clock>,
}

impl Builder {
    pub(super) fn new(path: impl AsRef<Path>) -> Builder {
        Builder {
            path: path.as_ref().to_owned(),
            options: Options::default(),
            procedures: Procedures::new(),
            io: IoMode::Auto,
            storage: None,
            clock: Arc::new(OsClock),
        }
    }

    /// Sets the settings.
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// Adds a procedure. Register old versions before new ones while the log may still hold calls of them.
    pub fn register(mut self, procedure: Procedure) -> Builder {
        self.procedures.register(procedure);
        self
    }

    /// Chooses how the disk is driven. Default: io_uring where it is allowed, else plain system calls.
    pub fn io(mut self, io: IoMode) -> Builder {
        self.io = io;
        self
    }

    /// Uses another storage than the directory: tests.
    pub fn storage(mut self, storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Builder {
        self.storage = Some(storage);
        self.clock = clock;
        self
    }

    /// Opens the store, or makes one in an empty directory. Blocks while it recovers. Errors: `Refused::InUse`, `Corrupt` with what
    /// to run, `Refused::ProcedureMissing`, `Failed`.
    pub fn open(self) -> Result<Db, Error> {
        self.options.check()?;
        let pool = Arc::new(ThreadPool { threads: load_threads(&self.options) });
        let procedures = self.procedures.clone();
        let driven = match self.recover(draw_seed(), pool)? {
            Started::Driven(driven) => *driven,
            Started::ReadOnly(db) => return Ok(db),
        };
        let Driven { mut inner, writer, maintenance } = driven;
        let threads = Threads::start(&inner.core, writer, maintenance)?;
        if let Some(running) = inner.running.get_mut() {
            running.threads = Some(threads);
        }
        inner.activate(&procedures)?;
        Ok(Db { inner: Arc::new(inner) })
    }

    /// Recovers the store, up to the point where somebody has to drive it.
    pub(super) fn recover(self, seed: u64, parallel: Arc<dyn Parallel + Send + Sync>) -> Result<Started, Error> {
        let storage: Arc<dyn Storage> = match &self.storage {
            Some(storage) => Arc::clone(storage),
            None => Arc::new(OsStorage::new(&self.path, self.io)?),
        };
        let storage = LatchedStorage::new(storage);
        let mut disk = storage.disk()?;
        let lock = disk.lock(LOCK_FILE)?;
        self.recover_locked(Held { storage, disk, lock }, seed, parallel)
    }

    fn recover_locked(
        mut self,
        mut held: Held,
        seed: u64,
        parallel: Arc<dyn Parallel + Send + Sync>,
    ) -> Result<Started, Error> {
        let time = EngineTime::start(Arc::clone(&self.clock), Millis(0));
        let recovery = Recovery {
            storage: &held.storage,
            options: &self.options,
            routing: ROUTING_HASH_ID,
            log: &LogFiles,
            parallel: parallel.as_ref(),
            clock: self.clock.as_ref(),
            store_id_fresh: store_id(seed),
        };
        let fresh = || {
            let rebuild = Rebuild::new(&self.options, self.procedures.clone(), time.clone());
            rebuild.in_parallel(Arc::clone(&parallel))
        };
        let (rebuild, mut recovered) = match heal::recover_or_heal(&recovery, &fresh)? {
            Opened::Writable(rebuild, recovered) => (rebuild, *recovered),
            Opened::ReadOnly(rebuild, found) => {
                return Ok(Started::ReadOnly(self.open_read_only(held, rebuild, *found)));
            }
        };
        let loss = heal::read_loss(&mut *held.disk, &mut recovered.notes)?;
        self.options.segment_bytes = recovered.segment_bytes;
        if self.options.checkpoint_log_bytes == 0 {
            self.options.checkpoint_log_bytes = CHECKPOINT_SEGMENTS * recovered.segment_bytes;
        }
        let floor = if planted(Canary::TimeFloorIgnored) { Millis(0) } else { recovered.time_floor };
        let time = EngineTime::start(Arc::clone(&self.clock), floor);
        let mut position = position(&recovered);
        heal::lift(&mut position, &loss, LSN_JUMP * recovered.manifest.sequence());

        let log = Log::new(&position, LogOptions::new(&self.options, recovered.segment_bytes));
        let core = self.core(rebuild, Arc::clone(&log), time, seed);
        let writer = LogWriter::new(held.storage.disk()?, log, &position)?;
        Ok(Started::Driven(Box::new(self.assemble(core, writer, held, recovered, loss))))
    }

    fn core(&self, rebuild: Rebuild, log: Arc<Log>, time: EngineTime, seed: u64) -> Arc<Core> {
        let procedures = self.procedures.clone();
        let parts = CoreParts { log, time, procedures, options: self.options.clone(), seed };
        Arc::new(Core::build(rebuild.finish(), parts))
    }

    /// Serves what is left of a damaged store. No thread is started, and nothing is written.
    fn open_read_only(self, held: Held, rebuild: Rebuild, found: ReadOnly) -> Db {
        let Held { storage, disk, lock } = held;
        let manifest = &found.plan.manifest;
        let time = EngineTime::start(Arc::clone(&self.clock), manifest.time_millis);
        let last_lsn = found.plan.last_lsn();
        let fresh = LogPosition::fresh(StoreId(manifest.store_id.to_le_bytes()));
        let position = LogPosition { last_lsn, next_lsn: last_lsn.next(), ..fresh };
        let log = Log::new(&position, LogOptions::new(&self.options, manifest.segment_bytes));
        log.refuse_writes(found.damage.to_string());
        let core = self.core(rebuild, log, time, 0);
        let report = RecoveryReport::of_read_only(found.words(), disk.report().clone());
        let running = Mutex::new(Some(Running { threads: None, lock }));
        let (desk, procedures) = (Arc::new(Desk::default()), BTreeMap::new());
        let loss = Mutex::new(Loss::default());
        let mut inner = Inner { core, desk, procedures, report, storage, loss, running };
        for procedure in self.procedures.all() {
            // One that the store does not know in this version would have to be named in the log.
            if let Ok(active) = inner.core.activate(procedure) {
                inner.procedures.insert(procedure.name().to_owned(), active);
            }
        }
        Db { inner: Arc::new(inner) }
    }

    fn assemble(
        self,
        core: Arc<Core>,
        writer: LogWriter,
        held: Held,
        recovered: Recovered<LogEnd>,
        loss: Loss,
    ) -> Driven {
        let Held { storage, disk, lock } = held;
        let (policy, desk) = (policy(&self.options), Arc::new(Desk::default()));
        let report = RecoveryReport::new(&recovered, &loss, disk.report().clone());
        let now = core.time.monotonic();
        let maintenance = Maintenance::new(disk, Arc::clone(&core), Arc::clone(&desk), recovered.manifest, policy, now);
        let maintenance_waker = maintenance.waker();
        let _ = core.writer_waker.set(writer.waker());
        let _ = core.maintenance_waker.set(maintenance_waker);
        tell_of_first_sync(&core);
        let running = Mutex::new(Some(Running { threads: None, lock }));
        let (procedures, loss) = (BTreeMap::new(), Mutex::new(loss));
        let inner = Inner { core, desk, procedures, report, storage, loss, running };
        Driven { inner, writer, maintenance }
    }

    /// What `stepped.rs` needs to know before it recovers.
    #[cfg(feature = "sim")]
    pub(super) fn parts(&self) -> (&Options, &Procedures) {
        (&self.options, &self.procedures)
    }
}

/// A store's storage, whose lock is held.
struct Held {
    storage: LatchedStorage,
    disk: Box<dyn Disk>,
    lock: Box<dyn LockGuard>,
}

/// What a recovered store is like.
pub(super) enum Started {
    /// Somebody has to drive it.
    Driven(Box<Driven>),
    /// It is damaged and only read; there is nothing to drive.
    ReadOnly(Db),
}

/// A recovered store that nobody drives yet. Its procedures are not active.
pub(super) struct Driven {
    /// Everything but the threads.
    pub inner: Inner,
    /// To be driven.
    pub writer: LogWriter,
    /// To be driven.
    pub maintenance: Maintenance,
}

/// What opening did, for `stats`.
pub(super) struct RecoveryReport {
    /// The disk seam's findings.
    pub disk: DiskReport,
    /// One line.
    pub words: String,
    /// Bytes cut off the log's end.
    pub cut_bytes: u64,
    /// How long it took.
    pub span: Nanos,
    /// Things to be said once.
    pub notes: Vec<String>,
}

impl RecoveryReport {
    fn of_read_only(words: String, disk: DiskReport) -> RecoveryReport {
        RecoveryReport { notes: disk.notes.clone(), disk, words, cut_bytes: 0, span: Nanos(0) }
    }

    fn new(recovered: &Recovered<LogEnd>, loss: &Loss, disk: DiskReport) -> RecoveryReport {
        let elapsed = recovered.elapsed;
        RecoveryReport {
            notes: recovered.notes.iter().chain(&disk.notes).cloned().collect(),
            disk,
            words: format!("{recovered}{}", heal::words(loss)),
            cut_bytes: recovered.cut_bytes,
            span: Nanos(elapsed.load.0 + elapsed.replay.0 + elapsed.finish.0),
        }
    }
}

/// Where the log goes on: never at or below an LSN that a snapshot or a cut has seen.
fn position(recovered: &Recovered<LogEnd>) -> LogPosition {
    let is_behind_snapshot = recovered.log.last_lsn < recovered.last_lsn;
    let mut position = recovered.log.position(
        StoreId(recovered.manifest.manifest().store_id.to_le_bytes()),
        recovered.was_clean && !is_behind_snapshot,
    );
    position.next_lsn = position.next_lsn.max(recovered.next_lsn);
    position.state_lsn = recovered.last_lsn;
    if !recovered.was_clean && !recovered.fresh {
        // Once for each write of the manifest so far: two unclean stops with nothing durable between them find the same end of
        // the log, and only the manifest, written durably at every start, tells them apart.
        // Counted from the state's end, not from cut LSNs: those are not seen again once their segment is recycled.
        let above = recovered.last_lsn.next().plus(LSN_JUMP * recovered.manifest.sequence());
        position.next_lsn = position.next_lsn.max(above);
    }
    if planted(Canary::LsnReused) {
        position.next_lsn = recovered.last_lsn.next();
    }
    position
}

impl Inner {
    /// Makes the registered procedures callable. Before a changed procedure whose calls are logged as such becomes active, a
    /// checkpoint makes sure that no old call is ever replayed by the new code.
    fn activate(&mut self, procedures: &Procedures) -> Result<(), Error> {
        if procedures.all().any(|procedure| self.is_changed_call(procedure)) {
            self.checkpoint()?;
        }
        for procedure in procedures.all() {
            let active = self.activate_when_ready(procedure)?;
            self.procedures.insert(procedure.name().to_owned(), active);
        }
        Ok(())
    }

    fn activate_when_ready(&self, procedure: &Procedure) -> Result<ActiveProcedure, Error> {
        loop {
            match self.core.activate(procedure) {
                Err(Error::Refused(Refused::Busy)) => {
                    self.core.log.wait_room(limits::BLOCK_BYTES, Purpose::Grow, Some(Nanos::SECOND))?
                }
                done => return done,
            }
        }
    }

    pub(super) fn is_changed_call(&self, procedure: &Procedure) -> bool {
        let catalog = self.core.catalog.read();
        let known = catalog.find_procedure(procedure.name()).map(|number| &catalog.procedures[number as usize]);
        known.is_some_and(|known| known.version != procedure.version() && known.form == LogForm::Call.number())
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.check_writable()?;
        match self.desk.take(|| self.core.wake_maintenance()) {
            Some(report) => report.result,
            None => Err(Refused::Closed.into()),
        }
    }

    fn close(&self) -> Result<(), Error> {
        let Some(Running { threads, lock }) = self.running.lock().take() else { return Ok(()) };
        self.core.log.close();
        let Some(threads) = threads else {
            drop(lock);
            return Ok(());
        };
        let (writer, maintenance) = threads.join(&self.core);
        let failure = self.core.log.failure();
        let clean = writer.filter(|_| failure.is_none()).map(|writer| clean_mark(&writer));
        let finished = maintenance.map_or(Ok(()), |maintenance| maintenance.finish(clean));
        drop(lock);
        failure.map_or(finished, |failed| Err(failed.into()))
    }
}

/// Has the maintenance driver look up when the first new command is on stable storage: from then on a lost log must show.
fn tell_of_first_sync(core: &Arc<Core>) {
    // The log belongs to the core: a strong reference here would keep both for ever where nothing is ever synced.
    let maintenance = Arc::downgrade(core);
    let first = core.log.watermarks().assigned.next();
    let wake = move |_| {
        if let Some(core) = maintenance.upgrade() {
            core.wake_maintenance();
        }
    };
    core.log.register(first, DurabilityLevel::Synced, Waiter::Call(Box::new(wake)));
}

pub(super) fn clean_mark(writer: &LogWriter) -> CleanMark {
    let stop = writer.stop();
    CleanMark { last_lsn: stop.last_lsn, segment: stop.segment, end_offset: stop.offset }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to tell; the failure itself was told to every waiter.
        let _ = self.close();
    }
}

impl Db {
    /// Stops taking writes, syncs all that was acknowledged, marks the store clean and lets go of it. Blocks; well below a
    /// second but for a stuck disk. Later writes on any clone get `Refused::Closed`. Errors: the failure that latched the log.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }

    /// Starts a checkpoint (snapshot, manifest, shorter log) in the background. False if one is running already.
    pub fn start_checkpoint(&self) -> Result<bool, Error> {
        self.inner.check_writable()?;
        let is_new = self.inner.desk.ask();
        self.inner.core.wake_maintenance();
        Ok(is_new)
    }

    /// Takes a checkpoint and blocks until it is on disk. Errors: why it failed; the store is as before then.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.inner.checkpoint()
    }

    /// Digest of the whole present state with its LSN: the same for a running store, its directory and a replay of its log.
    /// Walks everything: seconds for gigabytes; blocks nobody.
    pub fn digest(&self) -> (crate::units::Lsn, crate::digest::Digest) {
        let view = self.view();
        (view.lsn, view.digest())
    }
}

fn policy(options: &Options) -> Policy {
    Policy {
        log_bytes: options.checkpoint_log_bytes,
        span: Nanos(Nanos::SECOND.0.saturating_mul(options.checkpoint_seconds)),
        checkpoint: CheckpointOptions {
            snapshots_kept: options.snapshots_kept,
            bytes_per_second: options.checkpoint_bytes_per_second,
        },
        reserve_bytes: options.disk_reserve_bytes,
    }
}

fn load_threads(options: &Options) -> usize {
    match options.load_threads {
        0 => rustix::thread::sched_getaffinity(None).map_or(1, |cpus| cpus.count() as usize),
        threads => threads,
    }
}

/// The one draw from the system's randomness: the store's id and the first seed of procedures come from it.
fn draw_seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_le_bytes(bytes),
        _ => OsClock.monotonic().0 ^ OsClock.wall().0.rotate_left(32),
    }
}

fn store_id(seed: u64) -> u128 {
    let mut prng = Prng::new(seed).stream("store id");
    u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64())
}
