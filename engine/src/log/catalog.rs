//! The files of the log directory: their headers, and the chain that the headers make.
//!
//! Guarantees: the chain is followed from the newest segment back by the ids that headers name, so a missing or damaged
//! segment that is still needed shows, and left-over files of any kind do not matter.
//! Must not know: batches.
//! Next: reader.rs walks the chain.

use super::segments::{LOG_DIRECTORY, parse_name, segment_name};
use super::tail::{CASE_HEADER, CASE_MISSING, CASE_STRAY};
use super::walk::Window;
use crate::disk::{Disk, DiskError, DiskErrorKind, OpenMode};
use crate::error::{Corrupt, Error, Refused};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentHeader};
use crate::format::{StoreId, Unreadable};
use crate::limits::BLOCK_BYTES;
use crate::units::{Lsn, SegmentId};
use std::collections::BTreeMap;

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub bytes: u64,
    /// Of its own id, or why there is none.
    pub header: Result<SegmentHeader, Unreadable>,
}

/// All files by id.
pub(super) type Catalog = BTreeMap<SegmentId, Listed>;

/// Reads the headers of all segment files.
pub(super) fn list(disk: &mut dyn Disk, store: StoreId) -> Result<Catalog, Error> {
    let listed = match disk.list(LOG_DIRECTORY) {
        Err(DiskError { kind: DiskErrorKind::NotFound, .. }) => Vec::new(),
        listed => listed?,
    };
    let mut catalog = Catalog::new();
    for file in listed {
        if let Some(segment) = parse_name(&file.name) {
            let header = read_header(disk, store, segment, file.bytes)?;
            catalog.insert(segment, Listed { bytes: file.bytes, header });
        }
    }
    Ok(catalog)
}

fn read_header(
    disk: &mut dyn Disk,
    store: StoreId,
    segment: SegmentId,
    bytes: u64,
) -> Result<Result<SegmentHeader, Unreadable>, Error> {
    if bytes < SEGMENT_HEADER_BYTES as u64 {
        return Ok(Err(Unreadable::Length));
    }
    let name = segment_name(segment);
    let file = disk.open(&name, OpenMode::Read)?;
    let mut window = Window::new(file, SEGMENT_HEADER_BYTES as u64);
    let header = window.get(disk, 0, SEGMENT_HEADER_BYTES as u64).map(|block| SegmentHeader::decode(store, block));
    disk.close(file);
    match header? {
        Ok(header) if header.segment != segment => Ok(Err(Unreadable::Value("header of an older segment"))),
        Err(Unreadable::Version(found)) => Err(Refused::Version { file: name, found, known: SEGMENT_VERSION }.into()),
        header => Ok(header),
    }
}

/// Opens a segment's file for reading as far as it is whole.
pub(super) fn open(disk: &mut dyn Disk, header: &SegmentHeader) -> Result<Window, Error> {
    let file = disk.open(&segment_name(header.segment), OpenMode::Read)?;
    let bytes = disk.file_bytes(file)?.min(header.segment_bytes);
    Ok(Window::new(file, bytes - bytes % BLOCK_BYTES as u64))
}

/// The segments in use, oldest first. `from`: the first LSN that is needed; 0 for what there is.
pub(super) fn chain(catalog: &Catalog, from: Lsn) -> Result<Vec<SegmentHeader>, Error> {
    let in_use = |segment: &SegmentId| catalog.get(segment).and_then(|listed| listed.header.as_ref().ok());
    let newest = catalog.values().rev().find_map(|listed| listed.header.as_ref().ok());
    let mut chain: Vec<SegmentHeader> = newest.into_iter().copied().collect();
    while let Some(first) = chain.last().copied().filter(|first| first.previous_segment != SegmentId(0)) {
        match in_use(&first.previous_segment) {
            Some(previous) => chain.push(*previous),
            None if from == Lsn::NONE || from > first.previous_last_lsn => break,
            None => return Err(missing(catalog, &first).into()),
        }
    }
    chain.reverse();
    check_strays(catalog, &chain)?;
    Ok(chain)
}

fn missing(catalog: &Catalog, next: &SegmentHeader) -> Corrupt {
    let listed = catalog.get(&next.previous_segment);
    let found = match listed.map(|listed| &listed.header) {
        Some(Err(unreadable)) => unreadable.to_string(),
        _ => "no such file".to_string(),
    };
    Corrupt {
        what: "segment header",
        file: segment_name(next.previous_segment),
        offset: 0,
        case: if listed.is_some() { CASE_HEADER } else { CASE_MISSING },
        expected: format!("the segment before {}, up to LSN {}", next.segment, next.previous_last_lsn),
        found,
    }
}

/// A segment with a good header inside the chain's range that the chain leaves out was written by nobody of ours.
fn check_strays(catalog: &Catalog, chain: &[SegmentHeader]) -> Result<(), Error> {
    let Some(first) = chain.first() else { return Ok(()) };
    let stray = catalog
        .range(first.segment..)
        .filter_map(|(_, listed)| listed.header.as_ref().ok())
        .find(|header| chain.iter().all(|linked| linked.segment != header.segment));
    let Some(stray) = stray else { return Ok(()) };
    Err(Corrupt {
        what: "segment header",
        file: segment_name(stray.segment),
        offset: 0,
        case: CASE_STRAY,
        expected: "a segment that a later one names".to_string(),
        found: format!("none names segment {}", stray.segment),
    }
    .into())
}
