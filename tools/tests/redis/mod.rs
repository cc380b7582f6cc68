//! A real redis-server as a child process, and the tool as a program.
//! Guarantees: killed and reaped when dropped; `None` where no redis-server is installed.
//! Next: ../exchange.rs.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

use logd_tools::daemon::{Daemon, Reply, encode};
use logd_tools::place::Place;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Redis {
    child: Child,
    pub port: u16,
}

impl Redis {
    pub fn start(directory: &Path, flags: &[&str]) -> Option<Redis> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(directory)
            .args(flags)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: no redis-server");
            return None;
        };
        let redis = Redis { child, port };
        let begun = Instant::now();
        while redis.try_connect().is_none_or(|mut client| client.ask(&["PING"]).is_err()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "redis-server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn try_connect(&self) -> Option<Daemon> {
        Daemon::connect(&Place::Tcp(format!("127.0.0.1:{}", self.port))).ok()
    }

    pub fn client(&self) -> Daemon {
        self.try_connect().expect("it runs")
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Stops it in order, without a snapshot, and waits.
    pub fn stop(mut self) {
        let _ = self.client().ask(&["SHUTDOWN", "NOSAVE"]);
        self.child.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request of bytes and expects no error.
pub fn ask(client: &mut Daemon, words: &[&[u8]]) -> Reply {
    let mut request = Vec::new();
    encode(words, &mut request);
    client.send(&request).unwrap();
    client.receive().unwrap().unwrap_or_else(|error| panic!("{:?}: {error}", String::from_utf8_lossy(words[0])))
}

/// Runs the tool. Gives exit code, standard output and standard error.
pub fn logctl(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_logctl")).args(words).output().expect("logctl starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().expect("logctl ends by itself"), text(output.stdout), text(output.stderr))
}

/// All content of a place, in an order of its own.
pub fn content(place: &str) -> Vec<String> {
    let (code, lines, error) = logctl(&["export", place, "--format", "jsonl"]);
    assert_eq!(code, 0, "{error}");
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
