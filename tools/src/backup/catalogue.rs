//! The catalogue of a backup, `backup.json`: every file with its length and checksum, the commands in it and their times.
//!
//! A backup directory looks like a store (`manifest`, `snapshot/`, `log/`), so that all tools read it; segments end where the last
//! whole batch ended when they were copied, filled up with zeros. Where the store had retired segments between two runs, the log of
//! the backup has a gap: each *stretch* without one, with the snapshots inside it, can be restored to any of its points.
//! Guarantees: it is replaced as a whole, durably; a newer form is refused.
//! Must not know: how files are copied.
//! Next: restore.rs chooses by it.

use crate::command::ToolError;
use crate::fresh::{failed, sync_directory};
use logd_engine::manifest::{Manifest, SnapshotReference};
use logd_engine::units::{Lsn, Millis, SegmentId};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Name of the file.
pub const FILE: &str = "backup.json";
/// Version of its form.
pub const SCHEMA: u32 = 1;
/// Snapshots that a manifest has room for.
const SNAPSHOTS_NAMED_MAX: usize = logd_engine::limits::SNAPSHOTS_KEPT_MAX;

/// A copied snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotCopy {
    /// Its path in the backup.
    pub file: String,
    /// LSN of its state.
    pub lsn: u64,
    /// Length.
    pub bytes: u64,
    /// CRC-32 of the file.
    pub crc: u32,
    /// State digest.
    pub digest: String,
    /// Engine time of the state.
    pub time_millis: u64,
    /// Number of records.
    pub records: u64,
}

/// A copied segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentCopy {
    /// Its path in the backup.
    pub file: String,
    /// Its number.
    pub segment: u64,
    /// The one before it; 0 for none.
    pub previous_segment: u64,
    /// Last command before it.
    pub previous_last_lsn: u64,
    /// Length of the file, zeros behind the end included.
    pub bytes: u64,
    /// Where its last batch ends.
    pub used_bytes: u64,
    /// CRC-32 of the bytes up to there.
    pub crc: u32,
    /// First command.
    pub first_lsn: u64,
    /// Last command.
    pub last_lsn: u64,
    /// Wall time of the first batch.
    pub first_millis: u64,
    /// Wall time of the last batch.
    pub last_millis: u64,
    /// Whether the store writes no more to it.
    pub sealed: bool,
}

impl SegmentCopy {
    /// Whether a segment goes on exactly where this copy ends. One that was copied while it was written to, and retired before
    /// the next run, is not followed by anything.
    pub fn is_followed_by(&self, next: &SegmentCopy) -> bool {
        next.previous_segment == self.segment && next.previous_last_lsn == self.last_lsn
    }
}

/// The catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    /// Version of this form.
    pub schema: u32,
    /// The store, in hexadecimal.
    pub store_id: String,
    /// When the store was made.
    pub store_created_millis: u64,
    /// Its segment size.
    pub segment_bytes: u64,
    /// Its number of shards.
    pub shards: u16,
    /// Engine time when the store's manifest was written.
    pub time_millis: u64,
    /// When the last run ended.
    pub finished_millis: u64,
    /// Snapshots, oldest first.
    pub snapshots: Vec<SnapshotCopy>,
    /// Segments, oldest first.
    pub segments: Vec<SegmentCopy>,
}

/// Segments that follow each other without a gap, and the snapshots inside them.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
    /// Segments, oldest first.
    pub segments: Vec<&'a SegmentCopy>,
    /// Snapshots, oldest first.
    pub snapshots: Vec<&'a SnapshotCopy>,
}

impl Stretch<'_> {
    /// The first point it can be restored to; `None` if it has no start.
    pub fn first_lsn(&self) -> Option<u64> {
        let first = self.segments.first()?;
        if first.previous_segment == 0 && first.first_lsn == 1 {
            Some(0)
        } else {
            self.snapshots.first().map(|one| one.lsn)
        }
    }

    /// The last point.
    pub fn last_lsn(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.last_lsn)
    }
}

impl Catalogue {
    /// Reads the catalogue of a directory. Errors: it is no backup, or not a whole one.
    pub fn read(directory: &Path) -> Result<Catalogue, ToolError> {
        let path = directory.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => Catalogue::parse(&bytes, &path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ToolError::Io(format!(
                "{} is no complete backup: {FILE}, which is written last, is not in it; run `logctl backup` again",
                directory.display()
            ))),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Reads it from bytes.
    pub fn parse(bytes: &[u8], place: &str) -> Result<Catalogue, ToolError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let damaged = |error| ToolError::Damaged(format!("{place}: {error}"));
        let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
        if version.schema != SCHEMA {
            let found = version.schema;
            return Err(ToolError::Io(format!(
                "{place} has form {found}; this program knows {SCHEMA}: use the newer one"
            )));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("plain numbers and texts are always JSON")
    }

    /// Replaces the catalogue of a directory durably.
    pub fn write(&self, directory: &Path) -> Result<(), ToolError> {
        let (path, unfinished) = (directory.join(FILE), directory.join("backup.json.tmp"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(&self.bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            sync_directory(directory)
        };
        write().map_err(|error| failed("write", &path, &error))
    }

    /// The stretches, oldest first.
    pub fn stretches(&self) -> Vec<Stretch<'_>> {
        let mut stretches: Vec<Stretch<'_>> = Vec::new();
        for segment in &self.segments {
            match stretches.last_mut() {
                Some(last) if last.segments.last().is_some_and(|one| one.is_followed_by(segment)) => {
                    last.segments.push(segment);
                }
                _ => stretches.push(Stretch { segments: vec![segment], snapshots: Vec::new() }),
            }
        }
        for stretch in &mut stretches {
            let before = stretch.segments.first().map_or(0, |segment| segment.previous_last_lsn);
            let inside = before..=stretch.last_lsn();
            stretch.snapshots = self.snapshots.iter().filter(|snapshot| inside.contains(&snapshot.lsn)).collect();
        }
        stretches
    }

    /// The manifest that makes a store of some of the files.
    pub fn manifest(&self, segments: &[&SegmentCopy], snapshots: &[&SnapshotCopy]) -> Result<Manifest, ToolError> {
        let hexadecimal = |text: &str| {
            u128::from_str_radix(text, 16).map_err(|_| ToolError::Damaged(format!("{FILE}: {text:?} is no number")))
        };
        let mut named: Vec<SnapshotReference> = Vec::new();
        for snapshot in snapshots {
            named.push(SnapshotReference {
                lsn: Lsn(snapshot.lsn),
                file_bytes: snapshot.bytes,
                digest: hexadecimal(&snapshot.digest)?,
                time_millis: Millis(snapshot.time_millis),
                record_count: snapshot.records,
            });
        }
        // The oldest opens the way to every point, the newest ones shorten it.
        let surplus = named.len().saturating_sub(SNAPSHOTS_NAMED_MAX);
        named.drain(1.min(surplus)..1.min(surplus) + surplus);
        let last = segments.last();
        let last_snapshot = named.last().map_or(0, |snapshot| snapshot.lsn.0);
        Ok(Manifest {
            store_id: hexadecimal(&self.store_id)?,
            created_millis: Millis(self.store_created_millis),
            segment_bytes: self.segment_bytes,
            shards: self.shards,
            time_millis: Millis(self.time_millis),
            lsn_proof: Lsn(last.map_or(0, |segment| segment.last_lsn).max(last_snapshot)),
            segment_proof: SegmentId(last.map_or(0, |segment| segment.segment)),
            clean: None,
            snapshots: named,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn segment(segment: u64, previous_segment: u64, first_lsn: u64, last_lsn: u64) -> SegmentCopy {
        SegmentCopy {
            file: format!("log/{segment}"),
            segment,
            previous_segment,
            previous_last_lsn: first_lsn - 1,
            bytes: 1,
            used_bytes: 1,
            crc: 0,
            first_lsn,
            last_lsn,
            first_millis: first_lsn * 10,
            last_millis: last_lsn * 10,
            sealed: true,
        }
    }

    pub fn snapshot(lsn: u64) -> SnapshotCopy {
        SnapshotCopy { file: String::new(), lsn, bytes: 0, crc: 0, digest: "0".to_owned(), time_millis: 0, records: 0 }
    }

    #[test]
    fn a_gap_parts_the_log_into_stretches_with_their_own_snapshots() {
        let segments = vec![segment(1, 0, 1, 9), segment(2, 1, 10, 20), segment(5, 4, 51, 60)];
        let catalogue = Catalogue { segments, snapshots: vec![snapshot(5), snapshot(50)], ..Catalogue::default() };
        let stretches = catalogue.stretches();
        assert_eq!(stretches.len(), 2);
        assert_eq!((stretches[0].first_lsn(), stretches[0].last_lsn()), (Some(0), 20));
        assert_eq!((stretches[1].first_lsn(), stretches[1].last_lsn()), (Some(50), 60));
        let mut grown = catalogue.clone();
        grown.segments[2].previous_segment = 2;
        assert_eq!(grown.stretches().len(), 2, "the copy of segment 2 ends before segment 2 did");
    }

    #[test]
    fn a_manifest_keeps_the_oldest_and_the_newest_snapshots() {
        let all: Vec<SnapshotCopy> = (1..=30).map(snapshot).collect();
        let catalogue = Catalogue { store_id: "ff".to_owned(), ..Catalogue::default() };
        let manifest = catalogue.manifest(&[], &all.iter().collect::<Vec<_>>()).unwrap();
        let lsns: Vec<u64> = manifest.snapshots.iter().map(|snapshot| snapshot.lsn.0).collect();
        assert_eq!((lsns.len(), lsns[0], lsns[1], lsns[15]), (16, 1, 16, 30));
    }

    #[test]
    fn a_newer_or_damaged_catalogue_is_refused() {
        assert!(Catalogue::parse(b"{\"schema\":2}", "x").unwrap_err().to_string().contains("newer"));
        assert_eq!(Catalogue::parse(b"{", "x").unwrap_err().exit_code(), 2);
        let catalogue = Catalogue { schema: SCHEMA, segments: vec![segment(1, 0, 1, 2)], ..Catalogue::default() };
        assert_eq!(Catalogue::parse(&catalogue.bytes(), "x").unwrap(), catalogue);
    }
}
