//! Names inside the store's directory, resolved by the operating system relative to one open directory.
//! Guarantees: no name leaves the directory; a read-only store changes nothing.
//! Must not know: what is in the files.
//! Next: files.rs keeps the files that were opened here.

use super::{DiskError, DiskErrorKind, Listed, LockGuard, OpenMode, Space};
use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o750);
/// How often the lock file may be replaced under us before we believe in something worse than a race.
const LOCK_TRIES_MAX: usize = 16;

/// The store's directory, open.
pub(super) struct Names {
    pub(super) root: OwnedFd,
    pub(super) place: String,
    pub(super) read_only: bool,
}

/// Says which class a system error belongs to.
pub(super) fn disk_error(operation: &'static str, file: &str, errno: Errno) -> DiskError {
    let kind = match errno {
        Errno::NOENT => DiskErrorKind::NotFound,
        Errno::EXIST => DiskErrorKind::Exists,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskErrorKind::Full,
        other => DiskErrorKind::Io(other.to_string()),
    };
    DiskError { operation, file: file.to_owned(), kind }
}

/// An error that is ours, not the system's.
pub(super) fn own_error(operation: &'static str, file: &str, reason: impl Into<String>) -> DiskError {
    DiskError { operation, file: file.to_owned(), kind: DiskErrorKind::Io(reason.into()) }
}

/// Refuses a name that is not a plain path below the store's directory.
pub(super) fn check_name(operation: &'static str, name: &str) -> Result<(), DiskError> {
    let plain = name.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'));
    if plain { Ok(()) } else { Err(own_error(operation, name, "the name is not a plain path inside the store")) }
}

/// As `check_name`, but the empty name is the store's own directory.
pub(super) fn check_directory(operation: &'static str, name: &str) -> Result<(), DiskError> {
    if name.is_empty() { Ok(()) } else { check_name(operation, name) }
}

impl Names {
    pub(super) fn open(&self, name: &str, mode: OpenMode) -> Result<OwnedFd, DiskError> {
        check_name("open", name)?;
        let flags = match mode {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::Write => OFlags::RDWR,
            OpenMode::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        if mode != OpenMode::Read {
            self.check_writable("open", name)?;
        }
        self.open_at("open", name, flags)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        check_name("rename", from)?;
        check_name("rename", to)?;
        self.check_writable("rename", from)?;
        fs::renameat(&self.root, from, &self.root, to).map_err(|errno| disk_error("rename", from, errno))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), DiskError> {
        check_name("remove", name)?;
        self.check_writable("remove", name)?;
        fs::unlinkat(&self.root, name, AtFlags::empty()).map_err(|errno| disk_error("remove", name, errno))
    }

    pub(super) fn create_directory(&self, name: &str) -> Result<(), DiskError> {
        check_name("create directory", name)?;
        self.check_writable("create directory", name)?;
        match fs::mkdirat(&self.root, name, DIRECTORY_MODE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.open_directory("create directory", name).map(drop),
            Err(errno) => Err(disk_error("create directory", name, errno)),
        }
    }

    pub(super) fn list(&self, directory: &str) -> Result<Vec<Listed>, DiskError> {
        let failed = |errno| disk_error("list", directory, errno);
        let fd = self.open_directory("list", directory)?;
        let mut listed = Vec::new();
        for found in fs::Dir::read_from(&fd).map_err(failed)? {
            let found = found.map_err(failed)?;
            if matches!(found.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match fs::statat(&fd, found.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                    let bytes = if directory { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) };
                    listed.push(Listed { name: found.file_name().to_string_lossy().into_owned(), bytes });
                }
                // It was removed since the directory was read: then it is not there.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    pub(super) fn sync_directory(&self, directory: &str) -> Result<(), DiskError> {
        self.check_writable("sync directory", directory)?;
        let fd = self.open_directory("sync directory", directory)?;
        fs::fsync(&fd).map_err(|errno| disk_error("sync directory", directory, errno))
    }

    pub(super) fn space(&self) -> Result<Space, DiskError> {
        let stat = fs::fstatvfs(&self.root).map_err(|errno| disk_error("ask for space of", &self.place, errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { total: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    /// Takes the lock. The lock belongs to the open file, so a left-over file of a dead process is no obstacle.
    pub(super) fn lock(&self, name: &str) -> Result<Box<dyn LockGuard>, DiskError> {
        check_name("lock", name)?;
        for _ in 0..LOCK_TRIES_MAX {
            let flags = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR | OFlags::CREATE };
            let fd = match self.open_at("lock", name, flags) {
                // A copy of a store that was never opened has no lock file, and a reader must not make one.
                Err(error) if self.read_only && error.kind == DiskErrorKind::NotFound => {
                    return Ok(Box::new(Lock { _fd: None }));
                }
                opened => opened?,
            };
            match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {
                    let file = format!("{}/{name}", self.place);
                    return Err(DiskError { operation: "lock", file, kind: DiskErrorKind::InUse });
                }
                Err(errno) => return Err(disk_error("lock", name, errno)),
            }
            // Someone may have removed or replaced the file between our open and our lock; then we hold a lock
            // that nobody else will ever see.
            if self.is_still(&fd, name)? {
                if !self.read_only {
                    write_process_id(&fd);
                }
                return Ok(Box::new(Lock { _fd: Some(fd) }));
            }
        }
        Err(own_error("lock", name, "the lock file is being replaced all the time"))
    }

    fn is_still(&self, fd: &OwnedFd, name: &str) -> Result<bool, DiskError> {
        let held = fs::fstat(fd).map_err(|errno| disk_error("lock", name, errno))?;
        match fs::statat(&self.root, name, AtFlags::empty()) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(disk_error("lock", name, errno)),
        }
    }

    fn open_directory(&self, operation: &'static str, directory: &str) -> Result<OwnedFd, DiskError> {
        check_directory(operation, directory)?;
        let name = if directory.is_empty() { "." } else { directory };
        self.open_at(operation, name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn open_at(&self, operation: &'static str, name: &str, flags: OFlags) -> Result<OwnedFd, DiskError> {
        loop {
            match fs::openat(&self.root, name, flags | OFlags::CLOEXEC, FILE_MODE) {
                Err(Errno::INTR) => {}
                opened => return opened.map_err(|errno| disk_error(operation, name, errno)),
            }
        }
    }

    fn check_writable(&self, operation: &'static str, name: &str) -> Result<(), DiskError> {
        if self.read_only { Err(own_error(operation, name, "the store is open for reading only")) } else { Ok(()) }
    }
}

/// Who holds the lock, for a person who looks into the file. That it fails is no reason not to start.
fn write_process_id(fd: &OwnedFd) {
    let text = format!("{}\n", std::process::id());
    if fs::ftruncate(fd, 0).is_ok() {
        let _ = rustix::io::pwrite(fd, text.as_bytes(), 0);
    }
}

struct Lock {
    /// Closing it releases the lock.
    _fd: Option<OwnedFd>,
}

impl LockGuard for Lock {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_below_the_store_are_names() {
        for name in ["a", "a/b", "snapshot/0001.tmp", "..a"] {
            assert!(check_name("open", name).is_ok(), "{name}");
        }
        for name in ["", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a\0"] {
            assert!(check_name("open", name).is_err(), "{name}");
        }
    }
    #[test]
    fn a_lock_on_a_file_that_was_replaced_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::open(directory.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let names = Names { root, place: "test".to_owned(), read_only: false };
        let held = names.open("lock", OpenMode::Create).unwrap();
        assert_eq!(names.is_still(&held, "lock"), Ok(true));
        names.open("other", OpenMode::Create).unwrap();
        names.rename("other", "lock").unwrap();
        assert_eq!(names.is_still(&held, "lock"), Ok(false));
        names.remove("lock").unwrap();
        assert_eq!(names.is_still(&held, "lock"), Ok(false));
    }
}
