//! Prints a Voter run in VoltDB's order, so that numbers can be set side by side, and writes it as JSON.
//! Guarantees: the same numbers in both; every percentile comes from the measured time only.
//! Must not know: how the run was made.
//! Next: voter.rs fills `Report`.

use crate::env::Environment;
use crate::histogram::Latencies;
use crate::workload::votes::{Calls, Check, ContestantTotal, Totals};
use serde::Serialize;
use std::fmt::Write;

/// Percentiles of the final report.
pub const PERCENTS: [f64; 9] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9];
const RULE: &str = "--------------------------------------------------------------------------------";

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
    #[serde(skip)]
    text: String,
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
            text: latencies.text(),
        }
    }
}

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// "voter".
    pub workload: &'static str,
    /// Where and how.
    pub environment: Environment,
    /// What was measured.
    pub target: String,
    /// Seed of the calls.
    pub seed: u64,
    /// "closed" or "open", with its numbers.
    pub arrivals: String,
    /// Seconds from the start of measuring to the last reply.
    pub seconds: f64,
    /// Calls answered in that time, a second.
    pub throughput: f64,
    /// Calls of the measured time.
    pub calls: Calls,
    /// Calls in all, warm-up included.
    pub calls_with_warmup: Calls,
    /// Calls that were due in the open loop but could not be sent.
    pub not_sent: u64,
    /// Sessions lost on the way.
    pub sessions_lost: u64,
    /// Totals at the end, most votes first.
    pub contestants: Vec<ContestantTotal>,
    /// Latencies.
    pub latency: LatencyReport,
    /// The periodic lines.
    pub intervals: Vec<Interval>,
    /// Whether the totals agree with the accepted votes.
    pub check: Check,
}

impl Report {
    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string takes everything");
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        self.write_votes(text)?;
        writeln!(text, "{RULE}\n Performance, {}\n{RULE}\n", self.arrivals)?;
        writeln!(text, "Average throughput:            {:>11.0} calls/s over {:.1} s", self.throughput, self.seconds)?;
        writeln!(text, "Average latency:               {:>11.3} ms", self.latency.mean_ms)?;
        for Percentile { percent, ms } in &self.latency.percentiles {
            writeln!(text, "{:<31}{ms:>11.3} ms", format!("{percent}th percentile latency:"))?;
        }
        writeln!(text, "Longest latency:               {:>11.3} ms\n", self.latency.max_ms)?;
        writeln!(text, "Latency histogram:\n{}", self.latency.text)?;
        self.write_check(text)
    }

    fn write_votes(&self, text: &mut String) -> std::fmt::Result {
        let calls = &self.calls;
        writeln!(text, "\n{RULE}\n Voting results\n{RULE}\n")?;
        writeln!(text, "A total of {} votes were received during the benchmark:", calls.total())?;
        writeln!(text, " - {:>11} accepted", calls.accepted)?;
        writeln!(text, " - {:>11} rejected (invalid contestant)", calls.rejected_invalid)?;
        writeln!(text, " - {:>11} rejected (maximum vote count exceeded)", calls.rejected_over_limit)?;
        writeln!(
            text,
            " - {:>11} failed (error replies: {}, no reply: {})\n",
            calls.failed + calls.unknown,
            calls.failed,
            calls.unknown
        )?;
        if self.not_sent > 0 {
            writeln!(text, "The target was too slow: {} calls that were due could not be sent.\n", self.not_sent)?;
        }
        writeln!(text, "Contestant name         Votes received (warm-up included)")?;
        for row in &self.contestants {
            writeln!(text, "{:<24}{:>14}", row.name, row.votes)?;
        }
        if let Some(first) = self.contestants.first() {
            writeln!(text, "\nThe winner is: {}\n", first.name)?;
        }
        Ok(())
    }

    fn write_check(&self, text: &mut String) -> std::fmt::Result {
        let check = &self.check;
        if check.unknown > 0 {
            writeln!(
                text,
                "{} calls have no reply (sessions lost: {}): totals between accepted and accepted plus unknown are taken as right.",
                check.unknown, self.sessions_lost
            )?;
        }
        if check.agrees() {
            return writeln!(text, "Check: all {} totals agree with the accepted votes.", check.compared);
        }
        writeln!(text, "CHECK FAILED: {} of {} totals are wrong:", check.differences.len(), check.compared)?;
        check.differences.iter().take(20).try_for_each(|line| writeln!(text, "  {line}"))?;
        if check.differences.len() > 20 {
            writeln!(text, "  ... and {} more", check.differences.len() - 20)?;
        }
        Ok(())
    }

    /// Takes over the totals in VoltDB's order.
    pub fn set_totals(&mut self, mut totals: Totals) {
        totals.sort();
        self.contestants = totals.contestants;
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
}
