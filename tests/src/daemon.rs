//! The daemon as a child process, with a data directory that outlives it.
//! Guarantees: killed with -9 and reaped when dropped.
//! Must not know: what is asked of it.
//! Next: load.rs.

use crate::client::Client;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A running daemon.
pub struct Daemon {
    child: Child,
    port: u16,
    /// Time from start to the line that says it is ready.
    pub start_time: Duration,
    /// That line.
    pub ready_line: String,
}

/// A program of this workspace, built in the same profile as the test, or in release if that is newer work's habit.
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
        let port = free_port();
        let begun = Instant::now();
        let mut child = Command::new(program("logd"))
            .args(["--dir", &directory.to_string_lossy(), "--listen", &format!("127.0.0.1:{port}")])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("logd starts");
        let mut ready_line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready_line).expect("logd says something");
        assert!(ready_line.contains("ready"), "logd did not become ready: {ready_line:?}");
        Daemon { child, port, start_time: begun.elapsed(), ready_line }
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("a ready daemon takes connections")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it as a power cut would, but for the page cache.
    pub fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let signalled = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(signalled.expect("kill is everywhere").success(), "it is our child");
        (self.child.wait().expect("it is our child"), begun.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
