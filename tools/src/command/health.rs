//! `logctl health`: one look at a daemon or a directory, for people and for monitoring.
//! Guarantees: the state is the worst of its reasons, and the exit code is the state; it reads little and changes nothing.
//! Must not know: how to mend what it finds; docs/OPERATIONS.md does.
//! Next: command/verify.rs is the thorough check.

use super::backup::directory_of;
use super::{ToolError, open};
use crate::daemon::{Daemon, DaemonError, Reply};
use crate::place::Place;
use crate::render::{Output, size_text};
use crate::store::{BatchFacts, LogVisitor, Store, WalkEnd};
use logd_engine::Error;
use logd_engine::clock::{Clock, OsClock};
use logd_engine::disk::{OsStorage, Storage};
use logd_engine::error::Corrupt;
use logd_engine::units::Lsn;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

const EXAMPLES: &str = "Examples:
  logctl health redis://127.0.0.1:6379
  logctl health /var/lib/logd --json | jq -r .state
  logctl health unix:/run/logd.sock --snapshot-hours 24 || alert

Looked at: a latched failure, read-only mode, loss that nobody acknowledged, disk space, age and failures of snapshots, bytes cut
by the last recovery, commands waiting for the disk; of a directory also its manifest, its log's end and quarantine/.

Exit codes: 0 ok, 1 warn, 2 bad (also: cannot be reached or read), 3 not a store.";

/// Free space below which there is a warning, in percent.
const FREE_PERCENT_WARN: u64 = 10;
/// Free space below which it is bad: not even another segment fits.
const FREE_BYTES_BAD: u64 = 64 << 20;
const MILLIS_PER_HOUR: u64 = 3_600_000;

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of a store, redis://HOST:PORT or unix:PATH.
    #[arg(value_name = "PLACE")]
    place: Place,
    /// Warn if the newest snapshot is older and there are commands behind it; 0 for never.
    #[arg(long, value_name = "N", default_value_t = 0)]
    snapshot_hours: u64,
}

/// How it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    #[default]
    Ok,
    Warn,
    Bad,
}

#[derive(Debug, Serialize)]
struct Reason {
    level: Level,
    what: &'static str,
    text: String,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    state: Level,
    reasons: Vec<Reason>,
}

impl Report {
    fn add(&mut self, level: Level, what: &'static str, text: impl Into<String>) {
        self.state = self.state.max(level);
        self.reasons.push(Reason { level, what, text: text.into() });
    }
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let place = arguments.place.to_string();
    let mut report = Report { command: "health", place, ..Report::default() };
    let looked = match &arguments.place {
        Place::Directory(path) => of_directory(path, arguments, &mut report, output),
        place => of_daemon(place, arguments, &mut report),
    };
    match looked {
        Ok(()) => {}
        Err(error @ (ToolError::NotAStore { .. } | ToolError::Usage(_))) => return Err(error),
        Err(error) => report.add(Level::Bad, "unreadable", error.to_string()),
    }
    output.result(&report, text);
    Ok(report.state as u8)
}

fn text(report: &Report) -> String {
    let word = |level| match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::Bad => "BAD",
    };
    let mut text = format!("{}: {}\n", report.place, word(report.state));
    for reason in &report.reasons {
        text += &format!("{:<4}  {}: {}\n", word(reason.level), reason.what, reason.text);
    }
    text
}

/// Fields of INFO and LOGD.STATS together, as text.
fn fields_of(daemon: &mut Daemon) -> Result<BTreeMap<String, String>, DaemonError> {
    let mut fields = BTreeMap::new();
    let info = daemon.ask(&["INFO", "everything"])?;
    for (name, value) in info.text().unwrap_or("").lines().filter_map(|line| line.trim().split_once(':')) {
        fields.insert(name.to_owned(), value.to_owned());
    }
    if let Reply::Array(items) = daemon.ask(&["LOGD.STATS"])? {
        for pair in items.chunks(2) {
            let [Reply::Text(name), value] = pair else { continue };
            let value = value.integer().map(|number| number.to_string()).or(value.text().map(str::to_owned));
            fields.extend(value.map(|value| (name.clone(), value)));
        }
    }
    Ok(fields)
}

fn of_daemon(place: &Place, arguments: &Arguments, report: &mut Report) -> Result<(), ToolError> {
    let mut daemon = Daemon::connect(place)?;
    let fields = fields_of(&mut daemon)?;
    judge(&fields, arguments, report);
    match directory_of(place) {
        Ok(path) => space(&path, report)?,
        Err(error) => report.add(Level::Ok, "disk", format!("not looked at: {error}")),
    }
    Ok(())
}

fn judge(fields: &BTreeMap<String, String>, arguments: &Arguments, report: &mut Report) {
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
    if !text("failure").is_empty() {
        report.add(Level::Bad, "failure", format!("writes are refused until restart: {}", text("failure")));
    }
    if number("logd_loss_unacknowledged") > 0 {
        let commands = number("logd_loss_commands");
        report.add(
            Level::Bad,
            "loss",
            format!("{commands} commands were lost to damage, which nobody has acknowledged"),
        );
    }
    if number("logd_read_only") > 0 {
        report.add(Level::Bad, "read-only", "the store takes no writes");
    }
    if number("logd_disk_full") > 0 || text("aof_last_write_status") == "err" {
        report.add(Level::Bad, "disk full", "writes are refused for want of space");
    }
    if text("rdb_last_bgsave_status") == "err" {
        report.add(Level::Warn, "snapshot", "the last checkpoint failed; the log grows until one succeeds");
    }
    let cut = number("recovery_cut_bytes");
    if cut > 0 {
        let text = format!("the last start cut {} off the log's end: {}", size_text(cut), text("recovery"));
        report.add(Level::Warn, "recovery", text);
    }
    let (waiting, lag) = (number("outstanding_bytes"), number("lag_bytes"));
    if lag > 0 && waiting >= lag {
        report.add(Level::Warn, "lag", format!("{} wait for the disk", size_text(waiting)));
    }
    let since = number("commands_since_snapshot");
    age(number("rdb_last_save_time") * 1000, since, arguments.snapshot_hours, report);
    report.add(
        Level::Ok,
        "log",
        format!("LSN {} synced, {since} commands behind the newest snapshot", number("lsn_synced")),
    );
}

fn age(taken_millis: u64, commands_since: u64, hours_max: u64, report: &mut Report) {
    let hours = OsClock.wall().0.saturating_sub(taken_millis) / MILLIS_PER_HOUR;
    if hours_max > 0 && hours >= hours_max && commands_since > 0 {
        report.add(Level::Warn, "snapshot", format!("the newest is {hours} hours old"));
    }
}

fn space(path: &Path, report: &mut Report) -> Result<(), ToolError> {
    let storage = OsStorage::read_only(path).map_err(Error::from)?;
    let space = storage.disk().map_err(Error::from)?.space().map_err(Error::from)?;
    let percent = space.free.saturating_mul(100) / space.total.max(1);
    let level = match space.free {
        ..FREE_BYTES_BAD => Level::Bad,
        _ if percent < FREE_PERCENT_WARN => Level::Warn,
        _ => Level::Ok,
    };
    report.add(level, "disk", format!("{} free, {percent}%", size_text(space.free)));
    Ok(())
}

#[derive(Default)]
struct Tail {
    commands: u64,
    damage: Option<Corrupt>,
}

impl LogVisitor for Tail {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.commands += batch.frames.len() as u64;
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damage = Some(damage.clone());
    }
}

/// Manifest, the heads of the snapshots, and the log behind the newest of them.
fn of_directory(path: &Path, arguments: &Arguments, report: &mut Report, output: &Output) -> Result<(), ToolError> {
    let mut store = open(path, output)?;
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    if let Some(note) = &manifest.note {
        report.add(Level::Warn, "manifest", note.clone());
    }
    for snapshot in &manifest.snapshots {
        store.snapshot(Lsn(snapshot.lsn))?;
    }
    let newest = manifest.snapshots.last();
    let mut tail = Tail::default();
    let walked = store.log(Lsn(newest.map_or(0, |snapshot| snapshot.lsn)).next(), &mut tail)?;
    of_log(store.as_ref(), &walked, &tail, report);
    if let Some(newest) = newest {
        age(newest.time_millis, tail.commands, arguments.snapshot_hours, report);
    }
    let kept: u64 = store.quarantined()?.iter().map(|(_, bytes)| bytes).sum();
    if kept > 0 {
        report.add(Level::Warn, "quarantine", format!("{} were cut by recoveries and kept aside", size_text(kept)));
    }
    space(path, report)
}

fn of_log(store: &dyn Store, walked: &WalkEnd, tail: &Tail, report: &mut Report) {
    match (walked, &tail.damage) {
        (_, Some(damage)) if store.holder().is_some() => {
            report.add(Level::Warn, "log", format!("{damage}; the store is in use, so it may be a write under way"));
        }
        (_, Some(damage)) => report.add(Level::Bad, "log", damage.to_string()),
        (WalkEnd::End(end), None) if end.is_torn() && store.holder().is_none() => {
            let text = format!("{} of a torn tail, which the next start cuts off", size_text(end.torn_bytes));
            report.add(Level::Warn, "log", text);
        }
        (WalkEnd::End(end), None) => {
            report.add(
                Level::Ok,
                "log",
                format!("LSN {}, {} commands behind the newest snapshot", end.last_lsn, tail.commands),
            );
        }
        (WalkEnd::Stopped | WalkEnd::Damaged, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(fields: &[(&str, &str)]) -> (Level, String) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let arguments = Arguments { place: Place::Tcp("h:1".to_owned()), snapshot_hours: 1 };
        let mut report = Report::default();
        judge(&fields, &arguments, &mut report);
        (report.state, text(&report))
    }

    #[test]
    fn the_state_is_the_worst_of_its_reasons() {
        assert_eq!(state(&[("failure", ""), ("lsn_synced", "7")]).0, Level::Ok);
        let (level, text) = state(&[("recovery_cut_bytes", "4096"), ("recovery", "cut a torn tail")]);
        assert_eq!((level, level as u8), (Level::Warn, 1));
        assert!(text.contains("cut a torn tail"), "{text}");
        let (level, _) = state(&[("failure", "sync log/1: gone"), ("recovery_cut_bytes", "4096")]);
        assert_eq!((level, level as u8), (Level::Bad, 2));
        assert_eq!(state(&[("commands_since_snapshot", "5"), ("rdb_last_save_time", "1")]).0, Level::Warn);
        assert_eq!(state(&[("logd_loss_unacknowledged", "1")]).0, Level::Bad);
    }
}
