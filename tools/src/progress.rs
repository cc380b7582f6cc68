//! Progress on the terminal: how far, how fast.
//! Guarantees: writes to standard error, and only when that is a terminal; a line at most five times a second.
//! Must not know: what makes the progress.
//! Next: command/replay.rs.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(200);

/// How much was done in which time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Commands.
    pub commands: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
}

impl Work {
    /// Commands a second; 0 if no time passed.
    pub fn commands_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.commands as f64 / self.seconds } else { 0.0 }
    }

    /// Megabytes (10^6) a second; 0 if no time passed.
    pub fn megabytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / 1e6 / self.seconds } else { 0.0 }
    }

    fn line(&self, what: &str) -> String {
        let (commands, megabytes) = (self.commands_per_second(), self.megabytes_per_second());
        format!("{what}: {} commands, {commands:.0} commands/s, {megabytes:.1} MB/s", self.commands)
    }
}

/// Counts work and shows it.
pub struct Progress {
    what: &'static str,
    start: Instant,
    shown: Instant,
    visible: bool,
    commands: u64,
    bytes: u64,
}

impl Progress {
    /// Starts the clock.
    pub fn new(what: &'static str) -> Progress {
        let now = Instant::now();
        Progress { what, start: now, shown: now, visible: std::io::stderr().is_terminal(), commands: 0, bytes: 0 }
    }

    /// Adds work.
    pub fn add(&mut self, commands: u64, bytes: u64) {
        self.commands += commands;
        self.bytes += bytes;
        if self.visible && self.shown.elapsed() >= PAUSE {
            self.shown = Instant::now();
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", self.work().line(self.what));
        }
    }

    /// What was done so far.
    pub fn work(&self) -> Work {
        Work { commands: self.commands, bytes: self.bytes, seconds: self.start.elapsed().as_secs_f64() }
    }

    /// Clears the line and gives the sum.
    pub fn finish(self) -> Work {
        if self.visible {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        self.work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_and_never_divide_by_zero() {
        let work = Work { commands: 300, bytes: 6_000_000, seconds: 2.0 };
        assert_eq!((work.commands_per_second(), work.megabytes_per_second()), (150.0, 3.0));
        assert_eq!(Work::default().commands_per_second(), 0.0);
        assert_eq!(work.line("replay"), "replay: 300 commands, 150 commands/s, 3.0 MB/s");
    }
}
