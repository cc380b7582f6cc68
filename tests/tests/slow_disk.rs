//! A slow disk: reads do not wait for it, writes wait their turn, and what is more than the log's queue takes waits as well.

use logd_tests::client::Reply;
use logd_tests::daemon::{Daemon, Signal};
use logd_tests::trace::{injecting, lend};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn reads_are_answered_while_a_write_waits_for_a_stuck_disk() {
    let Some(wrapper) = injecting(&["pwritev2:delay_enter=2500000:when=25"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let daemon = Daemon::start_under(&lend(&wrapper), &directory.path().join("data"), &["--io", "syscall"]);
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (mut client, count, stop) = (daemon.client(), Arc::clone(&count), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                client.done(&["SET", "k", "v"]);
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let (mut last, mut since, begun) = (0, Instant::now(), Instant::now());
    while since.elapsed() < Duration::from_millis(600) {
        assert!(begun.elapsed() < PATIENCE, "the disk got stuck");
        if count.load(Ordering::Relaxed) != last {
            (last, since) = (count.load(Ordering::Relaxed), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut reader = daemon.client();
    for _ in 0..200 {
        assert_eq!(reader.get("k").as_deref(), Some("v"));
    }
    assert!(count.load(Ordering::Relaxed) <= last + 1, "two hundred reads overtook the write");
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("the write was acknowledged in the end");
}

#[test]
fn a_pipeline_larger_than_the_logs_queue_waits_and_loses_nothing() {
    let Some(wrapper) = injecting(&["pwritev2:delay_enter=15000"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start_under(&lend(&wrapper), &data, &["--io", "syscall", "--segment-bytes", "1M"]);
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let mut client = daemon.client();
            std::thread::spawn(move || {
                let key = |number: usize| format!("w{writer}:{number}").into_bytes();
                let requests: Vec<_> =
                    (0..120).map(|number| vec![b"SET".to_vec(), key(number), vec![b'x'; 10_000]]).collect();
                client.send(&requests).expect("it takes all of them");
                for number in 0..120 {
                    let reply = client.receive().expect("each is answered");
                    assert_eq!(reply, Reply::Simple("OK".to_owned()), "{number} of writer {writer}");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no request was refused");
    }
    daemon.kill();
    assert_eq!(Daemon::start(&data, &[]).client().number(&["DBSIZE"]), 360);
}

#[test]
fn a_second_signal_during_a_stop_that_waits_for_the_disk_ends_it_at_once_with_1() {
    let Some(wrapper) = injecting(&["fdatasync,pwritev2:delay_enter=4000000:when=12+"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let flags = ["--io", "syscall", "--durability", "accepted", "--lag-ms", "60000"];
    let daemon = Daemon::start_under(&lend(&wrapper), &data, &flags);
    let mut client = daemon.client();
    for number in 0..20 {
        client.done(&["SET", &format!("k{number}"), "v"]);
        // Each makes its own durable write until one is slow; that one need not be waited for.
        if client.call(&["WAITAOF", "1", "0", "300"]).is_ok()
            && client.info("lsn_assigned") != client.info("lsn_synced")
        {
            break;
        }
    }
    daemon.signal(Signal::TERM);
    let begun = Instant::now();
    while !daemon.said().contains("stopping") {
        assert!(begun.elapsed() < PATIENCE, "it heard the first signal");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(!ended.said.contains("stopped"), "{}", ended.said);
    let daemon = Daemon::start(&data, &[]);
    assert!(!daemon.said().contains("clean stop"), "it does not claim one: {}", daemon.said());
}
