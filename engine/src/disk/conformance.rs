//! One suite of claims that every backend has to satisfy (feature `sim`).
//! Guarantees: panics with the claim that does not hold. Wants storage without files in it.
//! Must not know: which backend it is talking to. What survives a crash is not asked here; the simulation asks that.
//! Next: os.rs and sim/tests.rs run it.

use super::{BlockingDisk, Buffer, Completion, Disk, DiskError, DiskErrorKind, FileId, OpenMode, Operation, Storage};
use crate::limits::BLOCK_BYTES;
use crate::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs all claims on a storage that is empty.
pub fn run(storage: &dyn Storage) {
    let mut disk = storage.disk().expect("a disk can be had");
    let disk = disk.as_mut();
    what_was_written_is_read_back(disk);
    only_the_given_length_is_written(disk);
    reading_past_the_end_is_an_error(disk);
    allocated_bytes_read_as_zeros(disk);
    opening_keeps_to_its_mode(disk);
    a_rename_replaces_and_open_files_follow(disk);
    names_are_listed_in_order(disk);
    a_removed_name_is_gone(disk);
    no_name_leaves_the_store(disk);
    many_in_flight_complete_once_each(disk);
    a_sync_after_a_write_succeeds(disk);
    some_space_is_reported(disk);
    a_wake_before_the_wait_ends_it(disk);
    a_wait_ends_when_its_time_passed(disk);
    no_wake_is_lost(disk);
    a_second_lock_is_refused_until_the_first_is_dropped(storage);
    two_disks_see_the_same_files(storage);
    a_disk_can_go_from_thread_to_thread(storage);
    a_disk_dropped_with_operations_in_flight_is_no_harm(storage);
    // The last one, since a latch takes it for what it is: a failed write.
    writing_a_file_opened_for_reading_is_an_error(disk);
}

fn what_was_written_is_read_back(disk: &mut dyn Disk) {
    let file = open(disk, "written", OpenMode::Create);
    for (place, durable) in [(2, false), (0, true), (1, false)] {
        let buffer = filled(disk, 1, place as u8 + 1);
        let buffer = disk.write_at(file, place * BLOCK, buffer, durable).expect("a write succeeds");
        assert_eq!(buffer[0], place as u8 + 1, "a write gives back the buffer as it was");
    }
    disk.sync(file).expect("a sync succeeds");
    let buffer = disk.buffer(3 * BLOCK_BYTES);
    let read = disk.read_at(file, 0, buffer).expect("a read succeeds");
    for (place, block) in read.chunks(BLOCK_BYTES).enumerate() {
        assert!(block.iter().all(|&byte| byte == place as u8 + 1), "block {place} is read as it was written");
    }
    assert_eq!(disk.file_bytes(file), Ok(3 * BLOCK));
    // Not from this disk, and so not registered with it.
    let read = disk.read_at(file, BLOCK, Buffer::zeroed(1)).expect("a read succeeds into any buffer");
    assert!(read.iter().all(|&byte| byte == 2), "a foreign buffer is filled as well");
    disk.close(file);
}

fn only_the_given_length_is_written(disk: &mut dyn Disk) {
    let file = open(disk, "shortened", OpenMode::Create);
    let mut buffer = filled(disk, 4, 9);
    buffer.set_len(BLOCK_BYTES);
    let mut buffer = disk.write_at(file, 0, buffer, true).expect("a write succeeds");
    assert_eq!(disk.file_bytes(file), Ok(BLOCK), "a shortened buffer writes its length only");
    buffer.set_len(4 * BLOCK_BYTES);
    assert!(buffer.iter().all(|&byte| byte == 9), "the rest of the buffer is kept");
    disk.close(file);
}

fn reading_past_the_end_is_an_error(disk: &mut dyn Disk) {
    let file = open(disk, "short", OpenMode::Create);
    let buffer = filled(disk, 1, 1);
    disk.write_at(file, 0, buffer, false).expect("a write succeeds");
    for (place, blocks) in [(0, 2), (BLOCK, 1), (64 * BLOCK, 1)] {
        let buffer = disk.buffer(blocks * BLOCK_BYTES);
        let error = disk.read_at(file, place, buffer).expect_err("a short read is an error");
        assert_eq!((error.operation, error.file.as_str()), ("read", "short"));
    }
    disk.close(file);
}

fn writing_a_file_opened_for_reading_is_an_error(disk: &mut dyn Disk) {
    let file = open(disk, "written", OpenMode::Read);
    let buffer = disk.buffer(1);
    let error = disk.write_at(file, 0, buffer, true).expect_err("a write to a file opened for reading is refused");
    assert_eq!((error.operation, error.file.as_str()), ("write", "written"));
    disk.close(file);
}

fn allocated_bytes_read_as_zeros(disk: &mut dyn Disk) {
    let file = open(disk, "allocated", OpenMode::Create);
    disk.allocate(file, 8 * BLOCK).expect("space can be reserved");
    assert_eq!(disk.file_bytes(file), Ok(8 * BLOCK));
    let buffer = disk.buffer(8 * BLOCK_BYTES);
    let read = disk.read_at(file, 0, buffer).expect("a read succeeds");
    assert!(read.iter().all(|&byte| byte == 0), "allocated bytes are zeros");
    let buffer = filled(disk, 1, 5);
    disk.write_at(file, BLOCK, buffer, true).expect("a write succeeds");
    disk.allocate(file, 2 * BLOCK).expect("a file can be shortened");
    assert_eq!(disk.file_bytes(file), Ok(2 * BLOCK));
    let buffer = disk.buffer(1);
    let read = disk.read_at(file, BLOCK, buffer).expect("a read succeeds");
    assert!(read.iter().all(|&byte| byte == 5), "what was written before stays");
    disk.close(file);
}

fn opening_keeps_to_its_mode(disk: &mut dyn Disk) {
    assert_eq!(kind(disk.open("written", OpenMode::Create)), DiskErrorKind::Exists);
    assert_eq!(kind(disk.open("missing", OpenMode::Read)), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.open("missing", OpenMode::Write)), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.open("missing/file", OpenMode::Create)), DiskErrorKind::NotFound);
    let file = open(disk, "written", OpenMode::Write);
    assert_eq!(disk.file_bytes(file), Ok(3 * BLOCK), "opening does not shorten");
    disk.close(file);
}

fn a_rename_replaces_and_open_files_follow(disk: &mut dyn Disk) {
    let old = open(disk, "old", OpenMode::Create);
    let buffer = filled(disk, 1, 1);
    disk.write_at(old, 0, buffer, true).expect("a write succeeds");
    let new = open(disk, "new", OpenMode::Create);
    let buffer = filled(disk, 2, 2);
    disk.write_at(new, 0, buffer, true).expect("a write succeeds");
    disk.rename("new", "old").expect("a rename replaces");
    disk.sync_directory("").expect("the directory can be synced");
    assert_eq!(kind(disk.open("new", OpenMode::Read)), DiskErrorKind::NotFound);
    assert_eq!(disk.file_bytes(old), Ok(BLOCK), "an open file outlives its name");
    disk.close(old);
    let replaced = open(disk, "old", OpenMode::Read);
    assert_eq!(disk.file_bytes(replaced), Ok(2 * BLOCK), "the name leads to what was renamed");
    disk.close(replaced);
    disk.close(new);
    assert_eq!(kind(disk.rename("missing", "old")), DiskErrorKind::NotFound);
}

fn names_are_listed_in_order(disk: &mut dyn Disk) {
    disk.create_directory("directory").expect("a directory can be made");
    disk.create_directory("directory").expect("a directory that is there is no error");
    for name in ["directory/c", "directory/a", "directory/b"] {
        let file = open(disk, name, OpenMode::Create);
        disk.close(file);
    }
    let file = open(disk, "directory/b", OpenMode::Write);
    let buffer = filled(disk, 1, 1);
    disk.write_at(file, 0, buffer, true).expect("a write succeeds");
    disk.close(file);
    disk.sync_directory("directory").expect("a directory can be synced");
    let listed = disk.list("directory").expect("a directory can be listed");
    let listed: Vec<(&str, u64)> = listed.iter().map(|listed| (listed.name.as_str(), listed.bytes)).collect();
    assert_eq!(listed, [("a", 0), ("b", BLOCK), ("c", 0)]);
    let root = disk.list("").expect("the store's own directory can be listed");
    assert!(root.iter().any(|listed| listed.name == "directory" && listed.bytes == 0));
    assert!(root.is_sorted_by(|a, b| a.name < b.name), "names are in order");
    assert_eq!(kind(disk.list("missing")), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.sync_directory("missing")), DiskErrorKind::NotFound);
}

fn a_removed_name_is_gone(disk: &mut dyn Disk) {
    disk.remove("directory/a").expect("a file can be removed");
    disk.sync_directory("directory").expect("a directory can be synced");
    assert_eq!(kind(disk.open("directory/a", OpenMode::Read)), DiskErrorKind::NotFound);
    assert_eq!(kind(disk.remove("directory/a")), DiskErrorKind::NotFound);
}

fn no_name_leaves_the_store(disk: &mut dyn Disk) {
    for name in ["..", "../other", "directory/../../other", "/etc/hostname", "directory//b", "."] {
        assert!(disk.open(name, OpenMode::Read).is_err(), "{name} is refused");
        assert!(disk.open(name, OpenMode::Create).is_err(), "{name} is refused");
        assert!(disk.rename("old", name).is_err(), "{name} is refused");
        assert!(disk.rename(name, "old").is_err(), "{name} is refused");
        assert!(disk.remove(name).is_err(), "{name} is refused");
        assert!(disk.create_directory(name).is_err(), "{name} is refused");
        assert!(disk.list(name).is_err(), "{name} is refused");
        assert!(disk.sync_directory(name).is_err(), "{name} is refused");
        assert!(disk.lock(name).is_err(), "{name} is refused");
    }
    assert!(disk.open("", OpenMode::Read).is_err(), "an empty name is no file");
}

fn many_in_flight_complete_once_each(disk: &mut dyn Disk) {
    const COUNT: u64 = 200;
    let file = open(disk, "many", OpenMode::Create);
    disk.allocate(file, COUNT * BLOCK).expect("space can be reserved");
    for token in 0..COUNT {
        let buffer = filled(disk, 1, token as u8);
        disk.submit(token + 7_000, Operation::Write { file, offset: token * BLOCK, buffer, durable: token % 50 == 0 });
    }
    let mut tokens: Vec<u64> = collect(disk, COUNT as usize).iter().map(|done| done.token).collect();
    tokens.sort_unstable();
    assert!(tokens.iter().copied().eq(7_000..7_000 + COUNT), "each token comes back once");
    for token in 0..COUNT {
        let buffer = disk.buffer(1);
        disk.submit(token, Operation::Read { file, offset: token * BLOCK, buffer });
    }
    for done in collect(disk, COUNT as usize) {
        let buffer = done.buffer.expect("a read gives its buffer back");
        assert!(buffer.iter().all(|&byte| byte == done.token as u8), "each buffer comes back with its own token");
    }
    disk.close(file);
}

fn a_sync_after_a_write_succeeds(disk: &mut dyn Disk) {
    let file = open(disk, "synced", OpenMode::Create);
    let buffer = filled(disk, 1, 1);
    disk.submit(1, Operation::Write { file, offset: 0, buffer, durable: false });
    collect(disk, 1);
    disk.submit(2, Operation::Sync { file });
    let done = collect(disk, 1).remove(0);
    assert_eq!((done.token, done.buffer.is_none()), (2, true), "a sync has no buffer to give back");
    disk.close(file);
}

fn some_space_is_reported(disk: &mut dyn Disk) {
    let space = disk.space().expect("the room can be asked for");
    assert!(space.free > 0, "there is room");
    assert!(space.free <= space.total, "no more is free than there is");
}

fn a_wake_before_the_wait_ends_it(disk: &mut dyn Disk) {
    let waker = disk.waker();
    waker.wake();
    waker.wake();
    disk.wait(None);
}

fn a_wait_ends_when_its_time_passed(disk: &mut dyn Disk) {
    disk.wait(Some(Nanos::MILLI));
    disk.wait(Some(Nanos(0)));
}

/// Hangs if a wake is lost: the other thread goes on only when the waiter has seen its number.
fn no_wake_is_lost(disk: &mut dyn Disk) {
    const ROUNDS: u64 = 2_000;
    let (asked, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (waker, asked_there, seen_there) = (disk.waker(), Arc::clone(&asked), Arc::clone(&seen));
    let thread = std::thread::spawn(move || {
        for round in 1..=ROUNDS {
            asked_there.store(round, Ordering::SeqCst);
            waker.wake();
            while seen_there.load(Ordering::SeqCst) < round {
                std::thread::yield_now();
            }
        }
    });
    while seen.load(Ordering::SeqCst) < ROUNDS {
        disk.wait(None);
        seen.store(asked.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    thread.join().expect("the waking thread ends");
}

fn a_second_lock_is_refused_until_the_first_is_dropped(storage: &dyn Storage) {
    let mut first = storage.disk().expect("a disk can be had");
    let mut second = storage.disk().expect("a second disk can be had");
    let guard = first.lock("lock").expect("the lock is free");
    assert_eq!(kind(second.lock("lock")), DiskErrorKind::InUse);
    assert_eq!(kind(first.lock("lock")), DiskErrorKind::InUse);
    drop(first);
    assert_eq!(kind(second.lock("lock")), DiskErrorKind::InUse, "the guard holds the lock, not the disk");
    drop(guard);
    let guard = second.lock("lock").expect("a left-over lock file is no obstacle");
    drop(guard);
}

fn two_disks_see_the_same_files(storage: &dyn Storage) {
    let mut writer = storage.disk().expect("a disk can be had");
    let mut reader = storage.disk().expect("a second disk can be had");
    let file = open(writer.as_mut(), "shared", OpenMode::Create);
    let buffer = filled(writer.as_mut(), 2, 3);
    writer.write_at(file, 0, buffer, true).expect("a write succeeds");
    let same = open(reader.as_mut(), "shared", OpenMode::Read);
    // A buffer of one disk may be used with another.
    let buffer = writer.buffer(2 * BLOCK_BYTES);
    let read = reader.read_at(same, 0, buffer).expect("a read succeeds");
    assert!(read.iter().all(|&byte| byte == 3));
}

/// The thread that waited first has ended when the wake comes: what it left in the kernel ended with it.
fn a_disk_can_go_from_thread_to_thread(storage: &dyn Storage) {
    let mut disk = storage.disk().expect("a disk can be had");
    let file = open(disk.as_mut(), "moved", OpenMode::Create);
    let there = std::thread::spawn(move || {
        let buffer = filled(disk.as_mut(), 1, 1);
        disk.write_at(file, 0, buffer, true).expect("a write succeeds");
        disk.wait(Some(Nanos(1)));
        disk
    });
    let mut disk = there.join().expect("the thread ends");
    no_wake_is_lost(disk.as_mut());
    let buffer = filled(disk.as_mut(), 1, 2);
    disk.write_at(file, 0, buffer, true).expect("a write succeeds");
}

fn a_disk_dropped_with_operations_in_flight_is_no_harm(storage: &dyn Storage) {
    let mut disk = storage.disk().expect("a disk can be had");
    let file = open(disk.as_mut(), "dropped", OpenMode::Create);
    for place in 0..32 {
        let buffer = filled(disk.as_mut(), 16, 1);
        disk.submit(place, Operation::Write { file, offset: place * 16 * BLOCK, buffer, durable: place % 8 == 0 });
    }
    drop(disk);
}

fn open(disk: &mut dyn Disk, name: &str, mode: OpenMode) -> FileId {
    disk.open(name, mode).unwrap_or_else(|error| panic!("{name} can be opened: {error}"))
}

fn filled(disk: &mut dyn Disk, blocks: usize, byte: u8) -> Buffer {
    let mut buffer = disk.buffer(blocks * BLOCK_BYTES);
    assert!(buffer.iter().all(|&byte| byte == 0), "a buffer is zeroed");
    buffer.fill(byte);
    buffer
}

/// Waits for so many completions, all good, and sees that there are no more.
fn collect(disk: &mut dyn Disk, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        disk.wait(None);
        disk.poll(&mut done);
    }
    disk.poll(&mut done);
    assert_eq!(done.len(), count, "no completion comes twice");
    for completion in &done {
        assert_eq!(completion.result, Ok(()));
    }
    done
}

fn kind<T>(result: Result<T, DiskError>) -> DiskErrorKind {
    match result {
        Ok(_) => panic!("this fails on every backend"),
        Err(error) => error.kind,
    }
}
