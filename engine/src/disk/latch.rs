//! Makes the first failed write or sync final, for every backend and all users of one store (C6).
//! Guarantees: after the first failure no write or sync is reported as done and none reaches the disk; each gets the
//! first error. Reads go on. Why: after a failed sync the system may drop the unsynced bytes and report success to
//! the next one, so that a retry would be a lie.
//! A lack of space in `allocate` or `open` does not latch: nothing durable was promised yet.
//! Must not know: who writes what.
//! Next: os.rs and sim/ are what it wraps.

use super::names::check_directory;
use super::{
    Buffer, Completion, Disk, DiskError, DiskErrorKind, DiskReport, DiskWaker, FileId, Listed, LockGuard, OpenMode,
    Operation, Space, Storage,
};
use crate::canary::{Canary, planted};
use crate::units::Nanos;
use std::sync::{Arc, OnceLock};

/// What all disks of one store share: the first failure, if there was one.
#[derive(Debug, Default)]
pub struct LatchState {
    failure: OnceLock<DiskError>,
}

impl LatchState {
    /// The first failed write or sync.
    pub fn failure(&self) -> Option<DiskError> {
        self.failure.get().cloned()
    }

    /// Takes note of a failure and returns the first one.
    fn latch(&self, error: DiskError) -> DiskError {
        self.failure.get_or_init(|| error).clone()
    }

    fn check(&self) -> Result<(), DiskError> {
        self.failure().map_or(Ok(()), Err)
    }
}

/// A disk whose failures are final.
pub struct Latch {
    inner: Box<dyn Disk>,
    state: Arc<LatchState>,
    refused: Vec<Completion>,
    /// Tokens of the reads in flight: a completion does not say what it was.
    reads: Vec<u64>,
}

impl Latch {
    /// Wraps a disk. All disks of one store get the same state.
    pub fn new(inner: Box<dyn Disk>, state: Arc<LatchState>) -> Latch {
        Latch { inner, state, refused: Vec::new(), reads: Vec::new() }
    }

    /// What a completion means once the latch is taken into account.
    fn judge(&mut self, completion: &mut Completion) {
        if let Some(place) = self.reads.iter().position(|token| *token == completion.token) {
            self.reads.swap_remove(place);
            return;
        }
        completion.result = match std::mem::replace(&mut completion.result, Ok(())) {
            Err(error) if planted(Canary::SyncRetried) => Err(error),
            Err(error) => Err(self.state.latch(error)),
            // It may well be on the disk, but what it builds on is not.
            Ok(()) => self.state.check(),
        };
    }
}

impl Disk for Latch {
    fn report(&self) -> &DiskReport {
        self.inner.report()
    }

    fn buffer(&mut self, bytes: usize) -> Buffer {
        self.inner.buffer(bytes)
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        if matches!(operation, Operation::Read { .. }) {
            self.reads.push(token);
        } else if let Some(failure) = self.state.failure() {
            let buffer = match operation {
                Operation::Write { buffer, .. } | Operation::Read { buffer, .. } => Some(buffer),
                Operation::Sync { .. } => None,
            };
            self.refused.push(Completion { token, buffer, result: Err(failure) });
            return;
        }
        self.inner.submit(token, operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let known = done.len();
        self.inner.poll(done);
        for completion in &mut done[known..] {
            self.judge(completion);
        }
        done.append(&mut self.refused);
    }

    fn wait(&mut self, limit: Option<Nanos>) {
        if self.refused.is_empty() {
            self.inner.wait(limit);
        }
    }

    fn waker(&self) -> DiskWaker {
        self.inner.waker()
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        self.inner.open(name, mode)
    }

    fn close(&mut self, file: FileId) {
        self.inner.close(file);
    }

    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.inner.file_bytes(file)
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        self.inner.allocate(file, bytes)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.inner.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.inner.remove(name)
    }

    fn create_directory(&mut self, name: &str) -> Result<(), DiskError> {
        self.inner.create_directory(name)
    }

    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        self.inner.list(directory)
    }

    fn sync_directory(&mut self, directory: &str) -> Result<(), DiskError> {
        // A name that cannot be is the caller's mistake and no failure of the disk.
        check_directory("sync directory", directory)?;
        self.state.check()?;
        self.inner.sync_directory(directory).map_err(|error| match error.kind {
            DiskErrorKind::NotFound => error,
            _ => self.state.latch(error),
        })
    }

    fn space(&mut self) -> Result<Space, DiskError> {
        self.inner.space()
    }

    fn lock(&mut self, name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        if planted(Canary::LockNotTaken) {
            return Ok(Box::new(Canary::LockNotTaken));
        }
        self.inner.lock(name)
    }
}

/// Storage whose disks share one latch.
#[derive(Clone)]
pub struct LatchedStorage {
    inner: Arc<dyn Storage>,
    state: Arc<LatchState>,
}

impl LatchedStorage {
    /// Wraps a storage with a latch of its own.
    pub fn new(inner: Arc<dyn Storage>) -> LatchedStorage {
        LatchedStorage { inner, state: Arc::default() }
    }

    /// The shared state.
    pub fn state(&self) -> Arc<LatchState> {
        Arc::clone(&self.state)
    }
}

impl Storage for LatchedStorage {
    fn disk(&self) -> Result<Box<dyn Disk>, DiskError> {
        Ok(Box::new(Latch::new(self.inner.disk()?, self.state())))
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockingDisk, SimFault, SimOperation, SimOptions, SimStorage, conformance};
    use super::*;

    fn latched(options: SimOptions) -> (SimStorage, LatchedStorage) {
        let sim = SimStorage::new(options);
        (sim.clone(), LatchedStorage::new(Arc::new(sim)))
    }

    fn fault(operation: SimOperation, kind: DiskErrorKind) -> SimFault {
        SimFault { operation, skip: 0, lasting: false, kind }
    }

    #[test]
    fn a_latched_disk_keeps_the_contract() {
        conformance::run(&latched(SimOptions::default()).1);
        conformance::run(&latched(SimOptions { latency_steps_max: 5, ..SimOptions::default() }).1);
    }

    #[test]
    fn the_first_failed_write_is_every_later_ones_error_on_all_disks() {
        for operation in [SimOperation::Write, SimOperation::Sync] {
            let (sim, storage) = latched(SimOptions::default());
            let mut log = storage.disk().unwrap();
            let mut maintenance = storage.disk().unwrap();
            let file = log.open("log", OpenMode::Create).unwrap();
            let other = maintenance.open("snapshot", OpenMode::Create).unwrap();
            log.write_at(file, 0, Buffer::zeroed(1), true).unwrap();
            assert_eq!(storage.state().failure(), None);
            sim.fail(fault(operation, DiskErrorKind::Io("broken".to_owned())));
            let written = log.write_at(file, 4096, Buffer::zeroed(1), false).map(drop);
            let first = written.and_then(|()| log.sync(file)).unwrap_err();
            let counts = sim.counts();
            assert_eq!(log.write_at(file, 0, Buffer::zeroed(1), false).unwrap_err(), first);
            assert_eq!(maintenance.write_at(other, 0, Buffer::zeroed(1), true).unwrap_err(), first);
            assert_eq!(maintenance.sync(other).unwrap_err(), first);
            assert_eq!(maintenance.sync_directory("").unwrap_err(), first);
            assert_eq!(sim.counts(), counts, "nothing reaches the disk any more");
            assert_eq!(storage.state().failure(), Some(first));
            log.read_at(file, 0, Buffer::zeroed(1)).expect("reads go on");
        }
    }

    #[test]
    fn what_was_in_flight_at_the_failure_is_not_reported_as_done() {
        let (sim, storage) = latched(SimOptions { latency_steps_max: 1, ..SimOptions::default() });
        let mut disk = storage.disk().unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        sim.fail(fault(SimOperation::Write, DiskErrorKind::Full));
        for token in 0..3 {
            disk.submit(
                token,
                Operation::Write { file, offset: token * 4096, buffer: Buffer::zeroed(1), durable: true },
            );
        }
        let mut done = Vec::new();
        while done.len() < 3 {
            disk.wait(None);
            disk.poll(&mut done);
        }
        assert!(done.iter().all(|completion| completion.result.is_err()));
        assert!(done.iter().all(|completion| completion.buffer.is_some()));
    }

    #[test]
    fn a_lack_of_space_latches_only_where_something_was_being_written() {
        let (sim, storage) = latched(SimOptions { capacity_bytes: 8192, ..SimOptions::default() });
        let mut disk = storage.disk().unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        assert_eq!(disk.allocate(file, 16384).unwrap_err().kind, DiskErrorKind::Full);
        sim.fail(fault(SimOperation::Open, DiskErrorKind::Full));
        assert_eq!(disk.open("other", OpenMode::Create).unwrap_err().kind, DiskErrorKind::Full);
        disk.write_at(file, 0, Buffer::zeroed(8192), true).expect("there is room for this");
        assert_eq!(disk.write_at(file, 8192, Buffer::zeroed(1), true).unwrap_err().kind, DiskErrorKind::Full);
        assert!(storage.state().failure().is_some());
    }

    #[test]
    fn a_failed_read_latches_nothing() {
        let (sim, storage) = latched(SimOptions::default());
        let mut disk = storage.disk().unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        disk.write_at(file, 0, Buffer::zeroed(1), true).unwrap();
        sim.fail(fault(SimOperation::Read, DiskErrorKind::Io("broken".to_owned())));
        assert!(disk.read_at(file, 0, Buffer::zeroed(1)).is_err());
        disk.write_at(file, 0, Buffer::zeroed(1), true).expect("writes go on");
        assert_eq!(storage.state().failure(), None);
    }
}
