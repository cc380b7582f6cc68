//! Reads a log that nobody writes: the one way for recovery, verify, dump and replay.
//!
//! Guarantees: batches are visited in LSN order without a gap, from the one that holds `from`; where the log ends is decided by
//! the table in tail.rs; damage before that end is an error, never the end.
//! Must not know: frames, snapshots.
//! Next: catalog.rs has the chain of segments, walk.rs one segment, facts.rs its end.

use super::catalog::{self, Catalog};
use super::facts::{self, Found};
use super::position::{ActiveSegment, LogPosition};
use super::retention::SegmentSpan;
use super::segments::{SpareFile, segment_name};
use super::tail::{self, CASE_MISSING, Facts, Later, Place, Proof, Successor, Verdict};
use super::walk::{Batch, Cut, Stop, WalkEnd, Window, walk};
use crate::canary::{Canary, planted};
use crate::disk::{Disk, OpenMode};
use crate::error::{Corrupt, Error};
use crate::format::StoreId;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::limits::BLOCK_BYTES;
use crate::units::{Lsn, Millis, SegmentId};
use std::collections::VecDeque;

/// Where a log ends, and everything needed to go on.
#[derive(Clone, Debug)]
pub struct LogEnd {
    /// Last LSN of the log.
    pub last_lsn: Lsn,
    /// Above every LSN that any sound header names, cut ones included.
    pub next_lsn: Lsn,
    /// Sequence of the last batch.
    pub last_sequence: u64,
    /// Above every sequence seen.
    pub next_sequence: u64,
    /// The segment it ends in; `None` for a log without segments.
    pub active: Option<ActiveSegment>,
    /// Row of the table that decided it.
    pub case: char,
    /// What is cut off in that segment.
    pub cut: Option<Cut>,
    /// Files behind it that hold batches nobody can need: part of the torn tail, to be kept aside.
    pub torn_files: Vec<SegmentId>,
    /// Engine time of the last batch that was walked.
    pub time: Option<Millis>,
    /// Segments in use, oldest first; the last is the active one.
    pub spans: Vec<SegmentSpan>,
    /// Files that hold nothing of the log.
    pub spare_files: Vec<SpareFile>,
    /// Above every id seen.
    pub next_segment: SegmentId,
}

impl LogEnd {
    /// Where the log goes on. `stopped_cleanly`: in the same segment, unless something was put behind its end since.
    pub fn position(&self, store: StoreId, stopped_cleanly: bool) -> LogPosition {
        let whole = self.cut.is_none() && self.torn_files.is_empty() && self.next_lsn == self.last_lsn.next();
        let sealed = self.spans.split_last().map_or(&[][..], |(_, sealed)| sealed);
        LogPosition {
            store,
            last_lsn: self.last_lsn,
            state_lsn: self.last_lsn,
            next_lsn: self.next_lsn,
            last_sequence: self.last_sequence,
            next_sequence: self.next_sequence,
            active: self.active,
            goes_on: ((stopped_cleanly && whole) || planted(Canary::TornTailKept)) && self.active.is_some(),
            next_segment: self.next_segment,
            sealed: sealed.to_vec(),
            spare_files: self.spare_files.clone(),
        }
    }
}

/// Visits the batches of a log from the one that holds `from` on (0: from the oldest there is) and finds its end.
/// A batch that begins before `from` is visited too; the visitor skips what it has.
pub fn scan(
    disk: &mut dyn Disk,
    store: StoreId,
    from: Lsn,
    proof: Proof,
    visit: &mut dyn FnMut(Batch<'_>) -> Result<(), Error>,
) -> Result<LogEnd, Error> {
    let catalog = catalog::list(disk, store)?;
    let chain = catalog::chain(&catalog, from)?;
    let proof = Proof { synced: proof.synced.max(from.previous()), ..proof };
    check_newest(&chain, proof)?;
    let mut scan = Scan { disk, store, from, proof, time: None, visit };
    for pair in chain.windows(2) {
        scan.sealed(&pair[0], &pair[1])?;
    }
    let (end, found, torn_files) = match chain.last() {
        Some(last) => scan.last(&catalog, last)?,
        None => scan.nothing(&catalog)?,
    };
    let time = scan.time;
    Ok(LogEnd { time, ..finish(&catalog, &chain, end, found, torn_files) })
}

struct Scan<'s> {
    disk: &'s mut dyn Disk,
    store: StoreId,
    from: Lsn,
    proof: Proof,
    time: Option<Millis>,
    visit: &'s mut dyn FnMut(Batch<'_>) -> Result<(), Error>,
}

/// The end of the last segment, decided.
struct Ended {
    walk: WalkEnd,
    case: char,
    cut: Option<Cut>,
}

impl Scan<'_> {
    /// Walks a segment that a later one follows.
    fn sealed(&mut self, segment: &SegmentHeader, next: &SegmentHeader) -> Result<(), Error> {
        check_link(segment, next)?;
        if self.from > next.previous_last_lsn {
            return Ok(());
        }
        let bounds = SEGMENT_HEADER_BYTES as u64..=segment.segment_bytes;
        let limit = next.previous_end.clamp(*bounds.start(), *bounds.end());
        let mut window = catalog::open(self.disk, segment)?;
        let end = self.walk(&mut window, segment, limit)?;
        self.disk.close(window.file());
        let agrees = end.stop == Stop::Limit
            && limit == next.previous_end
            && end.last_lsn == next.previous_last_lsn
            && end.last_sequence == next.previous_last_sequence;
        let facts = Facts {
            place: Place::SegmentEnd,
            later: Later::Nothing,
            successor: if agrees { Successor::Agrees } else { Successor::Disagrees },
            reaches_proof: true,
        };
        let case = tail::decide(&facts);
        if case.verdict == Verdict::Corruption {
            let expected = format!(
                "LSN {} and sequence {} at the end, byte {}, as segment {} says",
                next.previous_last_lsn, next.previous_last_sequence, next.previous_end, next.segment
            );
            return Err(corrupt(segment, &end, case.letter, expected).into());
        }
        Ok(())
    }

    /// Walks the newest segment and decides about its end.
    fn last(&mut self, catalog: &Catalog, segment: &SegmentHeader) -> Result<(Ended, Found, Vec<SegmentId>), Error> {
        let mut window = catalog::open(self.disk, segment)?;
        let mut end = self.walk(&mut window, segment, segment.segment_bytes)?;
        // After a clean stop too: a cut that nothing was written behind yet stands there until then, and its LSNs with it.
        let later_from = end.offset + BLOCK_BYTES as u64;
        let mut found = facts::search(self.disk, self.store, &mut window, segment.segment, end.offset, later_from)?;
        end.prove(self.proof.synced.max(found.lsn_synced_max));
        let place = facts::place(self.disk, &mut window, segment, &end, &found)?;
        let cut_to = facts::cut_end(&window, segment, end.offset, &found);
        self.disk.close(window.file());
        let torn_files = self.later_files(catalog, segment.segment, &mut found)?;
        let facts = Facts {
            place,
            later: found.later(end.next_lsn),
            successor: Successor::Nothing,
            reaches_proof: end.last_lsn >= self.proof.synced,
        };
        let case = tail::decide(&facts);
        let cut = match case.verdict {
            Verdict::CleanEnd => None,
            Verdict::TornTail => {
                crate::mark!("log.torn_tail");
                Some(Cut { segment: segment.segment, from: end.offset, to: cut_to })
            }
            Verdict::Corruption => {
                let proven = self.proof.synced.max(found.lsn_synced_max);
                let expected = format!("a batch with LSN {}; everything up to {proven} was synced", end.next_lsn);
                return Err(corrupt(segment, &end, case.letter, expected).into());
            }
        };
        Ok((Ended { walk: end, case: case.letter, cut }, found, torn_files))
    }

    /// There is no segment in use: fresh, or behind a snapshot that needs none of the log.
    fn nothing(&mut self, catalog: &Catalog) -> Result<(Ended, Found, Vec<SegmentId>), Error> {
        let last_lsn = self.from.previous();
        let mut found = Found::default();
        let torn_files = self.later_files(catalog, SegmentId(0), &mut found)?;
        let facts = Facts {
            place: Place::Zeros,
            later: found.later(last_lsn.next()),
            successor: Successor::Nothing,
            reaches_proof: last_lsn >= self.proof.synced,
        };
        let case = tail::decide(&facts);
        if case.verdict == Verdict::Corruption {
            let proven = self.proof.synced.max(found.lsn_synced_max);
            return Err(nothing_found(case.letter, format!("the log up to LSN {proven}")).into());
        }
        let walk = WalkEnd {
            offset: 0,
            last_lsn,
            last_sequence: 0,
            next_lsn: last_lsn.next(),
            next_sequence: 1,
            time: None,
            unproven: VecDeque::new(),
            stop: Stop::Limit,
        };
        Ok((Ended { walk, case: case.letter, cut: None }, found, torn_files))
    }

    /// Searches files behind the last segment for batches of their own: their headers were lost, or never written.
    fn later_files(&mut self, catalog: &Catalog, last: SegmentId, found: &mut Found) -> Result<Vec<SegmentId>, Error> {
        let mut torn = Vec::new();
        for (segment, listed) in catalog.range(last.next()..) {
            let file = self.disk.open(&segment_name(*segment), OpenMode::Read)?;
            let mut window = Window::new(file, listed.bytes - listed.bytes % BLOCK_BYTES as u64);
            let first = SEGMENT_HEADER_BYTES as u64;
            let in_file = facts::search(self.disk, self.store, &mut window, *segment, first, first)?;
            self.disk.close(file);
            if in_file.later_count > 0 {
                crate::mark!("log.torn_segment_header");
                torn.push(*segment);
            }
            found.merge(&in_file);
        }
        Ok(torn)
    }

    fn walk(&mut self, window: &mut Window, segment: &SegmentHeader, limit: u64) -> Result<WalkEnd, Error> {
        let (from, visit) = (self.from, &mut *self.visit);
        let mut wanted = |batch: Batch<'_>| if batch.header.last_lsn() < from { Ok(()) } else { visit(batch) };
        let end = walk(self.disk, self.store, window, segment, limit, &mut wanted)?;
        self.time = self.time.max(end.time);
        Ok(end)
    }
}

fn finish(
    catalog: &Catalog,
    chain: &[SegmentHeader],
    ended: Ended,
    found: Found,
    torn_files: Vec<SegmentId>,
) -> LogEnd {
    let end = ended.walk;
    let spare_files = catalog
        .iter()
        .filter(|(segment, _)| chain.iter().all(|linked| linked.segment != **segment))
        .map(|(segment, listed)| SpareFile { segment: *segment, bytes: listed.bytes })
        .collect();
    let active = chain.last().map(|last| ActiveSegment {
        segment: last.segment,
        bytes: last.segment_bytes,
        first_lsn: last.first_lsn,
        proven: end.proven_offset(),
        end: end.offset,
    });
    let lasts = chain.iter().skip(1).map(|next| next.previous_last_lsn).chain([end.last_lsn]);
    let spans = chain.iter().zip(lasts).map(|(header, last_lsn)| SegmentSpan {
        segment: header.segment,
        first_lsn: header.first_lsn,
        last_lsn,
        bytes: header.segment_bytes,
    });
    // A segment whose first batch was torn has given its first LSN and sequence away, though nothing of it was read.
    let head_only = !chain.is_empty() && end.time.is_none();
    let (lsn_max, sequence_max) =
        if head_only { (end.next_lsn, end.next_sequence) } else { (end.last_lsn, end.last_sequence) };
    LogEnd {
        last_lsn: end.last_lsn,
        next_lsn: lsn_max.max(found.lsn_max).next(),
        last_sequence: end.last_sequence,
        next_sequence: sequence_max.max(found.sequence_max) + 1,
        active,
        case: ended.case,
        cut: ended.cut,
        torn_files,
        time: end.time,
        spans: spans.collect(),
        spare_files,
        next_segment: catalog.keys().next_back().map_or(SegmentId(1), |segment| segment.next()),
    }
}

/// A segment that is skipped unread, since all of it is in a snapshot, must at least be one that can end where the next one says.
fn check_link(segment: &SegmentHeader, next: &SegmentHeader) -> Result<(), Error> {
    let empty = next.previous_last_lsn == segment.previous_last_lsn;
    if empty || next.previous_last_lsn >= segment.first_lsn {
        return Ok(());
    }
    let facts =
        Facts { place: Place::SegmentEnd, later: Later::Nothing, successor: Successor::Disagrees, reaches_proof: true };
    Err(Corrupt {
        what: "segment header",
        file: segment_name(next.segment),
        offset: 0,
        case: tail::decide(&facts).letter,
        expected: format!("an end of segment {} at LSN {} or behind", segment.segment, segment.first_lsn),
        found: format!("LSN {}", next.previous_last_lsn),
    }
    .into())
}

/// The manifest knows of a segment: it, or a later one, must be there.
fn check_newest(chain: &[SegmentHeader], proof: Proof) -> Result<(), Error> {
    let newest = chain.last().map_or(SegmentId(0), |last| last.segment);
    if newest >= proof.segment {
        return Ok(());
    }
    Err(nothing_found(CASE_MISSING, format!("segment {} or a later one", proof.segment)).into())
}

fn nothing_found(case: char, expected: String) -> Corrupt {
    let found = "no segment in use".to_string();
    Corrupt {
        what: "log directory",
        file: super::segments::LOG_DIRECTORY.to_string(),
        offset: 0,
        case,
        expected,
        found,
    }
}

fn corrupt(segment: &SegmentHeader, end: &WalkEnd, case: char, expected: String) -> Corrupt {
    let found = match &end.stop {
        Stop::Limit => format!("the end at LSN {} and sequence {}", end.last_lsn, end.last_sequence),
        Stop::Short => "the end of the file".to_string(),
        Stop::Bytes(unreadable) => unreadable.to_string(),
        Stop::OtherGeneration(other) => format!("a batch of segment {other}"),
        Stop::Disorder { expected, found } => format!("batch sequence {found} in place of {expected}"),
    };
    Corrupt { what: "batch", file: segment_name(segment.segment), offset: end.offset, case, expected, found }
}
