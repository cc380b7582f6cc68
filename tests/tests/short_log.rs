//! A log file that came back shorter than it was: opened by itself, and never without a word about it.

use logd_engine::{Db, Options};
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of a store of `count` synced records, as a power cut would leave it, and its one segment.
fn cut_off_store(directory: &Path, count: u8) -> (PathBuf, PathBuf) {
    let (running, copy) = (directory.join("running"), directory.join("copy"));
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let db = Db::open(&running, options).expect("a fresh store");
    let things = db.keyspace("things", Default::default()).expect("room");
    for number in 0..count {
        let ticket = db.put(things, &[number], b"value", None, None).expect("room");
        db.wait(ticket, None).expect("a working disk");
    }
    for part in ["", "log", "snapshot", "quarantine"] {
        fs::create_dir_all(copy.join(part)).expect("a scratch directory");
        for file in fs::read_dir(running.join(part)).expect("a store").map(|file| file.expect("a name").path()) {
            if file.is_file() {
                fs::copy(&file, copy.join(part).join(file.file_name().expect("a name"))).expect("room");
            }
        }
    }
    let segment = copy.join("log").join(format!("{:020}.seg", 1));
    (copy, segment)
}

fn end_of_content(segment: &Path) -> u64 {
    let bytes = fs::read(segment).expect("a segment");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("a written segment");
    (last as u64 + 1).next_multiple_of(4096)
}

fn open_and_count(copy: &Path) -> (usize, String) {
    let db = Db::open(copy, Options::default()).expect("it starts by itself");
    let things = db.find_keyspace("things").expect("its definition was synced first");
    let recovery = db.stats().recovery;
    (db.len(things), format!("{} {}", recovery.words, recovery.notes.join(" ")))
}

#[test]
fn a_file_that_ends_inside_its_last_batch_is_reported_though_not_a_block_can_be_kept() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (copy, segment) = cut_off_store(directory.path(), 8);
    let end = end_of_content(&segment);
    fs::OpenOptions::new().write(true).open(&segment).expect("ours").set_len(end - 7).expect("ours");
    let (count, words) = open_and_count(&copy);
    assert_eq!(count, 7, "the batch that is not whole is no part of the log");
    assert!(words.contains("ends short") && words.contains("case H"), "{words}");
}

#[test]
fn what_is_written_after_a_cut_survives_the_next_starts() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let (copy, segment) = cut_off_store(directory.path(), 8);
    let end = end_of_content(&segment);
    fs::OpenOptions::new().write(true).open(&segment).expect("ours").set_len(end - 7).expect("ours");
    for round in 0..3u8 {
        let db = Db::open(&copy, Options::default()).expect("it starts by itself");
        let things = db.find_keyspace("things").expect("its definition was synced first");
        let ticket = db.put(things, &[100 + round], b"value", None, None).expect("room");
        db.wait(ticket, None).expect("a working disk");
        assert_eq!(db.len(things), 8 + usize::from(round));
    }
}
