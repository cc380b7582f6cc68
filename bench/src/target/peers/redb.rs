//! redb: a copy-on-write B-tree in one file; writers take turns.
//! Guarantees: synced is `Durability::Immediate`.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

/// An open database.
pub struct Redb {
    database: Database,
    syncs: bool,
}

impl Redb {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<Redb, PeerError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(directory.join("records.redb")).map_err(failed)?;
        let transaction = database.begin_write().map_err(failed)?;
        drop(transaction.open_table(RECORDS).map_err(failed)?);
        transaction.commit().map_err(failed)?;
        Ok(Redb { database, syncs })
    }
}

impl Peer for Redb {
    fn describe(&self) -> String {
        format!("redb 4, {}", how(self.syncs, "Durability::Immediate"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let table = self.database.begin_read().map_err(failed)?.open_table(RECORDS).map_err(failed)?;
        let value = table.get(key).map_err(failed)?;
        Ok(value.map(|value| std::hint::black_box(value.value().to_vec())).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let table = self.database.begin_read().map_err(failed)?.open_table(RECORDS).map_err(failed)?;
        let mut visited = 0;
        for found in table.range(from..).map_err(failed)?.take(count) {
            let (_, value) = found.map_err(failed)?;
            std::hint::black_box(value.value().last());
            visited += 1;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        let durability = if self.syncs { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).map_err(failed)?;
        {
            let mut table = transaction.open_table(RECORDS).map_err(failed)?;
            for Change { key, value } in changes {
                match value {
                    Some(value) => drop(table.insert(key.as_slice(), value.as_slice()).map_err(failed)?),
                    None => drop(table.remove(key.as_slice()).map_err(failed)?),
                }
            }
        }
        transaction.commit().map_err(failed)
    }
}
