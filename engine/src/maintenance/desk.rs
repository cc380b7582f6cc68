//! The desk: where checkpoints are asked for, and what is known of them.
//! Guarantees: who asks for one gets the result of one that began after the question.
//! Must not know: how a checkpoint is taken.
//! Next: ../maintenance.rs takes them.

use crate::checkpoint::{SnapshotReport, SnapshotReports};
use crate::error::Error;
use crate::units::Lsn;
use parking_lot::{Condvar, Mutex};

/// What callers and the maintenance driver share about checkpoints.
#[derive(Default)]
pub struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    wanted: bool,
    running: bool,
    finished_count: u64,
    stopped: bool,
    newest: Lsn,
    bytes_written: u64,
    reports: SnapshotReports,
}

/// A reading of the desk.
#[derive(Clone, Debug, Default)]
pub struct DeskNow {
    /// Whether a checkpoint is running or wanted.
    pub running: bool,
    /// LSN of the newest snapshot.
    pub newest: Lsn,
    /// Bytes written to snapshots since the store was opened.
    pub bytes_written: u64,
    /// The last checkpoints, oldest first.
    pub reports: Vec<SnapshotReport>,
}

impl Desk {
    /// Asks for a checkpoint. False if one is running or asked for already.
    pub fn ask(&self) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.running && !state.wanted;
        state.wanted = true;
        is_new
    }

    /// Asks for a checkpoint, wakes the driver and waits until one that started after this call has ended.
    /// `None`: the store was closed before.
    pub fn take(&self, wake: impl FnOnce()) -> Option<SnapshotReport> {
        let mut state = self.state.lock();
        state.wanted = true;
        // One that runs already froze its state before this call: the next one counts.
        let target = state.finished_count + 1 + u64::from(state.running);
        wake();
        while state.finished_count < target && !state.stopped {
            self.changed.wait(&mut state);
        }
        (state.finished_count >= target).then(|| state.reports.iter().last().cloned()).flatten()
    }

    /// Reads it.
    pub fn now(&self) -> DeskNow {
        let state = self.state.lock();
        DeskNow {
            running: state.running || state.wanted,
            newest: state.newest,
            bytes_written: state.bytes_written,
            reports: state.reports.iter().cloned().collect(),
        }
    }

    pub(super) fn take_wish(&self) -> bool {
        std::mem::take(&mut self.state.lock().wanted)
    }

    pub(super) fn started(&self) {
        self.state.lock().running = true;
    }

    pub(super) fn finished(&self, report: SnapshotReport, newest: Lsn) {
        let mut state = self.state.lock();
        state.running = false;
        state.finished_count += 1;
        state.newest = newest;
        state.bytes_written += report.bytes;
        state.reports.push(report);
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn begin(&self, newest: Lsn) {
        self.state.lock().newest = newest;
    }

    pub(super) fn finished_count(&self) -> u64 {
        self.state.lock().finished_count
    }

    /// How the last checkpoint ended, if one has ended since and none is wanted any more.
    pub(super) fn result_since(&self, finished_count: u64) -> Option<Result<(), Error>> {
        let state = self.state.lock();
        let is_done = state.finished_count > finished_count && !state.wanted;
        is_done.then(|| state.reports.iter().last().map_or(Ok(()), |report| report.result.clone()))
    }
}
