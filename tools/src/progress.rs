//! Progress of long work: how far, how fast.
//! Guarantees: writes to standard error only; on a terminal a line that changes five times a second, elsewhere a plain line
//! every five seconds, so that short work says nothing.
//! Must not know: what makes the progress.
//! Next: command/replay.rs.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_PLAIN: Duration = Duration::from_secs(5);
const BAR_CELLS: u64 = 20;

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

    fn line(&self, what: &str, unit: &str) -> String {
        let (commands, megabytes) = (self.commands_per_second(), self.megabytes_per_second());
        format!("{what}: {} {unit}, {commands:.0} {unit}/s, {megabytes:.1} MB/s", self.commands)
    }
}

/// Counts work and shows it.
pub struct Progress {
    what: &'static str,
    unit: &'static str,
    start: Instant,
    shown: Instant,
    visible: bool,
    commands: u64,
    bytes: u64,
    bytes_total: u64,
}

impl Progress {
    /// Starts the clock.
    pub fn new(what: &'static str) -> Progress {
        Progress::of(what, "commands", 0)
    }

    /// Starts the clock for work whose bytes are known (0: they are not) and whose pieces have a name.
    pub fn of(what: &'static str, unit: &'static str, bytes_total: u64) -> Progress {
        let now = Instant::now();
        let visible = std::io::stderr().is_terminal();
        Progress { what, unit, start: now, shown: now, visible, commands: 0, bytes: 0, bytes_total }
    }

    /// Adds work.
    pub fn add(&mut self, commands: u64, bytes: u64) {
        self.commands += commands;
        self.bytes += bytes;
        if self.shown.elapsed() < if self.visible { PAUSE } else { PAUSE_PLAIN } {
            return;
        }
        self.shown = Instant::now();
        let line = self.work().line(self.what, self.unit) + &bar(self.bytes, self.bytes_total);
        let _ = match self.visible {
            true => write!(std::io::stderr(), "\r\x1b[K{line}"),
            false => writeln!(std::io::stderr(), "{line}"),
        };
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

/// ` [#####---------------]  25%`, or nothing where the sum is not known.
fn bar(bytes: u64, bytes_total: u64) -> String {
    if bytes_total == 0 {
        return String::new();
    }
    let bytes = bytes.min(bytes_total);
    let full = (u128::from(bytes) * u128::from(BAR_CELLS) / u128::from(bytes_total)) as usize;
    let percent = u128::from(bytes) * 100 / u128::from(bytes_total);
    format!(" [{}{}] {percent:3}%", "#".repeat(full), "-".repeat(BAR_CELLS as usize - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_and_never_divide_by_zero() {
        let work = Work { commands: 300, bytes: 6_000_000, seconds: 2.0 };
        assert_eq!((work.commands_per_second(), work.megabytes_per_second()), (150.0, 3.0));
        assert_eq!(Work::default().commands_per_second(), 0.0);
        assert_eq!(work.line("replay", "commands"), "replay: 300 commands, 150 commands/s, 3.0 MB/s");
    }

    #[test]
    fn the_bar_shows_the_share_and_never_more_than_all() {
        assert_eq!(bar(1, 4), " [#####---------------]  25%");
        assert_eq!(bar(9, 4), " [####################] 100%");
        assert_eq!(bar(9, 0), "");
    }
}
