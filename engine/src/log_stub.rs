//! STAND-IN for the log until it is merged: releases everything at once, writes nothing.
use crate::durability::DurabilityLevel;
use crate::error::{Error, Failed};
use crate::units::{Lsn, Millis, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};

/// When a command was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Monotonic.
    pub now: Nanos,
    /// Engine time.
    pub time: Millis,
    /// Wall clock.
    pub wall: Millis,
}
/// Result of an append.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Its LSN.
    pub lsn: Lsn,
    /// Whether the writer must be woken.
    pub wake: bool,
}
/// Places the log has reached.
#[derive(Clone, Copy, Debug)]
pub struct Watermarks {
    /// Given out.
    pub assigned: Lsn,
    /// Written.
    pub written: Lsn,
    /// Synced.
    pub synced: Lsn,
    /// Up to where `Accepted` counts as done.
    pub accepted_limit: Lsn,
}
/// Something that is told when a ticket is released.
pub enum Waiter {
    /// A task.
    Task(std::task::Waker),
    /// A callback.
    Callback(Box<dyn FnOnce(Result<(), Error>) + Send>),
}
/// The log.
#[derive(Default)]
pub struct Log {
    last: AtomicU64,
}
impl Log {
    /// Appends.
    pub fn append(&self, _frame: &[u8], _level: DurabilityLevel, _stamp: Stamp) -> Result<Appended, Error> {
        Ok(Appended { lsn: Lsn(self.last.fetch_add(1, Ordering::SeqCst) + 1), wake: false })
    }
    /// Watermarks.
    pub fn watermarks(&self) -> Watermarks {
        let at = Lsn(self.last.load(Ordering::SeqCst));
        Watermarks { assigned: at, written: at, synced: at, accepted_limit: at }
    }
    /// Released?
    pub fn is_released(&self, _lsn: Lsn, _level: DurabilityLevel) -> bool {
        true
    }
    /// Failure.
    pub fn failure(&self) -> Option<Failed> {
        None
    }
    /// Sync soon.
    pub fn request_sync(&self) -> Lsn {
        Lsn(self.last.load(Ordering::SeqCst))
    }
    /// Wait.
    pub fn wait(&self, _lsn: Lsn, _level: DurabilityLevel, _limit: Option<Nanos>) -> Result<(), Error> {
        Ok(())
    }
    /// Register.
    pub fn register(&self, _lsn: Lsn, _level: DurabilityLevel, waiter: Waiter) {
        match waiter {
            Waiter::Task(task) => task.wake(),
            Waiter::Callback(callback) => callback(Ok(())),
        }
    }
}
