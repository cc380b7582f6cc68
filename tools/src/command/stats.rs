//! `logctl stats`: a daemon's counters, or what the files of a directory tell.
//! Guarantees: names and order are the daemon's own; nothing is computed from them here.
//! Must not know: what the counters mean.
//! Next: daemon.rs, store.rs.

use super::{EXIT_OK, ToolError, open};
use crate::daemon::{Daemon, DaemonError, Reply};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::{Output, Table};
use crate::store::{BatchFacts, LogVisitor, SegmentFacts, Store};
use logd_engine::clock::{Clock, OsClock};
use logd_engine::units::Lsn;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const COMMAND: &str = "LOGD.STATS";
const EXAMPLES: &str = "Examples:
  logctl stats redis://127.0.0.1:6379
  logctl stats unix:/run/logd.sock --json | jq .stats
  logctl stats /var/lib/logd
  logctl stats redis://127.0.0.1:6379 --watch 2     what changed, every two seconds, with rates";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of a store, redis://HOST:PORT or unix:PATH.
    #[arg(value_name = "PLACE")]
    place: Place,
    /// Print what changed every so many seconds, with its rate, until interrupted; with --json a line each time.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    stats: Map<String, Value>,
    #[serde(skip)]
    order: Vec<String>,
}

impl Report {
    fn new() -> Report {
        Report { command: "stats", stats: Map::new(), order: Vec::new() }
    }

    fn add(&mut self, name: &str, value: Value) {
        self.order.push(name.to_owned());
        self.stats.insert(name.to_owned(), value);
    }
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    if let Some(seconds) = arguments.watch {
        return watch(&arguments.place, Duration::from_secs(seconds), output);
    }
    let report = match &arguments.place {
        Place::Directory(path) => of_files(open(path, output)?.as_mut())?,
        address => of_reply(&Daemon::connect(address)?.ask(&[COMMAND])?)?,
    };
    output.result(&report, text);
    Ok(EXIT_OK)
}

fn watch(place: &Place, pause: Duration, output: &Output) -> Result<u8, ToolError> {
    if let Place::Directory(_) = place {
        return Err(ToolError::Usage("--watch asks a daemon; the files of a directory tell no rates".to_owned()));
    }
    let mut daemon = Daemon::connect(place)?;
    let (mut before, mut asked) = (of_reply(&daemon.ask(&[COMMAND])?)?, Instant::now());
    loop {
        std::thread::sleep(pause);
        let (now, seconds) = (of_reply(&daemon.ask(&[COMMAND])?)?, asked.elapsed().as_secs_f64());
        asked = Instant::now();
        output.item(&now, |now| changes(&before, now, seconds));
        before = now;
    }
}

/// What is another than before: numbers with their change a second.
fn changes(before: &Report, now: &Report, seconds: f64) -> String {
    let mut table = Table::new(&["name", ">value", ">a second"]);
    for name in now.order.iter().filter(|name| before.stats.get(*name) != Some(&now.stats[*name])) {
        let number = |report: &Report| report.stats.get(name).and_then(Value::as_f64);
        let (Some(old), Some(new)) = (number(before), number(now)) else { continue };
        table.row(vec![name.clone(), now.stats[name].to_string(), format!("{:+.0}", (new - old) / seconds)]);
    }
    let moment = Moment(OsClock.wall().0);
    if table.is_empty() { format!("{moment}  nothing changed") } else { format!("{moment}\n{}", table.text()) }
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["name", "value"]);
    for name in &report.order {
        let value = match &report.stats[name] {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        table.row(vec![name.clone(), value]);
    }
    table.text()
}

/// Names and values in turn, as a map or an array of pairs, or text with `name:value` lines, as INFO has them.
fn of_reply(reply: &Reply) -> Result<Report, DaemonError> {
    let mut report = Report::new();
    match reply {
        Reply::Text(text) => {
            for (name, value) in text.lines().filter_map(|line| line.trim().split_once(':')) {
                report.add(name, value_of(&Reply::Text(value.to_owned())));
            }
        }
        Reply::Array(items) => {
            let flat: Vec<&Reply> = match items.first() {
                Some(Reply::Array(pair)) if pair.len() == 2 => items.iter().flat_map(pair_of).collect(),
                _ => items.iter().collect(),
            };
            for pair in flat.chunks(2) {
                if let [name, value] = pair
                    && let Some(name) = name.text()
                {
                    report.add(name, value_of(value));
                }
            }
        }
        Reply::Integer(_) | Reply::Null | Reply::Bytes(_) => {}
    }
    if report.order.is_empty() {
        return Err(DaemonError::Unexpected { command: COMMAND.to_owned(), reply: format!("{reply:?}") });
    }
    Ok(report)
}

fn pair_of(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(items) => items,
        _ => &[],
    }
}

fn value_of(reply: &Reply) -> Value {
    match reply {
        Reply::Integer(number) => json!(number),
        Reply::Null => Value::Null,
        Reply::Bytes(bytes) => json!(String::from_utf8_lossy(bytes)),
        Reply::Array(items) => Value::Array(items.iter().map(value_of).collect()),
        Reply::Text(text) => match text.parse::<i64>() {
            // Text that would print differently as a number, as "007", stays text.
            Ok(number) if number.to_string() == *text => json!(number),
            _ => json!(text),
        },
    }
}

fn of_files(store: &mut dyn Store) -> Result<Report, ToolError> {
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let mut counter = Counter::default();
    store.log(Lsn::NONE, &mut counter)?;
    let quarantined = store.quarantined()?;
    let mut report = Report::new();
    report.add("store_id", json!(manifest.store_id));
    report.add("created", json!(Moment(manifest.created_millis).to_string()));
    report.add("live_process", json!(store.holder()));
    report.add("closed_in_good_order", json!(manifest.clean.is_some()));
    report.add("shards", json!(manifest.shards));
    report.add("segment_bytes", json!(manifest.segment_bytes));
    report.add("segments", json!(counter.files));
    report.add("segments_in_use", json!(counter.files_in_use));
    report.add("segments_bytes", json!(counter.file_bytes));
    report.add("log_batches", json!(counter.batches));
    report.add("log_commands", json!(counter.commands));
    report.add("log_batch_bytes", json!(counter.batch_bytes));
    report.add("lsn_first", json!(counter.first_lsn));
    report.add("lsn_last", json!(counter.last_lsn));
    report.add("lsn_proof", json!(manifest.lsn_proof));
    report.add("snapshots", json!(manifest.snapshots.len()));
    report.add("snapshot_lsn", json!(manifest.snapshots.iter().map(|snapshot| snapshot.lsn).max()));
    report.add("snapshot_bytes", json!(manifest.snapshots.iter().map(|snapshot| snapshot.file_bytes).sum::<u64>()));
    report.add("quarantine_files", json!(quarantined.len()));
    report.add("quarantine_bytes", json!(quarantined.iter().map(|(_, bytes)| bytes).sum::<u64>()));
    Ok(report)
}

#[derive(Default)]
struct Counter {
    files: u64,
    files_in_use: u64,
    file_bytes: u64,
    batches: u64,
    batch_bytes: u64,
    commands: u64,
    first_lsn: Option<u64>,
    last_lsn: Option<u64>,
}

impl LogVisitor for Counter {
    fn segment(&mut self, segment: &SegmentFacts) {
        self.files += 1;
        self.files_in_use += u64::from(segment.first_lsn.is_some());
        self.file_bytes += segment.bytes;
    }

    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.batches += 1;
        self.batch_bytes += batch.bytes;
        self.commands += batch.frames.len() as u64;
        self.first_lsn.get_or_insert(batch.first_lsn.0);
        self.last_lsn = Some(batch.last_lsn().0);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::FakeStore;

    #[test]
    fn counters_come_as_pairs_or_as_lines_and_keep_their_order() {
        let word = |text: &str| Reply::Text(text.to_owned());
        let flat = Reply::Array(vec![word("syncs"), Reply::Integer(7), word("backend"), word("io_uring")]);
        let pairs = Reply::Array(vec![
            Reply::Array(vec![word("syncs"), word("7")]),
            Reply::Array(vec![word("backend"), word("io_uring")]),
        ]);
        for reply in [flat, pairs, word("# Log\r\nsyncs:7\r\nbackend:io_uring\r\n")] {
            let report = of_reply(&reply).unwrap();
            assert_eq!(report.order, ["syncs", "backend"]);
            assert_eq!((&report.stats["syncs"], &report.stats["backend"]), (&json!(7), &json!("io_uring")));
        }
        assert!(of_reply(&Reply::Null).is_err());
    }

    #[test]
    fn a_watch_shows_what_changed_with_its_rate() {
        let report = |syncs: u64| {
            let mut report = Report::new();
            report.add("syncs", json!(syncs));
            report.add("shards", json!(16));
            report
        };
        let shown = changes(&report(10), &report(30), 2.0);
        assert!(shown.contains("syncs     30       +10") && !shown.contains("shards"), "{shown}");
        assert!(changes(&report(10), &report(10), 2.0).ends_with("nothing changed"));
    }

    #[test]
    fn a_directory_tells_what_its_files_hold() {
        let report = of_files(&mut FakeStore::sound()).unwrap();
        assert_eq!((&report.stats["log_commands"], &report.stats["lsn_last"]), (&json!(4), &json!(4)));
        assert!(text(&report).contains("log_commands          4"), "{}", text(&report));
    }
}
