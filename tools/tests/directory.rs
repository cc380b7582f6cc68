//! The tools over real stores: made by the engine, damaged by hand, read by the program itself.
//! Goal: exit codes, digests and live reading as the user meets them.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use logd_engine::{Db, DurabilityLevel, Options};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn logctl(words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_logctl")).args(words).output().expect("logctl starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("logctl ends by itself"), text(stdout), text(stderr))
}

/// 20 records in "things", with a checkpoint behind the first ten of them.
fn fill(db: &Db) {
    let things = db.keyspace("things", Default::default()).unwrap();
    for number in 0..20 {
        if number == 10 {
            db.checkpoint().unwrap();
        }
        let key = format!("key {number:02}");
        let ticket = db.put(things, key.as_bytes(), b"value", None, Some(DurabilityLevel::Synced)).unwrap();
        db.wait(ticket, None).unwrap();
    }
}

fn closed_store(path: &Path) -> String {
    let db = Db::open(path, Options::default()).unwrap();
    fill(&db);
    let (lsn, digest) = db.digest();
    db.close().unwrap();
    format!("{lsn} {digest}\n")
}

/// All files with their bytes, to see that nothing was changed.
fn files(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for listed in fs::read_dir(path).unwrap() {
        let path = listed.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_closed_store_is_sound_and_no_command_changes_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let digest = closed_store(directory.path());
    let before = files(directory.path());
    assert_eq!(logctl(&["verify", path]).0, 0);
    assert_eq!(logctl(&["digest", path]).1, digest);
    assert_eq!(logctl(&["dump", path]).0, 0);
    assert_eq!(logctl(&["stats", path]).0, 0);
    assert!(files(directory.path()) == before, "a tool wrote to the store");
}

#[test]
fn a_replay_into_a_new_store_has_the_same_digest() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    let expected = closed_store(&old);
    let hex = expected.trim().split_once(' ').unwrap().1;
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    assert_eq!(logctl(&["replay", old, "--into", new, "--check", hex]).0, 0);
    assert!(logctl(&["digest", new]).1.trim().ends_with(hex));
    assert_eq!(logctl(&["replay", old, "--into", new]).0, 64, "a store is never written over");
    assert_eq!(logctl(&["replay", old, "--check", &"0".repeat(32)]).0, 1);
}

#[test]
fn damage_is_exit_code_2_and_an_empty_directory_3() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    assert_eq!(logctl(&["verify", path]).0, 3);
    closed_store(directory.path());
    let listed = fs::read_dir(directory.path().join("snapshot")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&listed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    fs::write(&listed, bytes).unwrap();
    let (code, text, _) = logctl(&["verify", path, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &report["verdict"], &report["schema"]), (2, &"corrupt".into(), &1.into()));
}

#[test]
fn a_store_in_use_can_be_read_and_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let db = Db::open(directory.path(), Options::default()).unwrap();
    fill(&db);
    let (code, text, remark) = logctl(&["verify", path]);
    assert!(code <= 1, "{text}");
    assert!(remark.contains(&std::process::id().to_string()), "{remark}");
    assert!(text.contains("stop it for a final verdict"), "{text}");
    db.close().unwrap();
}

#[test]
fn a_wrong_command_line_is_not_a_verdict() {
    assert_eq!(logctl(&["verify"]).0, 64);
    assert_eq!(logctl(&["verify", "redis://127.0.0.1:1"]).0, 64);
    assert_eq!(logctl(&["--help"]).0, 0);
}
