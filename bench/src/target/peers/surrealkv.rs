//! SurrealKV: a log-structured tree with asynchronous commits that share syncs.
//! Guarantees: synced is `Durability::Immediate`; its preallocation of the log is on, which its documentation offers for
//! small commits.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use std::path::Path;
use surrealkv::{Durability, Error, LSMIterator, Options, Tree, TreeBuilder};
use tokio::runtime::{Builder, Runtime};

/// Beyond every key of ours, which are hexadecimal digits.
const END: &[u8] = b"~";

/// An open tree and the runtime it works on.
pub struct SurrealKv {
    tree: Tree,
    runtime: Runtime,
    syncs: bool,
}

impl SurrealKv {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<SurrealKv, PeerError> {
        let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
        let entered = runtime.enter();
        let options = Options::default()
            .with_path(directory.to_owned())
            .with_block_cache_capacity(CACHE_BYTES as u64)
            .with_wal_preallocation(true);
        let tree = TreeBuilder::with_options(options).build().map_err(failed)?;
        drop(entered);
        Ok(SurrealKv { tree, runtime, syncs })
    }

    async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        let mut transaction = self.tree.begin()?;
        transaction.set_durability(if self.syncs { Durability::Immediate } else { Durability::Eventual });
        for Change { key, value } in changes {
            match value {
                Some(value) => transaction.set(key.as_slice(), value.as_slice())?,
                None => transaction.delete(key.as_slice())?,
            }
        }
        transaction.commit().await
    }
}

impl Peer for SurrealKv {
    fn describe(&self) -> String {
        format!("SurrealKV 1, {}", how(self.syncs, "Durability::Immediate, preallocated log"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let transaction = self.tree.begin().map_err(failed)?;
        Ok(std::hint::black_box(transaction.get(key).map_err(failed)?).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        let transaction = self.tree.begin().map_err(failed)?;
        let mut range = transaction.range(from, END).map_err(failed)?;
        let mut visited = 0;
        let mut is_there = range.seek_first().map_err(failed)?;
        while is_there && visited < count {
            std::hint::black_box(range.value().map_err(failed)?);
            visited += 1;
            is_there = range.next().map_err(failed)?;
        }
        Ok(visited)
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        loop {
            match self.runtime.block_on(self.commit(changes)) {
                Err(Error::TransactionWriteConflict | Error::TransactionRetry) => {}
                done => return done.map_err(failed),
            }
        }
    }
}

impl Drop for SurrealKv {
    fn drop(&mut self) {
        // A measurement is over by now; what the tree cannot write at its end is of no interest.
        let _ = self.runtime.block_on(self.tree.close());
    }
}
