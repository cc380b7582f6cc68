//! Goal: every policy for damage keeps its word (docs/DURABILITY.md), at any place of any file, and a salvage that is interrupted
//! comes to the same store. Method: records `0..n` written in order, so that "a prefix" can be read off what is there.

use logd_engine::error::Refused;
use logd_engine::{Db, DurabilityLevel, Error, Keyspace, OnCorruption, Options};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const VALUE: [u8; 3000] = [b'v'; 3000];

fn options(policy: OnCorruption) -> Options {
    // Checkpoints are taken where the test says so.
    let checkpoint_log_bytes = 1 << 40;
    Options { segment_bytes: 1 << 20, checkpoint_log_bytes, on_corruption: policy, shards: 4, ..Options::default() }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(db: &Db, things: Keyspace, from: u32, to: u32) {
    for number in from..to {
        let level = if number % 10 == 9 { DurabilityLevel::Synced } else { DurabilityLevel::Written };
        let ticket = db.put(things, &key(number), &VALUE, None, Some(level)).expect("room");
        db.wait(ticket, None).expect("a working disk");
    }
}

fn copy_files(from: &Path, to: &Path) {
    for part in ["", "log", "snapshot", "quarantine"] {
        fs::create_dir_all(to.join(part)).expect("a scratch directory");
        let Ok(found) = fs::read_dir(from.join(part)) else { continue };
        for file in found.map(|file| file.expect("a name").path()).filter(|path| path.is_file()) {
            fs::copy(&file, to.join(part).join(file.file_name().expect("a name"))).expect("room");
        }
    }
}

/// Files by path below the directory, but for the lock.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for part in ["", "log", "snapshot", "quarantine"] {
        let Ok(found) = fs::read_dir(directory.join(part)) else { continue };
        for file in found.map(|file| file.expect("a name").path()).filter(|path| path.is_file()) {
            let name = file.strip_prefix(directory).expect("below").to_string_lossy().into_owned();
            all.insert(name, fs::read(&file).expect("readable"));
        }
    }
    all.remove("LOCK");
    all
}

/// A store of 1400 records over several segments, with snapshots at 400 and 700, as kill -9 leaves it.
fn killed_store(directory: &Path) -> PathBuf {
    let (running, copy) = (directory.join("running"), directory.join("copy"));
    let db = Db::open(&running, options(OnCorruption::Refuse)).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    put(&db, things, 0, 400);
    db.checkpoint().expect("room");
    put(&db, things, 400, 700);
    db.checkpoint().expect("room");
    put(&db, things, 700, 1400);
    copy_files(&running, &copy);
    copy
}

struct Scratch {
    _directory: tempfile::TempDir,
    store: PathBuf,
    copies: std::cell::Cell<u32>,
}

impl Scratch {
    fn new() -> Scratch {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let store = killed_store(directory.path());
        Scratch { _directory: directory, store, copies: 0.into() }
    }

    fn copy(&self) -> PathBuf {
        self.copies.set(self.copies.get() + 1);
        let copy = self.store.with_file_name(format!("copy-{}", self.copies.get()));
        copy_files(&self.store, &copy);
        copy
    }
}

fn names(directory: &Path, part: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(directory.join(part)).expect("a store");
    let mut all: Vec<PathBuf> = found.map(|file| file.expect("a name").path()).collect();
    all.sort();
    all
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[at] ^= 0x40;
    fs::write(file, bytes).expect("ours");
}

/// The number of records, once it is sure that they are the first ones.
fn prefix(db: &Db) -> u32 {
    let Ok(things) = db.find_keyspace("things") else { return 0 };
    let count = db.len(things) as u32;
    assert!((0..count).all(|number| db.get(things, &key(number)).is_some()), "{count} records are the first ones");
    count
}

fn is_corrupt(opened: Result<Db, Error>) -> bool {
    match opened {
        Err(Error::Corrupt(corrupt)) => {
            let words = corrupt.to_string();
            assert!(words.contains("at byte") && words.contains("logctl repair"), "{words}");
            true
        }
        Err(other) => panic!("{other}"),
        Ok(_) => false,
    }
}

/// Damage in the middle of the log behind the newest snapshot: in the third segment of those in use.
fn damage_log(store: &Path) -> PathBuf {
    let segments = names(store, "log");
    let file = segments[segments.len() - 3].clone();
    flip(&file, 40_000);
    file
}

#[test]
fn a_damaged_newest_snapshot_is_refused_by_default_and_costs_nothing_where_the_older_one_may_be_used() {
    let scratch = Scratch::new();
    let store = scratch.copy();
    let snapshots = names(&store, "snapshot");
    assert_eq!(snapshots.len(), 2);
    flip(&snapshots[1], 9000);
    let before = contents(&store);
    assert!(is_corrupt(Db::open(&store, options(OnCorruption::Refuse))));
    let db = Db::open(&store, options(OnCorruption::ReadOnly)).expect("readable");
    assert_eq!(prefix(&db), 1400);
    db.close().expect("nothing to write");
    assert!(contents(&store) == before, "neither of them changed anything");
    let db = Db::open(&store, options(OnCorruption::PreviousSnapshot)).expect("the older one");
    assert_eq!(prefix(&db), 1400);
    let loss = db.loss();
    assert_eq!((loss.commands, loss.last_lsn.0, loss.files), (0, 0, 1));
    assert!(db.stats().recovery.words.contains("UNACKNOWLEDGED LOSS: no command was lost"));
    put(&db, db.find_keyspace("things").expect("it is there"), 1400, 1410);
    drop(db);
    assert_eq!(names(&store, "quarantine").len(), 1);
    let db = Db::open(&store, options(OnCorruption::Refuse)).expect("a whole store again");
    assert_eq!(prefix(&db), 1410);
    db.checkpoint().expect("room");
}

#[test]
fn a_damaged_log_is_cut_at_the_damage_and_the_loss_is_told_until_it_is_acknowledged() {
    let scratch = Scratch::new();
    let store = scratch.copy();
    damage_log(&store);
    assert!(is_corrupt(Db::open(&store, options(OnCorruption::Refuse))));
    assert!(is_corrupt(Db::open(&store, options(OnCorruption::PreviousSnapshot))));
    let kept = prefix(&Db::open(&store, options(OnCorruption::ReadOnly)).expect("readable"));
    assert!((700..1400).contains(&kept), "{kept}");
    let db = Db::open(&store, options(OnCorruption::Salvage)).expect("salvaged");
    assert_eq!(prefix(&db), kept);
    let loss = db.loss();
    assert!(loss.is_unacknowledged());
    let lost = u64::from(1400 - kept);
    assert_eq!(loss.last_lsn.0 - loss.first_lsn.0 + 1, lost, "the span is exact, since the headers behind are whole");
    assert!(loss.commands >= lost - 20 && loss.commands <= lost, "{} of {lost}", loss.commands);
    assert!(loss.first_wall.0 > 0 && loss.last_wall >= loss.first_wall);
    let things = db.find_keyspace("things").expect("it is there");
    let ticket = db.put(things, &key(kept), &VALUE, None, None).expect("room");
    assert!(ticket.lsn > loss.last_lsn, "no LSN is told twice");
    db.wait(ticket, None).expect("a working disk");
    db.close().expect("a working disk");
    let db = Db::open(&store, options(OnCorruption::Refuse)).expect("a whole store again");
    assert!(db.stats().recovery.words.contains("UNACKNOWLEDGED LOSS: commands from LSN"));
    assert_eq!(prefix(&db), kept + 1);
    assert_eq!(db.acknowledge_loss(), Ok(true));
    assert_eq!(db.acknowledge_loss(), Ok(false));
    drop(db);
    let db = Db::open(&store, options(OnCorruption::Refuse)).expect("a whole store");
    assert!(!db.loss().is_unacknowledged() && !db.stats().recovery.words.contains("LOSS"));
    assert_eq!(db.loss().commands, loss.commands, "the numbers stay");
}

#[test]
fn a_read_only_store_refuses_every_write_with_the_reason_and_answers_reads() {
    let scratch = Scratch::new();
    let store = scratch.copy();
    damage_log(&store);
    let before = contents(&store);
    let db = Db::open(&store, options(OnCorruption::ReadOnly)).expect("readable");
    let things = db.find_keyspace("things").expect("it is there");
    let is_read_only = |error: Error| matches!(error, Error::Refused(Refused::ReadOnly { .. }));
    assert!(db.put(things, b"new", b"", None, None).is_err_and(is_read_only));
    assert!(db.delete(things, &key(0), None).is_err_and(is_read_only));
    assert!(db.keyspace("other", Default::default()).is_err_and(is_read_only));
    assert!(db.checkpoint().is_err_and(is_read_only));
    assert!(db.start_checkpoint().is_err_and(is_read_only));
    assert!(db.acknowledge_loss().is_err_and(is_read_only));
    assert!(db.stats().read_only.is_some_and(|reason| reason.contains("case")));
    assert!(db.stats().recovery.words.contains("READ-ONLY"));
    assert!(prefix(&db) >= 700);
    db.close().expect("nothing to write");
    assert!(contents(&store) == before, "nothing changed");
}

#[test]
fn missing_and_beheaded_segments_end_the_prefix_and_nothing_is_taken_over_the_hole() {
    let scratch = Scratch::new();
    for is_missing in [true, false] {
        let store = scratch.copy();
        let segments = names(&store, "log");
        let file = &segments[segments.len() - 3];
        if is_missing {
            fs::remove_file(file).expect("ours")
        } else {
            flip(file, 50)
        }
        assert!(is_corrupt(Db::open(&store, options(OnCorruption::PreviousSnapshot))));
        let db = Db::open(&store, options(OnCorruption::Salvage)).expect("salvaged");
        let kept = prefix(&db);
        assert!((700..1400).contains(&kept), "{kept}");
        assert!(db.loss().commands > 0);
        drop(db);
        assert_eq!(prefix(&Db::open(&store, options(OnCorruption::Refuse)).expect("whole")), kept);
    }
}

#[test]
fn a_lost_manifest_is_put_together_again_from_the_other_files() {
    let scratch = Scratch::new();
    for damage in ["removed", "empty", "garbage"] {
        let store = scratch.copy();
        match damage {
            "removed" => fs::remove_file(store.join("manifest")).expect("ours"),
            "empty" => fs::write(store.join("manifest"), b"").expect("ours"),
            _ => fs::write(store.join("manifest"), [7; 8192]).expect("ours"),
        }
        assert!(is_corrupt(Db::open(&store, options(OnCorruption::Refuse))), "{damage}");
        assert_eq!(prefix(&Db::open(&store, options(OnCorruption::ReadOnly)).expect(damage)), 1400);
        let db = Db::open(&store, options(OnCorruption::PreviousSnapshot)).expect(damage);
        assert_eq!(prefix(&db), 1400);
        drop(db);
        assert_eq!(prefix(&Db::open(&store, options(OnCorruption::Refuse)).expect("whole")), 1400);
    }
}

#[test]
fn without_any_whole_snapshot_nothing_is_made_up_and_everything_is_kept_aside() {
    let scratch = Scratch::new();
    let store = scratch.copy();
    names(&store, "snapshot").iter().for_each(|file| flip(file, 9000));
    assert!(is_corrupt(Db::open(&store, options(OnCorruption::PreviousSnapshot))));
    let before = contents(&store);
    let db = Db::open(&store, options(OnCorruption::Salvage)).expect("salvaged");
    let loss = db.loss();
    assert!(loss.last_lsn.0 >= 1400 && prefix(&db) < 1400);
    drop(db);
    let after = contents(&store);
    for (name, bytes) in before.iter().filter(|(name, _)| name.starts_with("snapshot/")) {
        let aside = name.replace("snapshot/", "quarantine/");
        assert!(after.get(&aside) == Some(bytes), "{name} is kept");
    }
}

#[test]
fn damage_at_any_place_of_any_file_is_answered_by_every_policy_with_a_prefix_or_a_refusal() {
    let scratch = Scratch::new();
    let files: Vec<String> = contents(&scratch.store).into_keys().collect();
    let mut salvaged = 0;
    for (number, name) in files.iter().enumerate() {
        let bytes = fs::metadata(scratch.store.join(name)).expect("a file").len() as usize;
        let places = [0, 20, 60, 4096 + 10, 4096 + 300, 8192 + 4, bytes / 3 + number * 977, bytes - 1];
        for (at, cut) in places.into_iter().filter(|at| *at < bytes).flat_map(|at| [(at, false), (at, true)]) {
            let store = scratch.copy();
            let file = store.join(name);
            if cut {
                fs::OpenOptions::new().write(true).open(&file).expect("ours").set_len(at as u64).expect("ours");
            } else {
                flip(&file, at);
            }
            let case = format!("{name} {at} {cut}");
            let readable =
                Db::open(&store, options(OnCorruption::ReadOnly)).unwrap_or_else(|error| panic!("{case}: {error}"));
            let kept = prefix(&readable);
            let was_read_only = readable.read_only().is_some();
            drop(readable);
            let db = Db::open(&store, options(OnCorruption::Salvage)).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(prefix(&db), kept, "{case}");
            assert_eq!(db.loss().is_unacknowledged(), was_read_only, "{case}: nothing is dropped in silence");
            let recovery = db.stats().recovery;
            let is_told = recovery.cut_bytes > 0 || !recovery.notes.is_empty() || db.loss().last_lsn.0 >= 1400;
            assert!(kept >= 1390 || is_told, "{case}: {kept} kept, {recovery:?}");
            salvaged += u32::from(was_read_only);
            drop(db);
            let again =
                Db::open(&store, options(OnCorruption::Refuse)).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(prefix(&again), kept, "{case}");
            drop(again);
            fs::remove_dir_all(store).expect("ours");
        }
    }
    assert!(salvaged > 20, "{salvaged} damages mattered");
}
