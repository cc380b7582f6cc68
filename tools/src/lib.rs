//! The tools: verify, dump, replay, digest and stats over a directory or a running daemon.
//! Guarantees: nothing here writes to what it looks at (`repair` writes to a new directory), takes a lock, or decodes bytes by hand; the engine decodes.
//! Must not know: how the engine keeps what it decoded.
//! Next: command/ has a file for each command; store.rs is what they read; directory.rs reads it.

pub mod command;
pub mod daemon;
pub mod directory;
pub mod json;
pub mod moment;
pub mod place;
pub mod progress;
pub mod render;
pub mod state;
pub mod store;

use clap::Parser;
use std::process::ExitCode;

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let arguments = match command::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let wrong = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(if wrong { command::EXIT_USAGE } else { command::EXIT_OK });
        }
    };
    let output = render::Output::new(arguments.json);
    match command::run(&arguments.command, &output) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("logctl: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
