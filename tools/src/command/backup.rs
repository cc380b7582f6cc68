//! `logctl backup`: copies a store while it is in use.
//! Guarantees: what is in a backup was read back and checked; a run that fails leaves the backup as it was; nothing is written
//! to the store.
//! Must not know: how files are copied.
//! Next: backup/.

use super::{EXIT_OK, ToolError};
use crate::backup::copy::{self, Done};
use crate::backup::stream;
use crate::daemon::{Daemon, DaemonError, Reply};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::{Output, size_text};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  logctl backup /var/lib/logd /mnt/backup                 all there is; the daemon may run
  logctl backup /var/lib/logd /mnt/backup                 again: only new segments and snapshots
  logctl backup redis://127.0.0.1:6379 /mnt/backup --checkpoint
  logctl backup /var/lib/logd - | ssh box 'cat > logd.tar'
  logctl backup /var/lib/logd /same/disk/backup --link

A daemon is asked for its directory, which must be on this machine. The backup has everything that was on disk when it began,
up to the last batch that was whole. A directory with a backup is read by all commands as a store is; do not start a daemon on
it, but on what `logctl restore` makes of it. Where the store retired log between two runs, the points between are not in
the backup: run it more often than checkpoints are taken, or keep more snapshots. Nothing in a backup is ever removed: begin a
new directory from time to time.

Exit codes: 0 done, 2 the store is damaged, 3 not a store, 4 failed (the backup is as it was before).";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the store, or redis://HOST:PORT or unix:PATH of its daemon.
    #[arg(value_name = "PLACE")]
    place: Place,
    /// Directory of the backup, new or old; - for a tar stream on standard output.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Have the daemon take a checkpoint first, so that the restored store starts fast.
    #[arg(long)]
    checkpoint: bool,
    /// Link snapshots instead of copying them, where both are on one file system.
    #[arg(long)]
    link: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    backup: String,
    /// Files copied by this run.
    files: u64,
    bytes: u64,
    linked: u64,
    retries: u64,
    snapshots: u64,
    segments: u64,
    /// Points the backup can be restored to.
    spans: Vec<Span>,
}

#[derive(Debug, Serialize)]
struct Span {
    first_lsn: u64,
    last_lsn: u64,
    last_time: String,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    if arguments.checkpoint {
        match &arguments.place {
            Place::Directory(_) => {
                let text = "--checkpoint asks a daemon: name it as redis://HOST:PORT or unix:PATH";
                return Err(ToolError::Usage(text.to_owned()));
            }
            place => drop(Daemon::connect(place)?.ask(&["SAVE"])?),
        }
    }
    let source = directory_of(&arguments.place)?;
    let is_stream = arguments.backup == Path::new("-");
    let done = match is_stream {
        true => stream::run(&source, io::stdout().lock())?,
        false => copy::run(&source, &arguments.backup, arguments.link)?,
    };
    let report = report(&source, &arguments.backup, &done);
    match is_stream {
        true => output.note(text(&report).trim_end()),
        false => output.result(&report, text),
    }
    Ok(EXIT_OK)
}

/// Where the files of a place are.
pub fn directory_of(place: &Place) -> Result<PathBuf, ToolError> {
    if let Place::Directory(path) = place {
        return Ok(path.clone());
    }
    let mut daemon = Daemon::connect(place)?;
    let reply = daemon.ask(&["CONFIG", "GET", "dir"])?;
    let Reply::Array(items) = &reply else { return Err(unexpected(&reply)) };
    let path = items.get(1).and_then(Reply::text).map(PathBuf::from).ok_or_else(|| unexpected(&reply))?;
    let path = if path.is_relative() {
        PathBuf::from(format!("/proc/{}/cwd", process_of(&mut daemon)?)).join(path)
    } else {
        path
    };
    match path.is_dir() {
        true => Ok(path),
        false => Err(ToolError::Io(format!("{} of {place} is not on this machine, or not to be read", path.display()))),
    }
}

fn process_of(daemon: &mut Daemon) -> Result<u32, ToolError> {
    let reply = daemon.ask(&["INFO", "server"])?;
    let process = reply.text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("process_id:")));
    process.and_then(|process| process.trim().parse().ok()).ok_or_else(|| unexpected(&reply))
}

fn unexpected(reply: &Reply) -> ToolError {
    DaemonError::Unexpected { command: "CONFIG GET dir".to_owned(), reply: format!("{reply:?}") }.into()
}

fn report(source: &Path, backup: &Path, done: &Done) -> Report {
    let catalogue = &done.catalogue;
    let spans = catalogue.stretches().into_iter().filter_map(|stretch| {
        let last = stretch.segments.last().map_or(0, |segment| segment.last_millis);
        let (first_lsn, last_lsn) = (stretch.first_lsn()?, stretch.last_lsn());
        Some(Span { first_lsn, last_lsn, last_time: Moment(last).to_string() })
    });
    Report {
        command: "backup",
        place: source.display().to_string(),
        backup: backup.display().to_string(),
        files: done.files,
        bytes: done.bytes,
        linked: done.linked,
        retries: done.retries,
        snapshots: catalogue.snapshots.len() as u64,
        segments: catalogue.segments.len() as u64,
        spans: spans.collect(),
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{} files, {} copied and checked", report.files, size_text(report.bytes));
    if report.linked > 0 {
        text += &format!(", {} linked", report.linked);
    }
    text += &format!("; the backup has {} snapshots and {} segments\n", report.snapshots, report.segments);
    for span in &report.spans {
        text += &format!("restorable: LSN {} to {}, up to {}\n", span.first_lsn, span.last_lsn, span.last_time);
    }
    text
}
