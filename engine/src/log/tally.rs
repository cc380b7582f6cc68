//! What the writer has done, counted, with the time that durable writes and syncs took.
//! Guarantees: counts since the log was opened; times from submission to completion as the driver saw them.
//! Must not know: batches, who reads it.
//! Next: writer.rs notes, db/stats.rs shows.

use crate::units::Nanos;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time that is told apart; a longer one counts as this.
const SYNC_NS_MAX: u64 = 60_000_000_000;

/// Running counts of a log's writer.
pub struct Tally {
    batch_count: AtomicU64,
    batch_bytes: AtomicU64,
    sync_count: AtomicU64,
    sync_ns: Mutex<Histogram<u64>>,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyNow {
    /// Batches handed to the disk.
    pub batch_count: u64,
    /// Their bytes, padding and segment headers included.
    pub batch_bytes: u64,
    /// Durable writes and syncs completed.
    pub sync_count: u64,
    /// Time one took: median, in nanoseconds.
    pub sync_ns_p50: u64,
    /// 99th percentile.
    pub sync_ns_p99: u64,
    /// 99.9th percentile.
    pub sync_ns_p999: u64,
    /// The longest.
    pub sync_ns_max: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram = Histogram::new_with_bounds(1_000, SYNC_NS_MAX, 2).expect("the bounds are constants in order");
        Tally {
            batch_count: AtomicU64::new(0),
            batch_bytes: AtomicU64::new(0),
            sync_count: AtomicU64::new(0),
            sync_ns: Mutex::new(histogram),
        }
    }
}

impl Tally {
    /// A batch was handed to the disk.
    pub(super) fn batch(&self, bytes: u64) {
        self.batch_count.fetch_add(1, Ordering::Relaxed);
        self.batch_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A durable write or sync has completed.
    pub(super) fn sync(&self, span: Nanos) {
        self.sync_count.fetch_add(1, Ordering::Relaxed);
        self.sync_ns.lock().saturating_record(span.0);
    }

    /// Reads all.
    pub fn now(&self) -> TallyNow {
        let sync_ns = self.sync_ns.lock();
        TallyNow {
            batch_count: self.batch_count.load(Ordering::Relaxed),
            batch_bytes: self.batch_bytes.load(Ordering::Relaxed),
            sync_count: self.sync_count.load(Ordering::Relaxed),
            sync_ns_p50: sync_ns.value_at_quantile(0.5),
            sync_ns_p99: sync_ns.value_at_quantile(0.99),
            sync_ns_p999: sync_ns.value_at_quantile(0.999),
            sync_ns_max: sync_ns.max(),
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.now())
    }
}
