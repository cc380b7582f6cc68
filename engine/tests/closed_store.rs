//! Goal: what an open store leaves behind is what verify and the next opening find. Method: a real directory, the real log.

#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use logd_engine::disk::{IoMode, OsStorage};
use logd_engine::error::Error;
use logd_engine::recovery::LogFiles;
use logd_engine::verify::{Finding, Verdict, verify};
use logd_engine::{Db, Options};
use std::path::Path;

fn options() -> Options {
    Options { segment_bytes: 1 << 20, ..Options::default() }
}

fn put(db: &Db, from: u64, to: u64) {
    let things = db.keyspace("things", Default::default()).unwrap();
    for n in from..to {
        let ticket = db.put(things, &n.to_be_bytes(), &[n as u8; 100], None, None).unwrap();
        if n + 1 == to {
            db.wait(ticket, None).unwrap();
        }
    }
}

fn verdict(directory: &Path) -> (Verdict, Vec<Finding>) {
    let mut findings = Vec::new();
    let storage = OsStorage::new(directory, IoMode::Syscall).unwrap();
    let verdict = verify(&storage, &LogFiles, &mut |finding| findings.push(finding.clone())).unwrap();
    (verdict, findings)
}

/// A closed store with a snapshot and log behind it, and its digest.
fn store(directory: &Path) -> String {
    let db = Db::open(directory, options()).unwrap();
    put(&db, 0, 500);
    db.checkpoint().unwrap();
    put(&db, 500, 700);
    let digest = db.digest().1.to_string();
    db.close().unwrap();
    digest
}

#[test]
fn a_store_with_snapshot_and_log_verifies_and_opens_with_the_same_digest() {
    let directory = tempfile::tempdir().unwrap();
    let digest = store(directory.path());
    let (verdict, findings) = verdict(directory.path());
    assert_eq!(verdict, Verdict::Sound, "{findings:?}");
    let db = Db::open(directory.path(), Options { shards: 3, ..options() }).unwrap();
    assert_eq!(db.digest().1.to_string(), digest, "also with another number of shards");
    db.close().unwrap();
}

#[test]
fn the_snapshot_carries_the_digest_of_the_running_store() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options()).unwrap();
    put(&db, 0, 300);
    db.checkpoint().unwrap();
    let running = db.digest().1;
    db.close().unwrap();
    let (_, findings) = verdict(directory.path());
    let in_snapshot =
        findings.iter().any(|finding| matches!(finding, Finding::Snapshot { digest, .. } if *digest == running));
    assert!(in_snapshot, "{running} is not among {findings:?}");
}

#[test]
fn a_lost_log_or_manifest_is_refused_and_never_a_fresh_start() {
    for lost in ["log", "manifest"] {
        let directory = tempfile::tempdir().unwrap();
        store(directory.path());
        std::fs::rename(directory.path().join(lost), directory.path().join("aside")).unwrap();
        assert!(matches!(verdict(directory.path()).0, Verdict::Corrupt(_)), "{lost}");
        match Db::open(directory.path(), options()) {
            Err(Error::Corrupt(_)) => {}
            other => panic!("without {lost}: {:?}", other.map(|_| ())),
        }
    }
}
