//! The files one user of the storage has open, and what was found out about the medium while opening them.
//! Guarantees: every note is taken once; space is either reserved or known to be there when `allocate` returns.
//! Must not know: how data is moved; syscall.rs and uring.rs do that.
//! Next: medium.rs names file systems; syscall.rs.

use super::medium;
use super::names::{Names, disk_error};
use super::{DiskError, DiskErrorKind, DiskReport, FileId, OpenMode, Operation};
use crate::limits::BLOCK_BYTES;
use rustix::fs::{self, FallocateFlags, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Open files of one disk.
pub(super) struct Files {
    pub(super) names: Arc<Names>,
    pub(super) report: DiskReport,
    /// Whether a write may carry its own sync; false once the system refused it.
    pub(super) write_syncs_itself: bool,
    open: BTreeMap<u32, OpenFile>,
    next: u32,
}

/// One of them.
pub(super) struct OpenFile {
    pub(super) fd: OwnedFd,
    pub(super) name: String,
}

impl Files {
    pub(super) fn new(names: Arc<Names>, backend: &'static str) -> Result<Files, DiskError> {
        let file_system = medium::identify(&names)?;
        let report = DiskReport {
            backend,
            // tmpfs and ramfs accept O_DIRECT, but the page cache is all they have.
            direct: !matches!(file_system.name.as_str(), "tmpfs" | "ramfs"),
            file_system: file_system.name,
            notes: file_system.note.into_iter().collect(),
        };
        Ok(Files { names, report, write_syncs_itself: true, open: BTreeMap::new(), next: 0 })
    }

    /// An open file. Asking for another is a bug of the caller.
    pub(super) fn get(&self, file: FileId) -> &OpenFile {
        self.open.get(&file.0).expect("a file id names an open file of this disk")
    }

    pub(super) fn open(&mut self, name: &str, mode: OpenMode) -> Result<FileId, DiskError> {
        let fd = self.names.open(name, mode)?;
        self.bypass_page_cache(&fd, name)?;
        let file = FileId(self.next);
        self.next = self.next.checked_add(1).expect("a disk opens fewer than 2^32 files");
        self.open.insert(file.0, OpenFile { fd, name: name.to_owned() });
        Ok(file)
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.open.remove(&file.0).expect("a file id names an open file of this disk");
    }

    pub(super) fn file_bytes(&self, file: FileId) -> Result<u64, DiskError> {
        let file = self.get(file);
        let stat = fs::fstat(&file.fd).map_err(|errno| disk_error("ask for length of", &file.name, errno))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    pub(super) fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        let length = self.file_bytes(file)?;
        let reserved = reserve(&self.get(file).fd, bytes);
        let failed = |errno| disk_error("allocate", &self.get(file).name, errno);
        match reserved {
            Ok(()) if length <= bytes => Ok(()),
            Ok(()) => fs::ftruncate(&self.get(file).fd, bytes).map_err(failed),
            // Refused by a filter or an old file system: the next best is to look before setting the length.
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                let free = self.names.space()?.free;
                let wanted = bytes.saturating_sub(length);
                if wanted > free {
                    return Err(failed(Errno::NOSPC));
                }
                fs::ftruncate(&self.get(file).fd, bytes).map_err(failed)?;
                self.note("space cannot be reserved (fallocate is refused): a full disk may show late");
                Ok(())
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    /// The system refused a write that syncs itself: from now on a write is followed by a sync.
    pub(super) fn note_write_without_sync(&mut self) {
        self.write_syncs_itself = false;
        self.note("RWF_DSYNC is refused: each durable write is followed by fdatasync");
    }

    /// Sets O_DIRECT on an open file. Setting it afterwards, and not at open, tells a refusal of O_DIRECT from
    /// one of the name, and a refused `Create` leaves no file behind that the second try would trip over.
    fn bypass_page_cache(&mut self, fd: &OwnedFd, name: &str) -> Result<(), DiskError> {
        let set = || fs::fcntl_getfl(fd).and_then(|flags| fs::fcntl_setfl(fd, flags | OFlags::DIRECT));
        match set() {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS) => {
                self.report.direct = false;
                self.note(format!("O_DIRECT is refused on {}: the page cache is in use", self.report.file_system));
                Ok(())
            }
            Err(errno) => Err(disk_error("open", name, errno)),
        }
    }
}

fn reserve(fd: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        match fs::fallocate(fd, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// The contract's alignment: a violation would be refused by one backend and taken by another.
pub(super) fn assert_aligned(operation: &Operation) {
    if let Operation::Write { offset, .. } | Operation::Read { offset, .. } = operation {
        assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "place {offset} is not a multiple of the block");
    }
}

/// What a read or write that moved `moved` bytes of `bytes` means: everything, or an error (C4).
pub(super) fn check_whole(operation: &'static str, file: &str, bytes: usize, moved: usize) -> Result<(), DiskError> {
    if moved == bytes {
        return Ok(());
    }
    let kind = DiskErrorKind::Io(format!("only {moved} of {bytes} bytes"));
    Err(DiskError { operation, file: file.to_owned(), kind })
}
