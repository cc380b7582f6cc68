//! Who is connected: what CLIENT LIST tells and CLIENT KILL ends.
//! Guarantees: ids rise and are never used twice; a killed client's loop is woken.
//! Must not know: sockets; a connection is a flag and a way to wake its loop.
//! Next: request/client.rs.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ClientHandle>>>,
    id_last: AtomicU64,
}

/// One client, seen from others.
pub struct ClientHandle {
    /// Its id.
    pub id: u64,
    /// Its address.
    pub peer: String,
    /// Ours.
    pub local: String,
    /// The database it has selected.
    pub database: AtomicUsize,
    /// Number of commands it has queued; -1 outside of MULTI.
    pub queued: AtomicI32,
    /// Whether it speaks RESP3.
    pub is_resp3: AtomicBool,
    /// Whether it is spared by CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// Whether it asked for CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// Whether its command waits for the end of CLIENT PAUSE.
    pub is_paused: AtomicBool,
    /// Place of its last command in the table; `u32::MAX` before the first.
    pub command: AtomicU32,
    /// What it calls itself.
    pub names: Mutex<ClientNames>,
    since: Instant,
    seen_millis: AtomicU64,
    killed: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What a client calls itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub library: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: Vec<u8>,
}

impl Clients {
    /// Enters a client. `wake` ends the wait of the loop that serves it.
    pub fn add(&self, peer: String, local: String, wake: Box<dyn Fn() + Send + Sync>) -> Arc<ClientHandle> {
        let id = self.id_last.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(ClientHandle {
            id,
            peer,
            local,
            database: AtomicUsize::new(0),
            queued: AtomicI32::new(-1),
            is_resp3: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            command: AtomicU32::new(u32::MAX),
            names: Mutex::default(),
            since: Instant::now(),
            seen_millis: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            wake,
        });
        self.all.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Forgets a client.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many wait for the end of CLIENT PAUSE.
    pub fn blocked_count(&self) -> u64 {
        self.all.lock().values().filter(|client| client.is_paused.load(Ordering::Relaxed)).count() as u64
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientHandle>> {
        self.all.lock().values().cloned().collect()
    }
}

impl ClientHandle {
    /// Whether its connection must be closed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Asks its loop to close the connection.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        (self.wake)();
    }

    /// Notes that it was heard of.
    pub fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.since).as_millis();
        self.seen_millis.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Time since it came.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Time since it was last heard of.
    pub fn idle(&self, now: Instant) -> Duration {
        self.age(now).saturating_sub(Duration::from_millis(self.seen_millis.load(Ordering::Relaxed)))
    }
}
