//! canopydb: copy-on-write B-trees behind a write-ahead log with group commit.
//! Guarantees: synced is `commit_with(true)`; a lone change runs beside others and is repeated at a conflict.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use canopydb::{Database, DbOptions, EnvOptions, Error, WriteTransaction};
use std::path::Path;

const RECORDS: &[u8] = b"records";

/// An open database.
pub struct CanopyDb {
    database: Database,
    syncs: bool,
}

impl CanopyDb {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<CanopyDb, PeerError> {
        let mut options = EnvOptions::new(directory);
        options.page_cache_size = CACHE_BYTES;
        let database = Database::with_options(options, DbOptions::default()).map_err(failed)?;
        let transaction = database.begin_write().map_err(failed)?;
        drop(transaction.get_or_create_tree(RECORDS).map_err(failed)?);
        transaction.commit_with(true).map_err(failed)?;
        Ok(CanopyDb { database, syncs })
    }

    fn commit(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), Error> {
        {
            let mut tree = transaction.get_or_create_tree(RECORDS)?;
            for Change { key, value } in changes {
                match value {
                    Some(value) => tree.insert(key, value)?,
                    None => drop(tree.delete(key)?),
                }
            }
        }
        transaction.commit_with(self.syncs).map(drop)
    }
}

impl Peer for CanopyDb {
    fn describe(&self) -> String {
        format!("canopydb 0.2, {}", how(self.syncs, "commit_with(sync)"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let Some(tree) = transaction.get_tree(RECORDS).map_err(failed)? else { return Ok(false) };
        let value = tree.get(key).map_err(failed)?;
        Ok(value.map(|value| std::hint::black_box(value.to_vec())).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let Some(tree) = transaction.get_tree(RECORDS).map_err(failed)? else { return Ok(0) };
        let mut visited = 0;
        for found in tree.range(from..).map_err(failed)?.take(count) {
            std::hint::black_box(found.map_err(failed)?.1.last());
            visited += 1;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        if changes.len() > 1 {
            let transaction = self.database.begin_write().map_err(failed)?;
            return self.commit(transaction, changes).map_err(failed);
        }
        loop {
            let transaction = self.database.begin_write_concurrent().map_err(failed)?;
            match self.commit(transaction, changes) {
                Err(Error::WriteConflict) => {}
                done => return done.map_err(failed),
            }
        }
    }
}
