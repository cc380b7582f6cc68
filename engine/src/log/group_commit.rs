//! Decides what the log writer does next: take a batch, sync, switch the segment, or wait. A pure machine.
//!
//! Invariants: I1 `synced <= written`, both ends of a completed *prefix* of batches. I2 durable writes start only when everything
//! before them is synced or in flight as a durable write, since a durable write covers nothing but itself.
//! I3 a sync covers what had completed before it was submitted, not what completed since. I4 a segment is left
//! only when nothing is in flight and all of it is synced.
//! Must not know: bytes, files, clocks.
//! Next: writer.rs turns the decisions into disk operations.

use crate::canary::{Canary, planted};
use crate::units::{Lsn, Nanos};
use std::collections::VecDeque;

/// A second batch is put in flight only when the open one has so many bytes: below, one larger batch costs less.
pub(super) const OVERLAP_BYTES: usize = 64 << 10;

/// From so many frames on, a batch shows that many are waiting at a time, and the next one may wait for company.
const COMPANY_FRAMES: u32 = 4;

/// A batch that has so many frames shares its sync well enough and waits no longer.
const COMPANY_FRAMES_MAX: u32 = 40;

/// Longest wait for company.
const COMPANY_WAIT: Nanos = Nanos(200_000);

#[derive(Clone, Copy, Debug)]
struct Flight {
    token: u64,
    last_lsn: Lsn,
    durable: bool,
    done: bool,
}

/// What is on its way to the disk, and how far the log has come.
#[derive(Debug)]
pub(super) struct GroupCommit {
    flights: VecDeque<Flight>,
    sync: Option<(u64, Lsn)>,
    taken: Lsn,
    written: Lsn,
    synced: Lsn,
    /// The first LSN that somebody wants synced and that is not. Fixed until it is met, so that no later demand starves it.
    wanted_first: Option<Lsn>,
    wanted_last: Lsn,
    flights_max: usize,
    /// The open batch may wait for so many frames, until that time.
    company: u32,
    company_until: Nanos,
}

/// What the machine is told about the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueView {
    /// Bytes of the open batch; 0 for none.
    pub bytes: usize,
    /// Frames of the open batch.
    pub frames: u32,
    pub now: Nanos,
    pub first_lsn: Lsn,
    pub synced_wanted: bool,
    pub written_wanted: bool,
    /// It is large, or somebody was refused because of it.
    pub full: bool,
    /// It fits the active segment.
    pub fits: bool,
    /// The unsynced part of the log, the open batch included, has to be synced.
    pub lag_due: bool,
    /// When that will be the case.
    pub lag_due_at: Option<Nanos>,
    /// Everything up to here was asked to be synced.
    pub sync_asked: Lsn,
    pub closing: bool,
}

impl QueueView {
    /// Whether the open batch has to reach stable storage now.
    pub fn must_sync(&self) -> bool {
        self.synced_wanted || self.lag_due || self.closing || self.sync_asked >= self.first_lsn
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Take the open batch and write it to the active segment.
    Take { durable: bool },
    /// Take it and start a segment with it, in one durable write.
    Switch,
    /// Sync the active segment.
    Sync,
    /// Wait for the disk.
    Disk,
    /// Wait for a time.
    Until(Nanos),
    /// Wait for that time or until the open batch has so many frames.
    Company { until: Nanos, frames: u32 },
    /// Nothing to do.
    Idle,
}

impl GroupCommit {
    pub fn new(last_lsn: Lsn, flights_max: usize) -> GroupCommit {
        GroupCommit {
            flights: VecDeque::new(),
            sync: None,
            taken: last_lsn,
            written: last_lsn,
            synced: last_lsn,
            wanted_first: None,
            wanted_last: last_lsn,
            flights_max,
            company: 0,
            company_until: Nanos(0),
        }
    }

    pub fn written(&self) -> Lsn {
        self.written
    }

    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Whether nothing is in flight.
    pub fn is_quiet(&self) -> bool {
        self.flights.is_empty() && self.sync.is_none()
    }

    /// Decides. Notes the demand for syncs that the view carries.
    pub fn decide(&mut self, view: &QueueView) -> Action {
        if view.lag_due || view.closing {
            self.want_synced(self.taken);
        }
        self.want_synced(view.sync_asked.min(self.taken));
        if self.sync_is_ready() {
            return Action::Sync;
        }
        if let Some(action) = self.take(view) {
            return action;
        }
        if !self.is_quiet() {
            return Action::Disk;
        }
        view.lag_due_at.map_or(Action::Idle, Action::Until)
    }

    /// A batch was submitted.
    pub fn started(&mut self, token: u64, last_lsn: Lsn, durable: bool) {
        if durable {
            let clean = self.synced == self.written && self.flights.iter().all(|flight| flight.durable);
            assert!(clean, "group commit I2: a durable write would overtake unsynced batches");
        } else {
            let plain = self.flights.iter().all(|flight| !flight.durable);
            assert!(plain, "group commit I2: a plain write would be counted as covered by a durable one");
        }
        assert!(last_lsn > self.taken, "group commit: batches are submitted in LSN order");
        self.taken = last_lsn;
        self.flights.push_back(Flight { token, last_lsn, durable, done: false });
    }

    /// A batch of so many frames was submitted. Those it answers come again a moment after those that waited meanwhile, so the
    /// next one can have twice as many.
    pub fn expect_company(&mut self, frames: u32) {
        self.company = if frames >= COMPANY_FRAMES { (frames * 2).min(COMPANY_FRAMES_MAX) } else { 0 };
    }

    /// A durable write has ended that took so long: no batch waits longer than one and a half times that for company.
    pub fn rest(&mut self, now: Nanos, took: Nanos) {
        self.company_until = now.after(Nanos(took.0 + took.0 / 2).min(COMPANY_WAIT));
    }

    /// The batch just submitted must be synced, though it was not written durably.
    pub fn want_synced(&mut self, lsn: Lsn) {
        if lsn > self.synced && lsn > self.wanted_last {
            self.wanted_first.get_or_insert(lsn);
            self.wanted_last = lsn;
        }
    }

    /// The sync was submitted.
    pub fn sync_started(&mut self, token: u64) {
        assert!(self.sync.is_none(), "group commit: one sync at a time");
        self.sync = Some((token, self.written));
    }

    /// An operation has completed well.
    pub fn completed(&mut self, token: u64) {
        if let Some((sync_token, covers)) = self.sync
            && sync_token == token
        {
            self.sync = None;
            self.advance_synced(if planted(Canary::SyncCoversLater) { self.written } else { covers });
            return;
        }
        let flight = self.flights.iter_mut().find(|flight| flight.token == token);
        if flight.is_none() && planted(Canary::DurableOutOfOrder) {
            return;
        }
        flight.expect("a completion belongs to something in flight").done = true;
        if planted(Canary::DurableOutOfOrder) {
            self.flights.iter_mut().rev().skip_while(|flight| !flight.done).for_each(|flight| flight.done = true);
        }
        while let Some(flight) = self.flights.front().copied().filter(|flight| flight.done) {
            self.flights.pop_front();
            self.written = flight.last_lsn;
            if flight.durable || planted(Canary::WrittenAsSynced) {
                self.advance_synced(flight.last_lsn);
            }
        }
    }

    fn advance_synced(&mut self, lsn: Lsn) {
        assert!(lsn <= self.written, "group commit I1: synced {lsn} is beyond written {}", self.written);
        self.synced = self.synced.max(lsn);
        if self.wanted_first.is_some_and(|first| first <= self.synced) {
            self.wanted_first = (self.wanted_last > self.synced).then_some(self.wanted_last);
        }
    }

    fn sync_is_ready(&self) -> bool {
        let plain = self.flights.iter().all(|flight| !flight.durable);
        self.sync.is_none() && plain && self.wanted_first.is_some_and(|first| first <= self.written)
    }

    /// Whether batches were written that no sync covers yet, or are being written so.
    fn is_dirty(&self) -> bool {
        self.synced < self.written || self.flights.iter().any(|flight| !flight.durable)
    }

    fn take(&mut self, view: &QueueView) -> Option<Action> {
        if view.bytes == 0 {
            return None;
        }
        let must_sync = view.must_sync();
        if !must_sync && !view.written_wanted && !view.full {
            return None;
        }
        if !view.fits {
            return self.switch();
        }
        if self.sync.is_some() {
            // The sync makes the log clean, and then one durable write does; a plain one now would need another sync.
            return (!must_sync && self.flights.is_empty()).then_some(Action::Take { durable: false });
        }
        if let Some(flight) = self.flights.front() {
            let overlaps = self.flights.len() < self.flights_max && view.bytes >= OVERLAP_BYTES;
            return overlaps.then_some(Action::Take { durable: flight.durable });
        }
        let urgent = view.full || view.lag_due || view.closing || view.sync_asked >= view.first_lsn;
        if must_sync && !urgent && view.frames < self.company && view.now < self.company_until {
            return Some(Action::Company { until: self.company_until, frames: self.company });
        }
        Some(Action::Take { durable: must_sync && !self.is_dirty() })
    }

    fn switch(&mut self) -> Option<Action> {
        if !self.is_quiet() {
            return None;
        }
        if self.is_dirty() {
            crate::mark!("log.switch_waits_for_sync");
            self.want_synced(self.written);
            return Some(Action::Sync);
        }
        Some(Action::Switch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: QueueView = QueueView {
        bytes: 0,
        frames: 0,
        now: Nanos(0),
        first_lsn: Lsn(1),
        synced_wanted: false,
        written_wanted: false,
        full: false,
        fits: true,
        lag_due: false,
        lag_due_at: None,
        sync_asked: Lsn(0),
        closing: false,
    };

    fn open(first_lsn: u64) -> QueueView {
        QueueView { bytes: 100, first_lsn: Lsn(first_lsn), ..EMPTY }
    }

    fn machine() -> GroupCommit {
        GroupCommit::new(Lsn(0), 2)
    }

    #[test]
    fn accepted_frames_wait_for_company_until_half_the_lag() {
        let mut commit = machine();
        assert_eq!(commit.decide(&EMPTY), Action::Idle);
        let waiting = QueueView { lag_due_at: Some(Nanos(50)), ..open(1) };
        assert_eq!(commit.decide(&waiting), Action::Until(Nanos(50)));
        assert_eq!(commit.decide(&QueueView { lag_due: true, ..waiting }), Action::Take { durable: true });
        assert_eq!(commit.decide(&QueueView { full: true, ..waiting }), Action::Take { durable: false });
    }

    #[test]
    fn a_batch_forms_while_the_one_before_it_is_in_flight() {
        let mut commit = machine();
        let synced = QueueView { synced_wanted: true, ..open(1) };
        assert_eq!(commit.decide(&synced), Action::Take { durable: true });
        commit.started(1, Lsn(3), true);
        let next = QueueView { synced_wanted: true, ..open(4) };
        assert_eq!(commit.decide(&next), Action::Disk, "small batches do not overlap");
        let large = QueueView { bytes: OVERLAP_BYTES, ..next };
        assert_eq!(commit.decide(&large), Action::Take { durable: true });
        commit.started(2, Lsn(9), true);
        assert_eq!(commit.decide(&QueueView { bytes: OVERLAP_BYTES, ..open(10) }), Action::Disk);
        commit.completed(2);
        assert_eq!((commit.written(), commit.synced()), (Lsn(0), Lsn(0)), "only a completed prefix counts");
        commit.completed(1);
        assert_eq!((commit.written(), commit.synced()), (Lsn(9), Lsn(9)));
    }

    #[test]
    fn after_a_batch_of_many_the_next_one_waits_a_moment_for_company() {
        let mut commit = machine();
        commit.started(1, Lsn(10), true);
        commit.expect_company(10);
        commit.completed(1);
        commit.rest(Nanos(1000), Nanos(50));
        let few = QueueView { synced_wanted: true, frames: 3, now: Nanos(1000), ..open(11) };
        assert_eq!(commit.decide(&few), Action::Company { until: Nanos(1075), frames: 20 });
        assert_eq!(commit.decide(&QueueView { frames: 20, ..few }), Action::Take { durable: true });
        assert_eq!(commit.decide(&QueueView { now: Nanos(1075), ..few }), Action::Take { durable: true });
        assert_eq!(commit.decide(&QueueView { sync_asked: Lsn(11), ..few }), Action::Take { durable: true });
        commit.started(2, Lsn(13), true);
        commit.expect_company(3);
        commit.completed(2);
        commit.rest(Nanos(2000), Nanos(50));
        let one = QueueView { synced_wanted: true, frames: 1, now: Nanos(2000), ..open(14) };
        assert_eq!(commit.decide(&one), Action::Take { durable: true }, "few do not wait");
    }

    #[test]
    fn a_synced_frame_behind_unsynced_data_is_covered_by_a_sync_of_both() {
        let mut commit = machine();
        let written = QueueView { written_wanted: true, ..open(1) };
        assert_eq!(commit.decide(&written), Action::Take { durable: false });
        commit.started(1, Lsn(2), false);
        commit.completed(1);
        assert_eq!((commit.written(), commit.synced()), (Lsn(2), Lsn(0)));
        let synced = QueueView { synced_wanted: true, ..open(3) };
        assert_eq!(commit.decide(&synced), Action::Take { durable: false });
        commit.started(2, Lsn(3), false);
        commit.want_synced(Lsn(3));
        assert_eq!(commit.decide(&EMPTY), Action::Disk, "the sync must not start before the write has completed");
        commit.completed(2);
        assert_eq!(commit.decide(&EMPTY), Action::Sync);
        commit.sync_started(3);
        assert_eq!(commit.decide(&QueueView { first_lsn: Lsn(4), ..written }), Action::Take { durable: false });
        commit.started(4, Lsn(5), false);
        commit.completed(4);
        commit.completed(3);
        assert_eq!((commit.written(), commit.synced()), (Lsn(5), Lsn(3)), "what completed since is not covered");
    }

    #[test]
    fn a_segment_is_left_only_when_all_of_it_is_synced() {
        let mut commit = machine();
        commit.started(1, Lsn(2), false);
        let next = QueueView { written_wanted: true, fits: false, ..open(3) };
        assert_eq!(commit.decide(&next), Action::Disk);
        commit.completed(1);
        assert_eq!(commit.decide(&next), Action::Sync);
        commit.sync_started(2);
        assert_eq!(commit.decide(&next), Action::Disk);
        commit.completed(2);
        assert_eq!(commit.decide(&next), Action::Switch);
    }

    #[test]
    fn a_steady_stream_of_demands_does_not_starve_the_first_one() {
        let mut commit = machine();
        commit.started(1, Lsn(1), false);
        commit.want_synced(Lsn(1));
        commit.started(2, Lsn(2), false);
        commit.want_synced(Lsn(2));
        commit.completed(1);
        assert_eq!(commit.decide(&QueueView { bytes: OVERLAP_BYTES, full: true, ..open(3) }), Action::Sync);
    }

    #[test]
    #[should_panic(expected = "I2")]
    fn a_durable_write_never_overtakes_an_unsynced_one() {
        let mut commit = machine();
        commit.started(1, Lsn(1), false);
        commit.started(2, Lsn(2), true);
    }

    #[test]
    fn closing_syncs_everything() {
        let mut commit = machine();
        commit.started(1, Lsn(1), false);
        commit.completed(1);
        let closing = QueueView { closing: true, ..EMPTY };
        assert_eq!(commit.decide(&closing), Action::Sync);
        commit.sync_started(2);
        commit.completed(2);
        assert_eq!(commit.decide(&closing), Action::Idle);
    }
}
