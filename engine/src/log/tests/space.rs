//! Room: busy, full, segments, recycling.
//! Guarantees: a refused append has changed nothing.
//! Must not know: how the bytes are read; that is tails.rs.
//! Next: segments.rs and prepare.rs.

use super::*;
use crate::error::Full;
use DurabilityLevel::{Accepted, Synced};

#[test]
fn a_fresh_store_is_busy_until_its_first_segment_is_ready() {
    let mut rig = Rig::new(options());
    assert_eq!(rig.try_append(Synced, 10), Err(Refused::Busy.into()));
    assert_eq!(rig.log.watermarks().assigned, Lsn(0));
    assert_eq!(rig.prepare(), PrepareNext::Idle);
    assert_eq!(rig.try_append(Synced, 10).unwrap().lsn, Lsn(1));
}

#[test]
fn a_full_queue_is_busy_until_the_writer_takes_it() {
    let mut rig = Rig::new(options());
    rig.synced(10);
    for _ in 0..4 {
        rig.try_append(Accepted, 7000).unwrap();
    }
    assert_eq!(rig.try_append(Accepted, 7000), Err(Refused::Busy.into()));
    assert!(rig.operations().contains(&"wake".to_string()));
    rig.writer.step(rig.now);
    assert_eq!(rig.try_append(Accepted, 7000).unwrap().lsn, Lsn(6));
}

#[test]
fn a_switch_of_segments_is_one_durable_write() {
    let mut rig = Rig::new(options());
    while rig.log.spans().len() < 2 {
        rig.prepare();
        rig.operations();
        rig.append(Synced, 6000);
        rig.writer.step(rig.now);
        rig.writer.step(rig.now);
    }
    assert_eq!(rig.operations(), ["wake", "write durable"].map(String::from)[1..]);
    assert_eq!(rig.storage.0.lock().files.len(), 2);
}

#[test]
fn a_command_larger_than_its_share_of_a_segment_is_refused() {
    let mut rig = Rig::new(options());
    let bytes_max = rig.log.command_bytes_max();
    assert_eq!(bytes_max, 8192);
    assert!(matches!(rig.try_append(Synced, 8192), Err(Error::Refused(Refused::CommandTooLarge { .. }))));
    let value_bytes = 8192 - frame(1, 0).len();
    assert_eq!(rig.append(Synced, value_bytes), Lsn(1));
}

#[test]
fn a_large_command_gets_a_segment_that_it_fits_in() {
    let mut rig = Rig::new(LogOptions { segment_bytes: 16 << 20, ..options() });
    rig.synced(10);
    let lsn = rig.synced(3 << 20);
    let (end, seen) = read(&rig.storage, Lsn(1), proof(lsn.0)).unwrap();
    assert_eq!((seen, end.spans[1].bytes), (vec![1, 2], 4 << 20));
}

#[test]
fn a_full_disk_refuses_before_anything_is_changed_and_heals_by_itself() {
    let mut rig = Rig::new(options());
    rig.storage.0.lock().free_bytes = 64 << 10;
    let mut last = Lsn(0);
    let error = loop {
        match rig.try_append(Synced, 6000) {
            Ok(appended) => last = appended.lsn,
            Err(Error::Refused(Refused::Busy)) => {}
            Err(error) => break error,
        }
        rig.settle();
    };
    assert_eq!(error, Full::Disk.into());
    assert_eq!(rig.log.watermarks().synced, last);
    assert_eq!(rig.storage.0.lock().files.len(), 1, "no partial file is left");
    assert_eq!(rig.prepare(), PrepareNext::Until(Nanos::SECOND));
    rig.storage.0.lock().free_bytes = 1 << 30;
    assert_eq!(rig.prepare(), PrepareNext::Until(Nanos::SECOND), "not before the time");
    rig.now = Nanos::SECOND;
    assert_eq!(rig.prepare(), PrepareNext::Idle);
    assert_eq!(rig.log.space(), None);
    assert_eq!(rig.synced(6000), last.next());
    assert_eq!(read(&rig.storage, Lsn(1), proof(last.0 + 1)).unwrap().0.last_lsn, last.next());
}

#[test]
fn the_log_cap_refuses_until_segments_are_retired() {
    let mut rig = Rig::new(LogOptions { log_bytes_max: Some(128 << 10), ..options() });
    let error = loop {
        match rig.try_append(Synced, 6000) {
            Ok(_) | Err(Error::Refused(Refused::Busy)) => {}
            Err(error) => break error,
        }
        rig.settle();
    };
    assert_eq!(error, Full::Log { bytes_max: 128 << 10 }.into());
    let last = rig.log.watermarks().synced;
    assert_eq!(rig.log.retire(last), 1);
    assert_eq!(rig.prepare(), PrepareNext::Idle, "tried again without waiting for the time");
    assert_eq!(rig.synced(6000), last.next());
}

#[test]
fn a_recycled_segment_reads_as_its_new_batches_only() {
    let mut rig = Rig::new(options());
    while rig.log.spans().len() < 3 {
        rig.synced(6000);
    }
    let below = rig.log.spans()[1].last_lsn;
    assert_eq!(rig.log.retire(below), 2);
    while rig.log.spans().last().is_none_or(|span| span.segment.0 < 4) {
        rig.synced(6000);
    }
    let last = rig.log.watermarks().synced;
    let (end, seen) = read(&rig.storage, below.next(), proof(last.0)).unwrap();
    assert_eq!(end.case, 'G', "old bytes stand behind the end");
    assert_eq!((end.last_lsn, end.cut), (last, None));
    assert_eq!(seen, (below.0 + 1..=last.0).collect::<Vec<_>>());
    assert!(read(&rig.storage, Lsn(1), proof(last.0)).is_err(), "what was retired is not there");
}

#[test]
fn an_input_error_while_preparing_ends_all_writing() {
    let mut rig = Rig::new(options());
    let kind = crate::disk::DiskErrorKind::Io("bad".to_string());
    rig.storage.0.lock().failures.push(("write".to_string(), kind));
    assert_eq!(rig.try_append(Synced, 10), Err(Refused::Busy.into()));
    rig.prepare();
    assert!(matches!(rig.try_append(Synced, 10), Err(Error::Failed(_))));
}
