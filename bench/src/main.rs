//! logbench: measures stores under workloads that others publish numbers for.
//! Guarantees: a number is printed only together with the machine, the commit and the command line it belongs to.
//! Must not know: how a target keeps its data.
//! Next: args.rs has the flags; voter.rs runs the one workload there is; driver.rs is the measuring loop.

mod args;
mod driver;
mod env;
mod histogram;
mod report;
mod target;
mod voter;
mod workload;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    if cfg!(debug_assertions) && !arguments.allow_debug {
        eprintln!(
            "logbench: this is a debug build, its numbers mean nothing: build with --release, or give --allow-debug"
        );
        return ExitCode::from(2);
    }
    let args::Command::Voter(voter) = arguments.command;
    match voter::run(&voter) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("logbench: {error}");
            ExitCode::from(2)
        }
    }
}
