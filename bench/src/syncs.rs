//! Counts the system calls by which a process syncs, with strace.
//! Guarantees: only calls that make data durable are counted; a process is left as it was found.
//! Must not know: stores. Syncs that are a flag of a write (RWF_DSYNC, O_DSYNC) or go through io_uring are no calls of their
//! own and are not seen here; the device's flushes show them.
//! Next: compare.rs.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, Error};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;

const CALLS: &str = "fsync,fdatasync,msync,sync_file_range,syncfs,sync";
/// How long attaching to all threads may take.
const ATTACH: Duration = Duration::from_millis(300);

/// A trace that goes on.
pub struct Trace {
    child: Child,
    summary: NamedTempFile,
}

impl Trace {
    /// Begins to trace a process with all its threads.
    pub fn attach(process: u32, scratch: &Path) -> io::Result<Trace> {
        let summary = NamedTempFile::new_in(scratch)?;
        let mut child = Command::new("strace")
            .args(["-f", "-c", "-qq", "-e", &format!("trace={CALLS}"), "-p", &process.to_string(), "-o"])
            .arg(summary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        thread::sleep(ATTACH);
        match child.try_wait()? {
            Some(status) => Err(Error::other(format!("strace ended at once ({status}): is tracing allowed?"))),
            None => Ok(Trace { child, summary }),
        }
    }

    /// Ends it. Gives the calls with their counts.
    pub fn detach(mut self) -> io::Result<Vec<(String, u64)>> {
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            kill_process(process, Signal::INT)?;
        }
        self.child.wait()?;
        Ok(parse(&fs::read_to_string(self.summary.path())?))
    }
}

/// Rows of the summary: share, seconds, microseconds a call, calls, perhaps errors, name.
fn parse(summary: &str) -> Vec<(String, u64)> {
    let row = |line: &str| -> Option<(String, u64)> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = *columns.last()?;
        let is_call = CALLS.split(',').any(|call| call == name);
        is_call.then(|| columns.get(3)?.parse().ok()).flatten().map(|count| (name.to_owned(), count))
    };
    summary.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_strace_is_understood() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n 99.87    1.234567          12      4321           fdatasync\n  0.13    0.000012           1         7         2 fsync\n------ ----------- ----------- --------- --------- ----------------\n100.00    1.234579          12      4328         2 total\n";
        assert_eq!(parse(summary), [("fdatasync".to_owned(), 4321), ("fsync".to_owned(), 7)]);
        assert!(parse("").is_empty());
    }
}
