//! A store without threads: whoever holds it calls the steps of both drivers, in any order (feature `sim`).
//! Guarantees: the same core, drivers and order of opening and closing as `open.rs`; same seed, storage, clock and
//! steps, same bytes. Dropping it is a kill: nothing is written any more.
//! Must not know: who decides about the order of steps.
//! Next: the simulation in the package `logd-tests` drives it; threads.rs is what it replaces.

use super::open::{Driven, Started, clean_mark};
use super::{Builder, Db};
use crate::checkpoint::Pieces;
use crate::core::Procedures;
use crate::error::{Error, Refused};
use crate::limits;
use crate::log::{LogWriter, Next};
use crate::maintenance::{Maintenance, MaintenanceNext};
use crate::recovery::Sequential;
use crate::units::Lsn;
use std::sync::Arc;

/// An open store and its drivers. Calls that would wait for a driver (`Db::put`, `Db::wait`, `Db::checkpoint`) hang for ever:
/// use the `try_` calls and step.
pub struct Stepped {
    db: Db,
    writer: LogWriter,
    maintenance: Maintenance,
    procedures: Procedures,
    recovered: Lsn,
}

/// What a store opened without threads is.
pub enum OpenedStepped {
    /// One to be driven.
    Driven(Box<Stepped>),
    /// A damaged one that is only read.
    ReadOnly(Db),
}

impl Builder {
    /// Opens a store without threads. `seed` takes the place of the system's randomness. The procedures are not active
    /// yet: `Stepped::activate` is the second half. Errors: as `open`.
    pub fn open_stepped(self, seed: u64) -> Result<Stepped, Error> {
        match self.open_stepped_or_read(seed)? {
            OpenedStepped::Driven(stepped) => Ok(*stepped),
            OpenedStepped::ReadOnly(_) => {
                Err(Refused::Aborted("a store opened for reading has nothing to step".to_owned()).into())
            }
        }
    }

    /// The same for a store that may be damaged, where `on_corruption` lets it be read.
    pub fn open_stepped_or_read(self, seed: u64) -> Result<OpenedStepped, Error> {
        let (options, procedures) = self.parts();
        options.check_from(limits::SEGMENT_BYTES_MIN_STEPPED)?;
        let procedures = procedures.clone();
        let Driven { inner, writer, maintenance } = match self.recover(seed, Arc::new(Sequential))? {
            Started::Driven(driven) => *driven,
            Started::ReadOnly(db) => return Ok(OpenedStepped::ReadOnly(db)),
        };
        let recovered = inner.core.log.watermarks().assigned;
        let db = Db { inner: Arc::new(inner) };
        Ok(OpenedStepped::Driven(Box::new(Stepped { db, writer, maintenance, procedures, recovered })))
    }
}

impl Stepped {
    /// The store.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Last command in the state that was recovered.
    pub fn recovered_lsn(&self) -> Lsn {
        self.recovered
    }

    /// Makes the procedures callable, as `Db::open` does, with steps in the place of waiting. `pass` lets simulated time go
    /// by, and must keep no clone of the store. Must come before the first clone of `db`. Errors: as `Db::open`.
    pub fn activate(&mut self, pass: &mut dyn FnMut(&Db)) -> Result<(), Error> {
        let procedures = self.procedures.clone();
        if procedures.all().any(|procedure| self.db.inner.is_changed_call(procedure)) {
            self.checkpoint(pass)?;
        }
        for procedure in procedures.all() {
            let active = loop {
                match self.db.inner.core.activate(procedure) {
                    Err(Error::Refused(Refused::Busy)) => self.step_both(pass),
                    done => break done?,
                }
            };
            let inner = Arc::get_mut(&mut self.db.inner).expect("nobody has cloned the store yet");
            inner.procedures.insert(procedure.name().to_owned(), active);
        }
        Ok(())
    }

    fn checkpoint(&mut self, pass: &mut dyn FnMut(&Db)) -> Result<(), Error> {
        self.db.inner.desk.ask();
        while self.db.inner.desk.now().running {
            if let Some(failed) = self.db.failure() {
                return Err(failed.into());
            }
            self.step_both(pass);
        }
        self.db.inner.desk.now().reports.last().map_or(Ok(()), |report| report.result.clone())
    }

    fn step_both(&mut self, pass: &mut dyn FnMut(&Db)) {
        self.step_writer();
        self.step_maintenance();
        pass(&self.db);
    }

    /// Sets the pieces in which snapshots are written.
    pub fn set_pieces(&mut self, pieces: Pieces) {
        self.maintenance.set_pieces(pieces);
    }

    /// One step of the driver that writes the log.
    pub fn step_writer(&mut self) -> Next {
        self.writer.step(self.db.inner.core.time.monotonic())
    }

    /// One step of the driver that does the maintenance. Blocks in simulated time while it uses the disk.
    pub fn step_maintenance(&mut self) -> MaintenanceNext {
        self.maintenance.step(self.db.inner.core.time.monotonic())
    }

    /// Closes the store as `Db::close` does; `pass` is called between steps. Errors: the failure that latched the log.
    pub fn close(mut self, pass: &mut dyn FnMut(&Db)) -> Result<(), Error> {
        self.db.inner.core.log.close();
        while self.step_writer() != Next::Closed {
            self.step_maintenance();
            pass(&self.db);
        }
        let failure = self.db.failure();
        let clean = failure.is_none().then(|| clean_mark(&self.writer));
        let finished = self.maintenance.finish(clean);
        failure.map_or(finished, |failed| Err(failed.into()))
    }
}
