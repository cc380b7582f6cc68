//! Goal: `logctl repair` says what it will lose, touches the old directory never, and leaves a whole store or none.

use logd_engine::{Db, OnCorruption, Options};
use logd_tests::daemon::run;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const VALUE: [u8; 3000] = [b'v'; 3000];

fn options() -> Options {
    Options { segment_bytes: 1 << 20, checkpoint_log_bytes: 1 << 40, ..Options::default() }
}

fn store(directory: &Path) {
    let db = Db::open(directory, options()).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    for number in 0..900_u32 {
        let ticket = db.put(things, &number.to_be_bytes(), &VALUE, None, None).expect("room");
        db.wait(ticket, None).expect("a working disk");
        if number == 300 || number == 700 {
            db.checkpoint().expect("room");
        }
    }
    db.close().expect("a working disk");
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let found = ["", "log", "snapshot", "quarantine"].into_iter().flat_map(|part| fs::read_dir(directory.join(part)));
    let paths = found.flatten().map(|file| file.expect("a name").path()).filter(|path| path.is_file());
    paths.map(|path| (path.clone(), fs::read(&path).expect("readable"))).collect()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[at] ^= 0x40;
    fs::write(file, bytes).expect("ours");
}

fn repair(old: &Path, new: &Path, flags: &[&str]) -> (Option<i32>, String) {
    let places = [old.to_string_lossy(), new.to_string_lossy()];
    let words: Vec<&str> = ["repair", &places[0], &places[1]].into_iter().chain(flags.iter().copied()).collect();
    let output = run("logctl", &words);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn repair_tells_the_loss_beforehand_and_makes_a_store_of_what_is_whole() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    store(&old);
    flip(&old.join(format!("log/{:020}.seg", 4)), 200 * 1024);
    let before = files(&old);
    let (code, text) = repair(&old, &new, &["--dry-run"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("lost: LSN ") && text.contains("left behind") && text.contains("written between"), "{text}");
    assert!(!new.exists(), "a dry run makes nothing");
    assert_eq!(repair(&old, &new, &[]).0, Some(4), "nobody can be asked, so nothing is done");
    assert!(!new.exists());
    // What a killed repair leaves is no obstacle.
    fs::create_dir_all(directory.path().join("new.repairing/log")).expect("ours");
    let (code, text) = repair(&old, &new, &["--yes", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\"state\": \"repaired\"") && text.contains("\"digest\": \""), "{text}");
    assert!(files(&old) == before, "the old directory is only read");
    assert_eq!(repair(&old, &new, &["--yes"]).0, Some(64), "the new one is not empty now");
    assert!(run("logctl", &["verify", &new.to_string_lossy()]).status.code().is_some_and(|code| code <= 1));
    let db = Db::open(&new, options()).expect("a whole store");
    let things = db.find_keyspace("things").expect("it is there");
    let kept = db.len(things) as u32;
    assert!((701..900).contains(&kept), "{kept}");
    assert!((0..kept).all(|number| db.get(things, &number.to_be_bytes()).is_some()));
    assert!(db.loss().is_unacknowledged() && db.loss().last_lsn.0 >= 901);
    drop(db);
    let salvaged = Db::open(&old, Options { on_corruption: OnCorruption::Salvage, ..options() }).expect("salvaged");
    let things = salvaged.find_keyspace("things").expect("it is there");
    assert_eq!(salvaged.len(things) as u32, kept, "both save the same");
}

#[test]
fn damage_in_the_log_before_a_whole_snapshot_costs_nothing() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    store(&old);
    flip(&old.join(format!("log/{:020}.seg", 2)), 400 * 1024);
    let (code, text) = repair(&old, &new, &["--yes"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("lost: no command"), "{text}");
    let db = Db::open(&new, options()).expect("a whole store");
    assert_eq!(db.len(db.find_keyspace("things").expect("it is there")), 900);
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    assert_eq!(repair(directory.path(), &directory.path().join("new"), &["--yes"]).0, Some(3));
    assert_eq!(repair(&directory.path().join("missing"), &directory.path().join("new"), &["--yes"]).0, Some(3));
}
