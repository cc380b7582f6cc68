//! Random runs on the simulated disk: power cuts, kills and failures, with operations that overlap and end in any order.
//! Guarantees: a seed gives the same run.
//! Must not know: any case by name.
//! Next: random.rs does the same on the test disk, with clean stops.

use super::*;
use crate::disk::{DiskErrorKind, SimFault, SimOperation, SimOptions, SimStorage, Storage};
use crate::prng::Prng;
use DurabilityLevel::{Accepted, Synced, Written};
use std::collections::BTreeSet;

struct Life {
    disk: Box<dyn Disk>,
    log: Arc<Log>,
    writer: LogWriter,
    preparer: Preparer,
    now: Nanos,
}

#[derive(Default)]
struct Model {
    appended: BTreeSet<u64>,
    /// What must survive a power cut, and what must survive a kill.
    synced: u64,
    written: u64,
    retired: u64,
}

fn open(storage: &SimStorage, model: &Model, prng: &mut Prng, at: &str) -> (Life, LogEnd, BTreeSet<u64>) {
    let mut disk = storage.disk().unwrap();
    let known = proof(if prng.one_in(2) { model.synced } else { 0 });
    let mut seen = BTreeSet::new();
    let from = model.retired + 1;
    let end = scan(&mut *disk, STORE, Lsn(from), known, &mut |batch| {
        seen.extend(batch.frames().map(|(lsn, _)| lsn.0).filter(|lsn| *lsn >= from));
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{at}: {error}"));
    let position = end.position(STORE, false);
    let log = Log::new(&position, options());
    let writer = LogWriter::new(storage.disk().unwrap(), log.clone(), &position).unwrap();
    let preparer = Preparer::new(log.clone());
    (Life { disk, log, writer, preparer, now: Nanos(0) }, end, seen)
}

fn act(life: &mut Life, storage: &SimStorage, prng: &mut Prng, model: &mut Model) {
    for _ in 0..prng.below(200) {
        match prng.below(10) {
            0..=3 => append(life, prng, model),
            4 => drop(life.preparer.step(&mut *life.disk, life.now)),
            5 => life.now = life.now.after(Nanos(prng.below(400))),
            6 if prng.one_in(40) => fail(storage, prng),
            6 if prng.one_in(8) => {
                model.retired += prng.below(model.synced.saturating_sub(model.retired) + 1);
                life.log.retire(Lsn(model.retired));
            }
            7 => storage.step(),
            _ => drop(life.writer.step(life.now)),
        }
        let marks = life.log.watermarks();
        (model.synced, model.written) = (model.synced.max(marks.synced.0), model.written.max(marks.written.0));
    }
}

fn append(life: &mut Life, prng: &mut Prng, model: &mut Model) {
    let level = [Accepted, Written, Synced][prng.below(3) as usize];
    let stamp = Stamp { now: life.now, time: Millis(1), wall: Millis(1) };
    if let Ok(appended) = life.log.append(&frame(1, prng.below(7000) as usize), level, Purpose::Grow, stamp) {
        assert!(model.appended.insert(appended.lsn.0), "LSN {} was used twice", appended.lsn);
    }
}

fn fail(storage: &SimStorage, prng: &mut Prng) {
    let operation = [SimOperation::Write, SimOperation::Sync, SimOperation::Allocate][prng.below(3) as usize];
    let kind = if prng.one_in(2) { DiskErrorKind::Full } else { DiskErrorKind::Io("drawn".to_string()) };
    storage.fail(SimFault { operation, skip: prng.below(4), lasting: prng.one_in(2), kind });
}

fn run(seed: u64) {
    let mut prng = Prng::new(seed);
    let mut model = Model::default();
    let mut storage = SimStorage::new(SimOptions { seed, latency_steps_max: prng.below(5), ..SimOptions::default() });
    for turn in 0..5 {
        let at = format!("seed {seed}, life {turn}");
        let (mut life, end, seen) = open(&storage, &model, &mut prng, &at);
        let above = model.appended.range(model.retired + 1..);
        let prefix: BTreeSet<u64> = above.copied().filter(|lsn| *lsn <= end.last_lsn.0).collect();
        assert_eq!(seen, prefix, "{at}: not a prefix");
        assert!(end.last_lsn.0 >= model.synced, "{at}: ends at {}, synced {}", end.last_lsn, model.synced);
        assert!(end.last_lsn.0 >= model.written, "{at}: ends at {}, written {}", end.last_lsn, model.written);
        model.appended = seen;
        // What recovery has read counts as synced from here on.
        (model.synced, model.written) = (end.last_lsn.0, end.last_lsn.0);
        act(&mut life, &storage, &mut prng, &mut model);
        storage.clear_faults();
        if prng.one_in(3) {
            storage = storage.kill();
        } else {
            storage = storage.crash(&mut prng);
            model.written = model.synced;
        }
    }
}

#[test]
fn after_any_crash_the_log_is_a_prefix_with_all_that_was_released() {
    (0..300).for_each(run);
}
