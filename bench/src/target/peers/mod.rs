//! Other embedded stores, each driven as its documentation says for writes that must last.
//! Guarantees: synced means that the store's own synced commit has returned; docs/BENCHMARKS.md counts the syncs.
//! Must not know: workloads.
//! Next: one file a store.

#[cfg(feature = "peers")]
mod canopydb;
#[cfg(feature = "peers")]
mod fjall;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peer-rocksdb")]
mod rocksdb;
#[cfg(feature = "peers")]
mod sqlite;
#[cfg(feature = "peers")]
mod surrealkv;

use super::TargetError;
use super::direct::Peer;
use crate::args::PeerKind;
use std::path::Path;
use std::sync::Arc;

/// Memory for the caches of peers that have one, so that all data of our workloads fits.
#[cfg(any(feature = "peers", feature = "peer-rocksdb"))]
const CACHE_BYTES: usize = 1 << 30;

/// An error of a store in its words.
#[cfg(any(feature = "peers", feature = "peer-rocksdb"))]
fn failed(error: impl std::fmt::Display) -> super::direct::PeerError {
    super::direct::PeerError(error.to_string())
}

/// The form without a sync, in words.
#[cfg(any(feature = "peers", feature = "peer-rocksdb"))]
fn how(syncs: bool, synced: &'static str) -> &'static str {
    if syncs { synced } else { "not synced before the answer" }
}

/// Opens a peer in a directory. `syncs`: whether a write is to be on stable storage before its call returns.
pub fn open(kind: PeerKind, directory: &Path, syncs: bool) -> Result<Arc<dyn Peer>, TargetError> {
    // Without features, every kind ends below and the arguments are not looked at.
    let _ = (directory, syncs);
    let (store, feature) = match kind {
        #[cfg(feature = "peers")]
        PeerKind::Sqlite => return Ok(Arc::new(sqlite::Sqlite::open(directory, syncs)?)),
        #[cfg(feature = "peers")]
        PeerKind::Lmdb => return Ok(Arc::new(lmdb::Lmdb::open(directory, syncs)?)),
        #[cfg(feature = "peers")]
        PeerKind::Redb => return Ok(Arc::new(redb::Redb::open(directory, syncs)?)),
        #[cfg(feature = "peers")]
        PeerKind::Fjall => return Ok(Arc::new(fjall::Fjall::open(directory, syncs)?)),
        #[cfg(feature = "peers")]
        PeerKind::Surrealkv => return Ok(Arc::new(surrealkv::SurrealKv::open(directory, syncs)?)),
        #[cfg(feature = "peers")]
        PeerKind::Canopydb => return Ok(Arc::new(canopydb::CanopyDb::open(directory, syncs)?)),
        #[cfg(feature = "peer-rocksdb")]
        PeerKind::Rocksdb => return Ok(Arc::new(rocksdb::RocksDb::open(directory, syncs)?)),
        #[cfg(not(feature = "peer-rocksdb"))]
        PeerKind::Rocksdb => ("RocksDB", "peer-rocksdb"),
        #[cfg(not(feature = "peers"))]
        _ => ("this peer", "peers"),
    };
    #[allow(unreachable_code)] // with all features every arm returns
    Err(TargetError::NotBuilt { store, feature })
}

#[cfg(all(test, feature = "peers"))]
mod tests;
