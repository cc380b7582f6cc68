//! LMDB: a copy-on-write B-tree in a memory map; writers take turns.
//! Guarantees: synced is the default commit, which syncs data and then writes the meta page through.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{failed, how};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Bound;
use std::path::Path;

/// Room for the map; only what is used is taken on disk.
const MAP_BYTES: usize = 16 << 30;
const READERS_MAX: u32 = 2048;

/// An open environment.
pub struct Lmdb {
    /// Never closed: handles of databases are borrowed from it, and a measurement ends with its process.
    env: &'static Env,
    records: Database<'static, Bytes, Bytes>,
    syncs: bool,
}

impl Lmdb {
    /// Opens or makes it.
    #[allow(unsafe_code)] // LMDB maps a file, which no library can make safe; see SAFETY
    pub fn open(directory: &Path, syncs: bool) -> Result<Lmdb, PeerError> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        if !syncs {
            // SAFETY: without syncs a power cut may damage the file; it is a scratch file that nobody opens again.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory was made for this measurement, so that no other process changes the mapped file, and it
        // is opened once in this process.
        let env = unsafe { options.open(directory) }.map_err(failed)?;
        let env: &'static Env = Box::leak(Box::new(env));
        let transaction = env.write_txn().map_err(failed)?;
        let records = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                opener.create_database::<Bytes, Bytes>(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })
            .map_err(|error: heed::Error| failed(error))?
            .commit()
            .ok_or_else(|| failed("the database was not made"))?;
        Ok(Lmdb { env, records, syncs })
    }
}

impl Peer for Lmdb {
    fn describe(&self) -> String {
        format!("LMDB, {}", how(self.syncs, "synced commits"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let transaction = self.env.read_txn().map_err(failed)?;
        let value = self.records.get(&transaction, key).map_err(failed)?;
        Ok(value.map(|value| std::hint::black_box(value.to_vec())).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let transaction = self.env.read_txn().map_err(failed)?;
        let mut visited = 0;
        let range = (Bound::Included(from), Bound::Unbounded);
        for found in self.records.range(&transaction, &range).map_err(failed)?.take(count) {
            std::hint::black_box(found.map_err(failed)?.1.last());
            visited += 1;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for Change { key, value } in changes {
            match value {
                Some(value) => self.records.put(&mut transaction, key, value).map_err(failed)?,
                None => drop(self.records.delete(&mut transaction, key).map_err(failed)?),
            }
        }
        transaction.commit().map_err(failed)
    }
}
