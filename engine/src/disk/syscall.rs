//! Moves data with plain system calls, each complete when it was submitted: the readable reference.
//! Guarantees: C1 to C5 by the simplest means. Unlike the other backends it blocks in `submit`.
//! Must not know: names; files.rs has the open files.
//! Next: uring.rs does the same through the kernel's queues.

use super::files::{Files, assert_aligned, check_whole};
use super::names::disk_error;
use super::os::DataPath;
use super::sleeper::Sleeper;
use super::{Buffer, Completion, DiskError, DiskWaker, FileId, Operation};
use crate::units::{FileOffset, Nanos};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The data path of plain calls.
#[derive(Default)]
pub(super) struct Syscall {
    done: Vec<Completion>,
    sleeper: Arc<Sleeper>,
}

impl DataPath for Syscall {
    fn submit(&mut self, files: &mut Files, token: u64, operation: Operation) {
        assert_aligned(&operation);
        let (buffer, result) = match operation {
            Operation::Write { file, offset, buffer, durable } => {
                let result = write(files, file, offset, &buffer, durable);
                (Some(buffer), result)
            }
            Operation::Read { file, offset, mut buffer } => {
                let result = read(files, file, offset, &mut buffer);
                (Some(buffer), result)
            }
            Operation::Sync { file } => {
                let file = files.get(file);
                (None, sync(&file.fd).map_err(|errno| disk_error("sync", &file.name, errno)))
            }
        };
        self.done.push(Completion { token, buffer, result });
    }

    fn poll(&mut self, _files: &mut Files, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, _files: &mut Files, limit: Option<Nanos>) {
        if self.done.is_empty() {
            self.sleeper.sleep(limit);
        } else {
            self.sleeper.forget();
        }
    }

    fn waker(&self) -> DiskWaker {
        self.sleeper.waker()
    }

    fn is_in_flight(&self, _file: FileId) -> bool {
        false
    }
}

fn write(files: &mut Files, file: FileId, offset: FileOffset, buffer: &Buffer, durable: bool) -> Result<(), DiskError> {
    if durable && files.write_syncs_itself {
        match write_synced(&files.get(file).fd, offset, buffer) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => files.note_write_without_sync(),
            result => return check_moved(files, "write", file, buffer.len(), result),
        }
    }
    let result = uninterrupted(|| rustix::io::pwrite(&files.get(file).fd, buffer, offset));
    check_moved(files, "write", file, buffer.len(), result)?;
    if durable {
        let file = files.get(file);
        sync(&file.fd).map_err(|errno| disk_error("write", &file.name, errno))?;
    }
    Ok(())
}

fn read(files: &Files, file: FileId, offset: FileOffset, buffer: &mut Buffer) -> Result<(), DiskError> {
    let bytes = buffer.len();
    let result = uninterrupted(|| rustix::io::pread(&files.get(file).fd, buffer.as_mut_slice(), offset));
    check_moved(files, "read", file, bytes, result)
}

fn write_synced(fd: &OwnedFd, offset: FileOffset, buffer: &Buffer) -> Result<usize, Errno> {
    uninterrupted(|| rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], offset, ReadWriteFlags::DSYNC))
}

fn sync(fd: &OwnedFd) -> Result<(), Errno> {
    uninterrupted(|| rustix::fs::fdatasync(fd))
}

fn check_moved(
    files: &Files,
    operation: &'static str,
    file: FileId,
    bytes: usize,
    result: Result<usize, Errno>,
) -> Result<(), DiskError> {
    let name = &files.get(file).name;
    match result {
        Ok(moved) => check_whole(operation, name, bytes, moved),
        Err(errno) => Err(disk_error(operation, name, errno)),
    }
}

/// Repeats a call that a signal interrupted before it did anything.
fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
