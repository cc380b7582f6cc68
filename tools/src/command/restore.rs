//! `logctl restore`: makes a store of a backup.
//! Guarantees: an incomplete or damaged backup is refused; nothing that is there is written over.
//! Must not know: how files are checked.
//! Next: backup/restore.rs.

use super::{EXIT_OK, ToolError};
use crate::backup::restore;
use crate::moment::Moment;
use crate::render::{Output, size_text};
use crate::state::Limit;
use logd_engine::units::Lsn;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  logctl restore /mnt/backup /var/lib/logd                       as of the backup's end
  logctl restore /mnt/backup /tmp/noon --to-time 2026-11-30T12:00:00Z
  logctl restore /mnt/backup /tmp/before --before-lsn 120000     just before that command
  ssh box 'cat logd.tar' | logctl restore - /var/lib/logd

As of the end, files are copied with all their history. As of an earlier point, the state of that point is rebuilt in memory and
written as a store of its own, with LSNs of its own and the same digest. Disk space is taken for the files once more while a tar
stream or an earlier point is restored.

Exit codes: 0 done, 2 the backup is damaged or not complete, 4 it is no backup, or failed, 64 the point is not within it.";

/// A point in the history of a store.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Point {
    /// Last LSN to take in.
    #[arg(long, value_name = "LSN", group = "point")]
    pub to_lsn: Option<u64>,
    /// Last moment to take in, by the wall clock of the box: RFC 3339, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", group = "point")]
    pub to_time: Option<Moment>,
    /// First LSN to leave out.
    #[arg(long, value_name = "LSN", group = "point", value_parser = clap::value_parser!(u64).range(1..))]
    pub before_lsn: Option<u64>,
}

impl Point {
    /// As a limit.
    pub fn limit(&self) -> Limit {
        match (self.to_lsn, self.to_time, self.before_lsn) {
            (Some(lsn), _, _) => Limit::Lsn(Lsn(lsn)),
            (_, Some(moment), _) => Limit::Moment(moment),
            (_, _, Some(lsn)) => Limit::Lsn(Lsn(lsn).previous()),
            (None, None, None) => Limit::End,
        }
    }
}

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory or tar file of the backup; - for a tar stream on standard input.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory of the new store, which must not be there or be empty.
    #[arg(value_name = "NEWDIR")]
    target: PathBuf,
    #[command(flatten)]
    point: Point,
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    backup: String,
    target: String,
    lsn: u64,
    digest: Option<String>,
    bytes: u64,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let restored = restore::run(&arguments.backup, &arguments.target, arguments.point.limit())?;
    let report = Report {
        command: "restore",
        backup: arguments.backup.display().to_string(),
        target: arguments.target.display().to_string(),
        lsn: restored.lsn,
        digest: restored.digest,
        bytes: restored.bytes,
    };
    output.result(&report, text);
    Ok(EXIT_OK)
}

fn text(report: &Report) -> String {
    let digest = report.digest.as_ref().map_or(String::new(), |digest| format!(", digest {digest}"));
    format!("restored LSN {} to {} ({} read and checked{digest})\n", report.lsn, report.target, size_text(report.bytes))
}
