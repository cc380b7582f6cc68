//! One line at a time to standard error, for whoever reads the daemon's log.
//! Guarantees: never fails: a closed standard error costs the line, not the daemon.
//! Must not know: levels, files, rotation; the service supervisor has those.
//! Next: server.rs.

use std::io::Write;

/// Writes one line.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "logd: {text}");
}

/// Writes one line to standard output.
pub fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}
