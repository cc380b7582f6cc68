//! Random runs with power cuts: what is read is a prefix of what was appended, and holds all that was released as synced.
//! Guarantees: a seed gives the same run.
//! Must not know: any case by name.
//! Next: the simulation does this for the whole store.

use super::*;
use crate::prng::Prng;
use DurabilityLevel::{Accepted, Synced, Written};
use std::collections::BTreeSet;

/// LSNs that may be read after the crashes so far, and the highest one that must.
#[derive(Default)]
struct Model {
    appended: BTreeSet<u64>,
    released: u64,
    /// Retired up to here, as if a snapshot held it.
    retired: u64,
}

/// As `read`, without what stands before `from` in the batch that holds it.
fn read_from(storage: &TestStorage, from: u64, proof: Proof) -> Result<(LogEnd, Vec<u64>), Error> {
    let (end, mut seen) = read(storage, Lsn(from), proof)?;
    seen.retain(|lsn| *lsn >= from);
    Ok((end, seen))
}

fn act(rig: &mut Rig, prng: &mut Prng, model: &mut Model) {
    for _ in 0..prng.below(120) {
        match prng.below(10) {
            0..=5 => {
                let level = [Accepted, Written, Synced][prng.below(3) as usize];
                let value_bytes = prng.below(7000) as usize;
                if let Ok(appended) = rig.try_append(level, value_bytes) {
                    assert!(model.appended.insert(appended.lsn.0), "LSN {} was used twice", appended.lsn);
                }
            }
            6 => drop(rig.preparer.step(&mut *rig.disk, rig.now)),
            7 if prng.one_in(30) => {
                let name = ["write", "write durable", "sync"][prng.below(3) as usize];
                let kind = crate::disk::DiskErrorKind::Io("drawn".to_string());
                rig.storage.0.lock().failures.push((name.to_string(), kind));
            }
            7 => rig.now = rig.now.after(Nanos(prng.below(400))),
            8 if prng.one_in(8) => {
                model.retired += prng.below(model.released - model.retired + 1);
                rig.log.retire(Lsn(model.retired));
            }
            8 => rig.storage.0.lock().newest_first = prng.one_in(2),
            _ => drop(rig.writer.step(rig.now)),
        }
        model.released = model.released.max(rig.log.watermarks().synced.0);
    }
}

/// Stops cleanly, if no failure was drawn; answers the last LSN then.
fn stop(rig: &mut Rig) -> Option<Lsn> {
    rig.log.close();
    assert_eq!(rig.settle(), Next::Closed);
    let marks = rig.log.watermarks();
    let clean = rig.log.failure().is_none();
    assert!(!clean || marks.synced == marks.assigned, "a clean stop syncs everything");
    clean.then_some(marks.synced)
}

fn run(seed: u64) {
    let mut prng = Prng::new(seed);
    let mut model = Model::default();
    let mut storage = TestStorage::new();
    let (mut stopped, mut cut, mut next_lsn) = (None, None, Lsn(0));
    for life in 0..4 {
        let at = format!("seed {seed}, life {life}");
        let known = match stopped {
            Some(synced) => Proof { synced, ..Proof::default() },
            None => proof(if prng.one_in(2) { model.released } else { 0 }),
        };
        let (end, seen) = read_from(&storage, model.retired + 1, known).unwrap_or_else(|error| panic!("{at}: {error}"));
        let seen_set: BTreeSet<u64> = seen.iter().copied().collect();
        let above = model.appended.range(model.retired + 1..);
        let prefix: BTreeSet<u64> = above.copied().filter(|lsn| *lsn <= end.last_lsn.0).collect();
        assert_eq!(seen_set, prefix, "{at}: not a prefix");
        assert!(end.last_lsn.0 >= model.released, "{at}: {} of {} released", end.last_lsn, model.released);
        assert!(end.next_lsn > end.last_lsn, "{at}");
        if stopped.is_some() {
            assert!(end.cut.is_none() || end.cut == cut, "{at}: a new cut after a clean stop");
            assert!(end.next_lsn >= next_lsn, "{at}: an LSN would be used twice");
        }
        (cut, next_lsn) = (end.cut, end.next_lsn);
        // What a crash took is gone for good; LSNs that no header names may be given out again.
        model.appended = seen_set;
        let mut rig = Rig::start(storage.copy(), &end.position(STORE, stopped.is_some()), options());
        act(&mut rig, &mut prng, &mut model);
        stopped = prng.one_in(3).then(|| stop(&mut rig)).flatten();
        model.released = rig.log.watermarks().synced.0;
        storage = rig.storage.copy();
        storage.0.lock().failures.clear();
        storage.crash_torn(&mut prng);
    }
}

#[test]
fn after_any_power_cut_the_log_is_a_prefix_with_all_that_was_released() {
    (0..400).for_each(run);
    #[cfg(feature = "sim")]
    for mark in ["log.torn_tail", "log.torn_segment_header", "log.segment_recycled", "log.switch_waits_for_sync"] {
        assert!(crate::mark::counts().iter().any(|(name, _)| *name == mark), "no seed came to {mark}");
    }
}
