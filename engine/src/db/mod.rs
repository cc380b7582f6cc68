//! The thin concurrent shell: a store that any number of threads may use.
//! Guarantees: `Send + Sync + Clone`; reads never wait for the disk; a write call returns when it is applied and queued,
//! and its ticket says when it is durable.
//! Must not know: formats, sockets.
//! Next: open.rs brings a store up; durable.rs waits for tickets; core/transaction.rs is the write path.

mod batch;
mod durable;
mod heal;
mod open;
mod stats;
#[cfg(feature = "sim")]
mod stepped;
mod threads;

pub use batch::Batch;
pub use durable::{Durable, Subscription};
pub use open::Builder;
pub use stats::{IndexStats, LogStats, RecoveryStats, SnapshotRow, SnapshotStats, Stats};
#[cfg(feature = "sim")]
pub use stepped::{OpenedStepped, Stepped};

use crate::core::{
    ActiveProcedure, Core, Direction, EngineTime, Keyspace, KeyspaceOptions, Record, ScanPosition, Scope, StateView,
    Ticket, Transaction, Watch,
};
use crate::disk::{LatchedStorage, LockGuard};
use crate::durability::DurabilityLevel;
use crate::error::{Error, Failed, Refused};
use crate::index::Entry;
use crate::log::SpaceNow;
use crate::loss::Loss;
use crate::maintenance::Desk;
use crate::options::Options;
use crate::units::{Lsn, Millis};
use open::RecoveryReport;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threads::Threads;

/// An open store. Clones are the same store; it is closed by `close`, or when the last clone is dropped.
///
/// ```
/// use logd_engine::{Db, Options};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path();
/// let db = Db::open(path, Options::default())?;
/// let sensors = db.keyspace("sensors", Default::default())?;
/// let ticket = db.put(sensors, b"boiler/temperature", b"71.5", None, None)?;
/// db.wait(ticket, None)?; // on stable storage from here on
/// assert_eq!(db.get(sensors, b"boiler/temperature").as_deref(), Some(&b"71.5"[..]));
/// db.close()?;
/// # Ok::<(), logd_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    desk: Arc<Desk>,
    procedures: BTreeMap<String, ActiveProcedure>,
    report: RecoveryReport,
    storage: LatchedStorage,
    loss: Mutex<Loss>,
    running: Mutex<Option<Running>>,
}

/// What a store has until it is closed. A read-only one has no threads.
struct Running {
    threads: Option<Threads>,
    lock: Box<dyn LockGuard>,
}

impl Db {
    /// Opens the store in a directory, or makes one there. Blocks while it recovers.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db, Error> {
        Builder::new(path).options(options).open()
    }

    /// Opens a store with procedures and other particulars.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path)
    }

    /// The keyspace with a name; made if it is not there. The options of one that is there stay as they are.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace, Error> {
        self.until_not_busy(|| self.try_keyspace(name, options))
    }

    /// As `keyspace`, but answers `Refused::Busy` instead of waiting.
    pub fn try_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace, Error> {
        self.inner.core.keyspace(name, options)
    }

    /// The keyspace with a name; an error if it is not there.
    pub fn find_keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        self.inner.core.find_keyspace(name)
    }

    /// Names of all keyspaces, by number.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.inner.core.catalog.read().keyspaces.iter().map(|definition| definition.name.clone()).collect()
    }

    /// A copy of a value. `None` if there is no such record or it is due.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<Vec<u8>> {
        self.get_with(keyspace, key, |record| record.map(|record| record.value.to_vec()))
    }

    /// Lets `look` see one record without copying it. Its shard is locked meanwhile: be short, and do not call the store.
    pub fn get_with<R>(&self, keyspace: Keyspace, key: &[u8], look: impl FnOnce(Option<Record<'_>>) -> R) -> R {
        self.inner.core.get_with(keyspace, key, look)
    }

    /// Sets a record. `level`: `None` for the keyspace's. Waits only while the log is busy, never for durability.
    pub fn put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Option<Millis>,
        level: Option<DurabilityLevel>,
    ) -> Result<Ticket, Error> {
        self.until_not_busy(|| self.try_put(keyspace, key, value, expiry, level))
    }

    /// As `put`, but answers `Refused::Busy` instead of waiting.
    pub fn try_put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Option<Millis>,
        level: Option<DurabilityLevel>,
    ) -> Result<Ticket, Error> {
        self.inner.core.put(keyspace, key, value, expiry, level)
    }

    /// Removes a record. True if there was one.
    pub fn delete(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        level: Option<DurabilityLevel>,
    ) -> Result<(bool, Ticket), Error> {
        self.transact(Scope::Key(keyspace, key), level, |transaction| Ok(transaction.delete(keyspace, key)))
    }

    /// Runs a serializable read-write transaction: all of it happens, or nothing. `body` may run more than once (when the
    /// log was busy) and must not call the store. Errors: what `body` returns; `Full`; `Failed`.
    pub fn transact<R>(
        &self,
        scope: Scope<'_>,
        level: Option<DurabilityLevel>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<(R, Ticket), Error> {
        self.until_not_busy(|| self.try_transact(scope, level, &mut body))
    }

    /// As `transact`, but answers `Refused::Busy` instead of waiting.
    pub fn try_transact<R>(
        &self,
        scope: Scope<'_>,
        level: Option<DurabilityLevel>,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<(R, Ticket), Error> {
        self.inner.core.write(scope, level, body)
    }

    /// Runs a read over one consistent state of the shards in scope.
    pub fn read<R>(&self, scope: Scope<'_>, body: impl FnOnce(&Transaction<'_>) -> R) -> R {
        self.inner.core.read(scope, body)
    }

    /// Runs a batch of puts and deletes as one command.
    pub fn apply(&self, batch: &Batch, level: Option<DurabilityLevel>) -> Result<Ticket, Error> {
        self.until_not_busy(|| self.try_apply(batch, level))
    }

    /// As `apply`, but answers `Refused::Busy` instead of waiting.
    pub fn try_apply(&self, batch: &Batch, level: Option<DurabilityLevel>) -> Result<Ticket, Error> {
        let keys = batch.keys();
        self.try_transact(Scope::Keys(&keys), level, |transaction| batch.apply(transaction)).map(|((), ticket)| ticket)
    }

    /// Calls a procedure by name. Errors: as `transact`; `Refused::Unknown` if it was not registered at open.
    pub fn call(
        &self,
        name: &str,
        arguments: &[u8],
        level: Option<DurabilityLevel>,
    ) -> Result<(Vec<u8>, Ticket), Error> {
        self.until_not_busy(|| self.try_call(name, arguments, level))
    }

    /// As `call`, but answers `Refused::Busy` instead of waiting.
    pub fn try_call(
        &self,
        name: &str,
        arguments: &[u8],
        level: Option<DurabilityLevel>,
    ) -> Result<(Vec<u8>, Ticket), Error> {
        let unknown = || Refused::Unknown { kind: "procedure", name: name.to_owned() };
        let active = self.inner.procedures.get(name).ok_or_else(unknown)?;
        self.inner.core.call(active, arguments, level)
    }

    /// The procedures that can be called, in order of their names.
    pub fn procedures(&self) -> impl Iterator<Item = &ActiveProcedure> {
        self.inner.procedures.values()
    }

    /// Watches a key for changes by anyone, for optimistic transactions.
    pub fn watch(&self, keyspace: Keyspace, key: &[u8]) -> Watch {
        self.inner.core.watch(keyspace, key)
    }

    /// Visits up to `limit` records from a position on, due ones left out of the visit but counted in the limit. `None` at
    /// the end. A record that is there all the while is visited exactly once over a whole walk.
    pub fn visit(
        &self,
        keyspace: Keyspace,
        from: &ScanPosition,
        limit: usize,
        mut visit: impl FnMut(&[u8], Record<'_>),
    ) -> Option<ScanPosition> {
        let now = self.inner.core.time.now();
        self.inner.core.shards.visit(keyspace, from, limit, &mut |key: &[u8], found: Entry<'_>| {
            if let Some(record) = crate::core::live(found, now) {
                visit(key, record);
            }
        })
    }

    /// Some record's key, chosen by a random number; `None` if there is none. Due ones may be among them.
    pub fn sample(&self, keyspace: Keyspace, random: u64) -> Option<Vec<u8>> {
        self.inner.core.shards.sample(keyspace, random)
    }

    /// Number of records of a keyspace, due ones that were not removed yet included.
    pub fn len(&self, keyspace: Keyspace) -> usize {
        self.inner.core.shards.len(keyspace)
    }

    /// Whether a keyspace has no record.
    pub fn is_empty(&self, keyspace: Keyspace) -> bool {
        self.len(keyspace) == 0
    }

    /// Whether due records are removed as they become due (so it is at the start) or stay, unseen, until something else
    /// removes them. For tests.
    pub fn set_active_expiry(&self, is_active: bool) {
        self.inner.core.set_active_expiry(is_active);
    }

    /// Number of records of a keyspace that will end by themselves.
    pub fn expiring_len(&self, keyspace: Keyspace) -> usize {
        self.inner.core.shards.expiring_len(keyspace)
    }

    /// Freezes the present state. Cheap to take; what changes while it is held is kept twice.
    pub fn view(&self) -> StateView {
        self.inner.core.view()
    }

    /// All records of a keyspace between two keys as of now, copied: for small ranges. Larger ones walk a `view`.
    pub fn prefix(&self, keyspace: Keyspace, prefix: &[u8], direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
        let view = self.view();
        view.prefix(keyspace, prefix, direction).map(|(key, record)| (key.to_vec(), record.value.to_vec())).collect()
    }

    /// Engine time and its relation to the wall clock.
    pub fn time(&self) -> &EngineTime {
        self.inner.core.time()
    }

    /// The settings in force.
    pub fn options(&self) -> &Options {
        &self.inner.core.options
    }

    /// The disk failure that stopped all writing, if there was one.
    pub fn failure(&self) -> Option<Failed> {
        self.inner.core.log.failure()
    }

    /// Has somebody told whenever the disk gets so full that the store may not grow, and when it may again. The callback runs on
    /// the maintenance thread and must be short.
    pub fn on_space(&self, told: impl Fn(SpaceNow) + Send + Sync + 'static) {
        self.inner.core.log.reserve().on_change(Box::new(told));
    }

    /// LSN of the newest command.
    pub fn last_lsn(&self) -> Lsn {
        self.inner.core.log.watermarks().assigned
    }

    fn until_not_busy<R>(&self, mut attempt: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        loop {
            match attempt() {
                Err(Error::Refused(Refused::Busy)) => self.wait_any_room(Duration::from_secs(1))?,
                done => return done,
            }
        }
    }
}
