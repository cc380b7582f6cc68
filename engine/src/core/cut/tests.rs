//! Goal: a snapshot is the state at its LSN, whatever happens while it is written. Method: random changes between and during its
//! blocks, by one thread in a fixed order and by several at once; the digest of a frozen view is the truth.

use super::*;
use crate::clock::SimClock;
use crate::core::{CoreParts, EngineTime, Keyspace, KeyspaceOptions, Procedures, Rebuild};
use crate::digest::Digest;
use crate::disk::Storage;
use crate::error::{Error, Refused};
use crate::format::StoreId;
use crate::log::{ActiveSegment, Log, LogOptions, LogPosition};
use crate::options::Options;
use crate::prng::Prng;
use crate::snapshot::{Snapshot, SnapshotWriter};
use crate::test_disk::TestStorage;
use crate::units::{Lsn, Millis, Nanos, SegmentId};
use std::sync::atomic::{AtomicBool, Ordering};

/// A core whose log takes what a test appends without anybody writing it.
fn core(clock: &SimClock) -> Arc<Core> {
    let time = EngineTime::start(Arc::new(clock.clone()), Millis(0));
    let options = Options { batch_bytes_max: 64 << 20, shards: 5, ..Options::default() };
    let state = Rebuild::new(&options, Procedures::new(), time.clone()).finish();
    let active = ActiveSegment { segment: SegmentId(1), bytes: 1 << 30, first_lsn: Lsn(1), proven: 4096, end: 4096 };
    let position = LogPosition {
        active: Some(active),
        goes_on: true,
        next_segment: SegmentId(2),
        ..LogPosition::fresh(StoreId::default())
    };
    let log = Log::new(&position, LogOptions::new(&options, 256 << 20));
    Arc::new(Core::build(state, CoreParts { log, time, procedures: Procedures::new(), options, seed: 7 }))
}

fn spaces(core: &Core, names: &[&str]) -> Vec<Keyspace> {
    names.iter().map(|name| core.keyspace(name, KeyspaceOptions::default()).expect("a free name")).collect()
}

fn random_key(prng: &mut Prng) -> [u8; 4] {
    (prng.below(3000) as u32).to_be_bytes()
}

/// One command of any kind, some of which are undone.
fn change(core: &Core, spaces: &[Keyspace], prng: &mut Prng) {
    let space = spaces[prng.below(spaces.len() as u64) as usize];
    let (key, other) = (random_key(prng), random_key(prng));
    let value = vec![prng.below(256) as u8; [0, 30, 700][prng.below(3) as usize]];
    let expiry = prng.one_in(5).then(|| Millis(core.time().now().0 + prng.below(2000)));
    let is_undone = prng.one_in(4);
    let kind = prng.below(400);
    let keys: [(Keyspace, &[u8]); 2] = [(space, &key), (space, &other)];
    let scope = if kind < 2 { Scope::All } else { Scope::Keys(&keys) };
    let changed = core.write(scope, None, |transaction| {
        match kind {
            0..2 => transaction.clear(space),
            2..100 => drop(transaction.delete(space, &key)),
            100..150 => drop(transaction.set_expiry(space, &key, expiry)),
            _ => transaction.put(space, &key, &value, expiry)?,
        }
        if kind >= 300 {
            transaction.put(space, &other, &value, None)?;
        }
        if is_undone { Err(Error::from(Refused::Aborted("enough".to_owned()))) } else { Ok(()) }
    });
    assert_eq!(changed.is_err(), is_undone);
}

fn written(storage: &TestStorage, cut: Cut, mut between: impl FnMut()) -> (Digest, Snapshot) {
    let mut disk = storage.disk().expect("a disk in memory");
    let mut writer = SnapshotWriter::begin(&mut *disk, cut.meta, cut.parts).expect("room for a file");
    while !writer.step(&mut *disk, 1).expect("room for a block").done {
        between();
    }
    let written = writer.finish(&mut *disk).expect("room for the end");
    let snapshot = Snapshot::open(&mut *disk, written.lsn).expect("it was just written");
    (written.digest, snapshot)
}

/// The sum over what the blocks hold, not over what the writer believes to have written.
fn digest_of_file(storage: &TestStorage, snapshot: &Snapshot) -> Digest {
    let mut disk = storage.disk().expect("a disk in memory");
    let file = snapshot.open_file(&mut *disk).expect("it is there");
    let mut digest = Digest::EMPTY;
    for number in 0..snapshot.blocks.len() {
        let block = snapshot.read_block(&mut *disk, file, number).expect("a sound block");
        for record in snapshot.records(&block, number) {
            let (key, entry) = record.expect("a sound record");
            digest.add(snapshot.keyspace_name(snapshot.blocks[number].keyspace), key, entry);
        }
    }
    digest
}

#[test]
fn a_snapshot_is_the_state_at_its_cut_whatever_is_changed_cleared_undone_or_expired_between_its_blocks() {
    for seed in 0..12 {
        let clock = SimClock::new(Millis(1_000_000));
        let core = core(&clock);
        let all = spaces(&core, &["one", "two", "three"]);
        let mut prng = Prng::new(seed);
        (0..6000).for_each(|_| change(&core, &all, &mut prng));
        let (truth, cut) = (core.view(), core.cut());
        assert_eq!((truth.lsn, truth.catalog.keyspaces.len()), (cut.meta.lsn, cut.meta.keyspaces.len()));
        let storage = TestStorage::default();
        let (digest, snapshot) = written(&storage, cut, || {
            clock.advance(Nanos::from_millis(prng.below(400)));
            core.expire_due();
            let more = spaces(&core, &["one", "two", "three", "born later"]);
            (0..prng.below(800)).for_each(|_| change(&core, &more, &mut prng));
        });
        assert_eq!(digest, truth.digest(), "seed {seed}");
        assert_eq!(digest_of_file(&storage, &snapshot), digest, "seed {seed}");
        assert_eq!(core.past_bytes().0, 0, "nothing is kept any more");
    }
}

#[test]
fn a_snapshot_is_the_state_at_its_cut_while_threads_write() {
    for seed in 0..3 {
        let core = core(&SimClock::new(Millis(1_000_000)));
        let all = spaces(&core, &["one", "two"]);
        let mut prng = Prng::new(seed);
        (0..6000).for_each(|_| change(&core, &all, &mut prng));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (core, all, stop) = (&core, &all, &stop);
                scope.spawn(move || {
                    let mut prng = Prng::new(100 + thread);
                    for _ in 0..20_000 {
                        change(core, all, &mut prng);
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            // The view and the cut must be of one moment: both are taken while nobody writes.
            let (truth, cut) = loop {
                let (before, cut, after) = (core.view(), core.cut(), core.view());
                if before.lsn == cut.meta.lsn && after.lsn == cut.meta.lsn {
                    break (before, cut);
                }
                drop(cut);
            };
            let storage = TestStorage::default();
            let (digest, snapshot) = written(&storage, cut, || ());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(digest, truth.digest(), "seed {seed}");
            assert_eq!(digest_of_file(&storage, &snapshot), digest, "seed {seed}");
        });
    }
}

#[test]
fn a_cut_that_is_given_up_leaves_nothing_behind_and_the_next_one_can_be_taken() {
    let core = core(&SimClock::new(Millis(1_000_000)));
    let all = spaces(&core, &["one"]);
    let mut prng = Prng::new(1);
    (0..500).for_each(|_| change(&core, &all, &mut prng));
    let cut = core.cut();
    (0..500).for_each(|_| change(&core, &all, &mut prng));
    assert!(core.past_bytes().0 > 0);
    drop(cut);
    assert_eq!(core.past_bytes().0, 0);
    drop(core.cut());
}

#[test]
fn what_is_cleared_is_left_to_the_maintenance_driver_once_the_command_is_taken() {
    let core = core(&SimClock::new(Millis(1_000_000)));
    let all = spaces(&core, &["one"]);
    core.put(all[0], b"key", b"value", None, None).expect("room");
    let clear = |is_undone: bool| {
        core.write(Scope::All, None, |transaction| {
            transaction.clear(all[0]);
            if is_undone { Err(Error::from(Refused::Aborted("enough".to_owned()))) } else { Ok(()) }
        })
    };
    assert!(clear(true).is_err());
    assert!(core.take_discarded().is_empty());
    assert!(clear(false).is_ok());
    assert_eq!(core.take_discarded().len(), 1);
}
