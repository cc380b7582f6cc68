//! Goal: a salvage that has to do without a manifest leaves a sound store and gives no LSN again. Method: a store driven step by step
//! on the simulated disk, cut off, its manifest taken away or a write of it failing. Found by the simulation.

#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use logd_engine::clock::SimClock;
use logd_engine::db::Stepped;
use logd_engine::disk::{DiskErrorKind, SimFault, SimOperation, SimOptions, SimStorage};
use logd_engine::prng::Prng;
use logd_engine::recovery::LogFiles;
use logd_engine::units::{Lsn, Millis, Nanos};
use logd_engine::verify::{Verdict, verify};
use logd_engine::{Db, DurabilityLevel, Keyspace, OnCorruption, Options};
use std::sync::Arc;

fn open(storage: &SimStorage, clock: &SimClock) -> Stepped {
    let on_corruption = OnCorruption::Salvage;
    let options =
        Options { segment_bytes: 64 << 10, shards: 1, snapshots_kept: 1, on_corruption, ..Options::default() };
    let builder = Db::builder("simulated").options(options);
    builder.storage(Arc::new(storage.clone()), Arc::new(clock.clone())).open_stepped(1).unwrap()
}

fn step(store: &mut Stepped, clock: &SimClock) {
    for _ in 0..40 {
        store.step_maintenance();
        store.step_writer();
        clock.advance(Nanos(1_000_000));
    }
}

/// A store with one keyspace, all of it durable, and with a snapshot.
fn started(storage: &SimStorage, clock: &SimClock) -> (Stepped, Keyspace) {
    let mut store = open(storage, clock);
    while store.db().try_keyspace("things", Default::default()).is_err() {
        step(&mut store, clock);
    }
    step(&mut store, clock);
    let things = store.db().find_keyspace("things").unwrap();
    store.db().try_put(things, b"k", b"1", None, None).unwrap();
    store.db().start_checkpoint().unwrap();
    step(&mut store, clock);
    (store, things)
}

fn accepted(store: &mut Stepped, clock: &SimClock, things: Keyspace) -> Lsn {
    loop {
        match store.db().try_put(things, b"k", b"2", None, Some(DurabilityLevel::Accepted)) {
            Ok(ticket) => return ticket.lsn,
            Err(_) => {
                store.step_maintenance();
                clock.advance(Nanos(1_000));
            }
        }
    }
}

#[test]
fn a_snapshot_that_outran_the_log_leaves_no_older_one_that_needs_the_log() {
    let (storage, clock) = (SimStorage::new(SimOptions::default()), SimClock::new(Millis(1_000_000)));
    let (mut store, things) = started(&storage, &clock);
    accepted(&mut store, &clock, things);
    store.db().start_checkpoint().unwrap();
    // Its file is whole, and waits for the log.
    for _ in 0..20 {
        store.step_maintenance();
    }
    let storage = storage.crash(&mut Prng::new(1));
    assert_eq!(storage.names().iter().filter(|name| name.ends_with(".snap")).count(), 2);
    storage.remove("manifest");
    let store = open(&storage, &clock);
    assert!(store.db().loss().is_unacknowledged());
    drop(store);
    let verdict = verify(&storage.kill(), &LogFiles, &mut |_| {}).unwrap();
    assert!(matches!(verdict, Verdict::Sound), "{verdict:?}");
}

#[test]
fn lsns_that_reached_no_disk_are_not_given_again_when_the_manifest_that_counted_them_is_gone() {
    let (mut storage, clock) = (SimStorage::new(SimOptions::default()), SimClock::new(Millis(1_000_000)));
    drop(started(&storage, &clock));
    let mut told = Lsn::NONE;
    for life in 0..5 {
        storage = storage.crash(&mut Prng::new(life));
        if life == 4 {
            storage.remove("manifest");
        }
        let mut store = open(&storage, &clock);
        let things = store.db().find_keyspace("things").unwrap();
        let lsn = accepted(&mut store, &clock, things);
        assert!(lsn > told, "LSN {lsn} in life {life}, after {told}");
        told = lsn;
    }
}

#[test]
fn a_snapshot_of_commands_that_a_power_cut_took_is_gone_after_the_next_start() {
    let (storage, clock) = (SimStorage::new(SimOptions::default()), SimClock::new(Millis(1_000_000)));
    let (mut store, things) = started(&storage, &clock);
    let lost = accepted(&mut store, &clock, things);
    store.db().start_checkpoint().unwrap();
    for _ in 0..20 {
        store.step_maintenance();
    }
    let storage = storage.crash(&mut Prng::new(1));
    let mut store = open(&storage, &clock);
    assert!(store.recovered_lsn() < lost);
    let kept = store.db().try_put(things, b"other", b"3", None, None);
    kept.unwrap_or_else(|_| {
        step(&mut store, &clock);
        store.db().try_put(things, b"other", b"3", None, None).unwrap()
    });
    step(&mut store, &clock);
    let storage = storage.crash(&mut Prng::new(1));
    storage.remove("manifest");
    let store = open(&storage, &clock);
    let value = |key: &[u8]| store.db().get_with(things, key, |record| record.map(|record| record.value.to_vec()));
    assert_eq!(value(b"k"), Some(b"1".to_vec()), "the value 2 was lost, and came back");
    assert_eq!(value(b"other"), Some(b"3".to_vec()));
}

#[test]
fn after_a_failed_write_of_the_manifest_no_checkpoint_removes_what_it_may_still_name() {
    for (seed, skip) in (0..6).flat_map(|seed| (0..12).map(move |skip| (seed, skip))) {
        let storage = SimStorage::new(SimOptions { seed, ..SimOptions::default() });
        let clock = SimClock::new(Millis(1_000_000));
        let (mut store, things) = started(&storage, &clock);
        store.db().try_put(things, b"k", b"2", None, None).unwrap();
        step(&mut store, &clock);
        let kind = DiskErrorKind::Io("arranged".to_owned());
        storage.fail(SimFault { operation: SimOperation::Write, skip, lasting: false, kind });
        for _ in 0..2 {
            store.db().start_checkpoint().unwrap();
            step(&mut store, &clock);
        }
        let storage = storage.crash(&mut Prng::new(skip));
        let options = Options { segment_bytes: 64 << 10, shards: 1, ..Options::default() };
        let builder = Db::builder("simulated").options(options);
        let opened = builder.storage(Arc::new(storage.clone()), Arc::new(clock.clone())).open_stepped(1);
        if let Err(error) = opened {
            panic!("seed {seed}, write {skip}: {error}");
        }
    }
}
