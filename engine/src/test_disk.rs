//! A small disk in memory for the unit tests of snapshots, checkpoints and recovery.
//! Guarantees: forgets at a crash what was not synced, names included; notes the order of what changes it.
//! Must not know: formats. The full simulation is `SimStorage`; this one can stop after exactly so many changes.
//! Next: nothing; tests only.

use crate::disk::{
    Buffer, Completion, Disk, DiskError, DiskErrorKind, DiskReport, DiskWaker, FileId, Listed, LockGuard, OpenMode,
    Operation, Space, Storage,
};
use crate::units::Nanos;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Default)]
struct State {
    contents: Vec<Content>,
    names: BTreeMap<String, usize>,
    names_durable: BTreeMap<String, usize>,
    trace: Vec<String>,
    changes_left: Option<u64>,
    capacity: Option<u64>,
    largest_buffer: usize,
}

/// The medium; clones share it.
#[derive(Clone, Default)]
pub struct TestStorage(Arc<Mutex<State>>);

impl TestStorage {
    /// What is left after a power cut: only what was synced, or, with `lucky`, everything.
    pub fn crash(&self, lucky: bool) -> TestStorage {
        let state = self.0.lock();
        let contents = state.contents.iter().map(|content| {
            let left = if lucky { content.now.clone() } else { content.durable.clone() };
            Content { now: left.clone(), durable: left }
        });
        let names = if lucky { state.names.clone() } else { state.names_durable.clone() };
        let left =
            State { contents: contents.collect(), names: names.clone(), names_durable: names, ..State::default() };
        TestStorage(Arc::new(Mutex::new(left)))
    }

    /// Every change after the next `changes` fails.
    pub fn stop_after(&self, changes: u64) {
        self.0.lock().changes_left = Some(changes);
    }

    /// Limits the room for files.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// The changes so far, one word and a name each.
    pub fn trace(&self) -> Vec<String> {
        self.0.lock().trace.clone()
    }

    /// Length of the largest buffer asked for since the start.
    pub fn largest_buffer(&self) -> usize {
        self.0.lock().largest_buffer
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.contents[state.names[name]].now.clone()
    }

    /// Puts a file there, durably.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.0.lock();
        state.contents.push(Content { now: bytes.clone(), durable: bytes });
        let inode = state.contents.len() - 1;
        state.names.insert(name.to_owned(), inode);
        state.names_durable.insert(name.to_owned(), inode);
    }

    /// Takes a file away, durably.
    pub fn take(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.names_durable.remove(name);
    }
}

impl Storage for TestStorage {
    fn disk(&self) -> Result<Box<dyn Disk>, DiskError> {
        let disk =
            TestDisk { storage: self.clone(), open: Vec::new(), done: Vec::new(), report: DiskReport::default() };
        Ok(Box::new(disk))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

struct TestDisk {
    storage: TestStorage,
    open: Vec<Option<(String, usize)>>,
    done: Vec<Completion>,
    report: DiskReport,
}

fn error(operation: &'static str, name: &str, kind: DiskErrorKind) -> DiskError {
    DiskError { operation, file: name.to_owned(), kind }
}

impl State {
    fn change(&mut self, operation: &'static str, name: &str) -> Result<(), DiskError> {
        if let Some(left) = &mut self.changes_left {
            *left = left.checked_sub(1).ok_or_else(|| error(operation, name, DiskErrorKind::Io("stopped".into())))?;
        }
        self.trace.push(format!("{operation} {name}"));
        Ok(())
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(offset + new.len()), 0);
    bytes[offset..offset + new.len()].copy_from_slice(new);
}

impl TestDisk {
    fn named(&self, file: FileId) -> (String, usize) {
        self.open[file.0 as usize].clone().expect("the file is open")
    }

    fn run(&self, operation: &mut Operation) -> Result<(), DiskError> {
        let mut state = self.storage.0.lock();
        match operation {
            Operation::Write { file, offset, buffer, durable } => {
                let (name, inode) = self.named(*file);
                state.change(if *durable { "write_durable" } else { "write" }, &name)?;
                write(&mut state.contents[inode].now, *offset as usize, buffer);
                if *durable {
                    write(&mut state.contents[inode].durable, *offset as usize, buffer);
                }
            }
            Operation::Read { file, offset, buffer } => {
                let (name, inode) = self.named(*file);
                let at = *offset as usize;
                let bytes = state.contents[inode].now.get(at..at + buffer.len());
                let bytes = bytes.ok_or_else(|| error("read", &name, DiskErrorKind::Io("past the end".into())))?;
                buffer.copy_from_slice(bytes);
            }
            Operation::Sync { file } => {
                let (name, inode) = self.named(*file);
                state.change("sync", &name)?;
                state.contents[inode].durable = state.contents[inode].now.clone();
            }
        }
        Ok(())
    }
}

impl Disk for TestDisk {
    fn report(&self) -> &DiskReport {
        &self.report
    }
    fn buffer(&mut self, bytes: usize) -> Buffer {
        let mut state = self.storage.0.lock();
        state.largest_buffer = state.largest_buffer.max(bytes);
        Buffer::zeroed(bytes)
    }
    fn submit(&mut self, token: u64, mut operation: Operation) {
        let result = self.run(&mut operation);
        let buffer = match operation {
            Operation::Write { buffer, .. } | Operation::Read { buffer, .. } => Some(buffer),
            Operation::Sync { .. } => None,
        };
        self.done.insert(0, Completion { token, buffer, result });
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.done.pop());
    }
    fn wait(&mut self, _limit: Option<Nanos>) {}
    fn waker(&self) -> DiskWaker {
        DiskWaker(Arc::new(|| {}))
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        let mut state = self.storage.0.lock();
        let inode = match (state.names.get(name).copied(), mode) {
            (None, OpenMode::Create) => {
                state.change("create", name)?;
                state.contents.push(Content::default());
                let inode = state.contents.len() - 1;
                state.names.insert(name.to_owned(), inode);
                inode
            }
            (Some(_), OpenMode::Create) => return Err(error("open", name, DiskErrorKind::Exists)),
            (None, _) => return Err(error("open", name, DiskErrorKind::NotFound)),
            (Some(inode), _) => inode,
        };
        self.open.push(Some((name.to_owned(), inode)));
        Ok(FileId(self.open.len() as u32 - 1))
    }
    fn close(&mut self, file: FileId) {
        let closed = self.open[file.0 as usize].take();
        assert!(closed.is_some(), "a file is closed once");
    }
    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError> {
        let inode = self.named(file).1;
        Ok(self.storage.0.lock().contents[inode].now.len() as u64)
    }
    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        let (name, inode) = self.named(file);
        let mut state = self.storage.0.lock();
        if state.capacity.is_some_and(|capacity| bytes > capacity) {
            return Err(error("allocate", &name, DiskErrorKind::Full));
        }
        state.contents[inode].now.resize(bytes as usize, 0);
        Ok(())
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.storage.0.lock();
        state.change("rename", to)?;
        let inode = state.names.remove(from).ok_or_else(|| error("rename", from, DiskErrorKind::NotFound))?;
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let mut state = self.storage.0.lock();
        if !state.names.contains_key(name) {
            return Err(error("remove", name, DiskErrorKind::NotFound));
        }
        state.change("remove", name)?;
        state.names.remove(name);
        Ok(())
    }
    fn create_directory(&mut self, _name: &str) -> Result<(), DiskError> {
        Ok(())
    }
    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        let state = self.storage.0.lock();
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let listed = state.names.iter().filter_map(|(name, inode)| {
            let name = name.strip_prefix(&prefix).filter(|name| !name.contains('/'))?;
            Some(Listed { name: name.to_owned(), bytes: state.contents[*inode].now.len() as u64 })
        });
        Ok(listed.collect())
    }
    fn sync_directory(&mut self, directory: &str) -> Result<(), DiskError> {
        let mut state = self.storage.0.lock();
        state.change("sync_directory", directory)?;
        let inside = |name: &str| name.rsplit_once('/').map_or("", |(parent, _)| parent) == directory;
        let names = state.names.clone();
        state.names_durable.retain(|name, _| !inside(name));
        state.names_durable.extend(names.into_iter().filter(|(name, _)| inside(name)));
        Ok(())
    }
    fn space(&mut self) -> Result<Space, DiskError> {
        Ok(Space { total: 1 << 40, free: 1 << 40 })
    }
    fn lock(&mut self, name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        Err(error("lock", name, DiskErrorKind::InUse))
    }
}
