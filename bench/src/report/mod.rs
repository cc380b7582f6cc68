//! What a run leaves behind, in one form for the terminal, JSON and whatever renders it.
//! Guarantees: every figure comes from the measured time only; `SCHEMA` counts up when a field changes its meaning or goes.
//! Must not know: how a run was made.
//! Next: voter.rs has Voter's report, queue.rs that of store and forward, store.rs that of the other workloads.

mod latency;
pub mod queue;
pub mod store;
mod table;
pub mod voter;

pub use latency::{ClassReport, LatencyReport, Percentile};

use crate::histogram::Latencies;
use serde::Serialize;
use std::time::Duration;

/// Version of the JSON forms. 2: series, marks and device counters came to those of 1.
pub const SCHEMA: u32 = 2;

/// A second of a run, for curves.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Seconds from the start of measuring to its end.
    pub second: f64,
    /// How long it was.
    pub seconds: f64,
    /// Requests that ended.
    pub count: u64,
    /// Requests a second.
    pub throughput: f64,
    /// Errors and lost replies.
    pub failures: u64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl Second {
    /// Reads latencies off. `end`: from the start of measuring.
    pub fn of(end: Duration, span: Duration, latencies: &Latencies, failures: u64) -> Second {
        Second {
            second: end.as_secs_f64(),
            seconds: span.as_secs_f64(),
            count: latencies.count(),
            throughput: latencies.count() as f64 / span.as_secs_f64(),
            failures,
            p50_ms: latencies.percentile_ms(50.0),
            p99_ms: latencies.percentile_ms(99.0),
            max_ms: latencies.max_ms(),
        }
    }
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds from the start of measuring, to the second.
    pub second: f64,
    /// What.
    pub text: String,
}

/// One periodic line.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// Time of day, UTC.
    pub at: String,
    /// Calls a second.
    pub throughput: f64,
    /// Calls answered with an error.
    pub aborted: u64,
    /// Calls without a reply.
    pub failures: u64,
    /// Mean latency.
    pub mean_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
}

impl Interval {
    /// The line, in VoltDB's form.
    pub fn line(&self) -> String {
        format!(
            "{} Throughput {:.0}/s, Aborts/Failures {}/{}, Avg/95% Latency {:.2}/{:.2}ms",
            self.at, self.throughput, self.aborted, self.failures, self.mean_ms, self.p95_ms
        )
    }
}

/// `HH:MM:SS` of a time in seconds since the epoch, UTC.
pub fn time_of_day(epoch_seconds: u64) -> String {
    let of_day = epoch_seconds % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The middle of several numbers; of an even number of them, the mean of the two in the middle. 0 for none.
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 1 => numbers[middle],
        _ => (numbers[middle - 1] + numbers[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_periodic_line_has_the_known_form() {
        let interval = Interval {
            at: time_of_day(86_400 + 3_723),
            throughput: 1234.6,
            aborted: 1,
            failures: 2,
            mean_ms: 0.5,
            p95_ms: 1.25,
        };
        assert_eq!(interval.line(), "01:02:03 Throughput 1235/s, Aborts/Failures 1/2, Avg/95% Latency 0.50/1.25ms");
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([5.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 9.0].into_iter()), 3.0);
        assert_eq!(median([].into_iter()), 0.0);
    }
}
