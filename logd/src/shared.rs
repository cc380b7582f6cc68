//! What all connections of the daemon share: the store, its databases, the clients, the counts.
//! Guarantees: `Send + Sync`; nothing in it is locked while a request runs, but by the request itself.
//! Must not know: sockets, event loops.
//! Next: session.rs is what each connection has for itself; executor.rs runs requests over both.

use crate::clients::Clients;
use crate::latency::CommandCounters;
use crate::request::config::Config;
use crate::request::cursors::Cursors;
use crate::request::pause::Gate;
use crate::request::slowlog::{LatencyEvents, SlowLog};
use crate::request::table::Table;
use crate::settings::Settings;
use logd_engine::{Db, DurabilityLevel, Error, Keyspace};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// Number of databases that SELECT knows.
pub const DATABASES: usize = 16;
/// Error classes are told apart up to so many, as in Redis.
const ERROR_CLASSES_MAX: usize = 128;

/// Counts of the whole daemon. The connections' half adds to the first ones, the executor to the others.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Connections taken.
    pub connections_received: AtomicU64,
    /// Connections refused because there were too many.
    pub connections_rejected: AtomicU64,
    /// Bytes read from clients.
    pub net_input_bytes: AtomicU64,
    /// Bytes sent to clients.
    pub net_output_bytes: AtomicU64,
    /// Clients disconnected because they did not take their replies.
    pub clients_over_output_limit: AtomicU64,
    /// Requests run.
    pub commands: AtomicU64,
    /// Error replies.
    pub error_replies: AtomicU64,
    /// Keys that reading commands found and missed.
    pub lookups: Lookups,
    /// EXECs that ended because a watched key had changed.
    pub exec_conflicts: AtomicU64,
}

/// Keys that reading commands looked up.
#[derive(Debug, Default)]
pub struct Lookups {
    /// Those that were there.
    pub hits: AtomicU64,
    /// Those that were not.
    pub misses: AtomicU64,
}

impl Lookups {
    /// Counts one.
    pub fn note(&self, is_there: bool) {
        let counter = if is_there { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl ServerCounters {
    /// Begins anew.
    pub fn reset(&self) {
        let all = [
            &self.connections_received,
            &self.connections_rejected,
            &self.net_input_bytes,
            &self.net_output_bytes,
            &self.clients_over_output_limit,
            &self.commands,
            &self.error_replies,
            &self.lookups.hits,
            &self.lookups.misses,
            &self.exec_conflicts,
        ];
        all.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

type Hook = Box<dyn Fn() + Send + Sync>;

/// One per process.
pub struct Shared {
    /// The store.
    pub db: Db,
    /// Keyspace of each database.
    pub databases: Vec<Keyspace>,
    /// Every keyspace of the store.
    pub all_keyspaces: Vec<Keyspace>,
    /// What the daemon was told.
    pub settings: Settings,
    /// Counts.
    pub counters: ServerCounters,
    /// Who is connected.
    pub clients: Clients,
    /// Where SCANs stand.
    pub cursors: Cursors,
    /// All commands.
    pub table: Table,
    /// Counts of each command, by its number in the table.
    pub command_counters: Box<[CommandCounters]>,
    /// Slow requests.
    pub slow_log: SlowLog,
    /// Latency events.
    pub latency_events: LatencyEvents,
    /// What CONFIG tells and changes.
    pub config: Config,
    /// What stands in the way of commands for a while.
    pub gate: Gate,
    /// When the process began.
    pub started: Instant,
    /// The same by the wall clock, in milliseconds.
    pub started_millis: u64,
    /// Wall time of the last snapshot asked for by SAVE or BGSAVE, or of the start, in seconds.
    pub saved_seconds: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    level: AtomicU8,
    shutdown: AtomicBool,
    shutdown_snapshot: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
}

impl Shared {
    /// Finds the databases in a store, or makes them.
    pub fn new(db: Db, settings: Settings) -> Result<Shared, Error> {
        let make = |number| db.keyspace(&format!("db{number}"), Default::default());
        let databases = (0..DATABASES).map(make).collect::<Result<Vec<_>, _>>()?;
        let all = db.keyspace_names().iter().map(|name| db.find_keyspace(name)).collect::<Result<Vec<_>, _>>()?;
        let table = Table::new();
        let started_millis = db.time().wall().0;
        Ok(Shared {
            databases,
            all_keyspaces: all,
            counters: ServerCounters::default(),
            clients: Clients::default(),
            cursors: Cursors::new(),
            command_counters: (0..table.numbers()).map(|_| CommandCounters::default()).collect(),
            table,
            slow_log: SlowLog::default(),
            latency_events: LatencyEvents::default(),
            config: Config::new(&settings),
            settings,
            gate: Gate::default(),
            started: Instant::now(),
            started_millis,
            saved_seconds: AtomicU64::new(started_millis / 1000),
            errors: Mutex::default(),
            level: AtomicU8::new(0),
            shutdown: AtomicBool::new(false),
            shutdown_snapshot: AtomicBool::new(false),
            hooks: Mutex::default(),
            db,
        })
    }

    /// Level of writes as CONFIG SET appendfsync left it; `None` for the store's.
    pub fn level(&self) -> Option<DurabilityLevel> {
        match self.level.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(DurabilityLevel::Accepted),
            _ => Some(DurabilityLevel::Synced),
        }
    }

    /// Changes the level of later writes of all clients: `Synced`, or else `Accepted`.
    pub fn set_level(&self, level: DurabilityLevel) {
        self.level.store(if level == DurabilityLevel::Synced { 2 } else { 1 }, Ordering::Relaxed);
    }

    /// Whether SHUTDOWN was asked for.
    pub fn shutdown_wanted(&self) -> bool {
        self.shutdown.load(Ordering::Acquire)
    }

    /// Whether SHUTDOWN SAVE asked for a snapshot before the end.
    pub fn shutdown_wants_snapshot(&self) -> bool {
        self.shutdown_snapshot.load(Ordering::Acquire)
    }

    /// Has a hook called when SHUTDOWN is asked for.
    pub fn on_shutdown(&self, hook: Hook) {
        self.hooks.lock().push(hook);
    }

    /// Asks the daemon to stop.
    pub fn shut_down(&self, with_snapshot: bool) {
        self.shutdown_snapshot.store(with_snapshot, Ordering::Release);
        self.shutdown.store(true, Ordering::Release);
        self.hooks.lock().iter().for_each(|hook| hook());
    }

    /// Counts an error reply by its class, the first word.
    pub fn note_error(&self, text: &str) {
        self.counters.error_replies.fetch_add(1, Ordering::Relaxed);
        let class = text.split(' ').next().unwrap_or("ERR");
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(class) {
            *count += 1;
        } else if errors.len() < ERROR_CLASSES_MAX {
            errors.insert(class.to_owned(), 1);
        }
    }

    /// Error replies by class.
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.errors.lock().iter().map(|(class, count)| (class.clone(), *count)).collect()
    }

    /// CONFIG RESETSTAT.
    pub fn reset_counts(&self) {
        self.counters.reset();
        self.errors.lock().clear();
        self.command_counters.iter().for_each(CommandCounters::reset);
    }
}
