//! `logctl replay`: rebuilds the state up to an LSN, a moment or the end, and says its digest.
//! Guarantees: what is read is not changed; `--into` makes a new store, and only where nothing is.
//! Must not know: how state is rebuilt.
//! Next: state.rs.

use super::{EXIT_DIFFERENT, EXIT_OK, ToolError, directory_of, open};
use crate::directory::{digest_of, procedures};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::Output;
use crate::state::{Limit, State, rebuild};
use logd_engine::core::StateView;
use logd_engine::units::Lsn;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  logctl replay /var/lib/logd                                          digest and rate
  logctl replay /var/lib/logd --to-lsn 120000
  logctl replay /var/lib/logd --to-time 2026-11-30T12:00:00Z --into /tmp/noon
  logctl replay /var/lib/logd --check 0123456789abcdef0123456789abcdef  exit code 1 if the digest is another

--to-time stops before the first batch that was written later, by the wall clock of the box at that time.
--into writes the records as a new store of its own, with LSNs of its own.";

/// Records of one command of the new store.
const RECORDS_PER_COMMAND: usize = 256;
/// Bytes after which a command of the new store is closed.
const BYTES_PER_COMMAND: usize = 128 << 10;

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the store.
    #[arg(value_name = "DIR")]
    place: Place,
    /// Last LSN to replay.
    #[arg(long, value_name = "LSN", conflicts_with = "to_time")]
    to_lsn: Option<u64>,
    /// Last moment to replay: RFC 3339, or milliseconds since 1970.
    #[arg(long, value_name = "TIME")]
    to_time: Option<Moment>,
    /// Write the state as a new store to this directory, which must not be there or be empty.
    #[arg(long, value_name = "NEWDIR")]
    into: Option<PathBuf>,
    /// Compare the digest with this one.
    #[arg(long, value_name = "DIGEST", value_parser = parse_digest)]
    check: Option<String>,
}

fn parse_digest(text: &str) -> Result<String, String> {
    match text.len() == 32 && u128::from_str_radix(text, 16).is_ok() {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a digest has 32 hexadecimal digits".to_owned()),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    lsn: u64,
    digest: String,
    records: u64,
    snapshot_lsn: Option<u64>,
    commands: u64,
    bytes: u64,
    seconds: f64,
    commands_per_second: f64,
    megabytes_per_second: f64,
    torn_bytes: u64,
    into: Option<PathBuf>,
    /// Whether the digest is the one of `--check`.
    agrees: Option<bool>,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    if let Some(into) = &arguments.into {
        crate::fresh::check_empty(into)?;
    }
    let mut store = open(directory_of(&arguments.place)?, output)?;
    let limit = match (arguments.to_lsn, arguments.to_time) {
        (Some(lsn), _) => Limit::Lsn(Lsn(lsn)),
        (None, Some(moment)) => Limit::Moment(moment),
        (None, None) => Limit::End,
    };
    let state = rebuild(store.as_mut(), limit, procedures())?;
    let view = state.rebuild.view();
    let mut report = report(&state, &view, arguments.check.as_deref());
    report.place = store.place();
    if let Some(into) = &arguments.into {
        crate::rewrite::rewrite(&view, into)?;
        report.into = Some(into.clone());
    }
    output.result(&report, text);
    Ok(if report.agrees == Some(false) { EXIT_DIFFERENT } else { EXIT_OK })
}

fn report(state: &State, view: &StateView, check: Option<&str>) -> Report {
    let mut records = 0;
    view.visit_all(&mut |_, _, _| records += 1);
    let digest = digest_of(view);
    Report {
        command: "replay",
        place: String::new(),
        lsn: view.lsn.0,
        agrees: check.map(|check| check == digest),
        digest,
        records,
        snapshot_lsn: state.snapshot_lsn,
        commands: state.work.commands,
        bytes: state.work.bytes,
        seconds: state.work.seconds,
        commands_per_second: state.work.commands_per_second(),
        megabytes_per_second: state.work.megabytes_per_second(),
        torn_bytes: state.torn_bytes,
        into: None,
    }
}

fn text(report: &Report) -> String {
    let start = report.snapshot_lsn.map_or("the empty state".to_owned(), |lsn| format!("the snapshot of LSN {lsn}"));
    let mut text = format!(
        "from {start}: {} commands in {:.2} s, {:.0} commands/s, {:.1} MB/s\n",
        report.commands, report.seconds, report.commands_per_second, report.megabytes_per_second
    );
    if report.torn_bytes > 0 {
        text += &format!("left out: {} bytes of a torn tail\n", report.torn_bytes);
    }
    text += &format!("LSN     {}\nrecords {}\ndigest  {}\n", report.lsn, report.records, report.digest);
    if let Some(into) = &report.into {
        text += &format!("written to {}\n", into.display());
    }
    match report.agrees {
        Some(true) => text += "the digest agrees\n",
        Some(false) => text += "THE DIGEST IS ANOTHER than that of --check\n",
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_to_compare_with_is_checked_before_an_hour_of_replay() {
        assert_eq!(parse_digest("0123456789ABCDEF0123456789abcdef").unwrap(), "0123456789abcdef0123456789abcdef");
        assert!(parse_digest("0123").is_err());
        assert!(parse_digest("0123456789abcdef0123456789abcdeg").is_err());
    }
}
