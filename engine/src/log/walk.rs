//! Walks the batches of one segment, as far as they are whole and in order.
//! Guarantees: reads in large pieces, never believes a length that runs past the segment, never visits a batch with a doubt.
//! Must not know: what the end means.
//! Next: facts.rs looks at what stands there; reader.rs goes from segment to segment.

use crate::canary::{Canary, planted};
use crate::disk::{BlockingDisk, Buffer, Disk, FileId};
use crate::error::{Error, Refused};
use crate::format::batch::{self, BatchHeader, Frames};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::format::{StoreId, Unreadable};
use crate::limits::BLOCK_BYTES;
use crate::units::{FileOffset, Lsn, Millis, SegmentId};
use std::collections::VecDeque;

/// Bytes read at once.
const PIECE_BYTES: u64 = 512 << 10;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// A whole batch as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// The segment it stands in.
    pub segment: SegmentId,
    /// Where it stands there.
    pub offset: FileOffset,
    bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Its frames with their LSNs.
    pub fn frames(&self) -> Frames<'a> {
        Frames::new(&self.header, self.bytes)
    }
}

/// Bytes that a crash left and that are no part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub segment: SegmentId,
    /// First byte.
    pub from: FileOffset,
    /// Behind the last byte that may matter to somebody who looks into it.
    pub to: FileOffset,
}

/// A file read in pieces.
#[derive(Debug)]
pub(super) struct Window {
    file: FileId,
    /// Whole blocks of the file, up to the segment's length.
    pub readable: u64,
    buffer: Option<Buffer>,
    start: FileOffset,
}

impl Window {
    pub fn new(file: FileId, readable: u64) -> Window {
        Window { file, readable, buffer: None, start: 0 }
    }

    /// The file, to be closed.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Bytes of the file; whole blocks within `readable`.
    pub fn get(&mut self, disk: &mut dyn Disk, offset: FileOffset, bytes: u64) -> Result<&[u8], Error> {
        assert!(offset + bytes <= self.readable, "a read stays inside the file");
        let held = self.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
        if offset < self.start || offset + bytes > self.start + held {
            let piece = bytes.max(PIECE_BYTES.min(self.readable - offset)) as usize;
            let buffer = match self.buffer.take().filter(|buffer| buffer.capacity() >= piece) {
                Some(mut buffer) => {
                    buffer.set_len(piece);
                    buffer
                }
                None => disk.buffer(piece),
            };
            self.buffer = Some(disk.read_at(self.file, offset, buffer)?);
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        let buffer = self.buffer.as_ref().expect("the piece was just read");
        Ok(&buffer[from..from + bytes as usize])
    }
}

/// Why a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It came to the limit exactly.
    Limit,
    /// The file is shorter than it should be.
    Short,
    /// No batch of this segment, or a damaged one.
    Bytes(Unreadable),
    /// A sound header of another segment.
    OtherGeneration(SegmentId),
    /// A whole batch, but not the next one.
    Disorder { expected: u64, found: u64 },
}

/// How far a walk came.
#[derive(Clone, Debug)]
pub(super) struct WalkEnd {
    pub offset: FileOffset,
    pub last_lsn: Lsn,
    pub last_sequence: u64,
    /// What the next batch would have to be.
    pub next_lsn: Lsn,
    pub next_sequence: u64,
    pub time: Option<Millis>,
    /// Places and last LSNs of the batches that no later one proves to have been synced.
    pub unproven: VecDeque<(FileOffset, Lsn)>,
    pub stop: Stop,
}

impl WalkEnd {
    /// Everything up to `lsn` is known to have been synced.
    pub fn prove(&mut self, lsn: Lsn) {
        while self.unproven.front().is_some_and(|(_, last_lsn)| *last_lsn <= lsn) {
            self.unproven.pop_front();
        }
    }

    /// Where the part of the segment begins that nothing proves to be on stable storage; its header goes with its first batch.
    pub fn proven_offset(&self) -> FileOffset {
        let first = SEGMENT_HEADER_BYTES as u64;
        match self.unproven.front() {
            Some((offset, _)) if *offset > first => *offset,
            None if self.offset > first => self.offset,
            _ => 0,
        }
    }
}

/// Takes a reader's look at each batch.
pub(super) type Visit<'v> = dyn FnMut(Batch<'_>) -> Result<(), Error> + 'v;

/// Visits the batches from the segment's first one on, up to `limit` or the first that is not there.
pub(super) fn walk(
    disk: &mut dyn Disk,
    store: StoreId,
    window: &mut Window,
    segment: &SegmentHeader,
    limit: FileOffset,
    visit: &mut Visit<'_>,
) -> Result<WalkEnd, Error> {
    let mut end = WalkEnd {
        offset: SEGMENT_HEADER_BYTES as u64,
        last_lsn: segment.previous_last_lsn,
        last_sequence: segment.previous_last_sequence,
        next_lsn: segment.first_lsn,
        next_sequence: segment.first_sequence,
        time: None,
        unproven: VecDeque::new(),
        stop: Stop::Limit,
    };
    while end.offset < limit {
        match read_batch(disk, store, window, segment.segment, end.offset, limit)? {
            Ok(batch) => {
                let header = batch.header;
                let follows = header.sequence == end.next_sequence && header.first_lsn == end.next_lsn;
                if !follows && !planted(Canary::SequenceGap) {
                    end.stop = Stop::Disorder { expected: end.next_sequence, found: header.sequence };
                    break;
                }
                visit(batch)?;
                end.unproven.push_back((end.offset, header.last_lsn()));
                end.prove(header.lsn_synced);
                end.offset += header.padded_bytes();
                end.last_lsn = header.last_lsn();
                end.last_sequence = header.sequence;
                end.next_lsn = end.last_lsn.next();
                end.next_sequence = header.sequence + 1;
                end.time = Some(header.time);
            }
            Err(stop) => {
                end.stop = stop;
                break;
            }
        }
    }
    Ok(end)
}

/// Reads one whole batch of the segment, or says why there is none.
pub(super) fn read_batch<'w>(
    disk: &mut dyn Disk,
    store: StoreId,
    window: &'w mut Window,
    segment: SegmentId,
    offset: FileOffset,
    limit: FileOffset,
) -> Result<Result<Batch<'w>, Stop>, Error> {
    if offset + BLOCK > window.readable {
        return Ok(Err(Stop::Short));
    }
    let block = window.get(disk, offset, BLOCK)?;
    let header = match batch::decode_header(store, block, limit - offset) {
        Ok(header) if header.generation != segment && !planted(Canary::StaleGeneration) => {
            return Ok(Err(Stop::OtherGeneration(header.generation)));
        }
        Ok(header) => header,
        Err(Unreadable::Version(found)) if batch::claimed_generation(block) == Some(segment) => {
            let file = super::segments::segment_name(segment);
            return Err(Refused::Version { file, found, known: batch::BATCH_VERSION }.into());
        }
        Err(Unreadable::Zeros) if block.iter().any(|byte| *byte != 0) => {
            return Ok(Err(Stop::Bytes(Unreadable::Magic("batch"))));
        }
        Err(unreadable) => return Ok(Err(Stop::Bytes(unreadable))),
    };
    if offset + header.padded_bytes() > window.readable {
        return Ok(Err(Stop::Short));
    }
    let bytes = window.get(disk, offset, header.padded_bytes())?;
    match batch::check_payload(store, &header, bytes) {
        Ok(()) => Ok(Ok(Batch { header, segment, offset, bytes })),
        Err(unreadable) => Ok(Err(Stop::Bytes(unreadable))),
    }
}
