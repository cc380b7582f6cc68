//! A small disk in memory for the log's own tests, until disk/sim.rs is there for the whole engine.
//! Guarantees: unsynced writes and names are lost by `crash`; operations complete when `poll` is called, newest first if told so.
//! Must not know: formats.
//! Next: tests/ uses it.

use crate::disk::*;
use crate::units::{FileOffset, Nanos};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is stored, shared by all disks of one storage.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub files: BTreeMap<String, Vec<u8>>,
    durable: BTreeMap<String, Vec<u8>>,
    /// Operations so far: "write", "write durable", "sync", "open", …
    pub operations: Vec<String>,
    /// Fail the operation with this name, once for each.
    pub failures: Vec<(String, DiskErrorKind)>,
    pub free_bytes: u64,
    pub newest_first: bool,
}

#[derive(Clone, Default)]
pub(super) struct TestStorage(pub Arc<Mutex<State>>);

impl TestStorage {
    pub fn new() -> TestStorage {
        let storage = TestStorage::default();
        storage.0.lock().free_bytes = 1 << 40;
        storage
    }

    pub fn disk(&self) -> Box<dyn Disk> {
        Box::new(TestDisk {
            state: self.0.clone(),
            open: Vec::new(),
            pending: Vec::new(),
            report: DiskReport { backend: "test", ..DiskReport::default() },
        })
    }

    /// Power is lost: only what was made durable is left.
    pub fn crash(&self) {
        let mut state = self.0.lock();
        state.files = state.durable.clone();
    }

    pub fn copy(&self) -> TestStorage {
        TestStorage(Arc::new(Mutex::new(self.0.lock().clone())))
    }
}

struct TestDisk {
    state: Arc<Mutex<State>>,
    open: Vec<String>,
    pending: Vec<(u64, Operation)>,
    report: DiskReport,
}

impl State {
    fn note(&mut self, operation: &'static str, file: &str) -> Result<(), DiskError> {
        self.operations.push(operation.to_string());
        let Some(place) = self.failures.iter().position(|(name, _)| name == operation) else { return Ok(()) };
        let (_, kind) = self.failures.remove(place);
        Err(DiskError { operation, file: file.to_string(), kind })
    }
}

fn missing(operation: &'static str, file: &str) -> DiskError {
    DiskError { operation, file: file.to_string(), kind: DiskErrorKind::NotFound }
}

impl TestDisk {
    fn run(&mut self, operation: Operation) -> (Option<Buffer>, Result<(), DiskError>) {
        let mut state = self.state.lock();
        match operation {
            Operation::Write { file, offset, buffer, durable } => {
                let name = self.open[file.0 as usize].clone();
                let result = state.note(if durable { "write durable" } else { "write" }, &name).map(|()| {
                    put(state.files.get_mut(&name).expect("open file"), offset, &buffer);
                    if durable {
                        put(state.durable.get_mut(&name).expect("its name is durable"), offset, &buffer);
                    }
                });
                (Some(buffer), result)
            }
            Operation::Read { file, offset, mut buffer } => {
                let name = &self.open[file.0 as usize];
                let bytes = &state.files[name];
                let from = offset as usize;
                let length = buffer.len();
                buffer.copy_from_slice(&bytes[from..from + length]);
                (Some(buffer), Ok(()))
            }
            Operation::Sync { file } => {
                let name = self.open[file.0 as usize].clone();
                let result = state.note("sync", &name);
                if result.is_ok() {
                    let bytes = state.files[&name].clone();
                    state.durable.insert(name, bytes);
                }
                (None, result)
            }
        }
    }
}

fn put(bytes: &mut [u8], offset: FileOffset, buffer: &[u8]) {
    let from = offset as usize;
    bytes[from..from + buffer.len()].copy_from_slice(buffer);
}

impl Disk for TestDisk {
    fn report(&self) -> &DiskReport {
        &self.report
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.pending.push((token, operation));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let mut pending = std::mem::take(&mut self.pending);
        if self.state.lock().newest_first {
            pending.reverse();
        }
        for (token, operation) in pending {
            let (buffer, result) = self.run(operation);
            done.push(Completion { token, buffer, result });
        }
    }

    fn wait(&mut self, limit: Option<Nanos>) {
        assert!(limit.is_some() || !self.pending.is_empty(), "a test waits for nothing");
    }

    fn waker(&self) -> DiskWaker {
        let state = self.state.clone();
        DiskWaker(Arc::new(move || state.lock().operations.push("wake".to_string())))
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        let mut state = self.state.lock();
        match mode {
            OpenMode::Create => {
                state.note("create", name)?;
                state.files.insert(name.to_string(), Vec::new());
            }
            _ if !state.files.contains_key(name) => return Err(missing("open", name)),
            _ => {}
        }
        self.open.push(name.to_string());
        Ok(FileId(self.open.len() as u32 - 1))
    }

    fn close(&mut self, _file: FileId) {}

    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError> {
        Ok(self.state.lock().files[&self.open[file.0 as usize]].len() as u64)
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        let name = &self.open[file.0 as usize];
        let mut state = self.state.lock();
        state.note("allocate", name)?;
        let used: u64 = state.files.values().map(|file| file.len() as u64).sum();
        if used + bytes > state.free_bytes {
            return Err(DiskError { operation: "allocate", file: name.clone(), kind: DiskErrorKind::Full });
        }
        state.files.insert(name.clone(), vec![0; bytes as usize]);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.state.lock();
        state.note("rename", from)?;
        let bytes = state.files.remove(from).ok_or_else(|| missing("rename", from))?;
        state.files.insert(to.to_string(), bytes);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.state.lock().files.remove(name).map(|_| ()).ok_or_else(|| missing("remove", name))
    }

    fn create_directory(&mut self, _name: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        let prefix = format!("{directory}/");
        let state = self.state.lock();
        let named = |(name, bytes): (&String, &Vec<u8>)| {
            let name = name.strip_prefix(&prefix)?.to_string();
            Some(Listed { name, bytes: bytes.len() as u64 })
        };
        Ok(state.files.iter().filter_map(named).collect())
    }

    fn sync_directory(&mut self, _directory: &str) -> Result<(), DiskError> {
        let mut state = self.state.lock();
        state.note("sync directory", "")?;
        // Names last from here on; the bytes of a renamed file were durable under its old name.
        let names: Vec<_> = state.files.keys().cloned().collect();
        let mut durable = std::mem::take(&mut state.durable);
        durable.retain(|name, _| state.files.contains_key(name));
        for name in names {
            let bytes = state.files[&name].clone();
            durable.entry(name).or_insert(bytes);
        }
        state.durable = durable;
        Ok(())
    }

    fn space(&mut self) -> Result<Space, DiskError> {
        Ok(Space { total: 1 << 40, free: 1 << 40 })
    }

    fn lock(&mut self, _name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        unimplemented!("the log locks nothing")
    }
}
