//! The library as a store of keys and values: many tickets in flight on each thread, none of them with a thread of its own.
//! Guarantees: a write ends when its ticket is released at the level of the run; reads end at once.
//! Must not know: when operations start.
//! Next: the engine's db/mod.rs.

use super::TargetError;
use super::store::{StoreOptions, StoreTarget};
use crate::driver::{Done, Lost, Session};
use crate::workload::Outcome;
use crate::workload::mixed::CODE_MISSING;
use crate::workload::operation::{Key, Kind, Operation};
use logd_engine::error::Refused;
use logd_engine::{
    Db, Direction, DurabilityLevel, Error, Keyspace, KeyspaceOptions, Options, Routing, Scope, Ticket, Transaction,
};
use std::collections::VecDeque;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

/// Writes of a load that may be in flight.
const LOAD_FLYING_MAX: usize = 4096;

/// A store in this process.
pub struct LibraryTarget {
    db: Db,
    keyspace: Keyspace,
    options: StoreOptions,
    place: String,
}

impl LibraryTarget {
    /// Opens the store in a directory, or makes one.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<LibraryTarget, TargetError> {
        let db = Db::open(directory, Options { durability: options.level, ..Options::default() })?;
        let routing = if options.in_order { Routing::OneShard } else { Routing::WholeKey };
        let keyspace = db.keyspace("records", KeyspaceOptions { routing, ..KeyspaceOptions::default() })?;
        Ok(LibraryTarget { db, keyspace, options, place: directory.display().to_string() })
    }
}

impl StoreTarget for LibraryTarget {
    fn describe(&self) -> String {
        let disk = self.db.stats().disk;
        let direct = if disk.direct { ", direct" } else { "" };
        let level = self.options.level.word();
        format!("logd-engine in {}, durability {level}, disk by {}{direct}", self.place, disk.backend)
    }

    fn load(&self, puts: &mut dyn Iterator<Item = Operation>) -> Result<(), TargetError> {
        let mut flying = VecDeque::new();
        let mut value = Vec::new();
        for put in puts {
            put.value(&mut value);
            flying.push_back(self.db.put(self.keyspace, &put.key(), &value, None, Some(DurabilityLevel::Synced))?);
            if flying.len() > LOAD_FLYING_MAX
                && let Some(ticket) = flying.pop_front()
            {
                self.db.wait(ticket, None)?;
            }
        }
        flying.pop_back().map_or(Ok(()), |ticket| self.db.wait(ticket, None))?;
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session<Operation>>, TargetError> {
        Ok(Box::new(LibrarySession {
            db: self.db.clone(),
            keyspace: self.keyspace,
            options: self.options,
            value: Vec::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
        }))
    }

    fn snapshots(&self) -> Option<(u64, bool)> {
        let snapshots = self.db.stats().snapshots;
        let newest = snapshots.rows.iter().map(|row| row.start_millis).max().unwrap_or(0);
        Some((newest, snapshots.running))
    }

    fn close(&mut self) -> Result<(), TargetError> {
        Ok(self.db.close()?)
    }
}

/// One thread's operations. Tickets of one level are released in order, so waiting for the first is enough.
struct LibrarySession {
    db: Db,
    keyspace: Keyspace,
    options: StoreOptions,
    value: Vec<u8>,
    waiting: VecDeque<(usize, Ticket)>,
    ended: Vec<Done>,
}

const DONE: Outcome = Outcome::Code(0);

fn found(is_there: bool) -> Outcome {
    if is_there { DONE } else { Outcome::Code(CODE_MISSING) }
}

impl LibrarySession {
    fn read(&self, operation: &Operation) -> Outcome {
        if operation.kind == Kind::Read {
            // The value is looked at as a caller would: a copy of it is what a get gives.
            return found(self.db.get(self.keyspace, &operation.key()).is_some());
        }
        let key = operation.key();
        let (from, count) = (Bound::Included(key.as_slice()), operation.count as usize);
        let visited = if self.options.in_order {
            self.db.read(Scope::Key(self.keyspace, &key), |state| {
                state.range_beside(self.keyspace, &key, from, Bound::Unbounded).take(count).map(touch).sum::<usize>()
            })
        } else {
            let view = self.db.view();
            let range = view.range(self.keyspace, from, Bound::Unbounded, Direction::Forward);
            range.take(count).map(touch).sum::<usize>()
        };
        found(visited == count)
    }

    fn write(&mut self, operation: &Operation) -> Result<Ticket, Error> {
        let (keyspace, level, key) = (self.keyspace, Some(self.options.level), operation.key());
        operation.value(&mut self.value);
        let value = &self.value;
        match operation.kind {
            Kind::Take => self.take(operation),
            Kind::Modify => {
                let modify = |change: &mut Transaction<'_>| {
                    let before = change.get(keyspace, &key).map_or(0, |record| record.value.len());
                    std::hint::black_box(before);
                    change.put(keyspace, &key, value, None)
                };
                self.db.transact(Scope::Key(keyspace, &key), level, modify).map(|((), ticket)| ticket)
            }
            _ => self.db.put(keyspace, &key, value, None, level),
        }
    }

    fn take(&self, operation: &Operation) -> Result<Ticket, Error> {
        let keys: Vec<Key> = operation.keys().collect();
        let scope: Vec<(Keyspace, &[u8])> = keys.iter().map(|key| (self.keyspace, key.as_slice())).collect();
        let remove = |change: &mut Transaction<'_>| {
            let removed = keys.iter().filter(|key| change.delete(self.keyspace, key.as_slice())).count();
            Ok(removed)
        };
        self.db.transact(Scope::Keys(&scope), Some(self.options.level), remove).map(|(_, ticket)| ticket)
    }

    fn take_released(&mut self, done: &mut Vec<Done>) {
        while let Some(&(token, ticket)) = self.waiting.front() {
            if !self.db.is_durable(ticket) {
                return;
            }
            self.waiting.pop_front();
            done.push(Done { token, outcome: DONE });
        }
    }
}

/// Counts a record after a look at its value.
fn touch((_, record): (&[u8], logd_engine::Record<'_>)) -> usize {
    std::hint::black_box(record.value.last());
    1
}

impl Session<Operation> for LibrarySession {
    fn submit(&mut self, token: usize, operation: &Operation) {
        if !operation.kind.writes() {
            let outcome = self.read(operation);
            self.ended.push(Done { token, outcome });
            return;
        }
        match self.write(operation) {
            Ok(ticket) => self.waiting.push_back((token, ticket)),
            Err(_) => self.ended.push(Done { token, outcome: Outcome::Aborted }),
        }
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        done.append(&mut self.ended);
        let none_yet = done.is_empty();
        match self.waiting.front() {
            None if none_yet => std::thread::sleep(limit),
            Some(&(_, ticket)) if none_yet && !limit.is_zero() => match self.db.wait(ticket, Some(limit)) {
                Ok(()) | Err(Error::Refused(Refused::TimedOut)) => {}
                Err(error) => return Err(Lost(error.to_string())),
            },
            _ => {}
        }
        self.take_released(done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_contract as contract;
    use super::*;

    #[test]
    fn the_library_keeps_the_contract_of_stores() {
        for in_order in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let options = StoreOptions { level: DurabilityLevel::Synced, in_order };
            let mut target = LibraryTarget::open(directory.path(), options).unwrap();
            contract::check(&target);
            assert_eq!(target.snapshots().map(|(_, running)| running), Some(false));
            target.close().unwrap();
        }
    }
}
