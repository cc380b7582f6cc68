//! What the golden files of format version 1 hold, as values, and the same encoded.
//! Guarantees: no clock, no randomness: the same bytes on every machine.
//! Must not know: the texts; `hex.rs` reads them.
//! Next: ../tests/golden.rs compares; fixtures/README.md says who may change what.

use logd_engine::digest::Digest;
use logd_engine::disk::{SimOptions, SimStorage, Storage};
use logd_engine::format::StoreId;
use logd_engine::format::batch::{self, BATCH_HEADER_BYTES, BatchHeader};
use logd_engine::format::command::{Call, Effect, FrameBuilder, KeyspaceEffect};
use logd_engine::format::manifest::{self, CleanMark, Manifest, SnapshotReference};
use logd_engine::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use logd_engine::format::snapshot::{KeyspaceDefinition, ProcedureDefinition, SnapshotMeta};
use logd_engine::index::{Entry, Tree};
use logd_engine::snapshot::{Part, SnapshotWriter, Written, file_name};
use logd_engine::units::{Lsn, Millis, SegmentId};
use logd_engine::{Context, LogForm, Procedure};
use std::path::{Path, PathBuf};

/// The store that all golden files belong to.
pub const STORE: StoreId =
    StoreId([0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
/// An expiry that no test run lives to see: the last second of the year 9999.
pub const FAR: u64 = 253_402_300_799_000;
/// Engine time of the snapshot: the first moment of 2026.
pub const TIME: Millis = Millis(1_767_225_600_000);
/// Length of the segment's file.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// LSN of the snapshot.
pub const SNAPSHOT_LSN: Lsn = Lsn(5);

/// Shard, keyspace, key, value, expiry, in the order of the file.
pub type SnapshotRow = (u16, u16, &'static [u8], &'static [u8], u64);

/// The snapshot's records.
pub const SNAPSHOT_ROWS: &[SnapshotRow] = &[
    (0, 0, b"boiler/1", b"71.5", 0),
    (0, 0, b"pump/2", b"off", 0),
    (0, 1, b"led/mode", b"blink", 0),
    (1, 0, b"boiler/2", b"68.0", 0),
    (1, 0, b"pump/1", b"on", FAR),
    (1, 1, b"fan/mode", b"auto", FAR),
];

/// A command of the golden segment.
#[derive(Clone, Debug, PartialEq)]
pub enum GoldenCommand {
    /// Effects.
    Effects(Vec<Effect<'static>>),
    /// A call.
    Call(Call<'static>),
}

/// Where the golden files of version 1 are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/format/v1")
}

/// The bytes of a golden file.
pub fn read(name: &str) -> Vec<u8> {
    let path = directory().join(name);
    crate::hex::read(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The head of the segment. The log before it was retired: the snapshot has all of it.
pub fn segment_header() -> SegmentHeader {
    SegmentHeader {
        segment: SegmentId(3),
        segment_bytes: SEGMENT_BYTES as u64,
        previous_segment: SegmentId(2),
        previous_last_lsn: Lsn(5),
        previous_last_sequence: 4,
        previous_end: 8192,
        first_lsn: Lsn(6),
        first_sequence: 5,
        recycled: false,
    }
}

/// The heads of its two batches.
pub fn batch_headers() -> [BatchHeader; 2] {
    let first = BatchHeader {
        generation: SegmentId(3),
        sequence: 5,
        first_lsn: Lsn(6),
        lsn_synced: Lsn(5),
        time: Millis(TIME.0 + 100),
        wall: Millis(TIME.0 + 101),
        frame_count: 3,
        payload_bytes: 172,
    };
    let second = BatchHeader {
        sequence: 6,
        first_lsn: Lsn(9),
        lsn_synced: Lsn(8),
        time: Millis(TIME.0 + 123),
        wall: Millis(TIME.0 + 124),
        frame_count: 2,
        payload_bytes: 59,
        ..first
    };
    [first, second]
}

/// The commands from LSN 6 on, by batch.
pub fn commands() -> [Vec<GoldenCommand>; 2] {
    let scratch = KeyspaceEffect { keyspace: 2, level: 1, routing: 2, prefix_bytes: 0, name: "scratch" };
    let definitions =
        vec![Effect::Keyspace(scratch), Effect::Procedure { procedure: 1, version: 7, form: 1, name: "sum" }];
    let changes = vec![
        Effect::Put { keyspace: 0, key: b"boiler/1", value: b"72.0", expiry_millis: 0 },
        Effect::Put { keyspace: 0, key: b"valve/1", value: b"open", expiry_millis: FAR },
        Effect::Delete { keyspace: 0, key: b"boiler/2" },
        Effect::Expire { keyspace: 0, key: b"pump/1", expiry_millis: 0 },
        Effect::Expire { keyspace: 0, key: b"pump/2", expiry_millis: FAR },
        Effect::Clear { keyspace: 1 },
    ];
    let setting = vec![Effect::Put { keyspace: 1, key: b"mode", value: b"eco", expiry_millis: 0 }];
    let nothing = vec![Effect::Put { keyspace: 2, key: b"", value: b"", expiry_millis: 0 }];
    let call = Call {
        procedure: 0,
        version: 0x0102_0304,
        time_millis: TIME.0 + 123,
        seed: 0x5eed,
        effects_crc: 0xce62_b9e5,
        arguments: b"pump/1",
    };
    [
        vec![GoldenCommand::Effects(definitions), GoldenCommand::Effects(changes), GoldenCommand::Effects(setting)],
        vec![GoldenCommand::Call(call), GoldenCommand::Effects(nothing)],
    ]
}

/// The procedure that the golden call means: it writes down what it was given, so that a replay shows time and random numbers.
pub fn procedure() -> Procedure {
    let body = |context: &mut Context<'_, '_>, arguments: &[u8]| {
        let (now, random) = (context.now().0, context.random());
        let value = format!("{now} {random:016x} {}", arguments.escape_ascii());
        context.put(context.keyspace(0), b"count", value.as_bytes(), None)?;
        Ok(Vec::new())
    };
    Procedure::new("count", 0x0102_0304, &["readings"], body).logged_as(LogForm::Call)
}

/// The segment's file.
pub fn encode_segment() -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
    segment_header().encode(STORE, &mut bytes);
    let mut frame = FrameBuilder::new();
    for (header, commands) in batch_headers().iter().zip(commands()) {
        let start = bytes.len();
        bytes.resize(start + BATCH_HEADER_BYTES, 0);
        for command in &commands {
            match command {
                GoldenCommand::Effects(effects) => {
                    frame.start_effects();
                    effects.iter().for_each(|effect| frame.push(*effect));
                }
                GoldenCommand::Call(call) => frame.replace_by_call(call),
            }
            bytes.extend_from_slice(frame.finish());
        }
        assert_eq!(bytes.len() - start - BATCH_HEADER_BYTES, header.payload_bytes as usize, "the frames' length");
        bytes.resize(start + header.padded_bytes() as usize, 0);
        batch::seal(STORE, header, &mut bytes[start..]);
    }
    bytes.resize(SEGMENT_BYTES, 0);
    bytes
}

/// The head of the snapshot.
pub fn snapshot_meta() -> SnapshotMeta {
    let keyspace = |keyspace, level, routing, prefix_bytes, name: &str| KeyspaceDefinition {
        keyspace,
        level,
        routing,
        prefix_bytes,
        name: name.to_owned(),
    };
    SnapshotMeta {
        store_id: u128::from_le_bytes(STORE.0),
        lsn: SNAPSHOT_LSN,
        time_millis: TIME,
        shards: 2,
        routing: 1,
        keyspaces: vec![keyspace(0, 0, 0, 0, "readings"), keyspace(1, 3, 1, 3, "device settings")],
        procedures: vec![ProcedureDefinition { procedure: 0, version: 0x0102_0304, form: 2, name: "count".to_owned() }],
    }
}

/// The snapshot's file and what its writer says about it.
pub fn encode_snapshot() -> (Vec<u8>, Written) {
    let mut parts: Vec<(u16, u16, Tree)> = Vec::new();
    for (shard, keyspace, key, value, expiry_millis) in SNAPSHOT_ROWS {
        if parts.last().is_none_or(|part| (part.0, part.1) != (*shard, *keyspace)) {
            parts.push((*shard, *keyspace, Tree::new()));
        }
        let part = parts.last_mut().expect("one was just pushed");
        part.2.insert(key, Entry { value, expiry_millis: *expiry_millis });
    }
    let part = |(shard, keyspace, tree): (u16, u16, Tree)| Part { shard, keyspace, content: Box::new(tree.view()) };
    let parts = parts.into_iter().map(part);
    let storage = SimStorage::new(SimOptions::default());
    let mut disk = storage.disk().expect("a disk in memory");
    disk.create_directory("snapshot").expect("room");
    let mut writer = SnapshotWriter::begin(&mut *disk, snapshot_meta(), parts.collect()).expect("room");
    while !writer.step(&mut *disk, u64::MAX).expect("room").done {}
    let written = writer.finish(&mut *disk).expect("room");
    (storage.contents(&file_name(SNAPSHOT_LSN)).expect("a finished snapshot"), written)
}

/// The manifest's slots, each with its sequence. The second is the newer one.
pub fn manifest_slots() -> [(Manifest, u64); 2] {
    let reference = SnapshotReference {
        lsn: SNAPSHOT_LSN,
        file_bytes: 28_672,
        digest: SNAPSHOT_DIGEST.0,
        time_millis: TIME,
        record_count: 6,
    };
    let older_reference = SnapshotReference {
        lsn: Lsn(2),
        file_bytes: 12_288,
        digest: 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210,
        time_millis: Millis(TIME.0 - 60_000),
        record_count: 0,
    };
    let older = Manifest {
        store_id: u128::from_le_bytes(STORE.0),
        created_millis: Millis(TIME.0 - 3_600_000),
        segment_bytes: SEGMENT_BYTES as u64,
        shards: 2,
        time_millis: TIME,
        lsn_proof: Lsn(5),
        segment_proof: SegmentId(2),
        clean: None,
        snapshots: vec![older_reference, reference],
    };
    let newer = Manifest {
        time_millis: Millis(TIME.0 + 123),
        lsn_proof: Lsn(10),
        segment_proof: SegmentId(3),
        clean: Some(CleanMark { last_lsn: Lsn(10), segment: SegmentId(3), end_offset: 12_288 }),
        snapshots: vec![reference],
        ..older.clone()
    };
    [(older, 7), (newer, 8)]
}

/// The manifest's file.
pub fn encode_manifest() -> Vec<u8> {
    manifest_slots().iter().flat_map(|(manifest, sequence)| manifest::encode(manifest, *sequence)).collect()
}

/// State digest of the snapshot.
pub const SNAPSHOT_DIGEST: Digest = Digest(0xadf9_5d5e_904f_5ada_d225_6866_e74d_44bb);
/// State digest after the whole log.
pub const STATE_DIGEST: Digest = Digest(0x8998_3227_0fbc_1f79_82b9_6b58_07e8_2d1a);
/// What the replayed call leaves.
pub const COUNT_VALUE: &[u8] = b"1767225600123 09f1fd9d03f0a9b4 pump/1";
