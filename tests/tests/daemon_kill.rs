//! The real daemon killed with -9 under load: nothing acknowledged is lost, the tools agree with what comes back.

use logd_tests::client::Reply;
use logd_tests::daemon::{Daemon, run};
use logd_tests::round::{Load, Promise, check_replay, check_verify, rounds};
use std::time::Duration;

/// Rounds of load, kill and check on one directory, so that a fault which needs two restarts shows.
fn kill_rounds(flags: &[&str], count: u64) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let mut load = Load::default();
    for round in 0..rounds(count) {
        let daemon = Daemon::start(&data, flags);
        let running = load.start(&daemon);
        std::thread::sleep(Duration::from_millis(120 + round % 7 * 70));
        daemon.kill();
        let all = running.ended();
        assert!(all.iter().all(|done| done.error.is_none()), "no writer saw an error: {all:?}");
        check_verify(&data);
        let daemon = Daemon::start(&data, flags);
        load.check(&daemon, all, Promise::All);
        check_replay(&data, &daemon);
        daemon.kill();
    }
    load.check_progress();
}

#[test]
fn nothing_acknowledged_as_synced_is_lost_by_kill_9() {
    kill_rounds(&[], 4);
}

#[test]
fn nothing_acknowledged_as_written_is_lost_by_kill_9() {
    kill_rounds(&["--durability", "written"], 3);
}

#[test]
fn small_segments_and_frequent_checkpoints_lose_nothing_either() {
    kill_rounds(&["--segment-bytes", "1M", "--checkpoint-log-bytes", "2M"], 4);
}

#[test]
fn plain_system_calls_keep_the_same_promise() {
    kill_rounds(&["--io", "syscall"], 3);
}

#[test]
fn after_a_clean_stop_even_accepted_writes_are_all_there() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &["--durability", "accepted"]);
    let mut client = daemon.client();
    for number in 0..500 {
        assert_eq!(
            client.call(&["SET", &format!("k{number}"), "v"]).expect("an answer"),
            Reply::Simple("OK".to_owned())
        );
    }
    let (status, _) = daemon.stop();
    assert!(status.success(), "a clean stop exits with 0");
    let daemon = Daemon::start(&data, &[]);
    assert_eq!(daemon.client().call(&["DBSIZE"]).expect("an answer"), Reply::Integer(500));
}

#[test]
fn a_relative_expiry_goes_on_counting_over_a_kill() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    daemon.client().call(&["SET", "short", "v", "PX", "700"]).expect("an answer");
    daemon.client().call(&["SET", "long", "v", "EX", "1000"]).expect("an answer");
    daemon.kill();
    std::thread::sleep(Duration::from_millis(800));
    let daemon = Daemon::start(&data, &[]);
    let mut client = daemon.client();
    assert_eq!(client.call(&["GET", "short"]).expect("an answer"), Reply::Bulk(None));
    let Ok(Reply::Integer(left)) = client.call(&["PTTL", "long"]) else { panic!("a TTL was expected") };
    assert!((1..=1_000_000).contains(&left), "{left} ms left");
}

#[test]
fn a_second_daemon_on_the_directory_is_refused_and_the_first_goes_on() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    let second = run("logd", &["--dir", &data.to_string_lossy(), "--listen", "127.0.0.1:0"]);
    assert!(!second.status.success(), "the second must not start");
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("in use"), "it says why: {words}");
    assert_eq!(daemon.client().call(&["SET", "k", "v"]).expect("an answer"), Reply::Simple("OK".to_owned()));
}
