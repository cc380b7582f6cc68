//! Turns the decisions of group commit into disk operations: takes, seals and submits batches, and moves the watermarks.
//!
//! Guarantees: checksums are computed outside the mutex; a segment's header and first batch go out in one durable write;
//! the first failed operation latches the log, nothing is retried and no watermark moves afterwards.
//! Must not know: threads. Whoever drives it calls `step`, then `wait` with the answer.
//! Next: group_commit.rs decides; append.rs is the other side of the queue.

use super::append::{Log, Shared, Sleep};
use super::group_commit::{Action, GroupCommit, QueueView};
use super::position::LogPosition;
use super::queue::Taken;
use super::retention::SegmentSpan;
use super::segments::{Spare, segment_name};
use crate::canary::{Canary, planted};
use crate::disk::{BlockingDisk, Buffer, Completion, Disk, DiskError, DiskWaker, FileId, OpenMode, Operation};
use crate::error::{Error, Failed};
use crate::format::batch::{self, BatchHeader, padded_bytes};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::units::{FileOffset, Lsn, Nanos, SegmentId};
use std::sync::Arc;

/// The spare that becomes active, and the segment before it.
type Switched = (Spare, Option<SegmentSpan>);

/// What the driver has to wait for before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: step again.
    Again,
    /// Something is in flight: its completion, or the waker.
    Disk,
    /// This time, or the waker.
    Until(Nanos),
    /// The waker. Nothing is unsynced.
    Idle,
    /// Nothing, ever: the log is closed and synced, or has failed, and nothing is in flight.
    Closed,
}

/// The segment that is written to.
#[derive(Clone, Copy, Debug)]
struct Active {
    file: FileId,
    segment: SegmentId,
    end: FileOffset,
}

/// The end of the log as the next segment's header will name it.
#[derive(Clone, Copy, Debug)]
pub struct LogStop {
    /// The active segment; 0 for none.
    pub segment: SegmentId,
    /// Behind its last batch.
    pub offset: FileOffset,
    /// Last command.
    pub last_lsn: Lsn,
    /// Last batch.
    pub last_sequence: u64,
}

/// The only writer of a log.
#[derive(Debug)]
pub struct LogWriter {
    disk: DiskBox,
    log: Arc<Log>,
    commit: GroupCommit,
    active: Option<Active>,
    end: LogStop,
    next_sequence: u64,
    next_token: u64,
    /// The segment before the active one, until a batch of the active one is durable.
    sealing: Option<(SegmentSpan, Lsn)>,
    in_flight: usize,
    /// Durable writes and syncs in flight, with the time they were submitted.
    timed: Vec<(u64, Nanos)>,
    now: Nanos,
    done: Vec<Completion>,
}

/// A disk, with a name for debug output.
struct DiskBox(Box<dyn Disk>);

impl std::fmt::Debug for DiskBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.report().backend)
    }
}

impl LogWriter {
    /// Starts from a position. What was read from the segment the log ended in may be in the page cache only, and from now on
    /// counts as synced. A sync is not enough: if one failed before the process ended, the kernel holds the pages for
    /// clean and the next sync does nothing. So the part that nothing proves is written again, as it is, and then synced.
    pub fn new(mut disk: Box<dyn Disk>, log: Arc<Log>, start: &LogPosition) -> Result<LogWriter, Error> {
        let mut active = None;
        if let Some(last) = start.active {
            let file = disk.open(&segment_name(last.segment), OpenMode::Write)?;
            if !planted(Canary::TailNotWrittenAgain) {
                write_again(&mut *disk, file, last.proven, last.end)?;
                disk.sync(file)?;
            }
            if start.appended_to().is_some() {
                active = Some(Active { file, segment: last.segment, end: last.end });
            } else {
                disk.close(file);
            }
        }
        let flights_max = log.options().batches_in_flight_max;
        let buffer_bytes = padded_bytes(log.options().batch_bytes_max);
        let mut shared = log.lock();
        (0..=flights_max).for_each(|_| shared.queue.give(disk.buffer(buffer_bytes)));
        drop(shared);
        log.set_writer(disk.waker());
        Ok(LogWriter {
            disk: DiskBox(disk),
            commit: GroupCommit::new(start.newest_lsn(), flights_max),
            active,
            end: LogStop {
                segment: start.active.map_or(SegmentId(0), |last| last.segment),
                offset: start.active.map_or(0, |last| last.end),
                last_lsn: start.last_lsn,
                last_sequence: start.last_sequence,
            },
            next_sequence: start.next_sequence,
            next_token: 1,
            sealing: None,
            in_flight: 0,
            timed: Vec::new(),
            now: Nanos(0),
            done: Vec::new(),
            log,
        })
    }

    /// Does all that can be done now without waiting.
    pub fn step(&mut self, now: Nanos) -> Next {
        self.now = now;
        self.collect(now);
        loop {
            if self.log.failure().is_some() {
                return if self.in_flight > 0 { Next::Disk } else { Next::Closed };
            }
            let (action, taken, spare, must_sync) = self.decide(now);
            let result = match (action, taken) {
                (Action::Take { durable }, Some(taken)) => {
                    self.write(taken, durable, must_sync);
                    Ok(())
                }
                (Action::Switch, Some(taken)) => self.switch(taken, spare),
                (Action::Sync, _) => {
                    self.sync();
                    Ok(())
                }
                (Action::Disk, _) => return Next::Disk,
                (Action::Until(at) | Action::Company { until: at, .. }, _) => return Next::Until(at),
                (Action::Idle, _) => return self.idle(),
                (Action::Take { .. } | Action::Switch, None) => unreachable!("a batch is taken with the decision"),
            };
            if let Err(error) = result {
                self.log.latch(failed(error));
            }
        }
    }

    /// Waits for what `step` answered.
    pub fn wait(&mut self, next: Next, now: Nanos) {
        match next {
            Next::Again | Next::Closed => {}
            Next::Disk | Next::Idle => self.disk.0.wait(None),
            Next::Until(at) => self.disk.0.wait(Some(at.since(now))),
        }
    }

    /// Where the log ends now: of use once `step` has answered `Closed` without a failure.
    pub fn stop(&self) -> LogStop {
        self.end
    }

    /// Ends a `wait` from another thread.
    pub fn waker(&self) -> DiskWaker {
        self.disk.0.waker()
    }

    /// Takes completions in and moves the watermarks.
    fn collect(&mut self, now: Nanos) {
        let mut done = std::mem::take(&mut self.done);
        self.disk.0.poll(&mut done);
        let any = !done.is_empty();
        for completion in done.drain(..) {
            self.in_flight -= 1;
            if let Some(at) = self.timed.iter().position(|(token, _)| *token == completion.token) {
                let took = now.since(self.timed.swap_remove(at).1);
                self.log.tally.sync(took);
                self.commit.rest(now, took);
            }
            match completion.result {
                Ok(()) if self.log.failure().is_none() => self.commit.completed(completion.token),
                Ok(()) => {}
                Err(_) if planted(Canary::ErrorSwallowed) => self.commit.completed(completion.token),
                Err(_) if planted(Canary::SyncRetried) && completion.buffer.is_none() => {
                    self.in_flight += 1;
                    self.submit_sync(completion.token);
                }
                Err(error) => self.log.latch(failed(error)),
            }
            if let Some(buffer) = completion.buffer {
                self.log.lock().queue.give(buffer);
            }
        }
        self.done = done;
        if any && self.log.failure().is_none() {
            self.seal_previous();
            self.log.advance(self.commit.written(), self.commit.synced(), now);
        }
    }

    fn seal_previous(&mut self) {
        if let Some((span, first_lsn)) = self.sealing
            && self.commit.synced() >= first_lsn
        {
            self.log.lock().segments.seal(span);
            self.sealing = None;
        }
    }

    /// Decides, and takes the batch and the segment it needs, all under the one mutex.
    fn decide(&mut self, now: Nanos) -> (Action, Option<Taken>, Option<Switched>, bool) {
        let mut shared = self.log.lock();
        let view = shared.view(now);
        let action = self.commit.decide(&view);
        shared.sleep = match action {
            Action::Disk => Sleep::Disk,
            Action::Until(at) => Sleep::Timer(Some(at)),
            Action::Idle => Sleep::Timer(None),
            Action::Company { frames, .. } => Sleep::Company(frames),
            _ => Sleep::Awake,
        };
        let mut spare = None;
        let taken = match action {
            Action::Switch => {
                spare = shared.segments.switch(view.bytes as u64, view.first_lsn);
                Some(shared.take())
            }
            Action::Take { .. } => Some(shared.take()),
            _ => None,
        };
        if taken.is_some() {
            self.log.note_taken(Lsn(shared.queue.next_lsn().0 - 1));
        }
        let refused = taken.is_some() && std::mem::take(&mut shared.refused);
        let prepare = taken.is_some() && shared.segments.wants_spare();
        drop(shared);
        if refused {
            self.log.announce();
        }
        if prepare {
            self.log.wake_preparer();
        }
        (action, taken, spare, view.must_sync())
    }

    fn write(&mut self, taken: Taken, durable: bool, must_sync: bool) {
        let active = self.active.expect("a batch fits the active segment only if there is one");
        let header = self.header(active.segment, &taken);
        let mut buffer = taken.buffer;
        batch::seal(self.log.store(), &header, &mut buffer);
        self.submit_batch(active, active.end, buffer, &header, durable);
        if must_sync && !durable {
            self.commit.want_synced(header.last_lsn());
        }
    }

    /// Starts a segment: its header and first batch in one durable write.
    fn switch(&mut self, taken: Taken, spare: Option<Switched>) -> Result<(), DiskError> {
        crate::mark!("log.segment_switched");
        let (spare, before) = spare.expect("the queue's bound keeps a spare for what is in it");
        let file = self.disk.0.open(&segment_name(spare.segment), OpenMode::Write)?;
        let header = self.header(spare.segment, &taken);
        let mut buffer = self.disk.0.buffer(SEGMENT_HEADER_BYTES + taken.buffer.len());
        buffer.set_len(SEGMENT_HEADER_BYTES + taken.buffer.len());
        let (block, rest) = buffer.split_at_mut(SEGMENT_HEADER_BYTES);
        self.segment_header(&spare, &header).encode(self.log.store(), block);
        rest.copy_from_slice(&taken.buffer);
        batch::seal(self.log.store(), &header, rest);
        self.log.lock().queue.give(taken.buffer);
        if let Some(old) = self.active.take() {
            self.disk.0.close(old.file);
        }
        self.sealing = before.map(|span| (span, header.first_lsn));
        let active = Active { file, segment: spare.segment, end: 0 };
        self.submit_batch(active, 0, buffer, &header, true);
        Ok(())
    }

    fn segment_header(&self, spare: &Spare, first: &BatchHeader) -> SegmentHeader {
        SegmentHeader {
            segment: spare.segment,
            segment_bytes: spare.bytes,
            previous_segment: self.end.segment,
            previous_last_lsn: self.end.last_lsn,
            previous_last_sequence: self.end.last_sequence,
            previous_end: self.end.offset,
            first_lsn: first.first_lsn,
            first_sequence: first.sequence,
            recycled: spare.recycled,
        }
    }

    fn header(&self, generation: SegmentId, taken: &Taken) -> BatchHeader {
        BatchHeader {
            generation,
            sequence: self.next_sequence,
            first_lsn: taken.first_lsn,
            lsn_synced: match planted(Canary::SyncedProofTooHigh) {
                true => taken.first_lsn.previous(),
                false => self.commit.synced(),
            },
            time: taken.time,
            wall: taken.wall,
            frame_count: taken.frame_count,
            payload_bytes: u32::try_from(taken.payload_bytes).expect("a batch is shorter than a segment"),
        }
    }

    fn submit_batch(&mut self, active: Active, at: FileOffset, buffer: Buffer, header: &BatchHeader, durable: bool) {
        let end = at + buffer.len() as u64;
        self.active = Some(Active { end, ..active });
        self.end = LogStop {
            segment: active.segment,
            offset: end,
            last_lsn: header.last_lsn(),
            last_sequence: header.sequence,
        };
        self.next_sequence += 1;
        let token = self.token();
        self.commit.started(token, header.last_lsn(), durable);
        self.commit.expect_company(header.frame_count);
        self.log.tally.batch(buffer.len() as u64);
        if durable {
            self.timed.push((token, self.now));
        }
        let durable = durable && !planted(Canary::SkipSync);
        self.disk.0.submit(token, Operation::Write { file: active.file, offset: at, buffer, durable });
    }

    fn sync(&mut self) {
        let token = self.token();
        self.commit.sync_started(token);
        self.timed.push((token, self.now));
        self.submit_sync(token);
    }

    fn submit_sync(&mut self, token: u64) {
        let active = self.active.expect("what is unsynced is in the active segment");
        self.disk.0.submit(token, Operation::Sync { file: active.file });
    }

    fn token(&mut self) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.in_flight += 1;
        token
    }

    fn idle(&self) -> Next {
        let shared = self.log.lock();
        let empty = shared.queue.is_empty() && self.commit.is_quiet();
        if shared.closed && empty { Next::Closed } else { Next::Idle }
    }
}

impl Shared {
    /// The queue as group commit sees it.
    fn view(&self, now: Nanos) -> QueueView {
        let bytes = if self.queue.is_empty() { 0 } else { padded_bytes(self.queue.payload_bytes()) };
        let due_at = self.lag.due_at(self.queue.lag());
        QueueView {
            bytes,
            frames: self.queue.frame_count(),
            now,
            first_lsn: self.queue.first_lsn(),
            synced_wanted: self.queue.synced_wanted(),
            written_wanted: self.queue.written_wanted(),
            full: self.refused || self.queue.payload_bytes() >= self.queue.bytes_max() / 2,
            fits: bytes as u64 <= self.segments.active_room(),
            lag_due: due_at.is_some_and(|at| at <= now),
            lag_due_at: due_at,
            sync_asked: self.sync_asked,
            closing: self.closed,
        }
    }

    /// Takes the open batch and notes where it goes. The segment has been switched, if it had to be.
    fn take(&mut self) -> Taken {
        let taken = self.queue.take();
        let last_lsn = Lsn(self.queue.next_lsn().0 - 1);
        self.lag.taken(last_lsn, taken.oldest, taken.payload_bytes as u64);
        self.segments.fill(taken.buffer.len() as u64, last_lsn);
        self.queue.room = self.segments.room();
        taken
    }
}

/// Makes bytes durable that can be read, whatever the kernel believes about them.
fn write_again(disk: &mut dyn Disk, file: FileId, from: FileOffset, to: FileOffset) -> Result<(), DiskError> {
    let mut at = from;
    while at < to {
        crate::mark!("log.tail_written_again");
        let bytes = (to - at).min(1 << 20) as usize;
        let mut buffer = disk.buffer(bytes);
        buffer.set_len(bytes);
        let buffer = disk.read_at(file, at, buffer)?;
        disk.write_at(file, at, buffer, true)?;
        at += bytes as u64;
    }
    Ok(())
}

/// The error that ends all writing.
pub(super) fn failed(error: DiskError) -> Failed {
    Failed { operation: error.operation, file: error.file, reason: error.kind.to_string() }
}
