//! The open batch: frames that were appended and not yet taken by the writer.
//! Guarantees: frames stand in LSN order, copied once, right where they will be written from; what is in the queue
//! fits the segment or a spare one. A refused frame changes nothing.
//! Must not know: segments, watermarks, waiting.
//! Next: append.rs guards it with a mutex; writer.rs takes the batch.

use super::append::Stamp;
use super::lag::OpenLag;
use crate::disk::Buffer;
use crate::durability::DurabilityLevel;
use crate::format::batch::{BATCH_HEADER_BYTES, padded_bytes};
use crate::units::{Lsn, Millis, Nanos};

/// The open batch and the buffers it is built in.
#[derive(Debug)]
pub(super) struct Queue {
    buffer: Option<Buffer>,
    payload_bytes: usize,
    frame_count: u32,
    next_lsn: Lsn,
    oldest: Option<Nanos>,
    time: Millis,
    wall: Millis,
    synced_wanted: bool,
    written_wanted: bool,
    /// Buffers that came back from the disk.
    idle: Vec<Buffer>,
    idle_max: usize,
    bytes_max: usize,
    /// Most bytes, padding included, that the batch may take in the segment.
    pub room: Room,
}

/// What a frame does to the size of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It may get larger: the last part of a log that cannot go on is not for such frames.
    Grow,
    /// It only gets smaller.
    Shrink,
}

/// Bytes that one batch may take, wherever it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// With frames that let the store grow.
    pub grow: usize,
    /// With frames that make it smaller only. Never less than the other.
    pub shrink: usize,
}

/// A batch that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    /// Header room, payload, padding: whole blocks.
    pub buffer: Buffer,
    pub first_lsn: Lsn,
    pub frame_count: u32,
    pub payload_bytes: usize,
    pub oldest: Nanos,
    pub time: Millis,
    pub wall: Millis,
}

/// Why a frame does not fit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The writer has to take the batch first.
    Taking,
    /// No segment has room for a batch of this many bytes.
    Segment { bytes: usize },
}

impl Queue {
    pub fn new(next_lsn: Lsn, bytes_max: usize, idle_max: usize) -> Queue {
        Queue {
            buffer: None,
            payload_bytes: 0,
            frame_count: 0,
            next_lsn,
            oldest: None,
            time: Millis(0),
            wall: Millis(0),
            synced_wanted: false,
            written_wanted: false,
            idle: Vec::new(),
            idle_max,
            bytes_max,
            room: Room::default(),
        }
    }

    /// Whether a frame of this length fits now.
    pub fn check_room(&self, frame_bytes: usize, purpose: Purpose) -> Result<(), NoRoom> {
        let room_bytes = match purpose {
            Purpose::Grow => self.room.grow,
            Purpose::Shrink => self.room.shrink,
        };
        let alone = padded_bytes(frame_bytes);
        if alone > room_bytes {
            return Err(NoRoom::Segment { bytes: alone });
        }
        let together = self.payload_bytes + frame_bytes;
        let fits = padded_bytes(together) <= room_bytes && together <= self.bytes_max;
        if self.is_empty() || fits { Ok(()) } else { Err(NoRoom::Taking) }
    }

    /// Copies a frame in. `check_room` has passed.
    pub fn push(&mut self, frame: &[u8], level: DurabilityLevel, stamp: Stamp) -> Lsn {
        let from = BATCH_HEADER_BYTES + self.payload_bytes;
        self.grow(from + frame.len());
        let buffer = self.buffer.as_mut().expect("grow leaves a buffer");
        buffer[from..from + frame.len()].copy_from_slice(frame);
        self.payload_bytes += frame.len();
        self.frame_count += 1;
        self.oldest.get_or_insert(stamp.now);
        self.time = self.time.max(stamp.time);
        self.wall = stamp.wall;
        match level {
            DurabilityLevel::Synced => self.synced_wanted = true,
            DurabilityLevel::Written => self.written_wanted = true,
            DurabilityLevel::Accepted | DurabilityLevel::Volatile => {}
        }
        let lsn = self.next_lsn;
        self.next_lsn = lsn.next();
        lsn
    }

    /// Empties the queue. It must not be empty.
    pub fn take(&mut self) -> Taken {
        let mut buffer = self.buffer.take().expect("a queue that is not empty has a buffer");
        buffer.set_len(padded_bytes(self.payload_bytes));
        let taken = Taken {
            buffer,
            first_lsn: self.first_lsn(),
            frame_count: self.frame_count,
            payload_bytes: self.payload_bytes,
            oldest: self.oldest.expect("a queue that is not empty has an oldest frame"),
            time: self.time,
            wall: self.wall,
        };
        self.payload_bytes = 0;
        self.frame_count = 0;
        self.oldest = None;
        self.synced_wanted = false;
        self.written_wanted = false;
        taken
    }

    /// Takes a buffer in for the next batches; one that grew for a large command is let go.
    pub fn give(&mut self, mut buffer: Buffer) {
        let usual = buffer.capacity() <= 2 * padded_bytes(self.bytes_max);
        if self.idle.len() < self.idle_max && usual {
            let capacity = buffer.capacity();
            buffer.set_len(capacity);
            self.idle.push(buffer);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.frame_count == 0
    }

    pub fn frame_count(&self) -> u32 {
        self.frame_count
    }

    pub fn first_lsn(&self) -> Lsn {
        Lsn(self.next_lsn.0 - u64::from(self.frame_count))
    }

    pub fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn synced_wanted(&self) -> bool {
        self.synced_wanted
    }

    pub fn written_wanted(&self) -> bool {
        self.written_wanted
    }

    pub fn lag(&self) -> OpenLag {
        OpenLag { oldest: self.oldest, bytes: self.payload_bytes as u64 }
    }

    fn grow(&mut self, bytes: usize) {
        if self.buffer.is_none() {
            self.buffer = self.idle.pop();
        }
        let capacity = self.buffer.as_ref().map_or(0, |buffer| buffer.len());
        if capacity >= bytes {
            return;
        }
        let mut larger = Buffer::zeroed(bytes.max(2 * capacity));
        if let Some(old) = self.buffer.take() {
            let used = BATCH_HEADER_BYTES + self.payload_bytes;
            larger[BATCH_HEADER_BYTES..used].copy_from_slice(&old[BATCH_HEADER_BYTES..used]);
        }
        self.buffer = Some(larger);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { now: Nanos(5), time: Millis(7), wall: Millis(8) };

    #[test]
    fn frames_are_copied_in_lsn_order_behind_the_header_room() {
        let mut queue = Queue::new(Lsn(10), 1 << 20, 2);
        queue.room = Room { grow: 1 << 20, shrink: 1 << 20 };
        assert_eq!(queue.push(b"aaa", DurabilityLevel::Accepted, STAMP), Lsn(10));
        assert!(!queue.synced_wanted());
        let large = vec![b'b'; 9000];
        assert_eq!(queue.push(&large, DurabilityLevel::Synced, STAMP), Lsn(11));
        let taken = queue.take();
        assert_eq!((taken.first_lsn, taken.frame_count, taken.payload_bytes), (Lsn(10), 2, 9003));
        assert_eq!(taken.buffer.len(), 12288);
        assert_eq!(&taken.buffer[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + 4], b"aaab");
        assert!(queue.is_empty());
        assert_eq!(queue.push(b"c", DurabilityLevel::Accepted, STAMP), Lsn(12));
    }

    #[test]
    fn a_full_queue_waits_for_the_writer_and_a_missing_segment_for_the_preparer() {
        let mut queue = Queue::new(Lsn(1), 10_000, 2);
        assert_eq!(queue.check_room(1, Purpose::Grow), Err(NoRoom::Segment { bytes: 4096 }));
        queue.room = Room { grow: 16384, shrink: 16384 };
        assert_eq!(queue.check_room(12_000, Purpose::Grow), Ok(()), "one large command may exceed the batch bound");
        queue.push(&[0; 6000], DurabilityLevel::Accepted, STAMP);
        assert_eq!(queue.check_room(4000, Purpose::Grow), Ok(()));
        assert_eq!(queue.check_room(4001, Purpose::Grow), Err(NoRoom::Taking));
        assert_eq!(queue.check_room(20_000, Purpose::Grow), Err(NoRoom::Segment { bytes: 20_480 }));
    }

    #[test]
    fn the_last_part_of_a_log_that_cannot_go_on_is_for_frames_that_make_the_store_smaller() {
        let mut queue = Queue::new(Lsn(1), 10_000, 2);
        queue.room = Room { grow: 4096, shrink: 16384 };
        assert_eq!(queue.check_room(5000, Purpose::Grow), Err(NoRoom::Segment { bytes: 8192 }));
        assert_eq!(queue.check_room(5000, Purpose::Shrink), Ok(()));
    }
}
