//! Runs Voter: prepares the target, starts the threads, prints the lines, checks the totals.
//! Guarantees: the totals are compared after every run, and a difference is the result of the run, whatever its speed.
//! Must not know: how votes are cast or counted.
//! Next: measure.rs, report/voter.rs.

use crate::args::{TargetAddress, VoterArguments};
use crate::env::Environment;
use crate::hlog::{self, LoggedRun};
use crate::measure::{Parts, Run, measure};
use crate::place::Place;
use crate::report::voter::Report;
use crate::report::{Interval, LatencyReport, SCHEMA};
use crate::target::{EmbeddedTarget, ServerTarget, VoterTarget};
use crate::workload::calls::CallGenerator;
use crate::workload::votes::{Tally, Totals, VoterWorkload};

type Failure = Box<dyn std::error::Error>;

/// Runs it. True if the totals agree.
pub fn run(arguments: &VoterArguments) -> Result<bool, Failure> {
    arguments.check()?;
    let place = Place::choose(arguments.target == TargetAddress::Embedded, arguments.dir.as_deref())?;
    let target: Box<dyn VoterTarget> = match &arguments.target {
        TargetAddress::Embedded => Box::new(EmbeddedTarget::open(&place.path(), arguments.durability)?),
        server => Box::new(ServerTarget::new(server.clone(), arguments.procedure)),
    };
    let environment = Environment::read(&place.path());
    print!("{}", environment.text());
    let about = target.describe();
    println!("Target       {about}");
    println!("Arrivals     {}\n", arguments.plan().text("calls"));
    target.prepare(arguments.contestants)?;
    let before = target.totals(arguments.contestants)?;
    if before.votes() > 0 && !arguments.keep {
        return Err(
            format!("the store holds {} votes already: take an empty one, or give --keep", before.votes()).into()
        );
    }
    let run = measured(arguments, target.as_ref());
    let after = target.totals(arguments.contestants)?;
    target.close()?;
    if let Some(path) = &arguments.hlog {
        let logged = LoggedRun { tag: "voter".to_owned(), begun: run.begun, intervals: &run.logged };
        hlog::write(&mut std::fs::File::create(path)?, &environment.comment(), &[logged])?;
    }
    let report = report(arguments, environment, about, run, &before, after);
    print!("{}", report.text());
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(report.check.agrees())
}

fn measured(arguments: &VoterArguments, target: &dyn VoterTarget) -> Run<VoterWorkload> {
    let new_calls = |client| CallGenerator::new(arguments.seed, client, arguments.contestants);
    let parts = Parts {
        workload: &|client| VoterWorkload::new(new_calls(client)),
        open: &|| target.session(arguments.max_votes).map_err(|error| error.to_string()),
        snapshots: &|| target.snapshots(),
        device: &|| None,
        line: &|interval: &Interval| println!("{}", interval.line()),
    };
    measure(&arguments.plan(), &parts)
}

fn report(
    arguments: &VoterArguments,
    environment: Environment,
    target: String,
    run: Run<VoterWorkload>,
    before: &Totals,
    after: Totals,
) -> Report {
    let mut tally = Tally::default();
    run.workloads.iter().for_each(|workload| tally.add(&workload.tally));
    let latencies = run.latencies();
    let mut report = Report {
        schema: SCHEMA,
        workload: "voter",
        environment,
        target,
        seed: arguments.seed,
        arrivals: arguments.plan().text("calls"),
        seconds: run.seconds,
        throughput: latencies.count() as f64 / run.seconds,
        calls: tally.measured,
        calls_with_warmup: tally.all,
        not_sent: run.not_sent(),
        sessions_lost: run.sessions_lost(),
        contestants: Vec::new(),
        latency: LatencyReport::of(&latencies),
        intervals: run.intervals,
        series: run.series,
        marks: run.marks,
        check: tally.check(before, &after),
    };
    report.set_totals(after);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use crate::driver::Measures;
    use crate::workload::Outcome;
    use crate::workload::calls::Vote;
    use clap::Parser;
    use std::time::{Duration, UNIX_EPOCH};

    fn arguments(flags: &[&str]) -> VoterArguments {
        let words = ["logbench", "voter"].iter().chain(flags);
        let Command::Voter(arguments) = Arguments::try_parse_from(words).unwrap().command else { panic!("voter") };
        arguments
    }

    #[test]
    fn a_report_adds_up_and_keeps_the_order_of_the_original() {
        let mut measures = Measures::new();
        let mut workload = VoterWorkload::new(CallGenerator::new(1, 0, 6));
        for (code, phone) in [(0, 3_050_000_001), (0, 3_050_000_002), (1, 1), (2, 2)] {
            workload.tally.note(&Vote { phone, contestant: 1 }, Outcome::Code(code), true);
            measures.latencies.record(Duration::from_millis(2));
        }
        let run = Run {
            workloads: vec![workload],
            measures: vec![measures],
            series: Vec::new(),
            logged: Vec::new(),
            intervals: Vec::new(),
            marks: Vec::new(),
            device: None,
            begun: UNIX_EPOCH,
            seconds: 2.0,
        };
        let environment = Environment::read(std::path::Path::new("."));
        let none = Totals::default();
        let report = report(&arguments(&[]), environment, "test".to_owned(), run, &none, Totals::default());
        assert_eq!((report.throughput, report.seconds), (2.0, 2.0));
        assert_eq!(report.check.differences.len(), 2);
        let text = report.text();
        let order = ["4 votes", "2 accepted", "invalid", "maximum", "failed", "throughput", "99.9th", "CHECK FAILED"];
        let places: Vec<usize> = order.iter().map(|word| text.find(word).unwrap_or_else(|| panic!("{word}"))).collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(serde_json::to_value(&report).unwrap()["schema"], SCHEMA);
    }
}
