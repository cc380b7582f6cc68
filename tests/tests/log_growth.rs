//! The log does not grow for ever: overwriting stays bounded; a snapshot that cannot be written is told about.

use logd_tests::client::Client;
use logd_tests::daemon::Daemon;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn directory_bytes(path: &Path) -> u64 {
    let names = std::fs::read_dir(path).expect("a store").map(|found| found.expect("a name"));
    names
        .filter_map(|found| {
            let about = found.metadata().ok()?;
            Some(if about.is_dir() { directory_bytes(&found.path()) } else { about.len() })
        })
        .sum()
}

/// Overwrites a hundred keys.
fn overwrite(client: &mut Client, mebibytes: usize) {
    let value = vec![b'x'; 10_000];
    for number in 0..mebibytes * 10 {
        let keys = (0..10).map(|at| format!("k{}", (number * 10 + at) % 100).into_bytes());
        let requests: Vec<_> = keys.map(|key| vec![b"SET".to_vec(), key, value.clone()]).collect();
        client.send(&requests).expect("it takes them");
        (0..10).for_each(|_| drop(client.receive().expect("an answer")));
    }
}

#[test]
fn overwriting_the_same_keys_keeps_the_directory_bounded() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M", "--checkpoint-log-bytes", "4M", "--snapshots-kept", "1"];
    let daemon = Daemon::start(&data, &flags);
    let mut client = daemon.client();
    let mut largest = 0;
    for _ in 0..12 {
        overwrite(&mut client, 5);
        largest = largest.max(directory_bytes(&data));
    }
    // The log may be twice its trigger while a snapshot is written, and there are two snapshots of 1 MB for a moment.
    assert!(largest < 24 * MIB, "{largest} bytes for 1 MB of data after 60 MB of writes");
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told_and_tried_again() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--segment-bytes", "1M", "--checkpoint-log-bytes", "2M", "--snapshots-kept", "1"];
    let daemon = Daemon::start(&data, &flags);
    let mut client = daemon.client();
    overwrite(&mut client, 1);
    let set = |flag: &str| {
        let status = Command::new("chattr").arg(flag).arg(data.join("snapshot")).status();
        status.is_ok_and(|status| status.success())
    };
    if !set("+i") {
        eprintln!("skipped, since no directory can be made immutable here");
        return;
    }
    overwrite(&mut client, 8);
    let begun = Instant::now();
    while client.info("rdb_last_bgsave_status") != "err" && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, row, failure) =
        (client.info("rdb_last_bgsave_status"), client.info("snapshot_0"), client.info("failure"));
    assert!(set("-i"));
    assert_eq!(status, "err", "{row}");
    assert!(row.contains("result=") && !row.contains("result=success"), "{row}");
    assert_eq!(failure, "", "the log does not depend on it");
    client.done(&["SAVE"]);
    overwrite(&mut client, 3);
    let begun = Instant::now();
    while directory_bytes(&data) > 12 * MIB {
        assert!(begun.elapsed() < Duration::from_secs(30), "the log is cut again");
        overwrite(&mut client, 1);
    }
    daemon.kill();
    let daemon = Daemon::start(&data, &flags);
    assert_eq!(daemon.client().number(&["DBSIZE"]), 100);
}
