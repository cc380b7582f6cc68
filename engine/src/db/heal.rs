//! What opening does about damage, as `on_corruption` says, and the loss that people have to be told of.
//! Guarantees: one plan and one further recovery, never a loop; without a policy nothing is changed; a loss stays visible until
//! it is acknowledged; no LSN that may have been told to somebody is given again.
//! Must not know: how damage is found.
//! Next: recovery/plan.rs, recovery/salvage.rs.

use super::{Db, Inner};
use crate::canary::{Canary, planted};
use crate::core::Rebuild;
use crate::disk::{Disk, Storage};
use crate::error::{Corrupt, Error};
use crate::log::{LogEnd, LogPosition};
use crate::loss::{self, Loss};
use crate::options::OnCorruption;
use crate::recovery::{LogFiles, Plan, Recovered, Recovery, finish, load_prefix, plan, recover, salvage};
use crate::units::Lsn;

/// A store in memory, and what may be done with it.
pub(super) enum Opened {
    /// All is well, or was made so.
    Writable(Rebuild, Box<Recovered<LogEnd>>),
    /// It is damaged, and served for reading up to there.
    ReadOnly(Rebuild, Box<ReadOnly>),
}

/// What is served of a damaged store.
pub(super) struct ReadOnly {
    pub plan: Plan,
    pub damage: Corrupt,
    /// Commands replayed.
    pub replayed: u64,
}

impl ReadOnly {
    /// The start-up line.
    pub fn words(&self) -> String {
        let snapshot = self.plan.snapshot().map_or(Lsn::NONE, |snapshot| snapshot.lsn);
        let left_out = match self.plan.loss.last_lsn {
            Lsn(0) => "nothing that was durable is missing".to_owned(),
            last => format!("commands from LSN {} up to at most {last} are missing", self.plan.loss.first_lsn),
        };
        format!(
            "opened READ-ONLY, since the store is damaged: snapshot {snapshot} and {} commands of the log up to LSN {}; {left_out}; {}",
            self.replayed,
            self.plan.last_lsn(),
            self.damage
        )
    }
}

/// Recovers; after damage once more, as the policy says.
pub(super) fn recover_or_heal(recovery: &Recovery<'_, LogFiles>, fresh: &dyn Fn() -> Rebuild) -> Result<Opened, Error> {
    let policy = recovery.options.on_corruption;
    let mut rebuild = fresh();
    let damage = match recover(recovery, &mut rebuild) {
        Ok(recovered) => return Ok(Opened::Writable(rebuild, Box::new(recovered))),
        Err(Error::Corrupt(damage)) if policy != OnCorruption::Refuse => *damage,
        Err(error) => return Err(error),
    };
    drop(rebuild);
    let mut disk = recovery.storage.disk()?;
    let Some(plan) = plan(&mut *disk, recovery.clock.wall())? else { return Err(damage.into()) };
    let mut rebuild = fresh();
    if policy == OnCorruption::ReadOnly {
        crate::mark!("opened_read_only");
        let replayed = load_prefix(recovery, &mut *disk, &plan, &mut rebuild)?;
        return Ok(Opened::ReadOnly(rebuild, Box::new(ReadOnly { plan, damage, replayed })));
    }
    if policy == OnCorruption::PreviousSnapshot && !plan.is_lossless() {
        return Err(damage.into());
    }
    salvage(&mut *disk, &plan)?;
    let mut recovered = recover(recovery, &mut rebuild)?;
    recovered.notes.insert(0, format!("the store was damaged and has been mended: {damage}"));
    Ok(Opened::Writable(rebuild, Box::new(recovered)))
}

/// Reads the note of the loss of a store that has recovered, and ends a salvage that was interrupted behind its last step.
pub(super) fn read_loss(disk: &mut dyn Disk, notes: &mut Vec<String>) -> Result<Loss, Error> {
    let (loss, note) = loss::read(disk)?;
    notes.extend(note);
    if loss.under_way { finish(disk, &loss) } else { Ok(loss) }
}

/// Moves the position above everything that a loss has seen. `jump`: LSNs that may have been told without reaching the disk.
pub(super) fn lift(position: &mut LogPosition, loss: &Loss, jump: u64) {
    if position.last_lsn < loss.lsn_floor && !planted(Canary::LossFloorIgnored) {
        position.next_lsn = position.next_lsn.max(loss.lsn_floor.next().plus(jump));
    }
    position.next_segment = position.next_segment.max(loss.segment_floor.next());
}

/// What is added to the start-up line until somebody acknowledges it; empty if there is nothing.
pub(super) fn words(loss: &Loss) -> String {
    if loss.is_unacknowledged() { format!("; UNACKNOWLEDGED LOSS: {loss}") } else { String::new() }
}

impl Inner {
    /// Checkpoints and acknowledgements write too.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        self.core.log.check_read_only()
    }
}

impl Db {
    /// Why the store is open for reading only; `None` if it is not.
    pub fn read_only(&self) -> Option<&str> {
        self.inner.core.log.read_only()
    }

    /// What salvages have lost, acknowledged or not.
    pub fn loss(&self) -> Loss {
        *self.inner.loss.lock()
    }

    /// Takes note of the loss, durably: it is shown no longer. False if there was none to acknowledge. Blocks for the disk.
    pub fn acknowledge_loss(&self) -> Result<bool, Error> {
        self.inner.check_writable()?;
        let mut loss = self.inner.loss.lock();
        if !loss.is_unacknowledged() {
            return Ok(false);
        }
        let mut disk = self.inner.storage.disk()?;
        let acknowledged = Loss { acknowledged: true, ..*loss };
        loss::write(&mut *disk, &acknowledged)?;
        *loss = acknowledged;
        Ok(true)
    }
}
