//! RocksDB as Debian has it: a log-structured tree whose writers form groups.
//! Guarantees: synced is `WriteOptions::set_sync(true)`, a sync of the log for each group.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use rocksdb::{BlockBasedOptions, Cache, DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};
use std::path::Path;

/// An open database.
pub struct RocksDb {
    database: DB,
    syncs: bool,
}

impl RocksDb {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<RocksDb, PeerError> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES).map_err(failed)?);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        let database = DB::open(&options, directory).map_err(failed)?;
        Ok(RocksDb { database, syncs })
    }
}

impl Peer for RocksDb {
    fn describe(&self) -> String {
        format!("RocksDB (system library), {}", how(self.syncs, "WriteOptions sync"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        Ok(std::hint::black_box(self.database.get(key).map_err(failed)?).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let mut visited = 0;
        for found in self.database.iterator(IteratorMode::From(from, Direction::Forward)).take(count) {
            std::hint::black_box(found.map_err(failed)?.1.last());
            visited += 1;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        let mut options = WriteOptions::default();
        options.set_sync(self.syncs);
        let mut batch = WriteBatch::default();
        for Change { key, value } in changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.database.write_opt(batch, &options).map_err(failed)
    }
}
