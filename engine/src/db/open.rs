//! Brings a store up and lets go of it again.
//! Guarantees: nothing is served before recovery has ended and the store is durably marked as in use; a clean mark is the very last write.
//! Must not know: how recovery decides.
//! Next: recovery/ for what happens first; threads.rs for what runs afterwards.

use super::threads::{ThreadPool, Threads};
use super::{Db, Inner};
use crate::checkpoint::CheckpointOptions;
use crate::clock::{Clock, OsClock};
use crate::core::{ActiveProcedure, Core, CoreParts, EngineTime, LogForm, Procedure, Procedures, Rebuild};
use crate::disk::{Disk, DiskReport, IoMode, LatchedStorage, LockGuard, OsStorage, Space, Storage};
use crate::error::{Error, Refused};
use crate::limits;
use crate::log::{Log, LogOptions, LogWriter};
use crate::maintenance::{Desk, Maintenance, Policy};
use crate::manifest::CleanMark;
use crate::options::Options;
use crate::recovery::{Recovered, recover};
use crate::units::{Millis, Nanos};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK_FILE: &str = "LOCK";
/// Share of the free space that one segment may take when the size is chosen: one in so many.
const SEGMENT_FREE_SHARE: u64 = 32;
/// Segment size where there is room.
const SEGMENT_BYTES: u64 = 64 << 20;
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
        let storage: Arc<dyn Storage> = match &self.storage {
            Some(storage) => Arc::clone(storage),
            None => Arc::new(OsStorage::new(&self.path, self.io)?),
        };
        let storage = LatchedStorage::new(storage);
        let mut disk = storage.disk()?;
        let lock = disk.lock(LOCK_FILE)?;
        self.open_locked(&storage, disk, lock)
    }

    fn open_locked(mut self, storage: &LatchedStorage, mut disk: Box<dyn Disk>, lock: Box<dyn LockGuard>) -> Result<Db, Error> {
        choose_sizes(&mut self.options, disk.space()?);
        let begun = self.clock.monotonic();
        let seed = draw_seed();
        let time = EngineTime::start(Arc::clone(&self.clock), Millis(0));
        let mut rebuild = Rebuild::new(&self.options, self.procedures.clone(), time);
        let pool = ThreadPool { threads: load_threads(&self.options) };
        let recovered = recover(storage, disk.as_mut(), &self.options, &mut rebuild, &pool, self.clock.as_ref(), seed)?;
        let time = EngineTime::start(Arc::clone(&self.clock), recovered.time_floor);
        let recovery_ns = self.clock.monotonic().since(begun);

        let log = Log::new(&recovered.position, LogOptions::new(&self.options, recovered.segment_bytes));
        let parts = CoreParts {
            log: Arc::clone(&log),
            time,
            procedures: self.procedures.clone(),
            options: self.options.clone(),
            seed,
        };
        let core = Arc::new(Core::build(rebuild.finish(), parts));
        let writer = LogWriter::new(storage.disk()?, log, &recovered.position)?;
        let desk = Arc::new(Desk::default());
        let report = disk.report().clone();
        self.start(core, writer, desk, disk, recovered, OpenReport { disk: report, recovery_ns }, lock)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a store, put together once")]
    fn start(
        self,
        core: Arc<Core>,
        writer: LogWriter,
        desk: Arc<Desk>,
        disk: Box<dyn Disk>,
        recovered: Recovered,
        open: OpenReport,
        lock: Box<dyn LockGuard>,
    ) -> Result<Db, Error> {
        let policy = policy(&self.options);
        let report = RecoveryReport::new(&recovered, open);
        let now = core.time.monotonic();
        let maintenance = Maintenance::new(disk, Arc::clone(&core), Arc::clone(&desk), recovered.manifest, policy, now);
        let maintenance_waker = maintenance.waker();
        let _ = core.writer_waker.set(writer.waker());
        let _ = core.maintenance_waker.set(maintenance_waker);
        let threads = Threads::start(&core, writer, maintenance)?;
        let mut inner = Inner { core, desk, procedures: BTreeMap::new(), report, running: Mutex::new(Some((threads, lock))) };
        inner.activate(&self.procedures)?;
        Ok(Db { inner: Arc::new(inner) })
    }
}

/// What was found when the store was opened.
pub(super) struct OpenReport {
    disk: DiskReport,
    recovery_ns: Nanos,
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
    fn new(recovered: &Recovered, open: OpenReport) -> RecoveryReport {
        RecoveryReport {
            disk: open.disk,
            words: recovered.to_string(),
            cut_bytes: recovered.cut_bytes,
            span: open.recovery_ns,
            notes: recovered.notes.clone(),
        }
    }
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
                Err(Error::Refused(Refused::Busy)) => self.core.log.wait_room(limits::BLOCK_BYTES, Some(Nanos::SECOND))?,
                done => return done,
            }
        }
    }

    fn is_changed_call(&self, procedure: &Procedure) -> bool {
        let catalog = self.core.catalog.read();
        let known = catalog.find_procedure(procedure.name()).map(|number| &catalog.procedures[number as usize]);
        known.is_some_and(|known| known.version != procedure.version() && known.form == LogForm::Call.number())
    }

    fn checkpoint(&self) -> Result<(), Error> {
        match self.desk.take(|| self.core.wake_maintenance()) {
            Some(report) => report.result,
            None => Err(Refused::Closed.into()),
        }
    }

    fn close(&self) -> Result<(), Error> {
        let Some((threads, lock)) = self.running.lock().take() else { return Ok(()) };
        self.core.log.close();
        let (writer, maintenance) = threads.join(&self.core);
        let failure = self.core.log.failure();
        let clean = writer.filter(|_| failure.is_none()).map(|writer| clean_mark(&writer));
        let finished = maintenance.map_or(Ok(()), |maintenance| maintenance.finish(clean));
        drop(lock);
        failure.map_or(finished, |failed| Err(failed.into()))
    }
}

fn clean_mark(writer: &LogWriter) -> CleanMark {
    let end = writer.end();
    CleanMark { last_lsn: end.last_lsn, segment: end.segment, end: end.end }
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
    }
}

/// Fills in the sizes that were left to choice: a share of what is free, so that a small disk gets small segments.
fn choose_sizes(options: &mut Options, space: Space) {
    if options.segment_bytes == 0 {
        let share = (space.free / SEGMENT_FREE_SHARE).max(1);
        let power = 1u64 << share.ilog2();
        options.segment_bytes = power.clamp(limits::SEGMENT_BYTES_MIN, SEGMENT_BYTES);
    }
    if options.checkpoint_log_bytes == 0 {
        options.checkpoint_log_bytes = CHECKPOINT_SEGMENTS * options.segment_bytes;
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
