//! A full disk: writes are refused before anything is changed, reads go on, and writes too once there is room again.
//! On an image of 16 MiB; skipped, with a line that says so, where none can be made.

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::{Daemon, run};
use logd_tests::image::{FileSystem, Image};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);
const FLAGS: [&str; 2] = ["--segment-bytes", "1M"];

fn value(number: usize) -> String {
    format!("{number}:{}", "x".repeat(20_000))
}

/// Writes values of 20 KiB until one is refused. Gives the number of those acknowledged, and the error.
fn fill_with_values(client: &mut Client, from: usize) -> (usize, String) {
    for number in from..10_000 {
        match client.call(&["SET", &format!("k{number}"), &value(number)]).expect("the daemon lives on") {
            Reply::Error(text) => return (number, text),
            reply => assert_eq!(reply, Reply::Simple("OK".to_owned())),
        }
    }
    panic!("an image of 16 MiB holds no 200 MB");
}

/// Small values, until one is refused too: they fit where a large one does not.
fn fill_the_rest(client: &mut Client) {
    let refused = (0..100_000).any(|_| matches!(client.call(&["SET", "small", "v"]), Ok(Reply::Error(_))));
    assert!(refused, "the log's last segment is full at last");
}

fn check_values(client: &mut Client, count: usize) {
    for number in 0..count {
        assert_eq!(client.get(&format!("k{number}")), Some(value(number)), "k{number} of {count}");
    }
    assert_eq!(client.get(&format!("k{count}")), None, "a refused write is not there");
}

fn write_until_taken(client: &mut Client, key: &str, value: &str) {
    let begun = Instant::now();
    while let Reply::Error(text) = client.call(&["SET", key, value]).expect("the daemon lives on") {
        assert!(begun.elapsed() < PATIENCE, "there is room again, but: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_same_process_takes_writes_again_once_foreign_files_are_gone() {
    let Some(image) = Image::make(FileSystem::Ext4, 16) else { return };
    let data = image.path().join("data");
    let daemon = Daemon::start(&data, &FLAGS);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    let foreign = image.fill();
    let (count, error) = fill_with_values(&mut client, 0);
    assert!(error.contains("space"), "it says why: {error}");
    check_values(&mut client, count);
    fill_the_rest(&mut client);
    assert_eq!(client.info("aof_last_write_status"), "err");
    assert_eq!(client.info("failure"), "", "a full disk is no failed disk");
    std::fs::remove_file(foreign).expect("it is ours");
    write_until_taken(&mut client, &format!("k{count}"), &value(count));
    for number in count + 1..count + 50 {
        client.done(&["SET", &format!("k{number}"), &value(number)]);
    }
    assert_eq!(client.info("aof_last_write_status"), "ok");
    check_values(&mut client, count + 50);
    daemon.kill();
    let daemon = Daemon::start(&data, &FLAGS);
    check_values(&mut daemon.client(), count + 50);
    daemon.kill();
}

#[test]
fn what_a_full_disk_refuses_is_refused_whole() {
    let Some(image) = Image::make(FileSystem::Ext4, 16) else { return };
    let daemon = Daemon::start(&image.path().join("data"), &FLAGS);
    let mut client = daemon.client();
    client.done(&["SET", "from", &value(0)]);
    client.done(&["SET", "n", "5"]);
    image.fill();
    let (count, _) = fill_with_values(&mut client, 0);
    let large = value(1);
    assert!(client.refused(&["MSET", "n", "6", "large", &large]).contains("space"));
    assert!(client.refused(&["SET", "n", &large]).contains("space"));
    assert!(client.refused(&["RENAME", "from", "to"]).contains("space"), "its value goes into the log again");
    client.done(&["MULTI"]);
    client.call(&["SET", "n", "7"]).expect("queued");
    client.call(&["SET", "large", &large]).expect("queued");
    let reply = client.call(&["EXEC"]).expect("an answer");
    assert!(matches!(&reply, Reply::Error(text) if text.contains("space")), "{reply:?}");
    assert_eq!(client.get("n").as_deref(), Some("5"));
    assert_eq!(client.get("from"), Some(value(0)), "the source of a rename is still there");
    assert_eq!((client.get("to"), client.get("large")), (None, None));
    check_values(&mut client, count);
}

#[test]
fn a_store_that_filled_its_disk_starts_reads_and_goes_on() {
    let Some(image) = Image::make(FileSystem::Ext4, 16) else { return };
    let data = image.path().join("data");
    let daemon = Daemon::start(&data, &FLAGS);
    let foreign = image.fill();
    let (count, _) = fill_with_values(&mut daemon.client(), 0);
    daemon.kill();
    let code = run("logctl", &["verify", &data.to_string_lossy()]).status.code();
    assert!(matches!(code, Some(0 | 1)), "verify says {code:?}");
    for round in 0..3 {
        let daemon = Daemon::start(&data, &FLAGS);
        check_values(&mut daemon.client(), count);
        if round == 1 {
            assert!(daemon.stop().0.success(), "a full disk does not keep it from a clean stop");
        } else {
            daemon.kill();
        }
    }
    std::fs::remove_file(foreign).expect("it is ours");
    let daemon = Daemon::start(&data, &FLAGS);
    write_until_taken(&mut daemon.client(), "late", "v");
    check_values(&mut daemon.client(), count);
    daemon.kill();
}
