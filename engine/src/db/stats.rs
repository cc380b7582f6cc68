//! What a store tells about itself: the log table, the snapshot table, the index, recovery.
//! Guarantees: numbers since the store was opened; `Stats::since` gives those since an earlier reading.
//! Must not know: how they are printed.
//! Next: core/counters.rs, log/tally.rs, maintenance.rs.

use super::Db;
use crate::checkpoint::{SnapshotKind, SnapshotReport};
use crate::core::CountersNow;
use crate::disk::DiskReport;
use crate::durability::DurabilityLevel;
use crate::log::{SpaceNow, TallyNow, Watermarks};
use crate::loss::Loss;
use crate::maintenance::wall_of;
use crate::units::Lsn;

/// A reading of everything.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Commands, user bytes, expiries, calls.
    pub counters: CountersNow,
    /// The log.
    pub log: LogStats,
    /// Checkpoints.
    pub snapshots: SnapshotStats,
    /// The index.
    pub index: IndexStats,
    /// What opening did.
    pub recovery: RecoveryStats,
    /// What the disk seam found: backend, direct I/O, file system, notes.
    pub disk: DiskReport,
    /// The failure that stopped all writing.
    pub failure: Option<String>,
    /// Room on the disk and the reserve.
    pub space: SpaceNow,
    /// Why the store is open for reading only, if it is.
    pub read_only: Option<String>,
    /// What salvages have lost; to be shown while `Loss::is_unacknowledged`.
    pub loss: Loss,
    /// The store's default level.
    pub durability: DurabilityLevel,
}

/// The log table.
#[derive(Clone, Copy, Debug)]
pub struct LogStats {
    /// Batches, bytes, syncs and the time these took.
    pub tally: TallyNow,
    /// How far the log has come.
    pub watermarks: Watermarks,
    /// Commands that are not written yet.
    pub outstanding_commands: u64,
    /// Bytes of commands that are not handed to the disk yet.
    pub outstanding_bytes: u64,
    /// Commands that are not on stable storage yet.
    pub unsynced_commands: u64,
    /// Segments that hold commands which are still needed.
    pub segments_in_use: u64,
    /// Bytes of all log files, spare ones included.
    pub bytes: u64,
    /// Longest time acknowledged commands may stay unsynced, in milliseconds.
    pub lag_millis: u64,
}

/// The snapshot table.
#[derive(Clone, Debug)]
pub struct SnapshotStats {
    /// Whether one is running or wanted.
    pub running: bool,
    /// LSN of the newest one.
    pub newest: Lsn,
    /// Commands since it.
    pub commands_since: u64,
    /// Bytes written to snapshots.
    pub bytes_written: u64,
    /// The last ones, oldest first.
    pub rows: Vec<SnapshotRow>,
}

/// One checkpoint.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// "manual", "log bytes", "time", "recovery", "space".
    pub kind: &'static str,
    /// Last command in it.
    pub lsn: Lsn,
    /// Wall time of its start, in milliseconds since the epoch.
    pub start_millis: u64,
    /// How long it took, in milliseconds.
    pub duration_millis: u64,
    /// Length of the file; 0 if nothing had changed.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// Why it failed; `None` for success.
    pub error: Option<String>,
}

/// The index.
#[derive(Clone, Copy, Debug)]
pub struct IndexStats {
    /// Records of all keyspaces, due ones included.
    pub records: u64,
    /// Bytes that nodes and values take.
    pub bytes: u64,
    /// Parts with a lock each.
    pub shards: u64,
}

/// What opening did.
#[derive(Clone, Debug)]
pub struct RecoveryStats {
    /// One line.
    pub words: String,
    /// What else somebody should know, each to be printed once.
    pub notes: Vec<String>,
    /// Bytes that were cut off the log's end and kept aside.
    pub cut_bytes: u64,
    /// How long it took, in nanoseconds.
    pub ns: u64,
}

impl Stats {
    /// The running counts as they grew since an earlier reading; everything that is a state, not a count, stays as it is now.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let mut delta = self.clone();
        delta.counters = self.counters.since(&earlier.counters);
        let (now, then) = (&mut delta.log.tally, &earlier.log.tally);
        now.batch_count -= then.batch_count;
        now.batch_bytes -= then.batch_bytes;
        now.sync_count -= then.sync_count;
        delta.snapshots.bytes_written -= earlier.snapshots.bytes_written;
        delta
    }
}

impl Db {
    /// Reads all numbers. Locks each shard for a moment.
    pub fn stats(&self) -> Stats {
        let core = &self.inner.core;
        Stats {
            counters: core.counters.now(),
            log: self.log_stats(),
            snapshots: self.snapshot_stats(),
            index: self.index_stats(),
            recovery: RecoveryStats {
                words: self.inner.report.words.clone(),
                notes: self.inner.report.notes.clone(),
                cut_bytes: self.inner.report.cut_bytes,
                ns: self.inner.report.span.0,
            },
            disk: self.inner.report.disk.clone(),
            failure: self.failure().map(|failed| failed.to_string()),
            space: core.log.reserve().now(),
            read_only: self.read_only().map(str::to_owned),
            loss: self.loss(),
            durability: self.options().durability,
        }
    }

    fn log_stats(&self) -> LogStats {
        let log = &self.inner.core.log;
        let watermarks = log.watermarks();
        LogStats {
            tally: log.tally(),
            watermarks,
            outstanding_commands: watermarks.assigned.0.saturating_sub(watermarks.written.0),
            outstanding_bytes: log.queued_bytes() as u64,
            unsynced_commands: watermarks.assigned.0.saturating_sub(watermarks.synced.0),
            segments_in_use: log.spans().len() as u64,
            bytes: log.bytes(),
            lag_millis: self.options().lag_millis,
        }
    }

    fn snapshot_stats(&self) -> SnapshotStats {
        let desk = self.inner.desk.now();
        let time = self.time();
        let (now, wall) = (time.monotonic(), time.wall());
        let row = |report: &SnapshotReport| SnapshotRow {
            kind: kind_word(report.kind),
            lsn: report.lsn,
            start_millis: wall_of(report.start, now, wall).0,
            duration_millis: report.end.since(report.start).0 / 1_000_000,
            bytes: report.bytes,
            records: report.record_count,
            error: report.result.as_ref().err().map(ToString::to_string),
        };
        SnapshotStats {
            running: desk.running,
            newest: desk.newest,
            commands_since: self.last_lsn().0.saturating_sub(desk.newest.0),
            bytes_written: desk.bytes_written,
            rows: desk.reports.iter().map(row).collect(),
        }
    }

    /// Bytes that nodes and values take: `Stats::index.bytes` alone.
    pub fn index_bytes(&self) -> u64 {
        self.inner.core.shards.size().1
    }

    fn index_stats(&self) -> IndexStats {
        let (records, bytes) = self.inner.core.shards.size();
        IndexStats { records, bytes, shards: self.options().shards as u64 }
    }
}

fn kind_word(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Manual => "manual",
        SnapshotKind::LogBytes => "log bytes",
        SnapshotKind::Time => "time",
        SnapshotKind::Recovery => "recovery",
        SnapshotKind::Space => "space",
    }
}
