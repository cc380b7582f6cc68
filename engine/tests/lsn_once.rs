//! Goal: no LSN that was ever told is given out again. Method: a store driven step by step on the simulated disk, ended by force
//! in ways that leave nothing of a life behind. Found by the simulation.

#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use logd_engine::clock::SimClock;
use logd_engine::db::Stepped;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::error::{Error, Refused};
use logd_engine::prng::Prng;
use logd_engine::units::{Lsn, Millis, Nanos};
use logd_engine::{Db, DurabilityLevel, Options};
use std::sync::Arc;

struct World {
    storage: SimStorage,
    clock: SimClock,
}

impl World {
    fn new() -> World {
        World { storage: SimStorage::new(SimOptions::default()), clock: SimClock::new(Millis(1_000_000)) }
    }

    fn open(&self) -> Stepped {
        let options = Options { segment_bytes: 1 << 20, shards: 1, ..Options::default() };
        let builder = Db::builder("simulated").options(options);
        builder.storage(Arc::new(self.storage.clone()), Arc::new(self.clock.clone())).open_stepped(1).unwrap()
    }

    /// Lets the maintenance driver prepare segments, and the writer write.
    fn step(&self, store: &mut Stepped) {
        for _ in 0..20 {
            store.step_maintenance();
            store.step_writer();
            self.clock.advance(Nanos(1_000));
        }
    }

    /// Asks until the log has a segment for it.
    fn until_taken<R>(&self, store: &mut Stepped, ask: impl Fn(&Db) -> Result<R, Error>) -> R {
        loop {
            match ask(store.db()) {
                Err(Error::Refused(Refused::Busy)) => self.step(store),
                taken => return taken.unwrap(),
            }
        }
    }

    /// Has a keyspace made, durably.
    fn start(&self) {
        let mut store = self.open();
        self.until_taken(&mut store, |db| db.try_keyspace("things", Default::default()));
        self.step(&mut store);
        assert_eq!(store.db().watermarks().synced, Lsn(1));
    }

    /// A write that its client is told of, and that nobody has written yet.
    fn unwritten(&self, store: &mut Stepped) -> Lsn {
        let things = store.db().find_keyspace("things").unwrap();
        let level = Some(DurabilityLevel::Accepted);
        let ticket = self.until_taken(store, |db| db.try_put(things, b"k", b"v", None, level));
        assert!(store.db().is_durable(ticket), "it is acknowledged");
        ticket.lsn
    }

    fn cut_power(&mut self) {
        self.storage = self.storage.crash(&mut Prng::new(1));
    }
}

#[test]
fn two_unclean_stops_in_a_row_with_nothing_durable_between_them() {
    let mut world = World::new();
    world.start();
    world.cut_power();
    let mut told = Vec::new();
    for _ in 0..4 {
        let mut store = world.open();
        told.push(world.unwritten(&mut store));
        world.cut_power();
    }
    assert!(told.is_sorted_by(|one, next| one < next), "{told:?}");
}

#[test]
fn a_clean_stop_that_follows_an_unclean_one_without_a_write_between() {
    let mut world = World::new();
    world.start();
    world.cut_power();
    let mut store = world.open();
    let told = world.unwritten(&mut store);
    world.cut_power();
    let store = world.open();
    store.close(&mut |_| ()).unwrap();
    let mut store = world.open();
    assert_eq!(store.recovered_lsn(), Lsn(1));
    assert!(world.unwritten(&mut store) > told, "LSN {told} was told before");
}
