//! One atomic step over locked shards: reads, effects, then one frame in the log.
//! Guarantees: T1 effects are applied and appended under the same locks; T2 a transaction that fails, is refused by the
//! log or panics leaves no trace; T3 what it reads is as of one moment of engine time; T4 without effects nothing is logged.
//! Must not know: who waits for the ticket.
//! Next: `Core::write` below is the write path; log/ takes the frame.

use super::catalog::{Keyspace, encode_options};
use super::counters::add;
use super::scope::Scope;
use super::shards::{Guards, ScanPosition, Walk};
use super::undo::Undo;
use super::{Core, KeyspaceOptions, Watch};
use crate::canary::{Canary, planted};
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::format::command::{Effect, FrameBuilder};
use crate::index::{Entry, Range};
use crate::limits;
use crate::log::Purpose;
use crate::units::{Lsn, Millis};
use std::ops::Bound;
use std::sync::atomic::Ordering;

/// A record as a transaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it ends, in engine time; `None` for never.
    pub expiry: Option<Millis>,
}

/// What to wait for before a write counts as done. Copy it, keep thousands of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// LSN of the command; `Lsn::NONE` if nothing was logged.
    pub lsn: Lsn,
    /// The level asked for.
    pub level: DurabilityLevel,
}

impl Ticket {
    /// The ticket of a call that changed nothing.
    pub const NOTHING: Ticket = Ticket { lsn: Lsn::NONE, level: DurabilityLevel::Accepted };
}

/// A transaction in progress.
pub struct Transaction<'a> {
    core: &'a Core,
    guards: Guards<'a>,
    frame: FrameBuilder,
    undo: Vec<Undo>,
    now: Millis,
    level: DurabilityLevel,
    user_bytes: u64,
    due_millis: u64,
    /// Whether it sets records, so that it may not use the reserve of disk space.
    grows: bool,
}

impl Core {
    /// Runs a transaction and appends what it did to the log: the write path of everything.
    ///
    /// `level`: `None` for the strongest level among the keyspaces it changed. Does not wait for the disk: the ticket does.
    /// Errors: what `body` returns; `Busy` when the log cannot take it now; `Full`, `Failed`. Nothing is changed on error.
    /// Panics if `body` touches a key outside `scope`.
    pub fn write<R>(
        &self,
        scope: Scope<'_>,
        level: Option<DurabilityLevel>,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<(R, Ticket), Error> {
        let mut transaction = Transaction::begin(self, scope, self.time.now());
        let result = body(&mut transaction)?;
        let ticket = transaction.commit(level, None)?;
        Ok((result, ticket))
    }

    /// Runs a read over locked shards.
    pub fn read<R>(&self, scope: Scope<'_>, body: impl FnOnce(&Transaction<'_>) -> R) -> R {
        body(&Transaction::begin(self, scope, self.time.now()))
    }

    /// Sets one record: the short form of `write` for the most frequent command. Appends before it applies, so nothing
    /// has to be undone.
    pub fn put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Option<Millis>,
        level: Option<DurabilityLevel>,
    ) -> Result<Ticket, Error> {
        check_key(key)?;
        check_value(value)?;
        // What is not logged takes no room on the disk.
        if keyspace.level != DurabilityLevel::Volatile && !planted(Canary::GrowthTakesReserve) {
            self.log.check_growth()?;
        }
        let expiry_millis = expiry.map_or(0, |expiry| expiry.0);
        let mut frame = FrameBuilder::new();
        frame.start_effects();
        frame.push(Effect::Put { keyspace: keyspace.number, key, value, expiry_millis });
        let frame = frame.finish();
        let mut shard = self.shards.lock(self.shards.route(keyspace, key));
        let (ticket, wake) = self.append_effects(keyspace, frame, level)?;
        shard.put(keyspace.number, key, Entry { value, expiry_millis });
        drop(shard);
        add(&self.counters.user_bytes, (key.len() + value.len()) as u64);
        if expiry_millis != 0 && expiry_millis < self.due_millis.load(Ordering::Relaxed) {
            self.note_due(expiry_millis);
        }
        if wake {
            self.wake_writer();
        }
        Ok(ticket)
    }

    /// Appends the effects of one keyspace, which the caller then applies under the lock it holds.
    fn append_effects(
        &self,
        keyspace: Keyspace,
        frame: &[u8],
        level: Option<DurabilityLevel>,
    ) -> Result<(Ticket, bool), Error> {
        if keyspace.level == DurabilityLevel::Volatile {
            self.log.check_read_only()?;
            return Ok((Ticket::NOTHING, false));
        }
        let default = if planted(Canary::KeyspaceLevelIgnored) { DurabilityLevel::Accepted } else { keyspace.level };
        let level = level.unwrap_or(default).max(DurabilityLevel::Accepted);
        let appended = self.log.append(frame, level, Purpose::Grow, self.time.stamp())?;
        add(&self.counters.commands, 1);
        Ok((Ticket { lsn: appended.lsn, level }, appended.wake))
    }

    /// Lets `look` see one record without copying it. The shard is locked meanwhile: be short.
    pub fn get_with<R>(&self, keyspace: Keyspace, key: &[u8], look: impl FnOnce(Option<Record<'_>>) -> R) -> R {
        let now = self.time.now();
        let shard = self.shards.lock(self.shards.route(keyspace, key));
        look(shard.get(keyspace.number, key).and_then(|entry| live(entry, now)))
    }

    /// Watches a key for changes by anyone.
    pub fn watch(&self, keyspace: Keyspace, key: &[u8]) -> Watch {
        self.shards.lock(self.shards.route(keyspace, key)).watched.watch(keyspace.number, key)
    }
}

/// The record, unless it is due.
pub fn live(entry: Entry<'_>, now: Millis) -> Option<Record<'_>> {
    let is_due = entry.expiry_millis != 0 && entry.expiry_millis <= now.0;
    let expiry = (entry.expiry_millis != 0).then_some(Millis(entry.expiry_millis));
    (!is_due).then_some(Record { value: entry.value, expiry })
}

impl<'a> Transaction<'a> {
    pub(super) fn begin(core: &'a Core, scope: Scope<'_>, now: Millis) -> Transaction<'a> {
        let mut frame = FrameBuilder::new();
        frame.start_effects();
        Transaction {
            guards: core.shards.lock_scope(scope),
            core,
            frame,
            undo: Vec::new(),
            now,
            level: DurabilityLevel::Volatile,
            user_bytes: 0,
            due_millis: u64::MAX,
            grows: false,
        }
    }

    /// Engine time of this transaction: the same for all it does.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The record of a key; `None` if there is none or it is due.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<Record<'_>> {
        let shard = self.guards.shard(self.core.shards.route(keyspace, key));
        shard.get(keyspace.number, key).and_then(|entry| live(entry, self.now))
    }

    /// Sets a record. Refused if the key or the whole command gets too long.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8], expiry: Option<Millis>) -> Result<(), Error> {
        check_key(key)?;
        check_value(value)?;
        let expiry_millis = expiry.map_or(0, |expiry| expiry.0);
        self.grows |= keyspace.level != DurabilityLevel::Volatile;
        let at = self.note_undo(keyspace, key);
        self.note_effect(keyspace, Effect::Put { keyspace: keyspace.number, key, value, expiry_millis });
        self.guards.shard_mut(at).put(keyspace.number, key, Entry { value, expiry_millis });
        self.user_bytes += (key.len() + value.len()) as u64;
        self.note_due(expiry_millis);
        Ok(())
    }

    /// Removes a record. True if there was one that was not due.
    pub fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> bool {
        let at = self.core.shards.route(keyspace, key);
        let Some(entry) = self.guards.shard(at).get(keyspace.number, key) else { return false };
        let was_live = live(entry, self.now).is_some();
        self.note_undo(keyspace, key);
        self.note_effect(keyspace, Effect::Delete { keyspace: keyspace.number, key });
        self.guards.shard_mut(at).delete(keyspace.number, key);
        self.user_bytes += key.len() as u64;
        was_live
    }

    /// Removes a record if it is due. True if it was.
    pub(super) fn remove_due(&mut self, keyspace: Keyspace, key: &[u8]) -> bool {
        let at = self.core.shards.route(keyspace, key);
        let is_due =
            self.guards.shard(at).get(keyspace.number, key).is_some_and(|entry| live(entry, self.now).is_none());
        if is_due {
            let kept =
                planted(Canary::WatchMissesExpiry).then(|| std::mem::take(&mut self.guards.shard_mut(at).watched));
            self.delete(keyspace, key);
            if let Some(kept) = kept {
                self.guards.shard_mut(at).watched = kept;
            }
        }
        is_due
    }

    /// Changes when a record ends; `None` for never. False if there is no such record.
    pub fn set_expiry(&mut self, keyspace: Keyspace, key: &[u8], expiry: Option<Millis>) -> bool {
        let expiry_millis = expiry.map_or(0, |expiry| expiry.0);
        match self.get(keyspace, key) {
            None => return false,
            Some(record) if record.expiry == expiry => return true,
            Some(_) => {}
        }
        let at = self.note_undo(keyspace, key);
        self.note_effect(keyspace, Effect::Expire { keyspace: keyspace.number, key, expiry_millis });
        self.guards.shard_mut(at).set_expiry(keyspace.number, key, expiry_millis);
        self.note_due(expiry_millis);
        true
    }

    /// Removes all records of a keyspace. Needs `Scope::All`.
    pub fn clear(&mut self, keyspace: Keyspace) {
        if self.len(keyspace) == 0 {
            return;
        }
        self.note_effect(keyspace, Effect::Clear { keyspace: keyspace.number });
        for shard in 0..self.core.shards.count() {
            let tree = self.guards.shard_mut(shard).clear(keyspace.number);
            self.undo.push(Undo::Tree { shard, keyspace: keyspace.number, tree });
        }
    }

    /// Number of records of a keyspace, due ones included. Needs `Scope::All`.
    pub fn len(&self, keyspace: Keyspace) -> usize {
        (0..self.core.shards.count())
            .filter_map(|shard| self.guards.shard(shard).tree(keyspace.number))
            .map(crate::index::Tree::len)
            .sum()
    }

    /// Records of the shard that holds `key`, between two bounds, in order, due ones left out. Covers the whole range
    /// only where the keyspace's routing keeps it in one shard.
    pub fn range_beside(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], Record<'_>)> {
        let shard = self.guards.shard(self.core.shards.route(keyspace, key));
        let range: Option<Range<'_>> = shard.tree(keyspace.number).map(|tree| tree.range(from, to));
        let now = self.now;
        range.into_iter().flatten().filter_map(move |(key, entry)| live(entry, now).map(|record| (key, record)))
    }

    /// Visits up to `limit` records of a keyspace from a position on, shard by shard, due ones left out of the visit but counted
    /// in the limit. `None` at the end. Needs `Scope::All`.
    pub fn visit(
        &self,
        keyspace: Keyspace,
        from: &ScanPosition,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], Record<'_>),
    ) -> Option<ScanPosition> {
        let mut walk = Walk { position: from.clone(), left: limit };
        while walk.position.shard < self.core.shards.count() {
            let shard = self.guards.shard(walk.position.shard);
            let is_full = walk.shard(shard, keyspace, &mut |key, entry| {
                if let Some(record) = live(entry, self.now) {
                    visit(key, record);
                }
            });
            if is_full {
                return Some(walk.position);
            }
        }
        None
    }

    /// Some key, chosen by a random number; due ones may be among them. Needs `Scope::All`.
    pub fn sample(&self, keyspace: Keyspace, random: u64) -> Option<Vec<u8>> {
        let count = self.core.shards.count();
        let start = (random >> 32) as usize % count;
        (0..count).find_map(|step| {
            let tree = self.guards.shard((start + step) % count).tree(keyspace.number)?;
            tree.sample(random).map(|(key, _)| key.to_vec())
        })
    }

    /// Makes a keyspace. Needs `Scope::All`.
    pub(crate) fn define_keyspace(&mut self, number: u16, name: &str, options: KeyspaceOptions) {
        self.level = DurabilityLevel::Synced;
        if !planted(Canary::KeyspaceNotLogged) {
            self.frame.push(Effect::Keyspace(encode_options(number, name, options)));
        }
    }

    /// Names a procedure. Needs `Scope::All`.
    pub(crate) fn define_procedure(&mut self, procedure: u32, version: u32, form: u8, name: &str) {
        self.level = DurabilityLevel::Synced;
        self.frame.push(Effect::Procedure { procedure, version, form, name });
    }

    pub(super) fn seed(&self) -> u64 {
        self.core.draw_seed()
    }

    /// The effects so far, as bytes.
    pub(super) fn effects(&self) -> &[u8] {
        self.frame.body()
    }

    /// Appends what was done to the log and releases the locks. `call` replaces the effects in the log.
    pub(super) fn commit(
        mut self,
        level: Option<DurabilityLevel>,
        call: Option<crate::format::command::Call<'_>>,
    ) -> Result<Ticket, Error> {
        if self.frame.is_empty() {
            if !self.undo.is_empty() {
                self.core.log.check_read_only()?;
            }
            self.undo.clear();
            self.tell_due();
            return Ok(Ticket::NOTHING);
        }
        if (self.grows && !planted(Canary::GrowthTakesReserve)) || planted(Canary::DeleteNeedsRoom) {
            self.core.log.check_growth()?;
        }
        if let Some(call) = call {
            self.frame.replace_by_call(&call);
        }
        let level = level.unwrap_or(self.level).max(DurabilityLevel::Accepted);
        let purpose = if self.grows { Purpose::Grow } else { Purpose::Shrink };
        let appended = self.core.log.append(self.frame.finish(), level, purpose, self.core.time.stamp())?;
        self.forget_undo();
        add(&self.core.counters.commands, 1);
        add(&self.core.counters.user_bytes, self.user_bytes);
        self.tell_due();
        if appended.wake {
            self.core.wake_writer();
        }
        Ok(Ticket { lsn: appended.lsn, level })
    }

    /// Keeps the effects without logging them: replay, where the log has them already.
    pub(super) fn keep(mut self) {
        self.undo.clear();
    }

    /// What was cleared is not freed here: the locks are held.
    fn forget_undo(&mut self) {
        for step in self.undo.drain(..) {
            if let Undo::Tree { tree, .. } = step {
                self.core.discard(tree);
            }
        }
    }

    fn note_undo(&mut self, keyspace: Keyspace, key: &[u8]) -> usize {
        let at = self.core.shards.route(keyspace, key);
        self.undo.push(Undo::of(at, self.guards.shard(at), keyspace.number, key));
        at
    }

    fn note_effect(&mut self, keyspace: Keyspace, effect: Effect<'_>) {
        if keyspace.level != DurabilityLevel::Volatile {
            self.level = self.level.max(keyspace.level);
            if self.frame.is_empty() || !planted(Canary::SecondEffectLost) {
                self.frame.push(effect);
            }
        }
    }

    /// Volatile records are due too, though nothing of them is logged.
    fn tell_due(&self) {
        if self.due_millis < self.core.due_millis.load(Ordering::Relaxed) {
            self.core.note_due(self.due_millis);
        }
    }

    fn note_due(&mut self, expiry_millis: u64) {
        if expiry_millis != 0 {
            self.due_millis = self.due_millis.min(expiry_millis);
        }
    }
}

impl Drop for Transaction<'_> {
    /// Undoes what was not committed, also when the body panicked.
    fn drop(&mut self) {
        if !self.undo.is_empty() {
            add(&self.core.counters.aborted, 1);
        }
        if planted(Canary::UndoForgotten) {
            self.undo.clear();
        }
        if planted(Canary::UndoIncomplete) && self.undo.len() > 1 {
            self.undo.remove(0);
        }
        while let Some(step) = self.undo.pop() {
            let shard = step.shard();
            step.apply(self.guards.shard_mut(shard));
        }
    }
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() > limits::VALUE_BYTES_MAX {
        let bytes_max = limits::VALUE_BYTES_MAX;
        return Err(Refused::CommandTooLarge { bytes: value.len(), bytes_max }.into());
    }
    Ok(())
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.len() > limits::KEY_BYTES_MAX {
        return Err(Refused::KeyTooLong { bytes: key.len(), bytes_max: limits::KEY_BYTES_MAX }.into());
    }
    Ok(())
}
