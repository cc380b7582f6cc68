//! Rebuilds state: from a snapshot's records and trees, then from the log's frames.
//! Guarantees: applying a frame twice cannot happen by this file alone: it refuses LSNs that do not rise.
//! Must not know: files.
//! Next: recovery.rs drives it.

use super::catalog::{Catalog, Keyspace, ProcedureDefinition};
use super::scope::route;
use super::shard::Shard;
use super::shards::Shards;
use super::{Core, CoreParts, EngineTime, Procedures};
use crate::canary::{Canary, planted};
use crate::error::{Error, Refused};
use crate::format::StoreId;
use crate::format::command::{Call, Command, Effect, Malformed, decode};
use crate::index::{Entry, Tree};
use crate::limits;
use crate::log::{Log, LogOptions, LogPosition};
use crate::options::Options;
use crate::units::Lsn;

/// State under construction.
pub struct Rebuild {
    core: Core,
    last: Lsn,
}

impl Rebuild {
    /// Empty state. `time` is not read while replaying; calls carry their own.
    pub fn new(options: &Options, procedures: Procedures, time: EngineTime) -> Rebuild {
        let shards = Shards::new((0..options.shards).map(|_| Shard::default()).collect());
        let empty = Rebuilt { shards, catalog: Catalog::default() };
        let idle = LogOptions::new(options, limits::SEGMENT_BYTES_MIN);
        let log = Log::new(&LogPosition::fresh(StoreId::default()), idle);
        let parts = CoreParts { log, time, procedures, options: options.clone(), seed: 0 };
        Rebuild { core: Core::build(empty, parts), last: Lsn::NONE }
    }

    /// Takes over a snapshot's definitions, which hold as of its LSN.
    pub fn begin(&mut self, catalog: Catalog, lsn: Lsn) {
        *self.core.catalog.write() = catalog;
        self.last = lsn;
    }

    /// Takes over a whole tree of a snapshot written with the same shards and routing.
    pub fn tree(&self, shard: usize, keyspace: u16, tree: Tree) {
        self.core.shards.lock(shard).set_tree(keyspace, tree);
    }

    /// Takes over one record of a snapshot, wherever it belongs now. False if its keyspace is not defined.
    pub fn record(&self, keyspace: u16, key: &[u8], entry: Entry<'_>) -> bool {
        let Some(handle) = self.handle(keyspace) else { return false };
        let shard = route(handle, key, self.core.shards.count());
        self.core.shards.lock(shard).put(keyspace, key, entry);
        true
    }

    /// LSN of the last command in the state.
    pub fn last_lsn(&self) -> Lsn {
        self.last
    }

    /// Applies one frame of the log.
    pub fn apply(&mut self, lsn: Lsn, frame: &[u8]) -> Result<(), ReplayError> {
        assert!(lsn > self.last, "replay goes upwards: {lsn} after {}", self.last);
        match decode(frame)? {
            Command::Effects(effects) => effects.into_iter().try_for_each(|effect| self.apply_effect(&effect?))?,
            Command::Call(call) => self.apply_call(&call, lsn)?,
        }
        self.last = lsn;
        Ok(())
    }

    fn apply_call(&self, call: &Call<'_>, lsn: Lsn) -> Result<(), ReplayError> {
        Ok(self.core.replay_call(call, lsn.0)?)
    }

    fn apply_effect(&self, effect: &Effect<'_>) -> Result<(), ReplayError> {
        let undefined = Malformed("effect on a keyspace that was not defined");
        match *effect {
            Effect::Put { expiry_millis: 1.., .. } if self.is_left_out(effect) => {}
            Effect::Put { keyspace, key, value, expiry_millis } => {
                if !self.record(keyspace, key, Entry { value, expiry_millis }) {
                    return Err(undefined.into());
                }
            }
            Effect::Delete { keyspace, key } => {
                let shard = self.shard_of(keyspace, key).ok_or(undefined)?;
                self.core.shards.lock(shard).delete(keyspace, key);
            }
            Effect::Expire { keyspace, key, expiry_millis } => {
                let shard = self.shard_of(keyspace, key).ok_or(undefined)?;
                self.core.shards.lock(shard).set_expiry(keyspace, key, expiry_millis);
            }
            Effect::Clear { keyspace } => {
                (0..self.core.shards.count()).for_each(|shard| drop(self.core.shards.lock(shard).clear(keyspace)));
            }
            Effect::Keyspace(ref definition) => {
                if !self.core.catalog.write().define_keyspace(definition) {
                    return Err(Malformed("keyspace number does not follow the last").into());
                }
            }
            Effect::Procedure { procedure, version, form, name } => {
                let definition = ProcedureDefinition { name: name.to_owned(), version, form };
                if !self.core.catalog.write().define_procedure(procedure, definition) {
                    return Err(Malformed("procedure number does not follow the last").into());
                }
            }
        }
        Ok(())
    }

    /// Never: whether a record is due is for its reader to decide.
    fn is_left_out(&self, effect: &Effect<'_>) -> bool {
        let now = self.core.time.now().0;
        planted(Canary::ExpiryByLocalClock)
            && matches!(effect, Effect::Put { expiry_millis, .. } if *expiry_millis <= now)
    }

    fn handle(&self, keyspace: u16) -> Option<Keyspace> {
        let catalog = self.core.catalog.read();
        (usize::from(keyspace) < catalog.keyspaces.len())
            .then(|| catalog.handle(keyspace, self.core.options.durability))
    }

    fn shard_of(&self, keyspace: u16, key: &[u8]) -> Option<usize> {
        self.handle(keyspace).map(|handle| route(handle, key, self.core.shards.count()))
    }

    /// A frozen view of the state so far, for digests and tools.
    pub fn view(&self) -> super::StateView {
        self.core.view_at(self.last)
    }

    /// Ends the rebuilding.
    pub fn finish(self) -> Rebuilt {
        Rebuilt { shards: self.core.shards, catalog: self.core.catalog.into_inner() }
    }
}

/// Rebuilt state, ready to be served.
pub struct Rebuilt {
    pub(super) shards: Shards,
    pub(super) catalog: Catalog,
}

/// Why a frame could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Its bytes make no sense although their checksum is right.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// A call could not be run again.
    #[error("{0}")]
    Call(#[from] Error),
}

impl From<Refused> for ReplayError {
    fn from(refused: Refused) -> ReplayError {
        ReplayError::Call(refused.into())
    }
}
