//! `logctl replay` over a store that a daemon made: into a directory, into another daemon, compared with others; and `health`.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::{Daemon, run};
use std::path::Path;

fn ask(client: &mut Client, request: &str) -> Reply {
    let reply = client.call(&request.split(' ').collect::<Vec<_>>()).unwrap();
    assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    reply
}

fn digest(daemon: &Daemon) -> String {
    match ask(&mut daemon.client(), "LOGD.DIGEST") {
        Reply::Array(Some(items)) => items[1].text(),
        other => panic!("{other:?}"),
    }
}

fn logctl(words: &[&str]) -> (i32, String) {
    let output = run("logctl", words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two snapshots and a log behind them, with a transaction, expiries, deletions, two databases and calls of a procedure.
fn fill(client: &mut Client) {
    for round in 0..3 {
        for number in 0..50 {
            ask(client, &format!("SET key:{number} value:{round}"));
            ask(client, &format!("SET pump/{round}/{number} 1 EX {}", 10_000 + number));
        }
        ask(client, &format!("DEL key:{round}"));
        for request in ["MULTI", "INCR counter", "SET a 1", "PERSIST pump/0/1", "EXEC", "SELECT 3", "SET b 2"] {
            ask(client, request);
        }
        ask(client, "SELECT 0");
        if round < 2 {
            ask(client, "SAVE");
        }
    }
}

#[test]
fn a_history_sent_into_another_daemon_gives_the_same_digest_and_differences_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let first = Daemon::start(&store, &[]);
    fill(&mut first.client());
    let expected = digest(&first);
    let second = Daemon::start(&directory.path().join("second"), &[]);
    let address = format!("redis://127.0.0.1:{}", second.port());

    let (code, told) = logctl(&["replay", text(&store), "--into", &address, "--speed", "x1000"]);
    assert_eq!(code, 0, "{told}");
    let (code, told) = logctl(&["replay", text(&store), "--check", &address]);
    assert_eq!((code, told.contains("the digest agrees")), (0, true), "{told}");
    assert_eq!(digest(&second), expected);

    ask(&mut second.client(), "SET key:7 other");
    ask(&mut second.client(), "SET zzz more");
    let (code, told) = logctl(&["replay", text(&store), "--check", &address]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("first difference: db0 \"key:7\"") && told.contains("value:2"), "{told}");
    ask(&mut second.client(), "SET a 5");
    let second_store = directory.path().join("second");
    let (code, told) = logctl(&["replay", text(&store), "--check", text(&second_store)]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("first difference: db0 \"a\""), "{told}");
    let filtered = ["replay", text(&store), "--check", text(&second_store), "--prefix", "pump/"];
    assert_eq!(logctl(&filtered).0, 0);
    first.stop();
    second.stop();
}

#[test]
fn a_snapshot_is_compared_with_a_replay_from_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let daemon = Daemon::start(&store, &[]);
    fill(&mut daemon.client());
    let (code, told) = logctl(&["replay", text(&store), "--check", "snapshot"]);
    assert_eq!((code, told.contains("the digest agrees")), (0, true), "{told}");
    let end = digest(&daemon);
    daemon.kill();
    let (code, told) = logctl(&["replay", text(&store), "--check", &end]);
    assert_eq!(code, 0, "{told}");
    let filtered = directory.path().join("filtered");
    let words = ["replay", text(&store), "--into", text(&filtered), "--keyspace", "db3"];
    assert_eq!(logctl(&words).0, 0);
    let daemon = Daemon::start(&filtered, &[]);
    assert_eq!(ask(&mut daemon.client(), "DBSIZE"), Reply::Integer(0));
    ask(&mut daemon.client(), "SELECT 3");
    daemon.stop();
}

#[test]
fn health_is_an_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let daemon = Daemon::start(&store, &[]);
    fill(&mut daemon.client());
    for place in [format!("redis://127.0.0.1:{}", daemon.port()), text(&store).to_owned()] {
        let (code, told) = logctl(&["health", &place, "--json"]);
        // The disk of the machine that tests may be nearly full.
        assert!(code == 0 || (code < 3 && told.contains("% ")) || told.contains("\"what\": \"disk\""), "{told}");
    }
    let gone = format!("redis://127.0.0.1:{}", daemon.port());
    daemon.stop();
    assert_eq!(logctl(&["health", &gone]).0, 2, "what cannot be reached is bad");
    assert_eq!(logctl(&["health", text(directory.path())]).0, 3);
    let mut bytes = std::fs::read(store.join("manifest")).unwrap();
    bytes.iter_mut().step_by(100).for_each(|byte| *byte ^= 0xff);
    std::fs::write(store.join("manifest"), bytes).unwrap();
    assert_eq!(logctl(&["health", text(&store)]).0, 2);
}

#[test]
fn pages_and_completions_are_made_of_the_flags() {
    let directory = tempfile::tempdir().unwrap();
    let (code, told) = logctl(&["man", text(directory.path())]);
    assert_eq!(code, 0, "{told}");
    for page in ["logctl.1", "logctl-backup.1", "logctl-replay.1", "logd.1"] {
        assert!(told.contains(page), "{page}: {told}");
    }
    let page = std::fs::read_to_string(directory.path().join("logctl-replay.1")).unwrap();
    assert!(page.contains("Examples") && page.contains("before"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, told) = logctl(&["completions", shell]);
        assert!(code == 0 && told.contains("before-lsn"), "{shell}");
    }
    assert!(logctl(&["completions", "bash", "--program", "logd"]).1.contains("snapshots-kept"));
}
