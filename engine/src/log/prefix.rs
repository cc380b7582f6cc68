//! Finds what a damaged log still proves: the commands up to the damage, and what stands behind it.
//! Guarantees: reads only; never goes over a hole; what stands behind one is counted as far as its batches are whole.
//! Must not know: what is done about it.
//! Next: reader.rs is the strict way; recovery/plan.rs asks here when that one refuses.

use super::catalog::{self, Catalog, Listed};
use super::facts;
use super::reader::scan;
use super::segments::segment_name;
use super::tail::Proof;
use super::walk::{Batch, Cut, Window, read_batch};
use crate::canary::{Canary, planted};
use crate::disk::{Disk, OpenMode};
use crate::error::{Corrupt, Error};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::format::{StoreId, Unreadable};
use crate::limits::BLOCK_BYTES;
use crate::units::{FileOffset, Lsn, Millis, SegmentId};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Takes a reader's look at each batch; damage that it finds ends the prefix before that batch.
pub type Look<'v> = dyn FnMut(Batch<'_>) -> Result<(), Error> + 'v;

/// What stands behind the damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Commands in whole batches.
    pub commands: u64,
    /// Highest LSN that anything names; the prefix's own where nothing names a higher one.
    pub last_lsn: Lsn,
    /// Bytes of those batches and of what is not readable between them.
    pub bytes: u64,
    /// Wall times of the first and last whole batch.
    pub wall: Option<(Millis, Millis)>,
}

/// What a log proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Last LSN that follows on `from` without a hole; the one before `from` if none does.
    pub last_lsn: Lsn,
    /// Why it ends there; `None` for a log that is whole, in which case nothing below is set.
    pub damage: Option<Corrupt>,
    /// Bytes of the last kept segment that are to be cut off.
    pub cut: Option<Cut>,
    /// Files that hold what stands behind the hole, with their lengths.
    pub moved: Vec<(SegmentId, u64)>,
    /// What they hold.
    pub behind: Behind,
    /// The last segment that is kept; 0 for none.
    pub segment: SegmentId,
    /// Highest id of any file.
    pub segment_last: SegmentId,
    /// Engine time of the last batch of the prefix.
    pub time: Option<Millis>,
}

/// Reads a log from `from` on and says how far it can be believed. `look` sees every batch, from the start again after damage.
pub fn find_prefix(
    disk: &mut dyn Disk,
    store: StoreId,
    from: Lsn,
    proof: Proof,
    look: &mut Look<'_>,
) -> Result<Prefix, Error> {
    let damage = match scan(disk, store, from, proof, look) {
        Ok(end) => {
            return Ok(Prefix {
                last_lsn: end.last_lsn.max(from.previous()),
                damage: None,
                cut: None,
                moved: Vec::new(),
                behind: Behind::default(),
                segment: end.active.map_or(SegmentId(0), |active| active.segment),
                segment_last: end.next_segment,
                time: end.time,
            });
        }
        Err(Error::Corrupt(damage)) => *damage,
        Err(error) => return Err(error),
    };
    crate::mark!("log.prefix_of_damaged");
    let catalog = catalog::list(disk, store)?;
    let mut search = Search { disk, store, catalog, end: End::before(from) };
    search.walk_chain(from, look)?;
    // What ends below the snapshot is of no use behind it, and a strict reader would stumble over it.
    if search.end.last_lsn < from.previous() {
        search.end = End::before(from);
    }
    search.finish(damage)
}

/// How far the walk came.
#[derive(Clone, Copy)]
struct End {
    segment: SegmentId,
    offset: FileOffset,
    last_lsn: Lsn,
    time: Option<Millis>,
}

impl End {
    fn before(from: Lsn) -> End {
        End { segment: SegmentId(0), offset: 0, last_lsn: from.previous(), time: None }
    }
}

struct Search<'s> {
    disk: &'s mut dyn Disk,
    store: StoreId,
    catalog: Catalog,
    end: End,
}

impl Search<'_> {
    fn in_use(&self) -> Vec<SegmentHeader> {
        self.catalog.values().filter_map(|listed| listed.header.as_ref().ok()).copied().collect()
    }

    /// Walks from the segment that holds `from` to the first hole.
    fn walk_chain(&mut self, from: Lsn, look: &mut Look<'_>) -> Result<(), Error> {
        let headers = self.in_use();
        let Some(start) = headers.iter().rposition(|header| header.previous_last_lsn < from) else { return Ok(()) };
        for (at, header) in headers.iter().enumerate().skip(start) {
            let next = headers.get(at + 1).filter(|next| next.previous_segment == header.segment);
            let limit = next.map_or(header.segment_bytes, |next| next.previous_end);
            let limit = limit.clamp(SEGMENT_HEADER_BYTES as u64, header.segment_bytes);
            let is_whole = self.walk(header, limit, look)?;
            let agrees = next.is_some_and(|next| {
                is_whole && self.end.offset == next.previous_end && self.end.last_lsn == next.previous_last_lsn
            });
            if !agrees && !planted(Canary::SalvageGoesOn) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks one segment up to a limit. True if every batch up to there is whole and in order.
    fn walk(&mut self, header: &SegmentHeader, limit: FileOffset, look: &mut Look<'_>) -> Result<bool, Error> {
        let mut window = catalog::open(self.disk, header)?;
        let walked = self.walk_window(&mut window, header, limit, look);
        self.disk.close(window.file());
        walked
    }

    fn walk_window(
        &mut self,
        window: &mut Window,
        header: &SegmentHeader,
        limit: FileOffset,
        look: &mut Look<'_>,
    ) -> Result<bool, Error> {
        let (mut next_lsn, mut next_sequence) = (header.first_lsn, header.first_sequence);
        self.end.segment = header.segment;
        self.end.offset = SEGMENT_HEADER_BYTES as u64;
        self.end.last_lsn = header.previous_last_lsn;
        while self.end.offset < limit {
            let read = read_batch(self.disk, self.store, window, header.segment, self.end.offset, limit)?;
            let Ok(batch) = read else { return Ok(false) };
            let found = batch.header;
            if (found.sequence, found.first_lsn) != (next_sequence, next_lsn) {
                return Ok(false);
            }
            match look(batch) {
                Err(Error::Corrupt(_)) => return Ok(false),
                looked => looked?,
            }
            self.end.offset += found.padded_bytes();
            self.end.last_lsn = found.last_lsn();
            self.end.time = self.end.time.max(Some(found.time));
            (next_lsn, next_sequence) = (found.last_lsn().next(), found.sequence + 1);
        }
        Ok(true)
    }

    /// Looks at everything behind the end.
    fn finish(mut self, damage: Corrupt) -> Result<Prefix, Error> {
        let mut behind = Behind { last_lsn: self.end.last_lsn, ..Behind::default() };
        let (mut cut, mut moved) = (None, Vec::new());
        let files: Vec<(SegmentId, Listed)> =
            self.catalog.range(self.end.segment..).map(|(segment, listed)| (*segment, listed.clone())).collect();
        for (segment, listed) in files {
            let from = if segment == self.end.segment { self.end.offset } else { SEGMENT_HEADER_BYTES as u64 };
            let is_used = self.count(segment, listed.bytes, from, &mut behind)?;
            if segment == self.end.segment {
                let to = listed.bytes;
                cut = is_used.then_some(Cut { segment, from, to });
                continue;
            }
            if let Ok(header) = &listed.header {
                behind.last_lsn = behind.last_lsn.max(header.previous_last_lsn).max(header.first_lsn);
            }
            let is_spare = matches!(listed.header, Err(Unreadable::Zeros | Unreadable::Value(_)));
            if is_used || !is_spare {
                moved.push((segment, listed.bytes));
            }
        }
        Ok(Prefix {
            last_lsn: self.end.last_lsn,
            damage: Some(damage),
            cut,
            moved,
            behind,
            segment: self.end.segment,
            segment_last: self.catalog.keys().next_back().copied().unwrap_or_default(),
            time: self.end.time,
        })
    }

    /// Counts the whole batches of a file from a place on. True if bytes of its own generation, or any in the cut part, are there.
    fn count(&mut self, segment: SegmentId, bytes: u64, from: FileOffset, behind: &mut Behind) -> Result<bool, Error> {
        let file = self.disk.open(&segment_name(segment), OpenMode::Read)?;
        let mut window = Window::new(file, bytes - bytes % BLOCK);
        let counted = self.count_window(&mut window, segment, from, behind);
        let found = counted.and_then(|()| facts::search(self.disk, self.store, &mut window, segment, from, from));
        self.disk.close(file);
        let found = found?;
        behind.last_lsn = behind.last_lsn.max(found.lsn_max).max(found.lsn_synced_max);
        let is_cut_part = segment == self.end.segment && found.bytes_end > from;
        Ok(found.later_count > 0 || is_cut_part)
    }

    fn count_window(
        &mut self,
        window: &mut Window,
        segment: SegmentId,
        from: FileOffset,
        behind: &mut Behind,
    ) -> Result<(), Error> {
        let (mut offset, limit) = (from, window.readable);
        while offset < limit {
            let Ok(batch) = read_batch(self.disk, self.store, window, segment, offset, limit)? else {
                offset += BLOCK;
                continue;
            };
            let header = batch.header;
            offset += header.padded_bytes();
            if header.last_lsn() <= self.end.last_lsn {
                continue;
            }
            behind.commands += u64::from(header.frame_count);
            behind.bytes += header.padded_bytes();
            let first = behind.wall.map_or(header.wall, |(first, _)| first.min(header.wall));
            let last = behind.wall.map_or(header.wall, |(_, last)| last.max(header.wall));
            behind.wall = Some((first, last));
        }
        Ok(())
    }
}
