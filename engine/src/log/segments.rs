//! The segments of a log: which are sealed, which is active, which are ready for use, which files are left over.
//!
//! A file's life: prepared (zeros, or old bytes) → spare → active → sealed → retired → left over → renamed and spare, or removed.
//! Guarantees: ids rise; a spare that is skipped is never used under that id, since a later one is active.
//! Must not know: how a file is made; that is prepare.rs.
//! Next: prepare.rs carries `Plan`s out; writer.rs takes spares.

use super::position::LogPosition;
use super::queue::Room;
use super::retention::{self, SegmentSpan};
use crate::error::Full;
use crate::format::segment::SEGMENT_HEADER_BYTES;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use crate::units::{FileOffset, Lsn, SegmentId};
use std::collections::VecDeque;

/// Where segments are.
pub(super) const LOG_DIRECTORY: &str = "log";
/// Left-over files kept to be used again.
const LEFT_OVER_MAX: usize = 2;
/// A new segment is so many times larger than the one before, up to the full size.
const GROWTH: u64 = 4;

/// Name of a segment's file inside the store's directory.
pub fn segment_name(segment: SegmentId) -> String {
    format!("{LOG_DIRECTORY}/{:020}.seg", segment.0)
}

/// The segment that a name in the log directory stands for.
pub(super) fn parse_name(name: &str) -> Option<SegmentId> {
    let digits = name.strip_suffix(".seg")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok().map(SegmentId) } else { None }
}

/// A file of the log directory that holds nothing of the log: prepared, or no longer needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareFile {
    /// The id its name says.
    pub segment: SegmentId,
    /// Its length.
    pub bytes: u64,
}

/// A file that can become the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spare {
    pub segment: SegmentId,
    pub bytes: u64,
    pub recycled: bool,
}

/// What the preparer shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    /// Give a left-over file a new name.
    Recycle {
        file: SpareFile,
        to: SegmentId,
    },
    Create {
        segment: SegmentId,
        bytes: u64,
    },
    Remove(SpareFile),
    /// There is no room for another segment.
    Full(Full),
}

/// All segments and what is wanted of them.
#[derive(Debug)]
pub(super) struct Segments {
    sealed: VecDeque<SegmentSpan>,
    /// Where the log ended before it was opened, if it does not go on there. It is not retired before the segment after it
    /// is durable: an older one that is still lying about would pass for the end of the log.
    ended: Option<SegmentSpan>,
    active: Option<SegmentSpan>,
    active_end: FileOffset,
    spares: VecDeque<Spare>,
    left_over: Vec<SpareFile>,
    next_segment: SegmentId,
    bytes_next: u64,
    bytes_full: u64,
    log_bytes_max: Option<u64>,
    /// Room, header included, that a refused command needs.
    wanted_bytes: u64,
    /// Why no segment could be prepared.
    pub full: Option<Full>,
    /// Rises when segments are retired: a reason to try again before the time.
    pub retired_count: u64,
}

impl Segments {
    pub fn new(position: &LogPosition, bytes_full: u64, log_bytes_max: Option<u64>) -> Segments {
        let last = position.active.map(|active| SegmentSpan {
            segment: active.segment,
            first_lsn: active.first_lsn,
            last_lsn: position.last_lsn,
            bytes: active.bytes,
        });
        let bytes_next = last.map_or(SEGMENT_BYTES_MIN, |last| last.bytes.saturating_mul(GROWTH)).min(bytes_full);
        Segments {
            sealed: position.sealed.iter().copied().collect(),
            ended: last.filter(|_| position.appended_to().is_none()),
            active: last.filter(|_| position.appended_to().is_some()),
            active_end: position.active.map_or(0, |active| active.end),
            spares: VecDeque::new(),
            left_over: position.spare_files.clone(),
            next_segment: position.next_segment,
            bytes_next,
            bytes_full,
            log_bytes_max,
            wanted_bytes: 0,
            full: None,
            retired_count: 0,
        }
    }

    /// Most bytes that a batch may take, wherever it goes. Without a spare the last quarter of the active segment is kept for
    /// what makes the store smaller: on a full disk there may never be another one.
    pub fn room(&self) -> Room {
        let active = self.active_room();
        let kept = self.active.map_or(0, |active| active.bytes / 4);
        let spare = self.spares.iter().map(|spare| spare.bytes - SEGMENT_HEADER_BYTES as u64).max().unwrap_or(0);
        Room { grow: active.saturating_sub(kept).max(spare) as usize, shrink: active.max(spare) as usize }
    }

    /// Bytes left in the active segment.
    pub fn active_room(&self) -> u64 {
        self.active.map_or(0, |active| active.bytes.saturating_sub(self.active_end))
    }

    /// A batch of this many bytes goes into the active segment.
    pub fn fill(&mut self, bytes: u64, last_lsn: Lsn) {
        self.active_end += bytes;
        assert!(self.active.is_some_and(|active| self.active_end <= active.bytes), "a batch ends inside its segment");
        let active = self.active.as_mut().expect("a batch is put into an active segment");
        active.last_lsn = last_lsn;
    }

    /// Makes a spare with enough room for a batch the active segment. The one before is *not* sealed yet.
    pub fn switch(&mut self, batch_bytes: u64, first_lsn: Lsn) -> Option<(Spare, Option<SegmentSpan>)> {
        let needed = batch_bytes + SEGMENT_HEADER_BYTES as u64;
        let place = self.spares.iter().position(|spare| spare.bytes >= needed)?;
        for skipped in self.spares.drain(..place) {
            crate::mark!("log.spare_skipped");
            self.left_over.push(SpareFile { segment: skipped.segment, bytes: skipped.bytes });
        }
        let spare = self.spares.pop_front().expect("the place was found");
        let next =
            SegmentSpan { segment: spare.segment, first_lsn, last_lsn: first_lsn.previous(), bytes: spare.bytes };
        self.active_end = SEGMENT_HEADER_BYTES as u64;
        Some((spare, self.active.replace(next).or(self.ended.take())))
    }

    /// The segment after this one is durable, so this one may be retired from now on.
    pub fn seal(&mut self, span: SegmentSpan) {
        self.sealed.push_back(span);
    }

    /// A command needs a segment with so much room, and there is none.
    pub fn want(&mut self, batch_bytes: usize) {
        self.wanted_bytes = self.wanted_bytes.max((batch_bytes + SEGMENT_HEADER_BYTES) as u64);
    }

    /// Gives up segments that hold only LSNs up to `below`. Returns how many.
    pub fn retire(&mut self, below: Lsn) -> usize {
        let count = retention::retirable(self.sealed.make_contiguous(), below);
        for span in self.sealed.drain(..count) {
            self.left_over.push(SpareFile { segment: span.segment, bytes: span.bytes });
        }
        self.retired_count += count as u64;
        count
    }

    /// What the preparer shall do next. Takes left-over files out of the list.
    pub fn plan(&mut self) -> Plan {
        if self.wants_spare() {
            return self.plan_spare();
        }
        self.full = None;
        self.left_over_surplus().map_or(Plan::Nothing, |place| Plan::Remove(self.left_over.swap_remove(place)))
    }

    /// A file is ready: named, durable, and of the id it was planned for.
    pub fn add_spare(&mut self, spare: Spare) {
        assert!(self.spares.back().is_none_or(|last| last.segment < spare.segment), "segment ids rise");
        self.bytes_next =
            spare.bytes.saturating_mul(GROWTH).clamp(SEGMENT_BYTES_MIN.min(self.bytes_full), self.bytes_full);
        self.spares.push_back(spare);
        self.wanted_bytes = 0;
        self.full = None;
    }

    /// A planned file is still there, but could not be made a spare.
    pub fn put_back(&mut self, file: SpareFile) {
        self.left_over.push(file);
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let spans = self.sealed.iter().chain(&self.ended).chain(&self.active).map(|span| span.bytes);
        let spares = self.spares.iter().map(|spare| spare.bytes);
        let left_over = self.left_over.iter().map(|file| file.bytes);
        spans.chain(spares).chain(left_over).sum()
    }

    /// The oldest LSN that the segments still hold.
    pub fn first_lsn(&self) -> Option<Lsn> {
        self.sealed.front().or(self.ended.as_ref()).or(self.active.as_ref()).map(|span| span.first_lsn)
    }

    /// Sealed segments and the active one, oldest first.
    pub fn spans(&self) -> Vec<SegmentSpan> {
        self.sealed.iter().chain(&self.ended).chain(&self.active).copied().collect()
    }

    /// Whether a spare has to be made: somebody waits for one, or the active segment is a quarter full.
    pub fn wants_spare(&self) -> bool {
        let waiting =
            self.wanted_bytes > 0 && self.wanted_bytes > self.room().grow as u64 + SEGMENT_HEADER_BYTES as u64;
        let quarter = self.active.is_some_and(|active| self.active_end >= active.bytes / 4);
        waiting || (self.spares.is_empty() && quarter)
    }

    fn plan_spare(&mut self) -> Plan {
        let bytes = self.bytes_next.max(self.wanted_bytes).next_multiple_of(BLOCK_BYTES as u64).min(self.bytes_full);
        let fits = |file: &SpareFile| self.is_usable(file) && file.bytes >= bytes;
        if let Some(place) = self.left_over.iter().position(fits) {
            let file = self.left_over.swap_remove(place);
            return Plan::Recycle { file, to: self.new_id() };
        }
        if let Some(place) = self.left_over_surplus() {
            return Plan::Remove(self.left_over.swap_remove(place));
        }
        let bytes_max = self.log_bytes_max.unwrap_or(u64::MAX);
        if self.bytes().saturating_add(bytes) > bytes_max {
            crate::mark!("log.cap_reached");
            return Plan::Full(Full::Log { bytes_max });
        }
        Plan::Create { segment: self.new_id(), bytes }
    }

    fn new_id(&mut self) -> SegmentId {
        let id = self.next_segment;
        self.next_segment = id.next();
        id
    }

    fn is_usable(&self, file: &SpareFile) -> bool {
        let whole = file.bytes.is_multiple_of(BLOCK_BYTES as u64);
        whole && (SEGMENT_BYTES_MIN.min(self.bytes_full)..=self.bytes_full).contains(&file.bytes)
    }

    /// A left-over file that is of no use: of an odd length, too small for the next segment, or one too many.
    fn left_over_surplus(&self) -> Option<usize> {
        let useless = |file: &SpareFile| !self.is_usable(file) || file.bytes < self.bytes_next;
        let many = self.left_over.len() > LEFT_OVER_MAX;
        self.left_over.iter().position(useless).or(many.then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::StoreId;

    const MIB: u64 = 1 << 20;

    fn fresh() -> Segments {
        Segments::new(&LogPosition::fresh(StoreId([1; 16])), 16 * MIB, None)
    }

    fn make(segments: &mut Segments) -> Spare {
        let plan = segments.plan();
        let spare = match plan {
            Plan::Create { segment, bytes } => Spare { segment, bytes, recycled: false },
            Plan::Recycle { file, to } => Spare { segment: to, bytes: file.bytes, recycled: true },
            other => panic!("no spare planned but {other:?}"),
        };
        segments.add_spare(spare);
        spare
    }

    #[test]
    fn names_are_twenty_digits_and_nothing_else_is_a_segment() {
        assert_eq!(segment_name(SegmentId(7)), "log/00000000000000000007.seg");
        assert_eq!(parse_name("00000000000000000007.seg"), Some(SegmentId(7)));
        for name in ["7.seg", "00000000000000000007.tmp", "+0000000000000000007.seg", "99999999999999999999.seg"] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn an_idle_store_makes_no_segment_and_sizes_grow_to_the_full_one() {
        let mut segments = fresh();
        assert_eq!(segments.plan(), Plan::Nothing);
        let mut sizes = Vec::new();
        for lsn in 1..=4 {
            segments.want(4096);
            sizes.push(make(&mut segments).bytes / MIB);
            segments.switch(4096, Lsn(lsn)).expect("a spare is there");
            segments.fill(segments.active_room(), Lsn(lsn));
        }
        assert_eq!(sizes, [1, 4, 16, 16]);
    }

    #[test]
    fn a_spare_is_made_once_a_quarter_is_used_and_only_one() {
        let mut segments = fresh();
        segments.want(4096);
        make(&mut segments);
        segments.switch(4096, Lsn(1));
        segments.fill(4096, Lsn(1));
        assert_eq!(segments.plan(), Plan::Nothing);
        segments.fill(MIB / 4, Lsn(9));
        make(&mut segments);
        assert_eq!(segments.plan(), Plan::Nothing);
    }

    #[test]
    fn a_large_command_skips_spares_that_are_too_small_for_it() {
        let mut segments = fresh();
        segments.want(4096);
        make(&mut segments);
        segments.want(3 * MIB as usize);
        assert_eq!(make(&mut segments).bytes, 4 * MIB);
        let (spare, before) = segments.switch(3 * MIB, Lsn(1)).expect("a large spare is there");
        assert_eq!((spare.segment, before), (SegmentId(2), None));
        assert_eq!(segments.plan(), Plan::Remove(SpareFile { segment: SegmentId(1), bytes: MIB }));
    }

    #[test]
    fn retired_segments_are_used_again_under_a_new_id_and_the_rest_is_removed() {
        let mut segments = fresh();
        segments.bytes_next = 16 * MIB;
        for id in 1..=4 {
            let span = SegmentSpan { segment: SegmentId(id), first_lsn: Lsn(id), last_lsn: Lsn(id), bytes: 16 * MIB };
            segments.seal(span);
        }
        segments.next_segment = SegmentId(9);
        assert_eq!(segments.retire(Lsn(3)), 3);
        assert_eq!(segments.first_lsn(), Some(Lsn(4)));
        assert_eq!(segments.plan(), Plan::Remove(SpareFile { segment: SegmentId(1), bytes: 16 * MIB }));
        assert_eq!(segments.plan(), Plan::Nothing);
        segments.want(4096);
        let spare = make(&mut segments);
        assert_eq!((spare.segment, spare.recycled), (SegmentId(9), true));
    }

    #[test]
    fn the_segment_a_log_ended_in_stays_until_the_next_one_is_durable() {
        let ended =
            crate::log::ActiveSegment { segment: SegmentId(3), bytes: MIB, first_lsn: Lsn(5), proven: 0, end: 8192 };
        let fresh = LogPosition::fresh(StoreId([1; 16]));
        let position = LogPosition { last_lsn: Lsn(9), active: Some(ended), next_segment: SegmentId(4), ..fresh };
        let mut segments = Segments::new(&position, MIB, None);
        assert_eq!(segments.retire(Lsn(9)), 0);
        segments.want(4096);
        make(&mut segments);
        let (_, before) = segments.switch(4096, Lsn(10)).expect("a spare is there");
        assert_eq!(segments.retire(Lsn(9)), 0);
        segments.seal(before.expect("the ended segment"));
        assert_eq!(segments.retire(Lsn(9)), 1);
    }

    #[test]
    fn the_cap_refuses_another_segment_until_some_are_retired() {
        let mut segments = Segments::new(&LogPosition::fresh(StoreId([1; 16])), MIB, Some(2 * MIB + 5));
        for id in 1..=2 {
            segments.want(4096);
            make(&mut segments);
            let (_, before) = segments.switch(4096, Lsn(id)).expect("a spare is there");
            before.into_iter().for_each(|span| segments.seal(SegmentSpan { last_lsn: Lsn(id - 1), ..span }));
            segments.fill(segments.active_room(), Lsn(id));
        }
        assert_eq!(segments.plan(), Plan::Full(Full::Log { bytes_max: 2 * MIB + 5 }));
        assert_eq!(segments.retire(Lsn(1)), 1);
        assert!(make(&mut segments).recycled);
    }
}
