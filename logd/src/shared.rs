//! STAND-IN for the other half's shared.rs.
use crate::settings::Settings;
use logd_engine::{Db, Keyspace};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Default)]
pub struct ServerCounters {
    pub connections_received: AtomicU64,
    pub rejected: AtomicU64,
    pub commands: AtomicU64,
    pub net_input_bytes: AtomicU64,
    pub net_output_bytes: AtomicU64,
}
type Hook = Box<dyn Fn() + Send + Sync>;
pub struct Shared {
    pub db: Db,
    pub databases: Vec<Keyspace>,
    pub settings: Settings,
    pub counters: ServerCounters,
    pub clients: Clients,
    hook: Mutex<Option<Hook>>,
    shutdown: AtomicBool,
}
impl Shared {
    pub fn new(db: Db, settings: Settings) -> Result<Shared, logd_engine::Error> {
        let databases = vec![db.keyspace("0", Default::default())?];
        let (counters, clients) = Default::default();
        Ok(Shared {
            db,
            databases,
            settings,
            counters,
            clients,
            hook: Mutex::default(),
            shutdown: AtomicBool::new(false),
        })
    }
    pub fn shutdown_wanted(&self) -> bool {
        self.shutdown.load(Ordering::SeqCst)
    }
    pub fn on_shutdown(&self, hook: Hook) {
        *self.hook.lock() = Some(hook);
    }
    pub fn want_shutdown(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        if let Some(hook) = &*self.hook.lock() {
            hook();
        }
    }
}
#[derive(Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ClientHandle>>>,
    last: AtomicU64,
}
impl Clients {
    pub fn add(&self, _peer: String, _local: String, wake: Hook) -> Arc<ClientHandle> {
        let id = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        let client = Arc::new(ClientHandle { id, killed: AtomicBool::new(false), wake });
        self.all.lock().insert(id, Arc::clone(&client));
        client
    }
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn all(&self) -> Vec<Arc<ClientHandle>> {
        self.all.lock().values().cloned().collect()
    }
}
pub struct ClientHandle {
    pub id: u64,
    killed: AtomicBool,
    wake: Hook,
}
impl ClientHandle {
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        (self.wake)();
    }
}
