//! Opens a snapshot, checks its frame, and hands out its blocks.
//! Guarantees: nothing is reserved beyond the file's own length; damage is named by file, place and case.
//! Must not know: trees, shards' owners, the manifest.
//! Next: recovery/load.rs builds trees from the blocks; verify.rs walks them all.

use super::file_name;
use crate::digest::Digest;
use crate::disk::{BlockingDisk, Buffer, Disk, DiskErrorKind, FileId, OpenMode, Operation};
use crate::error::{Corrupt, Error};
use crate::format::damage::Flaw;
use crate::format::snapshot::{
    SnapshotMeta, Trailer, decode_head, decode_head_bytes, decode_index, decode_trailer, index_bytes,
};
use crate::format::snapshot_block::{BlockPlace, Records, check_block};
use crate::index::Entry;
use crate::limits::BLOCK_BYTES;
use crate::units::Lsn;
use std::collections::{BTreeMap, VecDeque};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Reads in flight of one stream: enough to keep a disk busy while the records of a block are taken in.
const READS_IN_FLIGHT_MAX: usize = 4;

/// The frame of a snapshot, checked. Its blocks are read with a disk and file of the caller's own, so that many can.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Path of the file.
    pub name: String,
    /// What stands before the records.
    pub meta: SnapshotMeta,
    /// What stands behind them.
    pub trailer: Trailer,
    /// Where the blocks lie.
    pub blocks: Vec<BlockPlace>,
}

impl Snapshot {
    /// Reads and checks head, trailer and index of the snapshot at an LSN.
    pub fn open(disk: &mut dyn Disk, lsn: Lsn) -> Result<Snapshot, Error> {
        let name = file_name(lsn);
        let file = open_file(disk, &name)?;
        let snapshot = read_frame(disk, file, name, lsn);
        disk.close(file);
        snapshot
    }

    /// Opens the file for reading blocks.
    pub fn open_file(&self, disk: &mut dyn Disk) -> Result<FileId, Error> {
        open_file(disk, &self.name)
    }

    /// Reads and checks one block.
    pub fn read_block(&self, disk: &mut dyn Disk, file: FileId, number: usize) -> Result<Buffer, Error> {
        let place = &self.blocks[number];
        let buffer = read(disk, file, place.offset, place.file_bytes())?;
        self.check_block(&buffer, number)?;
        Ok(buffer)
    }

    fn check_block(&self, block: &[u8], number: usize) -> Result<(), Error> {
        let place = &self.blocks[number];
        check_block(block, place, self.meta.lsn).map_err(|flaw| flaw.into_error(&self.name, place.offset))
    }

    /// The records of a block that was read.
    pub fn records<'a>(
        &'a self,
        block: &'a [u8],
        number: usize,
    ) -> impl Iterator<Item = Result<(&'a [u8], Entry<'a>), Error>> + 'a {
        let place = &self.blocks[number];
        Records::new(block, place).map(move |record| record.map_err(|flaw| flaw.into_error(&self.name, place.offset)))
    }

    /// The name of a block's keyspace.
    pub fn keyspace_name(&self, keyspace: u16) -> &str {
        let definition = self.meta.keyspaces.iter().find(|definition| definition.keyspace == keyspace);
        definition.map_or("", |definition| definition.name.as_str())
    }

    /// Reads one block and adds its records up: all there is to check about it alone.
    pub fn digest_block(&self, disk: &mut dyn Disk, file: FileId, number: usize) -> Result<Digest, Error> {
        let block = self.read_block(disk, file, number)?;
        let name = self.keyspace_name(self.blocks[number].keyspace);
        let mut digest = Digest::EMPTY;
        for record in self.records(&block, number) {
            let (key, entry) = record?;
            digest.add(name, key, entry);
        }
        Ok(digest)
    }

    /// Compares the sum over all blocks with the trailer.
    pub fn check_digest(&self, digest: Digest) -> Result<(), Error> {
        if digest == Digest(self.trailer.digest) {
            return Ok(());
        }
        let at = self.trailer.file_bytes - BLOCK + 64;
        Err(corrupt("snapshot digest", &self.name, at, 'i', Digest(self.trailer.digest), digest).into())
    }
}

fn open_file(disk: &mut dyn Disk, name: &str) -> Result<FileId, Error> {
    match disk.open(name, OpenMode::Read) {
        Err(error) if error.kind == DiskErrorKind::NotFound => {
            Err(corrupt("snapshot", name, 0, 'a', "a file, since the manifest names it", "none").into())
        }
        opened => Ok(opened?),
    }
}

fn read_frame(disk: &mut dyn Disk, file: FileId, name: String, lsn: Lsn) -> Result<Snapshot, Error> {
    let file_bytes = disk.file_bytes(file)?;
    if file_bytes < 2 * BLOCK || !file_bytes.is_multiple_of(BLOCK) {
        return Err(corrupt("snapshot", &name, file_bytes, 'a', "two or more whole blocks", file_bytes).into());
    }
    let first = read(disk, file, 0, BLOCK)?;
    let path = name.as_str();
    let at = |base: u64| move |flaw: Flaw| flaw.into_error(path, base);
    let head_bytes = decode_head_bytes(&first, file_bytes).map_err(at(0))?;
    let meta = decode_head(&read(disk, file, 0, head_bytes)?).map_err(at(0))?;
    let trailer_offset = file_bytes - BLOCK;
    let trailer = decode_trailer(&read(disk, file, trailer_offset, BLOCK)?, file_bytes).map_err(at(trailer_offset))?;
    if (meta.lsn, trailer.lsn) != (lsn, lsn) {
        let found = format!("LSN {} in the head, {} in the trailer", meta.lsn, trailer.lsn);
        return Err(corrupt("snapshot", &name, 32, 'b', format!("LSN {lsn}"), found).into());
    }
    let bytes = index_bytes(&trailer, head_bytes).map_err(at(trailer_offset))?;
    let index = if bytes == 0 { Vec::new() } else { read(disk, file, trailer.index_offset, bytes)?.to_vec() };
    let blocks = decode_index(&index, &trailer, head_bytes).map_err(at(trailer.index_offset))?;
    let snapshot = Snapshot { name, meta, trailer, blocks };
    check_references(&snapshot)?;
    Ok(snapshot)
}

/// Blocks may only name keyspaces and shards that the head knows.
fn check_references(snapshot: &Snapshot) -> Result<(), Error> {
    for block in &snapshot.blocks {
        let known = snapshot.meta.keyspaces.iter().any(|definition| definition.keyspace == block.keyspace);
        if !known || block.shard >= snapshot.meta.shards {
            let found = format!("shard {} and keyspace {}", block.shard, block.keyspace);
            let expected = "a shard and keyspace that the head names";
            return Err(corrupt("snapshot index", &snapshot.name, block.offset, 'e', expected, found).into());
        }
    }
    Ok(())
}

fn read(disk: &mut dyn Disk, file: FileId, offset: u64, bytes: u64) -> Result<Buffer, Error> {
    let buffer = disk.buffer(usize::try_from(bytes).expect("a length was compared with the file's"));
    Ok(disk.read_at(file, offset, buffer)?)
}

fn corrupt(
    what: &'static str,
    file: &str,
    offset: u64,
    case: char,
    expected: impl ToString,
    found: impl ToString,
) -> Corrupt {
    let (expected, found) = (expected.to_string(), found.to_string());
    Corrupt { what, file: file.to_owned(), offset, case, expected, found }
}

/// Reads chosen blocks ahead and gives them back, checked, in the order asked for.
pub struct BlockStream<'a> {
    snapshot: &'a Snapshot,
    disk: &'a mut dyn Disk,
    file: FileId,
    waiting: VecDeque<usize>,
    in_flight: VecDeque<usize>,
    arrived: BTreeMap<usize, Result<Buffer, Error>>,
}

impl<'a> BlockStream<'a> {
    /// Starts on the blocks with these numbers. The disk serves nothing else meanwhile.
    pub fn new(snapshot: &'a Snapshot, disk: &'a mut dyn Disk, numbers: &[usize]) -> Result<BlockStream<'a>, Error> {
        let file = snapshot.open_file(disk)?;
        let waiting = numbers.iter().copied().collect();
        Ok(BlockStream { snapshot, disk, file, waiting, in_flight: VecDeque::new(), arrived: BTreeMap::new() })
    }

    /// The next block: its number and bytes. `None` after the last.
    pub fn next_block(&mut self) -> Option<Result<(usize, Buffer), Error>> {
        self.read_ahead();
        let number = self.in_flight.pop_front()?;
        while !self.arrived.contains_key(&number) {
            self.disk.wait(None);
            self.collect();
        }
        let arrived = self.arrived.remove(&number).expect("the block has arrived");
        let checked = arrived.and_then(|block| self.snapshot.check_block(&block, number).map(|()| (number, block)));
        Some(checked)
    }

    fn read_ahead(&mut self) {
        while self.in_flight.len() < READS_IN_FLIGHT_MAX {
            let Some(number) = self.waiting.pop_front() else { break };
            let place = &self.snapshot.blocks[number];
            let bytes = usize::try_from(place.file_bytes()).expect("a length was compared with the file's");
            let buffer = self.disk.buffer(bytes);
            self.disk.submit(number as u64, Operation::Read { file: self.file, offset: place.offset, buffer });
            self.in_flight.push_back(number);
        }
        self.collect();
    }

    fn collect(&mut self) {
        let mut done = Vec::new();
        self.disk.poll(&mut done);
        for completion in done {
            let buffer = completion.buffer;
            let result = completion.result.map(|()| buffer.expect("a read gives its buffer back"));
            self.arrived.insert(completion.token as usize, result.map_err(Error::from));
        }
    }
}

impl Drop for BlockStream<'_> {
    fn drop(&mut self) {
        while self.in_flight.iter().any(|number| !self.arrived.contains_key(number)) {
            self.disk.wait(None);
            self.collect();
        }
        self.disk.close(self.file);
    }
}
