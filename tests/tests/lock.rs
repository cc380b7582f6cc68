//! One process at a time: the lock belongs to the process, not to the file.

use logd_engine::{Db, Options};
use logd_tests::daemon::{Daemon, run};
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a scratch directory");
    for found in std::fs::read_dir(from).expect("a store") {
        let found = found.expect("a name");
        if found.path().is_dir() {
            copy(&found.path(), &to.join(found.file_name()));
        } else {
            std::fs::copy(found.path(), to.join(found.file_name())).expect("room");
        }
    }
}

#[test]
fn the_lock_file_of_a_dead_or_foreign_process_is_no_obstacle() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let daemon = Daemon::start(&data, &[]);
    daemon.client().done(&["SET", "k", "v"]);
    daemon.kill();
    assert!(data.join("LOCK").exists(), "kill -9 leaves the file");
    // As after a restart of the machine: another process has that number now.
    std::fs::write(data.join("LOCK"), "1\n").expect("ours");
    let daemon = Daemon::start(&data, &[]);
    assert_eq!(daemon.client().get("k").as_deref(), Some("v"));
}

#[test]
fn a_copy_of_a_running_stores_directory_starts_beside_it() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (data, other) = (directory.path().join("data"), directory.path().join("other"));
    let daemon = Daemon::start(&data, &[]);
    daemon.client().done(&["SET", "k", "v"]);
    copy(&data, &other);
    let second = Daemon::start(&other, &[]);
    assert_eq!(second.client().get("k").as_deref(), Some("v"));
    second.client().done(&["SET", "k", "w"]);
    assert_eq!(daemon.client().get("k").as_deref(), Some("v"));
}

#[test]
fn a_directory_that_is_open_elsewhere_is_refused_to_daemon_and_library() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let data = directory.path().join("data");
    let db = Db::open(&data, Options::default()).expect("a fresh store");
    let again = Db::open(&data, Options::default()).err().expect("once a process too");
    assert!(again.to_string().contains("in use"), "{again}");
    let second = run("logd", &["--dir", &data.to_string_lossy(), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use"));
    db.close().expect("a working disk");
    let daemon = Daemon::start(&data, &[]);
    let refused = Db::open(&data, Options::default()).err().expect("the daemon has it");
    assert!(refused.to_string().contains("in use"), "{refused}");
    daemon.kill();
    Db::open(&data, Options::default()).expect("nobody has it any more");
}
