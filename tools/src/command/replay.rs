//! `logctl replay`: rebuilds the state up to an LSN, a moment or the end; in memory, as a new store, or into a running server.
//! Guarantees: what is read is not changed; `--into` makes a new store only where nothing is.
//! Must not know: how state is rebuilt or sent.
//! Next: state.rs, resend.rs, check.rs.

use super::check::{self, Check};
use super::restore::Point;
use super::{EXIT_DIFFERENT, EXIT_OK, ToolError, directory_of, open};
use crate::compare::Difference;
use crate::directory::procedures;
use crate::filter::Filter;
use crate::place::Place;
use crate::progress::Work;
use crate::render::Output;
use crate::resend::{Sent, Speed, resend};
use crate::rewrite::rewrite;
use crate::state::{Limit, State, rebuild, rebuild_from};
use logd_engine::core::StateView;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  logctl replay /var/lib/logd                                          digest and rate
  logctl replay /mnt/backup --before-lsn 120000 --keyspace db0 --prefix pump/
  logctl replay /var/lib/logd --to-time 2026-11-30T12:00:00Z --into /tmp/noon
  logctl replay /var/lib/logd --into redis://127.0.0.1:6380 --speed x10
  logctl replay /var/lib/logd --check 0123456789abcdef0123456789abcdef  exit code 1 if the digest is another
  logctl replay /var/lib/logd --check snapshot    replay from the snapshot before, compare with the newest
  logctl replay /var/lib/logd --check /mnt/backup or a daemon's address: the first differing key is named

DIR is a store, at rest or in use, a copy of one, or a backup. --to-time stops before the first batch that was written later, by
the wall clock of the box at that time. --into a directory writes a new store with LSNs of its own; into a server, the snapshot
is sent and then every command, a transaction as MULTI. Logs with calls of procedures need a tool that has them:
logd_tools::main_with (docs/OPERATIONS.md).

Exit codes: 0 done, 1 --check found a difference or the server refused commands, 2 corrupt, 3 not a store, 4 failed.";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the store, a copy or a backup.
    #[arg(value_name = "DIR")]
    place: Place,
    #[command(flatten)]
    point: Point,
    #[command(flatten)]
    filter: Filter,
    /// Write the state as a new store to a directory that must not be there or be empty, or send it to redis://HOST:PORT.
    #[arg(long, value_name = "PLACE")]
    into: Option<Place>,
    /// How fast commands are sent to a server: max, original, or a multiple as x10.
    #[arg(long, value_name = "SPEED", default_value = "max")]
    speed: Speed,
    /// Compare with a digest, with the newest snapshot ("snapshot"), or with another directory or daemon.
    #[arg(long, value_name = "WITH")]
    check: Option<Check>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    lsn: u64,
    digest: String,
    records: u64,
    snapshot_lsn: Option<u64>,
    commands: u64,
    bytes: u64,
    load_seconds: f64,
    replay_seconds: f64,
    seconds: f64,
    commands_per_second: f64,
    megabytes_per_second: f64,
    torn_bytes: u64,
    into: Option<String>,
    /// Procedures whose calls took longest together.
    slowest: Vec<Slow>,
    /// Effects that were not sent to a server: of other keyspaces, or no strings.
    left_out: u64,
    refused: u64,
    refusal: Option<String>,
    /// Whether the digest is the one of `--check`.
    agrees: Option<bool>,
    difference: Option<Difference>,
}

#[derive(Debug, Serialize)]
struct Slow {
    procedure: String,
    calls: u64,
    seconds: f64,
    longest_micros: u64,
}

/// Procedures that are told of.
const SLOWEST_COUNT: usize = 5;

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    if let Some(Place::Directory(into)) = &arguments.into {
        crate::fresh::check_empty(into)?;
    }
    let mut store = open(directory_of(&arguments.place)?, output)?;
    let limit = arguments.point.limit();
    let mut report = match &arguments.into {
        Some(place @ (Place::Tcp(_) | Place::Unix(_))) => {
            if arguments.check.is_some() {
                return Err(ToolError::Usage(
                    "--check compares a state in memory; run it without --into a server".to_owned(),
                ));
            }
            of_sent(resend(store.as_mut(), limit, place, arguments.speed, &arguments.filter)?)
        }
        into => {
            let state = match &arguments.check {
                Some(Check::Snapshot) => {
                    let newest = check::newest_snapshot(store.as_mut(), limit)?;
                    rebuild_from(store.as_mut(), Limit::Lsn(newest), procedures(), newest.0)?
                }
                _ => rebuild(store.as_mut(), limit, procedures())?,
            };
            let view = state.rebuild.view();
            let mut report = of_state(&state, &view, &arguments.filter);
            if let Some(check) = &arguments.check {
                let checked = check::run(check, store.as_mut(), &view, &arguments.filter)?;
                (report.agrees, report.difference) = (Some(checked.agrees), checked.difference);
            }
            if let Some(Place::Directory(into)) = into {
                rewrite(&view, into, &arguments.filter)?;
            }
            report
        }
    };
    report.place = store.place();
    report.into = arguments.into.as_ref().map(Place::to_string);
    output.result(&report, text);
    let is_different = report.agrees == Some(false) || report.refused > 0;
    Ok(if is_different { EXIT_DIFFERENT } else { EXIT_OK })
}

fn with_work(report: Report, work: &Work, load_seconds: f64) -> Report {
    Report {
        command: "replay",
        commands: work.commands,
        bytes: work.bytes,
        load_seconds,
        replay_seconds: work.seconds,
        seconds: load_seconds + work.seconds,
        commands_per_second: work.commands_per_second(),
        megabytes_per_second: work.megabytes_per_second(),
        ..report
    }
}

fn of_sent(sent: Sent) -> Report {
    let report = Report {
        lsn: sent.lsn,
        records: sent.load.commands,
        snapshot_lsn: sent.snapshot_lsn,
        left_out: sent.left_out,
        refused: sent.refused,
        refusal: sent.refusal,
        ..Report::default()
    };
    with_work(report, &sent.replay, sent.load.seconds)
}

fn of_state(state: &State, view: &StateView, filter: &Filter) -> Report {
    let (records, digest) = filter.digest(view);
    let mut slowest: Vec<Slow> = state
        .calls
        .iter()
        .map(|(number, times)| Slow {
            procedure: view.catalog.procedures.get(*number as usize).map_or(number.to_string(), |one| one.name.clone()),
            calls: times.count,
            seconds: times.total.as_secs_f64(),
            longest_micros: times.longest.as_micros() as u64,
        })
        .collect();
    slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    slowest.truncate(SLOWEST_COUNT);
    let report = Report {
        lsn: view.lsn.0,
        digest: digest.to_string(),
        records,
        snapshot_lsn: state.snapshot_lsn,
        torn_bytes: state.torn_bytes,
        slowest,
        ..Report::default()
    };
    with_work(report, &state.work, state.load_seconds)
}

fn text(report: &Report) -> String {
    let start = report.snapshot_lsn.map_or("the empty state".to_owned(), |lsn| format!("the snapshot of LSN {lsn}"));
    let mut text = format!(
        "from {start}: {} commands, {:.0} commands/s, {:.1} MB/s\ntime    load {:.2} s, replay {:.2} s\n",
        report.commands,
        report.commands_per_second,
        report.megabytes_per_second,
        report.load_seconds,
        report.replay_seconds
    );
    if report.torn_bytes > 0 {
        text += &format!("left out: {} bytes of a torn tail\n", report.torn_bytes);
    }
    for slow in &report.slowest {
        let (name, calls, seconds, micros) = (&slow.procedure, slow.calls, slow.seconds, slow.longest_micros);
        text += &format!("procedure {name}: {calls} calls in {seconds:.2} s, the longest {micros} us\n");
    }
    text += &format!("LSN     {}\nrecords {}\n", report.lsn, report.records);
    if !report.digest.is_empty() {
        text += &format!("digest  {}\n", report.digest);
    }
    if let Some(into) = &report.into {
        text += &format!("written to {into}\n");
    }
    if report.left_out > 0 {
        text += &format!("left out: {} effects on other keyspaces or keys, or no strings\n", report.left_out);
    }
    if let Some(refusal) = &report.refusal {
        text += &format!("REFUSED by the server: {} commands, the first with {refusal}\n", report.refused);
    }
    match report.agrees {
        Some(true) => text += "the digest agrees\n",
        Some(false) => text += "THE DIGEST IS ANOTHER than that of --check\n",
        None => {}
    }
    if let Some(difference) = &report.difference {
        let Difference { keyspace, key, here, there } = difference;
        text += &format!("first difference: {keyspace} {key}\n  here  {here}\n  there {there}\n");
    }
    text
}
