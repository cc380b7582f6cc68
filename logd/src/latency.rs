//! How often each command ran and how long it took.
//! Guarantees: calls are counted exactly; times of the shortest commands are sampled, each sample standing for several
//! calls; a bucket is at most a fifth wider than the times in it.
//! Must not know: commands; it knows their places in the table.
//! Next: request/info.rs and request/slowlog.rs print it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEPS_PER_OCTAVE: usize = 8;
/// From a nanosecond to more than an hour.
const OCTAVES: usize = 43;
const BUCKETS: usize = STEPS_PER_OCTAVE * OCTAVES;

/// Counts of one command.
#[derive(Debug, Default)]
pub struct CommandCounters {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    buckets: OnceLock<Box<[AtomicU64]>>,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCount {
    /// Times it ran.
    pub calls: u64,
    /// Time it took in all, in microseconds.
    pub micros: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it answered with an error.
    pub failed: u64,
}

impl CommandCounters {
    /// Whether it was called at all.
    pub fn has_run(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    /// Notes a call.
    pub fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how long a call took; it stands for `weight` calls.
    pub fn note_time(&self, took: Duration, weight: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos.saturating_mul(weight), Ordering::Relaxed);
        let buckets = self.buckets.get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        buckets[bucket_of(nanos)].fetch_add(weight, Ordering::Relaxed);
    }

    /// Notes that a call was refused before it ran.
    pub fn note_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a call answered with an error.
    pub fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the counts.
    pub fn now(&self) -> CommandCount {
        CommandCount {
            calls: self.calls.load(Ordering::Relaxed),
            micros: self.nanos.load(Ordering::Relaxed) / 1000,
            rejected: self.rejected.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// The time that a share of the calls did not exceed, in microseconds. `None` if none was timed.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let buckets = self.buckets.get()?;
        let counts: Vec<u64> = buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut below = 0;
        let at = counts.iter().position(|count| {
            below += count;
            below >= wanted
        })?;
        Some(bucket_end(at) as f64 / 1000.0)
    }

    /// Calls up to each power of two of microseconds, as LATENCY HISTOGRAM tells them: only where the count rises.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let Some(buckets) = self.buckets.get() else { return Vec::new() };
        let mut rows: Vec<(u64, u64)> = Vec::new();
        let mut below = 0;
        for (at, count) in buckets.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count == 0 {
                continue;
            }
            below += count;
            let micros = bucket_end(at).div_ceil(1000).next_power_of_two();
            match rows.last_mut() {
                Some(last) if last.0 == micros => last.1 = below,
                _ => rows.push((micros, below)),
            }
        }
        rows
    }

    /// Begins anew.
    pub fn reset(&self) {
        for counter in [&self.calls, &self.nanos, &self.rejected, &self.failed] {
            counter.store(0, Ordering::Relaxed);
        }
        for bucket in self.buckets.get().into_iter().flatten() {
            bucket.store(0, Ordering::Relaxed);
        }
    }
}

/// 1000 ns lies in octave 9 (512 to 1023), of which an eighth is 64: step (1000 - 512) / 64 = 7, bucket 9 * 8 + 7 = 79.
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(1);
    let octave = nanos.ilog2() as usize;
    let step = ((nanos - (1 << octave)) * STEPS_PER_OCTAVE as u64) >> octave;
    (octave * STEPS_PER_OCTAVE + step as usize).min(BUCKETS - 1)
}

/// The longest time that falls into a bucket.
fn bucket_end(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS_PER_OCTAVE, (bucket % STEPS_PER_OCTAVE) as u64);
    ((STEPS_PER_OCTAVE as u64 + step + 1) << octave).div_ceil(STEPS_PER_OCTAVE as u64) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        for nanos in [1, 7, 8, 9, 1000, 1023, 1024, 123_456_789, 3_600_000_000_000] {
            let end = bucket_end(bucket_of(nanos));
            assert!(end >= nanos, "{nanos} is beyond {end}");
            assert!(end <= nanos + nanos / 8 + 1, "{end} is far from {nanos}");
        }
        assert_eq!(bucket_of(1000), 79);
    }

    #[test]
    fn a_sample_stands_for_several_calls() {
        let counters = CommandCounters::default();
        (0..16).for_each(|_| counters.note_call());
        counters.note_time(Duration::from_micros(3), 8);
        counters.note_time(Duration::from_micros(900), 8);
        assert_eq!(counters.now(), CommandCount { calls: 16, micros: 7224, rejected: 0, failed: 0 });
        assert!(counters.percentile(50.0).is_some_and(|micros| (3.0..3.5).contains(&micros)));
        assert_eq!(counters.cumulative(), [(4, 8), (1024, 16)]);
        counters.reset();
        assert_eq!(counters.percentile(50.0), None);
        assert_eq!(counters.now().calls, 0);
    }
}
