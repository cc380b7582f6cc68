//! Goal: a start that ends early leaves a store that opens, whatever of the log was in the page cache only. Method: a segment whose
//! first write is on its way when the process is killed; the next start dies at each of its operations, and power goes. Found by
//! the simulation: the manifest of such a start asked for a segment that never reached the disk.

#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use logd_engine::clock::SimClock;
use logd_engine::db::Stepped;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::error::Error;
use logd_engine::prng::Prng;
use logd_engine::units::{Lsn, Millis, Nanos};
use logd_engine::{Db, Options};
use std::sync::Arc;

fn open(storage: &SimStorage, clock: &SimClock) -> Result<Stepped, Error> {
    let options = Options { segment_bytes: 64 << 10, shards: 1, ..Options::default() };
    let builder = Db::builder("simulated").options(options);
    builder.storage(Arc::new(storage.clone()), Arc::new(clock.clone())).open_stepped(1)
}

/// A killed process whose first segment was written and not synced, if the seed has it so.
fn killed(seed: u64, clock: &SimClock) -> SimStorage {
    let storage = SimStorage::new(SimOptions { seed, latency_steps_max: 8, ..SimOptions::default() });
    let mut store = open(&storage, clock).unwrap();
    while store.db().try_keyspace("things", Default::default()).is_err() {
        store.step_maintenance();
        clock.advance(Nanos(1_000));
    }
    store.step_writer();
    storage.kill()
}

#[test]
fn a_segment_that_only_the_page_cache_held_is_not_missed_after_a_power_cut() {
    let clock = SimClock::new(Millis(1_000_000));
    let mut read = 0;
    for seed in 0..12 {
        for operations in 0..40 {
            let storage = killed(seed, &clock);
            storage.die_after(operations);
            let opened = open(&storage, &clock);
            read += u64::from(opened.is_ok_and(|store| store.recovered_lsn() == Lsn(1)));
            let storage = storage.crash(&mut Prng::new(100 * seed + operations));
            if let Err(error) = open(&storage, &clock) {
                panic!("seed {seed}, {operations} operations: {error}");
            }
        }
    }
    assert!(read > 0, "some start finds the segment");
}
