//! What the store has told its clients, and what a crash may therefore take.
//! Guarantees: P1 what was acknowledged at `Synced` survives everything; P2 at `Written`, a kill; P3 what a crash takes of the
//! others was acknowledged while the lag bound held; P4 nothing is acknowledged after a failure.
//! Must not know: how the log reaches its watermarks.
//! Next: lives.rs asks after a crash.

use super::model::Model;
use super::{Checked, broken};
use logd_engine::core::Ticket;
use logd_engine::log::Watermarks;
use logd_engine::units::Nanos;
use logd_engine::{Db, DurabilityLevel, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const TOLD: u8 = 1;
const REFUSED: u8 = 2;

/// A client that waits for one write.
pub struct Waiting {
    /// Of which client.
    pub client: usize,
    /// For what.
    pub ticket: Ticket,
    /// Set by the log's own callback, where one was registered.
    pub called: Option<Arc<AtomicU8>>,
}

/// All that was told and not yet lost or kept for good.
#[derive(Default)]
pub struct Promises {
    /// Survives everything.
    pub floor_synced: u64,
    /// Survives a kill.
    pub floor_written: u64,
    /// Clients that wait.
    pub waiting: Vec<Waiting>,
    /// The watermarks when the log failed.
    pub frozen: Option<Watermarks>,
}

impl Promises {
    /// A client starts to wait.
    pub fn wait(&mut self, db: &Db, client: usize, ticket: Ticket, by_call: bool) {
        let called = by_call.then(|| {
            let told = Arc::new(AtomicU8::new(0));
            let tell = Arc::clone(&told);
            db.on_durable(ticket, move |result| {
                tell.store(if result.is_ok() { TOLD } else { REFUSED }, Ordering::SeqCst);
            });
            told
        });
        self.waiting.push(Waiting { client, ticket, called });
    }

    /// Writes that a client waits for.
    pub fn open_count(&self, client: usize) -> usize {
        self.waiting.iter().filter(|waiting| waiting.client == client).count()
    }

    /// Looks who can be told by now, and holds the log to it.
    pub fn look(&mut self, db: &Db, model: &mut Model, now: Nanos) -> Checked {
        let marks = db.watermarks();
        self.check_marks(db, marks)?;
        let mut index = 0;
        while index < self.waiting.len() {
            let Waiting { ticket, called, .. } = &self.waiting[index];
            let ticket = *ticket;
            let told = called.as_ref().is_some_and(|called| called.load(Ordering::SeqCst) == TOLD);
            // The lag bound may have been reached since the call; what was told stays told.
            let was_right = match ticket.level {
                DurabilityLevel::Synced => false,
                DurabilityLevel::Written => ticket.lsn <= marks.written,
                DurabilityLevel::Accepted | DurabilityLevel::Volatile => true,
            };
            let durable = db.is_durable(ticket) || (told && was_right);
            match called.as_ref().map(|called| called.load(Ordering::SeqCst)) {
                Some(TOLD) if !durable => {
                    return broken("acknowledged", format!("LSN {} was called back too early", ticket.lsn));
                }
                Some(REFUSED) if db.failure().is_none() => {
                    return broken("acknowledged", format!("LSN {} was refused without a failure", ticket.lsn));
                }
                Some(0) if !durable && db.failure().is_some() => {
                    return broken("latch", format!("nobody told of the failure who waits for LSN {}", ticket.lsn));
                }
                Some(0) if durable && ticket.lsn <= marks.synced => {
                    return broken("acknowledged", format!("LSN {} is durable and nobody called", ticket.lsn));
                }
                _ => {}
            }
            if !durable {
                index += 1;
                continue;
            }
            if self.frozen.is_some() && ticket.lsn > marks.synced {
                let held = ticket.level == DurabilityLevel::Synced || ticket.lsn > marks.written;
                if held && ticket.level != DurabilityLevel::Accepted {
                    return broken("latch", format!("LSN {} was released after the failure", ticket.lsn));
                }
            }
            self.tell(model, ticket, now);
            self.waiting.swap_remove(index);
        }
        self.floor_synced = self.floor_synced.max(marks.synced.0);
        self.floor_written = self.floor_written.max(marks.written.0).max(self.floor_synced);
        Ok(())
    }

    fn check_marks(&mut self, db: &Db, marks: Watermarks) -> Checked {
        if marks.synced > marks.written || marks.written > marks.assigned {
            return broken("watermarks", format!("{marks:?}"));
        }
        if let Some(frozen) = self.frozen
            && (frozen.written, frozen.synced) != (marks.written, marks.synced)
        {
            return broken("latch", format!("watermarks moved after the failure: {frozen:?}, {marks:?}"));
        }
        if self.frozen.is_none() && db.failure().is_some() {
            self.frozen = Some(marks);
        }
        if marks.synced.0 < self.floor_synced {
            return broken("watermarks", format!("synced went back from {} to {}", self.floor_synced, marks.synced));
        }
        Ok(())
    }

    fn tell(&mut self, model: &mut Model, ticket: Ticket, now: Nanos) {
        let last = model.commits.last().map_or(0, |commit| commit.lsn);
        let place = model.commits.binary_search_by_key(&ticket.lsn.0, |commit| commit.lsn);
        if let Ok(place) = place {
            model.commits[place].acked.get_or_insert((now, last));
        }
        match ticket.level {
            DurabilityLevel::Synced => self.floor_synced = self.floor_synced.max(ticket.lsn.0),
            DurabilityLevel::Written => self.floor_written = self.floor_written.max(ticket.lsn.0),
            DurabilityLevel::Accepted | DurabilityLevel::Volatile => {}
        }
        self.floor_written = self.floor_written.max(self.floor_synced);
    }

    /// The process ends; with `power` the machine too.
    pub fn end(&mut self, power: bool) {
        self.waiting.clear();
        self.frozen = None;
        if power {
            self.floor_written = self.floor_synced;
        }
    }

    /// Whether a recovery up to `lsn` kept what was promised.
    pub fn check(&self, model: &Model, lsn: u64, options: &Options) -> Checked {
        if lsn < self.floor_written {
            let floor = self.floor_written;
            return broken("acknowledged", format!("recovered up to LSN {lsn}, but {floor} was promised"));
        }
        check_lag(model, lsn, options)
    }

    /// Whether a recovery up to `lsn` would keep what was promised, if the process ended now; with `power` the machine too.
    pub fn check_end(&self, model: &Model, lsn: u64, options: &Options, power: bool) -> Checked {
        let floor = if power { self.floor_synced } else { self.floor_written };
        if lsn < floor {
            return broken("fork", format!("recovered up to LSN {lsn}, but {floor} was promised"));
        }
        check_lag(model, lsn, options)
    }

    /// A recovery up to `lsn` succeeded: from now on all of that counts as synced.
    pub fn recovered(&mut self, lsn: u64) {
        self.floor_synced = lsn;
        self.floor_written = lsn;
    }
}

/// P3: at the moment of each acknowledgement that is lost, the lost commands that were there were younger and less than the bound.
fn check_lag(model: &Model, lsn: u64, options: &Options) -> Checked {
    let lost = || model.commits.iter().filter(|commit| commit.lsn > lsn);
    let Some(oldest) = lost().next() else { return Ok(()) };
    let acked = lost().filter_map(|commit| commit.acked.map(|acked| (commit.lsn, acked)));
    for (of, (at, last)) in acked {
        let age = at.since(oldest.at);
        if age >= Nanos::from_millis(options.lag_millis) {
            return broken("lag", format!("LSN {of} is lost and was acknowledged when {} was {age:?} old", oldest.lsn));
        }
        let bytes: u64 = lost().filter(|commit| commit.lsn <= last).map(|commit| commit.bytes).sum();
        if bytes >= options.lag_bytes {
            return broken("lag", format!("LSN {of} is lost and was acknowledged with {bytes} bytes unsynced"));
        }
    }
    Ok(())
}
