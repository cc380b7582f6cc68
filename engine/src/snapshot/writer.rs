//! Writes a snapshot in bounded steps: records in, one file out.
//! Guarantees: a look at the records is held while one block is encoded, never while it is written; a part is dropped as soon as its
//! last record is encoded; space is reserved before it is written to,
//! so that a full disk is `Full` and never a failed write; nothing bears its final name before it is synced.
//! Must not know: pacing, the manifest, which snapshots are kept.
//! Next: checkpoint.rs drives it.

use super::{DIRECTORY, file_name, file_name_unfinished};
use crate::canary::{Canary, planted};
use crate::digest::Digest;
use crate::disk::{BlockingDisk, Buffer, Disk, DiskErrorKind, FileId, OpenMode};
use crate::error::{Error, Refused};
use crate::format::snapshot::{SnapshotMeta, Trailer, encode_head, encode_index, encode_trailer};
use crate::format::snapshot_block::{BLOCK_HEADER_BYTES, BlockPlace, encode_record, record_bytes, seal_block};
use crate::index::{PastView, View};
use crate::limits::{BLOCK_BYTES, SNAPSHOT_BLOCK_BYTES};
use crate::units::Lsn;
use std::collections::VecDeque;

/// One shard's records of one keyspace.
pub struct Part {
    /// Shard.
    pub shard: u16,
    /// Keyspace.
    pub keyspace: u16,
    /// Records. Dropped as soon as the last one is written.
    pub content: Box<dyn Content>,
}

/// Where the records of a part come from: as they were at the snapshot's LSN, whatever has happened since.
pub trait Content: Send {
    /// A look at the records behind a key; everything up to it is written and will not be asked for again. Held for one
    /// block, never over an operation of the disk.
    fn behind(&mut self, after: Option<&[u8]>) -> PastView;
}

impl Content for View {
    fn behind(&mut self, _after: Option<&[u8]>) -> PastView {
        PastView::of(self.clone())
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes written.
    pub written: u64,
    /// Whether all records are written: `finish` comes next.
    pub done: bool,
}

/// What a finished snapshot turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its last command.
    pub lsn: Lsn,
    /// Length of the file.
    pub file_bytes: u64,
    /// Number of records.
    pub record_count: u64,
    /// State digest.
    pub digest: Digest,
}

/// A snapshot that is being written.
pub struct SnapshotWriter {
    meta: SnapshotMeta,
    file: FileId,
    parts: VecDeque<Part>,
    /// Last key written of the first part; the next block starts behind it.
    after: Option<Vec<u8>>,
    offset: u64,
    places: Vec<BlockPlace>,
    record_count: u64,
    digest: Digest,
    spare: Option<Buffer>,
    /// Blocks end at this length, unless one record is longer.
    block_bytes: usize,
}

/// What goes into the next block, found by a walk before anything is encoded.
struct Extent {
    payload_bytes: usize,
    record_count: u32,
    /// Whether nothing is left behind it.
    is_last: bool,
}

impl SnapshotWriter {
    /// Starts the file. Parts are written in the order given.
    pub fn begin(disk: &mut dyn Disk, meta: SnapshotMeta, parts: Vec<Part>) -> Result<SnapshotWriter, Error> {
        for part in &parts {
            if !meta.keyspaces.iter().any(|definition| definition.keyspace == part.keyspace) {
                return Err(Refused::Unknown { kind: "keyspace", name: part.keyspace.to_string() }.into());
            }
        }
        let name = file_name_unfinished(meta.lsn);
        remove_if_there(disk, &name)?;
        let file = disk.open(&name, OpenMode::Create)?;
        let head = encode_head(&meta);
        let mut writer = SnapshotWriter {
            meta,
            file,
            parts: parts.into(),
            after: None,
            offset: 0,
            places: Vec::new(),
            record_count: 0,
            digest: Digest::EMPTY,
            spare: None,
            block_bytes: SNAPSHOT_BLOCK_BYTES,
        };
        match writer.append(disk, &head) {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.abandon(disk);
                Err(error)
            }
        }
    }

    /// Sets the length at which blocks end; at most the usual one.
    pub fn with_block_bytes(mut self, block_bytes: usize) -> SnapshotWriter {
        self.block_bytes = block_bytes.min(SNAPSHOT_BLOCK_BYTES);
        self
    }

    /// The last command of the snapshot.
    pub fn lsn(&self) -> Lsn {
        self.meta.lsn
    }

    /// Writes blocks until at least `bytes_max` bytes went out, or all records. A block is never split.
    pub fn step(&mut self, disk: &mut dyn Disk, bytes_max: u64) -> Result<Step, Error> {
        let mut written = 0;
        while written < bytes_max {
            let Some(part) = self.parts.front_mut() else { break };
            let look = part.content.behind(self.after.as_deref());
            let extent = measure(&look, self.after.as_deref(), self.block_bytes);
            let block = if extent.record_count > 0 { Some(self.encode_block(disk, &look, &extent)) } else { None };
            drop(look);
            if extent.is_last {
                self.parts.pop_front();
                self.after = None;
            }
            if let Some((buffer, place)) = block {
                written += self.write_block(disk, buffer, place)?;
            }
        }
        Ok(Step { written, done: self.parts.is_empty() })
    }

    fn encode_block(&mut self, disk: &mut dyn Disk, look: &PastView, extent: &Extent) -> (Buffer, BlockPlace) {
        let part = self.parts.front().expect("the look is at the first part");
        let place = BlockPlace {
            offset: self.offset,
            payload_bytes: u32::try_from(extent.payload_bytes).expect("limits bound a record and a block"),
            record_count: extent.record_count,
            shard: part.shard,
            keyspace: part.keyspace,
            payload_crc: 0,
        };
        let bytes = place.file_bytes();
        let mut buffer = match self.spare.take() {
            Some(spare) if spare.len() as u64 == bytes => spare,
            _ => disk.buffer(usize::try_from(bytes).expect("a block was measured in memory")),
        };
        let definition = self.meta.keyspaces.iter().find(|definition| definition.keyspace == part.keyspace);
        let name = definition.map(|definition| definition.name.as_str()).expect("begin checked the keyspaces");
        let mut last = encode_records(&mut buffer, look, self.after.as_deref(), extent, name, &mut self.digest);
        if planted(Canary::CursorSkips)
            && let Some((skipped, _)) = look.behind(Some(&last)).next()
        {
            last = skipped.to_vec();
        }
        self.after = Some(last);
        (buffer, place)
    }

    fn write_block(&mut self, disk: &mut dyn Disk, mut buffer: Buffer, place: BlockPlace) -> Result<u64, Error> {
        let place = seal_block(&mut buffer, place, self.meta.lsn);
        let bytes = place.file_bytes();
        disk.allocate(self.file, self.offset + bytes)?;
        self.spare = Some(disk.write_at(self.file, self.offset, buffer, false)?);
        self.offset += bytes;
        self.record_count += u64::from(place.record_count);
        self.places.push(place);
        Ok(bytes)
    }

    fn append(&mut self, disk: &mut dyn Disk, bytes: &[u8]) -> Result<(), Error> {
        assert!(bytes.len().is_multiple_of(BLOCK_BYTES), "the frame of a snapshot is whole blocks");
        if bytes.is_empty() {
            return Ok(());
        }
        let mut buffer = disk.buffer(bytes.len());
        buffer.copy_from_slice(bytes);
        disk.allocate(self.file, self.offset + bytes.len() as u64)?;
        disk.write_at(self.file, self.offset, buffer, false)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes index and trailer, makes the file durable, gives it its name and makes that durable too.
    pub fn finish(mut self, disk: &mut dyn Disk) -> Result<Written, Error> {
        assert!(self.parts.is_empty(), "all records are written before the snapshot is finished");
        match self.complete(disk) {
            Ok(written) => Ok(written),
            Err(error) => {
                self.abandon(disk);
                Err(error)
            }
        }
    }

    fn complete(&mut self, disk: &mut dyn Disk) -> Result<Written, Error> {
        let index_offset = self.offset;
        let (index, index_crc) = encode_index(&self.places);
        let trailer = Trailer {
            lsn: self.meta.lsn,
            block_count: self.places.len() as u64,
            record_count: self.record_count,
            index_offset,
            index_crc,
            file_bytes: index_offset + (index.len() + BLOCK_BYTES) as u64,
            digest: self.digest.0,
        };
        self.append(disk, &index)?;
        self.append(disk, &encode_trailer(&trailer))?;
        assert_eq!(self.offset, trailer.file_bytes, "the trailer tells the length of the file");
        disk.sync(self.file)?;
        disk.rename(&file_name_unfinished(self.meta.lsn), &file_name(self.meta.lsn))?;
        if !planted(Canary::SkipSnapshotDirectorySync) {
            disk.sync_directory(DIRECTORY)?;
        }
        disk.close(self.file);
        Ok(Written {
            lsn: self.meta.lsn,
            file_bytes: trailer.file_bytes,
            record_count: self.record_count,
            digest: self.digest,
        })
    }

    /// Gives up: removes what was written. If even that fails, the left-over is removed before the next snapshot.
    pub fn abandon(self, disk: &mut dyn Disk) {
        crate::mark!("snapshot_abandoned");
        disk.close(self.file);
        let _ = disk.remove(&file_name_unfinished(self.meta.lsn));
    }
}

/// Removes a file; it is no error if it is not there.
fn remove_if_there(disk: &mut dyn Disk, name: &str) -> Result<(), Error> {
    match disk.remove(name) {
        Err(error) if error.kind != DiskErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// As many records as fit a block of the usual size, but at least one. The walk costs little beside encoding and saves a copy.
fn measure(look: &PastView, after: Option<&[u8]>, block_bytes: usize) -> Extent {
    let mut extent = Extent { payload_bytes: 0, record_count: 0, is_last: true };
    for (key, entry) in look.behind(after) {
        let bytes = extent.payload_bytes + record_bytes(key, entry);
        if extent.record_count > 0 && bytes > block_bytes - BLOCK_HEADER_BYTES {
            return Extent { is_last: false, ..extent };
        }
        extent = Extent { payload_bytes: bytes, record_count: extent.record_count + 1, is_last: true };
    }
    extent
}

fn encode_records(
    buffer: &mut [u8],
    look: &PastView,
    after: Option<&[u8]>,
    extent: &Extent,
    keyspace: &str,
    digest: &mut Digest,
) -> Vec<u8> {
    let mut at = BLOCK_HEADER_BYTES;
    let mut last: &[u8] = &[];
    for (key, entry) in look.behind(after).take(extent.record_count as usize) {
        at += encode_record(&mut buffer[at..], key, entry);
        digest.add(keyspace, key, entry);
        last = key;
    }
    assert_eq!(at, BLOCK_HEADER_BYTES + extent.payload_bytes, "a look does not change between measuring and encoding");
    last.to_vec()
}
