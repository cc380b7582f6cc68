//! The real daemon killed with -9 under load: nothing acknowledged is lost, the tools agree with what comes back.

use logd_tests::client::Reply;
use logd_tests::daemon::{Daemon, run};
use logd_tests::load::{check_writer, start_writer};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Rounds of load, kill and check on one directory, so that a fault which needs two restarts shows.
fn kill_rounds(flags: &[&str], rounds: u64) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let mut survived = [0u64; 4];
    for round in 0..rounds {
        let daemon = Daemon::start(&data, flags);
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| start_writer(daemon.port(), writer, survived[writer as usize], Arc::clone(&stop)))
            .collect();
        std::thread::sleep(Duration::from_millis(120 + round * 70));
        daemon.kill();
        let done: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("no writer saw an error")).collect();
        verify_is_sound_or_torn(&data);
        let daemon = Daemon::start(&data, flags);
        let mut client = daemon.client();
        for one in done {
            survived[one.writer as usize] = check_writer(&mut client, one);
        }
        replay_agrees(&data, &daemon);
        daemon.kill();
    }
    assert!(survived.iter().all(|count| *count > 0), "every writer got something done");
}

fn verify_is_sound_or_torn(data: &Path) {
    let output = run("logctl", &["verify", &data.to_string_lossy()]);
    let code = output.status.code().expect("an exit code");
    assert!(
        code <= 1,
        "verify says {code}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn replay_agrees(data: &Path, daemon: &Daemon) {
    let Ok(Reply::Array(Some(told))) = daemon.client().call(&["LOGD.DIGEST"]) else { panic!("a digest was expected") };
    let Reply::Integer(lsn) = told[0] else { panic!("an LSN was expected") };
    let output = run("logctl", &["replay", &data.to_string_lossy(), "--json"]);
    assert!(output.status.success(), "replay: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digest = told[1].text();
    assert!(text.contains(&digest), "the daemon has {digest} at {lsn}, replay says {text}");
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
