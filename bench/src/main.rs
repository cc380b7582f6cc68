//! logbench: measures stores under workloads that others publish numbers for.
//! Guarantees: a number is printed only together with the machine, the commit and the command line it belongs to.
//! Must not know: how a target keeps its data.
//! Next: args.rs has the flags; voter.rs, store.rs, queue.rs and compare.rs run the workloads; measure.rs makes one run and
//! driver.rs is its measuring loop.

mod args;
mod compare;
mod contender;
mod device;
mod driver;
mod env;
mod histogram;
mod hlog;
mod measure;
mod place;
mod queue;
mod report;
mod scenario;
mod store;
mod syncs;
mod target;
mod voter;
mod workload;

use args::{Arguments, Command, ScenarioArguments};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if cfg!(debug_assertions) && !arguments.allow_debug {
        eprintln!(
            "logbench: this is a debug build, its numbers mean nothing: build with --release, or give --allow-debug"
        );
        return ExitCode::from(2);
    }
    match run(arguments.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("logbench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command. False if something was measured but is not whole.
fn run(command: Command) -> Result<bool, store::Failure> {
    match command {
        Command::Voter(voter) => voter::run(&voter.resolved()),
        Command::Kv(kv) => store::run_kv(&kv),
        Command::Asbench(asbench) => store::run_asbench(&asbench),
        Command::Iometer(iometer) => store::run_iometer(&iometer),
        Command::Queue(queue) => queue::run(&queue),
        Command::Compare(compare) => compare::run(&compare),
        Command::Scenario(scenario) => run_scenario(&scenario),
    }
}

fn run_scenario(arguments: &ScenarioArguments) -> Result<bool, store::Failure> {
    let text = std::fs::read_to_string(&arguments.file)?;
    let file = arguments.file.display();
    let scenario = scenario::parse(&text).map_err(|why| format!("{file}: {why}"))?;
    println!("Question     {}", scenario.question);
    let words = ["logbench".to_owned()].into_iter().chain(scenario.words).chain(arguments.more.iter().cloned());
    match Arguments::try_parse_from(words)?.command {
        Command::Scenario(_) => Err("a scenario may not name another one".into()),
        command => run(command),
    }
}
