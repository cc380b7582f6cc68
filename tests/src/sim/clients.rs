//! The steps of clients: which operation on which keys, and the rarer things that happen to a store.
//! Guarantees: draws only; what an operation does to store and model stands in writes.rs and reads.rs.
//! Must not know: what is right.
//! Next: writes.rs, reads.rs.

use super::model::{Bytes, SPACES};
use super::procedures::{key, value};
use super::run::{HeldView, Run};
use super::{Checked, broken};
use logd_engine::clock::Clock;
use logd_engine::core::Watch;
use logd_engine::disk::{DiskErrorKind, SimFault, SimOperation};
use logd_engine::units::Millis;

/// Writes a client has open at most before it waits.
const OPEN_MAX: usize = 12;
/// Views held at the same time.
const VIEWS_MAX: usize = 3;

/// A watched key.
pub struct Watched {
    /// The engine's side.
    pub watch: Watch,
    /// Keyspace.
    pub space: usize,
    /// Key.
    pub key: Bytes,
    /// Whether it was changed since.
    pub changed: bool,
    /// Whether a change of it was tried and undone: touched or not, both is right.
    pub tried: bool,
}

impl Run {
    /// One operation of some client.
    pub fn client_step(&mut self) -> Checked {
        let client = self.client.below(self.plan.clients) as usize;
        if self.promises.open_count(client) >= OPEN_MAX {
            return Ok(());
        }
        let space = self.draw_space();
        if self.keyspaces[space].is_none() {
            return self.make_keyspace(space);
        }
        match self.client.below(24) {
            0..=5 => self.put(client, space),
            6 | 7 if self.form.has("expiry") => self.put_expiring(client, space),
            8 | 9 => self.delete(client, space),
            10 if self.form.has("expiry") => self.set_expiry(client, space),
            11..=13 if self.form.has("transactions") => self.transaction(client),
            14 if self.form.has("transactions") => self.batch(client),
            15 if self.form.has("clear") && self.client.one_in(8) => self.clear(client, space),
            16 | 17 if self.form.has("calls") => self.call(client),
            18 => self.check_space(space),
            19 if self.form.has("watches") => self.watch(space),
            20 if self.form.has("watches") => self.check_watches(),
            21 => self.read_transaction(),
            _ => self.get(space),
        }
    }

    /// What happens beside the clients.
    pub fn rare_step(&mut self) -> Checked {
        match self.order.below(26) {
            0 | 1 if self.form.has("checkpoints") => self.ask_checkpoint(),
            2..=5 if self.form.has("views") => self.take_view()?,
            6..=8 if self.form.has("views") => self.check_a_view()?,
            9 if self.form.has("wall") => self.step_wall(),
            10 if self.form.has("faults") && self.fault.one_in(6) => self.arrange_fault(),
            11 if self.form.has("stuck") => self.toggle_stuck(),
            12 if self.form.has("capacity") && self.fault.one_in(2) => self.change_capacity(),
            13 if self.form.has("death") && self.fault.one_in(4) => self.arrange_death(),
            14 => self.settle(false)?,
            15 | 16 => {
                let lsn = self.opened().db().request_sync();
                self.trace.note(format_args!("sync asked up to {lsn}"));
            }
            17 => self.check_digest()?,
            18 => self.check_lock()?,
            19 | 20 if self.form.has("forks") => self.check_fork()?,
            _ => {}
        }
        Ok(())
    }

    /// A keyspace, mostly one that is logged.
    pub fn draw_space(&mut self) -> usize {
        let space = self.client.below(SPACES.len() as u64) as usize;
        if SPACES[space].volatile && self.client.one_in(2) { 0 } else { space }
    }

    /// A key of a keyspace.
    pub fn draw_key(&mut self, space: usize) -> Bytes {
        let number = self.client.below(self.plan.keys);
        key(space, number)
    }

    /// A value that was never written before.
    pub fn draw_value(&mut self) -> Bytes {
        let stamp = self.next_stamp();
        let mut bytes = 8 + self.client.below(self.plan.value_bytes);
        if self.client.one_in(40) {
            bytes = self.client.below(self.plan.options.segment_bytes / 4 - 8192 + 600);
        }
        value(stamp, bytes)
    }

    /// A moment ahead, or one that has passed.
    pub fn draw_expiry(&mut self) -> u64 {
        let now = self.opened().db().time().now().0;
        match self.client.below(12) {
            0 => now.saturating_sub(self.client.below(50)).max(1),
            1 => now + 1 + self.client.below(3_600_000),
            _ => now + 1 + self.client.below(self.plan.clock_micros / 4 + 40),
        }
    }

    fn ask_checkpoint(&mut self) {
        let is_new = self.opened().db().start_checkpoint();
        self.trace.note(format_args!("checkpoint asked for: {is_new:?}"));
    }

    fn take_view(&mut self) -> Checked {
        if self.views.len() >= VIEWS_MAX {
            return Ok(());
        }
        let view = self.opened().db().view();
        self.trace.note(format_args!("view {} of LSN {}", self.views.len(), view.lsn));
        if view.lsn != self.opened().db().last_lsn() {
            return broken("view", format!("it says LSN {}", view.lsn));
        }
        let keyspaces = self.keyspaces.clone();
        self.views.push(HeldView { view, state: self.model.now.clone(), keyspaces });
        Ok(())
    }

    fn step_wall(&mut self) {
        let now = self.clock.wall().0;
        let span = 1 << self.fault.below(32);
        let wall = if self.fault.one_in(2) { now + span } else { now.saturating_sub(span) };
        self.clock.set_wall(Millis(wall));
        self.trace.note(format_args!("wall clock: {wall}"));
    }

    fn arrange_fault(&mut self) {
        use SimOperation::{Allocate, Open, Remove, Rename, Sync, SyncDirectory, Write};
        let all = [Write, Write, Write, Sync, Sync, Open, Allocate, Rename, Remove, SyncDirectory];
        let fault = SimFault {
            operation: all[self.fault.below(all.len() as u64) as usize],
            skip: self.fault.below(6),
            lasting: self.fault.one_in(4),
            kind: DiskErrorKind::Io("drawn".to_owned()),
        };
        self.trace.note(format_args!("fault: {fault:?}"));
        self.is_faulty = true;
        self.storage.fail(fault);
    }

    fn toggle_stuck(&mut self) {
        self.is_stuck = !self.is_stuck && self.fault.one_in(3);
        self.trace.note(format_args!("stuck: {}", self.is_stuck));
        if self.is_stuck { self.storage.pause() } else { self.storage.resume() }
    }

    fn change_capacity(&mut self) {
        let used: u64 =
            self.storage.names().iter().map(|name| self.storage.contents(name).map_or(0, |c| c.len() as u64)).sum();
        let room = if self.fault.one_in(3) { 1 << 40 } else { self.fault.below(2 * self.plan.options.segment_bytes) };
        self.is_small = true;
        self.storage.set_capacity(used + room);
        self.trace.note(format_args!("room: {room}"));
    }

    fn arrange_death(&mut self) {
        let operations = self.fault.below(40);
        self.trace.note(format_args!("the machine ends after {operations} operations"));
        self.storage.die_after(operations);
    }
}
