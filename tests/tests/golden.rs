//! Goal: what format version 1 wrote is read for ever, and written the same as long as 1 is the version that is written.
//! Method: annotated hex in fixtures/format/v1, made once; decoded, encoded, and opened as a store through the public API.

use logd_engine::clock::OsClock;
use logd_engine::db::Builder;
use logd_engine::digest::Digest;
use logd_engine::disk::{Disk, IoMode, OsStorage, SimOptions, SimStorage, Storage};
use logd_engine::error::{Error, Refused};
use logd_engine::format::batch::{self, Frames};
use logd_engine::format::checksum::checksum;
use logd_engine::format::command::{self, Command};
use logd_engine::format::manifest;
use logd_engine::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use logd_engine::index::Entry;
use logd_engine::manifest::ManifestRead;
use logd_engine::snapshot::Snapshot;
use logd_engine::units::{Lsn, SegmentId};
use logd_engine::{Db, Options};
use logd_tests::golden::{self, COUNT_VALUE, FAR, GoldenCommand, SNAPSHOT_DIGEST, SNAPSHOT_ROWS, STATE_DIGEST, STORE};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SEGMENT: &str = "log/00000000000000000003.seg";
const SNAPSHOT: &str = "snapshot/00000000000000000005.snap";
const MANIFEST: &str = "manifest";

/// Keyspace, key, value, expiry: what snapshot and log come to.
const STATE: &[(u16, &[u8], &[u8], u64)] = &[
    (0, b"boiler/1", b"72.0", 0),
    (0, b"count", COUNT_VALUE, 0),
    (0, b"pump/1", b"on", 0),
    (0, b"pump/2", b"off", FAR),
    (0, b"valve/1", b"open", FAR),
    (1, b"mode", b"eco", 0),
    (2, b"", b"", 0),
];

#[test]
fn the_segment_decodes_to_its_values() {
    let bytes = golden::read("segment.hex");
    assert_eq!(SegmentHeader::decode(STORE, &bytes), Ok(golden::segment_header()));
    let (mut at, mut lsn) = (SEGMENT_HEADER_BYTES, Lsn(6));
    for (expected, commands) in golden::batch_headers().iter().zip(golden::commands()) {
        let header = batch::decode_header(STORE, &bytes[at..], (bytes.len() - at) as u64);
        assert_eq!(header, Ok(*expected));
        let whole = &bytes[at..at + expected.padded_bytes() as usize];
        assert_eq!(batch::check_payload(STORE, expected, whole), Ok(()));
        let frames: Vec<_> = Frames::new(expected, whole).collect();
        assert_eq!(frames.len(), commands.len());
        for ((frame_lsn, frame), command) in frames.into_iter().zip(commands) {
            assert_eq!(frame_lsn, lsn);
            match (command::decode(frame), &command) {
                (Ok(Command::Effects(effects)), GoldenCommand::Effects(expected)) => {
                    assert_eq!(effects.collect::<Result<Vec<_>, _>>().as_ref(), Ok(expected));
                }
                (Ok(Command::Call(call)), GoldenCommand::Call(expected)) => assert_eq!(call, *expected),
                (found, _) => panic!("LSN {lsn} is {command:?}, not {found:?}"),
            }
            lsn = lsn.next();
        }
        at += whole.len();
    }
    assert!(bytes[at..].iter().all(|byte| *byte == 0), "nothing stands behind the last batch");
}

#[test]
fn the_snapshot_decodes_to_its_values() {
    let storage = SimStorage::new(SimOptions::default());
    storage.put(SNAPSHOT, &golden::read("snapshot.hex"));
    let mut disk = storage.disk().expect("a disk in memory");
    let disk: &mut dyn Disk = &mut *disk;
    let snapshot = Snapshot::open(disk, golden::SNAPSHOT_LSN).expect("a sound snapshot");
    assert_eq!(snapshot.meta, golden::snapshot_meta());
    let file = snapshot.open_file(disk).expect("the file");
    let (mut rows, mut digest) = (Vec::new(), Digest::EMPTY);
    for (number, place) in snapshot.blocks.iter().enumerate() {
        let block = snapshot.read_block(disk, file, number).expect("a sound block");
        for record in snapshot.records(&block, number) {
            let (key, Entry { value, expiry_millis }) = record.expect("a sound record");
            rows.push((place.shard, place.keyspace, key.to_vec(), value.to_vec(), expiry_millis));
        }
        digest.add_all(snapshot.digest_block(disk, file, number).expect("a sound block"));
    }
    let expected = SNAPSHOT_ROWS.iter().map(|row| (row.0, row.1, row.2.to_vec(), row.3.to_vec(), row.4));
    assert_eq!(rows, expected.collect::<Vec<_>>());
    assert_eq!((digest.0, snapshot.trailer.digest), (SNAPSHOT_DIGEST.0, SNAPSHOT_DIGEST.0));
}

#[test]
fn the_manifest_decodes_to_its_values_and_its_newer_slot_counts() {
    let bytes = golden::read("manifest.hex");
    let slots = golden::manifest_slots();
    for (slot, expected) in bytes.chunks(manifest::SLOT_BYTES).zip(&slots) {
        assert_eq!(manifest::decode(slot).as_ref(), Ok(expected));
    }
    let storage = SimStorage::new(SimOptions::default());
    storage.put(MANIFEST, &bytes);
    match logd_engine::manifest::read(&mut *storage.disk().expect("a disk in memory")) {
        Ok(ManifestRead::Present(file, None)) => assert_eq!(*file.manifest(), slots[1].0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_values_are_written_as_the_same_bytes() {
    assert!(golden::encode_segment() == golden::read("segment.hex"), "segment.hex");
    assert!(golden::encode_snapshot().0 == golden::read("snapshot.hex"), "snapshot.hex");
    assert!(golden::encode_manifest() == golden::read("manifest.hex"), "manifest.hex");
}

#[test]
fn digests_and_shards_are_what_the_document_says_they_are() {
    let names = ["readings", "device settings", "scratch"];
    let hash = |keyspace: u16, key: &[u8], value: &[u8], expiry_millis: u64| {
        let name = names[usize::from(keyspace)].as_bytes();
        let key_bytes = (key.len() as u16).to_le_bytes();
        let name_bytes = [name.len() as u8];
        let parts: [&[u8]; 6] = [&name_bytes, name, &key_bytes, key, &expiry_millis.to_le_bytes(), value];
        xxhash_rust::xxh3::xxh3_128(&parts.concat())
    };
    let snapshot = SNAPSHOT_ROWS.iter().map(|row| hash(row.1, row.2, row.3, row.4));
    assert_eq!(snapshot.fold(0, u128::wrapping_add), SNAPSHOT_DIGEST.0);
    let state = STATE.iter().map(|row| hash(row.0, row.1, row.2, row.3));
    assert_eq!(state.fold(0, u128::wrapping_add), STATE_DIGEST.0);
    for (shard, keyspace, key, ..) in SNAPSHOT_ROWS {
        let routed = if *keyspace == 1 { &key[..3] } else { *key };
        let expected = (u128::from(xxhash_rust::xxh3::xxh3_64(routed)) * 2) >> 64;
        assert_eq!(u128::from(*shard), expected, "{}", key.escape_ascii());
    }
}

/// A store's directory made of the golden files.
fn assemble(directory: &Path) {
    for name in ["log", "snapshot", "quarantine"] {
        fs::create_dir(directory.join(name)).expect("a fresh directory");
    }
    for (name, golden) in [(SEGMENT, "segment.hex"), (SNAPSHOT, "snapshot.hex"), (MANIFEST, "manifest.hex")] {
        fs::write(directory.join(name), golden::read(golden)).expect("room");
    }
}

fn builder(directory: &Path, shards: usize) -> Builder {
    let storage = OsStorage::new(directory, IoMode::Syscall).expect("a directory");
    let options = Options { shards, ..Options::default() };
    Db::builder(directory).options(options).register(golden::procedure()).storage(Arc::new(storage), Arc::new(OsClock))
}

fn records(db: &Db) -> Vec<(u16, Vec<u8>, Vec<u8>, u64)> {
    let mut records = Vec::new();
    db.view().visit_all(&mut |keyspace, key, entry| {
        records.push((keyspace, key.to_vec(), entry.value.to_vec(), entry.expiry_millis));
    });
    records.sort();
    records
}

#[test]
fn a_store_of_golden_files_opens_and_holds_exactly_its_records_whatever_the_shards() {
    let expected: Vec<_> = STATE.iter().map(|row| (row.0, row.1.to_vec(), row.2.to_vec(), row.3)).collect();
    for shards in [2, 3] {
        let directory = tempfile::tempdir().expect("a scratch directory");
        assemble(directory.path());
        for start in 1..=2 {
            let db = builder(directory.path(), shards).open().expect("a sound store");
            assert_eq!(records(&db), expected, "{shards} shards, start {start}");
            assert_eq!(db.digest(), (Lsn(10), STATE_DIGEST));
            assert_eq!(db.keyspace_names(), ["readings", "device settings", "scratch"]);
            db.close().expect("a clean stop");
        }
    }
}

#[test]
fn a_store_of_golden_files_goes_on() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    assemble(directory.path());
    let db = builder(directory.path(), 2).open().expect("a sound store");
    let readings = db.find_keyspace("readings").expect("it is in the snapshot");
    let ticket = db.put(readings, b"new", b"1", None, None).expect("a store in order");
    assert_eq!(ticket.lsn, Lsn(11));
    db.wait(ticket, None).expect("a sound disk");
    db.close().expect("a clean stop");
    let db = builder(directory.path(), 2).open().expect("a sound store");
    assert_eq!(db.get(readings, b"new").as_deref(), Some(&b"1"[..]));
    assert_eq!(db.len(readings), 6);
}

/// A structure with a version in it: its file, where it begins, how long what its checksum covers is, where version and checksum
/// stand in it, and whether the store's id is mixed in.
struct Versioned {
    file: &'static str,
    at: usize,
    bytes: usize,
    version: usize,
    crc: usize,
    mixed: bool,
}

const VERSIONED: &[Versioned] = &[
    Versioned { file: MANIFEST, at: 0, bytes: 4096, version: 8, crc: 12, mixed: false },
    Versioned { file: MANIFEST, at: 4096, bytes: 4096, version: 8, crc: 12, mixed: false },
    Versioned { file: SNAPSHOT, at: 0, bytes: 64, version: 8, crc: 12, mixed: false },
    Versioned { file: SNAPSHOT, at: 0x6000, bytes: 80, version: 8, crc: 12, mixed: false },
    Versioned { file: SEGMENT, at: 0, bytes: 104, version: 8, crc: 12, mixed: true },
    Versioned { file: SEGMENT, at: 0x1000, bytes: 80, version: 4, crc: 8, mixed: true },
    Versioned { file: SEGMENT, at: 0x2000, bytes: 80, version: 4, crc: 8, mixed: true },
];

impl Versioned {
    /// Sets another version and the checksum that goes with it.
    fn set(&self, file: &mut [u8], version: u32) {
        let bytes = &mut file[self.at..self.at + self.bytes];
        bytes[self.version..self.version + 4].copy_from_slice(&version.to_le_bytes());
        let crc = self.checksum(bytes);
        bytes[self.crc..self.crc + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// As docs/FORMAT.md says: the log's checksums leave their own four bytes out, the others take them for zeros.
    fn checksum(&self, bytes: &[u8]) -> u32 {
        let (before, behind) = (&bytes[..self.crc], &bytes[self.crc + 4..]);
        if self.mixed {
            checksum(STORE, &[before, behind])
        } else {
            crc32fast::hash(&[before, &[0; 4], behind].concat())
        }
    }
}

/// All files but the lock, which names the process that holds it.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for place in ["", "log", "snapshot", "quarantine"] {
        for found in fs::read_dir(directory.join(place)).expect("a directory") {
            let path = found.expect("a readable name").path();
            if path.is_file() && !path.ends_with("LOCK") {
                files.insert(path.to_string_lossy().into_owned(), fs::read(&path).expect("a readable file"));
            }
        }
    }
    files
}

#[test]
fn unknown_versions_are_refused_and_nothing_is_written() {
    for versioned in VERSIONED {
        let directory = tempfile::tempdir().expect("a scratch directory");
        assemble(directory.path());
        let path = directory.path().join(versioned.file);
        let mut file = fs::read(&path).expect("a readable file");
        let sound = file.clone();
        versioned.set(&mut file, 1);
        assert!(file == sound, "{} at {}: the checksum is computed as the engine does", versioned.file, versioned.at);
        for unknown in [0, 2, u32::MAX] {
            versioned.set(&mut file, unknown);
            fs::write(&path, &file).expect("room");
            let before = contents(directory.path());
            match builder(directory.path(), 2).open() {
                Err(Error::Refused(Refused::Version { file, found, known })) => {
                    assert_eq!((file.as_str(), found, known), (versioned.file, unknown, 1));
                }
                Err(other) => panic!("{} at {}, version {unknown}: {other}", versioned.file, versioned.at),
                Ok(_) => panic!("{} at {}, version {unknown}: opened", versioned.file, versioned.at),
            }
            assert!(contents(directory.path()) == before, "{} at {}: written to", versioned.file, versioned.at);
        }
    }
}

#[test]
fn files_of_another_store_are_not_taken_for_its_own() {
    let mut other = STORE;
    other.0[15] ^= 1;
    let bytes = golden::read("segment.hex");
    assert!(SegmentHeader::decode(other, &bytes).is_err());
    assert!(batch::decode_header(other, &bytes[SEGMENT_HEADER_BYTES..], 8192).is_err());
    let known = golden::batch_headers()[0];
    assert!(batch::check_payload(other, &known, &bytes[4096..8192]).is_err());
    assert_eq!(known.generation, SegmentId(3));
}
