//! Moves data through io_uring.
//! Guarantees: C1 to C5; the kernel never sees memory that was freed: a buffer in flight belongs to the ring, and
//! dropping the ring waits for it. `wait` may return early without a reason; callers poll and wait again.
//! Must not know: names. A disk should stay with one thread once it is in use: the kernel cancels what an ended
//! thread had queued, and that shows as a failed operation.
//! Next: bell.rs says how another thread ends `wait`; registered.rs which buffers the kernel keeps mapped.

#![expect(unsafe_code, reason = "the kernel is given addresses whose validity only this file can vouch for")]

use super::bell::Bell;
use super::files::{Files, assert_aligned, check_whole};
use super::names::disk_error;
use super::os::DataPath;
use super::registered::Slots;
use super::{Buffer, Completion, DiskError, DiskWaker, FileId, Operation};
use crate::units::{FileOffset, Nanos};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::{Errno, ReadWriteFlags};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::sync::Arc;

const RING_SLOTS: u32 = 64;
/// Marks completions of the watch on the bell; operations count from 0.
const BELL: u64 = u64::MAX;
const POLL_IN: u32 = 1;

/// The data path of io_uring.
pub(super) struct Uring {
    ring: IoUring,
    bell: Arc<Bell>,
    bell_watched: bool,
    in_flight: Vec<Option<InFlight>>,
    in_flight_free: Vec<usize>,
    /// Taken from the ring and not looked at yet: slot and result.
    arrived: VecDeque<(usize, i32)>,
    ready: Vec<Completion>,
    registered: Slots,
}

struct InFlight {
    token: u64,
    file: FileId,
    offset: FileOffset,
    buffer: Option<Buffer>,
    step: Step,
}

/// What the kernel is doing for an operation right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Write,
    /// A write that carries its own sync.
    WriteSynced,
    /// Where the system refuses those: a write, and then
    WriteBeforeSync,
    /// the sync of it.
    SyncAfterWrite,
    Sync,
}

impl Uring {
    /// Sets up a ring; any error means that plain calls have to do.
    pub(super) fn new() -> Result<Uring, Errno> {
        let ring = IoUring::builder().dontfork().build(RING_SLOTS).map_err(|error| errno_of(&error))?;
        // Waiting with a time limit needs EXT_ARG (Linux 5.11), a lasting watch on the bell comes with 5.13.
        let params = ring.params();
        if !(params.is_feature_ext_arg() && params.is_feature_nodrop() && params.is_feature_resource_tagging()) {
            return Err(Errno::NOSYS);
        }
        // A filter may allow the set-up call and refuse this one.
        ring.submit().map_err(|error| errno_of(&error))?;
        let bell = Arc::new(Bell::new()?);
        let registered = Slots::new(ring.submitter().register_buffers_sparse(Slots::COUNT).is_ok());
        Ok(Uring {
            ring,
            bell,
            bell_watched: false,
            in_flight: Vec::new(),
            in_flight_free: Vec::new(),
            arrived: VecDeque::new(),
            ready: Vec::new(),
            registered,
        })
    }

    fn place(&mut self, in_flight: InFlight) -> usize {
        match self.in_flight_free.pop() {
            Some(slot) => {
                self.in_flight[slot] = Some(in_flight);
                slot
            }
            None => {
                self.in_flight.push(Some(in_flight));
                self.in_flight.len() - 1
            }
        }
    }

    /// Hands the current step of an operation to the kernel.
    fn start(&mut self, files: &Files, slot: usize) {
        let operation = self.in_flight[slot].as_ref().expect("a step is started for an operation in flight");
        let entry = kernel_entry(operation, files, &self.registered).user_data(slot as u64);
        self.push(&entry);
        self.enter();
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the addresses in the entry lie in a buffer that `in_flight` owns until the kernel's completion is
        // taken from the ring, and `drop` waits for all of those. The watch on the bell holds no address.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter();
        }
    }

    /// Lets the kernel take all that is queued.
    fn enter(&mut self) {
        while !self.ring.submission().is_empty() {
            match self.ring.submit().map_err(|error| errno_of(&error)) {
                Ok(_) | Err(Errno::INTR) => {}
                // Older kernels take nothing in while completions overflow: make room for those.
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                    self.drain();
                    std::thread::yield_now();
                }
                Err(errno) => panic!("io_uring refused what its set-up allowed: {errno}"),
            }
        }
    }

    /// Sleeps in the kernel until something completes, the bell rings, or the time passed.
    fn sleep(&mut self, limit: Option<Nanos>) {
        if !self.bell_watched {
            let watch = opcode::PollAdd::new(Fd(self.bell.eventfd.as_raw_fd()), POLL_IN).multi(true);
            self.push(&watch.build().user_data(BELL));
            self.bell_watched = true;
        }
        if !self.arrived.is_empty() {
            return;
        }
        let slept = match limit {
            None => self.ring.submit_and_wait(1),
            Some(Nanos(nanos)) => {
                let limit = Timespec::new().sec(nanos / 1_000_000_000).nsec((nanos % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        };
        match slept.map_err(|error| errno_of(&error)) {
            Ok(_) | Err(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {}
            Err(errno) => panic!("io_uring refused what its set-up allowed: {errno}"),
        }
    }

    /// Moves all completions from the ring to `arrived`; the bell's are seen to on the way.
    fn drain(&mut self) {
        if self.ring.submission().cq_overflow() {
            // The kernel keeps what did not fit and hands it over when it is entered.
            let _ = self.ring.submit();
        }
        for completed in self.ring.completion() {
            if completed.user_data() != BELL {
                self.arrived.push_back((completed.user_data() as usize, completed.result()));
            } else if !cqueue::more(completed.flags()) {
                self.bell_watched = false;
            }
        }
    }

    /// Sees to all completions that are there: starts the next step of their operations, or ends them.
    fn reap(&mut self, files: &mut Files) {
        self.drain();
        while let Some((slot, result)) = self.arrived.pop_front() {
            let operation = self.in_flight[slot].as_mut().expect("the kernel completes what is in flight, once");
            match next_step(operation, result, files) {
                Some(step) => {
                    operation.step = step;
                    self.start(files, slot);
                }
                None => {
                    let operation = self.take(slot);
                    let result = outcome(&operation, result, files);
                    self.ready.push(Completion { token: operation.token, buffer: operation.buffer, result });
                }
            }
        }
    }

    fn take(&mut self, slot: usize) -> InFlight {
        self.in_flight_free.push(slot);
        self.in_flight[slot].take().expect("the kernel completes what is in flight, once")
    }

    fn count_in_flight(&self) -> usize {
        self.in_flight.len() - self.in_flight_free.len()
    }
}

impl DataPath for Uring {
    fn buffer(&mut self, files: &mut Files, bytes: usize) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes);
        let Some(registered) = self.registered.choose(buffer.capacity()) else { return buffer };
        // SAFETY: the buffer is readable as a whole. The kernel pins its pages, so that its death does no harm; the
        // slot's number is used only together with this buffer (see `Slots::index_of`).
        let memory = unsafe { std::slice::from_raw_parts(buffer.start(), buffer.capacity()) };
        let vectors = [IoSlice::new(memory)];
        // SAFETY: `IoSlice` promises the layout of the system's iovec; the range is valid as said above.
        let result = unsafe {
            let vectors = std::slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len());
            self.ring.submitter().register_buffers_update(u32::from(registered.index), vectors, None)
        };
        match result {
            Ok(()) => buffer.set_registered(registered),
            Err(error) => {
                self.registered.give_up();
                files.note(format!("buffers cannot be registered with io_uring: {}", errno_of(&error)));
            }
        }
        buffer
    }

    fn submit(&mut self, files: &mut Files, token: u64, operation: Operation) {
        assert_aligned(&operation);
        let in_flight = match operation {
            Operation::Write { file, offset, buffer, durable } => {
                let step = match (durable, files.write_syncs_itself) {
                    (false, _) => Step::Write,
                    (true, true) => Step::WriteSynced,
                    (true, false) => Step::WriteBeforeSync,
                };
                InFlight { token, file, offset, buffer: Some(buffer), step }
            }
            Operation::Read { file, offset, buffer } => {
                InFlight { token, file, offset, buffer: Some(buffer), step: Step::Read }
            }
            Operation::Sync { file } => InFlight { token, file, offset: 0, buffer: None, step: Step::Sync },
        };
        let slot = self.place(in_flight);
        self.start(files, slot);
    }

    fn poll(&mut self, files: &mut Files, done: &mut Vec<Completion>) {
        self.reap(files);
        done.append(&mut self.ready);
    }

    fn wait(&mut self, files: &mut Files, limit: Option<Nanos>) {
        self.reap(files);
        if self.ready.is_empty() && self.bell.may_sleep() {
            self.sleep(limit);
            self.reap(files);
        }
        self.bell.stay_awake();
    }

    fn waker(&self) -> DiskWaker {
        let bell = Arc::clone(&self.bell);
        DiskWaker(Arc::new(move || bell.ring()))
    }

    fn is_in_flight(&self, file: FileId) -> bool {
        self.in_flight.iter().flatten().any(|operation| operation.file == file)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        loop {
            self.drain();
            while let Some((slot, _)) = self.arrived.pop_front() {
                self.take(slot);
            }
            if self.count_in_flight() == 0 {
                return;
            }
            match self.ring.submit_and_wait(1).map_err(|error| errno_of(&error)) {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {}
                // The kernel may still use the buffers: rather lose the memory than free it.
                Err(_) => return std::mem::forget(std::mem::take(&mut self.in_flight)),
            }
        }
    }
}

/// The kernel's form of an operation's current step.
fn kernel_entry(operation: &InFlight, files: &Files, registered: &Slots) -> squeue::Entry {
    let fd = Fd(files.get(operation.file).fd.as_raw_fd());
    let offset = operation.offset;
    let Some(buffer) = &operation.buffer else {
        return opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build();
    };
    let (start, index) = (buffer.start(), registered.index_of(buffer));
    let bytes = u32::try_from(buffer.len()).expect("a buffer has less than 4 GiB");
    let flags = match operation.step {
        Step::SyncAfterWrite => return opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        Step::WriteSynced => ReadWriteFlags::DSYNC.bits() as i32,
        _ => 0,
    };
    match (operation.step, index) {
        (Step::Read, Some(index)) => opcode::ReadFixed::new(fd, start, bytes, index).offset(offset).build(),
        (Step::Read, None) => opcode::Read::new(fd, start, bytes).offset(offset).build(),
        (_, Some(index)) => opcode::WriteFixed::new(fd, start, bytes, index).offset(offset).rw_flags(flags).build(),
        (_, None) => opcode::Write::new(fd, start, bytes).offset(offset).rw_flags(flags).build(),
    }
}

/// What is left to do for an operation whose step ended so; `None`: nothing.
fn next_step(operation: &InFlight, result: i32, files: &mut Files) -> Option<Step> {
    let whole = operation.buffer.as_ref().is_some_and(|buffer| result as usize == buffer.len());
    match operation.step {
        // A signal came before anything was done.
        step if result == -Errno::INTR.raw_os_error() => Some(step),
        Step::WriteSynced if result == -Errno::OPNOTSUPP.raw_os_error() => {
            files.note_write_without_sync();
            Some(Step::WriteBeforeSync)
        }
        Step::WriteBeforeSync if result > 0 && whole => Some(Step::SyncAfterWrite),
        _ => None,
    }
}

fn outcome(operation: &InFlight, result: i32, files: &Files) -> Result<(), DiskError> {
    let name = &files.get(operation.file).name;
    let word = match operation.step {
        Step::Read => "read",
        Step::Sync => "sync",
        Step::Write | Step::WriteSynced | Step::WriteBeforeSync | Step::SyncAfterWrite => "write",
    };
    if result < 0 {
        return Err(disk_error(word, name, Errno::from_raw_os_error(-result)));
    }
    match (&operation.buffer, operation.step) {
        (Some(_), Step::SyncAfterWrite) | (None, _) => Ok(()),
        (Some(buffer), _) => check_whole(word, name, buffer.len(), result as usize),
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
