//! Rebuilds a store's state in memory, up to an LSN, a moment or the end.
//! Guarantees: the newest snapshot that is not beyond the limit is the start; a log that does not reach back to it, or is
//! damaged before the limit, is an error and never a shorter state.
//! Must not know: how state is printed, or files.
//! Next: command/replay.rs, command/digest.rs.

use crate::command::ToolError;
use crate::moment::Moment;
use crate::progress::{Progress, Work};
use crate::store::{BatchFacts, LogVisitor, ManifestFacts, Store, WalkEnd};
use logd_engine::Options;
use logd_engine::clock::OsClock;
use logd_engine::core::{EngineTime, Procedures, Rebuild, ReplayError};
use logd_engine::error::{Corrupt, Refused};
use logd_engine::units::{Lsn, Millis};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Where to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At the end of the log.
    End,
    /// Behind this LSN.
    Lsn(Lsn),
    /// Before the first batch that was written later.
    Moment(Moment),
}

/// A rebuilt state.
pub struct State {
    /// The state; `view` gives its records.
    pub rebuild: Rebuild,
    /// LSN of the snapshot it began with.
    pub snapshot_lsn: Option<u64>,
    /// What was replayed from the log.
    pub work: Work,
    /// Bytes of a torn tail that were left out.
    pub torn_bytes: u64,
}

/// Rebuilds. `procedures`: those whose calls may be in the log.
pub fn rebuild(store: &mut dyn Store, limit: Limit, procedures: Procedures) -> Result<State, ToolError> {
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let time = EngineTime::start(Arc::new(OsClock), Millis(0));
    let mut rebuild = Rebuild::new(&Options::default(), procedures, time);
    let snapshot_lsn = start_lsn(&manifest, limit);
    if let Some(lsn) = snapshot_lsn {
        rebuild.begin(store.snapshot_catalog(lsn)?, lsn);
        let mut undefined = 0_u64;
        store.snapshot_records(lsn, &mut |keyspace, key, entry| {
            undefined += u64::from(!rebuild.record(keyspace, key, entry));
        })?;
        if undefined > 0 {
            return Err(Refused::Aborted(format!("{undefined} records of the snapshot are in no keyspace")).into());
        }
    }
    let mut replay = Replay { rebuild, limit, progress: Progress::new("replay"), error: None };
    let walked = store.log(replay.rebuild.last_lsn().next(), &mut replay)?;
    let Replay { rebuild, progress, error, .. } = replay;
    let work = progress.finish();
    if let Some(error) = error {
        return Err(error);
    }
    let torn_bytes = match walked {
        WalkEnd::End(end) => end.torn_bytes,
        WalkEnd::Stopped | WalkEnd::Damaged => 0,
    };
    check_reached(limit, rebuild.last_lsn())?;
    Ok(State { rebuild, snapshot_lsn: snapshot_lsn.map(|lsn| lsn.0), work, torn_bytes })
}

/// The newest snapshot that the limit allows. Snapshots carry engine time, batches wall time as well: where the wall clock was
/// set forward while the store ran, a snapshot may be that much later than its time says.
fn start_lsn(manifest: &ManifestFacts, limit: Limit) -> Option<Lsn> {
    let allowed = manifest.snapshots.iter().filter(|snapshot| match limit {
        Limit::End => true,
        Limit::Lsn(lsn) => snapshot.lsn <= lsn.0,
        Limit::Moment(moment) => snapshot.time_millis <= moment.0,
    });
    allowed.map(|snapshot| Lsn(snapshot.lsn)).max()
}

fn check_reached(limit: Limit, last: Lsn) -> Result<(), ToolError> {
    match limit {
        Limit::Lsn(lsn) if last < lsn => {
            Err(ToolError::Usage(format!("the store ends at LSN {last}; there is no LSN {lsn} to replay to")))
        }
        _ => Ok(()),
    }
}

struct Replay {
    rebuild: Rebuild,
    limit: Limit,
    progress: Progress,
    error: Option<ToolError>,
}

impl Replay {
    fn apply(&mut self, batch: &BatchFacts<'_>) -> Result<ControlFlow<()>, ToolError> {
        if let Limit::Moment(moment) = self.limit
            && batch.wall_millis > moment.0
        {
            return Ok(ControlFlow::Break(()));
        }
        for (lsn, frame) in (batch.first_lsn.0..).map(Lsn).zip(&batch.frames) {
            let last = self.rebuild.last_lsn();
            if let Limit::Lsn(limit) = self.limit
                && lsn > limit
            {
                return Ok(ControlFlow::Break(()));
            }
            if lsn <= last {
                continue;
            }
            if last == Lsn::NONE && lsn > Lsn(1) {
                return Err(ToolError::Usage(format!(
                    "the log begins at LSN {lsn} and no snapshot before the limit is kept: the state cannot be rebuilt"
                )));
            }
            self.rebuild.apply(lsn, frame).map_err(|error| replay_error(error, batch, lsn))?;
            self.progress.add(1, frame.len() as u64);
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn replay_error(error: ReplayError, batch: &BatchFacts<'_>, lsn: Lsn) -> ToolError {
    match error {
        ReplayError::Call(error) => error.into(),
        error => {
            let place = format!("segment {} at byte {}", batch.segment, batch.offset);
            ToolError::Replay { lsn: lsn.0, place, reason: error.to_string() }
        }
    }
}

impl LogVisitor for Replay {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        match self.apply(batch) {
            Ok(flow) => flow,
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.error = Some(ToolError::Engine(damage.clone().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SnapshotReferenceFacts;
    use crate::store::fake::{FakeStore, corrupt};
    use logd_engine::Error;
    use logd_engine::core::{KeyspaceDefinition, KeyspaceOptions};

    fn keys(state: &State) -> String {
        let mut keys = Vec::new();
        state.rebuild.view().visit_all(&mut |_, key, _| keys.push(String::from_utf8_lossy(key).into_owned()));
        keys.sort();
        keys.concat()
    }

    fn keys_at(store: &mut FakeStore, limit: Limit) -> String {
        rebuild(store, limit, Procedures::new()).map(|state| keys(&state)).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn replay_stops_behind_the_lsn_and_before_later_batches() {
        let mut store = FakeStore::sound();
        assert_eq!(keys_at(&mut store, Limit::End), "abc");
        assert_eq!(keys_at(&mut store, Limit::Lsn(Lsn(3))), "ab");
        assert_eq!(keys_at(&mut store, Limit::Moment(Moment(3999))), "ab");
        assert_eq!(keys_at(&mut store, Limit::Moment(Moment(0))), "");
        assert!(keys_at(&mut store, Limit::Lsn(Lsn(9))).contains("ends at LSN 4"));
    }

    #[test]
    fn the_newest_snapshot_within_the_limit_is_the_start() {
        let mut store = FakeStore::sound();
        let reference = |lsn: u64| SnapshotReferenceFacts {
            lsn,
            file_bytes: 0,
            digest: String::new(),
            time_millis: lsn * 1000,
            record_count: 0,
        };
        store.manifest = Some(ManifestFacts { snapshots: vec![reference(2), reference(3)], ..Default::default() });
        let things = KeyspaceDefinition { name: "things".to_owned(), options: KeyspaceOptions::default() };
        store.catalog.keyspaces.push(things);
        store.records = vec![(0, "x", "1")];
        let state = rebuild(&mut store, Limit::Lsn(Lsn(3)), Procedures::new()).unwrap();
        assert_eq!((state.snapshot_lsn, state.work.commands, keys(&state)), (Some(3), 0, "x".to_owned()));
        let state = rebuild(&mut store, Limit::Moment(Moment(2500)), Procedures::new()).unwrap();
        assert_eq!((state.snapshot_lsn, keys(&state)), (Some(2), "x".to_owned()));
    }

    #[test]
    fn damage_behind_the_limit_does_not_matter_and_before_it_does() {
        let mut store = FakeStore::sound();
        store.damage = Some(corrupt("log/1"));
        assert_eq!(keys_at(&mut store, Limit::Lsn(Lsn(2))), "a");
        let result = rebuild(&mut store, Limit::End, Procedures::new());
        assert!(matches!(result, Err(ToolError::Engine(Error::Corrupt(_)))));
    }

    #[test]
    fn a_log_that_does_not_reach_back_is_an_error() {
        let mut store = FakeStore::sound();
        store.first_lsn = 7;
        assert!(keys_at(&mut store, Limit::End).contains("begins at LSN 7"));
    }
}
