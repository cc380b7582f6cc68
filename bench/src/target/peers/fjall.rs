//! fjall: log-structured trees behind one journal.
//! Guarantees: synced is a batch with `PersistMode::SyncData`, which is an insert followed by a sync of the journal.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// An open database.
pub struct Fjall {
    database: Database,
    records: Keyspace,
    syncs: bool,
}

impl Fjall {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<Fjall, PeerError> {
        let database = Database::builder(directory).cache_size(CACHE_BYTES as u64).open().map_err(failed)?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default).map_err(failed)?;
        Ok(Fjall { database, records, syncs })
    }
}

impl Peer for Fjall {
    fn describe(&self) -> String {
        format!("fjall 3, {}", how(self.syncs, "persist(SyncData)"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let value = self.records.get(key).map_err(failed)?;
        Ok(value.map(|value| std::hint::black_box(value.to_vec())).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let mut visited = 0;
        for found in self.records.range(from..).take(count) {
            std::hint::black_box(found.value().map_err(failed)?.last());
            visited += 1;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        if let [Change { key, value: Some(value) }] = changes {
            self.records.insert(key.as_slice(), value.as_slice()).map_err(failed)?;
            let mode = if self.syncs { PersistMode::SyncData } else { PersistMode::Buffer };
            return self.database.persist(mode).map_err(failed);
        }
        let mut batch = self.database.batch().durability(self.syncs.then_some(PersistMode::SyncData));
        for Change { key, value } in changes {
            match value {
                Some(value) => batch.insert(&self.records, key.as_slice(), value.as_slice()),
                None => batch.remove(&self.records, key.as_slice()),
            }
        }
        batch.commit().map_err(failed)
    }
}
