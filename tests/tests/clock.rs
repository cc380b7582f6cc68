//! Expiry over restarts and odd clocks, through the daemon. Steps of the wall clock itself are simulated in engine/src/core/time.rs.

use logd_tests::client::Client;
use logd_tests::daemon::Daemon;
use logd_tests::trace::{is_possible, lend};
use std::time::{Duration, Instant};

fn left(client: &mut Client, key: &str) -> i64 {
    client.number(&["PTTL", key])
}

#[test]
fn an_expired_key_that_was_reported_missing_never_comes_back() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    let mut client = daemon.client();
    client.done(&["SET", "k", "v", "PX", "20"]);
    let begun = Instant::now();
    while client.get("k").is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it ends");
    }
    for words in [&["EXPIRE", "k", "100"][..], &["PERSIST", "k"], &["EXISTS", "k"]] {
        assert_eq!(client.number(words), 0, "{words:?}");
    }
    assert_eq!(left(&mut client, "k"), -2, "missing, not a negative time");
    daemon.kill();
    let daemon = Daemon::start(&data, &[]);
    assert_eq!(daemon.client().get("k"), None);
}

#[test]
fn a_moment_in_the_past_deletes_and_stays_so_over_a_kill() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    let mut client = daemon.client();
    for (key, words) in [("a", ["EXPIREAT", "a", "1"]), ("b", ["PEXPIREAT", "b", "1"]), ("c", ["EXPIRE", "c", "-1"])] {
        client.done(&["SET", key, "v"]);
        assert_eq!(client.number(&words), 1);
        assert_eq!((client.get(key), left(&mut client, key)), (None, -2), "{key}");
    }
    daemon.kill();
    let daemon = Daemon::start(&data, &[]);
    assert_eq!(daemon.client().number(&["DBSIZE"]), 0);
}

#[test]
fn a_monotonic_clock_that_starts_elsewhere_after_a_boot_changes_no_expiry() {
    let boots = ["864000", "5"]
        .map(|seconds| ["unshare", "-T", "--monotonic", seconds, "--boottime", seconds].map(str::to_owned).to_vec());
    if !is_possible(&boots[0]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let mut before = 1_000_000;
    for (round, boot) in boots.iter().enumerate() {
        // A time name space is for children, so the daemon is no direct child here: it is asked to stop.
        let daemon = Daemon::start_under(&lend(boot), &data, &[]);
        let mut client = daemon.client();
        if round == 0 {
            client.done(&["SET", "k", "v", "EX", "1000"]);
        }
        let now = left(&mut client, "k");
        assert!((before - 200_000..=before).contains(&now), "{now} ms left of {before}");
        before = now;
        let _ = client.call(&["SHUTDOWN"]);
        daemon.end();
    }
}
