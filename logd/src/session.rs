//! What one connection has for itself: its database, its queue of MULTI, the keys it watches, its last write.
//! Guarantees: used by one thread at a time.
//! Must not know: sockets, replies.
//! Next: executor.rs.

use crate::clients::{ClientHandle, ClientNames};
use crate::request::table::Found;
use logd_engine::core::Watch;
use logd_engine::prng::Prng;
use logd_engine::{DurabilityLevel, Keyspace, Ticket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// All of them.
    On,
    /// None.
    Off,
    /// All but the next.
    SkipNext,
}

/// A request that waits for EXEC.
pub struct Queued {
    /// What it runs.
    pub found: Found,
    /// Its words.
    pub words: Vec<Box<[u8]>>,
}

/// The queue between MULTI and EXEC.
#[derive(Default)]
pub struct Multi {
    /// The requests.
    pub queue: Vec<Queued>,
    /// Whether a request could not be queued, so that EXEC must refuse all.
    pub is_broken: bool,
    /// Memory the queue takes.
    pub bytes: usize,
}

/// A key that must not change before EXEC.
pub struct WatchedKey {
    /// Its keyspace.
    pub keyspace: Keyspace,
    /// The key.
    pub key: Box<[u8]>,
    /// Tells of changes.
    pub watch: Watch,
    /// Whether there was a record when it was watched: then its end is a change too.
    pub was_there: bool,
}

/// One connection's state.
pub struct Session {
    /// How others see it.
    pub client: Arc<ClientHandle>,
    /// The selected database.
    pub database: usize,
    /// The queue, between MULTI and EXEC.
    pub multi: Option<Multi>,
    /// The keys watched.
    pub watched: Vec<WatchedKey>,
    /// Which replies are wanted.
    pub reply: ReplyMode,
    /// Ticket of the last write, for WAITAOF.
    pub write_last: Ticket,
    /// Level of this connection's writes; `None` for the common one.
    pub level: Option<DurabilityLevel>,
    /// Bytes of a value that is being put together, kept for the next one.
    pub scratch: Vec<u8>,
    /// Calls of the shortest commands, to time one of several.
    pub short_calls: u32,
    prng: Prng,
}

impl Session {
    /// A new connection's state.
    pub fn new(client: Arc<ClientHandle>) -> Session {
        Session {
            prng: Prng::new(client.id),
            client,
            database: 0,
            multi: None,
            watched: Vec::new(),
            reply: ReplyMode::On,
            write_last: Ticket::NOTHING,
            level: None,
            scratch: Vec::new(),
            short_calls: 0,
        }
    }

    /// 64 random bits.
    pub fn random(&mut self) -> u64 {
        self.prng.next_u64()
    }

    /// Notes a write.
    pub fn note_write(&mut self, ticket: Ticket) {
        if ticket != Ticket::NOTHING {
            self.write_last = ticket;
        }
    }

    /// Selects a database.
    pub fn select(&mut self, database: usize) {
        self.database = database;
        self.client.database.store(database, Ordering::Relaxed);
    }

    /// Ends MULTI and takes its queue.
    pub fn take_multi(&mut self) -> Option<Multi> {
        self.client.queued.store(-1, Ordering::Relaxed);
        self.multi.take()
    }

    /// Begins MULTI, or goes on with it.
    pub fn set_multi(&mut self, multi: Multi) {
        self.client.queued.store(multi.queue.len() as i32, Ordering::Relaxed);
        self.multi = Some(multi);
    }

    /// Watches nothing any more.
    pub fn unwatch(&mut self) {
        self.watched.clear();
    }

    /// Back to how it was when the connection began, but for its library and id.
    pub fn reset(&mut self) {
        self.take_multi();
        self.unwatch();
        self.select(0);
        self.reply = ReplyMode::On;
        self.level = None;
        self.client.is_resp3.store(false, Ordering::Relaxed);
        self.client.no_evict.store(false, Ordering::Relaxed);
        self.client.no_touch.store(false, Ordering::Relaxed);
        let mut names = self.client.names.lock();
        *names = ClientNames { name: Vec::new(), ..std::mem::take(&mut *names) };
    }
}
