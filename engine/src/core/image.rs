//! Core state to and from the records of a snapshot.
//! Guarantees: definitions survive the way there and back; a view's digest is that of the snapshot made of it.
//! Must not know: files, the log.
//! Next: snapshot/ has the bytes; recovery/ drives the loading.

use super::catalog::{self, Catalog, KeyspaceDefinition, ProcedureDefinition};
use super::replay::{Rebuild, ReplayError};
use super::scope::ROUTING_HASH_ID;
use super::view::StateView;
use crate::digest::Digest;
use crate::error::{Corrupt, Error};
use crate::format::StoreId;
use crate::format::command::KeyspaceEffect;
use crate::format::snapshot::{self, SnapshotMeta};
use crate::index::{Entry, Tree};
use crate::recovery::Target;
use crate::units::{Lsn, Millis};

impl StateView {
    /// What a snapshot made of this view says about itself.
    pub fn meta(&self, store: StoreId) -> SnapshotMeta {
        meta(store, &self.catalog, self.lsn, self.time, self.shards.len())
    }

    /// The state digest: independent of order and shards.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::EMPTY;
        self.visit_all(&mut |keyspace, key, entry| {
            let name = self.catalog.keyspace_name(keyspace).expect("a tree belongs to a keyspace");
            digest.add(name, key, entry);
        });
        digest
    }
}

/// What a snapshot says about itself.
pub(super) fn meta(store: StoreId, catalog: &Catalog, lsn: Lsn, time_millis: Millis, shards: usize) -> SnapshotMeta {
    SnapshotMeta {
        store_id: u128::from_le_bytes(store.0),
        lsn,
        time_millis,
        shards: shards as u16,
        routing: ROUTING_HASH_ID,
        keyspaces: keyspaces_of(catalog),
        procedures: procedures_of(catalog),
    }
}

fn keyspaces_of(catalog: &Catalog) -> Vec<snapshot::KeyspaceDefinition> {
    let numbered = catalog.keyspaces.iter().enumerate();
    let definition = |(number, keyspace): (usize, &KeyspaceDefinition)| {
        let effect = catalog::encode_options(number as u16, &keyspace.name, keyspace.options);
        snapshot::KeyspaceDefinition {
            keyspace: effect.keyspace,
            level: effect.level,
            routing: effect.routing,
            prefix_bytes: effect.prefix_bytes,
            name: keyspace.name.clone(),
        }
    };
    numbered.map(definition).collect()
}

fn procedures_of(catalog: &Catalog) -> Vec<snapshot::ProcedureDefinition> {
    let numbered = catalog.procedures.iter().enumerate();
    let definition = |(number, procedure): (usize, &ProcedureDefinition)| snapshot::ProcedureDefinition {
        procedure: number as u32,
        version: procedure.version,
        form: procedure.form,
        name: procedure.name.clone(),
    };
    numbered.map(definition).collect()
}

/// The catalog of a snapshot; `None` if its numbers have gaps.
pub fn catalog_of(meta: &SnapshotMeta) -> Option<Catalog> {
    let mut catalog = Catalog::default();
    for keyspace in &meta.keyspaces {
        let effect = KeyspaceEffect {
            keyspace: keyspace.keyspace,
            level: keyspace.level,
            routing: keyspace.routing,
            prefix_bytes: keyspace.prefix_bytes,
            name: &keyspace.name,
        };
        catalog.define_keyspace(&effect).then_some(())?;
    }
    for procedure in &meta.procedures {
        let definition =
            ProcedureDefinition { name: procedure.name.clone(), version: procedure.version, form: procedure.form };
        catalog.define_procedure(procedure.procedure, definition).then_some(())?;
    }
    Some(catalog)
}

impl Target for Rebuild {
    fn begin(&mut self, meta: &SnapshotMeta) -> Result<(), Error> {
        let gap = || Corrupt {
            what: "snapshot metadata",
            file: crate::snapshot::file_name(meta.lsn),
            offset: 0,
            case: 'r',
            expected: "definitions numbered without a gap".to_owned(),
            found: "a gap".to_owned(),
        };
        Rebuild::begin(self, catalog_of(meta).ok_or_else(gap)?, meta.lsn);
        Ok(())
    }

    fn tree(&mut self, shard: u16, keyspace: u16, tree: Tree) {
        Rebuild::tree(self, usize::from(shard), keyspace, tree);
    }

    fn record(&mut self, keyspace: u16, key: &[u8], entry: Entry<'_>) {
        let known = Rebuild::record(self, keyspace, key, entry);
        assert!(known, "the snapshot's index names only keyspaces that its head defines");
    }

    fn apply(&mut self, lsn: Lsn, _time: Millis, frame: &[u8]) -> Result<(), Error> {
        Rebuild::apply(self, lsn, frame).map_err(|error| match error {
            ReplayError::Call(error) => error,
            ReplayError::Malformed(malformed) => Error::from(Corrupt {
                what: "command",
                file: "log".to_owned(),
                offset: lsn.0,
                case: 's',
                expected: "a frame that this version knows".to_owned(),
                found: format!("{malformed} at LSN {lsn}"),
            }),
        })
    }
}
