//! What the simulated disk promises to those who test with it.
//! Guarantees: each claim is checked over many seeds where chance has a part.
//! Must not know: the parts; it uses the public face only.
//! Next: crash.rs.

use super::super::{
    BlockingDisk, Buffer, Disk, DiskError, DiskErrorKind, FileId, OpenMode, Operation, Storage, conformance,
};
use super::{SimFault, SimOperation, SimOptions, SimStorage};
use crate::prng::Prng;
use std::collections::BTreeSet;

const BLOCK: u64 = 4096;

fn simulated(latency_steps_max: u64) -> SimStorage {
    SimStorage::new(SimOptions { seed: 3, latency_steps_max, ..SimOptions::default() })
}

fn write(disk: &mut dyn Disk, file: FileId, place: u64, byte: u8, durable: bool) {
    let mut buffer = Buffer::zeroed(1);
    buffer.fill(byte);
    disk.write_at(file, place * BLOCK, buffer, durable).expect("a write succeeds");
}

#[test]
fn the_simulated_disk_keeps_the_contract() {
    conformance::run(&simulated(0));
    conformance::run(&simulated(20));
}

#[test]
fn operations_in_flight_end_in_another_order_than_they_began() {
    let storage = simulated(20);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    for token in 0..20 {
        disk.submit(token, Operation::Write { file, offset: token * BLOCK, buffer: Buffer::zeroed(1), durable: true });
    }
    let mut done = Vec::new();
    disk.poll(&mut done);
    assert!(done.is_empty(), "nothing ends before a step has passed");
    while done.len() < 20 {
        storage.step();
        disk.poll(&mut done);
    }
    assert!(!done.iter().map(|completion| completion.token).is_sorted());
}

#[test]
fn an_unsynced_name_may_be_lost_and_a_synced_one_is_not() {
    let mut prng = Prng::new(1);
    let mut left = BTreeSet::new();
    for _ in 0..50 {
        let storage = simulated(0);
        let mut disk = storage.disk().unwrap();
        let file = disk.open("kept", OpenMode::Create).unwrap();
        write(disk.as_mut(), file, 0, 1, true);
        disk.sync_directory("").unwrap();
        disk.open("a", OpenMode::Create).unwrap();
        disk.rename("a", "kept").unwrap();
        disk.open("c", OpenMode::Create).unwrap();
        left.insert(storage.crash(&mut prng).names());
    }
    // Each prefix of "make a, rename a to kept, make c", and nothing else; `kept` is never missing.
    let prefixes = [vec!["a", "kept"], vec!["c", "kept"], vec!["kept"]];
    assert_eq!(left, prefixes.map(|names| names.into_iter().map(str::to_owned).collect()).into());
}

#[test]
fn a_power_cut_tears_what_is_in_flight_but_not_what_is_synced() {
    let mut prng = Prng::new(1);
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let storage = simulated(5);
        let mut disk = storage.disk().unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        write(disk.as_mut(), file, 0, 1, true);
        write(disk.as_mut(), file, 1, 1, true);
        disk.sync_directory("").unwrap();
        let mut buffer = Buffer::zeroed(1);
        buffer.fill(2);
        disk.submit(1, Operation::Write { file, offset: BLOCK, buffer, durable: true });
        let left = storage.crash(&mut prng).contents("log").expect("the name was synced");
        assert!(left[..4096].iter().all(|&byte| byte == 1), "what was synced is there");
        seen.insert(left[4096..].chunks(512).map(|sector| sector[0]).collect::<Vec<u8>>());
        assert!(left[4096..].chunks(512).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
    }
    assert!(seen.len() > 10, "the block in flight is torn in many ways");
}

#[test]
fn a_killed_process_leaves_all_it_wrote_and_frees_its_locks() {
    let storage = simulated(0);
    let mut disk = storage.disk().unwrap();
    let _guard = disk.lock("lock").unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    write(disk.as_mut(), file, 0, 1, false);
    let next = storage.kill();
    assert!(disk.write_at(file, 0, Buffer::zeroed(1), false).is_err(), "the old disk fails");
    assert!(disk.list("").is_err(), "the old disk fails");
    assert_eq!(next.contents("log"), Some(vec![1; 4096]));
    next.disk().unwrap().lock("lock").expect("the lock is free");
    // It was never synced, so that a power cut after the kill may still take it.
    let mut prng = Prng::new(1);
    let lost = (0..20).any(|_| storage.kill().crash(&mut prng).contents("log").is_none());
    assert!(lost);
}

#[test]
fn a_crash_ends_what_is_in_flight_with_an_error() {
    let storage = simulated(5);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    disk.submit(8, Operation::Write { file, offset: 0, buffer: Buffer::zeroed(1), durable: true });
    storage.crash(&mut Prng::new(1));
    disk.wait(None);
    let mut done = Vec::new();
    disk.poll(&mut done);
    assert_eq!(done.len(), 1);
    assert!(done[0].result.is_err());
}

#[test]
fn faults_strike_once_or_for_good() {
    let storage = simulated(0);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    let fault = SimFault { operation: SimOperation::Sync, skip: 1, lasting: false, kind: DiskErrorKind::Full };
    storage.fail(fault.clone());
    assert_eq!([disk.sync(file).is_ok(), disk.sync(file).is_ok(), disk.sync(file).is_ok()], [true, false, true]);
    storage.fail(SimFault { skip: 0, lasting: true, ..fault });
    assert_eq!([disk.sync(file).is_ok(), disk.sync(file).is_ok()], [false, false]);
    storage.clear_faults();
    assert!(disk.sync(file).is_ok());
}

#[test]
fn calls_on_names_fail_as_arranged() {
    let storage = simulated(0);
    storage.put("log", &[0; 4096]);
    let mut disk = storage.disk().unwrap();
    type Step = fn(&mut dyn Disk) -> Result<(), DiskError>;
    let calls: [(SimOperation, Step); 4] = [
        (SimOperation::Open, |disk| disk.open("log", OpenMode::Read).map(drop)),
        (SimOperation::Rename, |disk| disk.rename("log", "other")),
        (SimOperation::SyncDirectory, |disk| disk.sync_directory("")),
        (SimOperation::Remove, |disk| disk.remove("other")),
    ];
    for (operation, call) in calls {
        let kind = DiskErrorKind::Io("broken".to_owned());
        storage.fail(SimFault { operation, skip: 0, lasting: false, kind: kind.clone() });
        assert_eq!(call(disk.as_mut()).unwrap_err().kind, kind, "{operation:?} fails");
        assert_eq!(call(disk.as_mut()), Ok(()), "{operation:?} has failed once");
    }
}

#[test]
fn a_full_medium_refuses_to_reserve_and_to_grow() {
    let storage = simulated(0);
    storage.set_capacity(4 * BLOCK);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    assert_eq!(disk.allocate(file, 5 * BLOCK).unwrap_err().kind, DiskErrorKind::Full);
    disk.allocate(file, 4 * BLOCK).unwrap();
    write(disk.as_mut(), file, 3, 1, true);
    let error = disk.write_at(file, 4 * BLOCK, Buffer::zeroed(1), true).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Full);
    assert_eq!(disk.space().unwrap().free, 0);
    disk.remove("log").unwrap();
    assert_eq!(disk.space().unwrap().free, 4 * BLOCK);
}

#[test]
fn a_corrupted_byte_is_read_as_such_and_stays_so_after_a_crash() {
    let storage = simulated(0);
    storage.put("directory/file", &[7; 4096]);
    storage.corrupt("directory/file", 100, 1);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("directory/file", OpenMode::Read).unwrap();
    assert_eq!(disk.read_at(file, 0, Buffer::zeroed(1)).unwrap()[99..102], [7, 6, 7]);
    let left = storage.crash(&mut Prng::new(1)).contents("directory/file").expect("what was put is synced");
    assert_eq!(left[99..102], [7, 6, 7]);
}

#[test]
fn a_stuck_medium_goes_on_when_it_is_let() {
    let storage = simulated(0);
    let mut disk = storage.disk().unwrap();
    let file = disk.open("log", OpenMode::Create).unwrap();
    storage.pause();
    disk.submit(1, Operation::Write { file, offset: 0, buffer: Buffer::zeroed(1), durable: true });
    let mut done = Vec::new();
    disk.wait(Some(crate::units::Nanos::MILLI));
    disk.poll(&mut done);
    assert!(done.is_empty());
    let other = storage.clone();
    let thread = std::thread::spawn(move || other.resume());
    while done.is_empty() {
        disk.wait(None);
        disk.poll(&mut done);
    }
    thread.join().expect("the other thread ends");
    assert_eq!(storage.counts().writes_durable, 1);
}

#[test]
fn the_same_seed_leaves_the_same_bytes() {
    let run = || {
        let storage = simulated(7);
        let mut disk = storage.disk().unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        disk.sync_directory("").unwrap();
        for token in 0..30u64 {
            let mut buffer = Buffer::zeroed(1);
            buffer.fill(token as u8 + 1);
            disk.submit(token, Operation::Write { file, offset: token % 7 * BLOCK, buffer, durable: token % 3 == 0 });
            if token % 4 == 0 {
                disk.wait(None);
            }
        }
        storage.crash(&mut Prng::new(9)).contents("log")
    };
    assert_eq!(run(), run());
}
