//! Operations that change the store, done to the store and then to the model.
//! Guarantees: an operation that was refused changes nothing in the model; which refusals are in order is checked.
//! Must not know: when a crash comes.
//! Next: promises.rs takes the tickets.

use super::clients::Watched;
use super::model::{Bytes, Change, Commit, Rec, SPACES};
use super::procedures::{Answer, Arguments, BY_CALLS, BY_EFFECTS, key, seen};
use super::run::Run;
use super::{Checked, broken};
use logd_engine::clock::Clock;
use logd_engine::core::Ticket;
use logd_engine::error::Refused;
use logd_engine::units::Millis;
use logd_engine::{Batch, DurabilityLevel, Error, Keyspace, KeyspaceOptions, Routing, Scope};
use std::rc::Rc;

/// Bytes of headers that a command with a few effects has at most.
const HEADERS_BYTES: u64 = 200;
/// Levels of the keyspaces, where they have one.
const DURABILITIES: [Option<DurabilityLevel>; 5] =
    [None, None, Some(DurabilityLevel::Accepted), Some(DurabilityLevel::Volatile), None];

/// Bytes that changes take in the log at least.
pub fn logged_bytes(changes: &[Change]) -> u64 {
    changes.iter().filter(|change| !SPACES[change.space()].volatile).map(Change::bytes).sum()
}

fn moment(expiry: u64) -> Option<Millis> {
    (expiry != 0).then_some(Millis(expiry))
}

impl Run {
    /// Whether the store may not grow, and how often growth was refused.
    fn room(&mut self) -> (bool, u64) {
        let space = self.opened().db().stats().space;
        (space.is_low, space.refused_count)
    }

    /// Whether the reserve of disk space was kept from what may use it.
    fn check_reserve(&mut self) -> Checked {
        if self.room().1 > self.refused_count {
            return broken("reserve", "what only shrinks the store was refused as growth");
        }
        Ok(())
    }

    /// The handle of a keyspace that was made.
    pub fn handle(&self, space: usize) -> Keyspace {
        self.keyspaces[space].expect("the keyspace was made")
    }

    /// The level of a write to a keyspace that names none.
    fn level_of(&self, space: usize) -> DurabilityLevel {
        DURABILITIES[space].unwrap_or(self.plan.options.durability)
    }

    fn draw_level(&mut self) -> Option<DurabilityLevel> {
        // Asked before the operation, since that may be what changes it.
        (self.is_low, self.refused_count) = self.room();
        self.plan.levels[self.client.below(self.plan.levels.len() as u64) as usize]
    }

    /// Takes a command into the model, and its client onto the list of those who wait.
    fn commit(
        &mut self,
        client: usize,
        ticket: Ticket,
        changes: Vec<Change>,
        asked: Option<DurabilityLevel>,
    ) -> Checked {
        let logged = changes.iter().any(|change| !SPACES[change.space()].volatile);
        let makes = changes.iter().any(|change| matches!(change, Change::Make { .. }));
        if (ticket.lsn.0 != 0) != (logged || makes) {
            return broken("lsn", format!("{ticket:?} for {changes:?}"));
        }
        let last = self.opened().db().last_lsn().0;
        if ticket.lsn.0 != 0 && (ticket.lsn.0 <= self.model.told || ticket.lsn.0 != last) {
            return broken("lsn", format!("{} after {}, last {last}", ticket.lsn, self.model.told));
        }
        self.note_changes(&changes);
        let weaker = |space: usize| self.level_of(space) > ticket.level;
        if asked.is_none() && ticket.lsn.0 != 0 && changes.iter().any(|change| weaker(change.space())) {
            return broken("level", format!("{ticket:?} for {changes:?}"));
        }
        if asked.is_some_and(|asked| ticket.lsn.0 != 0 && asked != ticket.level) {
            return broken("level", format!("{ticket:?} in place of {asked:?}"));
        }
        let grows = |change: &Change| matches!(change, Change::Put { .. }) && !SPACES[change.space()].volatile;
        if self.is_low && changes.iter().any(grows) {
            return broken("reserve", format!("LSN {} grew the store though the disk is low", ticket.lsn));
        }
        let now = self.opened().db().time().now();
        let bytes = logged_bytes(&changes);
        self.add(Commit {
            lsn: ticket.lsn.0,
            level: ticket.level,
            changes,
            at: self.clock.monotonic(),
            time: now,
            bytes,
            acked: None,
        });
        if ticket.lsn.0 != 0 {
            let by_call = self.client.one_in(3);
            let store = self.store.as_ref().expect("the store is open");
            self.promises.wait(store.db(), client, ticket, by_call);
        }
        Ok(())
    }

    /// Takes a command into the model.
    pub fn add(&mut self, commit: Commit) {
        self.trace.note(format_args!("LSN {} {:?}: {} changes", commit.lsn, commit.level, commit.changes.len()));
        self.model.commit(commit);
    }

    /// Whether a refusal is in order; the model stays as it is then.
    fn refused(&mut self, error: Error, bytes: u64) -> Checked {
        self.trace.note(format_args!("refused: {error}"));
        let limit = self.plan.options.segment_bytes / 4 - 8192;
        match error {
            Error::Refused(Refused::Busy) => Ok(()),
            Error::Refused(Refused::CommandTooLarge { .. }) if bytes + HEADERS_BYTES > limit => Ok(()),
            Error::Full(_) if self.is_small => Ok(()),
            Error::Failed(_) if self.is_faulty || self.storage.is_dead() => Ok(()),
            other => broken("refusal", format!("{bytes} bytes: {other}")),
        }
    }

    /// Notes which watched keys changes touch. Before they are applied to the model.
    pub fn note_changes(&mut self, changes: &[Change]) {
        for watched in &mut self.watched {
            let held = self.model.now.raw(watched.space, &watched.key).is_some();
            watched.changed |= changes.iter().any(|change| match change {
                Change::Put { space, key, .. } | Change::Delete { space, key } | Change::Expire { space, key, .. } => {
                    *space == watched.space && *key == watched.key
                }
                Change::Clear { space } => *space == watched.space && held,
                Change::Make { .. } => false,
            });
        }
    }

    /// A change was tried and undone, or may have been.
    pub fn note_tried(&mut self) {
        self.watched.iter_mut().for_each(|watched| watched.tried = true);
    }

    /// Makes a keyspace.
    pub fn make_keyspace(&mut self, space: usize) -> Checked {
        let routings = [Routing::WholeKey, Routing::WholeKey, Routing::Prefix(2), Routing::WholeKey, Routing::OneShard];
        let options = KeyspaceOptions { durability: DURABILITIES[space], routing: routings[space] };
        let before = self.opened().db().last_lsn();
        match self.opened().db().try_keyspace(SPACES[space].name, options) {
            Ok(handle) => {
                self.keyspaces[space] = Some(handle);
                let lsn = self.opened().db().last_lsn();
                if lsn.0 == before.0 || lsn.0 <= self.model.told {
                    return broken("lsn", format!("keyspace made without a new LSN: {before}, {lsn}"));
                }
                let ticket = Ticket { lsn, level: DurabilityLevel::Synced };
                self.commit(0, ticket, vec![Change::Make { space }], Some(DurabilityLevel::Synced))
            }
            Err(error) => self.refused(error, 0),
        }
    }

    /// A put without an end.
    pub fn put(&mut self, client: usize, space: usize) -> Checked {
        self.put_with(client, space, 0)
    }

    /// A put with one.
    pub fn put_expiring(&mut self, client: usize, space: usize) -> Checked {
        let expiry = self.draw_expiry();
        self.put_with(client, space, expiry)
    }

    fn put_with(&mut self, client: usize, space: usize, expiry: u64) -> Checked {
        let (key, value, level) = (self.draw_key(space), self.draw_value(), self.draw_level());
        let handle = self.handle(space);
        let bytes = (key.len() + value.len()) as u64;
        match self.opened().db().try_put(handle, &key, &value, moment(expiry), level) {
            Ok(ticket) => self.commit(client, ticket, vec![Change::Put { space, key, value, expiry }], level),
            Err(error) => self.refused(error, bytes),
        }
    }

    /// A delete, of a key that may not be there.
    pub fn delete(&mut self, client: usize, space: usize) -> Checked {
        let (key, level, handle) = (self.draw_key(space), self.draw_level(), self.handle(space));
        let now = self.opened().db().time().now();
        let should = self.model.now.live(space, &key, now).is_some();
        let is_there = self.model.now.raw(space, &key).is_some();
        let scope = Scope::Key(handle, &key);
        match self.opened().db().try_transact(scope, level, |transaction| Ok(transaction.delete(handle, &key))) {
            Ok((was, _)) if was != should => broken("read", format!("delete of {key:?} said {was}")),
            Ok((_, ticket)) => {
                let changes = if is_there { vec![Change::Delete { space, key }] } else { Vec::new() };
                self.commit(client, ticket, changes, level)
            }
            Err(error) => {
                self.note_tried();
                self.check_reserve()?;
                self.refused(error, key.len() as u64)
            }
        }
    }

    /// A change of a record's end only.
    pub fn set_expiry(&mut self, client: usize, space: usize) -> Checked {
        let (key, level, handle) = (self.draw_key(space), self.draw_level(), self.handle(space));
        let expiry = if self.client.one_in(4) { 0 } else { self.draw_expiry() };
        let now = self.opened().db().time().now();
        let before = self.model.now.live(space, &key, now).map(|record| record.expiry);
        let scope = Scope::Key(handle, &key);
        let set = self
            .opened()
            .db()
            .try_transact(scope, level, |transaction| Ok(transaction.set_expiry(handle, &key, moment(expiry))));
        match set {
            Ok((was, _)) if was != before.is_some() => broken("read", format!("expiry of {key:?} said {was}")),
            Ok((_, ticket)) => {
                let is_change = before.is_some_and(|before| before != expiry);
                let changes = if is_change { vec![Change::Expire { space, key, expiry }] } else { Vec::new() };
                self.commit(client, ticket, changes, level)
            }
            Err(error) => {
                self.note_tried();
                self.check_reserve()?;
                self.refused(error, key.len() as u64)
            }
        }
    }

    /// Removes all of a keyspace.
    pub fn clear(&mut self, client: usize, space: usize) -> Checked {
        let (level, handle) = (self.draw_level(), self.handle(space));
        let is_empty = self.model.now.spaces[space].is_empty();
        let cleared = self.opened().db().try_transact(Scope::All, level, |transaction| {
            transaction.clear(handle);
            Ok(())
        });
        match cleared {
            Ok(((), ticket)) => {
                let changes = if is_empty { Vec::new() } else { vec![Change::Clear { space }] };
                self.commit(client, ticket, changes, level)
            }
            Err(error) => {
                self.note_tried();
                self.check_reserve()?;
                self.refused(error, 0)
            }
        }
    }

    /// Several reads and writes over several shards; some give up at the end.
    pub fn transaction(&mut self, client: usize) -> Checked {
        let level = self.draw_level();
        let (changes, keys) = self.draw_changes();
        let aborts = self.client.one_in(6);
        let clears = self.client.one_in(20) && self.form.has("clear") && !changes.is_empty();
        let named: Vec<(Keyspace, &[u8])> = keys.iter().map(|(space, key)| (self.handle(*space), &key[..])).collect();
        let handles: Vec<Keyspace> = changes.iter().map(|change| self.handle(change.space())).collect();
        let first = changes.first().map_or(0, Change::space);
        let bytes: u64 = changes.iter().map(|change| change.bytes() + 17).sum();
        let now = self.opened().db().time().now();
        let (mut state, mut done) = (self.model.now.clone(), Vec::new());
        let mut wrong = None;
        let scope = if clears { Scope::All } else { Scope::Keys(&named) };
        let store = self.store.as_ref().expect("the store is open");
        let result = store.db().try_transact(scope, level, |transaction| {
            if clears && !state.spaces[first].is_empty() {
                transaction.clear(handles[0]);
                let clear = Change::Clear { space: first };
                state.apply(&clear);
                done.push(clear);
            }
            for (change, handle) in changes.iter().zip(&handles) {
                let (space, key) = match change {
                    Change::Put { space, key, value, expiry } => {
                        transaction.put(*handle, key, value, moment(*expiry))?;
                        (*space, key)
                    }
                    Change::Delete { space, key } => {
                        transaction.delete(*handle, key);
                        (*space, key)
                    }
                    _ => unreachable!("transactions put and delete"),
                };
                if matches!(change, Change::Put { .. }) || state.raw(space, key).is_some() {
                    state.apply(change);
                    done.push(change.clone());
                }
                let found = transaction.get(*handle, key).map(|found| (found.value.to_vec(), found.expiry));
                let right = state.live(space, key, now).map(|record| (record.value.to_vec(), moment(record.expiry)));
                if found != right {
                    wrong = Some(format!("a transaction does not see its own change of {key:?}"));
                }
            }
            if aborts { Err(Refused::Aborted("as drawn".to_owned()).into()) } else { Ok(()) }
        });
        if let Some(wrong) = wrong {
            return broken("read", wrong);
        }
        match result {
            Ok(((), ticket)) => self.commit(client, ticket, done, level),
            Err(error) => {
                self.note_tried();
                if aborts && matches!(error, Error::Refused(Refused::Aborted(_))) {
                    return self.check_keys(&keys);
                }
                self.refused(error, bytes)?;
                self.check_keys(&keys)
            }
        }
    }

    fn draw_changes(&mut self) -> (Vec<Change>, Vec<(usize, Bytes)>) {
        let (mut changes, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.client.below(6) {
            let space = self.draw_space();
            if self.keyspaces[space].is_none() {
                continue;
            }
            let key = self.draw_key(space);
            keys.push((space, Rc::clone(&key)));
            changes.push(match self.client.below(4) {
                0 => Change::Delete { space, key },
                1 if self.form.has("expiry") => {
                    Change::Put { space, key, value: self.draw_value(), expiry: self.draw_expiry() }
                }
                _ => Change::Put { space, key, value: self.draw_value(), expiry: 0 },
            });
        }
        (changes, keys)
    }

    /// Puts and deletes in one command.
    pub fn batch(&mut self, client: usize) -> Checked {
        let level = self.draw_level();
        let (changes, _) = self.draw_changes();
        let (mut batch, mut state, mut done) = (Batch::new(), self.model.now.clone(), Vec::new());
        let mut bytes = 0;
        for change in &changes {
            let handle = self.handle(change.space());
            bytes += change.bytes() + 17;
            match change {
                Change::Put { key, value, expiry, .. } => batch.put(handle, key, value, moment(*expiry)),
                Change::Delete { key, .. } => batch.delete(handle, key),
                _ => unreachable!("batches put and delete"),
            };
            let counts = match change {
                Change::Delete { space, key } => state.raw(*space, key).is_some(),
                _ => true,
            };
            if counts {
                state.apply(change);
                done.push(change.clone());
            }
        }
        match self.opened().db().try_apply(&batch, level) {
            Ok(ticket) => self.commit(client, ticket, done, level),
            Err(error) => {
                self.note_tried();
                self.refused(error, bytes)
            }
        }
    }

    /// A stored procedure.
    pub fn call(&mut self, client: usize) -> Checked {
        if self.keyspaces[0].is_none() || self.keyspaces[1].is_none() {
            return Ok(());
        }
        let level = self.draw_level();
        let keys = self.plan.keys.min(200);
        let arguments = Arguments {
            stamp: self.next_stamp(),
            first: self.client.below(keys) as u8,
            second: self.client.below(keys) as u8,
            mode: self.client.below(256) as u8,
        };
        let name = if self.client.one_in(3) { BY_EFFECTS } else { BY_CALLS };
        let now = self.opened().db().time().now();
        let value = |space, number: u8| -> Option<Bytes> {
            self.model.now.live(space, &key(space, number.into()), now).map(|Rec { value, .. }| Rc::clone(value))
        };
        let should = seen(value(0, arguments.first).as_deref(), value(1, arguments.second).as_deref());
        match self.opened().db().try_call(name, &arguments.encode(), level) {
            Ok((reply, ticket)) => {
                let right =
                    |answer: &Answer| answer.seen == should && answer.now == now.0 && answer.version == self.version;
                let Some(answer) = Answer::decode(&reply).filter(right) else {
                    return broken("read", format!("procedure {name} saw something else: {reply:?}"));
                };
                let mut changes = arguments.changes(answer.version, answer.random, now, should);
                changes.retain(|change| match change {
                    Change::Delete { space, key } => self.model.now.raw(*space, key).is_some(),
                    _ => true,
                });
                self.commit_call(client, ticket, changes, name, level)
            }
            Err(Error::Refused(Refused::Aborted(_))) if arguments.aborts() => {
                self.note_tried();
                self.check_keys(&[(0, key(0, arguments.first.into())), (1, key(1, arguments.second.into()))])
            }
            Err(error) => {
                self.note_tried();
                self.refused(error, 300)
            }
        }
    }

    /// A call takes less room in the log than what it does.
    fn commit_call(
        &mut self,
        client: usize,
        ticket: Ticket,
        changes: Vec<Change>,
        name: &str,
        asked: Option<DurabilityLevel>,
    ) -> Checked {
        self.commit(client, ticket, changes, asked)?;
        if name == BY_CALLS
            && let Some(commit) = self.model.commits.last_mut()
        {
            commit.bytes = 36;
        }
        Ok(())
    }

    /// Starts to watch a key.
    pub fn watch(&mut self, space: usize) -> Checked {
        if self.watched.len() < 6 {
            let (key, handle) = (self.draw_key(space), self.handle(space));
            let watch = self.opened().db().watch(handle, &key);
            self.watched.push(Watched { watch, space, key, changed: false, tried: false });
        }
        Ok(())
    }

    /// Compares what the watches say with what was changed.
    pub fn check_watches(&mut self) -> Checked {
        for watched in self.watched.drain(..) {
            let says = watched.watch.is_touched();
            if says != watched.changed && !(says && watched.tried) {
                return broken("watch", format!("{:?} in {}: {says}", watched.key, SPACES[watched.space].name));
            }
        }
        Ok(())
    }
}
