//! Goal: a salvage that is cut short at any step, by a kill or a power cut, comes to the same store and the same note in the end.
//! Method: a damaged store on the simulated disk; the n-th operation of each kind fails for good, then the power goes.

use logd_engine::clock::SimClock;
use logd_engine::disk::{SimFault, SimOperation, SimOptions, SimStorage};
use logd_engine::prng::Prng;
use logd_engine::units::Millis;
use logd_engine::{Db, Error, OnCorruption, Options};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const VALUE: [u8; 3000] = [b'v'; 3000];

fn options(policy: OnCorruption) -> Options {
    let checkpoint_log_bytes = 1 << 40;
    Options { segment_bytes: 1 << 20, checkpoint_log_bytes, on_corruption: policy, shards: 2, ..Options::default() }
}

fn open(storage: &SimStorage, policy: OnCorruption) -> Result<Db, Error> {
    let clock = Arc::new(SimClock::new(Millis(1_700_000_000_000)));
    Db::builder("simulated").options(options(policy)).storage(Arc::new(storage.clone()), clock).open()
}

/// The files of a store of 900 records in four segments, with snapshots at 300 and 400.
fn files() -> Vec<(String, Vec<u8>)> {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let db = Db::open(directory.path(), options(OnCorruption::Refuse)).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    for number in 0..900_u32 {
        let ticket = db.put(things, &number.to_be_bytes(), &VALUE, None, None).expect("room");
        db.wait(ticket, None).expect("a working disk");
        if number == 300 || number == 400 {
            db.checkpoint().expect("room");
        }
    }
    ["", "log", "snapshot"].into_iter().flat_map(|part| files_in(directory.path(), part)).collect()
}

fn files_in(directory: &Path, part: &str) -> Vec<(String, Vec<u8>)> {
    let found = fs::read_dir(directory.join(part)).expect("a store").map(|file| file.expect("a name").path());
    let files = found.filter(|path| path.is_file() && !path.ends_with("LOCK"));
    let name = |path: &Path| path.strip_prefix(directory).expect("below").to_string_lossy().into_owned();
    files.map(|path| (name(&path), fs::read(&path).expect("readable"))).collect()
}

fn damaged(files: &[(String, Vec<u8>)]) -> SimStorage {
    let storage = SimStorage::new(SimOptions::default());
    files.iter().for_each(|(name, bytes)| storage.put(name, bytes));
    let segments: Vec<&String> = files.iter().map(|(name, _)| name).filter(|name| name.starts_with("log/")).collect();
    let snapshots: Vec<&String> = files.iter().map(|(name, _)| name).filter(|name| name.ends_with(".snap")).collect();
    let mut sorted = segments.clone();
    sorted.sort();
    storage.corrupt(sorted[sorted.len() - 3], 600 * 1024, 4);
    storage.corrupt(snapshots.into_iter().max().expect("two"), 9000, 4);
    storage
}

/// Records, first and last lost LSN, salvages: all that must not depend on crashes.
fn outcome(db: &Db) -> (usize, u64, u64, u64) {
    let things = db.find_keyspace("things").expect("its definition is in the snapshot");
    let loss = db.loss();
    (db.len(things), loss.first_lsn.0, loss.last_lsn.0, loss.salvage_count)
}

#[test]
fn a_salvage_cut_short_at_any_step_comes_to_the_same_store() {
    let files = files();
    let expected = {
        let storage = damaged(&files);
        assert!(matches!(open(&storage, OnCorruption::Refuse), Err(Error::Corrupt(_))));
        let db = open(&storage, OnCorruption::Salvage).expect("salvaged");
        outcome(&db)
    };
    assert!(expected.0 > 301 && expected.0 < 900, "{expected:?}");
    let kinds = [
        SimOperation::Write,
        SimOperation::Sync,
        SimOperation::Allocate,
        SimOperation::Rename,
        SimOperation::SyncDirectory,
    ];
    let mut stopped = 0;
    for (operation, seed) in kinds.into_iter().zip(1_u64..) {
        for skip in 0..40 {
            let storage = damaged(&files);
            let kind = logd_engine::disk::DiskErrorKind::Io("cut short".to_owned());
            storage.fail(SimFault { operation, skip, lasting: true, kind });
            let first = open(&storage, OnCorruption::Salvage);
            let was_stopped = first.is_err();
            stopped += u32::from(was_stopped);
            drop(first);
            let mut prng = Prng::new(seed * 1000 + skip);
            let left = if skip % 2 == 0 { storage.crash(&mut prng) } else { storage.kill() };
            let db = open(&left, OnCorruption::Salvage).unwrap_or_else(|error| panic!("{operation:?} {skip}: {error}"));
            assert_eq!(outcome(&db), expected, "{operation:?} {skip}");
            drop(db);
            let db = open(&left, OnCorruption::Refuse).expect("a whole store");
            assert_eq!(outcome(&db), expected, "{operation:?} {skip}");
            if !was_stopped {
                break;
            }
        }
    }
    assert!(stopped > 20, "{stopped} salvages were cut short");
}
