//! What the commands read of a store, and the one seam behind which the engine's readers are.
//! Guarantees: a `Store` only reads; facts are plain numbers and texts, ready for JSON.
//! Must not know: files, how anything is decoded.
//! Next: directory.rs is the store in a directory; command/ reads through this.

use logd_engine::Error;
use logd_engine::core::Catalog;
use logd_engine::error::Corrupt;
use logd_engine::index::Entry;
use logd_engine::units::Lsn;
use logd_engine::verify::{Finding, Verdict};
use serde::Serialize;
use std::ops::ControlFlow;

/// The manifest's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ManifestFacts {
    /// Identity of the store, in hexadecimal.
    pub store_id: String,
    /// When it was made, in wall milliseconds.
    pub created_millis: u64,
    /// Size of its segments.
    pub segment_bytes: u64,
    /// Its number of shards.
    pub shards: u64,
    /// Engine time when it was written.
    pub time_millis: u64,
    /// An LSN that is known to be on stable storage.
    pub lsn_proof: u64,
    /// Where the log ends, if the store was closed in good order.
    pub clean: Option<CleanFacts>,
    /// The snapshots it names.
    pub snapshots: Vec<SnapshotReferenceFacts>,
    /// What was odd about it although it was readable.
    pub note: Option<String>,
}

/// The mark of a clean stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CleanFacts {
    /// Last LSN.
    pub last_lsn: u64,
    /// Segment in which the log ends.
    pub segment: u64,
    /// Byte place in it.
    pub end_offset: u64,
}

/// A snapshot as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotReferenceFacts {
    /// LSN of the state in it.
    pub lsn: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// State digest.
    pub digest: String,
    /// Engine time of the state.
    pub time_millis: u64,
    /// Number of records.
    pub record_count: u64,
}

/// Head and index of a snapshot file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotFacts {
    /// File inside the store's directory.
    pub file: String,
    /// LSN of the state in it.
    pub lsn: u64,
    /// Engine time of the state.
    pub time_millis: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Shards it was written from.
    pub shards: u64,
    /// Number of records.
    pub record_count: u64,
    /// State digest.
    pub digest: String,
    /// Names of its keyspaces, by number.
    pub keyspaces: Vec<String>,
    /// Its blocks, in order.
    pub blocks: Vec<BlockFacts>,
}

/// One block of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockFacts {
    /// Byte place in the file.
    pub offset: u64,
    /// Length with padding.
    pub bytes: u64,
    /// Number of records.
    pub record_count: u64,
    /// Shard.
    pub shard: u64,
    /// Keyspace number.
    pub keyspace: u16,
}

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentFacts {
    /// File inside the store's directory.
    pub file: String,
    /// Number of the segment.
    pub segment: u64,
    /// Length of the file.
    pub bytes: u64,
    /// LSN of its first command; `None` for a file that is prepared and not in use, or unreadable.
    pub first_lsn: Option<u64>,
    /// Why its header does not count, if it does not.
    pub reason: Option<String>,
}

/// One batch of the log.
#[derive(Clone, Debug, Default)]
pub struct BatchFacts<'a> {
    /// Segment.
    pub segment: u64,
    /// Byte place in it.
    pub offset: u64,
    /// Length with header and padding.
    pub bytes: u64,
    /// Number of the batch.
    pub sequence: u64,
    /// LSN of its first command.
    pub first_lsn: Lsn,
    /// What was known to be synced when it was formed.
    pub lsn_synced: Lsn,
    /// Engine time.
    pub time_millis: u64,
    /// Wall time.
    pub wall_millis: u64,
    /// Its frames, in order.
    pub frames: Vec<&'a [u8]>,
}

impl BatchFacts<'_> {
    /// LSN of its last command.
    pub fn last_lsn(&self) -> Lsn {
        Lsn((self.first_lsn.0 + self.frames.len() as u64).saturating_sub(1))
    }
}

/// How the log ends, if it is sound to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogEndFacts {
    /// Last LSN.
    pub last_lsn: u64,
    /// Row of the table in docs/FORMAT.md that decided it.
    pub case: char,
    /// What that row says.
    pub condition: String,
    /// Segment in which it ends; 0 for a log without segments.
    pub segment: u64,
    /// Byte place in it.
    pub offset: u64,
    /// Bytes of a torn tail behind it; 0 for none.
    pub torn_bytes: u64,
    /// Further files that are part of the torn tail.
    pub torn_files: u64,
}

impl LogEndFacts {
    /// Whether a crash left bytes that nobody was promised.
    pub fn is_torn(&self) -> bool {
        self.torn_bytes > 0 || self.torn_files > 0
    }
}

/// Takes what a walk over the log finds. Only `batch` must be there.
pub trait LogVisitor {
    /// A file of the log; all of them come first.
    fn segment(&mut self, segment: &SegmentFacts) {
        let _ = segment;
    }
    /// A whole batch, in order, before any damage. `Break` ends the walk.
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()>;
    /// The place where reading in order ends for good.
    fn damage(&mut self, damage: &Corrupt) {
        let _ = damage;
    }
    /// A whole batch behind the damage.
    fn batch_behind(&mut self, batch: &BatchFacts<'_>) {
        let _ = batch;
    }
    /// Bytes behind the damage that are no whole batch.
    fn unreadable(&mut self, segment: u64, from: u64, to: u64) {
        let _ = (segment, from, to);
    }
}

/// How a walk over the log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// At the end of the log.
    End(LogEndFacts),
    /// At damage, which the visitor was told of.
    Damaged,
    /// Where the visitor wanted.
    Stopped,
}

/// A store that is read.
pub trait Store {
    /// The store as the user named it.
    fn place(&self) -> String;
    /// The process that has it open, if one has.
    fn holder(&self) -> Option<u32>;
    /// The manifest; `None` if there is no store.
    fn manifest(&mut self) -> Result<Option<ManifestFacts>, Error>;
    /// Checks everything; the sink hears of each finding.
    fn verify(&mut self, sink: &mut dyn FnMut(&Finding)) -> Result<Verdict, Error>;
    /// Head and index of the snapshot at an LSN, checked.
    fn snapshot(&mut self, lsn: Lsn) -> Result<SnapshotFacts, Error>;
    /// The definitions in a snapshot.
    fn snapshot_catalog(&mut self, lsn: Lsn) -> Result<Catalog, Error>;
    /// Visits all records of a snapshot, block by block, each block checked.
    fn snapshot_records(&mut self, lsn: Lsn, visit: &mut dyn FnMut(u16, &[u8], Entry<'_>)) -> Result<(), Error>;
    /// Walks the log from the batch that holds `from` on; 0 for the oldest.
    fn log(&mut self, from: Lsn, visitor: &mut dyn LogVisitor) -> Result<WalkEnd, Error>;
    /// Names and lengths of the files in `quarantine/`.
    fn quarantined(&mut self) -> Result<Vec<(String, u64)>, Error>;
}

#[cfg(test)]
pub(crate) mod fake {
    //! A store made of values, for tests of the commands.

    use super::*;
    use logd_engine::format::command::{Effect, FrameBuilder, KeyspaceEffect};

    /// Batches of one frame each, and what is wrong with them.
    #[derive(Default)]
    pub struct FakeStore {
        pub manifest: Option<ManifestFacts>,
        pub manifest_error: Option<Error>,
        pub snapshot_error: Option<Error>,
        pub catalog: Catalog,
        pub records: Vec<(u16, &'static str, &'static str)>,
        pub frames: Vec<Vec<u8>>,
        pub first_lsn: u64,
        pub damage: Option<Corrupt>,
        pub end: LogEndFacts,
        pub holder: Option<u32>,
        /// Wall clock minus engine time.
        pub lead_millis: u64,
    }

    pub fn corrupt(file: &str) -> Corrupt {
        let (expected, found) = ("1".to_owned(), "2".to_owned());
        Corrupt { what: "batch", file: file.to_owned(), offset: 4096, case: 'F', expected, found }
    }

    fn frame(effects: &[Effect<'_>]) -> Vec<u8> {
        let mut builder = FrameBuilder::new();
        builder.start_effects();
        effects.iter().for_each(|effect| builder.push(*effect));
        builder.finish().to_vec()
    }

    impl FakeStore {
        /// LSN 1 makes the keyspace "things", LSNs 2 to 4 put a, b and c into it; wall times are 1000 an LSN.
        pub fn sound() -> FakeStore {
            let keyspace = KeyspaceEffect { keyspace: 0, level: 0, routing: 0, prefix_bytes: 0, name: "things" };
            let mut frames = vec![frame(&[Effect::Keyspace(keyspace)])];
            for key in ["a", "b", "c"] {
                let key = key.as_bytes();
                frames.push(frame(&[Effect::Put { keyspace: 0, key, value: b"1", expiry_millis: 0 }]));
            }
            let end = LogEndFacts { last_lsn: 4, case: 'A', segment: 1, offset: 20_480, ..LogEndFacts::default() };
            FakeStore { manifest: Some(ManifestFacts::default()), frames, first_lsn: 1, end, ..FakeStore::default() }
        }
    }

    impl Store for FakeStore {
        fn place(&self) -> String {
            "fake".to_owned()
        }
        fn holder(&self) -> Option<u32> {
            self.holder
        }
        fn manifest(&mut self) -> Result<Option<ManifestFacts>, Error> {
            self.manifest_error.clone().map_or(Ok(self.manifest.clone()), Err)
        }
        fn verify(&mut self, sink: &mut dyn FnMut(&Finding)) -> Result<Verdict, Error> {
            match self.manifest() {
                Ok(None) => return Ok(Verdict::NotAStore("nothing is there".to_owned())),
                Err(Error::Corrupt(corrupt)) => return Ok(Verdict::Corrupt(vec![*corrupt])),
                Err(error) => return Err(error),
                Ok(Some(_)) => {}
            }
            if let Some(damage) = &self.damage {
                sink(&Finding::Damage(damage.clone()));
                return Ok(Verdict::Corrupt(vec![damage.clone()]));
            }
            let (last_lsn, case, cut_bytes) = (Lsn(self.end.last_lsn), self.end.case, self.end.torn_bytes);
            sink(&Finding::Log { commands: self.frames.len() as u64, last_lsn, case, cut_bytes });
            Ok(if self.end.is_torn() { Verdict::TornTailOnly } else { Verdict::Sound })
        }
        fn snapshot(&mut self, lsn: Lsn) -> Result<SnapshotFacts, Error> {
            let facts = SnapshotFacts { lsn: lsn.0, file: "snapshot/x".to_owned(), ..SnapshotFacts::default() };
            self.snapshot_error.clone().map_or(Ok(facts), Err)
        }
        fn snapshot_catalog(&mut self, _lsn: Lsn) -> Result<Catalog, Error> {
            Ok(self.catalog.clone())
        }
        fn snapshot_records(&mut self, _lsn: Lsn, visit: &mut dyn FnMut(u16, &[u8], Entry<'_>)) -> Result<(), Error> {
            for (keyspace, key, value) in &self.records {
                visit(*keyspace, key.as_bytes(), Entry { value: value.as_bytes(), expiry_millis: 0 });
            }
            Ok(())
        }
        fn log(&mut self, from: Lsn, visitor: &mut dyn LogVisitor) -> Result<WalkEnd, Error> {
            for (lsn, frame) in (self.first_lsn..).zip(&self.frames).filter(|(lsn, _)| *lsn >= from.0) {
                let batch = BatchFacts {
                    segment: 1,
                    offset: lsn * 4096,
                    bytes: 4096,
                    sequence: lsn,
                    first_lsn: Lsn(lsn),
                    time_millis: (lsn * 1000).saturating_sub(self.lead_millis),
                    wall_millis: lsn * 1000,
                    frames: vec![frame],
                    ..BatchFacts::default()
                };
                if visitor.batch(&batch).is_break() {
                    return Ok(WalkEnd::Stopped);
                }
            }
            match &self.damage {
                Some(damage) => {
                    visitor.damage(damage);
                    Ok(WalkEnd::Damaged)
                }
                None => Ok(WalkEnd::End(self.end.clone())),
            }
        }
        fn quarantined(&mut self) -> Result<Vec<(String, u64)>, Error> {
            Ok(Vec::new())
        }
    }
}
