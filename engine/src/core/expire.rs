//! Removes records that are due, by logged commands, so that replay asks no clock.
//! Guarantees: bounded work a step; nothing is written while nothing is due.
//! Must not know: threads; the maintenance driver calls it.
//! Next: time.rs says what "due" means.

use super::counters::add;
use super::scope::{Scope, ShardSet};
use super::{Core, KeyspaceOptions};
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::units::Millis;
use std::sync::atomic::Ordering;

/// Records removed by one command at most, so that a shard is locked only shortly.
const BATCH_COUNT: usize = 64;

impl Core {
    /// Removes up to one batch of due records a shard. Gives the engine time at which to look again; `u64::MAX` for never.
    /// `Busy` and `Full` only put it off; a latched log ends it.
    pub fn expire_due(&self) -> u64 {
        if self.keeps_due.load(Ordering::SeqCst) {
            return u64::MAX;
        }
        let now = self.time.now();
        if self.due_millis.load(Ordering::Relaxed) > now.0 {
            return self.due_millis.load(Ordering::Relaxed);
        }
        self.due_millis.store(u64::MAX, Ordering::SeqCst);
        let mut next = u64::MAX;
        for shard in 0..self.shards.count() {
            let (due, then) = {
                let locked = self.shards.lock(shard);
                (locked.expiry().peek_due(now.0, BATCH_COUNT), locked.expiry().next_due().unwrap_or(u64::MAX))
            };
            next = next.min(if due.is_empty() { then } else { self.expire_in(shard, &due, now) });
        }
        self.note_due(next);
        self.due_millis.load(Ordering::Relaxed)
    }

    /// Whether due records are removed without being asked for. They are never told either way.
    pub fn set_active_expiry(&self, is_active: bool) {
        self.keeps_due.store(!is_active, Ordering::SeqCst);
        if is_active {
            self.due_millis.store(0, Ordering::SeqCst);
            self.wake_maintenance();
        }
    }

    fn expire_in(&self, shard: usize, due: &[(u16, Box<[u8]>)], now: Millis) -> u64 {
        let mut only = ShardSet::new();
        only.insert(shard);
        let handles: Vec<_> = {
            let catalog = self.catalog.read();
            due.iter().map(|(number, _)| catalog.handle(*number, self.options.durability)).collect()
        };
        let removed = self.write(Scope::Shards(only), Some(DurabilityLevel::Accepted), |transaction| {
            let count =
                due.iter().zip(&handles).filter(|((_, key), keyspace)| transaction.remove_due(**keyspace, key)).count();
            Ok(count as u64)
        });
        match removed {
            Ok((count, _)) => add(&self.counters.expired, count),
            Err(Error::Failed(_)) => return u64::MAX,
            Err(_) => return now.0 + 100,
        }
        self.shards.lock(shard).expiry().next_due().unwrap_or(u64::MAX)
    }

    /// Makes sure that the maintenance driver looks for due records no later than this.
    pub fn note_due(&self, due_millis: u64) {
        let before = self.due_millis.fetch_min(due_millis, Ordering::SeqCst);
        if due_millis < before {
            self.wake_maintenance();
        }
    }

    /// Makes a keyspace, or finds it. Waits for nothing: the definition travels in the log before any of its records.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<super::Keyspace, Error> {
        let mut catalog = self.catalog.write();
        if let Some(number) = catalog.find(name) {
            return Ok(catalog.handle(number, self.options.durability));
        }
        let number = catalog.check_new(name)?;
        self.write(Scope::All, Some(DurabilityLevel::Synced), |transaction| {
            transaction.define_keyspace(number, name, options);
            Ok(())
        })?;
        let defined = catalog.define_keyspace(&super::catalog::encode_options(number, name, options));
        assert!(defined, "the number was chosen as the next one");
        Ok(catalog.handle(number, self.options.durability))
    }

    /// The keyspace with a name.
    pub fn find_keyspace(&self, name: &str) -> Result<super::Keyspace, Error> {
        let catalog = self.catalog.read();
        let unknown = || Refused::Unknown { kind: "keyspace", name: name.to_owned() };
        Ok(catalog.find(name).map(|number| catalog.handle(number, self.options.durability)).ok_or_else(unknown)?)
    }
}
