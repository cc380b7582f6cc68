//! Starts after unclean stops: also after several, after one during the start itself, and with a torn end each time.

use logd_tests::daemon::Daemon;
use logd_tests::round::{Load, Promise, rounds};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn newest_segment(data: &Path) -> PathBuf {
    let names = fs::read_dir(data.join("log")).expect("a store").map(|found| found.expect("a name").path());
    let written = names.filter(|path| fs::read(path).expect("ours").starts_with(b"LOGDSEG"));
    written.max().expect("a store has a segment")
}

/// Where the last batch ends: segments are zeros behind it.
fn end_of_content(segment: &Path) -> u64 {
    let bytes = fs::read(segment).expect("ours");
    bytes.iter().rposition(|byte| *byte != 0).expect("a header") as u64 + 1
}

fn set_all(daemon: &Daemon, from: usize, to: usize) {
    let mut client = daemon.client();
    (from..to).for_each(|number| client.done(&["SET", &format!("k{number}"), "v"]));
}

#[test]
fn what_is_written_behind_a_torn_end_survives_the_second_start() {
    for garbage in [false, true] {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let data = directory.path().join("data");
        let daemon = Daemon::start(&data, &[]);
        set_all(&daemon, 0, 100);
        daemon.kill();
        let segment = newest_segment(&data);
        let (end, file) = (end_of_content(&segment), fs::OpenOptions::new().write(true).open(&segment).expect("ours"));
        if garbage {
            file.write_all_at(&[0xa5; 500], end.next_multiple_of(4096)).expect("room");
        } else {
            file.write_all_at(&[0; 7], end - 7).expect("room");
        }
        drop(file);
        let daemon = Daemon::start(&data, &[]);
        set_all(&daemon, 100, 200);
        daemon.kill();
        let daemon = Daemon::start(&data, &[]);
        let count = daemon.client().number(&["DBSIZE"]);
        assert!(count == 200 || (count == 199 && !garbage), "{count} keys, garbage: {garbage}: {}", daemon.said());
    }
}

#[test]
fn after_each_kill_under_load_every_write_is_answered() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M", "--checkpoint-log-bytes", "2M"];
    let mut load = Load::default();
    for round in 0..rounds(6) {
        let daemon = Daemon::start(&data, &flags);
        set_all(&daemon, 0, 100);
        let running = load.start(&daemon);
        std::thread::sleep(Duration::from_millis(20 + round * 31 % 150));
        daemon.kill();
        let all = running.ended();
        let daemon = Daemon::start(&data, &flags);
        load.check(&daemon, all, Promise::All);
        daemon.kill();
    }
}

#[test]
fn kills_during_the_start_change_nothing_of_what_it_finds_in_the_end() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M"];
    let mut load = Load::default();
    let daemon = Daemon::start(&data, &flags);
    let running = load.start(&daemon);
    std::thread::sleep(Duration::from_millis(200));
    daemon.kill();
    let all = running.ended();
    let segment = newest_segment(&data);
    let end = end_of_content(&segment).next_multiple_of(4096);
    fs::OpenOptions::new()
        .write(true)
        .open(&segment)
        .and_then(|file| file.write_all_at(&[0xa5; 500], end))
        .expect("ours");
    for round in 0..rounds(25) {
        let daemon = Daemon::spawn_under(&[], &data, &flags);
        std::thread::sleep(Duration::from_micros(round * 397 % 20_000));
        daemon.kill();
    }
    let daemon = Daemon::start(&data, &flags);
    load.check(&daemon, all, Promise::All);
}

#[test]
fn a_kill_during_the_very_first_start_leaves_a_directory_that_starts() {
    for round in 0..rounds(25) {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let data = directory.path().join("data");
        let daemon = Daemon::spawn_under(&[], &data, &[]);
        std::thread::sleep(Duration::from_micros(round * 613 % 16_000));
        daemon.kill();
        let daemon = Daemon::start(&data, &[]);
        daemon.client().done(&["SET", "k", "v"]);
        daemon.kill();
        assert_eq!(Daemon::start(&data, &[]).client().get("k").as_deref(), Some("v"));
    }
}

#[test]
fn a_start_after_a_kill_does_not_claim_the_clean_stop_before_it() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    assert!(Daemon::start(&data, &[]).stop().0.success());
    let daemon = Daemon::start(&data, &[]);
    assert!(daemon.said().contains("clean stop"), "{}", daemon.said());
    daemon.client().done(&["SET", "k", "v"]);
    daemon.kill();
    let daemon = Daemon::start(&data, &[]);
    assert!(!daemon.said().contains("clean stop"), "{}", daemon.said());
    assert_eq!(daemon.client().get("k").as_deref(), Some("v"));
}

#[test]
fn a_transaction_killed_at_any_moment_is_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    for round in 0..rounds(5) {
        let daemon = Daemon::start(&data, &[]);
        let (mut client, count) = (daemon.client(), Arc::new(AtomicU64::new(0)));
        let counter = Arc::clone(&count);
        let writer = std::thread::spawn(move || {
            for number in 0.. {
                let value = format!("{round}.{number}").into_bytes();
                let set = |key: &str| vec![b"SET".to_vec(), key.as_bytes().to_vec(), value.clone()];
                let requests = [vec![b"MULTI".to_vec()], set("left"), set("right"), vec![b"EXEC".to_vec()]];
                let answered =
                    client.send(&requests).and_then(|()| (0..4).try_for_each(|_| client.receive().map(drop)));
                if answered.is_err() {
                    return;
                }
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        while count.load(Ordering::Relaxed) < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 17 % 100));
        daemon.kill();
        writer.join().expect("it just ends");
        let daemon = Daemon::start(&data, &[]);
        let mut client = daemon.client();
        let (left, right) = (client.get("left"), client.get("right"));
        assert!(left.is_some_and(|value| value.starts_with(&format!("{round}."))), "it got something done");
        assert_eq!(client.get("left"), right, "both or none");
        daemon.kill();
    }
}

#[test]
fn what_killed_checkpoints_left_behind_is_cleared_away() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M", "--checkpoint-rate", "256K", "--snapshots-kept", "1"];
    for _ in 0..4 {
        let daemon = Daemon::start(&data, &flags);
        let mut client = daemon.client();
        for number in 0..30 {
            client.done(&["SET", &format!("k{number}"), &"x".repeat(60_000)]);
        }
        // An error only says that one is being written already.
        client.call(&["BGSAVE"]).expect("an answer");
        std::thread::sleep(Duration::from_millis(60));
        daemon.kill();
    }
    let daemon = Daemon::start(&data, &flags);
    daemon.client().done(&["SAVE"]);
    daemon.client().done(&["SAVE"]);
    assert!(daemon.stop().0.success());
    let names: Vec<String> = fs::read_dir(data.join("snapshot"))
        .expect("a store")
        .map(|found| found.expect("a name").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 1, "one snapshot is kept and nothing else: {names:?}");
    assert!(names[0].ends_with(".snap"), "{names:?}");
}

#[test]
fn a_place_that_cannot_be_a_store_is_refused_on_one_line() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let file = directory.path().join("file");
    fs::write(&file, "no store").expect("room");
    for place in [file.clone(), file.join("below"), PathBuf::from("/proc/logd-data")] {
        let ended = Daemon::try_start_under(&[], &place, &[]).err().expect("it is no place");
        assert_eq!(ended.code, Some(1), "{}", place.display());
        let reasons = ended.said.lines().filter(|line| line.contains("failed to open")).count();
        assert_eq!(reasons, 1, "{}: {}", place.display(), ended.said);
    }
    assert_eq!(fs::read_to_string(&file).expect("ours"), "no store", "it is left as it was");
}

#[test]
fn files_of_zeros_never_pass_for_a_fresh_store() {
    for name in ["manifest", "snapshot"] {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let data = directory.path().join("data");
        let daemon = Daemon::start(&data, &["--snapshots-kept", "1"]);
        set_all(&daemon, 0, 10);
        daemon.client().done(&["SAVE"]);
        assert!(daemon.stop().0.success());
        let path = match name {
            "manifest" => data.join(name),
            _ => fs::read_dir(data.join(name)).expect("a store").next().expect("a snapshot").expect("a name").path(),
        };
        let bytes = fs::metadata(&path).expect("ours").len();
        fs::write(&path, vec![0; usize::try_from(bytes).expect("it is small")]).expect("room");
        let ended = Daemon::try_start_under(&[], &data, &[]).err().expect("it is damaged");
        assert!(ended.said.contains("failed to open") && ended.said.contains(name), "{name}: {}", ended.said);
        assert_eq!(fs::metadata(&path).expect("ours").len(), bytes, "nothing is changed");
    }
}
