//! The deterministic heart: shards of records, transactions over them, procedures, engine time.
//! Guarantees: no thread, clock, randomness or file of its own; effects are applied and appended under the same locks,
//! so log order is execution order; a refused command leaves no trace.
//! Must not know: sockets, threads, formats of files.
//! Next: transaction.rs is the write path; shards.rs the locks; db/mod.rs the shell around it.

mod catalog;
mod counters;
mod cut;
mod expire;
mod gather;
mod image;
mod procedure;
mod replay;
mod scope;
mod shard;
mod shards;
#[cfg(test)]
mod tests;
mod time;
mod transaction;
mod undo;
mod view;
mod watch;

pub use catalog::{Catalog, Keyspace, KeyspaceDefinition, KeyspaceOptions, ProcedureDefinition, Routing};
pub use counters::{Counters, CountersNow};
pub use image::catalog_of;
pub use procedure::{ActiveProcedure, Context, LogForm, Procedure, Procedures};
pub use replay::{Rebuild, Rebuilt, ReplayError};
pub use scope::{ROUTING_HASH_ID, Scope, ShardSet, route};
pub use shards::{ScanPosition, Shards};
pub use time::EngineTime;
pub use transaction::{Record, Ticket, Transaction, live};
pub use view::{Direction, StateView, ViewRange};
pub use watch::Watch;

use crate::disk::DiskWaker;
use crate::index::Tree;
use crate::log::Log;
use crate::options::Options;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The state of an open store and its log: everything that callers on any thread share.
pub struct Core {
    pub(crate) shards: Shards,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) log: Arc<Log>,
    pub(crate) time: EngineTime,
    pub(crate) counters: Counters,
    pub(crate) procedures: Procedures,
    pub(crate) options: Options,
    /// Earliest engine time at which the maintenance driver must look for due records; `u64::MAX` for never.
    pub(crate) due_millis: AtomicU64,
    /// Whether the maintenance driver leaves due records where they are.
    pub(crate) keeps_due: AtomicBool,
    pub(crate) seed: AtomicU64,
    /// Trees that nobody needs any more, to be freed where the time is not missed.
    discarded: Mutex<Vec<Tree>>,
    /// Ends the wait of the driver that writes the log, and of the one that does the maintenance.
    pub(crate) writer_waker: OnceLock<DiskWaker>,
    pub(crate) maintenance_waker: OnceLock<DiskWaker>,
}

/// What a core is put together from, besides its state.
pub struct CoreParts {
    /// The log it appends to.
    pub log: Arc<Log>,
    /// Engine time.
    pub time: EngineTime,
    /// Procedures that calls in the log may name, and that may be called.
    pub procedures: Procedures,
    /// Settings.
    pub options: Options,
    /// First seed of procedure calls.
    pub seed: u64,
}

impl Core {
    /// Puts a core together from rebuilt (or empty) state.
    pub fn build(state: Rebuilt, parts: CoreParts) -> Core {
        let Rebuilt { shards, catalog } = state;
        Core {
            due_millis: AtomicU64::new(shards.next_due()),
            keeps_due: AtomicBool::new(false),
            shards,
            catalog: RwLock::new(catalog),
            log: parts.log,
            time: parts.time,
            counters: Counters::default(),
            procedures: parts.procedures,
            options: parts.options,
            seed: AtomicU64::new(parts.seed),
            discarded: Mutex::default(),
            writer_waker: OnceLock::new(),
            maintenance_waker: OnceLock::new(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn wake_writer(&self) {
        if let Some(waker) = self.writer_waker.get() {
            waker.wake();
        }
    }

    pub(crate) fn wake_maintenance(&self) {
        if let Some(waker) = self.maintenance_waker.get() {
            waker.wake();
        }
    }

    /// Engine time.
    pub fn time(&self) -> &EngineTime {
        &self.time
    }
}
