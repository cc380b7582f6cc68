//! Those who wait for the log: blocked threads, registered callbacks and futures, event loops.
//!
//! Guarantees: nobody is missed: a waiter announces itself before it looks, `announce` runs after the state has changed.
//! Threads that wait for the same batch at the same level share one futex word, so an advance costs one system call however
//! many wait, none when nobody does, and does not wake those whose batch is still open.
//! Must not know: what a watermark is; it is told up to where each level is released.
//! Next: append.rs calls `announce` after every change.

use super::blocked::{self, Deadline};
use crate::durability::DurabilityLevel;
use crate::error::Error;
use crate::units::{Lsn, Nanos};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Somebody to be told that an LSN is released at a level, or that it never will be.
pub enum Waiter {
    /// A future's waker; the future asks the log itself.
    Waker(std::task::Waker),
    /// Called once, on the thread that advanced the log: it must be short and must not wait.
    Call(Box<dyn FnOnce(Result<(), Error>) + Send>),
}

impl Waiter {
    /// Tells.
    pub(super) fn tell(self, result: Result<(), Error>) {
        match self {
            Waiter::Waker(waker) => waker.wake(),
            Waiter::Call(call) => call(result),
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Waker(_) => "Waker",
            Waiter::Call(_) => "Call",
        })
    }
}

/// An event loop that wants one notice for each change of the log while it sleeps. Dropping it ends that.
pub struct Subscriber {
    armed: AtomicBool,
    notify: Arc<dyn Fn() + Send + Sync>,
}

impl Subscriber {
    /// Asks for one notice. To be called before the last look at the log, and then the sleep.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Takes it back: awake anyway.
    pub fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber {{ armed: {:?} }}", self.armed)
    }
}

/// Up to where each level is released.
#[derive(Clone, Copy, Debug)]
pub(super) struct Released {
    pub accepted: Lsn,
    pub written: Lsn,
    pub synced: Lsn,
}

impl Released {
    pub fn limit(&self, level: DurabilityLevel) -> Lsn {
        match level {
            DurabilityLevel::Volatile => Lsn(u64::MAX),
            DurabilityLevel::Accepted => self.accepted,
            DurabilityLevel::Written => self.written,
            DurabilityLevel::Synced => self.synced,
        }
    }
}

#[derive(Debug, Default)]
struct Registered {
    next: u64,
    by_lsn: BTreeMap<(Lsn, u64), (DurabilityLevel, Waiter)>,
}

/// What blocked threads sleep on. Which word a thread takes decides only whom it is woken with.
#[derive(Debug)]
struct Word {
    /// Rises when the word is woken.
    generation: AtomicU32,
    sleeping: AtomicU32,
    /// At most the lowest LSN that somebody sleeps for.
    lowest: AtomicU64,
}

/// Which word a thread sleeps on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sleeper {
    /// For room in the log: woken by every change.
    Room,
    /// For an LSN at a level; `turn` alternates from batch to batch.
    Lsn { lsn: Lsn, level: DurabilityLevel, turn: u64 },
}

impl Word {
    /// Wakes all who sleep here, if one of them sleeps for an LSN up to `limit`.
    fn wake_up_to(&self, limit: Lsn) {
        if self.sleeping.load(Ordering::SeqCst) == 0 {
            return;
        }
        let lowest = self.lowest.swap(u64::MAX, Ordering::SeqCst);
        if lowest > limit.0 {
            self.lowest.fetch_min(lowest, Ordering::SeqCst);
            return;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
        blocked::wake_all(&self.generation);
    }
}

impl Sleeper {
    fn word(self) -> usize {
        match self {
            Sleeper::Room => 0,
            Sleeper::Lsn { level, turn, .. } => 1 + 2 * level as usize + (turn % 2) as usize,
        }
    }

    fn lsn(self) -> u64 {
        match self {
            Sleeper::Room => 0,
            Sleeper::Lsn { lsn, .. } => lsn.0,
        }
    }
}

/// The level whose release wakes a word.
const WORD_LEVELS: [DurabilityLevel; WORDS] = {
    use DurabilityLevel::{Accepted, Synced, Volatile, Written};
    [Volatile, Volatile, Volatile, Accepted, Accepted, Written, Written, Synced, Synced]
};
const WORDS: usize = 9;

/// All who wait.
#[derive(Debug)]
pub(super) struct Waiters {
    words: [Word; WORDS],
    /// Held while words are woken: two announcements at once could each leave a word to the other.
    waking: Mutex<()>,
    registered_count: AtomicUsize,
    registered: Mutex<Registered>,
    subscribers: Mutex<Vec<Weak<Subscriber>>>,
}

impl Waiters {
    pub fn new() -> Waiters {
        let word =
            || Word { generation: AtomicU32::new(0), sleeping: AtomicU32::new(0), lowest: AtomicU64::new(u64::MAX) };
        Waiters {
            words: std::array::from_fn(|_| word()),
            waking: Mutex::default(),
            registered_count: AtomicUsize::new(0),
            registered: Mutex::default(),
            subscribers: Mutex::default(),
        }
    }

    /// Blocks until `look` finds an answer or the span has passed; `None` then.
    pub fn block<T>(&self, sleeper: Sleeper, limit: Option<Nanos>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(answer) = look() {
            return Some(answer);
        }
        let deadline = limit.map(Deadline::after);
        let word = &self.words[sleeper.word()];
        word.sleeping.fetch_add(1, Ordering::SeqCst);
        let answer = loop {
            word.lowest.fetch_min(sleeper.lsn(), Ordering::SeqCst);
            let seen = word.generation.load(Ordering::SeqCst);
            if let Some(answer) = look() {
                break Some(answer);
            }
            if !blocked::sleep(&word.generation, seen, deadline) {
                break None;
            }
        };
        word.sleeping.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    /// Keeps a waiter, unless `check` says that it is to be told at once; gives it back then.
    pub fn register(
        &self,
        lsn: Lsn,
        level: DurabilityLevel,
        waiter: Waiter,
        check: impl FnOnce() -> Option<Result<(), Error>>,
    ) -> Option<(Waiter, Result<(), Error>)> {
        let mut registered = self.registered.lock();
        self.registered_count.fetch_add(1, Ordering::SeqCst);
        if let Some(result) = check() {
            self.registered_count.fetch_sub(1, Ordering::SeqCst);
            return Some((waiter, result));
        }
        let number = registered.next;
        registered.next += 1;
        registered.by_lsn.insert((lsn, number), (level, waiter));
        None
    }

    pub fn subscribe(&self, notify: Arc<dyn Fn() + Send + Sync>) -> Arc<Subscriber> {
        let subscriber = Arc::new(Subscriber { armed: AtomicBool::new(false), notify });
        self.subscribers.lock().push(Arc::downgrade(&subscriber));
        subscriber
    }

    /// Tells everybody whom the change concerns. The change is visible to others by now; `look` reads it.
    pub fn announce(&self, look: impl FnOnce() -> Released, failure: Option<&Error>) {
        let waking = self.waking.lock();
        let released = look();
        for (word, level) in self.words.iter().zip(WORD_LEVELS) {
            word.wake_up_to(if failure.is_some() { Lsn(u64::MAX) } else { released.limit(level) });
        }
        drop(waking);
        if self.registered_count.load(Ordering::SeqCst) > 0 {
            for (result, waiter) in self.take_released(released, failure) {
                waiter.tell(result);
            }
        }
        self.notify_subscribers();
    }

    fn take_released(&self, released: Released, failure: Option<&Error>) -> Vec<(Result<(), Error>, Waiter)> {
        let mut registered = self.registered.lock();
        let highest = released.accepted.max(released.written).max(released.synced);
        let mut ready = Vec::new();
        let keys: Vec<_> = registered
            .by_lsn
            .iter()
            .take_while(|((lsn, _), _)| *lsn <= highest || failure.is_some())
            .filter(|((lsn, _), (level, _))| *lsn <= released.limit(*level) || failure.is_some())
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let (level, waiter) = registered.by_lsn.remove(&key).expect("the key was just seen");
            let result = match failure {
                Some(error) if key.0 > released.limit(level) => Err(error.clone()),
                _ => Ok(()),
            };
            ready.push((result, waiter));
        }
        self.registered_count.fetch_sub(ready.len(), Ordering::SeqCst);
        ready
    }

    fn notify_subscribers(&self) {
        let mut subscribers = self.subscribers.lock();
        if subscribers.is_empty() {
            return;
        }
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        let armed: Vec<_> = subscribers
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|subscriber| subscriber.armed.swap(false, Ordering::SeqCst))
            .collect();
        drop(subscribers);
        for subscriber in armed {
            (subscriber.notify)();
        }
    }
}
