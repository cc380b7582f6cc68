//! Steps of the maintenance driver, and what must have come to an end once everybody had the time for it.
//! Guarantees: S1 what the driver removes was due, and every command of it has one LSN; S2 on a healthy medium all becomes
//! durable within the lag, due records go, wanted checkpoints end.
//! Must not know: why the driver does what it does.
//! Next: lives.rs.

use super::model::{Bytes, Change, Commit, SPACES};
use super::run::Run;
use super::writes::logged_bytes;
use super::{Checked, broken};
use logd_engine::clock::Clock;
use logd_engine::core::route;
use logd_engine::units::{Millis, Nanos};
use logd_engine::{Db, DurabilityLevel};
use std::rc::Rc;

/// Rounds of both drivers within which everything must have ended.
const ROUNDS_MAX: usize = 20_000;
/// A due record may be kept so long when the log was busy, in milliseconds.
const GRACE_MILLIS: u64 = 400;

impl Run {
    /// One step of the maintenance driver; what it removed goes into the model.
    pub fn maintenance_step(&mut self) -> Checked {
        if self.is_stuck {
            // It would wait for the device, which is right, but would keep the run waiting too.
            return Ok(());
        }
        let before = self.opened().db().last_lsn().0;
        let next = self.opened().step_maintenance();
        self.trace.note(format_args!("maintenance: {next:?}"));
        let db = self.opened().db().clone();
        self.take_removed(&db, Some(before))
    }

    /// Finds out what was removed because it was due: one command a shard, from the lowest shard up. `before`: the last LSN
    /// before the step; `None` if there were other commands before these.
    pub fn take_removed(&mut self, db: &Db, before: Option<u64>) -> Checked {
        let (now, last) = (db.time().now(), db.last_lsn().0);
        let due: Vec<(usize, Rc<[u8]>)> = (0..SPACES.len())
            .flat_map(|space| self.model.now.spaces[space].iter().map(move |(key, record)| (space, key, record)))
            .filter(|(_, _, record)| record.is_due(now))
            .map(|(space, key, _)| (space, Rc::clone(key)))
            .collect();
        if due.is_empty() {
            let is_same = before.is_none_or(|before| last == before);
            return if is_same { Ok(()) } else { broken("expiry", format!("LSN {last} removed what is not due")) };
        }
        // A removal that the log was too busy for is undone, and that touches watched keys too.
        self.note_tried();
        let view = db.view();
        let shards = view.shards.len();
        let mut removed: Vec<Vec<Change>> = vec![Vec::new(); shards];
        for (space, key) in due {
            let Some(handle) = self.keyspaces[space] else { continue };
            let shard = route(handle, &key, shards);
            let number = view.catalog.find(SPACES[space].name).map_or(usize::MAX, usize::from);
            let is_held = view.shards[shard].get(number).is_some_and(|tree| tree.get(&key).is_some());
            if !is_held {
                removed[shard].push(Change::Delete { space, key });
            }
        }
        removed.retain(|changes| !changes.is_empty());
        let is_logged = |changes: &Vec<Change>| changes.iter().any(|change| !SPACES[change.space()].volatile);
        let count = removed.iter().filter(|changes| is_logged(changes)).count() as u64;
        // Only the first command after an opening may leave LSNs out.
        let mut lsn = last - count.min(last);
        if let Some(before) = before
            && before + count != last
            && (count == 0 || before > self.model.base_lsn || lsn < before)
        {
            return broken("expiry", format!("expiry took the log from {before} to {last} with {count} commands"));
        }
        for changes in removed {
            lsn += u64::from(is_logged(&changes));
            let of = if is_logged(&changes) { lsn } else { 0 };
            self.note_changes(&changes);
            let bytes = logged_bytes(&changes);
            let at = self.clock.monotonic();
            let level = DurabilityLevel::Accepted;
            self.add(Commit { lsn: of, level, changes, at, time: now, bytes, acked: None });
        }
        Ok(())
    }

    /// Gives everybody the time to finish. `whole`: nothing may be wrong any more, so that the checks always apply.
    pub fn settle(&mut self, whole: bool) -> Checked {
        self.storage.resume();
        self.is_stuck = false;
        if whole || self.order.one_in(2) {
            self.storage.set_capacity(1 << 40);
            self.clock.advance(Nanos(1_100_000_000));
        }
        let is_healthy = !self.is_faulty && !self.storage.is_dead() && !self.is_small;
        let span = Nanos::from_millis(self.plan.options.lag_millis / 2 + 1);
        let asked = self.opened().db().last_lsn();
        self.clock.advance(span);
        let mut is_quiet = false;
        for _ in 0..ROUNDS_MAX {
            is_quiet = self.settle_round()?;
            if is_quiet {
                break;
            }
        }
        self.trace.note(format_args!("settled: {is_quiet}, healthy: {is_healthy}"));
        if !is_healthy || self.storage.is_dead() {
            return Ok(());
        }
        self.check_settled(is_quiet, asked.0)
    }

    /// One step of everybody; true when nobody has anything to do at once.
    fn settle_round(&mut self) -> Checked<bool> {
        use logd_engine::log::Next;
        use logd_engine::maintenance::MaintenanceNext;
        let writer = self.opened().step_writer();
        let before = self.opened().db().last_lsn().0;
        let maintenance = self.opened().step_maintenance();
        let db = self.opened().db().clone();
        self.take_removed(&db, Some(before))?;
        self.storage.step();
        self.look()?;
        if self.opened().db().failure().is_some() {
            return Ok(true);
        }
        let marks = self.opened().db().watermarks();
        let is_running = self.opened().db().stats().snapshots.running;
        let waits = matches!(maintenance, MaintenanceNext::Until(_) | MaintenanceNext::Idle);
        if !is_running && waits && marks.synced == marks.assigned && writer != Next::Again {
            if self.overdue().is_none() {
                return Ok(true);
            }
            self.clock.advance(Nanos(10_000_000));
        }
        // A snapshot may be paced for seconds.
        let pause = if is_running && waits { 3_000_000 } else { 300_000 };
        self.clock.advance(Nanos(pause));
        Ok(false)
    }

    /// A record that has been due for long.
    fn overdue(&self) -> Option<Bytes> {
        let late = Millis(self.store.as_ref()?.db().time().now().0.saturating_sub(GRACE_MILLIS));
        let mut held = self.model.now.spaces.iter().flat_map(|records| records.iter());
        held.find(|(_, record)| record.is_due(late)).map(|(key, _)| Rc::clone(key))
    }

    fn check_settled(&mut self, is_quiet: bool, asked: u64) -> Checked {
        let store = self.store.as_ref().expect("the store is open");
        let stats = store.db().stats();
        let marks = store.db().watermarks();
        if marks.synced.0 < asked {
            return broken("liveness", format!("LSN {asked} is not durable after the lag: {marks:?}"));
        }
        if !is_quiet {
            return broken("liveness", format!("the drivers do not come to rest: {marks:?}, {:?}", stats.snapshots));
        }
        if let Some(waiting) = self.promises.waiting.first() {
            return broken("liveness", format!("{:?} is not told though all is synced", waiting.ticket));
        }
        if let Some(error) = stats.snapshots.rows.iter().find_map(|row| row.error.clone()) {
            return broken("checkpoint", format!("a checkpoint failed on a healthy disk: {error}"));
        }
        if let Some(key) = self.overdue() {
            return broken("expiry", format!("{} is due and was not removed", key.escape_ascii()));
        }
        Ok(())
    }
}
