//! `Log`: where commands are appended and watermarks are read; shared by callers, writer and preparer.
//!
//! Invariants: I1 `synced <= written <= assigned`. I2 no watermark moves after a failure. I3 a refused append changed nothing.
//! Guarantees: the mutex is held for a copy of the frame at most, never while the disk is awaited.
//! Must not know: disks, how a batch is written.
//! Next: queue.rs, lag.rs and segments.rs are the state under the mutex; writer.rs moves it on.

use super::lag::Lag;
use super::position::{LogOptions, LogPosition};
use super::queue::{NoRoom, Purpose, Queue};
use super::reserve::Reserve;
use super::retention::SegmentSpan;
use super::segments::Segments;
use super::tally::{Tally, TallyNow};
use super::waiters::{Released, Sleeper, Subscriber, Waiter, Waiters};
use crate::canary::{Canary, planted};
use crate::disk::DiskWaker;
use crate::durability::DurabilityLevel;
use crate::error::{Error, Failed, Full, Refused};
use crate::format::StoreId;
use crate::format::command::FRAME_HEADER_BYTES;
use crate::units::{Lsn, Millis, Nanos};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The times of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Monotonic clock, for the lag bound.
    pub now: Nanos,
    /// Engine time.
    pub time: Millis,
    /// Wall clock, for people.
    pub wall: Millis,
}

/// A command is in the log's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its LSN.
    pub lsn: Lsn,
    /// Whether the writer sleeps and has to be woken with `Log::wake`, once the caller's locks are released.
    pub wake: bool,
}

/// How far the log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Last LSN that was given out.
    pub assigned: Lsn,
    /// Everything up to here was handed to the kernel or device.
    pub written: Lsn,
    /// Everything up to here is on stable storage.
    pub synced: Lsn,
    /// `Accepted` and `Written` commands up to here may be acknowledged; without bound while the lag bound holds.
    pub accepted_limit: Lsn,
}

/// What the writer is doing, as far as an append has to care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// Waits for a completion, which will make it look at the queue.
    Disk,
    /// Waits for nothing, or for the lag to be due.
    Timer(Option<Nanos>),
    /// Waits a moment for the open batch to have so many frames.
    Company(u32),
}

/// The state under the mutex.
#[derive(Debug)]
pub(super) struct Shared {
    pub queue: Queue,
    pub lag: Lag,
    pub segments: Segments,
    pub sleep: Sleep,
    pub sync_asked: Lsn,
    pub closed: bool,
    /// Somebody was refused since the batch was last taken.
    pub refused: bool,
}

/// The log as callers see it.
#[derive(Debug)]
pub struct Log {
    store: StoreId,
    options: LogOptions,
    shared: Mutex<Shared>,
    assigned: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// The lag bound does not hold: acknowledge what is synced only.
    gated: AtomicBool,
    failure: OnceLock<Failed>,
    /// Why nothing is written at all.
    read_only: OnceLock<String>,
    reserve: Reserve,
    /// Last LSN that left the queue, and how many batches did.
    taken: AtomicU64,
    turn: AtomicU64,
    waiters: Waiters,
    pub(super) tally: Tally,
    writer: OnceLock<DiskWaker>,
    preparer: OnceLock<DiskWaker>,
}

impl Log {
    /// A log that goes on from a position.
    pub fn new(position: &LogPosition, options: LogOptions) -> Arc<Log> {
        let mut queue = Queue::new(position.next_lsn, options.batch_bytes_max, options.batches_in_flight_max + 1);
        let segments = Segments::new(position, options.segment_bytes, options.log_bytes_max);
        queue.room = segments.room();
        Arc::new(Log {
            store: position.store,
            shared: Mutex::new(Shared {
                queue,
                lag: Lag::new(options.lag, options.lag_bytes),
                segments,
                sleep: Sleep::Awake,
                sync_asked: Lsn::NONE,
                closed: false,
                refused: false,
            }),
            options,
            assigned: AtomicU64::new(position.newest_lsn().0),
            written: AtomicU64::new(position.newest_lsn().0),
            synced: AtomicU64::new(position.newest_lsn().0),
            gated: AtomicBool::new(false),
            failure: OnceLock::new(),
            read_only: OnceLock::new(),
            reserve: Reserve::default(),
            taken: AtomicU64::new(position.newest_lsn().0),
            turn: AtomicU64::new(0),
            waiters: Waiters::new(),
            tally: Tally::default(),
            writer: OnceLock::new(),
            preparer: OnceLock::new(),
        })
    }

    /// Appends a frame. On an error nothing was changed; `Busy` passes by itself.
    pub fn append(
        &self,
        frame: &[u8],
        level: DurabilityLevel,
        purpose: Purpose,
        stamp: Stamp,
    ) -> Result<Appended, Error> {
        assert_frame(frame);
        let mut shared = self.shared.lock();
        self.check_append(&mut shared, frame.len(), purpose)?;
        let before = shared.queue.payload_bytes();
        let lsn = shared.queue.push(frame, level, stamp);
        self.assigned.store(lsn.0, Ordering::SeqCst);
        let open = shared.queue.lag();
        self.gated.store(!shared.lag.holds(stamp.now, open), Ordering::SeqCst);
        let wake = shared.needs_wake(before, self.options.batches_in_flight_max);
        Ok(Appended { lsn, wake })
    }

    /// Whether a frame of this length could be appended now.
    pub fn check_room(&self, frame_bytes: usize, purpose: Purpose) -> Result<(), Error> {
        self.check_append(&mut self.shared.lock(), frame_bytes, purpose)
    }

    /// Blocks until a frame of this length can be appended, at most for a span.
    pub fn wait_room(&self, frame_bytes: usize, purpose: Purpose, limit: Option<Nanos>) -> Result<(), Error> {
        let look = || match self.check_room(frame_bytes, purpose) {
            Err(Error::Refused(Refused::Busy)) => None,
            answer => Some(answer),
        };
        self.waiters.block(Sleeper::Room, limit, look).unwrap_or(Err(Refused::Busy.into()))
    }

    /// An error if the store may not grow now. A log that has failed says that instead, when something is appended.
    pub fn check_growth(&self) -> Result<(), Error> {
        if self.failure.get().is_some() {
            return Ok(());
        }
        Ok(self.reserve.check_growth()?)
    }

    /// Largest frame the log takes.
    pub fn command_bytes_max(&self) -> usize {
        self.options.command_bytes_max()
    }

    /// How far the log has come.
    pub fn watermarks(&self) -> Watermarks {
        // Read from the lowest up, so that I1 holds in what is seen while the log moves.
        let synced = Lsn(self.synced.load(Ordering::SeqCst));
        let written = Lsn(self.written.load(Ordering::SeqCst));
        let assigned = Lsn(self.assigned.load(Ordering::SeqCst));
        let gated = self.gated.load(Ordering::SeqCst);
        Watermarks { assigned, written, synced, accepted_limit: if gated { synced } else { Lsn(u64::MAX) } }
    }

    /// LSN of the next command.
    pub fn next_lsn(&self) -> Lsn {
        self.shared.lock().queue.next_lsn()
    }

    /// Whether a command may be acknowledged at a level.
    pub fn is_released(&self, lsn: Lsn, level: DurabilityLevel) -> bool {
        let lsn = if planted(Canary::NeighboursTicket) { lsn.previous() } else { lsn };
        let lsn = if planted(Canary::TicketLate) { lsn.next() } else { lsn };
        lsn <= self.released().limit(level)
    }

    /// The failed write or sync that ended all writing, if there was one.
    pub fn failure(&self) -> Option<Failed> {
        self.failure.get().cloned()
    }

    /// Whether the store may grow.
    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Refuses every append from now on, for a reason.
    pub fn refuse_writes(&self, reason: String) {
        let _ = self.read_only.set(reason);
    }

    /// Why appends are refused altogether; `None` if they are not.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.get().map(String::as_str)
    }

    /// An error if appends are refused altogether: for changes that are not logged.
    pub fn check_read_only(&self) -> Result<(), Error> {
        match self.read_only() {
            Some(reason) => Err(Refused::ReadOnly { reason: reason.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Asks that everything assigned so far is synced now; returns up to which LSN that is.
    pub fn request_sync(&self) -> Lsn {
        let mut shared = self.shared.lock();
        let lsn = Lsn(self.assigned.load(Ordering::SeqCst));
        shared.sync_asked = shared.sync_asked.max(lsn);
        drop(shared);
        self.wake();
        lsn
    }

    /// Blocks until a command is released at a level, at most for a span.
    pub fn wait(&self, lsn: Lsn, level: DurabilityLevel, limit: Option<Nanos>) -> Result<(), Error> {
        // Only whom one is woken with depends on the turn: those of the open batch are left asleep until it is their turn.
        let turn = self.turn.load(Ordering::Relaxed) + u64::from(lsn.0 > self.taken.load(Ordering::Relaxed));
        let sleeper = Sleeper::Lsn { lsn, level, turn };
        let answer = self.waiters.block(sleeper, limit, || self.answer(lsn, level));
        answer.unwrap_or(Err(Refused::TimedOut.into()))
    }

    /// Has somebody told when a command is released at a level; at once, if it is.
    pub fn register(&self, lsn: Lsn, level: DurabilityLevel, waiter: Waiter) {
        if let Some((waiter, result)) = self.waiters.register(lsn, level, waiter, || self.answer(lsn, level)) {
            waiter.tell(result);
        }
    }

    /// Has an event loop told once after a change of the log, whenever it armed the subscription before.
    pub fn subscribe(&self, notify: Arc<dyn Fn() + Send + Sync>) -> Arc<Subscriber> {
        self.waiters.subscribe(notify)
    }

    /// Wakes the writer.
    pub fn wake(&self) {
        if let Some(waker) = self.writer.get() {
            waker.wake();
        }
    }

    /// Whom to wake when a segment has to be prepared. The first call counts.
    pub fn set_preparer(&self, waker: DiskWaker) {
        let _ = self.preparer.set(waker);
    }

    /// Refuses further appends. The writer syncs what is there and then answers `Next::Closed`.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.announce();
        self.wake();
    }

    /// Gives up the sealed segments that hold only LSNs up to `below`; returns how many.
    pub fn retire(&self, below: Lsn) -> usize {
        let count = self.shared.lock().segments.retire(below);
        if count > 0 {
            self.wake_preparer();
        }
        count
    }

    /// Says that no segment can be prepared, and why, or that it can again.
    pub fn set_space(&self, full: Option<Full>) {
        self.shared.lock().segments.full = full;
        self.announce();
    }

    /// Why no segment can be prepared.
    pub fn space(&self) -> Option<Full> {
        self.shared.lock().segments.full.clone()
    }

    /// What the writer has done so far.
    pub fn tally(&self) -> TallyNow {
        self.tally.now()
    }

    /// Bytes of frames that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.shared.lock().queue.payload_bytes()
    }

    /// Bytes of all files of the log, spare ones included.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().segments.bytes()
    }

    /// The oldest LSN the log still holds; `None` for a log without segments.
    pub fn first_lsn(&self) -> Option<Lsn> {
        self.shared.lock().segments.first_lsn()
    }

    /// Segments in use, oldest first; the last is the active one.
    pub fn spans(&self) -> Vec<SegmentSpan> {
        self.shared.lock().segments.spans()
    }

    /// Ends all writing: everybody gets this error from now on. The first failure stays.
    pub fn latch(&self, failed: Failed) {
        crate::mark!("log.latched");
        let shared = self.shared.lock();
        let _ = self.failure.set(failed);
        drop(shared);
        if !planted(Canary::FailureNotTold) {
            self.announce();
        }
        self.wake();
    }

    /// The store it belongs to.
    pub fn store(&self) -> StoreId {
        self.store
    }

    pub(super) fn options(&self) -> &LogOptions {
        &self.options
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    /// A batch left the queue.
    pub(super) fn note_taken(&self, last_lsn: Lsn) {
        self.taken.store(last_lsn.0, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_writer(&self, waker: DiskWaker) {
        let _ = self.writer.set(waker);
    }

    pub(super) fn wake_preparer(&self) {
        if let Some(waker) = self.preparer.get() {
            waker.wake();
        }
    }

    /// The one place where watermarks move.
    pub(super) fn advance(&self, written: Lsn, synced: Lsn, now: Nanos) {
        let mut shared = self.shared.lock();
        if self.failure.get().is_some() {
            // I2. Somebody else may have latched since the completion was taken in.
            return;
        }
        let assigned = Lsn(self.assigned.load(Ordering::SeqCst));
        assert!(written <= assigned, "log I1: written {written} is beyond assigned {assigned}");
        assert!(synced <= written, "log I1: synced {synced} is beyond written {written}");
        let written_before = self.written.swap(written.0, Ordering::SeqCst);
        assert!(written_before <= written.0, "log I1: written went back from {written_before} to {written}");
        let synced_before = self.synced.swap(synced.0, Ordering::SeqCst);
        assert!(synced_before <= synced.0, "log I1: synced went back from {synced_before} to {synced}");
        shared.lag.synced(synced);
        let open = shared.queue.lag();
        self.gated.store(!shared.lag.holds(now, open), Ordering::SeqCst);
        drop(shared);
        self.announce();
    }

    /// Tells those who wait that something has changed.
    pub(super) fn announce(&self) {
        let failure = self.failure.get().map(|failed| Error::from(failed.clone()));
        self.waiters.announce(|| self.released(), failure.as_ref());
    }

    fn released(&self) -> Released {
        let marks = self.watermarks();
        Released {
            accepted: marks.accepted_limit,
            written: marks.written.min(marks.accepted_limit),
            synced: marks.synced,
        }
    }

    fn answer(&self, lsn: Lsn, level: DurabilityLevel) -> Option<Result<(), Error>> {
        if self.is_released(lsn, level) {
            return Some(Ok(()));
        }
        self.failure.get().map(|failed| Err(failed.clone().into()))
    }

    fn check_append(&self, shared: &mut Shared, frame_bytes: usize, purpose: Purpose) -> Result<(), Error> {
        if let Some(failed) = self.failure.get().filter(|_| !planted(Canary::FailureForgotten)) {
            return Err(failed.clone().into());
        }
        if shared.closed {
            return Err(Refused::Closed.into());
        }
        self.check_read_only()?;
        let bytes_max = self.command_bytes_max();
        if frame_bytes > bytes_max {
            return Err(Refused::CommandTooLarge { bytes: frame_bytes, bytes_max }.into());
        }
        match shared.queue.check_room(frame_bytes, purpose) {
            Ok(()) => Ok(()),
            Err(NoRoom::Taking) => {
                crate::mark!("log.queue_full");
                shared.refused = true;
                self.wake();
                Err(Refused::Busy.into())
            }
            Err(NoRoom::Segment { bytes }) => {
                shared.refused = true;
                shared.segments.want(bytes);
                self.wake_preparer();
                Err(shared.segments.full.clone().map_or(Refused::Busy.into(), Error::from))
            }
        }
    }
}

impl Shared {
    /// Whether the frame just appended needs a writer that sleeps. Asked once: the writer counts as awake afterwards.
    fn needs_wake(&mut self, bytes_before: usize, flights_max: usize) -> bool {
        let bytes = self.queue.payload_bytes();
        let wake = match self.sleep {
            Sleep::Awake => false,
            Sleep::Disk => {
                let overlap = super::group_commit::OVERLAP_BYTES;
                flights_max > 1 && bytes_before < overlap && bytes >= overlap
            }
            Sleep::Timer(at) => {
                let due_at = self.lag.due_at(self.queue.lag());
                let timer_late = due_at.is_some_and(|due_at| at.is_none_or(|at| due_at < at));
                let large = bytes >= self.queue.bytes_max() / 2;
                self.queue.synced_wanted() || self.queue.written_wanted() || large || timer_late
            }
            Sleep::Company(frames) => self.queue.frame_count() >= frames || bytes >= self.queue.bytes_max() / 2,
        };
        if wake {
            self.sleep = Sleep::Awake;
        }
        wake
    }
}

/// A frame says its own length; if that were wrong, the whole batch could not be read again.
fn assert_frame(frame: &[u8]) {
    let says = frame.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize + FRAME_HEADER_BYTES);
    assert_eq!(says, Some(frame.len()), "log: a frame's length is not the one it says");
}
