//! What recovery asks of the log, of the store it fills, and of whoever has threads.
//! Guarantees: recovery depends on nothing else of them.
//! Must not know: their insides.
//! Next: start.rs uses all of it.

use crate::disk::Disk;
use crate::error::Error;
use crate::format::snapshot::SnapshotMeta;
use crate::index::{Entry, Tree};
use crate::units::{FileOffset, Lsn, Millis, SegmentId};

/// What the manifest proves about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogProof {
    /// Everything up to here was on stable storage.
    pub synced: Lsn,
    /// A segment with this id or a later one must exist; 0 for none.
    pub segment: SegmentId,
    /// The store was stopped cleanly: `synced` is the last LSN there is.
    pub clean: bool,
}

/// Bytes behind the end of the log that are no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCut {
    /// The segment.
    pub segment: SegmentId,
    /// First byte.
    pub from: FileOffset,
    /// Behind the last byte.
    pub to: FileOffset,
}

/// Where the log ended, as far as recovery cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail {
    /// Last LSN of the log.
    pub last_lsn: Lsn,
    /// Above every LSN seen, cut ones included.
    pub next_lsn: Lsn,
    /// The segment it ends in, if stable storage is known to hold it: what was read may be in the page cache only.
    pub segment_proven: Option<SegmentId>,
    /// The letter of the decision.
    pub case: char,
    /// Everything that is cut off.
    pub cuts: Vec<LogCut>,
    /// Engine time of the last batch.
    pub time: Option<Millis>,
}

/// Takes a frame with its LSN and the engine time of its batch.
pub type Visit<'v> = dyn FnMut(Lsn, Millis, &[u8]) -> Result<(), Error> + 'v;

/// The log, as recovery and verify read it.
pub trait LogReader {
    /// All that the log's writer needs to go on; recovery only hands it through.
    type End;

    /// Visits the frames from `from` on in order and finds the end. Frames below `from` may be visited too.
    /// Damage before the end is an error. Gaps that a cut left are the log's own to judge.
    fn scan(
        &self,
        disk: &mut dyn Disk,
        store_id: u128,
        from: Lsn,
        proof: LogProof,
        visit: &mut Visit<'_>,
    ) -> Result<(LogTail, Self::End), Error>;

    /// Path of a segment's file.
    fn segment_name(&self, segment: SegmentId) -> String;
}

/// The store that is filled.
pub trait Target {
    /// A snapshot is going to be loaded: its keyspaces and procedures.
    fn begin(&mut self, meta: &SnapshotMeta) -> Result<(), Error>;
    /// All records of one shard and keyspace, if the snapshot is sorted into shards as the store is.
    fn tree(&mut self, shard: u16, keyspace: u16, tree: Tree);
    /// One record, if it is not: the target finds its shard.
    fn record(&mut self, keyspace: u16, key: &[u8], entry: Entry<'_>);
    /// The next command of the log.
    fn apply(&mut self, lsn: Lsn, time: Millis, frame: &[u8]) -> Result<(), Error>;
}

/// A piece of work that can run beside others.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Whoever has threads.
pub trait Parallel {
    /// Runs all jobs, in any order, and returns when the last has ended.
    fn run<'a>(&self, jobs: Vec<Job<'a>>);
}

/// No threads: one job after the other, always in the same order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Parallel for Sequential {
    fn run<'a>(&self, jobs: Vec<Job<'a>>) {
        jobs.into_iter().for_each(|job| job());
    }
}
