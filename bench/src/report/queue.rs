//! Figures of store and forward, phase by phase.
//! Guarantees: what was lost or left is said before anything else.
//! Must not know: how the run was made.
//! Next: ../queue.rs fills it.

use super::{LatencyReport, Mark, Second};
use crate::device::DeviceCounters;
use crate::env::Environment;
use crate::workload::mixed::Counts;
use serde::Serialize;
use std::fmt::Write;

/// One phase of the uplink.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseFigures {
    /// Whether messages could be sent on.
    pub up: bool,
    /// How long it was.
    pub seconds: f64,
    /// Messages acknowledged to the producer.
    pub appended: u64,
    /// Messages read, sent on and removed.
    pub forwarded: u64,
    /// Messages waiting at the start.
    pub backlog_before: u64,
    /// Messages waiting at the end.
    pub backlog_after: u64,
    /// After how many seconds the reader had caught up; `None` if it had not.
    pub caught_up_seconds: Option<f64>,
    /// Messages a second that went on until then, or in all of the phase.
    pub catch_up_rate: f64,
    /// How long appends took.
    pub append_latency: Option<LatencyReport>,
}

/// Whether anything was lost.
#[derive(Clone, Debug, Serialize)]
pub struct QueueCheck {
    /// Messages acknowledged to the producer in all.
    pub appended: u64,
    /// Of those, not read and removed in the end.
    pub left: u64,
    /// What the reader found wrong.
    pub error: Option<String>,
}

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub struct QueueReport {
    /// Version of this form.
    pub schema: u32,
    /// "queue".
    pub workload: &'static str,
    /// Where and how.
    pub environment: Environment,
    /// What was measured.
    pub target: String,
    /// How appends started.
    pub arrivals: String,
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Messages the reader takes at once.
    pub batch: u32,
    /// The phases.
    pub phases: Vec<PhaseFigures>,
    /// Seconds the reader needed after the last phase.
    pub drain_seconds: f64,
    /// How long appends took over all phases.
    pub append_latency: LatencyReport,
    /// What became of the appends.
    pub counts: Counts,
    /// Appends that were due but could not be sent.
    pub not_sent: u64,
    /// What went to the device.
    pub device: Option<DeviceCounters>,
    /// Every second, of the appends.
    pub series: Vec<Second>,
    /// Phases and snapshots.
    pub marks: Vec<Mark>,
    /// Whether anything was lost.
    pub check: QueueCheck,
}

impl QueueReport {
    /// Whether every message got through.
    pub fn is_whole(&self) -> bool {
        let lost = self.check.left + self.counts.failed + self.counts.unknown + self.not_sent;
        self.check.error.is_none() && lost == 0
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes everything");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\nuplink  seconds   appends/s   p50 ms   p99 ms   max ms  forwarded/s    backlog  caught up  catch-up/s"
        )?;
        for phase in &self.phases {
            let latency = phase.append_latency.as_ref();
            let ms = |percent| latency.map_or(0.0, |latency| latency.percentile(percent));
            // Without a backlog there is nothing to catch up with.
            let had_backlog = phase.up && phase.backlog_before > u64::from(self.batch);
            let dash = || "-".to_owned();
            let caught_up = phase.caught_up_seconds.filter(|_| had_backlog);
            let caught_up = caught_up.map_or_else(dash, |seconds| format!("{seconds:.1} s"));
            let rate = if had_backlog { format!("{:.0}", phase.catch_up_rate) } else { dash() };
            writeln!(
                text,
                "{:<6} {:>8.1} {:>11.0} {:>8.3} {:>8.3} {:>8.1} {:>12.0} {:>10} {caught_up:>10} {rate:>11}",
                if phase.up { "up" } else { "down" },
                phase.seconds,
                phase.appended as f64 / phase.seconds,
                ms(50.0),
                ms(99.0),
                latency.map_or(0.0, |latency| latency.max_ms),
                phase.forwarded as f64 / phase.seconds,
                phase.backlog_after,
            )?;
        }
        writeln!(text, "\nAfter the last phase the reader needed {:.2} s for the rest.", self.drain_seconds)?;
        let snapshots = self.marks.iter().filter(|mark| mark.text == "snapshot done").count();
        if snapshots > 0 {
            writeln!(text, "Snapshots meanwhile: {snapshots}.")?;
        }
        self.write_check(text)
    }

    fn write_check(&self, text: &mut String) -> std::fmt::Result {
        let QueueCheck { appended, left, error } = &self.check;
        if self.is_whole() {
            return writeln!(text, "Check: all {appended} messages were read once, in order, and removed.");
        }
        let Counts { failed, unknown, .. } = self.counts;
        writeln!(
            text,
            "CHECK FAILED: {appended} appended, {left} left, {failed} refused, {unknown} without reply, {} not sent.",
            self.not_sent
        )?;
        match error {
            Some(error) => writeln!(text, "  {error}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;

    #[test]
    fn what_is_left_in_the_queue_fails_the_check_and_is_said() {
        let up = PhaseFigures {
            up: true,
            seconds: 2.0,
            appended: 100,
            forwarded: 4000,
            backlog_before: 5000,
            backlog_after: 1100,
            caught_up_seconds: None,
            catch_up_rate: 2000.0,
            append_latency: None,
        };
        let mut report = QueueReport {
            schema: super::super::SCHEMA,
            workload: "queue",
            environment: Environment::read(std::path::Path::new(".")),
            target: "a store".to_owned(),
            arrivals: "closed loop".to_owned(),
            message_bytes: 100,
            batch: 10,
            phases: vec![up],
            drain_seconds: 1.0,
            append_latency: LatencyReport::of(&Latencies::new()),
            counts: Counts::default(),
            not_sent: 0,
            device: None,
            series: Vec::new(),
            marks: Vec::new(),
            check: QueueCheck { appended: 5100, left: 0, error: None },
        };
        assert!(report.is_whole() && report.text().contains("all 5100 messages"));
        assert!(report.text().contains("       1100          -        2000"), "{}", report.text());
        report.check.left = 3;
        assert!(!report.is_whole() && report.text().contains("CHECK FAILED: 5100 appended, 3 left"));
    }
}
