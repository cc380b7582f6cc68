//! Other circumstances from start to start: settings, memory, and tools that look on while it runs.

use logd_tests::client::Reply;
use logd_tests::daemon::{Daemon, run};
use logd_tests::load::Done;
use logd_tests::round::{Load, Promise, check_replay, check_verify};
use logd_tests::trace::{is_possible, lend, with_mebibytes};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for found in std::fs::read_dir(directory).expect("a store").map(|found| found.expect("a name").path()) {
        if found.is_dir() {
            all.extend(files(&found));
        } else {
            all.insert(found.to_string_lossy().into_owned(), std::fs::read(&found).expect("readable"));
        }
    }
    all
}

#[test]
fn every_start_may_have_other_settings() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let settings: [&[&str]; 6] = [
        &["--segment-bytes", "16M", "--shards", "4"],
        &["--segment-bytes", "1M", "--shards", "64", "--snapshots-kept", "1"],
        &["--durability", "accepted", "--io", "syscall"],
        &["--segment-bytes", "2M", "--shards", "1", "--checkpoint-log-bytes", "2M"],
        &["--durability", "written", "--lag-ms", "20", "--threads", "1"],
        &[],
    ];
    let large = "x".repeat(2_000_000);
    let mut load = Load::default();
    for (round, flags) in settings.iter().enumerate() {
        let daemon = Daemon::start(&data, flags);
        let mut client = daemon.client();
        if round == 0 {
            client.done(&["SET", "large", &large]);
        }
        assert_eq!(client.get("large").as_ref(), Some(&large), "{flags:?}");
        if flags.contains(&"1M") {
            let error = client.refused(&["RENAME", "large", "larger"]);
            assert!(error.contains("larger than"), "what no longer fits is refused and kept: {error}");
        }
        let running = load.start(&daemon);
        std::thread::sleep(Duration::from_millis(80));
        client.done(&["SAVE"]);
        daemon.kill();
        let all = running.ended();
        check_verify(&data);
        let daemon = Daemon::start(&data, flags);
        load.check(&daemon, all, if round % 2 == 0 && round > 1 { Promise::Prefix } else { Promise::All });
        check_replay(&data, &daemon);
        assert!(daemon.stop().0.success());
    }
}

#[test]
fn a_store_of_one_key_is_small() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    daemon.client().done(&["SET", "k", "v"]);
    assert!(daemon.stop().0.success());
    let bytes: usize = files(&data).values().map(Vec::len).sum();
    assert!(bytes < 2 << 20, "{bytes} bytes for one key");
}

#[test]
fn out_of_memory_costs_nothing_that_was_acknowledged() {
    let wrapper = with_mebibytes(700);
    if !is_possible(&wrapper) {
        return;
    }
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "16M", "--durability", "written", "--threads", "2"];
    let daemon = Daemon::start_under(&lend(&wrapper), &data, &flags);
    let mut client = daemon.client();
    let value = "x".repeat(1_000_000);
    let (mut acknowledged, mut is_refused) = (0, false);
    for number in 0..1000 {
        match client.call(&["SET", &format!("k{number}"), &value]) {
            Ok(Reply::Simple(_)) => acknowledged = number + 1,
            Ok(_) | Err(_) => {
                is_refused = true;
                break;
            }
        }
    }
    assert!(is_refused && acknowledged > 50, "it ran out of memory after {acknowledged} MB");
    drop(daemon);
    check_verify(&data);
    let daemon = Daemon::start(&data, &flags);
    let mut client = daemon.client();
    for number in 0..acknowledged {
        assert_eq!(client.number(&["STRLEN", &format!("k{number}")]), 1_000_000, "k{number} of {acknowledged}");
    }
}

/// While it runs, its log may change between two looks of a tool: then the tool must say that its verdict is not final.
fn check_tools(data: &Path, is_busy: bool) {
    let directory = data.to_string_lossy().into_owned();
    for words in [&["verify"][..], &["dump"], &["replay"], &["digest"], &["stats"]] {
        for json in [false, true] {
            let mut words: Vec<&str> = words.to_vec();
            words.push(&directory);
            words.extend(json.then_some("--json"));
            let output = run("logctl", &words);
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let code = output.status.code().unwrap_or_else(|| panic!("{words:?} was killed: {said}"));
            let is_told = is_busy && (said.contains("has this store open") || said.contains("had this store open"));
            assert!(code <= 1 || is_told, "{words:?}: {code}: {said}");
            assert!(!said.contains("panicked"), "{words:?}: {said}");
        }
    }
}

#[test]
fn tools_change_nothing_in_a_running_store_and_understand_it() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &["--segment-bytes", "1M", "--checkpoint-log-bytes", "2M"]);
    let load = Load::default();
    let running = load.start(&daemon);
    for _ in 0..3 {
        check_tools(&data, true);
    }
    let all: Vec<Done> = running.finish();
    assert!(
        all.iter().all(|done| done.error.is_none() && done.acknowledged > 0),
        "the load was not disturbed: {all:?}"
    );
    daemon.client().done(&["SAVE"]);
    let before = files(&data);
    check_tools(&data, false);
    assert!(files(&data) == before, "nobody writes, so nothing changes");
}
