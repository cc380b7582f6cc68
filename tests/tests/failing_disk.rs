//! A disk that fails: writes and syncs with an error, a file system that turns read-only, one that is gone.
//! The log latches: every waiting client gets an error, nothing is acknowledged afterwards, reads go on, and it is told.

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::{Daemon, Signal};
use logd_tests::image::{FileSystem, Image, Journal};
use logd_tests::load::Done;
use logd_tests::round::{Load, Promise, check_verify};
use logd_tests::trace::{injecting, lend};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn check_latched(daemon: &Daemon, client: &mut Client) {
    assert_eq!(client.get("early").as_deref(), Some("v"), "reads go on");
    for words in [&["SET", "late", "v"][..], &["DEL", "early"], &["INCR", "n"], &["MSET", "a", "1", "b", "2"]] {
        let error = client.refused(words);
        assert!(error.contains("writes are refused"), "{words:?}: {error}");
    }
    assert_eq!(client.get("late"), None, "a refused write is not seen");
    assert_eq!(daemon.client().get("early").as_deref(), Some("v"), "new clients are served too");
    assert_ne!(client.info("failure"), "");
    assert_eq!(client.info("aof_last_write_status"), "err");
}

fn check_all_were_told(all: &[Done]) {
    for done in all {
        assert!(done.error.is_some(), "writer {} was told", done.writer);
        assert_eq!(done.acknowledged_after_error, 0, "nothing is acknowledged after {:?}", done.error);
    }
}

/// Load until the disk fails; then everyone is told, the exit code says it, and all that was acknowledged comes back.
fn a_failure_latches(injections: &[&str], flags: &[&str], promise: Promise) {
    let Some(wrapper) = injecting(injections) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start_under(&lend(&wrapper), &data, flags);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    let mut load = Load::default();
    let all = load.start(&daemon).ended();
    check_all_were_told(&all);
    check_latched(&daemon, &mut client);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(1), "a stop that could not sync says so: {}", ended.said);
    assert!(ended.said.contains("failed to"), "{}", ended.said);
    check_verify(&data);
    let daemon = Daemon::start(&data, flags);
    load.check(&daemon, all, promise);
    daemon.client().done(&["SET", "late", "v"]);
}

#[test]
fn after_a_failed_durable_write_every_waiting_client_gets_an_error_and_none_an_ok() {
    a_failure_latches(&["pwritev2:error=EIO:when=40+"], &["--io", "syscall"], Promise::All);
}

#[test]
fn one_failed_durable_write_is_final_though_the_next_would_succeed() {
    a_failure_latches(&["pwritev2:error=EIO:when=40"], &["--io", "syscall"], Promise::All);
}

#[test]
fn a_failed_sync_of_written_commands_is_final() {
    let flags = ["--io", "syscall", "--durability", "written", "--lag-ms", "100"];
    a_failure_latches(&["fdatasync,pwritev2:error=EIO:when=9"], &flags, Promise::Prefix);
}

#[test]
fn after_a_failed_sync_what_it_did_not_cover_counts_as_unsynced_for_ever() {
    let Some(wrapper) = injecting(&["fdatasync,pwritev2:error=EIO:when=8"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let flags = ["--io", "syscall", "--durability", "accepted", "--lag-ms", "60"];
    let daemon = Daemon::start_under(&lend(&wrapper), &directory.path().join("data"), &flags);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    let begun = Instant::now();
    while client.info("failure").is_empty() {
        let _ = client.call(&["SET", "more", "v"]).expect("an answer, be it an error");
        assert!(begun.elapsed() < PATIENCE, "the sync that fails came");
    }
    let numbers = |client: &mut Client| (client.info("lsn_assigned"), client.info("lsn_synced"));
    let (assigned, synced) = numbers(&mut client);
    assert_ne!(assigned, synced, "the failed sync covered nothing");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(numbers(&mut client), (assigned, synced), "three intervals later it is the same");
    check_latched(&daemon, &mut client);
}

#[test]
fn a_disk_that_is_gone_under_io_uring_leaves_reads_and_is_told() {
    if !Image::can_cut_power() {
        return;
    }
    let Some(image) = Image::make(FileSystem::Ext4, 64) else { return };
    let daemon = Daemon::start(&image.path().join("data"), &[]);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    let running = Load::default().start(&daemon);
    std::thread::sleep(Duration::from_millis(100));
    image.cut_power(Journal::Lost);
    check_all_were_told(&running.ended());
    check_latched(&daemon, &mut client);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(1));
}

#[test]
fn a_file_system_that_turns_read_only_refuses_writes_and_loses_nothing() {
    let Some(image) = Image::make(FileSystem::Ext4, 64) else { return };
    let data = image.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    let mut client = daemon.client();
    client.done(&["SET", "early", "v"]);
    let mut load = Load::default();
    let running = load.start(&daemon);
    std::thread::sleep(Duration::from_millis(100));
    image.turn_read_only();
    let all = running.ended();
    check_all_were_told(&all);
    check_latched(&daemon, &mut client);
    daemon.kill();
    image.mount_read_only();
    let ended = Daemon::try_start_under(&[], &data, &[]).err().expect("it cannot work on a read-only file system");
    assert_eq!(ended.code, Some(1));
    assert!(ended.said.to_lowercase().contains("read-only"), "it says plainly why: {}", ended.said);
    image.mount_again();
    let daemon = Daemon::start(&data, &[]);
    load.check(&daemon, all, Promise::All);
    assert_eq!(daemon.client().get("early").as_deref(), Some("v"));
    daemon.kill();
}

#[test]
fn a_directory_sync_that_is_not_supported_refuses_the_start_once_and_with_a_reason() {
    let Some(wrapper) = injecting(&["fsync:error=EINVAL"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let started = Daemon::try_start_under(&lend(&wrapper), &directory.path().join("data"), &[]);
    let ended = started.err().expect("names that do not last are no place for a store");
    assert_eq!(ended.code, Some(1));
    assert!(ended.said.contains("failed to open") && ended.said.contains("sync"), "{}", ended.said);
}

#[test]
fn a_disk_that_lies_about_syncs_leaves_a_prefix_or_a_refusal_with_a_reason() {
    if !Image::can_cut_power() {
        return;
    }
    // The calls are skipped and reported as done. Durable writes (RWF_DSYNC) are refused, so that plain ones and syncs take over.
    let lies = ["fdatasync,fsync:retval=0:when=12+", "pwritev2:error=EOPNOTSUPP"];
    let Some(wrapper) = injecting(&lies) else { return };
    for round in 0..2 {
        let Some(image) = Image::make(FileSystem::Ext4, 64) else { return };
        let data = image.path().join("data");
        let daemon = Daemon::start_under(&lend(&wrapper), &data, &["--io", "syscall", "--segment-bytes", "1M"]);
        let mut load = Load::default();
        let running = load.start(&daemon);
        std::thread::sleep(Duration::from_millis(150));
        image.cut_power(if round == 0 { Journal::Lost } else { Journal::Written });
        let all = running.ended();
        daemon.kill();
        image.mount_again();
        let verdict = logd_tests::daemon::run("logctl", &["verify", &data.to_string_lossy()]).status.code();
        match Daemon::try_start_under(&[], &data, &[]) {
            Ok(daemon) => {
                assert!(matches!(verdict, Some(0 | 1)), "verify says {verdict:?} of a store that opens");
                load.check(&daemon, all, Promise::Prefix);
                daemon.kill();
            }
            Err(ended) => {
                assert!(!matches!(verdict, Some(0 | 1)), "verify says {verdict:?} of a store that is refused");
                assert!(ended.said.contains("failed to open"), "it says why: {}", ended.said);
            }
        }
    }
}

#[test]
fn a_reply_that_waits_for_a_slow_sync_becomes_an_error_when_that_sync_fails() {
    let Some(wrapper) = injecting(&["pwritev2:error=EIO:delay_enter=400000:when=30+"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let daemon = Daemon::start_under(&lend(&wrapper), &directory.path().join("data"), &["--io", "syscall"]);
    let mut clients: Vec<Client> = (0..8).map(|_| daemon.client()).collect();
    let set = vec![b"SET".to_vec(), b"k".to_vec(), b"v".to_vec()];
    let mut failed = vec![false; clients.len()];
    let begun = Instant::now();
    while !failed.iter().all(|failed| *failed) {
        clients.iter_mut().for_each(|client| client.send(std::slice::from_ref(&set)).expect("it serves"));
        for (client, failed) in clients.iter_mut().zip(&mut failed) {
            match client.receive().expect("each waiting client is answered") {
                Reply::Error(_) => *failed = true,
                reply => assert!(!*failed, "no {reply:?} after an error"),
            }
        }
        assert!(begun.elapsed() < PATIENCE, "the write that fails came");
    }
}
