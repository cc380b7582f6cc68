//! Who is released when, and who never.
//! Guarantees: each test names the promise it checks.
//! Must not know: what stands on disk afterwards; that is tails.rs.
//! Next: waiting.rs has the ways to wait.

use super::*;
use crate::disk::DiskErrorKind;
use DurabilityLevel::{Accepted, Synced, Written};

#[test]
fn a_synced_command_is_released_by_the_durable_write_that_holds_it() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.operations();
    let appended = rig.try_append(Synced, 10).unwrap();
    assert_eq!((appended.lsn, appended.wake), (Lsn(2), true));
    assert!(!rig.try_append(Synced, 10).unwrap().wake, "the writer is woken once");
    assert_eq!(rig.writer.step(rig.now), Next::Disk);
    assert!(!rig.log.is_released(Lsn(2), Synced));
    assert_eq!(rig.writer.step(rig.now), Next::Idle);
    assert!(rig.log.is_released(Lsn(3), Synced));
    assert_eq!(rig.operations(), ["write durable"], "two commands, one write");
}

#[test]
fn written_commands_need_no_sync_until_half_the_lag() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.operations();
    let lsn = rig.append(Written, 10);
    assert_eq!(rig.settle(), Next::Until(Nanos(500)));
    assert!(rig.log.is_released(lsn, Written));
    assert!(!rig.log.is_released(lsn, Synced));
    assert_eq!(rig.operations(), ["write"]);
    rig.now = Nanos(500);
    assert_eq!(rig.settle(), Next::Idle);
    assert!(rig.log.is_released(lsn, Synced));
    assert_eq!(rig.operations(), ["sync"]);
}

#[test]
fn accepted_commands_are_released_at_once_and_written_at_half_the_lag() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.operations();
    let first = rig.try_append(Accepted, 10).unwrap();
    assert!(first.wake, "a timer has to be armed");
    assert!(rig.log.is_released(first.lsn, Accepted));
    assert_eq!(rig.writer.step(rig.now), Next::Until(Nanos(500)));
    assert!(!rig.try_append(Accepted, 10).unwrap().wake, "the timer is armed");
    assert_eq!(rig.operations(), Vec::<String>::new());
    rig.now = Nanos(500);
    assert_eq!(rig.settle(), Next::Idle);
    assert_eq!(rig.operations(), ["write durable"]);
    assert_eq!(rig.log.watermarks().synced, Lsn(3));
}

#[test]
fn the_lag_bound_gates_accepted_and_written_commands_until_a_sync() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.append(Accepted, 10);
    rig.now = LAG;
    let late = rig.append(Accepted, 10);
    assert!(!rig.log.is_released(late, Accepted), "something unsynced is as old as the lag");
    assert_eq!(rig.log.watermarks().accepted_limit, Lsn(1));
    rig.settle();
    assert!(rig.log.is_released(late, Accepted));

    let mut rig = Rig::new(LogOptions { lag_bytes: 5000, ..options() });
    let small = rig.append(Accepted, 1000);
    assert!(rig.log.is_released(small, Accepted));
    let large = rig.append(Accepted, 5000);
    assert!(!rig.log.is_released(large, Accepted), "too much is unsynced");
    rig.settle();
    assert!(rig.log.is_released(large, Accepted), "half the bytes make a sync due");
}

#[test]
fn a_failed_sync_latches_and_releases_nobody() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let written = rig.append(Written, 10);
    rig.settle();
    rig.storage.0.lock().failures.push(("sync".to_string(), DiskErrorKind::Io("input/output error".to_string())));
    let synced = rig.append(Synced, 10);
    assert_eq!(rig.settle(), Next::Closed);
    assert!(!rig.log.is_released(synced, Synced));
    assert!(!rig.log.is_released(written, Synced));
    let failed = rig.log.failure().unwrap();
    assert_eq!((failed.operation, failed.reason.as_str()), ("sync", "input/output error"));
    assert_eq!(rig.try_append(Synced, 10), Err(Error::Failed(failed.clone())));
    assert_eq!(rig.log.wait(synced, Synced, None), Err(Error::Failed(failed)));
    rig.operations();
    rig.now = LAG;
    rig.settle();
    assert_eq!(rig.operations(), Vec::<String>::new(), "nothing is tried again");
}

#[test]
fn a_failed_write_keeps_later_batches_in_flight_from_counting() {
    let mut rig = Rig::new(LogOptions { segment_bytes: 1 << 20, batch_bytes_max: 128 << 10, ..options() });
    rig.synced(10);
    rig.storage.0.lock().failures.push(("write durable".to_string(), DiskErrorKind::Full));
    let first = rig.append(Synced, 10);
    assert_eq!(rig.writer.step(rig.now), Next::Disk);
    let second = rig.append(Synced, 70 << 10);
    assert_eq!(rig.writer.step(rig.now), Next::Closed);
    assert!(!rig.log.is_released(first, Synced));
    assert!(!rig.log.is_released(second, Synced));
}

#[test]
fn batches_that_complete_out_of_order_are_released_in_order() {
    let mut rig = Rig::new(LogOptions { segment_bytes: 1 << 20, batch_bytes_max: 128 << 10, ..options() });
    rig.synced(10);
    rig.append(Synced, 10);
    rig.append(Synced, 70 << 10);
    rig.storage.0.lock().newest_first = true;
    assert_eq!(rig.settle(), Next::Idle);
    assert_eq!(rig.log.watermarks().synced, Lsn(3));
}

#[test]
fn an_asked_sync_covers_what_was_assigned_and_idle_means_no_operation() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    rig.append(Accepted, 10);
    rig.settle();
    assert_eq!(rig.log.request_sync(), Lsn(2));
    assert_eq!(rig.settle(), Next::Idle);
    assert_eq!(rig.log.watermarks().synced, Lsn(2));
    rig.operations();
    for _ in 0..5 {
        rig.now = rig.now.after(LAG);
        assert_eq!(rig.settle(), Next::Idle);
    }
    assert_eq!(rig.operations(), Vec::<String>::new());
}

#[test]
fn closing_syncs_what_was_accepted_and_refuses_the_rest() {
    let mut rig = Rig::new(options());
    let lsn = rig.append(Accepted, 10);
    rig.log.close();
    assert_eq!(rig.try_append(Accepted, 10), Err(Refused::Closed.into()));
    assert_eq!(rig.settle(), Next::Closed);
    assert!(rig.log.is_released(lsn, Synced));
}

#[test]
fn after_a_clean_stop_the_same_segment_goes_on() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let (end, _) = read(&rig.storage, Lsn(1), proof(1)).unwrap();
    assert_eq!((end.case, end.cut, end.next_lsn), ('F', None, Lsn(2)));
    let mut again = Rig::start(rig.storage.copy(), &end.position(STORE, true), options());
    assert_eq!(again.synced(10), Lsn(2));
    let (end, seen) = read(&again.storage, Lsn(1), proof(2)).unwrap();
    assert_eq!((seen, end.spans.len()), (vec![1, 2], 1));
}
