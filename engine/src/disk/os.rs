//! Storage in a directory of the operating system, through io_uring where it is allowed and plain calls where not.
//! Guarantees: the directory exists and its name is durable once the storage is made; a fall-back is always noted.
//! Must not know: formats.
//! Next: syscall.rs and uring.rs are the two data paths; names.rs and files.rs do the rest.

use super::files::Files;
use super::names::{Names, disk_error, own_error};
use super::syscall::Syscall;
use super::uring::Uring;
use super::{
    Buffer, Completion, Disk, DiskError, DiskReport, DiskWaker, FileId, Listed, LockGuard, OpenMode, Operation, Space,
    Storage,
};
use crate::error::Refused;
use crate::units::Nanos;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// How data is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring if the kernel lets us, plain calls if not.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Plain calls.
    Syscall,
}

impl FromStr for IoMode {
    type Err = Refused;

    fn from_str(word: &str) -> Result<IoMode, Refused> {
        match word {
            "auto" => Ok(IoMode::Auto),
            "uring" => Ok(IoMode::Uring),
            "syscall" => Ok(IoMode::Syscall),
            _ => Err(Refused::Setting { name: "io", value: word.to_owned(), rule: "auto, uring or syscall" }),
        }
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoMode::Auto => "auto",
            IoMode::Uring => "uring",
            IoMode::Syscall => "syscall",
        })
    }
}

/// A directory as storage.
pub struct OsStorage {
    names: Arc<Names>,
    mode: IoMode,
    /// For tests: behave as if the kernel refused io_uring with this error.
    uring_refusal: Option<Errno>,
}

impl OsStorage {
    /// Storage in a directory, which is made durably if it is missing, with its parents.
    pub fn new(path: impl Into<PathBuf>, mode: IoMode) -> Result<OsStorage, DiskError> {
        let path = path.into();
        create_path(&path)?;
        OsStorage::at(&path, mode, false)
    }

    /// Storage in a directory that must be there.
    pub fn existing(path: impl Into<PathBuf>, mode: IoMode) -> Result<OsStorage, DiskError> {
        OsStorage::at(&path.into(), mode, false)
    }

    /// As `existing`, for tools: whatever would change something is refused.
    pub fn read_only(path: impl Into<PathBuf>) -> Result<OsStorage, DiskError> {
        OsStorage::at(&path.into(), IoMode::Auto, true)
    }

    fn at(path: &Path, mode: IoMode, read_only: bool) -> Result<OsStorage, DiskError> {
        let root = open_directory("open", path)?;
        let place = path.display().to_string();
        Ok(OsStorage { names: Arc::new(Names { root, place, read_only }), mode, uring_refusal: None })
    }

    fn uring(&self) -> Result<Uring, Errno> {
        match self.uring_refusal {
            Some(errno) => Err(errno),
            None => Uring::new(),
        }
    }
}

impl Storage for OsStorage {
    fn disk(&self) -> Result<Box<dyn Disk>, DiskError> {
        let names = || Arc::clone(&self.names);
        if self.mode == IoMode::Syscall {
            let files = Files::new(names(), "syscall")?;
            return Ok(Box::new(OsDisk { path: Syscall::default(), files }));
        }
        match self.uring() {
            Ok(path) => Ok(Box::new(OsDisk { path, files: Files::new(names(), "io_uring")? })),
            Err(errno) if self.mode == IoMode::Uring => {
                Err(own_error("set up io_uring for", &self.names.place, errno.to_string()))
            }
            Err(errno) => {
                let mut files = Files::new(names(), "syscall")?;
                files.note(format!("io_uring is refused ({errno}): plain system calls are used"));
                Ok(Box::new(OsDisk { path: Syscall::default(), files }))
            }
        }
    }

    fn place(&self) -> String {
        self.names.place.clone()
    }
}

/// Makes a directory and what is missing above it, each durable in its parent.
fn create_path(path: &Path) -> Result<(), DiskError> {
    match fs::stat(path) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(path_error("create", path, errno)),
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(path_error("create", path, Errno::NOENT)),
    };
    create_path(parent)?;
    match fs::mkdir(path, Mode::from_raw_mode(0o750)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(path_error("create", path, errno)),
    }
    let parent_fd = open_directory("sync", parent)?;
    fs::fsync(&parent_fd).map_err(|errno| path_error("sync", parent, errno))
}

fn open_directory(operation: &'static str, path: &Path) -> Result<OwnedFd, DiskError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty()).map_err(|errno| path_error(operation, path, errno))
}

fn path_error(operation: &'static str, path: &Path, errno: Errno) -> DiskError {
    disk_error(operation, &path.display().to_string(), errno)
}

/// The part of a disk that moves data.
pub(super) trait DataPath: Send {
    fn buffer(&mut self, files: &mut Files, bytes: usize) -> Buffer {
        let _ = files;
        Buffer::zeroed(bytes)
    }
    fn submit(&mut self, files: &mut Files, token: u64, operation: Operation);
    fn poll(&mut self, files: &mut Files, done: &mut Vec<Completion>);
    fn wait(&mut self, files: &mut Files, limit: Option<Nanos>);
    fn waker(&self) -> DiskWaker;
    fn is_in_flight(&self, file: FileId) -> bool;
}

struct OsDisk<P> {
    /// Dropped first: it waits for what is in flight on the files.
    path: P,
    files: Files,
}

impl<P: DataPath> Disk for OsDisk<P> {
    fn report(&self) -> &DiskReport {
        &self.files.report
    }

    fn buffer(&mut self, bytes: usize) -> Buffer {
        self.path.buffer(&mut self.files, bytes)
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.path.submit(&mut self.files, token, operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.path.poll(&mut self.files, done);
    }

    fn wait(&mut self, limit: Option<Nanos>) {
        self.path.wait(&mut self.files, limit);
    }

    fn waker(&self) -> DiskWaker {
        self.path.waker()
    }

    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        self.files.open(name, mode)
    }

    fn close(&mut self, file: FileId) {
        assert!(!self.path.is_in_flight(file), "a file is closed while something of it is in flight");
        self.files.close(file);
    }

    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.files.file_bytes(file)
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        self.files.allocate(file, bytes)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.files.names.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.files.names.remove(name)
    }

    fn create_directory(&mut self, name: &str) -> Result<(), DiskError> {
        self.files.names.create_directory(name)
    }

    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        self.files.names.list(directory)
    }

    fn sync_directory(&mut self, directory: &str) -> Result<(), DiskError> {
        self.files.names.sync_directory(directory)
    }

    fn space(&mut self) -> Result<Space, DiskError> {
        self.files.names.space()
    }

    fn lock(&mut self, name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        self.files.names.lock(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockingDisk, DiskErrorKind, conformance};
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a scratch directory can be made")
    }

    #[test]
    fn plain_calls_keep_the_contract() {
        let directory = directory();
        conformance::run(&OsStorage::new(directory.path(), IoMode::Syscall).unwrap());
    }

    #[test]
    fn io_uring_keeps_the_contract() {
        let directory = directory();
        let storage = OsStorage::new(directory.path(), IoMode::Uring).unwrap();
        match storage.disk() {
            Ok(_) => conformance::run(&storage),
            Err(error) => println!("skipped: {error}"),
        }
    }

    #[test]
    fn the_contract_holds_without_writes_that_sync_themselves() {
        let directory = directory();
        let storage = OsStorage::new(directory.path(), IoMode::Auto).unwrap();
        let mut files = Files::new(Arc::clone(&storage.names), "io_uring").unwrap();
        files.note_write_without_sync();
        files.note_write_without_sync();
        let Ok(path) = Uring::new() else { return println!("skipped: io_uring is refused") };
        let mut disk: Box<dyn Disk> = Box::new(OsDisk { path, files });
        let file = disk.open("file", OpenMode::Create).unwrap();
        let buffer = disk.buffer(8192);
        disk.write_at(file, 0, buffer, true).unwrap();
        assert_eq!(disk.file_bytes(file), Ok(8192));
        assert_eq!(disk.report().notes.iter().filter(|note| note.contains("RWF_DSYNC")).count(), 1);
    }

    #[test]
    fn a_refused_io_uring_is_replaced_by_plain_calls_and_noted() {
        let directory = directory();
        let mut storage = OsStorage::new(directory.path(), IoMode::Auto).unwrap();
        storage.uring_refusal = Some(Errno::PERM);
        let disk = storage.disk().unwrap();
        assert_eq!(disk.report().backend, "syscall");
        assert_eq!(disk.report().notes.iter().filter(|note| note.contains("io_uring is refused")).count(), 1);
        conformance::run(&storage);
    }

    #[test]
    fn a_refused_io_uring_is_an_error_where_it_was_asked_for() {
        let directory = directory();
        let mut storage = OsStorage::new(directory.path(), IoMode::Uring).unwrap();
        storage.uring_refusal = Some(Errno::NOSYS);
        assert!(storage.disk().is_err());
    }

    #[test]
    fn missing_directories_are_made_and_demanded_ones_are_not() {
        let directory = directory();
        let path = directory.path().join("a/b/c");
        assert!(matches!(OsStorage::existing(&path, IoMode::Syscall), Err(e) if e.kind == DiskErrorKind::NotFound));
        OsStorage::new(&path, IoMode::Syscall).unwrap();
        OsStorage::new(&path, IoMode::Syscall).unwrap();
        OsStorage::existing(&path, IoMode::Syscall).unwrap();
    }

    #[test]
    fn a_read_only_store_changes_nothing() {
        let directory = directory();
        let mut writer = OsStorage::new(directory.path(), IoMode::Syscall).unwrap().disk().unwrap();
        let file = writer.open("file", OpenMode::Create).unwrap();
        writer.write_at(file, 0, Buffer::zeroed(1), true).unwrap();

        let mut reader = OsStorage::read_only(directory.path()).unwrap().disk().unwrap();
        let is_refused =
            |result: Result<(), DiskError>| matches!(result, Err(e) if matches!(e.kind, DiskErrorKind::Io(_)));
        drop(reader.lock("lock").expect("where no lock file is, nobody holds it"));
        assert!(is_refused(reader.open("new", OpenMode::Create).map(drop)));
        assert!(is_refused(reader.open("file", OpenMode::Write).map(drop)));
        assert!(is_refused(reader.rename("file", "other")));
        assert!(is_refused(reader.remove("file")));
        assert!(is_refused(reader.create_directory("new")));
        assert!(is_refused(reader.sync_directory("")));
        let file = reader.open("file", OpenMode::Read).unwrap();
        reader.read_at(file, 0, Buffer::zeroed(1)).unwrap();
        assert!(is_refused(reader.write_at(file, 0, Buffer::zeroed(1), true).map(drop)));
        assert!(is_refused(reader.allocate(file, 8192)));
        assert_eq!(reader.list("").unwrap().len(), 1);

        let _guard = writer.lock("lock").unwrap();
        assert!(matches!(reader.lock("lock"), Err(e) if e.kind == DiskErrorKind::InUse));
    }

    #[test]
    fn a_store_in_memory_says_that_it_is_not_durable() {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return println!("skipped: no /dev/shm") };
        let storage = OsStorage::new(directory.path(), IoMode::Auto).unwrap();
        let report = storage.disk().unwrap().report().clone();
        if report.file_system == "tmpfs" {
            assert!(report.notes.contains(&"not durable: tmpfs".to_owned()));
        }
        conformance::run(&storage);
    }

    #[test]
    fn modes_are_read_as_they_are_printed() {
        for mode in [IoMode::Auto, IoMode::Uring, IoMode::Syscall] {
            assert_eq!(mode.to_string().parse::<IoMode>().unwrap(), mode);
        }
        assert!("fast".parse::<IoMode>().is_err());
    }
}
