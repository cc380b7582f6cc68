//! The tools: looking at a store, at rest or running; bringing data in and out, backups, repair, replay.
//! Guarantees: nothing here writes to what it looks at (`repair` writes to a new directory), takes its lock, or decodes its bytes by
//! hand; the engine decodes.
//! Must not know: how the engine keeps what it decoded.
//! Next: command/ has a file for each command; store.rs is what they read; directory.rs reads it.

pub mod backup;
pub mod command;
pub mod compare;
pub mod daemon;
pub mod directory;
pub mod exchange;
pub mod filter;
pub mod fresh;
pub mod json;
pub mod load;
pub mod moment;
pub mod place;
pub mod progress;
pub mod render;
pub mod resend;
pub mod rewrite;
pub mod state;
pub mod store;

use clap::Parser;
use logd_engine::core::Procedures;
use std::process::ExitCode;

/// The same with procedures of a program's own: a log in which calls of them stand can be replayed by it alone. The main program
/// of such a tool is one line, `logd_tools::main_with(my_procedures())`.
pub fn main_with(procedures: Procedures) -> ExitCode {
    directory::set_procedures(procedures);
    main()
}

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
