//! Writes a rebuilt state as a new store of its own.
//! Guarantees: the new store has the same digest, which is compared before it gets its name; its LSNs are its own.
//! Must not know: how the state was rebuilt.
//! Next: fresh.rs makes the directory and the clock.

use crate::command::ToolError;
use crate::filter::Filter;
use crate::fresh::{self, Fresh, PastClock};
use crate::progress::Progress;
use logd_engine::core::StateView;
use logd_engine::units::Millis;
use logd_engine::{Db, DurabilityLevel, Keyspace, Scope};
use std::path::Path;
use std::sync::Arc;

/// Records of one command of the new store.
const RECORDS_PER_COMMAND: usize = 256;
/// Bytes after which a command of the new store is closed.
const BYTES_PER_COMMAND: usize = 128 << 10;

type Owned = (Keyspace, Vec<u8>, Vec<u8>, u64);

/// Writes the records that a filter takes to a directory where nothing is.
pub fn rewrite(view: &StateView, into: &Path, filter: &Filter) -> Result<(), ToolError> {
    let fresh = Fresh::begin(into)?;
    write_store(view, fresh.path(), filter)?;
    fresh.finish()
}

/// Writes them, takes a checkpoint, and compares the digest of what was written. Records that have come to their end
/// are kept, as they are in the state: engine time stands in 1970 meanwhile.
pub fn write_store(view: &StateView, path: &Path, filter: &Filter) -> Result<(), ToolError> {
    let clock = PastClock::start();
    let db = fresh::make(path, Arc::clone(&clock), |builder| builder)?;
    clock.show_wall();
    let mut keyspaces = Vec::new();
    for definition in &view.catalog.keyspaces {
        keyspaces.push(db.keyspace(&definition.name, definition.options)?);
    }
    let mut progress = Progress::of("write", "records", 0);
    let (mut group, mut group_bytes, mut result) = (Vec::new(), 0, Ok(()));
    filter.visit(view, &mut |keyspace, key, entry| {
        group_bytes += key.len() + entry.value.len();
        group.push((keyspaces[usize::from(keyspace)], key.to_vec(), entry.value.to_vec(), entry.expiry_millis));
        if result.is_ok() && (group.len() >= RECORDS_PER_COMMAND || group_bytes >= BYTES_PER_COMMAND) {
            result = write_group(&db, &group);
            progress.add(group.len() as u64, group_bytes as u64);
            group.clear();
            group_bytes = 0;
        }
    });
    result?;
    write_group(&db, &group)?;
    progress.finish();
    db.checkpoint()?;
    let (_, written) = db.digest();
    db.close()?;
    drop(db);
    fresh::set_created(path)?;
    let (_, expected) = filter.digest(view);
    if written != expected {
        return Err(ToolError::Damaged(format!(
            "{} was written with digest {written}, not {expected}",
            path.display()
        )));
    }
    Ok(())
}

fn write_group(db: &Db, group: &[Owned]) -> Result<(), ToolError> {
    if group.is_empty() {
        return Ok(());
    }
    let keys: Vec<(Keyspace, &[u8])> = group.iter().map(|(keyspace, key, ..)| (*keyspace, &key[..])).collect();
    db.transact(Scope::Keys(&keys), Some(DurabilityLevel::Accepted), |transaction| {
        group.iter().try_for_each(|(keyspace, key, value, expiry_millis)| {
            let expiry = (*expiry_millis != 0).then_some(Millis(*expiry_millis));
            transaction.put(*keyspace, key, value, expiry)
        })
    })?;
    Ok(())
}
