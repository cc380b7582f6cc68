//! The power is cut under load, on real file systems in a loop device: the page cache is lost, the journal too or not.
//! Shorter rounds by default; `LOGD_LONG_ROUNDS=500 cargo test --release -p logd-tests --test power_cut` runs many.
//! Skipped, with a line that says so, where there is no root, loop device or mkfs.

use logd_tests::daemon::Daemon;
use logd_tests::image::{FileSystem, Image, Journal};
use logd_tests::round::{Load, Promise, check_replay, check_verify, rounds};
use std::time::Duration;

/// Rounds on one image before a new one is made.
const ROUNDS_PER_IMAGE: u64 = 5;

fn power_rounds(kind: FileSystem, flags: &[&str], promise: Promise) {
    if !Image::can_cut_power() {
        return;
    }
    let count = rounds(2);
    let mut round = 0;
    while round < count {
        let Some(image) = Image::make(kind, if kind == FileSystem::Xfs { 320 } else { 96 }) else { return };
        let mut load = Load::default();
        for _ in 0..ROUNDS_PER_IMAGE.min(count - round) {
            let journal = if round.is_multiple_of(2) { Journal::Lost } else { Journal::Written };
            one_round(&image, &mut load, flags, promise, journal, 150 + round * 37 % 400);
            round += 1;
        }
        load.check_progress();
    }
}

fn one_round(image: &Image, load: &mut Load, flags: &[&str], promise: Promise, journal: Journal, millis: u64) {
    let data = image.path().join("data");
    let daemon = Daemon::start(&data, flags);
    let running = load.start(&daemon);
    std::thread::sleep(Duration::from_millis(millis));
    image.cut_power(journal);
    let all = running.ended();
    for done in &all {
        assert!(done.error.is_some(), "writer {} was told that it is over", done.writer);
        assert_eq!(done.acknowledged_after_error, 0, "nothing is acknowledged after an error: {:?}", done.error);
    }
    daemon.kill();
    image.mount_again();
    check_verify(&data);
    let daemon = Daemon::start(&data, flags);
    load.check(&daemon, all, promise);
    check_replay(&data, &daemon);
    daemon.kill();
}

#[test]
fn nothing_acknowledged_by_default_is_lost_by_a_power_cut_on_ext4() {
    power_rounds(FileSystem::Ext4, &[], Promise::All);
}

#[test]
fn nothing_acknowledged_by_default_is_lost_by_a_power_cut_on_xfs() {
    power_rounds(FileSystem::Xfs, &[], Promise::All);
}

#[test]
fn small_segments_and_frequent_checkpoints_lose_nothing_by_a_power_cut() {
    let flags = ["--segment-bytes", "1M", "--checkpoint-log-bytes", "2M", "--checkpoint-seconds", "1"];
    power_rounds(FileSystem::Ext4, &flags, Promise::All);
}

#[test]
fn plain_system_calls_lose_nothing_by_a_power_cut() {
    power_rounds(FileSystem::Ext4, &["--io", "syscall"], Promise::All);
}

#[test]
fn what_a_power_cut_leaves_of_written_commands_is_a_prefix() {
    let flags = ["--durability", "written", "--segment-bytes", "1M", "--lag-ms", "300"];
    power_rounds(FileSystem::Ext4, &flags, Promise::Prefix);
}

#[test]
fn what_a_power_cut_leaves_of_accepted_commands_is_a_prefix_on_xfs() {
    power_rounds(FileSystem::Xfs, &["--durability", "accepted"], Promise::Prefix);
}
