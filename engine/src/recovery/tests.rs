//! Goal: what recovery decides, keeps and reports. Method: a log that is a list of frames, a disk in memory.

use super::*;
use crate::checkpoint::{Checkpoint, CheckpointNext, CheckpointOptions, Cut, SnapshotKind, Source};
use crate::clock::SimClock;
use crate::disk::{Disk, Storage};
use crate::error::{Corrupt, Error};
use crate::format::snapshot::{KeyspaceDefinition, SnapshotMeta};
use crate::index::{Entry, Tree};
use crate::manifest::{self, CleanMark, ManifestFile, ManifestRead};
use crate::options::Options;
use crate::snapshot::{Part, file_name};
use crate::test_disk::TestStorage;
use crate::units::{FileOffset, Lsn, Millis, Nanos, SegmentId};
use crate::verify::{Finding, Verdict, verify};
use std::collections::BTreeMap;
use std::ops::Bound;

const SEGMENT: &str = "log/00000000000000000001.seg";
/// One effect: a put of "v" to "k" in keyspace 0.
const FRAME: &[u8] = &[11, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, b'k', b'v'];

#[derive(Clone, Default)]
struct TestLog {
    frames: Vec<(Lsn, &'static [u8])>,
    tail: LogTail,
    damage: Option<Corrupt>,
}

impl TestLog {
    fn up_to(last: u64) -> TestLog {
        let tail = LogTail {
            last_lsn: Lsn(last),
            next_lsn: Lsn(last + 1),
            segment_proven: Some(SegmentId(1)),
            case: 'F',
            cuts: vec![],
            time: Some(Millis(500)),
        };
        TestLog { frames: (1..=last).map(|lsn| (Lsn(lsn), FRAME)).collect(), tail, damage: None }
    }

    fn torn(mut self, from: FileOffset, to: FileOffset) -> TestLog {
        self.tail.cuts = vec![LogCut { segment: SegmentId(1), from, to }];
        self.tail.next_lsn = self.tail.next_lsn.plus(2);
        self.tail.case = 'G';
        self
    }
}

impl LogReader for TestLog {
    type End = LogProof;

    fn scan(
        &self,
        _disk: &mut dyn Disk,
        _store_id: u128,
        _from: Lsn,
        proof: LogProof,
        visit: &mut Visit<'_>,
    ) -> Result<(LogTail, LogProof), Error> {
        for (lsn, frame) in &self.frames {
            visit(*lsn, Millis(lsn.0), frame)?;
        }
        match self.damage.clone() {
            Some(damage) => Err(damage.into()),
            None => Ok((self.tail.clone(), proof)),
        }
    }

    fn segment_name(&self, segment: SegmentId) -> String {
        format!("log/{:020}.seg", segment.0)
    }
}

#[derive(Debug, Default, PartialEq)]
struct TestTarget {
    records: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    trees: usize,
    applied: Vec<u64>,
}

impl Target for TestTarget {
    fn begin(&mut self, meta: &SnapshotMeta) -> Result<(), Error> {
        assert_eq!(meta.keyspaces[0].name, "default");
        Ok(())
    }
    fn tree(&mut self, _shard: u16, keyspace: u16, tree: Tree) {
        self.trees += 1;
        for (key, entry) in tree.view().range(Bound::Unbounded, Bound::Unbounded) {
            self.record(keyspace, key, entry);
        }
    }
    fn record(&mut self, _keyspace: u16, key: &[u8], entry: Entry<'_>) {
        self.records.insert(key.to_vec(), (entry.value.to_vec(), entry.expiry_millis));
    }
    fn apply(&mut self, lsn: Lsn, _time: Millis, _frame: &[u8]) -> Result<(), Error> {
        self.applied.push(lsn.0);
        Ok(())
    }
}

struct TestSource(u128, Lsn);

impl Source for TestSource {
    fn cut(&self) -> Cut {
        let default =
            KeyspaceDefinition { keyspace: 0, level: 0, routing: 0, prefix_bytes: 0, name: "default".to_owned() };
        let meta = SnapshotMeta {
            store_id: self.0,
            lsn: self.1,
            shards: 16,
            routing: 1,
            keyspaces: vec![default],
            ..SnapshotMeta::default()
        };
        let part = |shard: u16| {
            let mut tree = Tree::new();
            tree.insert(&shard.to_be_bytes(), Entry { value: b"v", expiry_millis: u64::from(shard) });
            Part { shard, keyspace: 0, content: Box::new(tree.view()) }
        };
        Cut { meta, parts: (0..16).map(part).collect() }
    }
    fn lsn_synced(&self) -> Lsn {
        self.1
    }
    fn segment(&self) -> SegmentId {
        SegmentId(1)
    }
    fn request_sync(&self) {}
    fn retire_log(&self, _last: Lsn) {}
}

fn open_with(storage: &TestStorage, log: &TestLog, shards: usize) -> (Result<Recovered<LogProof>, Error>, TestTarget) {
    let (options, clock) = (Options { shards, ..Options::default() }, SimClock::new(Millis(100)));
    let recovery = Recovery {
        storage,
        options: &options,
        routing: 1,
        log,
        parallel: &Sequential,
        clock: &clock,
        store_id_fresh: 7,
    };
    let mut target = TestTarget::default();
    let recovered = recover(&recovery, &mut target);
    (recovered, target)
}

fn open(storage: &TestStorage, log: &TestLog) -> Recovered<LogProof> {
    open_with(storage, log, 16).0.unwrap()
}

fn snapshot_at(storage: &TestStorage, lsn: u64) {
    let mut file = open_manifest(storage);
    let mut disk = storage.disk().unwrap();
    let source = TestSource(file.manifest().store_id, Lsn(lsn));
    let options = CheckpointOptions { snapshots_kept: 2, bytes_per_second: 0 };
    let mut checkpoint = Checkpoint::new(options, SnapshotKind::Manual, Nanos(0));
    loop {
        if let CheckpointNext::Done(report) = checkpoint.step(&mut *disk, &mut file, &source, Nanos(0)) {
            return report.result.unwrap();
        }
    }
}

fn open_manifest(storage: &TestStorage) -> ManifestFile {
    match manifest::read(&mut *storage.disk().unwrap()) {
        Ok(ManifestRead::Present(file, _)) => file,
        other => panic!("{other:?}"),
    }
}

/// A store with a snapshot at 10 and a log file that is not empty.
fn store() -> TestStorage {
    let storage = TestStorage::default();
    open(&storage, &TestLog::up_to(0));
    storage.put(SEGMENT, (0..16384_u32).map(|n| (n / 7) as u8).collect());
    snapshot_at(&storage, 10);
    storage
}

fn corrupt_file(result: Result<Recovered<LogProof>, Error>) -> (String, char) {
    match result {
        Err(Error::Corrupt(corrupt)) => (corrupt.file, corrupt.case),
        other => panic!("{:?}", other.map(|recovered| recovered.to_string())),
    }
}

#[test]
fn an_empty_directory_becomes_a_store_and_stays_the_same_one() {
    let storage = TestStorage::default();
    let first = open(&storage, &TestLog::up_to(0));
    assert_eq!((first.fresh, first.next_lsn, first.manifest.manifest().store_id), (true, Lsn(1), 7));
    assert_eq!(first.to_string(), "made a new store");
    let second = open(&storage.crash(false), &TestLog::up_to(0));
    assert_eq!((second.fresh, second.manifest.manifest().store_id), (false, 7));
}

#[test]
fn a_crash_at_any_step_of_the_first_opening_does_no_harm() {
    for changes in 0..30 {
        let storage = TestStorage::default();
        storage.stop_after(changes);
        let _ = open_with(&storage, &TestLog::up_to(0), 16);
        for lucky in [false, true] {
            assert_eq!(open(&storage.crash(lucky), &TestLog::up_to(0)).next_lsn, Lsn(1));
        }
    }
}

#[test]
fn a_snapshot_is_loaded_and_only_the_log_behind_it_is_replayed() {
    let storage = store();
    let (recovered, target) = open_with(&storage, &TestLog::up_to(12), 16);
    let recovered = recovered.unwrap();
    assert_eq!((target.trees, target.records.len(), target.applied), (16, 16, vec![11, 12]));
    assert_eq!((recovered.last_lsn, recovered.next_lsn), (Lsn(12), Lsn(13)));
    assert_eq!(recovered.to_string(), "recovered 2 commands from snapshot 10 and log 11..12");
    assert_eq!(recovered.time_floor, Millis(500));
}

#[test]
fn another_number_of_shards_loads_the_same_records_one_by_one() {
    let storage = store();
    let (_, same) = open_with(&storage, &TestLog::up_to(12), 16);
    let (recovered, other) = open_with(&storage, &TestLog::up_to(12), 3);
    recovered.unwrap();
    assert_eq!((other.trees, other.records), (0, same.records));
}

#[test]
fn a_damaged_missing_or_foreign_snapshot_is_named_and_nothing_is_changed() {
    let name = file_name(Lsn(10));
    let sound = store().bytes(&name);
    for at in [0, 70, 4096 + 10, 4096 + 60, sound.len() - 4096, sound.len() - 1] {
        let storage = store();
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        storage.put(&name, damaged);
        let before = storage.trace().len();
        let (file, _) = corrupt_file(open_with(&storage, &TestLog::up_to(12), 16).0);
        assert_eq!(file, name, "byte {at}");
        assert!(!storage.trace()[before..].iter().any(|change| change.starts_with("write")));
    }
    let storage = store();
    storage.take(&name);
    assert_eq!(corrupt_file(open_with(&storage, &TestLog::up_to(12), 16).0), (name.clone(), 'a'));
    let foreign = store();
    let mut other = open_manifest(&foreign);
    let store_id = other.manifest().store_id + 1;
    let changed = manifest::Manifest { store_id, ..other.manifest().clone() };
    other.replace(&mut *foreign.disk().unwrap(), changed).unwrap();
    assert_eq!(corrupt_file(open_with(&foreign, &TestLog::up_to(12), 16).0), (name, 'p'));
}

#[test]
fn cut_bytes_are_kept_once_and_never_overwritten() {
    let storage = store();
    let log = TestLog::up_to(12).torn(4096, 12288);
    let recovered = open(&storage, &log);
    assert_eq!(
        recovered.to_string(),
        "recovered 2 commands from snapshot 10 and log 11..12; cut a torn tail of 8192 bytes (case G) \
         kept in quarantine/00000000000000000001-4096.cut"
    );
    assert_eq!((recovered.next_lsn, recovered.cut_range), (Lsn(15), Some((Lsn(13), Lsn(14)))));
    assert_eq!(storage.bytes(&recovered.kept[0].name), storage.bytes(SEGMENT)[4096..12288]);
    assert_eq!(open(&storage.crash(false), &log).kept, recovered.kept, "a second start keeps nothing twice");
    storage.put(SEGMENT, vec![9; 16384]);
    let again = open(&storage, &log);
    assert_eq!(again.kept[0].name, "quarantine/00000000000000000001-4096-1.cut");
    assert_ne!(storage.bytes(&recovered.kept[0].name), storage.bytes(&again.kept[0].name));
}

#[test]
fn a_crash_at_any_step_of_recovery_gives_the_same_result_the_next_time() {
    let log = TestLog::up_to(12).torn(4096, 12288);
    for changes in 0..30 {
        let storage = store();
        storage.stop_after(changes);
        let _ = open_with(&storage, &log, 16);
        for lucky in [false, true] {
            let after = storage.crash(lucky);
            let recovered = open(&after, &log);
            assert_eq!((recovered.replayed, recovered.next_lsn), (2, Lsn(15)));
            let kept = after.names().into_iter().filter(|name| name.ends_with(".cut")).count();
            assert_eq!(kept, 1, "after {changes} changes");
        }
    }
}

#[test]
fn a_full_disk_does_not_keep_a_store_from_starting() {
    let storage = store();
    storage.set_capacity(Some(100));
    let recovered = open(&storage, &TestLog::up_to(12).torn(4096, 12288));
    assert_eq!((recovered.kept.len(), recovered.cut_bytes, recovered.notes.len()), (0, 8192, 1));
    assert!(recovered.to_string().ends_with("(case G) that could not be kept"));
}

fn clean_store(last_lsn: u64) -> TestStorage {
    let storage = store();
    let clean = CleanMark { last_lsn: Lsn(last_lsn), segment: SegmentId(1), end_offset: 4096 };
    open_manifest(&storage).mark_clean(&mut *storage.disk().unwrap(), clean, Millis(1)).unwrap();
    storage
}

#[test]
fn a_clean_mark_is_believed_only_with_the_log_and_is_gone_durably_afterwards() {
    let storage = clean_store(12);
    let recovered = open(&storage, &TestLog::up_to(12));
    assert!(recovered.was_clean);
    assert_eq!(recovered.log, LogProof { synced: Lsn(12), segment: SegmentId(1), clean: true });
    assert_eq!(open_manifest(&storage.crash(false)).manifest().clean, None);
    let second = open(&storage.crash(false), &TestLog::up_to(12));
    assert_eq!((second.was_clean, second.log.clean, second.log.synced), (false, false, Lsn(12)));
}

#[test]
fn a_log_shorter_than_the_clean_mark_or_the_proof_is_corruption_and_a_longer_one_is_told() {
    assert_eq!(corrupt_file(open_with(&clean_store(13), &TestLog::up_to(12), 16).0).1, 'q');
    let storage = clean_store(12);
    open(&storage, &TestLog::up_to(12));
    assert_eq!(corrupt_file(open_with(&storage, &TestLog::up_to(11), 16).0).1, 'q');
    let longer = open(&clean_store(11), &TestLog::up_to(12));
    assert_eq!((longer.was_clean, longer.notes.len()), (false, 1));
}

#[test]
fn a_log_that_is_gone_up_to_the_snapshot_is_enough() {
    let mut log = TestLog::up_to(0);
    log.tail.segment_proven = None;
    let recovered = open(&store(), &log);
    assert_eq!((recovered.last_lsn, recovered.next_lsn, recovered.notes.len()), (Lsn(10), Lsn(11), 1));
    assert_eq!(recovered.log.segment, SegmentId(1), "the log is told that a segment must exist");
}

fn verdict(storage: &TestStorage, log: &TestLog) -> (Verdict, Vec<Finding>) {
    let (before, mut findings) = (storage.trace().len(), Vec::new());
    let verdict = verify(storage, log, &mut |finding| findings.push(finding.clone())).unwrap();
    assert_eq!(storage.trace().len(), before, "verify writes nothing");
    (verdict, findings)
}

#[test]
fn verify_tells_sound_from_torn_from_damaged_from_nothing() {
    let storage = store();
    let (sound, findings) = verdict(&storage, &TestLog::up_to(12));
    assert_eq!((sound, findings.len()), (Verdict::Sound, 2));
    assert_eq!(verdict(&storage, &TestLog::up_to(12).torn(4096, 8192)).0, Verdict::TornTailOnly);
    assert!(matches!(verdict(&TestStorage::default(), &TestLog::up_to(0)).0, Verdict::NotAStore(_)));
}

#[test]
fn verify_collects_all_damage_in_one_run() {
    let storage = store();
    snapshot_at(&storage, 20);
    for (lsn, at) in [(10, 4096 + 50), (10, 8192 + 50), (20, 3)] {
        let mut damaged = storage.bytes(&file_name(Lsn(lsn)));
        damaged[at] ^= 1;
        storage.put(&file_name(Lsn(lsn)), damaged);
    }
    let mut log = TestLog::up_to(25);
    log.frames.push((Lsn(26), &[0, 0, 0, 0, 9, 0, 0, 0]));
    let (expected, found) = (String::new(), String::new());
    log.damage = Some(Corrupt { what: "batch", file: SEGMENT.to_owned(), offset: 0, case: 'D', expected, found });
    let Verdict::Corrupt(damage) = verdict(&storage, &log).0 else { panic!("damage expected") };
    assert_eq!(damage.iter().map(|corrupt| corrupt.case).collect::<String>(), "ggbkD");
}
