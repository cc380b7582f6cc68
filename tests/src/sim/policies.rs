//! What the policies for damage may cost, tried on damaged copies of the medium.
//! Guarantees: A1 `read-only` changes no byte and takes no write; A2 `previous-snapshot` loses nothing; A3 `salvage` opens any store
//! of which one place is damaged, keeps all before the damage, serves nothing that was never written, tells what is lost, gives no
//! LSN again, and leaves a sound store behind.
//! Must not know: how a plan is made.
//! Next: damage.rs does the damage.

use super::damage::{Survey, is_data, survey};
use super::procedures;
use super::reads::compare_raw;
use super::run::Run;
use super::{Broken, Checked, broken};
use logd_engine::core::StateView;
use logd_engine::db::{OpenedStepped, Stepped};
use logd_engine::disk::SimStorage;
use logd_engine::error::Refused;
use logd_engine::recovery::LogFiles;
use logd_engine::verify::{Verdict, verify};
use logd_engine::{Db, Error, OnCorruption, Options};

/// Steps within which a store that was opened takes a command.
const STEPS_MAX: usize = 400;

/// One try.
struct Trial {
    policy: OnCorruption,
    copy: SimStorage,
    survey: Survey,
    file: String,
    from: usize,
    to: usize,
    seed: u64,
}

impl Trial {
    fn break_rule<T>(&self, words: impl std::fmt::Display) -> Checked<T> {
        let Trial { policy, file, from, to, .. } = self;
        broken("policy", format!("{}, {file} at {from}..{to}: {words}", policy.word()))
    }
}

fn image(storage: &SimStorage) -> Vec<(String, Option<Vec<u8>>)> {
    storage.names().into_iter().map(|name| (name.clone(), storage.contents(&name))).collect()
}

impl Run {
    /// Damages a copy and opens it under a policy.
    pub fn check_policy(&mut self) -> Checked {
        let copy = self.storage.copy();
        copy.set_capacity(1 << 40);
        let Some(survey) = survey(&copy) else { return Ok(()) };
        let names: Vec<String> = copy.names().into_iter().filter(|name| is_data(name)).collect();
        let damaged = match self.fault.one_in(5) {
            true => self.lose_a_file(&copy, &names),
            false => self.damage(&copy, &survey, &names),
        };
        let Some((file, from, to)) = damaged else { return Ok(()) };
        use OnCorruption::{PreviousSnapshot, ReadOnly, Salvage};
        let policy = [ReadOnly, PreviousSnapshot, Salvage, Salvage][self.fault.below(4) as usize];
        let trial = Trial { policy, copy, survey, file, from, to, seed: self.order.next_u64() };
        let before = image(&trial.copy);
        let opened = self.open_copy(&trial.copy, policy, trial.seed);
        self.trace.note(format_args!("{policy:?}, {} at {from}..{to}: {:?}", trial.file, opened.as_ref().err()));
        match opened {
            Err(Error::Refused(Refused::Version { .. })) => Ok(()),
            // With the manifest everything may be lost that says which store it was; damage to the log is refused.
            Err(Error::Corrupt(_)) if policy == PreviousSnapshot || trial.file == "manifest" => Ok(()),
            Err(error) => trial.break_rule(error),
            Ok(OpenedStepped::ReadOnly(db)) => self.check_read_only(&trial, &db, &before),
            Ok(OpenedStepped::Driven(store)) => self.check_mended(&trial, *store),
        }
    }

    fn open_copy(&self, copy: &SimStorage, policy: OnCorruption, seed: u64) -> Result<OpenedStepped, Error> {
        let options = Options { on_corruption: policy, ..self.plan.options.clone() };
        self.builder_over(copy.clone(), procedures::all(self.version)).options(options).open_stepped_or_read(seed)
    }

    /// Empties a file, or takes it away.
    fn lose_a_file(&mut self, copy: &SimStorage, names: &[String]) -> Option<(String, usize, usize)> {
        let name = match self.fault.one_in(3) {
            true => "manifest".to_owned(),
            false => names.get(self.fault.below(names.len().max(1) as u64) as usize)?.clone(),
        };
        let bytes = copy.contents(&name)?.len();
        if self.fault.one_in(2) {
            copy.remove(&name)
        } else {
            copy.put(&name, &[])
        }
        Some((name, 0, bytes))
    }

    fn check_read_only(&mut self, trial: &Trial, db: &Db, before: &[(String, Option<Vec<u8>>)]) -> Checked {
        if trial.policy != OnCorruption::ReadOnly || db.read_only().is_none() {
            return trial.break_rule("opened for reading");
        }
        let lsn = db.last_lsn().0;
        self.check_state(trial, lsn, &db.view())?;
        self.check_kept(trial, lsn)?;
        if let Some(handle) = self.keyspaces.iter().flatten().next() {
            match db.try_put(*handle, b"k", b"v", None, None) {
                Err(Error::Refused(Refused::ReadOnly { .. })) => {}
                other => return trial.break_rule(format!("a write got {other:?}")),
            }
        }
        if image(&trial.copy) != before {
            return trial.break_rule("files were changed");
        }
        Ok(())
    }

    fn check_mended(&mut self, trial: &Trial, mut store: Stepped) -> Checked {
        let lsn = store.recovered_lsn().0;
        self.check_state(trial, lsn, &store.db().view())?;
        let loss = store.db().loss();
        if lsn < self.promises.floor_written {
            let is_told = loss.is_unacknowledged() && loss.last_lsn.0 > lsn && loss.first_lsn.0 <= lsn + 1;
            if trial.policy == OnCorruption::Salvage && is_told {
                self.check_kept(trial, lsn)?;
            } else {
                self.check_unproven(&trial.survey, (&trial.file, trial.from, trial.to), lsn)?;
            }
        }
        for step in 0.. {
            match store.db().try_keyspace("behind", Default::default()) {
                Ok(_) => break,
                Err(Error::Refused(Refused::Busy)) if step < STEPS_MAX => {
                    store.step_maintenance();
                    store.step_writer();
                    trial.copy.step();
                }
                Err(error) => return trial.break_rule(format!("takes no command: {error}")),
            }
        }
        let given = store.db().last_lsn().0;
        // Damage that passes for a torn tail, or takes all of a segment, may hide how far LSNs had come.
        let is_whole = lsn >= self.promises.floor_written;
        let is_gone = trial.file.starts_with("log/") && trial.from == 0 && !is_whole;
        if given <= self.model.told && (is_whole || loss.salvage_count > 0) && !is_gone {
            return trial.break_rule(format!("LSN {given} is given again; {} was told", self.model.told));
        }
        drop(store);
        self.check_afterwards(trial, lsn, loss.salvage_count > 0)
    }

    /// What was mended is a sound store.
    fn check_afterwards(&mut self, trial: &Trial, lsn: u64, is_mended: bool) -> Checked {
        let after = trial.copy.kill();
        // Without a salvage the damage is where nobody came by: in what only an older snapshot needs.
        match verify(&after, &LogFiles, &mut |_| {}) {
            _ if !is_mended => {}
            Ok(Verdict::Sound | Verdict::TornTailOnly) => {}
            other => return trial.break_rule(format!("afterwards verify says {other:?}")),
        }
        if self.fault.one_in(4) && after.contents("loss").is_some_and(|bytes| !bytes.is_empty()) {
            after.corrupt("loss", self.fault.below(300), 4);
        }
        match self.open_copy(&after, OnCorruption::Refuse, trial.seed) {
            Ok(OpenedStepped::Driven(again)) if again.recovered_lsn().0 >= lsn => Ok(()),
            Ok(OpenedStepped::Driven(again)) => {
                trial.break_rule(format!("opened again with LSN {} after {lsn}", again.recovered_lsn()))
            }
            Ok(OpenedStepped::ReadOnly(_)) => trial.break_rule("opened again for reading"),
            Err(error) => trial.break_rule(format!("opened again: {error}")),
        }
    }

    fn check_state(&self, trial: &Trial, lsn: u64, view: &StateView) -> Checked {
        let right = match self.model.knows(lsn) {
            true => compare_raw("policy", view, &self.model.state_at(lsn)),
            false if view.digest().0 == self.model.digest_at(lsn) => Ok(()),
            false => broken("policy", "another state than at that LSN"),
        };
        right.or_else(|wrong: Broken| trial.break_rule(format!("LSN {lsn}: {}", wrong.words)))
    }

    /// All before the damage is there.
    fn check_kept(&self, trial: &Trial, lsn: u64) -> Checked {
        if lsn >= self.promises.floor_written {
            return Ok(());
        }
        if trial.file.starts_with("snapshot/") && trial.survey.snapshots <= 1 {
            return Ok(());
        }
        let Some(touched) = trial.survey.touched(&trial.file, trial.from, trial.to) else {
            return trial.break_rule(format!("LSN {lsn} only, though no command was hit"));
        };
        let before = self.model.digests.range(..touched).next_back().map_or(0, |(before, _)| *before);
        if lsn < before {
            return trial.break_rule(format!("LSN {lsn} only, though {before} was not hit"));
        }
        Ok(())
    }
}
