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
use logd_engine::format::command::{Command, decode};
use logd_engine::units::{Lsn, Millis};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At the end of the log.
    End,
    /// Behind this LSN.
    Lsn(Lsn),
    /// Before the first batch that was written later, by the wall clock of the box.
    Moment(Moment),
}

/// A rebuilt state.
pub struct State {
    /// The state; `view` gives its records.
    pub rebuild: Rebuild,
    /// LSN of the snapshot it began with.
    pub snapshot_lsn: Option<u64>,
    /// How long loading it took.
    pub load_seconds: f64,
    /// What was replayed from the log.
    pub work: Work,
    /// Bytes of a torn tail that were left out.
    pub torn_bytes: u64,
    /// Calls of procedures that were run again.
    pub calls: Calls,
}

/// Rebuilds. `procedures`: those whose calls may be in the log.
pub fn rebuild(store: &mut dyn Store, limit: Limit, procedures: Procedures) -> Result<State, ToolError> {
    rebuild_from(store, limit, procedures, u64::MAX)
}

/// Rebuilds, from a snapshot below an LSN only.
pub fn rebuild_from(
    store: &mut dyn Store,
    limit: Limit,
    procedures: Procedures,
    snapshot_below: u64,
) -> Result<State, ToolError> {
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let limit = limit_of(store, &manifest, limit)?;
    let began = Instant::now();
    let snapshot_lsn = older(&manifest, limit, snapshot_below);
    let rebuild = match snapshot_lsn {
        Some(lsn) => load(store, lsn, procedures)?,
        None => empty(procedures),
    };
    let load_seconds = began.elapsed().as_secs_f64();
    let mut replay = Replay { rebuild, limit, progress: Progress::new("replay"), calls: Calls::default(), error: None };
    // What stands behind the limit is not looked at: it may be the damage that one wants to stop before.
    let walked = match replay.has_reached() {
        true => WalkEnd::Stopped,
        false => store.log(replay.rebuild.last_lsn().next(), &mut replay)?,
    };
    let Replay { rebuild, progress, calls, error, .. } = replay;
    let work = progress.finish();
    if let Some(error) = error {
        return Err(error);
    }
    let torn_bytes = match &walked {
        WalkEnd::End(end) => end.torn_bytes,
        WalkEnd::Stopped | WalkEnd::Damaged => 0,
    };
    if walked != WalkEnd::Stopped {
        check_reached(limit, rebuild.last_lsn())?;
    }
    let snapshot_lsn = snapshot_lsn.map(|lsn| lsn.0);
    Ok(State { rebuild, snapshot_lsn, load_seconds, work, torn_bytes, calls })
}

fn empty(procedures: Procedures) -> Rebuild {
    Rebuild::new(&Options::default(), procedures, EngineTime::start(Arc::new(OsClock), Millis(0)))
}

/// The state in a snapshot.
pub fn load(store: &mut dyn Store, lsn: Lsn, procedures: Procedures) -> Result<Rebuild, ToolError> {
    let mut rebuild = empty(procedures);
    rebuild.begin(store.snapshot_catalog(lsn)?, lsn);
    let mut progress = Progress::of("load", "records", 0);
    let mut undefined = 0_u64;
    store.snapshot_records(lsn, &mut |keyspace, key, entry| {
        undefined += u64::from(!rebuild.record(keyspace, key, entry));
        progress.add(1, (key.len() + entry.value.len()) as u64);
    })?;
    progress.finish();
    match undefined {
        0 => Ok(rebuild),
        count => Err(Refused::Aborted(format!("{count} records of the snapshot are in no keyspace")).into()),
    }
}

/// A moment as the last LSN before it. Batches carry the wall clock, snapshots engine time only: so the log decides, and an
/// engine time counts only for the oldest snapshot, moved by as much as the clocks differed in the batch behind it.
pub fn limit_of(store: &mut dyn Store, manifest: &ManifestFacts, limit: Limit) -> Result<Limit, ToolError> {
    let Limit::Moment(moment) = limit else { return Ok(limit) };
    let oldest = manifest.snapshots.first();
    let mut search = Search { moment, last: None, lead_millis: None, damage: None };
    store.log(Lsn(oldest.map_or(1, |snapshot| snapshot.lsn + 1)), &mut search)?;
    if let Some(damage) = search.damage {
        return Err(ToolError::Engine(damage.into()));
    }
    match (search.last, oldest) {
        (Some(lsn), _) => Ok(Limit::Lsn(lsn)),
        (None, None) => Ok(Limit::Lsn(Lsn::NONE)),
        (None, Some(oldest)) => {
            let taken = i128::from(oldest.time_millis) + i128::from(search.lead_millis.unwrap_or(0));
            if taken <= i128::from(moment.0) {
                return Ok(Limit::Lsn(Lsn(oldest.lsn)));
            }
            let taken = Moment(u64::try_from(taken).unwrap_or(0));
            Err(ToolError::Usage(format!("what is kept reaches back to {taken} (LSN {}) only", oldest.lsn)))
        }
    }
}

/// Finds the last LSN before a moment.
struct Search {
    moment: Moment,
    last: Option<Lsn>,
    /// Wall clock minus engine time, in the first batch.
    lead_millis: Option<i64>,
    damage: Option<Corrupt>,
}

impl LogVisitor for Search {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.lead_millis.get_or_insert(batch.wall_millis as i64 - batch.time_millis as i64);
        if batch.wall_millis > self.moment.0 {
            return ControlFlow::Break(());
        }
        self.last = Some(batch.last_lsn());
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damage = Some(damage.clone());
    }
}

/// The newest snapshot that the limit allows.
pub fn start_lsn(manifest: &ManifestFacts, limit: Limit) -> Option<Lsn> {
    older(manifest, limit, u64::MAX)
}

fn older(manifest: &ManifestFacts, limit: Limit, below: u64) -> Option<Lsn> {
    let is_allowed = |lsn: u64| match limit {
        Limit::Lsn(limit) => lsn <= limit.0,
        Limit::End | Limit::Moment(_) => true,
    };
    let lsns = manifest.snapshots.iter().map(|snapshot| snapshot.lsn);
    lsns.filter(|lsn| *lsn < below && is_allowed(*lsn)).max().map(Lsn)
}

fn check_reached(limit: Limit, last: Lsn) -> Result<(), ToolError> {
    match limit {
        Limit::Lsn(lsn) if last < lsn => {
            Err(ToolError::Usage(format!("the store ends at LSN {last}; there is no LSN {lsn} to replay to")))
        }
        _ => Ok(()),
    }
}

/// How long calls of procedures took, by the procedure's number.
pub type Calls = BTreeMap<u32, CallTimes>;

/// Of one procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Calls.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

struct Replay {
    rebuild: Rebuild,
    limit: Limit,
    progress: Progress,
    calls: Calls,
    error: Option<ToolError>,
}

impl Replay {
    fn apply(&mut self, batch: &BatchFacts<'_>) -> Result<ControlFlow<()>, ToolError> {
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
            self.apply_timed(lsn, frame).map_err(|error| replay_error(error, batch, lsn))?;
            self.progress.add(1, frame.len() as u64);
        }
        Ok(if self.has_reached() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn has_reached(&self) -> bool {
        matches!(self.limit, Limit::Lsn(limit) if self.rebuild.last_lsn() >= limit)
    }

    /// Only calls are timed: a clock read costs as much as a small put.
    fn apply_timed(&mut self, lsn: Lsn, frame: &[u8]) -> Result<(), ReplayError> {
        let Ok(Command::Call(call)) = decode(frame) else { return self.rebuild.apply(lsn, frame) };
        let began = Instant::now();
        let applied = self.rebuild.apply(lsn, frame);
        let took = began.elapsed();
        let times = self.calls.entry(call.procedure).or_default();
        times.count += 1;
        times.total += took;
        times.longest = times.longest.max(took);
        applied
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
    fn a_moment_is_of_the_wall_clock_though_snapshots_carry_engine_time() {
        let mut store = FakeStore::sound();
        store.lead_millis = 2000;
        let reference = |lsn: u64| SnapshotReferenceFacts {
            lsn,
            file_bytes: 0,
            digest: String::new(),
            time_millis: lsn * 1000 - 2000,
            record_count: 0,
        };
        store.manifest = Some(ManifestFacts { snapshots: vec![reference(2), reference(3)], ..Default::default() });
        let things = KeyspaceDefinition { name: "things".to_owned(), options: KeyspaceOptions::default() };
        store.catalog.keyspaces.push(things);
        let state = rebuild(&mut store, Limit::Moment(Moment(2500)), Procedures::new()).unwrap();
        assert_eq!((state.snapshot_lsn, state.rebuild.last_lsn()), (Some(2), Lsn(2)), "LSN 3 was written at 3000");
        let state = rebuild(&mut store, Limit::Moment(Moment(3500)), Procedures::new()).unwrap();
        assert_eq!(state.rebuild.last_lsn(), Lsn(3));
        assert!(keys_at(&mut store, Limit::Moment(Moment(1500))).contains("reaches back to"));
    }

    #[test]
    fn damage_behind_the_limit_does_not_matter_and_before_it_does() {
        let mut store = FakeStore::sound();
        store.damage = Some(corrupt("log/1"));
        assert_eq!(keys_at(&mut store, Limit::Lsn(Lsn(2))), "a");
        assert_eq!(keys_at(&mut store, Limit::Lsn(Lsn(4))), "abc", "the last command before the damage");
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
