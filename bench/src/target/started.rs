//! A server started for one measurement, in a directory of its own, reached over a Unix socket.
//! Guarantees: it is asked to end at `stop`, and killed when dropped without; only this child is ever signalled.
//! Must not know: what is measured.
//! Next: server.rs talks to it.

use super::TargetError;
use super::wire::{Reply, Wire};
use crate::args::{ServerKind, TargetAddress};
use logd_engine::DurabilityLevel;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// A socket's name may not be longer than this.
const SOCKET_NAME_BYTES_MAX: usize = 107;

/// A running child.
pub struct StartedServer {
    child: Child,
    socket: PathBuf,
}

impl StartedServer {
    /// Starts a server with its data in a directory, and waits until it answers.
    pub fn start(
        kind: ServerKind,
        binary: &Path,
        directory: &Path,
        level: DurabilityLevel,
    ) -> Result<StartedServer, TargetError> {
        let reach = |source| TargetError::Reach { place: binary.display().to_string(), source };
        let directory = directory.canonicalize().map_err(reach)?;
        let socket = directory.join("s");
        if socket.as_os_str().len() > SOCKET_NAME_BYTES_MAX {
            let source = io::Error::other(format!("{} is too long for the name of a socket", socket.display()));
            return Err(reach(source));
        }
        let log = File::create(directory.join("server.log")).map_err(reach)?;
        let errors = log.try_clone().map_err(reach)?;
        let mut command = Command::new(binary);
        command.args(flags(kind, &directory, &socket, level)).current_dir(&directory);
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().map_err(reach)?;
        let server = StartedServer { child, socket };
        server.wait_until_it_answers().map_err(reach)
    }

    fn wait_until_it_answers(mut self) -> io::Result<StartedServer> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("ended at once: {status}")));
            }
            let pong = Wire::connect(&self.address())
                .ok()
                .and_then(|mut wire| wire.ask(&[b"PING"], Duration::from_secs(1)).ok());
            if pong.is_some_and(|reply| !matches!(reply, Reply::Error(_))) {
                return Ok(self);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(io::Error::other("does not answer"))
    }

    /// Where it listens.
    pub fn address(&self) -> TargetAddress {
        TargetAddress::Unix(self.socket.clone())
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits for that.
    pub fn stop(mut self) {
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            // An error means that it has ended already.
            let _ = kill_process(process, Signal::TERM);
        }
        let start = Instant::now();
        while start.elapsed() < STOP_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        // Errors mean that it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The flags with which a server keeps what the level promises. `synced` is `appendfsync always`; everything weaker is
/// `everysec`, the nearest there is.
fn flags(kind: ServerKind, directory: &Path, socket: &Path, level: DurabilityLevel) -> Vec<String> {
    let (directory, socket) = (directory.display().to_string(), socket.display().to_string());
    let fsync = if level == DurabilityLevel::Synced { "always" } else { "everysec" };
    let words: Vec<&str> = match kind {
        ServerKind::Redis => vec![
            "--port",
            "0",
            "--unixsocket",
            &socket,
            "--dir",
            &directory,
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            fsync,
            "--daemonize",
            "no",
        ],
        ServerKind::Logd => {
            let store = format!("{directory}/store");
            return ["--dir", &store, "--unix", &socket, "--port", "0", "--durability", level.word()]
                .map(str::to_owned)
                .to_vec();
        }
    };
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_server_syncs_always_when_writes_are_to_be_synced() {
        let of = |level| flags(ServerKind::Redis, Path::new("/d"), Path::new("/d/s"), level);
        let synced = of(DurabilityLevel::Synced);
        assert!(synced.windows(2).any(|pair| pair == ["--appendfsync", "always"]));
        assert!(synced.windows(2).any(|pair| pair == ["--appendonly", "yes"]));
        assert!(of(DurabilityLevel::Written).windows(2).any(|pair| pair == ["--appendfsync", "everysec"]));
    }

    #[test]
    fn a_binary_that_ends_at_once_is_an_error_and_not_a_wait() {
        let directory = tempfile::tempdir().unwrap();
        let level = DurabilityLevel::Synced;
        let started = StartedServer::start(ServerKind::Redis, Path::new("/bin/false"), directory.path(), level);
        assert!(started.is_err());
    }
}
