//! Loads what a plan saves into memory, without changing a byte on disk: the policy `read-only`.
//! Guarantees: exactly the commands up to the plan's last one are applied, each once.
//! Must not know: how the result is served.
//! Next: plan.rs, then db/heal.rs.

use super::plan::{Plan, check_batch};
use super::seam::Target;
use super::start::{Recovery, load_snapshot, log_proof};
use crate::disk::Disk;
use crate::error::Error;
use crate::format::StoreId;
use crate::log::{Batch, Proof, find_prefix};
use crate::units::Lsn;

/// Fills the target with the plan's state. Answers how many commands of the log that took.
pub fn load_prefix<L>(
    recovery: &Recovery<'_, L>,
    disk: &mut dyn Disk,
    plan: &Plan,
    target: &mut dyn Target,
) -> Result<u64, Error> {
    let store_id = plan.manifest.store_id;
    let begin = match plan.snapshot() {
        Some(reference) => load_snapshot(recovery, disk, store_id, reference, target)?,
        None => Lsn::NONE,
    };
    let proof = log_proof(&plan.manifest);
    let proof = Proof { synced: proof.synced, segment: proof.segment };
    let (mut last, mut count) = (begin, 0);
    let mut apply = |batch: Batch<'_>| {
        check_batch(batch)?;
        let time = batch.header.time;
        // After damage the log is read from its start again: what is there already stays.
        for (lsn, frame) in batch.frames().filter(|(lsn, _)| *lsn <= plan.last_lsn()) {
            if lsn > last {
                target.apply(lsn, time, frame)?;
                (last, count) = (lsn, count + 1);
            }
        }
        Ok(())
    };
    find_prefix(disk, StoreId(store_id.to_le_bytes()), begin.next(), proof, &mut apply)?;
    Ok(count)
}
