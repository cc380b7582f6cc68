//! Rounds of load, a fault, a new start and a check, on one directory, so that a fault that needs two restarts shows.
//! Guarantees: what was acknowledged is compared with what comes back; the tools must agree with the daemon about it.
//! Must not know: which fault it is.
//! Next: tests/tests/daemon_kill.rs, tests/tests/power_cut.rs.

use crate::client::Reply;
use crate::daemon::{Daemon, run};
use crate::load::{Done, Survived, check_order, check_writer, start_writer, survived};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Connections that write at a time.
const WRITERS: usize = 4;

/// What must be there after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Everything acknowledged.
    All,
    /// A prefix of the order in which it was done.
    Prefix,
}

/// Rounds to run: a few, or as many as `LOGD_LONG_ROUNDS` says.
pub fn rounds(short: u64) -> u64 {
    std::env::var("LOGD_LONG_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(short)
}

/// Load that goes on over several starts.
#[derive(Debug, Default)]
pub struct Load {
    there: [u64; WRITERS],
}

/// Load that is running.
pub struct Running {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Done>>,
}

impl Load {
    /// Starts the writers.
    pub fn start(&self, daemon: &Daemon) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS)
            .map(|writer| start_writer(daemon.port(), writer as u64, self.there[writer], Arc::clone(&stop)))
            .collect();
        Running { stop, writers }
    }

    /// Compares what a new start brought back with what the writers were told.
    pub fn check(&mut self, daemon: &Daemon, all: Vec<Done>, promise: Promise) {
        let mut client = daemon.client();
        let all: Vec<(Done, Survived)> = all
            .into_iter()
            .map(|done| {
                let kept = survived(&mut client, &done);
                if promise == Promise::All {
                    check_writer(&mut client, &done);
                }
                (done, kept)
            })
            .collect();
        let (mut lost, mut acknowledged) = (0, 0);
        for (done, kept) in &all {
            lost += done.acknowledged.saturating_sub(kept.most);
            acknowledged += done.acknowledged - done.from;
        }
        eprintln!("{lost} of {acknowledged} acknowledged operations are lost; promise: {promise:?}");
        check_order(&all);
        all.iter().for_each(|(done, kept)| self.there[done.writer as usize] = kept.most);
    }

    /// Panics if a writer never got anything done.
    pub fn check_progress(&self) {
        assert!(self.there.iter().all(|count| *count > 0), "every writer got something done: {:?}", self.there);
    }
}

impl Running {
    /// Waits for the writers, whose connections are broken or who were refused; others are told to stop.
    pub fn finish(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
    }

    /// Waits until every writer has ended by itself.
    pub fn ended(self) -> Vec<Done> {
        self.writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
    }
}

/// Panics unless `logctl verify` finds a store that is sound, or torn only at its end.
pub fn check_verify(data: &Path) {
    let output = run("logctl", &["verify", &data.to_string_lossy()]);
    let code = output.status.code().expect("an exit code");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(code <= 1, "verify says {code}: {said}{complained}");
}

/// Panics unless `logctl replay` comes to the state that the daemon has, which must be at rest. A checkpoint that still runs then may
/// remove files under the tool, so that it is asked again.
pub fn check_replay(data: &Path, daemon: &Daemon) {
    let mut last = String::new();
    for _ in 0..10 {
        let Ok(Reply::Array(Some(told))) = daemon.client().call(&["LOGD.DIGEST"]) else {
            panic!("a digest was expected")
        };
        let output = run("logctl", &["replay", &data.to_string_lossy(), "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && text.contains(&told[1].text()) {
            return;
        }
        last = format!("the daemon has {told:?}, replay says {text}{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    panic!("{last}");
}
