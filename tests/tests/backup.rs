//! Backups of a daemon under load: copied, copied again, restored to points that a client took note of.
//! Method: writers go on all the time but for moments at which a client asks the digest and looks at the clock.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::{Daemon, program, run};
use logd_tests::load::start_writer;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const SMALL: &[&str] = &["--segment-bytes", "1M", "--checkpoint-log-bytes", "3M"];

/// What a client took note of.
#[derive(Clone, Debug)]
struct Note {
    millis: u64,
    lsn: u64,
    digest: String,
}

fn now_millis() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

fn digest(client: &mut Client) -> (u64, String) {
    match client.call(&["LOGD.DIGEST"]).unwrap() {
        Reply::Array(Some(items)) => match items.as_slice() {
            [Reply::Integer(lsn), digest] => (*lsn as u64, digest.text()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Writes for a while, then rests around a moment and takes note of it.
fn load_and_note(daemon: &Daemon, writers: &[u64], from: &mut [u64], busy: Duration, meanwhile: impl FnOnce()) -> Note {
    let stop = Arc::new(AtomicBool::new(false));
    let started = |(writer, from): (&u64, &u64)| start_writer(daemon.port(), *writer, *from, Arc::clone(&stop));
    let threads: Vec<_> = writers.iter().zip(from.iter()).map(started).collect();
    meanwhile();
    std::thread::sleep(busy);
    stop.store(true, Ordering::Relaxed);
    for (from, thread) in from.iter_mut().zip(threads) {
        *from = thread.join().unwrap().sent;
    }
    let (lsn, digest) = digest(&mut daemon.client());
    std::thread::sleep(Duration::from_millis(30));
    let millis = now_millis();
    std::thread::sleep(Duration::from_millis(30));
    Note { millis, lsn, digest }
}

fn logctl(words: &[&str]) -> String {
    let output = run("logctl", words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The digest of a directory when a daemon serves it.
fn digest_served(directory: &Path) -> String {
    let daemon = Daemon::start(directory, &[]);
    let (_, digest) = digest(&mut daemon.client());
    daemon.stop();
    digest
}

#[test]
fn a_store_copied_under_load_is_restored_to_points_that_a_client_took_note_of() {
    let directory = tempfile::tempdir().unwrap();
    let (store, backup) = (directory.path().join("store"), directory.path().join("backup"));
    let daemon = Daemon::start(&store, SMALL);
    let address = format!("redis://127.0.0.1:{}", daemon.port());
    let mut done = [0; 3];
    let busy = Duration::from_millis(700);
    let mut notes = Vec::new();
    for round in 0..4 {
        // While the writers write: by directory and by address, copied and linked.
        let note = load_and_note(&daemon, &[1, 2, 3], &mut done, busy, || {
            std::thread::sleep(busy);
            let place = if round % 2 == 0 { text(&store) } else { address.as_str() };
            let link = ["backup", place, text(&backup), "--link"];
            logctl(if round < 2 { &link[..3] } else { &link });
        });
        notes.push(note);
        // A log tells times in milliseconds: what follows must not fall into the one that was noted.
        std::thread::sleep(Duration::from_millis(2));
    }
    let report = logctl(&["backup", text(&store), text(&backup), "--json"]);
    assert!(logctl(&["backup", text(&store), text(&backup), "--json"]).contains("\"files\": 0"), "nothing is new");
    daemon.kill();
    assert!(report.contains("spans"), "{report}");

    for (at, note) in notes.iter().enumerate() {
        let flags = [
            ["--to-time".to_owned(), note.millis.to_string()],
            ["--to-lsn".to_owned(), note.lsn.to_string()],
            ["--before-lsn".to_owned(), (note.lsn + 1).to_string()],
        ];
        for flag in flags {
            let target = directory.path().join(format!("restored {at} {}", flag[0]));
            let words = ["restore", text(&backup), text(&target), &flag[0], &flag[1]];
            let output = run("logctl", &words);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if error.contains("not within the backup") || error.contains("reaches back") {
                // Checkpoints came faster than backups, which is told.
                continue;
            }
            assert!(output.status.success(), "{note:?} {flag:?}: {error}");
            let words = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(digest_served(&target), note.digest, "{note:?} {flag:?}: {words}");
        }
    }
    let last = notes.last().unwrap();
    let target = directory.path().join("end");
    logctl(&["restore", text(&backup), text(&target)]);
    assert_eq!(digest_served(&target), last.digest);
    let replayed = logctl(&["replay", text(&backup), "--check", &last.digest]);
    assert!(replayed.contains("the digest agrees"), "{replayed}");
}

#[test]
fn a_chosen_second_of_a_history_that_is_all_there_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let (store, backup) = (directory.path().join("store"), directory.path().join("backup"));
    let daemon = Daemon::start(&store, &["--segment-bytes", "4M", "--checkpoint-log-bytes", "512M"]);
    daemon.client().call(&["SET", "first", "1"]).unwrap();
    let mut done = [0; 2];
    let busy = Duration::from_millis(400);
    let notes: Vec<Note> = (0..3)
        .map(|_| {
            load_and_note(&daemon, &[1, 2], &mut done, busy, || drop(logctl(&["backup", text(&store), text(&backup)])))
        })
        .collect();
    logctl(&["backup", text(&store), text(&backup)]);
    daemon.kill();
    for note in &notes {
        let target = directory.path().join(format!("at {}", note.lsn));
        logctl(&["restore", text(&backup), text(&target), "--to-time", &note.millis.to_string()]);
        assert_eq!(digest_served(&target), note.digest, "{note:?}");
        let replayed = logctl(&["replay", text(&backup), "--to-time", &note.millis.to_string(), "--json"]);
        assert!(replayed.contains(&note.digest) && replayed.contains(&format!("\"lsn\": {}", note.lsn)), "{replayed}");
    }
}

#[test]
fn a_backup_goes_through_a_pipe_and_a_stream_cut_short_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let daemon = Daemon::start(&store, SMALL);
    let file = directory.path().join("backup.tar");
    let mut done = [0; 2];
    let note = load_and_note(&daemon, &[1, 2], &mut done, Duration::from_millis(900), || ());
    let sent =
        Command::new(program("logctl")).args(["backup", text(&store), "-"]).stderr(Stdio::null()).output().unwrap();
    assert!(sent.status.success());
    daemon.kill();
    fs::write(&file, &sent.stdout).unwrap();
    let target = directory.path().join("target");
    logctl(&["restore", text(&file), text(&target)]);
    assert_eq!(digest_served(&target), note.digest);

    for bytes in [0, 1000, sent.stdout.len() / 2, sent.stdout.len() - 4096] {
        fs::write(&file, &sent.stdout[..bytes]).unwrap();
        let target = directory.path().join("short");
        let output = run("logctl", &["restore", text(&file), text(&target)]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(2 | 4)), "{bytes}: {error}");
        assert!(!target.exists(), "a failed restore leaves nothing");
    }
}

#[test]
fn a_damaged_or_incomplete_backup_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (store, backup) = (directory.path().join("store"), directory.path().join("backup"));
    let daemon = Daemon::start(&store, SMALL);
    daemon.client().call(&["SET", "a", "1"]).unwrap();
    daemon.client().call(&["SAVE"]).unwrap();
    daemon.client().call(&["SET", "b", "1"]).unwrap();
    logctl(&["backup", text(&store), text(&backup)]);
    daemon.kill();
    let restore = |target: &str| {
        let output = run("logctl", &["restore", text(&backup), text(&directory.path().join(target))]);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let files =
        |name: &str| -> Vec<_> { fs::read_dir(backup.join(name)).unwrap().map(|file| file.unwrap().path()).collect() };
    for path in files("snapshot").into_iter().chain(files("log")) {
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[5000] ^= 1;
        fs::write(&path, damaged).unwrap();
        let (code, error) = restore("damaged");
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("checksum"), "{error}");
        fs::remove_file(&path).unwrap();
        let (code, error) = restore("missing");
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("not complete"), "{error}");
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(restore("whole").0, 0);
    fs::remove_file(backup.join("backup.json")).unwrap();
    let (code, error) = restore("unfinished");
    assert_eq!(code, 4);
    assert!(error.contains("no complete backup"), "{error}");
}
