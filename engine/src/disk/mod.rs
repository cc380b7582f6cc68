//! The storage seam: everything the engine does to files goes through `Disk`.
//!
//! Contract, which all backends keep and the conformance suite checks:
//! C1 What was written but not synced may survive a crash in any subset of 512-byte sectors, torn and in any order.
//! C2 A sync covers the writes that had completed before it was submitted; a durable write covers itself.
//! C3 A created, renamed or removed name lasts only after `sync_directory` of its directory. A crash never loses a renamed file:
//!    it has its old name, its new one or, between two directories, both.
//! C4 A short write or read is an error, never a result.
//! C5 Operations in flight may complete in any order, each exactly once.
//! C6 A failed write or sync is final: nobody retries it. `Latch` makes that so for every backend.
//! Names are paths relative to the store's directory, with `/` between their parts.
//!
//! Must not know: formats, commands, what the bytes mean.
//! Next: buffer.rs, then syscall.rs as the readable reference, then uring.rs.

mod bell;
mod buffer;
#[cfg(feature = "sim")]
pub mod conformance;
mod files;
mod latch;
mod medium;
mod names;
mod os;
mod registered;
#[cfg(feature = "sim")]
mod sim;
mod sleeper;
mod syscall;
mod uring;

pub use buffer::Buffer;
pub use latch::{Latch, LatchState, LatchedStorage};
pub use os::{IoMode, OsStorage};
#[cfg(feature = "sim")]
pub use sim::{SimCounts, SimFault, SimOperation, SimOptions, SimStorage};

use crate::canary::{Canary, planted};
use crate::units::{FileOffset, Nanos};
use std::fmt;
use std::sync::Arc;

/// An open file of one `Disk`. Meaningless to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist; writes are refused.
    Read,
    /// It must exist.
    Write,
    /// It must not exist yet.
    Create,
}

/// What can be in flight. Offsets, lengths and addresses are multiples of `BLOCK_BYTES`.
#[derive(Debug)]
pub enum Operation {
    /// Writes the whole buffer. `durable`: its completion says that the bytes are on stable storage.
    Write {
        /// Where to.
        file: FileId,
        /// Byte place.
        offset: FileOffset,
        /// What; it comes back with the completion.
        buffer: Buffer,
        /// Whether the completion promises stable storage.
        durable: bool,
    },
    /// Fills the whole buffer. Reading past the end of the file is an error.
    Read {
        /// Where from.
        file: FileId,
        /// Byte place.
        offset: FileOffset,
        /// Its length says how much to read.
        buffer: Buffer,
    },
    /// Makes all completed writes to the file durable, and its length.
    Sync {
        /// Which.
        file: FileId,
    },
}

/// The end of one operation.
#[derive(Debug)]
pub struct Completion {
    /// The number given at `submit`.
    pub token: u64,
    /// The buffer of a write or read.
    pub buffer: Option<Buffer>,
    /// How it ended.
    pub result: Result<(), DiskError>,
}

/// Why a disk operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {file}: {kind}")]
pub struct DiskError {
    /// "write", "sync", "open", …
    pub operation: &'static str,
    /// Name inside the store's directory.
    pub file: String,
    /// The class, by what the engine does about it.
    pub kind: DiskErrorKind,
}

/// Classes of disk errors that the engine treats differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskErrorKind {
    /// No such file.
    #[error("no such file")]
    NotFound,
    /// It exists already.
    #[error("exists already")]
    Exists,
    /// No space, quota or file size left.
    #[error("no space left")]
    Full,
    /// Another process holds the lock.
    #[error("in use by another process")]
    InUse,
    /// Anything else; the system's words.
    #[error("{0}")]
    Io(String),
}

impl From<DiskError> for crate::error::Error {
    fn from(error: DiskError) -> Self {
        use crate::error::{Failed, Full, Refused};
        match error.kind {
            DiskErrorKind::Full => Full::Disk.into(),
            DiskErrorKind::InUse => Refused::InUse { path: error.file }.into(),
            kind => Failed { operation: error.operation, file: error.file, reason: kind.to_string() }.into(),
        }
    }
}

/// A name found in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Last part of the path.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub bytes: u64,
}

/// Room on the file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What a process without privileges can still take.
    pub free: u64,
}

/// What a backend found out about itself, for the start-up line and `stats()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// "io_uring", "syscall" or "simulated".
    pub backend: &'static str,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Name of the file system, where known ("ext4", "xfs", "tmpfs", …).
    pub file_system: String,
    /// Fall-backs taken and doubts about the medium, each a fragment to be printed once.
    pub notes: Vec<String>,
}

/// One user's hold on the storage. Not shared between threads; each thread asks its `Storage` for its own.
///
/// The data path (`submit`, `poll`, `wait`) never blocks but in `wait`; the calls on names block and are for
/// start-up and the maintenance driver only.
pub trait Disk: Send {
    /// What the backend is.
    fn report(&self) -> &DiskReport;
    /// A zeroed buffer, registered with the kernel where that helps. `bytes` is rounded up to whole blocks.
    fn buffer(&mut self, bytes: usize) -> Buffer {
        Buffer::zeroed(bytes)
    }

    /// Starts an operation. `token` comes back with its completion; the caller keeps tokens apart.
    fn submit(&mut self, token: u64, operation: Operation);
    /// Moves the completions that are there to `done`; does not block.
    fn poll(&mut self, done: &mut Vec<Completion>);
    /// Blocks until a completion is there, the waker was used, or the time passed (`None`: no limit).
    /// Returns at once if the waker was used since the last `wait`; may also return early without a reason.
    fn wait(&mut self, limit: Option<Nanos>);
    /// Ends a `wait` of this disk from another thread.
    fn waker(&self) -> DiskWaker;

    /// Opens or makes a file.
    fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError>;
    /// Forgets an open file. Nothing of it may be in flight.
    fn close(&mut self, file: FileId);
    /// Length of an open file in bytes.
    fn file_bytes(&mut self, file: FileId) -> Result<u64, DiskError>;
    /// Reserves space for the file and sets its length; the new bytes read as zeros. `Full` if there is none.
    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError>;
    /// Gives a file another name, replacing what had it.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;
    /// Makes a directory; it is no error if it is there.
    fn create_directory(&mut self, name: &str) -> Result<(), DiskError>;
    /// Names in a directory, in order. `""` is the store's own directory.
    fn list(&mut self, directory: &str) -> Result<Vec<Listed>, DiskError>;
    /// Makes the names in a directory last.
    fn sync_directory(&mut self, directory: &str) -> Result<(), DiskError>;
    /// Room left.
    fn space(&mut self) -> Result<Space, DiskError>;
    /// Takes the store for this process until the guard is dropped. A left-over file of a dead process is no obstacle.
    fn lock(&mut self, name: &str) -> Result<Box<dyn LockGuard>, DiskError>;
}

/// Holds a store's lock while it lives.
pub trait LockGuard: Send + Sync {}

/// Holds nothing: what a store gets whose lock was not taken.
impl LockGuard for Canary {}

/// Where disks come from: one directory, any number of independent users.
pub trait Storage: Send + Sync {
    /// A new user of the storage.
    fn disk(&self) -> Result<Box<dyn Disk>, DiskError>;
    /// The directory, as the user knows it, for messages.
    fn place(&self) -> String;
}

/// Ends another thread's `Disk::wait`. Cheap to clone; calling it more than once is the same as once.
#[derive(Clone)]
pub struct DiskWaker(pub Arc<dyn Fn() + Send + Sync>);

impl DiskWaker {
    /// Wakes.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for DiskWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskWaker")
    }
}

/// One operation at a time, waiting for each: for start-up, recovery, maintenance and tools.
/// Panics if something else is in flight, since its completion would be lost.
pub trait BlockingDisk {
    /// Writes a buffer and waits. Returns the buffer.
    fn write_at(
        &mut self,
        file: FileId,
        offset: FileOffset,
        buffer: Buffer,
        durable: bool,
    ) -> Result<Buffer, DiskError>;
    /// Fills a buffer and waits.
    fn read_at(&mut self, file: FileId, offset: FileOffset, buffer: Buffer) -> Result<Buffer, DiskError>;
    /// Syncs and waits.
    fn sync(&mut self, file: FileId) -> Result<(), DiskError>;
}

impl BlockingDisk for dyn Disk + '_ {
    fn write_at(
        &mut self,
        file: FileId,
        offset: FileOffset,
        buffer: Buffer,
        durable: bool,
    ) -> Result<Buffer, DiskError> {
        self.submit(0, Operation::Write { file, offset, buffer, durable });
        let done = finish(self);
        done.result.map(|()| done.buffer.expect("a write gives its buffer back"))
    }

    fn read_at(&mut self, file: FileId, offset: FileOffset, buffer: Buffer) -> Result<Buffer, DiskError> {
        self.submit(0, Operation::Read { file, offset, buffer });
        let done = finish(self);
        done.result.map(|()| done.buffer.expect("a read gives its buffer back"))
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        if planted(Canary::SkipFileSync) {
            return Ok(());
        }
        self.submit(0, Operation::Sync { file });
        finish(self).result
    }
}

fn finish(disk: &mut (dyn Disk + '_)) -> Completion {
    let mut done = Vec::with_capacity(1);
    loop {
        disk.poll(&mut done);
        assert!(done.len() <= 1, "a blocking operation is the only one in flight");
        match done.pop() {
            Some(completion) => return completion,
            None => disk.wait(None),
        }
    }
}
