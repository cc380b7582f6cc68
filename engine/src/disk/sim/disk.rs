//! One user of a simulated medium.
//! Guarantees: keeps to the same names and alignment rules as the real backends.
//! Must not know: what lasts and what fails; medium.rs decides.
//! `wait` lets simulated time pass while something is in flight, and sleeps for real on the waker while nothing is.
//! Next: medium.rs.

use super::super::files::assert_aligned;
use super::super::names::{check_directory, check_name, own_error};
use super::super::sleeper::Sleeper;
use super::super::{
    Completion, Disk, DiskError, DiskErrorKind, DiskReport, DiskWaker, FileId, Listed, LockGuard, OpenMode, Operation,
    Space,
};
use super::faults::SimOperation;
use super::medium::{Medium, Work, dead};
use super::tree::{NameError, NodeId};
use crate::units::Nanos;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user's hold on the medium.
pub(super) struct SimDisk {
    medium: Arc<Mutex<Medium>>,
    sleeper: Arc<Sleeper>,
    user: u64,
    report: DiskReport,
    open: BTreeMap<u32, OpenFile>,
    next: u32,
}

#[derive(Clone)]
struct OpenFile {
    node: NodeId,
    name: String,
    mode: OpenMode,
}

impl SimDisk {
    pub(super) fn new(medium: Arc<Mutex<Medium>>, sleeper: Arc<Sleeper>) -> SimDisk {
        let user = medium.lock().new_user();
        let report = DiskReport {
            backend: "simulated",
            direct: true,
            file_system: "simulated".to_owned(),
            notes: vec!["not durable: simulated".to_owned()],
        };
        SimDisk { medium, sleeper, user, report, open: BTreeMap::new(), next: 0 }
    }

    fn get(&self, file: FileId) -> &OpenFile {
        self.open.get(&file.0).expect("a file id names an open file of this disk")
    }

    /// The medium for a call on names, unless it is dead or a fault strikes.
    fn begin(
        &self,
        word: &'static str,
        name: &str,
        operation: SimOperation,
    ) -> Result<MutexGuard<'_, Medium>, DiskError> {
        let mut medium = self.medium.lock();
        medium.count_down();
        let failed = |kind| DiskError { operation: word, file: name.to_owned(), kind };
        if medium.dead {
            return Err(failed(dead()));
        }
        match medium.faults.strike(operation) {
            Some(kind) => Err(failed(kind)),
            None => Ok(medium),
        }
    }
}

fn name_error(operation: &'static str, name: &str, error: NameError) -> DiskError {
    let kind = match error {
        NameError::NotFound => DiskErrorKind::NotFound,
        NameError::Exists => DiskErrorKind::Exists,
        NameError::NotAFile => DiskErrorKind::Io("it is a directory".to_owned()),
        NameError::NotADirectory => DiskErrorKind::Io("it is not a directory".to_owned()),
    };
    DiskError { operation, file: name.to_owned(), kind }
}

impl Disk for SimDisk {
    fn report(&self) -> &DiskReport {
        &self.report
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        assert_aligned(&operation);
        let mut medium = self.medium.lock();
        let (file, work) = match operation {
            Operation::Write { file, offset, buffer, .. } if self.get(file).mode == OpenMode::Read => {
                let error = own_error("write", &self.get(file).name, format!("open for reading, at byte {offset}"));
                let completion = Completion { token, buffer: Some(buffer), result: Err(error) };
                return medium.refuse(self.user, completion);
            }
            Operation::Write { file, offset, buffer, durable } => {
                (file, Work::Write { place: offset as usize, buffer, durable })
            }
            Operation::Read { file, offset, buffer } => (file, Work::Read { place: offset as usize, buffer }),
            Operation::Sync { file } => {
                (file, Work::Sync { sequence: medium.tree.file(self.get(file).node).sequence() })
            }
        };
        let file = self.get(file);
        medium.submit(self.user, token, file.node, &file.name, work);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.medium.lock().take_done(self.user, done);
    }

    fn wait(&mut self, limit: Option<Nanos>) {
        let mut medium = self.medium.lock();
        if medium.has_done(self.user) || medium.advance_for(self.user) {
            self.sleeper.forget();
            return;
        }
        drop(medium);
        self.sleeper.sleep(limit);
    }

    fn waker(&self) -> DiskWaker {
        self.sleeper.waker()
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        check_name("open", name)?;
        let mut medium = self.begin("open", name, SimOperation::Open)?;
        let found = match mode {
            OpenMode::Read | OpenMode::Write => medium.tree.find_file(name),
            OpenMode::Create => medium.tree.create_file(name),
        };
        let node = found.map_err(|error| name_error("open", name, error))?;
        medium.opened(node);
        drop(medium);
        let file = FileId(self.next);
        self.next += 1;
        self.open.insert(file.0, OpenFile { node, name: name.to_owned(), mode });
        Ok(file)
    }

    fn close(&mut self, file: FileId) {
        let closed = self.open.remove(&file.0).expect("a file id names an open file of this disk");
        let mut medium = self.medium.lock();
        let in_flight = medium.is_in_flight(self.user, closed.node);
        assert!(!in_flight, "a file is closed while something of it is in flight");
        medium.closed(closed.node);
    }

    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError> {
        let file = self.get(file);
        let medium = self.begin("ask for length of", &file.name, SimOperation::Length)?;
        Ok(medium.tree.file(file.node).content().len() as u64)
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        let file = self.get(file);
        let mut medium = self.begin("allocate", &file.name, SimOperation::Allocate)?;
        let growth = bytes.saturating_sub(medium.tree.file(file.node).content().len() as u64);
        if growth > medium.free_bytes() {
            return Err(DiskError { operation: "allocate", file: file.name.clone(), kind: DiskErrorKind::Full });
        }
        medium.tree.file_mut(file.node).set_length(bytes as usize);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        check_name("rename", from)?;
        check_name("rename", to)?;
        let mut medium = self.begin("rename", from, SimOperation::Rename)?;
        medium.tree.rename(from, to).map_err(|error| name_error("rename", from, error))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        check_name("remove", name)?;
        let mut medium = self.begin("remove", name, SimOperation::Remove)?;
        medium.tree.remove(name).map_err(|error| name_error("remove", name, error))
    }

    fn create_directory(&mut self, name: &str) -> Result<(), DiskError> {
        check_name("create directory", name)?;
        let mut medium = self.begin("create directory", name, SimOperation::CreateDirectory)?;
        medium.tree.create_directory(name).map_err(|error| name_error("create directory", name, error))
    }

    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        check_directory("list", directory)?;
        let medium = self.begin("list", directory, SimOperation::List)?;
        medium.tree.list(directory).map_err(|error| name_error("list", directory, error))
    }

    fn sync_directory(&mut self, directory: &str) -> Result<(), DiskError> {
        check_directory("sync directory", directory)?;
        let mut medium = self.begin("sync directory", directory, SimOperation::SyncDirectory)?;
        medium.counts.directory_syncs += 1;
        medium.tree.sync_directory(directory).map_err(|error| name_error("sync directory", directory, error))?;
        medium.sweep();
        Ok(())
    }

    fn space(&mut self) -> Result<Space, DiskError> {
        let medium = self.begin("ask for space of", "", SimOperation::Space)?;
        Ok(Space { total: medium.options.capacity_bytes, free: medium.free_bytes() })
    }

    fn lock(&mut self, name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        check_name("lock", name)?;
        let mut medium = self.begin("lock", name, SimOperation::Lock)?;
        if medium.tree.find_file(name) == Err(NameError::NotFound) {
            medium.tree.create_file(name).map_err(|error| name_error("lock", name, error))?;
        }
        if !medium.locks.insert(name.to_owned()) {
            return Err(DiskError { operation: "lock", file: name.to_owned(), kind: DiskErrorKind::InUse });
        }
        Ok(Box::new(SimLock { medium: Arc::clone(&self.medium), name: name.to_owned() }))
    }
}

impl Drop for SimDisk {
    fn drop(&mut self) {
        let mut medium = self.medium.lock();
        medium.forget_user(self.user);
        self.open.values().for_each(|file| medium.closed(file.node));
    }
}

struct SimLock {
    medium: Arc<Mutex<Medium>>,
    name: String,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.medium.lock().locks.remove(&self.name);
    }
}
