//! `logctl digest`: the digest of a state and its LSN.
//! Guarantees: two places with the same LSN have the same digest, or one of them is wrong.
//! Must not know: how a digest is made.
//! Next: state.rs, daemon.rs.

use super::{EXIT_OK, ToolError, open};
use crate::daemon::{Daemon, DaemonError, Reply};
use crate::directory::{digest_of, procedures};
use crate::place::Place;
use crate::render::Output;
use crate::state::{Limit, rebuild};
use serde::Serialize;

const COMMAND: &str = "LOGD.DIGEST";
const EXAMPLES: &str = "Examples:
  logctl digest /var/lib/logd
  logctl digest redis://127.0.0.1:6379
  logctl digest unix:/run/logd.sock --json

A directory is replayed in memory for it; a daemon walks its state and goes on serving.";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of a store, redis://HOST:PORT or unix:PATH.
    #[arg(value_name = "PLACE")]
    place: Place,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Report {
    command: &'static str,
    lsn: u64,
    digest: String,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let report = match &arguments.place {
        Place::Directory(path) => {
            let mut store = open(path, output)?;
            let view = rebuild(store.as_mut(), Limit::End, procedures())?.rebuild.view();
            Report { command: "digest", lsn: view.lsn.0, digest: digest_of(&view) }
        }
        address => ask(address)?,
    };
    output.result(&report, |report| format!("{} {}\n", report.lsn, report.digest));
    Ok(EXIT_OK)
}

fn ask(address: &Place) -> Result<Report, DaemonError> {
    read_reply(&Daemon::connect(address)?.ask(&[COMMAND])?)
}

/// The digest of a running daemon.
pub fn of_server(address: &Place) -> Result<String, DaemonError> {
    Ok(ask(address)?.digest)
}

/// The daemon answers with LSN and digest.
fn read_reply(reply: &Reply) -> Result<Report, DaemonError> {
    if let Reply::Array(items) = reply
        && let [lsn, digest] = items.as_slice()
        && let Some(lsn) = lsn.integer().and_then(|lsn| u64::try_from(lsn).ok())
        && let Some(digest) = digest.text()
        && digest.len() == 32
    {
        return Ok(Report { command: "digest", lsn, digest: digest.to_ascii_lowercase() });
    }
    Err(DaemonError::Unexpected { command: COMMAND.to_owned(), reply: format!("{reply:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_is_lsn_and_digest_and_nothing_else() {
        let digest = "0123456789abcdef0123456789abcdef";
        let reply = Reply::Array(vec![Reply::Integer(12), Reply::Text(digest.to_owned())]);
        assert_eq!(read_reply(&reply).unwrap(), Report { command: "digest", lsn: 12, digest: digest.to_owned() });
        assert!(read_reply(&Reply::Array(vec![Reply::Integer(12)])).is_err());
        assert!(read_reply(&Reply::Text(digest.to_owned())).is_err());
    }
}
