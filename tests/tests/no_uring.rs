//! A kernel or container that refuses io_uring: plain system calls take over, it is told, and the store is the same one.

use logd_tests::daemon::Daemon;
use logd_tests::round::{Load, Promise, check_verify};
use logd_tests::trace::{injecting, lend};
use std::time::Duration;

#[test]
fn where_io_uring_is_refused_plain_calls_take_over_and_keep_the_promise() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let mut load = Load::default();
    // As an old kernel says it, as container profiles do, and not at all: the files are the same.
    for error in [Some("ENOSYS"), Some("EPERM"), None] {
        let refusal = error.map(|error| format!("io_uring_setup:error={error}"));
        let wrapper = match &refusal {
            Some(refusal) => injecting(&[refusal]),
            None => Some(Vec::new()),
        };
        let Some(wrapper) = wrapper else { return };
        let daemon = Daemon::start_under(&lend(&wrapper), &data, &[]);
        let mut client = daemon.client();
        if error.is_some() {
            assert_eq!(client.info("disk_backend"), "syscall");
            assert!(client.info("disk_notes").contains("io_uring is refused"), "{}", client.info("disk_notes"));
        }
        let running = load.start(&daemon);
        std::thread::sleep(Duration::from_millis(100));
        daemon.kill();
        let all = running.ended();
        check_verify(&data);
        let daemon = Daemon::start_under(&lend(&wrapper), &data, &[]);
        load.check(&daemon, all, Promise::All);
        daemon.kill();
    }
    load.check_progress();
}

#[test]
fn who_insists_on_io_uring_is_refused_with_a_reason() {
    let Some(wrapper) = injecting(&["io_uring_setup:error=ENOSYS"]) else { return };
    let directory = tempfile::tempdir().expect("a scratch directory");
    let started = Daemon::try_start_under(&lend(&wrapper), &directory.path().join("data"), &["--io", "uring"]);
    let ended = started.err().expect("it cannot be had");
    assert_eq!(ended.code, Some(1));
    assert!(ended.said.contains("io_uring"), "{}", ended.said);
}
