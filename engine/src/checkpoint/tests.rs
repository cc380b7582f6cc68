//! Goal: the order of a checkpoint, and that a crash at any step leaves the old or the new pair whole.
//! Method: the disk in memory notes every change and can stop after exactly so many.

use super::*;
use crate::disk::Storage;
use crate::format::snapshot::KeyspaceDefinition;
use crate::index::{Entry, Tree};
use crate::manifest::{self, ManifestRead};
use crate::snapshot::Snapshot;
use crate::test_disk::TestStorage;
use std::cell::{Cell, RefCell};

struct TestSource {
    storage: TestStorage,
    lsn: Lsn,
    lsn_synced: Cell<Lsn>,
    values: usize,
    retired: RefCell<Vec<Lsn>>,
}

impl TestSource {
    fn new(storage: &TestStorage, lsn: u64) -> TestSource {
        let lsn = Lsn(lsn);
        let (lsn_synced, retired) = (Cell::new(lsn), RefCell::default());
        TestSource { storage: storage.clone(), lsn, lsn_synced, values: 3, retired }
    }
}

impl Source for TestSource {
    fn cut(&self) -> Cut {
        let mut tree = Tree::new();
        for n in 0..self.values {
            tree.insert(&n.to_be_bytes(), Entry { value: &[1; 100_000], expiry_millis: 0 });
        }
        let default =
            KeyspaceDefinition { keyspace: 0, level: 0, routing: 0, prefix_bytes: 0, name: "default".to_owned() };
        let meta = SnapshotMeta { lsn: self.lsn, shards: 1, keyspaces: vec![default], ..SnapshotMeta::default() };
        Cut { meta, parts: vec![Part { shard: 0, keyspace: 0, content: Box::new(tree.view()) }] }
    }
    fn lsn_synced(&self) -> Lsn {
        self.lsn_synced.get()
    }
    fn segment(&self) -> SegmentId {
        SegmentId(3)
    }
    fn request_sync(&self) {
        self.lsn_synced.set(self.lsn);
    }
    fn retire_log(&self, last: Lsn) {
        self.retired.borrow_mut().push(last);
        self.storage.put(&format!("retired-{}", self.storage.trace().len()), Vec::new());
    }
}

fn options(snapshots_kept: usize, bytes_per_second: u64) -> CheckpointOptions {
    CheckpointOptions { snapshots_kept, bytes_per_second }
}

fn fresh() -> (TestStorage, ManifestFile) {
    let storage = TestStorage::default();
    let file = manifest::create(&mut *storage.disk().unwrap(), Manifest::default()).unwrap();
    (storage, file)
}

fn run(storage: &TestStorage, manifest: &mut ManifestFile, source: &TestSource, kept: usize) -> SnapshotReport {
    let mut disk = storage.disk().unwrap();
    let mut checkpoint = Checkpoint::new(options(kept, 0), SnapshotKind::Manual, Nanos(1));
    loop {
        if let CheckpointNext::Done(report) = checkpoint.step(&mut *disk, manifest, source, Nanos(2)) {
            return report;
        }
    }
}

fn present(storage: &TestStorage) -> ManifestFile {
    match manifest::read(&mut *storage.disk().unwrap()) {
        Ok(ManifestRead::Present(file, _)) => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_order_is_snapshot_sync_rename_directory_sync_manifest_retire_remove() {
    let (storage, mut manifest) = fresh();
    run(&storage, &mut manifest, &TestSource::new(&storage, 10), 1);
    let before = storage.trace().len();
    let source = TestSource::new(&storage, 20);
    let report = run(&storage, &mut manifest, &source, 1);
    assert_eq!((report.result, report.lsn, report.record_count), (Ok(()), Lsn(20), 3));
    let trace = storage.trace()[before..].join("\n");
    let expected = [
        "create snapshot/00000000000000000020.tmp",
        "sync snapshot/00000000000000000020.tmp",
        "rename snapshot/00000000000000000020.snap",
        "sync_directory snapshot",
        "write_durable manifest",
        "write_durable manifest",
        "remove snapshot/00000000000000000010.snap",
        "sync_directory snapshot",
    ];
    let mut places = Vec::new();
    for step in expected {
        let from = places.last().map_or(0, |place| place + 1);
        places.push(from + trace[from..].find(step).unwrap_or_else(|| panic!("{step} is missing in\n{trace}")));
    }
    assert_eq!(*source.retired.borrow(), [Lsn(20)]);
    let retired_after = storage.names().into_iter().filter_map(|name| name.strip_prefix("retired-")?.parse().ok());
    let removed = storage.trace().iter().rposition(|step| step.starts_with("remove")).unwrap();
    assert_eq!(retired_after.max(), Some(removed), "the log is retired after the manifest and before the removal");
}

#[test]
fn the_manifest_waits_until_the_log_is_synced_to_the_snapshot() {
    let (storage, mut manifest) = fresh();
    let source = TestSource::new(&storage, 10);
    source.lsn_synced.set(Lsn(9));
    let mut disk = storage.disk().unwrap();
    let mut checkpoint = Checkpoint::new(options(2, 0), SnapshotKind::Time, Nanos(0));
    let mut steps = Vec::new();
    loop {
        let manifest_writes =
            |storage: &TestStorage| storage.trace().iter().filter(|s| *s == "write_durable manifest").count();
        let next = checkpoint.step(&mut *disk, &mut manifest, &source, Nanos(0));
        if next == CheckpointNext::WaitForSync(Lsn(10)) {
            assert_eq!(manifest_writes(&storage), 0);
        }
        let done = matches!(next, CheckpointNext::Done(_));
        steps.push(next);
        if done {
            break;
        }
    }
    assert!(steps.contains(&CheckpointNext::WaitForSync(Lsn(10))));
    assert_eq!(present(&storage).manifest().lsn_proof, Lsn(10));
}

#[test]
fn as_many_snapshots_as_asked_are_kept_and_the_log_from_the_oldest() {
    let (storage, mut manifest) = fresh();
    for lsn in [10, 20, 30, 40] {
        let source = TestSource::new(&storage, lsn);
        run(&storage, &mut manifest, &source, 2);
        assert_eq!(*source.retired.borrow(), [Lsn(lsn.saturating_sub(10).max(10))]);
    }
    let kept: Vec<_> = present(&storage).manifest().snapshots.iter().map(|snapshot| snapshot.lsn.0).collect();
    assert_eq!(kept, [30, 40]);
    let files: Vec<_> = storage.names().into_iter().filter(|name| name.starts_with("snapshot/")).collect();
    assert_eq!(files, ["snapshot/00000000000000000030.snap", "snapshot/00000000000000000040.snap"]);
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let (storage, mut manifest) = fresh();
    let source = TestSource::new(&storage, 10);
    run(&storage, &mut manifest, &source, 2);
    let report = run(&storage, &mut manifest, &source, 2);
    assert_eq!((report.result, report.bytes), (Ok(()), 0));
}

#[test]
fn pacing_spreads_the_slices_and_urgency_ends_it() {
    let (storage, mut manifest) = fresh();
    let mut source = TestSource::new(&storage, 10);
    source.values = 30;
    let mut disk = storage.disk().unwrap();
    let mut checkpoint = Checkpoint::new(options(2, 1 << 20), SnapshotKind::LogBytes, Nanos(0));
    assert_eq!(checkpoint.step(&mut *disk, &mut manifest, &source, Nanos(0)), CheckpointNext::Again);
    let next = checkpoint.step(&mut *disk, &mut manifest, &source, Nanos(0));
    let CheckpointNext::Until(due) = next else { panic!("{next:?}") };
    assert!(due.0 >= Nanos::SECOND.0 / 8, "a slice of two values takes a fifth of a second: {due:?}");
    let before = storage.trace().len();
    assert_eq!(checkpoint.step(&mut *disk, &mut manifest, &source, Nanos(due.0 - 1)), CheckpointNext::Until(due));
    assert_eq!(storage.trace().len(), before, "nothing is written before its time");
    checkpoint.set_urgent(true);
    assert_eq!(checkpoint.step(&mut *disk, &mut manifest, &source, Nanos(1)), CheckpointNext::Again);
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let (storage, mut manifest) = fresh();
    run(&storage, &mut manifest, &TestSource::new(&storage, 10), 1);
    let before = storage.names();
    storage.set_capacity(Some(300_000));
    let source = TestSource::new(&storage, 20);
    let report = run(&storage, &mut manifest, &source, 1);
    assert!(matches!(report.result, Err(Error::Full(_))));
    assert_eq!((storage.names(), source.retired.borrow().len()), (before, 0));
    storage.set_capacity(None);
    assert_eq!(run(&storage, &mut manifest, &source, 1).result, Ok(()), "it heals when there is space again");
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_pair_whole() {
    for lucky in [false, true] {
        for changes in 0.. {
            let (storage, mut manifest) = fresh();
            run(&storage, &mut manifest, &TestSource::new(&storage, 10), 1);
            storage.stop_after(changes);
            let source = TestSource::new(&storage, 20);
            let report = run(&storage, &mut manifest, &source, 1);
            let after = storage.crash(lucky);
            let file = present(&after);
            let newest = file.manifest().snapshots.last().expect("one is kept").lsn;
            Snapshot::open(&mut *after.disk().unwrap(), newest).expect("the snapshot that the manifest names is whole");
            if let Some(retired) = source.retired.borrow().last() {
                assert!(*retired <= newest, "log was retired that the manifest still needs");
            }
            let mut file = present(&after);
            let next = TestSource::new(&after, 30);
            assert_eq!(run(&after, &mut file, &next, 1).result, Ok(()), "the next checkpoint clears up");
            let names: Vec<_> = after.names().into_iter().filter(|name| name.starts_with("snapshot/")).collect();
            assert_eq!(names, ["snapshot/00000000000000000030.snap"]);
            if report.result.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn the_last_sixteen_reports_are_kept() {
    let mut reports = SnapshotReports::default();
    for lsn in 0..20 {
        let report = SnapshotReport {
            kind: SnapshotKind::Manual,
            lsn: Lsn(lsn),
            start: Nanos(0),
            end: Nanos(0),
            bytes: 0,
            record_count: 0,
            result: Ok(()),
        };
        reports.push(report);
    }
    assert_eq!(reports.iter().map(|report| report.lsn.0).collect::<Vec<_>>(), (4..20).collect::<Vec<_>>());
}

#[test]
fn the_pauses_get_shorter_the_more_is_held_for_the_snapshot_and_never_vanish_while_segments_are_prepared() {
    let mut checkpoint = Checkpoint::new(options(1, 1000), SnapshotKind::Manual, Nanos(0));
    let mut pause = |kept: u64, is_preparing: bool| {
        checkpoint.set_kept(kept, 100, is_preparing);
        (checkpoint.paid, checkpoint.report.end) = (Nanos(0), Nanos(0));
        checkpoint.pay(1000, Nanos(0));
        checkpoint.paid.0 / 1_000_000
    };
    assert_eq!([0, 50, 75, 100, 500].map(|kept| pause(kept, false)), [1000, 1000, 500, 0, 0]);
    assert_eq!([0, 50, 80, 500].map(|kept| pause(kept, true)), [1000, 1000, 500, 500]);
}
