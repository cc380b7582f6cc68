//! Stops in order: by signal or command, under load, at every level of durability, during a snapshot, with a view held.

use logd_engine::{Db, Options};
use logd_tests::daemon::{Daemon, Signal};
use logd_tests::round::{Load, Promise};
use std::time::Duration;

fn stop_under_load(flags: &[&str], ask: impl Fn(&Daemon)) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let mut load = Load::default();
    let daemon = Daemon::start(&data, flags);
    let running = load.start(&daemon);
    std::thread::sleep(Duration::from_millis(120));
    ask(&daemon);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(ended.said.contains("stopped"), "{}", ended.said);
    let all = running.ended();
    let daemon = Daemon::start(&data, flags);
    assert!(daemon.said().contains("clean stop"), "the next start says so: {}", daemon.said());
    load.check(&daemon, all, Promise::All);
    load.check_progress();
}

#[test]
fn a_stop_by_signal_or_command_under_load_loses_nothing_at_any_level() {
    for level in ["synced", "written", "accepted"] {
        let flags = ["--durability", level];
        stop_under_load(&flags, |daemon| daemon.signal(Signal::TERM));
        stop_under_load(&flags, |daemon| daemon.signal(Signal::INT));
        stop_under_load(&flags, |daemon| {
            // It is not answered; the connection just ends.
            let _ = daemon.client().call(&["SHUTDOWN"]);
        });
    }
}

#[test]
fn a_stop_during_a_snapshot_ends_and_loses_nothing() {
    let flags = ["--checkpoint-rate", "64K", "--segment-bytes", "1M"];
    stop_under_load(&flags, |daemon| {
        let mut client = daemon.client();
        for number in 0..30 {
            client.done(&["SET", &format!("large{number}"), &"x".repeat(60_000)]);
        }
        // An error only says that one is being written already.
        client.call(&["BGSAVE"]).expect("an answer");
        daemon.signal(Signal::TERM);
    });
}

#[test]
fn a_store_dropped_while_views_live_is_stopped_cleanly() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let db = Db::open(directory.path(), Options::default()).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    for number in 0..100u8 {
        db.put(things, &[number], b"value", None, Some(logd_engine::DurabilityLevel::Accepted)).expect("room");
    }
    let view = db.view();
    drop(db);
    let db = Db::open(directory.path(), Options::default()).expect("the lock is free");
    assert!(db.stats().recovery.words.contains("clean stop"), "{}", db.stats().recovery.words);
    assert_eq!(db.len(db.find_keyspace("things").expect("it was defined")), 100);
    drop(view);
}

#[test]
fn a_store_whose_first_command_was_refused_drops_without_a_panic() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let db = Db::open(directory.path(), Options::default()).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    assert!(db.put(things, &[0; 70_000], b"value", None, None).is_err(), "the key is too long");
    drop(db);
    Db::open(directory.path(), Options::default()).expect("it opens again");
}

#[test]
fn a_panic_in_a_users_thread_costs_nothing_that_was_durable_and_claims_nothing() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let db = Db::open(directory.path(), Options::default()).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    let inner = db.clone();
    let thread = std::thread::spawn(move || {
        let ticket = inner.put(things, b"before", b"value", None, None).expect("room");
        inner.wait(ticket, None).expect("a working disk");
        panic!("a user's mistake, as it should be");
    });
    assert!(thread.join().is_err());
    let ticket = db.put(things, b"after", b"value", None, None).expect("the store goes on");
    db.wait(ticket, None).expect("a working disk");
    drop(db);
    let db = Db::open(directory.path(), Options::default()).expect("it opens again");
    assert_eq!(db.len(db.find_keyspace("things").expect("it was defined")), 2);
}
