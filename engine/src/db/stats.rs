//! What a store tells about itself.
//! Guarantees: numbers since the start; `since` gives those since an earlier reading.
//! Must not know: how they are printed.
//! Next: core/counters.rs, log/.

use super::Db;
use crate::core::CountersNow;
use crate::durability::DurabilityLevel;
use crate::units::Lsn;

/// A reading of everything. Bytes and counts are since the store was opened unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Commands, user bytes, expiries.
    pub counters: CountersNow,
    /// Log: bytes of batches handed to the disk, padding included.
    pub log_bytes: u64,
    /// Log: batches written.
    pub log_batches: u64,
    /// Log: syncs, durable writes among them.
    pub log_syncs: u64,
    /// Log: commands waiting to be written.
    pub outstanding_commands: u64,
    /// Log: bytes waiting to be written or synced.
    pub outstanding_bytes: u64,
    /// Log: segments holding commands that are still needed.
    pub segments_in_use: u64,
    /// Log: segments on disk, prepared ones included.
    pub segments: u64,
    /// Log: bytes the segments take on disk.
    pub segments_bytes: u64,
    /// Log: longest time from handing a durable batch to the disk to its completion, in nanoseconds.
    pub sync_ns_max: u64,
    /// Log: the same, median.
    pub sync_ns_p50: u64,
    /// Log: the same, 99th percentile.
    pub sync_ns_p99: u64,
    /// Watermarks.
    pub lsn_assigned: Lsn,
    /// See above.
    pub lsn_written: Lsn,
    /// See above.
    pub lsn_synced: Lsn,
    /// Commands since the newest snapshot.
    pub commands_since_snapshot: u64,
    /// Bytes written to snapshots.
    pub snapshot_bytes: u64,
    /// Whether a checkpoint is running.
    pub checkpoint_running: bool,
    /// The last checkpoints, newest last.
    pub snapshots: Vec<SnapshotRow>,
    /// Records in the index.
    pub records: u64,
    /// Bytes the index takes.
    pub index_bytes: u64,
    /// What the disk seam found: backend, direct I/O, file system.
    pub disk: crate::disk::DiskReport,
    /// What recovery did, in one line.
    pub recovery: String,
    /// What else opening found that somebody should know.
    pub recovery_notes: Vec<String>,
    /// Bytes that recovery cut off the log's end.
    pub recovery_cut_bytes: u64,
    /// Time recovery took, in nanoseconds.
    pub recovery_ns: u64,
    /// The failure that stopped all writing.
    pub failure: Option<String>,
    /// The store's default level.
    pub durability: Option<DurabilityLevel>,
}

/// One checkpoint.
#[derive(Clone, Debug, Default)]
pub struct SnapshotRow {
    /// "manual", "log bytes", "time".
    pub kind: &'static str,
    /// LSN of the state in it.
    pub lsn: Lsn,
    /// Wall time of start, in milliseconds since the epoch.
    pub start_millis: u64,
    /// Wall time of its end.
    pub end_millis: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// How it ended; empty for success.
    pub error: String,
}

impl Db {
    /// Reads all numbers. Locks each shard for a moment.
    pub fn stats(&self) -> Stats {
        let watermarks = self.watermarks();
        Stats {
            counters: self.inner.core.counters.now(),
            lsn_assigned: watermarks.assigned,
            lsn_written: watermarks.written,
            lsn_synced: watermarks.synced,
            durability: Some(self.options().durability),
            outstanding_commands: watermarks.assigned.0 - watermarks.written.0,
            segments_bytes: self.inner.core.log.bytes(),
            segments_in_use: self.inner.core.log.spans().len() as u64,
            disk: self.inner.report.disk.clone(),
            recovery: self.inner.report.words.clone(),
            recovery_notes: self.inner.report.notes.clone(),
            recovery_cut_bytes: self.inner.report.cut_bytes,
            recovery_ns: self.inner.report.span.0,
            failure: self.failure().map(|failed| failed.to_string()),
            ..Stats::default()
        }
    }
}
