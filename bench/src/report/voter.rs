//! Prints a Voter run in VoltDB's order, so that numbers can be set side by side, and writes it as JSON.
//! Guarantees: the same numbers in both; every percentile comes from the measured time only.
//! Must not know: how the run was made.
//! Next: ../voter.rs fills `Report`.

use super::{Interval, LatencyReport, Mark, Percentile, Second};
use crate::env::Environment;
use crate::workload::votes::{Calls, Check, ContestantTotal, Totals};
use serde::Serialize;
use std::fmt::Write;

const RULE: &str = "--------------------------------------------------------------------------------";

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
    /// Every second.
    pub series: Vec<Second>,
    /// Snapshots in the measured time.
    pub marks: Vec<Mark>,
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
        let known = self.latency.percentiles.iter().filter(|one| one.percent <= 99.9);
        for Percentile { percent, ms } in known {
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
