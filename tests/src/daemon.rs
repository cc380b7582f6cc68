//! The daemon as a child process, with a data directory that outlives it.
//! Guarantees: killed with -9 and reaped when dropped; no wait is longer than a minute.
//! Must not know: what is asked of it.
//! Next: load.rs; image.rs has file systems to run it on.

use crate::client::Client;
use rustix::process::{Pid, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

pub use rustix::process::Signal;

/// Long enough for the slowest machine; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running daemon.
pub struct Daemon {
    child: Child,
    said: NamedTempFile,
    port: u16,
    /// Time from start to the line that says it is ready.
    pub start_time: Duration,
    /// That line.
    pub ready_line: String,
}

/// What a daemon left that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// All it said on standard error.
    pub said: String,
}

/// A program of this workspace, built in the same profile as the test.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let path = profile.join(name);
    assert!(path.exists(), "{} is not built: run `cargo build -p logd -p logd-tools` first", path.display());
    path
}

/// Runs a tool of this workspace to its end.
pub fn run(name: &str, words: &[&str]) -> Output {
    Command::new(program(name)).args(words).output().expect("the program starts")
}

impl Daemon {
    /// Starts on a free port over a data directory and waits until it is ready. Panics with its messages if it is not.
    pub fn start(directory: &Path, flags: &[&str]) -> Daemon {
        Daemon::start_under(&[], directory, flags)
    }

    /// As `start`, by way of another command, which must become the daemon with `exec`.
    pub fn start_under(wrapper: &[&str], directory: &Path, flags: &[&str]) -> Daemon {
        match Daemon::try_start_under(wrapper, directory, flags) {
            Ok(daemon) => daemon,
            Err(ended) => panic!("logd did not become ready: {ended:?}"),
        }
    }

    /// As `start_under`; a daemon that ends instead of becoming ready is told about.
    pub fn try_start_under(wrapper: &[&str], directory: &Path, flags: &[&str]) -> Result<Daemon, Ended> {
        let mut daemon = Daemon::spawn_under(wrapper, directory, flags);
        let begun = Instant::now();
        let (sender, line) = channel();
        let mut stdout = BufReader::new(daemon.child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_line(&mut text);
            sender.send(text)
        });
        let line = line.recv_timeout(PATIENCE).expect("a daemon that starts says something or ends");
        let Some(listening) = line.strip_prefix("logd ready: listening on ") else { return Err(daemon.end()) };
        let address = listening.split([',', ' ']).next().expect("a split has a first part");
        daemon.port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        daemon.start_time = begun.elapsed();
        daemon.ready_line = line;
        Ok(daemon)
    }

    /// Starts and does not wait: `port` and `ready_line` are not known then.
    pub fn spawn_under(wrapper: &[&str], directory: &Path, flags: &[&str]) -> Daemon {
        let said = NamedTempFile::new().expect("a scratch file");
        let logd = program("logd").to_string_lossy().into_owned();
        let mut words: Vec<&str> = wrapper.to_vec();
        words.push(&logd);
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(["--dir", &directory.to_string_lossy(), "--listen", "127.0.0.1:0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said.reopen().expect("our own file"))
            .spawn()
            .expect("the command starts");
        Daemon { child, said, port: 0, start_time: Duration::ZERO, ready_line: String::new() }
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("a ready daemon takes connections")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it said on standard error so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.said.path()).expect("our own file")).into_owned()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process number");
        kill_process(process, signal).expect("it is our child");
    }

    /// Kills it as a power cut would, but for the page cache.
    pub fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        self.signal(Signal::TERM);
        (self.wait(), begun.elapsed())
    }

    /// Waits until it ends by itself, or because it was told so before.
    pub fn end(mut self) -> Ended {
        let code = self.wait().code();
        Ended { code, said: self.said() }
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "logd does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("logd said: {}", self.said());
        }
    }
}
