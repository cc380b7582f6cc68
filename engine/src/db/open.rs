//! Brings a store up. STAND-IN until recovery is merged: opens an empty store in memory.
use super::{Db, Inner};
use crate::clock::OsClock;
use crate::core::{Core, EngineTime, Procedure, Procedures, Rebuild};
use crate::error::Error;
use crate::log_stub::Log;
use crate::options::Options;
use crate::units::Millis;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a store.
pub struct Builder {
    #[expect(dead_code, reason = "stand-in")]
    path: PathBuf,
    options: Options,
    procedures: Procedures,
}

impl Builder {
    pub(super) fn new(path: impl AsRef<Path>) -> Builder {
        Builder { path: path.as_ref().to_owned(), options: Options::default(), procedures: Procedures::new() }
    }
    /// Sets the settings.
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }
    /// Adds a procedure.
    pub fn register(mut self, procedure: Procedure) -> Builder {
        self.procedures.register(procedure);
        self
    }
    /// Opens.
    pub fn open(self) -> Result<Db, Error> {
        self.options.check()?;
        let time = EngineTime::start(Arc::new(OsClock), Millis(0));
        let state = Rebuild::new(&self.options, self.procedures.clone(), time.clone()).finish();
        let core =
            Arc::new(Core::build(state, Arc::new(Log::default()), time, self.procedures.clone(), self.options, 1));
        let mut procedures = std::collections::BTreeMap::new();
        for procedure in self.procedures.all() {
            procedures.insert(procedure.name().to_owned(), core.activate(procedure)?);
        }
        Ok(Db { inner: Arc::new(Inner { core, procedures }) })
    }
}

impl Db {
    /// Stops taking writes, syncs all that was acknowledged, marks the store clean and lets go of it. Blocks; well below a
    /// second but for a stuck disk. Later calls on any clone get `Refused::Closed`.
    pub fn close(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Starts a checkpoint (snapshot, manifest, shorter log) in the background. False if one is running already.
    pub fn start_checkpoint(&self) -> Result<bool, Error> {
        Ok(true)
    }
    /// Takes a checkpoint and blocks until it is on disk; joins one that is running.
    pub fn checkpoint(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Digest of the whole present state with its LSN: the same for a running store, its directory and a replay of its log.
    /// Walks everything: seconds for gigabytes; blocks nobody.
    pub fn digest(&self) -> (crate::units::Lsn, u128) {
        (self.last_lsn(), 0)
    }
}
