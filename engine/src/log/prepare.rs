//! Makes segments ready before they are needed, in steps that never take long.
//!
//! Guarantees: a spare is zero-written or was a segment before, is synced, and its name is; only then the writer sees it. A disk
//! that is full leaves no partial file behind, and is asked again after a second or when segments were retired.
//! Must not know: batches, who calls it.
//! Next: segments.rs plans what is done here.

use super::append::Log;
use super::segments::{LOG_DIRECTORY, Plan, Spare, SpareFile, segment_name};
use super::writer::failed;
use crate::canary::{Canary, planted};
use crate::disk::{BlockingDisk, Disk, DiskError, DiskErrorKind, FileId, OpenMode};
use crate::error::Full;
use crate::units::{FileOffset, Nanos, SegmentId};
use std::sync::Arc;

/// Zeros written in one step.
const STEP_BYTES: u64 = 1 << 20;
/// Time between attempts while the disk is full.
const RETRY: Nanos = Nanos::SECOND;

/// When the preparer has to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareNext {
    /// At once.
    Again,
    /// At this time, or when the log asks (`Log::set_preparer`).
    Until(Nanos),
    /// When the log asks.
    Idle,
}

#[derive(Debug)]
struct Zeroing {
    file: FileId,
    segment: SegmentId,
    bytes: u64,
    done: FileOffset,
}

/// Prepares segments. One for each log.
#[derive(Debug)]
pub struct Preparer {
    log: Arc<Log>,
    zeroing: Option<Zeroing>,
    /// Not before this time, unless more segments were retired than then.
    retry: Option<(Nanos, u64)>,
    directory_made: bool,
    /// Leaves it to its owner to say that the disk is full, since that one may know how to make room.
    defers_full: bool,
    starved: bool,
    /// Free bytes that a new file leaves alone.
    floor_bytes: u64,
}

impl Preparer {
    /// For a log; the disk comes with each step, since its owner does other things with it too.
    pub fn new(log: Arc<Log>) -> Preparer {
        Preparer {
            log,
            zeroing: None,
            retry: None,
            directory_made: false,
            defers_full: false,
            starved: false,
            floor_bytes: 0,
        }
    }

    /// From now on the owner says that the disk is full: `is_starved` tells it.
    pub fn defer_full(&mut self) {
        self.defers_full = true;
    }

    /// Whether a segment is wanted and the disk had no room for it.
    pub fn is_starved(&mut self) -> bool {
        self.starved = self.starved && self.log.lock().segments.wants_spare();
        self.starved
    }

    /// Free bytes that new files shall leave alone.
    pub fn set_floor(&mut self, bytes: u64) {
        self.floor_bytes = bytes;
    }

    /// Room may have been made: does not wait any longer.
    pub fn retry_now(&mut self) {
        self.retry = None;
    }

    /// Does one bounded piece of work. The disk must have nothing in flight.
    pub fn step(&mut self, disk: &mut dyn Disk, now: Nanos) -> PrepareNext {
        if self.log.failure().is_some() {
            return PrepareNext::Idle;
        }
        if let Some((at, retired_count)) = self.retry {
            let retired = self.log.lock().segments.retired_count > retired_count;
            if now < at && !retired {
                return PrepareNext::Until(at);
            }
            self.retry = None;
        }
        let result = match self.zeroing.take() {
            Some(zeroing) => self.zero(disk, zeroing),
            None => self.start(disk),
        };
        match result {
            Ok(true) => PrepareNext::Again,
            Ok(false) => self.retry_later(now),
            Err(error) => self.fail(error, now),
        }
    }

    /// Carries a new plan out; false: nothing to do.
    fn start(&mut self, disk: &mut dyn Disk) -> Result<bool, DiskError> {
        let plan = self.log.lock().segments.plan();
        match plan {
            Plan::Nothing => Ok(false),
            Plan::Remove(file) => remove(disk, &file).map(|()| true),
            Plan::Recycle { file, to } => self.recycle(disk, &file, to).map(|()| true),
            Plan::Create { segment, bytes } => self.create(disk, segment, bytes).map(|()| true),
            Plan::Full(full) => {
                self.log.set_space(Some(full));
                self.retry = Some((Nanos(0), 0));
                Ok(false)
            }
        }
    }

    fn retry_later(&mut self, now: Nanos) -> PrepareNext {
        if self.retry.is_none() {
            return PrepareNext::Idle;
        }
        let at = now.after(RETRY);
        self.retry = Some((at, self.log.lock().segments.retired_count));
        PrepareNext::Until(at)
    }

    /// A full disk is waited for; anything else ends all writing, since nobody knows what the medium does next.
    fn fail(&mut self, error: DiskError, now: Nanos) -> PrepareNext {
        if error.kind != DiskErrorKind::Full {
            self.log.latch(failed(error));
            return PrepareNext::Idle;
        }
        crate::mark!("log.prepare_disk_full");
        self.starved = true;
        if !self.defers_full {
            self.log.set_space(Some(Full::Disk));
        }
        self.retry = Some((now, 0));
        self.retry_later(now)
    }

    fn recycle(&mut self, disk: &mut dyn Disk, file: &SpareFile, to: SegmentId) -> Result<(), DiskError> {
        crate::mark!("log.segment_recycled");
        // One that an earlier process prepared may never have been synced.
        let old = disk.open(&segment_name(file.segment), OpenMode::Write)?;
        let synced = disk.sync(old);
        disk.close(old);
        synced?;
        let renamed = disk.rename(&segment_name(file.segment), &segment_name(to));
        if let Err(error) = renamed {
            self.log.lock().segments.put_back(file.clone());
            return Err(error);
        }
        sync_names(disk)?;
        self.publish(Spare { segment: to, bytes: file.bytes, recycled: true });
        Ok(())
    }

    fn create(&mut self, disk: &mut dyn Disk, segment: SegmentId, bytes: u64) -> Result<(), DiskError> {
        if !self.directory_made {
            disk.create_directory(LOG_DIRECTORY)?;
            disk.sync_directory("")?;
            self.directory_made = true;
        }
        let name = segment_name(segment);
        if self.floor_bytes > 0 && disk.space()?.free < bytes.saturating_add(self.floor_bytes) {
            crate::mark!("log.floor_reached");
            return Err(DiskError { operation: "allocate", file: name, kind: DiskErrorKind::Full });
        }
        let file = disk.open(&name, OpenMode::Create)?;
        if let Err(error) = disk.allocate(file, bytes) {
            return Err(discard(disk, file, segment, error));
        }
        self.zeroing = Some(Zeroing { file, segment, bytes, done: 0 });
        Ok(())
    }

    fn zero(&mut self, disk: &mut dyn Disk, mut zeroing: Zeroing) -> Result<bool, DiskError> {
        if zeroing.done < zeroing.bytes {
            let bytes = STEP_BYTES.min(zeroing.bytes - zeroing.done);
            let zeros = disk.buffer(bytes as usize);
            if let Err(error) = disk.write_at(zeroing.file, zeroing.done, zeros, false) {
                return Err(discard(disk, zeroing.file, zeroing.segment, error));
            }
            zeroing.done += bytes;
            self.zeroing = Some(zeroing);
            return Ok(true);
        }
        if let Err(error) = disk.sync(zeroing.file) {
            return Err(discard(disk, zeroing.file, zeroing.segment, error));
        }
        disk.close(zeroing.file);
        sync_names(disk)?;
        self.publish(Spare { segment: zeroing.segment, bytes: zeroing.bytes, recycled: false });
        Ok(true)
    }

    fn publish(&mut self, spare: Spare) {
        let mut shared = self.log.lock();
        shared.segments.add_spare(spare);
        shared.queue.room = shared.segments.room();
        drop(shared);
        self.starved = false;
        self.log.announce();
    }
}

/// Makes the names of new segments last.
fn sync_names(disk: &mut dyn Disk) -> Result<(), DiskError> {
    if planted(Canary::SkipLogDirectorySync) { Ok(()) } else { disk.sync_directory(LOG_DIRECTORY) }
}

fn remove(disk: &mut dyn Disk, file: &SpareFile) -> Result<(), DiskError> {
    disk.remove(&segment_name(file.segment))?;
    disk.sync_directory(LOG_DIRECTORY)
}

/// Takes a partial file away, best effort: the first error is the one that counts.
fn discard(disk: &mut dyn Disk, file: FileId, segment: SegmentId, error: DiskError) -> DiskError {
    disk.close(file);
    let _ = disk.remove(&segment_name(segment));
    error
}
