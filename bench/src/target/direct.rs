//! Drives stores whose calls block: in the caller's thread, or behind a queue with one writer thread.
//! Guarantees: P1 an operation ends after the store's commit returned; P2 behind the queue, a commit holds what was queued
//! while the one before it ran, and callers learn of its end after it.
//! Must not know: which store it is.
//! Next: peers/ has the stores.

use super::TargetError;
use super::store::StoreTarget;
use crate::driver::{Done, Lost, Session};
use crate::workload::Outcome;
use crate::workload::mixed::CODE_MISSING;
use crate::workload::operation::{Key, Kind, Operation};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Changes in one commit of a load, and at most in one of the writer thread.
const COMMIT_CHANGES_MAX: usize = 4096;
const LOAD_CHANGES: usize = 1000;

/// What went wrong in a store, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PeerError(pub String);

/// A change of one record: `None` removes it.
#[cfg_attr(not(any(feature = "peers", feature = "peer-rocksdb")), allow(dead_code))] // read by peers only
pub struct Change {
    /// Which.
    pub key: Key,
    /// What it becomes.
    pub value: Option<Vec<u8>>,
}

/// A store whose calls block.
pub trait Peer: Send + Sync {
    /// Name, version and settings that matter.
    fn describe(&self) -> String;
    /// Reads a record. True if it is there.
    fn get(&self, key: &[u8]) -> Result<bool, PeerError>;
    /// Reads up to `count` records in order from a key on. Gives how many there were.
    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError>;
    /// Commits changes at the level the store was opened for; returns when that is reached.
    fn write(&self, changes: &[Change]) -> Result<(), PeerError>;
}

/// A peer as a target.
pub struct PeerTarget {
    peer: Arc<dyn Peer>,
    writer: Option<Writer>,
}

struct Writer {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Option<JoinHandle<()>>,
}

/// A write on its way to the writer thread.
struct Job {
    token: usize,
    changes: Vec<Change>,
    ended: Sender<Done>,
}

impl PeerTarget {
    /// A peer, driven in the callers' threads or behind a queue.
    pub fn new(peer: Arc<dyn Peer>, behind_queue: bool) -> PeerTarget {
        let writer = behind_queue.then(|| {
            let (jobs, queue) = channel();
            let peer = Arc::clone(&peer);
            let thread = std::thread::spawn(move || commit_queued(peer.as_ref(), &queue));
            Writer { jobs: Mutex::new(Some(jobs)), thread: Some(thread) }
        });
        PeerTarget { peer, writer }
    }
}

fn commit_queued(peer: &dyn Peer, queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let (mut changes, mut callers) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(mut job) = next {
            changes.append(&mut job.changes);
            callers.push((job.token, job.ended));
            next = if changes.len() < COMMIT_CHANGES_MAX { queue.try_recv().ok() } else { None };
        }
        let outcome = ended(peer.write(&changes));
        for (token, caller) in callers {
            // A caller that is gone does not wait for this.
            let _ = caller.send(Done { token, outcome });
        }
    }
}

fn ended(result: Result<(), PeerError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Code(0),
        Err(_) => Outcome::Aborted,
    }
}

impl StoreTarget for PeerTarget {
    fn describe(&self) -> String {
        let form =
            if self.writer.is_some() { ", behind a queue and one writer thread" } else { ", called by every thread" };
        self.peer.describe() + form
    }

    fn load(&self, puts: &mut dyn Iterator<Item = Operation>) -> Result<(), TargetError> {
        let mut puts = puts.map(|put| change(&put)).peekable();
        while puts.peek().is_some() {
            let changes: Vec<Change> = puts.by_ref().take(LOAD_CHANGES).collect();
            self.peer.write(&changes)?;
        }
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session<Operation>>, TargetError> {
        let peer = Arc::clone(&self.peer);
        let jobs = self.writer.as_ref().and_then(|writer| {
            let jobs = writer.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.clone()
        });
        Ok(match jobs {
            None => Box::new(DirectSession { peer, queue: VecDeque::new() }),
            Some(jobs) => {
                let (ended, results) = channel();
                Box::new(QueuedSession { peer, jobs, ended, results, read: Vec::new() })
            }
        })
    }

    fn close(&mut self) -> Result<(), TargetError> {
        if let Some(mut writer) = self.writer.take() {
            *writer.jobs.lock().unwrap_or_else(PoisonError::into_inner) = None;
            if let Some(thread) = writer.thread.take() {
                thread.join().map_err(|_| PeerError("the writer thread panicked".to_owned()))?;
            }
        }
        Ok(())
    }
}

fn change(put: &Operation) -> Change {
    let mut value = Vec::with_capacity(put.bytes as usize + 8);
    put.value(&mut value);
    Change { key: put.key(), value: Some(value) }
}

fn changes(operation: &Operation) -> Vec<Change> {
    match operation.kind {
        Kind::Take => operation.keys().map(|key| Change { key, value: None }).collect(),
        _ => vec![change(operation)],
    }
}

/// The part of an operation that reads. `None` if it has none, or if a write follows.
fn read(peer: &dyn Peer, operation: &Operation) -> Option<Outcome> {
    let found = match operation.kind {
        Kind::Read => peer.get(&operation.key()),
        Kind::Scan => {
            let count = operation.count as usize;
            peer.scan(&operation.key(), count).map(|visited| visited == count)
        }
        // YCSB's read-modify-write is a read and then a write, and no transaction.
        Kind::Modify => return peer.get(&operation.key()).err().map(|_| Outcome::Aborted),
        Kind::Put | Kind::Insert | Kind::Take => return None,
    };
    Some(match found {
        Ok(true) => Outcome::Code(0),
        Ok(false) => Outcome::Code(CODE_MISSING),
        Err(_) => Outcome::Aborted,
    })
}

/// Calls the store in the thread that polls.
struct DirectSession {
    peer: Arc<dyn Peer>,
    queue: VecDeque<(usize, Operation)>,
}

impl Session<Operation> for DirectSession {
    fn submit(&mut self, token: usize, operation: &Operation) {
        self.queue.push_back((token, *operation));
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        let Some((token, operation)) = self.queue.pop_front() else {
            std::thread::sleep(limit);
            return Ok(());
        };
        let outcome =
            read(self.peer.as_ref(), &operation).unwrap_or_else(|| ended(self.peer.write(&changes(&operation))));
        done.push(Done { token, outcome });
        Ok(())
    }
}

/// Reads by itself and hands writes to the writer thread.
struct QueuedSession {
    peer: Arc<dyn Peer>,
    jobs: Sender<Job>,
    ended: Sender<Done>,
    results: Receiver<Done>,
    read: Vec<Done>,
}

impl Session<Operation> for QueuedSession {
    fn submit(&mut self, token: usize, operation: &Operation) {
        if let Some(outcome) = read(self.peer.as_ref(), operation) {
            self.read.push(Done { token, outcome });
            return;
        }
        let job = Job { token, changes: changes(operation), ended: self.ended.clone() };
        if self.jobs.send(job).is_err() {
            self.read.push(Done { token, outcome: Outcome::Aborted });
        }
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        done.append(&mut self.read);
        if done.is_empty() && !limit.is_zero() {
            match self.results.recv_timeout(limit) {
                Ok(one) => done.push(one),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Lost("by its writer thread".to_owned())),
            }
        }
        done.extend(self.results.try_iter());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_contract as contract;
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A map whose commits take a while.
    #[derive(Default)]
    struct Map {
        records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        commits: AtomicU64,
    }

    impl Peer for Map {
        fn describe(&self) -> String {
            "a map".to_owned()
        }
        fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
            Ok(self.records.lock().unwrap().contains_key(key))
        }
        fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
            Ok(self.records.lock().unwrap().range(from.to_vec()..).take(count).count())
        }
        fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
            self.commits.fetch_add(1, Ordering::Relaxed);
            let mut records = self.records.lock().unwrap();
            for Change { key, value } in changes {
                match value {
                    Some(value) => records.insert(key.to_vec(), value.clone()),
                    None => records.remove(key.as_slice()),
                };
            }
            drop(records);
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }
    }

    #[test]
    fn both_forms_keep_the_contract_of_stores() {
        for behind_queue in [false, true] {
            let mut target = PeerTarget::new(Arc::new(Map::default()), behind_queue);
            contract::check(&target);
            target.close().unwrap();
        }
    }

    #[test]
    fn behind_the_queue_many_writes_share_a_commit() {
        let map = Arc::new(Map::default());
        let peer: Arc<dyn Peer> = map.clone();
        let mut target = PeerTarget::new(peer, true);
        contract::check(&target);
        target.close().unwrap();
        // 3 for the load, 4 writes one by one, and a few for the 200 at once.
        assert!(map.commits.load(Ordering::Relaxed) < 60);
    }
}
