//! Latencies as figures.
//! Guarantees: percentiles are in milliseconds and of the measured time only.
//! Must not know: what took so long.
//! Next: mod.rs.

use crate::histogram::Latencies;
use serde::Serialize;

/// Percentiles of the final report.
pub const PERCENTS: [f64; 10] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99];
/// Limits under which shares are counted, in milliseconds, as asbench and its kind print them.
const LIMITS_MS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// A latency percentile.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentile {
    /// Which.
    pub percent: f64,
    /// Milliseconds.
    pub ms: f64,
}

/// Latencies of the measured time.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyReport {
    /// Mean.
    pub mean_ms: f64,
    /// Longest.
    pub max_ms: f64,
    /// Percentiles.
    pub percentiles: Vec<Percentile>,
    /// Upper end of each bucket in milliseconds, and its count.
    pub buckets: Vec<(f64, u64)>,
    /// Limits in milliseconds, and the share below each in percent.
    pub below: Vec<(f64, f64)>,
    /// The buckets as lines.
    #[serde(skip)]
    pub text: String,
}

impl LatencyReport {
    /// Reads latencies off.
    pub fn of(latencies: &Latencies) -> LatencyReport {
        let percentiles = PERCENTS.map(|percent| Percentile { percent, ms: latencies.percentile_ms(percent) });
        LatencyReport {
            mean_ms: latencies.mean_ms(),
            max_ms: latencies.max_ms(),
            percentiles: percentiles.to_vec(),
            buckets: latencies.buckets(),
            below: LIMITS_MS.map(|limit| (limit, latencies.percent_below_ms(limit))).to_vec(),
            text: latencies.text(),
        }
    }

    /// One of the percentiles; 0 if it is none of them.
    pub fn percentile(&self, percent: f64) -> f64 {
        self.percentiles.iter().find(|one| one.percent == percent).map_or(0.0, |one| one.ms)
    }

    /// The shares below the limits, in one line.
    pub fn below_text(&self) -> String {
        let share = |(limit, percent): &(f64, f64)| format!("< {limit:.0} ms {}", percent_text(*percent));
        self.below.iter().map(share).collect::<Vec<_>>().join("  ")
    }
}

/// A share that never says 100 % when something is above.
fn percent_text(percent: f64) -> String {
    match percent {
        percent if percent >= 100.0 => "100%".to_owned(),
        percent if percent > 99.9 => format!("{:.3}%", percent.min(99.999)),
        percent => format!("{percent:.1}%"),
    }
}

/// One kind of request.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// Its word.
    pub name: String,
    /// How many ended.
    pub count: u64,
    /// How long they took.
    pub latency: LatencyReport,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn shares_below_limits_are_exact_at_the_ends() {
        let mut latencies = Latencies::new();
        (0..99_999).for_each(|_| latencies.record(Duration::from_micros(500)));
        latencies.record(Duration::from_millis(100));
        let report = LatencyReport::of(&latencies);
        assert!(report.below_text().starts_with("< 1 ms 99.999%"), "{}", report.below_text());
        assert!(report.below_text().ends_with("< 64 ms 99.999%"), "{}", report.below_text());
        assert!((report.percentile(50.0) - 0.5).abs() < 0.01);
    }
}
