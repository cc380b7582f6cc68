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

/// Four callers that block for each of their writes, with the writer and the preparer on threads of their own: every wait
/// ends, and what was acknowledged is there. Hangs if a wake-up is ever lost.
#[test]
fn callers_on_many_threads_are_all_released() {
    let mut options = options();
    options.lag = Nanos::MILLI;
    let Rig { storage, disk, log, writer, preparer, .. } = Rig::new(options);
    let (wake_preparer, ask) = std::sync::mpsc::channel();
    log.set_preparer(crate::disk::DiskWaker(Arc::new(move || _ = wake_preparer.send(()))));
    let writing = std::thread::spawn(move || drive(writer));
    std::thread::spawn(move || prepare(disk, preparer, ask));
    let callers: Vec<_> = (0..4)
        .map(|number| {
            let log = log.clone();
            std::thread::spawn(move || (0..300).for_each(|turn| write_and_wait(&log, number, turn)))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    log.close();
    writing.join().unwrap();
    assert_eq!(log.watermarks().synced, Lsn(1200));
    storage.crash();
    assert_eq!(read(&storage, Lsn(1), proof(1200)).unwrap().1.len(), 1200);
}

fn drive(mut writer: LogWriter) {
    let mut now = Nanos(0);
    loop {
        now = now.after(Nanos(50_000));
        match writer.step(now) {
            Next::Closed => return,
            next => writer.wait(next, now),
        }
    }
}

fn prepare(mut disk: Box<dyn Disk>, mut preparer: Preparer, ask: std::sync::mpsc::Receiver<()>) {
    while let Ok(()) = ask.recv() {
        while preparer.step(&mut *disk, Nanos(0)) == PrepareNext::Again {}
    }
}

fn write_and_wait(log: &Log, caller: u64, turn: u64) {
    let level = [Synced, Written, Accepted][((caller + turn) % 3) as usize];
    let stamp = Stamp { now: Nanos(0), time: Millis(0), wall: Millis(0) };
    let bytes = frame(caller, (turn * 37 % 6000) as usize);
    let appended = loop {
        match log.append(&bytes, level, Purpose::Grow, stamp) {
            Ok(appended) => break appended,
            Err(Error::Refused(Refused::Busy)) => log.wait_room(bytes.len(), Purpose::Grow, None).unwrap(),
            Err(error) => panic!("{error}"),
        }
    };
    if appended.wake {
        log.wake();
    }
    log.wait(appended.lsn, level, None).unwrap();
}
