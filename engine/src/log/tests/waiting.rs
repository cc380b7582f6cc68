//! The ways to wait for a release.
//! Guarantees: no test asserts how long something took.
//! Must not know: what makes the log move.
//! Next: waiters.rs.

use super::*;
use DurabilityLevel::{Accepted, Synced, Written};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn callbacks_run_once_in_lsn_order_and_at_once_when_released_already() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let told = Arc::new(Mutex::new(Vec::new()));
    let call = |number: u64| {
        let told = told.clone();
        Waiter::Call(Box::new(move |result| told.lock().push((number, result.is_ok()))))
    };
    let written = rig.append(Written, 10);
    let synced = rig.append(Synced, 10);
    rig.log.register(synced, Synced, call(3));
    rig.log.register(written, Written, call(2));
    rig.log.register(Lsn(1), Synced, call(1));
    assert_eq!(*told.lock(), [(1, true)]);
    rig.settle();
    assert_eq!(*told.lock(), [(1, true), (2, true), (3, true)]);
    let never = rig.append(Synced, 10);
    rig.log.register(never, Synced, call(4));
    rig.log.register(Lsn(1), Synced, call(5));
    rig.log.latch(crate::error::Failed { operation: "write", file: "x".to_string(), reason: "y".to_string() });
    assert_eq!(told.lock()[3..], [(5, true), (4, false)]);
}

#[test]
fn a_subscriber_gets_one_notice_for_each_time_it_armed() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let subscriber = rig.log.subscribe(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    rig.synced(10);
    assert_eq!(count.load(Ordering::SeqCst), 0, "not armed");
    subscriber.arm();
    rig.synced(10);
    rig.synced(10);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    subscriber.arm();
    drop(subscriber);
    rig.synced(10);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn blocked_threads_are_woken_by_the_advance_that_releases_them() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let lsns: Vec<Lsn> = (0..4).map(|_| rig.append(Accepted, 10)).collect();
    let waiting: Vec<_> = lsns
        .iter()
        .map(|lsn| {
            let (log, lsn) = (rig.log.clone(), *lsn);
            std::thread::spawn(move || log.wait(lsn, Synced, None))
        })
        .collect();
    rig.log.request_sync();
    rig.settle();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}

#[test]
fn a_time_limit_ends_a_wait_and_not_the_write() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    let lsn = rig.append(Synced, 10);
    assert_eq!(rig.log.wait(lsn, Synced, Some(Nanos(1000))), Err(Refused::TimedOut.into()));
    rig.settle();
    assert_eq!(rig.log.wait(lsn, Synced, Some(Nanos(0))), Ok(()));
}
