//! Opens the store that a name means.
//! Guarantees: a store that this build does not have is an error that says how to build it.
//! Must not know: workloads.
//! Next: store.rs.

use super::TargetError;
use super::direct::PeerTarget;
use super::library::LibraryTarget;
use super::peers;
use super::server::ServerStore;
use super::started::StartedServer;
use super::store::{StoreOptions, StoreTarget};
use crate::args::{Form, StoreKind, StoreSpec};
use logd_engine::DurabilityLevel;
use std::path::Path;

/// Opens it, in a directory if it is one of ours.
pub fn open(spec: &StoreSpec, directory: &Path, options: StoreOptions) -> Result<Box<dyn StoreTarget>, TargetError> {
    Ok(match &spec.kind {
        StoreKind::Embedded => Box::new(LibraryTarget::open(directory, options)?),
        StoreKind::Server(address) => Box::new(ServerStore::new(address.clone(), None)),
        StoreKind::Started(kind, binary) => {
            let started = StartedServer::start(*kind, binary, directory, options.level)?;
            Box::new(ServerStore::new(started.address(), Some(started)))
        }
        StoreKind::Peer(kind) => {
            let peer = peers::open(*kind, directory, options.level == DurabilityLevel::Synced)?;
            Box::new(PeerTarget::new(peer, spec.form == Form::Batch))
        }
    })
}
