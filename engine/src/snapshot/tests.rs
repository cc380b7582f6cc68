//! Goal: what is written comes back, and no damage of a snapshot goes unseen. Method: small snapshots on a disk in memory.

use super::*;
use crate::digest::Digest;
use crate::disk::{Disk, Storage};
use crate::error::Error;
use crate::format::snapshot::{KeyspaceDefinition, ProcedureDefinition, SnapshotMeta, encode_trailer};
use crate::index::{Entry, Tree};
use crate::limits::BLOCK_BYTES;
use crate::test_disk::TestStorage;
use crate::units::Millis;

type Record = (u16, u16, Vec<u8>, Vec<u8>, u64);

fn keyspace(keyspace: u16, name: &str) -> KeyspaceDefinition {
    KeyspaceDefinition { keyspace, level: 0, routing: 0, prefix_bytes: 0, name: name.to_owned() }
}

fn meta(lsn: u64) -> SnapshotMeta {
    SnapshotMeta {
        store_id: 5,
        lsn: Lsn(lsn),
        time_millis: Millis(6),
        shards: 4,
        routing: 1,
        keyspaces: vec![keyspace(0, "default"), keyspace(7, "seven")],
        procedures: vec![ProcedureDefinition { procedure: 1, version: 2, form: 1, name: "vote".to_owned() }],
    }
}

fn parts(records: &[Record]) -> Vec<Part> {
    let mut parts: Vec<(u16, u16, Tree)> = Vec::new();
    for (shard, keyspace, key, value, expiry_millis) in records {
        if !parts.iter().any(|part| (part.0, part.1) == (*shard, *keyspace)) {
            parts.push((*shard, *keyspace, Tree::new()));
        }
        let part = parts.iter_mut().find(|part| (part.0, part.1) == (*shard, *keyspace)).unwrap();
        part.2.insert(key, Entry { value, expiry_millis: *expiry_millis });
    }
    parts.into_iter().map(|(shard, keyspace, tree)| Part { shard, keyspace, content: Box::new(tree.view()) }).collect()
}

fn write(disk: &mut dyn Disk, records: &[Record]) -> Written {
    let mut writer = SnapshotWriter::begin(disk, meta(9), parts(records)).unwrap();
    while !writer.step(disk, 1).unwrap().done {}
    writer.finish(disk).unwrap()
}

fn read_all(disk: &mut dyn Disk) -> Result<(Snapshot, Vec<Record>), Error> {
    let snapshot = Snapshot::open(disk, Lsn(9))?;
    let numbers: Vec<usize> = (0..snapshot.blocks.len()).collect();
    let (mut records, mut digest) = (Vec::new(), Digest::EMPTY);
    let mut stream = BlockStream::new(&snapshot, disk, &numbers)?;
    while let Some(block) = stream.next_block() {
        let (number, block) = block?;
        let place = snapshot.blocks[number];
        for record in snapshot.records(&block, number) {
            let (key, entry) = record?;
            digest.add(snapshot.keyspace_name(place.keyspace), key, entry);
            records.push((place.shard, place.keyspace, key.to_vec(), entry.value.to_vec(), entry.expiry_millis));
        }
    }
    drop(stream);
    snapshot.check_digest(digest)?;
    Ok((snapshot, records))
}

fn some_records() -> Vec<Record> {
    let record = |shard, keyspace, key: &str, expiry| (shard, keyspace, key.into(), b"value".to_vec(), expiry);
    vec![record(0, 0, "a", 0), record(0, 0, "b", 99), record(0, 7, "a", 0), record(3, 0, "", 0)]
}

#[test]
fn an_empty_store_round_trips() {
    let storage = TestStorage::default();
    let mut disk = storage.disk().unwrap();
    let written = write(&mut *disk, &[]);
    assert_eq!((written.record_count, written.digest), (0, Digest::EMPTY));
    let (snapshot, records) = read_all(&mut *disk).unwrap();
    assert_eq!((snapshot.meta, records), (meta(9), vec![]));
}

#[test]
fn records_with_expiries_in_several_shards_and_keyspaces_round_trip() {
    let storage = TestStorage::default();
    let mut disk = storage.disk().unwrap();
    let written = write(&mut *disk, &some_records());
    let (snapshot, records) = read_all(&mut *disk).unwrap();
    assert_eq!((snapshot.meta.clone(), records), (meta(9), some_records()));
    assert_eq!(written.digest.0, snapshot.trailer.digest);
    assert_eq!(written.file_bytes, storage.bytes(&snapshot.name).len() as u64);
}

#[test]
fn many_blocks_and_values_larger_than_a_block_round_trip() {
    let storage = TestStorage::default();
    let mut disk = storage.disk().unwrap();
    let value = |n: u32| vec![n as u8; if n % 100 == 7 { 1 << 20 } else { 1000 }];
    let records: Vec<Record> = (0..900_u32).map(|n| (1, 0, n.to_be_bytes().to_vec(), value(n), 0)).collect();
    write(&mut *disk, &records);
    let (snapshot, read) = read_all(&mut *disk).unwrap();
    assert!(snapshot.blocks.len() > 10);
    assert!(read == records, "the records differ");
}

#[test]
fn a_view_is_released_when_its_last_record_is_written() {
    let storage = TestStorage::default();
    let mut disk = storage.disk().unwrap();
    let mut writer = SnapshotWriter::begin(&mut *disk, meta(9), parts(&some_records())).unwrap();
    let steps: Vec<Step> = (0..3).map(|_| writer.step(&mut *disk, 1).unwrap()).collect();
    assert_eq!(steps.iter().map(|step| step.done).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn every_flipped_byte_of_a_snapshot_is_detected() {
    let storage = TestStorage::default();
    write(&mut *storage.disk().unwrap(), &some_records());
    let name = file_name(Lsn(9));
    let sound = storage.bytes(&name);
    let damaged_storage = TestStorage::default();
    let mut disk = damaged_storage.disk().unwrap();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << (at % 8);
        damaged_storage.put(&name, damaged);
        match read_all(&mut *disk) {
            Err(Error::Corrupt(corrupt)) => assert_eq!(corrupt.file, name),
            other => panic!("byte {at}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn every_cut_to_whole_blocks_or_others_is_detected() {
    let storage = TestStorage::default();
    write(&mut *storage.disk().unwrap(), &some_records());
    let name = file_name(Lsn(9));
    let sound = storage.bytes(&name);
    for bytes in (0..sound.len()).step_by(512) {
        storage.put(&name, sound[..bytes].to_vec());
        assert!(matches!(read_all(&mut *storage.disk().unwrap()), Err(Error::Corrupt(_))), "cut to {bytes}");
    }
}

#[test]
fn extreme_lengths_with_right_checksums_reserve_no_more_than_the_file_holds() {
    let storage = TestStorage::default();
    write(&mut *storage.disk().unwrap(), &some_records());
    let name = file_name(Lsn(9));
    let sound = storage.bytes(&name);
    let before = Snapshot::open(&mut *storage.disk().unwrap(), Lsn(9)).unwrap();
    let extremes = [1_u64, 4097, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    for extreme in extremes {
        for field in 0..3 {
            let mut trailer = before.trailer;
            match field {
                0 => trailer.block_count = extreme,
                1 => trailer.index_offset = extreme,
                _ => trailer.record_count = extreme,
            }
            let mut damaged = sound.clone();
            let at = damaged.len() - BLOCK_BYTES;
            damaged[at..].copy_from_slice(&encode_trailer(&trailer));
            assert_refused_within_bounds(&name, damaged);
        }
        let mut damaged = sound.clone();
        damaged[48..52].copy_from_slice(&(extreme as u32).to_le_bytes());
        damaged[12..16].fill(0);
        let crc = crc32fast::hash(&damaged[..64]);
        damaged[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_refused_within_bounds(&name, damaged);
    }
}

fn assert_refused_within_bounds(name: &str, damaged: Vec<u8>) {
    let storage = TestStorage::default();
    let bytes = damaged.len();
    storage.put(name, damaged);
    assert!(matches!(read_all(&mut *storage.disk().unwrap()), Err(Error::Corrupt(_))));
    assert!(storage.largest_buffer() <= bytes);
}

#[test]
fn a_full_disk_is_full_and_an_abandoned_snapshot_leaves_nothing() {
    let storage = TestStorage::default();
    storage.set_capacity(Some(5000));
    let mut disk = storage.disk().unwrap();
    let mut writer = SnapshotWriter::begin(&mut *disk, meta(9), parts(&some_records())).unwrap();
    assert!(matches!(writer.step(&mut *disk, 1), Err(Error::Full(_))));
    writer.abandon(&mut *disk);
    assert_eq!(storage.names(), Vec::<String>::new());
}

#[test]
fn names_of_snapshots_are_told_from_others() {
    assert_eq!(lsn_of_name("00000000000000000012.snap"), Some(Lsn(12)));
    for name in ["00000000000000000012.tmp", "12.snap", "+0000000000000000012.snap", ".snap"] {
        assert_eq!(lsn_of_name(name), None, "{name}");
    }
}
