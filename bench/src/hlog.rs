//! The interval log format of HdrHistogram, which readers in many languages understand.
//! Guarantees: one line a second and tag, histograms in the compressed form V2, values in nanoseconds, maxima in
//! milliseconds; a reader that adds the lines up has the whole run.
//! Must not know: how the run was made.
//! Next: measure.rs makes the intervals.

use crate::histogram::Latencies;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds in a millisecond: the readers show maxima divided by this.
const MAX_SCALE: f64 = 1e6;

/// One interval of one run, its histogram compact.
#[derive(Clone, Debug)]
pub struct LoggedInterval {
    /// From the start of measuring.
    pub start: Duration,
    /// How long.
    pub duration: Duration,
    bytes: Vec<u8>,
}

impl LoggedInterval {
    /// Keeps the latencies of an interval.
    pub fn new(start: Duration, duration: Duration, latencies: &Latencies) -> LoggedInterval {
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(latencies.histogram(), &mut bytes);
        written.expect("a histogram with our bounds has a form, and a buffer takes everything");
        LoggedInterval { start, duration, bytes }
    }
}

/// A run as it goes into the log.
pub struct LoggedRun<'a> {
    /// Letters, digits and dashes; readers tell runs apart by it.
    pub tag: String,
    /// When measuring began.
    pub begun: SystemTime,
    /// Its intervals.
    pub intervals: &'a [LoggedInterval],
}

/// Writes runs as one log. `comment`: the first line.
pub fn write(mut out: &mut dyn Write, comment: &str, runs: &[LoggedRun<'_>]) -> io::Result<()> {
    let first = runs.iter().map(|run| run.begun).min().unwrap_or(UNIX_EPOCH);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(comment)
        .with_start_time(first)
        .with_base_time(UNIX_EPOCH)
        .with_max_value_divisor(MAX_SCALE)
        .begin_log_with(&mut out, &mut serializer)?;
    for run in runs {
        let since_epoch = run.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        for interval in run.intervals {
            let histogram: hdrhistogram::Histogram<u64> = Deserializer::new()
                .deserialize(&mut interval.bytes.as_slice())
                .map_err(|error| io::Error::other(error.to_string()))?;
            log.write_histogram(&histogram, since_epoch + interval.start, interval.duration, Tag::new(&run.tag))
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
    }
    Ok(())
}

/// A tag from any text: what a tag may not hold becomes a dash.
pub fn tag(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn a_log_holds_every_interval_with_its_tag_and_counts() {
        let second = |start: u64, count: u64| {
            let mut latencies = Latencies::new();
            (0..count).for_each(|step| latencies.record(Duration::from_micros(100 + step)));
            LoggedInterval::new(Duration::from_secs(start), Duration::from_secs(1), &latencies)
        };
        let intervals = [second(0, 5), second(1, 7)];
        let begun = UNIX_EPOCH + Duration::from_secs(1000);
        let runs = [LoggedRun { tag: tag("kv a/redis"), begun, intervals: &intervals }];
        let mut bytes = Vec::new();
        write(&mut bytes, "logbench", &runs).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.starts_with("#logbench\n") && text.contains("[StartTime: 1000"), "{text}");
        let mut found = Vec::new();
        for line in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(interval) = line.unwrap() {
                let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
                found.push((tag, interval.start_timestamp().as_secs(), interval.duration().as_secs()));
                assert!((interval.max() - 0.105).abs() < 0.01, "{}", interval.max());
            }
        }
        assert_eq!(found, [("kv-a-redis".to_owned(), 1000, 1), ("kv-a-redis".to_owned(), 1001, 1)]);
    }
}
