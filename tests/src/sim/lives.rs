//! Between two lives: how a store ends, what the medium is then, and what an opening must find.
//! Guarantees: L1 what is recovered is the model's state at one LSN, a prefix of the log order; L2 a store that was only cut off
//! always opens; L3 LSNs and engine time go on above all that was ever told; L4 kept bytes stay kept.
//! Must not know: what clients do.
//! Next: promises.rs says how far the prefix must reach, damage.rs what happens to damaged copies.

use super::model::SPACES;
use super::procedures;
use super::reads::{check_view, compare_raw};
use super::run::Run;
use super::{Checked, broken};
use logd_engine::clock::{Clock, SimClock};
use logd_engine::core::{Procedures, Rebuild, catalog_of};
use logd_engine::db::{Builder, Stepped};
use logd_engine::disk::{DiskErrorKind, SimFault, SimOperation, SimStorage, Storage};
use logd_engine::manifest::{self, ManifestRead};
use logd_engine::recovery::{LogFiles, LogReader, log_proof};
use logd_engine::snapshot::{BlockStream, Snapshot};
use logd_engine::units::{Lsn, Millis, Nanos};
use logd_engine::verify::{Finding, Verdict, verify};
use logd_engine::{Db, Error};
use std::sync::Arc;

/// Openings that may fail in a row because the machine ends or a fault strikes.
const ATTEMPTS_MAX: u64 = 6;

impl Run {
    /// How the store is opened now.
    pub fn builder(&self) -> Builder {
        self.builder_over(self.storage.clone(), procedures::all(self.version))
    }

    /// The same over another medium, with other procedures.
    pub fn builder_over(&self, storage: SimStorage, procedures: Vec<logd_engine::Procedure>) -> Builder {
        let builder = Db::builder("simulated").options(self.plan.options.clone());
        let builder = builder.storage(Arc::new(storage), Arc::new(self.clock.clone()));
        procedures.into_iter().fold(builder, Builder::register)
    }

    /// Opens the store, however many crashes it takes.
    pub fn open(&mut self) -> Checked {
        if self.form.has("rerouting") && self.order.one_in(4) {
            self.plan.options.shards = 1 + self.order.below(6) as usize;
        }
        if self.form.has("calls") && self.order.one_in(8) {
            self.version += 1;
        }
        for attempt in 0.. {
            self.check_image()?;
            let may_fail = attempt < ATTEMPTS_MAX;
            self.arrange_trouble(may_fail);
            let seed = self.order.next_u64();
            match self.builder().open_stepped(seed) {
                Ok(store) => {
                    self.check_recovered(&store)?;
                    if self.take_over(store)? {
                        return Ok(());
                    }
                }
                Err(error) => self.check_open_error(&error)?,
            }
            self.crash_in_between();
        }
        unreachable!("the last attempt succeeds or breaks a rule")
    }

    /// Something may go wrong during the opening too.
    fn arrange_trouble(&mut self, may_fail: bool) {
        (self.is_faulty, self.is_small) = (false, false);
        if !may_fail || !self.form.has("capacity") || self.fault.one_in(3) {
            self.storage.set_capacity(1 << 40);
        } else {
            self.is_small = true;
        }
        if !may_fail {
            return;
        }
        if self.form.has("death") && self.fault.one_in(4) {
            let operations = self.fault.below(60);
            self.trace.note(format_args!("the machine ends after {operations} operations of the opening"));
            self.storage.die_after(operations);
        }
        if self.form.has("faults") && self.fault.one_in(16) {
            use SimOperation::{Open, Read, Sync, SyncDirectory, Write};
            let operation = [Read, Open, Sync, Write, SyncDirectory][self.fault.below(5) as usize];
            let kind = DiskErrorKind::Io("drawn".to_owned());
            let fault = SimFault { operation, skip: self.fault.below(12), lasting: self.fault.one_in(2), kind };
            self.trace.note(format_args!("fault at the opening: {fault:?}"));
            self.is_faulty = true;
            self.storage.fail(fault);
        }
    }

    fn check_open_error(&mut self, error: &Error) -> Checked {
        self.trace.note(format_args!("opening failed: {error}"));
        match error {
            _ if self.storage.is_dead() => Ok(()),
            Error::Failed(_) if self.is_faulty => Ok(()),
            Error::Full(_) if self.is_small => Ok(()),
            other => broken("open", format!("{other}")),
        }
    }

    /// The opening did not come to its end: the machine or the process ends and the next attempt begins.
    fn crash_in_between(&mut self) {
        let power = self.storage.is_dead() && self.fault.one_in(2);
        self.store = None;
        self.change_medium(power);
    }

    fn change_medium(&mut self, power: bool) {
        self.crashes += 1;
        self.trace.note(format_args!("{}", if power { "power cut" } else { "kill" }));
        self.storage = if power { self.storage.crash(&mut self.fault) } else { self.storage.kill() };
        self.promises.end(power);
        self.is_stuck = false;
        if power {
            self.reboot();
        }
    }

    /// The clocks of the next boot: the monotonic one starts again, the wall clock may be anywhere.
    fn reboot(&mut self) {
        let wall = self.clock.wall().0;
        let off = self.fault.below(20_000);
        let wall = match self.fault.below(4) {
            0 if self.form.has("wall") => wall.saturating_sub(self.fault.below(3_600_000)),
            1 if self.form.has("wall") => wall + self.fault.below(3_600_000),
            _ => wall + off,
        };
        self.clock = SimClock::new(Millis(wall));
        self.trace.note(format_args!("boots at {wall}"));
    }

    /// Compares what was recovered with what the model allows.
    fn check_recovered(&mut self, store: &Stepped) -> Checked {
        let lsn = store.recovered_lsn().0;
        self.trace.note(format_args!("recovered up to LSN {lsn}: {}", store.db().stats().recovery.words));
        if lsn < self.model.base_lsn {
            return broken("prefix", format!("recovered up to LSN {lsn}, below {}", self.model.base_lsn));
        }
        self.promises.check(&self.model, lsn, &self.plan.options)?;
        let state = self.model.state_at(lsn);
        let view = store.db().view();
        compare_raw("prefix", &view, &state)?;
        let (_, digest) = store.db().digest();
        if digest.0 != state.digest {
            return broken("digest", format!("{digest} after recovery, should be {:032x}", state.digest));
        }
        for (space, definition) in SPACES.iter().enumerate() {
            let found = store.db().find_keyspace(definition.name).ok();
            if state.made[space] && found.is_none() {
                return broken("prefix", format!("keyspace {} is gone", definition.name));
            }
            if definition.volatile && found.is_some_and(|handle| store.db().len(handle) > 0) {
                return broken("prefix", "a volatile record outlived its process");
            }
            self.keyspaces[space] = found;
        }
        let (now, floor) = (store.db().time().now(), self.model.time_at(lsn));
        if now < floor {
            return broken("time", format!("engine time went back from {floor:?} to {now:?}"));
        }
        self.check_quarantine()?;
        self.model.recovered(lsn, state);
        self.promises.recovered(lsn);
        Ok(())
    }

    /// What was kept once stays as it was.
    fn check_quarantine(&mut self) -> Checked {
        for (name, bytes) in &self.quarantine {
            if self.storage.contents(name).as_ref() != Some(bytes) {
                return broken("quarantine", format!("{name} is not what it was"));
            }
        }
        for name in self.storage.names().into_iter().filter(|name| name.starts_with("quarantine/")) {
            if let Some(bytes) = self.storage.contents(&name).filter(|_| !name.ends_with(".tmp")) {
                self.quarantine.insert(name, bytes);
            }
        }
        Ok(())
    }

    /// Activates the procedures. False if the machine ended meanwhile.
    fn take_over(&mut self, mut store: Stepped) -> Checked<bool> {
        store.set_pieces(self.plan.pieces);
        (self.struck_before, self.struck_at) = (self.storage.writes_struck(), None);
        let (storage, clock) = (self.storage.clone(), self.clock.clone());
        let (mut removed, told, mut rounds) = (Ok(()), self.model.told, 0);
        let activated = store.activate(&mut |db| {
            if removed.is_ok() {
                removed = self.take_removed(db, None);
            }
            storage.step();
            clock.advance(Nanos(100_000));
            rounds += 1;
            assert!(rounds < 20_000, "simulation: an opening does not come to its end");
        });
        removed?;
        let (last, recovered) = (store.db().last_lsn().0, store.recovered_lsn().0);
        if last > recovered && last <= told {
            return broken("lsn", format!("LSN {last} was given out again; {told} was told before"));
        }
        self.model.told = self.model.told.max(last);
        for (space, definition) in SPACES.iter().enumerate() {
            self.keyspaces[space] = store.db().find_keyspace(definition.name).ok();
        }
        if let Err(error) = activated {
            self.check_open_error(&error)?;
            return Ok(false);
        }
        self.store = Some(store);
        Ok(true)
    }

    /// Ends the present life.
    pub fn end(&mut self) -> Checked {
        self.views.iter().try_for_each(check_view)?;
        let kind = self.order.below(8);
        let expiring = self.watched.drain(..).count();
        self.trace.note(format_args!("end: {kind}, {expiring} watches left"));
        if kind < 2 && self.form.has("stop") && self.stop()? {
            let power = self.order.one_in(2);
            self.change_medium(power);
        } else {
            let power = kind < 6 || !self.form.has("kill");
            let medium = self.storage.clone();
            self.change_medium(power);
            drop(self.store.take());
            drop(medium);
        }
        let views = std::mem::take(&mut self.views);
        views.iter().try_for_each(check_view)
    }

    /// Stops the store. True if that was a clean stop.
    fn stop(&mut self) -> Checked<bool> {
        self.storage.resume();
        let store = self.store.take().expect("the store is open during a life");
        let (last, time) = (store.db().last_lsn().0, store.db().time().now());
        let (storage, clock) = (self.storage.clone(), self.clock.clone());
        let mut rounds = 0;
        let closed = store.close(&mut |_| {
            storage.step();
            clock.advance(Nanos(50_000));
            rounds += 1;
            assert!(rounds < 20_000, "simulation: a stop does not come to its end");
        });
        self.trace.note(format_args!("stopped: {closed:?}"));
        match closed {
            Ok(()) => {
                self.promises.floor_synced = last;
                self.promises.floor_written = last;
                if last == self.model.base_lsn || self.model.commits.last().is_some_and(|commit| commit.lsn == last) {
                    self.model.base_time = self.model.base_time.max(time);
                }
                Ok(true)
            }
            Err(_) if self.is_faulty || self.storage.is_dead() => Ok(false),
            Err(error) => broken("stop", format!("a clean stop failed: {error}")),
        }
    }

    /// What the tools would say about the medium as it is now, and about damaged copies of it.
    fn check_image(&mut self) -> Checked {
        if self.order.one_in(2) {
            self.check_verify()?;
        }
        if self.order.one_in(3) {
            self.check_replay()?;
        }
        if self.form.has("calls") && self.order.one_in(8) {
            self.check_liar()?;
        }
        if self.form.has("damage") && self.order.one_in(3) {
            (0..4).try_for_each(|_| self.check_damage())?;
        }
        if self.form.has("policies") && self.order.one_in(3) {
            (0..3).try_for_each(|_| self.check_policy())?;
        }
        Ok(())
    }

    fn check_verify(&mut self) -> Checked {
        let mut findings = Vec::new();
        let verdict = verify(&self.storage, &LogFiles, &mut |finding| findings.push(finding.clone()));
        match verdict {
            Ok(Verdict::Sound | Verdict::TornTailOnly) => {}
            Ok(Verdict::NotAStore(_)) if self.promises.floor_written == 0 => {}
            other => return broken("verify", format!("{other:?}")),
        }
        for finding in findings {
            if let Finding::Snapshot { lsn, digest, .. } = finding {
                let right = self.model.digest_at(lsn.0);
                if digest.0 != right {
                    return broken("snapshot", format!("{digest} at LSN {lsn}, should be {right:032x}"));
                }
            }
        }
        Ok(())
    }

    /// Rebuilds the state from the oldest snapshot, as `logctl replay` would, and compares the digest.
    fn check_replay(&mut self) -> Checked {
        let mut disk =
            self.storage.disk().map_err(|error| super::Broken { rule: "replay", words: error.to_string() })?;
        let manifest = match manifest::read(&mut *disk) {
            Ok(ManifestRead::Present(file, _)) => file.manifest().clone(),
            Ok(ManifestRead::Empty) if self.promises.floor_written == 0 => return Ok(()),
            _ => return broken("replay", "the manifest cannot be read"),
        };
        match self.replay(&mut *disk, &manifest) {
            Ok((lsn, digest)) if digest == self.model.state_at(lsn).digest => Ok(()),
            Ok((lsn, digest)) => broken("replay", format!("{digest:032x} at LSN {lsn} from the oldest snapshot on")),
            Err(error) => broken("replay", format!("{error}")),
        }
    }

    fn replay(
        &self,
        disk: &mut dyn logd_engine::disk::Disk,
        manifest: &logd_engine::manifest::Manifest,
    ) -> Result<(u64, u128), Error> {
        let time = logd_engine::EngineTime::start(Arc::new(self.clock.clone()), Millis(0));
        let mut all = Procedures::new();
        procedures::all(self.version).into_iter().for_each(|procedure| {
            all.register(procedure);
        });
        let mut rebuild = Rebuild::new(&self.plan.options, all, time);
        let mut from = Lsn::NONE;
        if let Some(oldest) = manifest.snapshots.first() {
            from = oldest.lsn;
            let snapshot = Snapshot::open(disk, oldest.lsn)?;
            rebuild.begin(catalog_of(&snapshot.meta).expect("numbered without a gap"), oldest.lsn);
            let numbers: Vec<usize> = (0..snapshot.blocks.len()).collect();
            let mut stream = BlockStream::new(&snapshot, disk, &numbers)?;
            while let Some(block) = stream.next_block() {
                let (number, block) = block?;
                for record in snapshot.records(&block, number) {
                    let (key, entry) = record?;
                    rebuild.record(snapshot.blocks[number].keyspace, key, entry);
                }
            }
        }
        let mut wrong = None;
        LogFiles.scan(disk, manifest.store_id, from.next(), log_proof(manifest), &mut |lsn, _, frame| {
            if lsn > from && wrong.is_none() {
                wrong = rebuild.apply(lsn, frame).err();
            }
            Ok(())
        })?;
        match wrong {
            Some(logd_engine::core::ReplayError::Call(error)) => Err(error),
            Some(error) => Err(logd_engine::error::Refused::Aborted(error.to_string()).into()),
            None => Ok((rebuild.last_lsn().0, rebuild.view().digest().0)),
        }
    }
}
