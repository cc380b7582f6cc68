//! Latencies in bounded space.
//! Guarantees: three significant digits from one microsecond to an hour; nothing is dropped, what is longer counts as an hour.
//! Must not know: what took so long.
//! Next: report.rs prints it; hlog.rs writes it for other programs.

use hdrhistogram::Histogram;
use std::time::Duration;

const NS_MIN: u64 = 1_000;
const NS_MAX: u64 = 3_600_000_000_000;
const BAR_CHARS: u64 = 50;

/// Latencies of many requests.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(NS_MIN, NS_MAX, 3).expect("the bounds are constants that fit");
        Latencies { histogram }
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(NS_MAX).clamp(1, NS_MAX));
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean in milliseconds; 0 if there is none.
    pub fn mean_ms(&self) -> f64 {
        self.histogram.mean() / 1e6
    }

    /// A percentile in milliseconds; 0 if there is none.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.histogram.value_at_quantile(percent / 100.0) as f64 / 1e6
    }

    /// Longest in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.histogram.max() as f64 / 1e6
    }

    /// The share that took less than so many milliseconds, in percent; 100 if there is none.
    pub fn percent_below_ms(&self, ms: f64) -> f64 {
        if self.count() == 0 {
            return 100.0;
        }
        self.histogram.count_between(0, (ms * 1e6) as u64 - 1) as f64 * 100.0 / self.count() as f64
    }

    /// The histogram itself, for writers of other forms.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Counts of buckets whose upper ends are 1, 2 and 5 times the powers of ten, from the first to the last one with any.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let ends = (3..13).flat_map(|power| [1, 2, 5].map(|step| step * 10_u64.pow(power)));
        let mut below = 0;
        let mut buckets = Vec::new();
        for end in ends {
            let up_to = self.histogram.count_between(0, end);
            if up_to > below || (!buckets.is_empty() && up_to < self.count()) {
                buckets.push((end as f64 / 1e6, up_to - below));
            }
            below = up_to;
        }
        buckets
    }

    /// The buckets as lines with bars.
    pub fn text(&self) -> String {
        let buckets = self.buckets();
        let most = buckets.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        let lines = buckets.iter().map(|(end_ms, count)| {
            let percent = 100.0 * *count as f64 / self.count().max(1) as f64;
            let bar = "#".repeat((count * BAR_CHARS).div_ceil(most) as usize);
            format!("  <= {end_ms:>9.3} ms {count:>10} {percent:>6.2}% {bar}\n")
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_mean_are_those_of_what_went_in() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|millis| latencies.record(Duration::from_millis(millis)));
        assert!((latencies.percentile_ms(50.0) - 500.0).abs() < 1.0);
        assert!((latencies.percentile_ms(99.9) - 999.0).abs() < 1.5);
        assert!((latencies.mean_ms() - 500.5).abs() < 1.0);
        assert!((latencies.max_ms() - 1000.0).abs() < 1.0);
    }

    #[test]
    fn buckets_hold_everything_once() {
        let mut latencies = Latencies::new();
        for micros in [1, 3, 40, 900, 70_000] {
            latencies.record(Duration::from_micros(micros));
        }
        latencies.record(Duration::from_secs(90_000));
        let inside: u64 = latencies.buckets().iter().map(|(_, count)| count).sum();
        assert_eq!(inside, 6);
        assert_eq!(latencies.text().lines().next().map(|line| line.contains('#')), Some(true));
    }

    #[test]
    fn none_is_zero_and_not_a_panic() {
        let latencies = Latencies::new();
        assert_eq!((latencies.mean_ms(), latencies.percentile_ms(99.0), latencies.text().len()), (0.0, 0.0, 0));
    }
}
