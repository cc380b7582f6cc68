//! Deleted data does not come back, whatever deleted it and whatever a snapshot was doing meanwhile.

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::Daemon;
use std::time::{Duration, Instant};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);
const COUNT: usize = 600;

fn load(client: &mut Client) {
    let set = |number: usize| vec![b"SET".to_vec(), format!("k{number}").into_bytes(), vec![b'x'; 500]];
    client.send(&(0..COUNT).map(set).collect::<Vec<_>>()).expect("it takes them");
    (0..COUNT).for_each(|_| assert_eq!(client.receive().expect("an answer"), Reply::Simple("OK".to_owned())));
}

fn each_key(client: &mut Client, command: &str, more: &[&str]) {
    let request = |number: usize| {
        let mut words = vec![command.as_bytes().to_vec(), format!("k{number}").into_bytes()];
        words.extend(more.iter().map(|word| word.as_bytes().to_vec()));
        words
    };
    client.send(&(0..COUNT).map(request).collect::<Vec<_>>()).expect("it takes them");
    for _ in 0..COUNT {
        let reply = client.receive().expect("an answer");
        assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
    }
}

fn delete_all(client: &mut Client, how: &str) {
    match how {
        "DEL" | "UNLINK" | "GETDEL" => each_key(client, how, &[]),
        "PEXPIRE" => each_key(client, how, &["1"]),
        "PEXPIREAT" => each_key(client, how, &["1"]),
        "RENAME" => each_key(client, how, &["target"]),
        _ => client.done(&[how]),
    }
    wait_for_count(client, how);
}

/// Records whose time is over are counted until they are removed, as in Redis; that may be a moment later.
fn wait_for_count(client: &mut Client, how: &str) {
    let begun = Instant::now();
    let left = i64::from(how == "RENAME");
    while client.number(&["DBSIZE"]) != left {
        assert!(begun.elapsed() < PATIENCE, "{how} deletes all");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn nothing_comes_back(snapshot: &[&str]) {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M", "--checkpoint-rate", "1M"];
    let mut daemon = Daemon::start(&data, &flags);
    for how in ["DEL", "UNLINK", "GETDEL", "FLUSHALL", "FLUSHDB", "PEXPIRE", "PEXPIREAT", "RENAME"] {
        let mut client = daemon.client();
        client.done(&["FLUSHALL"]);
        load(&mut client);
        // An error only says that one is being written already.
        client.call(snapshot).expect("an answer");
        delete_all(&mut client, how);
        daemon.kill();
        daemon = Daemon::start(&data, &flags);
        let mut client = daemon.client();
        let keys: Vec<String> = (0..COUNT).map(|number| format!("k{number}")).collect();
        let words: Vec<&str> = std::iter::once("EXISTS").chain(keys.iter().map(String::as_str)).collect();
        assert_eq!(client.number(&words), 0, "after {how}");
        wait_for_count(&mut client, how);
    }
}

#[test]
fn what_was_deleted_after_a_snapshot_stays_deleted_over_a_kill() {
    nothing_comes_back(&["SAVE"]);
}

#[test]
fn what_was_deleted_while_a_snapshot_was_written_stays_deleted_over_a_kill() {
    nothing_comes_back(&["BGSAVE"]);
}
