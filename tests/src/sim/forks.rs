//! What would be left if the process or the machine ended right now: tried on a fork of the medium, and the run goes on.
//! Guarantees: F1 whatever is in flight, a start finds a state of the model that reaches as far as was promised; F2 the same
//! after a start that ended early, at any of its operations; F3 what an earlier start kept aside stays.
//! Must not know: what clients do.
//! Next: lives.rs does it to the run itself.

use super::procedures;
use super::reads::compare_raw;
use super::run::Run;
use super::{Broken, Checked, broken};
use logd_engine::disk::SimStorage;

/// Operations of a start within which it may end.
const OPERATIONS_MAX: u64 = 40;

fn kept_bytes(medium: &SimStorage) -> Vec<(String, Vec<u8>)> {
    let names = medium.names().into_iter().filter(|name| name.starts_with("quarantine/") && !name.ends_with(".tmp"));
    names.filter_map(|name| medium.contents(&name).map(|bytes| (name, bytes))).collect()
}

impl Run {
    /// Ends a fork, and sees what is left.
    pub fn check_fork(&mut self) -> Checked {
        if self.storage.is_dead() {
            return Ok(());
        }
        let mut power = self.fault.one_in(3);
        let mut medium = self.storage.fork();
        medium = if power { medium.crash(&mut self.fault) } else { medium.kill() };
        medium.set_capacity(1 << 40);
        let again = self.fault.below(3) > 0;
        if again {
            medium.die_after(self.fault.below(2 * OPERATIONS_MAX));
            drop(self.builder_over(medium.clone(), procedures::all(self.version)).open_stepped(1));
            let cut = self.fault.below(4) > 0;
            medium = if cut { medium.crash(&mut self.fault) } else { medium.kill() };
            power |= cut;
        }
        let kept = kept_bytes(&medium);
        let seed = self.order.next_u64();
        let opened = self.builder_over(medium.clone(), procedures::all(self.version)).open_stepped(seed);
        self.trace.note(format_args!("fork: power {power}, again {again}: {:?}", opened.as_ref().err()));
        let store = match opened {
            Ok(store) => store,
            Err(error) => return broken("fork", format!("power {power}, again {again}: {error}")),
        };
        let lsn = store.recovered_lsn().0;
        if let Some((name, _)) = kept.iter().find(|(name, bytes)| medium.contents(name).as_ref() != Some(bytes)) {
            return broken("quarantine", format!("{name} is not what it was"));
        }
        self.promises.check_end(&self.model, lsn, &self.plan.options, power)?;
        let right = compare_raw("fork", &store.db().view(), &self.model.state_at(lsn));
        right.map_err(|wrong| Broken { words: format!("LSN {lsn}: {}", wrong.words), ..wrong })
    }
}
