//! Every peer under the contract of stores.

use super::super::direct::PeerTarget;
use super::super::store::StoreTarget;
use super::super::test_contract as contract;
use super::*;

#[test]
fn every_peer_keeps_the_contract_of_stores_in_both_forms() {
    let mut kinds = vec![
        PeerKind::Sqlite,
        PeerKind::Lmdb,
        PeerKind::Redb,
        PeerKind::Fjall,
        PeerKind::Surrealkv,
        PeerKind::Canopydb,
    ];
    if cfg!(feature = "peer-rocksdb") {
        kinds.push(PeerKind::Rocksdb);
    }
    for kind in kinds {
        for (syncs, behind_queue) in [(true, false), (true, true), (false, false)] {
            let directory = tempfile::tempdir().unwrap();
            let mut target = PeerTarget::new(open(kind, directory.path(), syncs).unwrap(), behind_queue);
            contract::check(&target);
            target.close().unwrap();
        }
    }
}
