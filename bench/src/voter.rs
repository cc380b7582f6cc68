//! Runs Voter: prepares the target, starts the threads, prints the lines, checks the totals.
//! Guarantees: the totals are compared after every run, and a difference is the result of the run, whatever its speed.
//! Must not know: how votes are cast or counted.
//! Next: driver.rs, report.rs.

use crate::args::{Mode, TargetAddress, VoterArguments};
use crate::driver::{Driver, Measures, SharedMeasures, Timeline, lock};
use crate::env::Environment;
use crate::histogram::Latencies;
use crate::report::{Interval, LatencyReport, Report, time_of_day};
use crate::target::{EmbeddedTarget, ServerTarget, VoterTarget};
use crate::workload::arrival::Arrivals;
use crate::workload::calls::CallGenerator;
use crate::workload::votes::{Tally, Totals, VoterWorkload};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Longest time after the end in which replies are waited for.
const DRAIN: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(20);

type Failure = Box<dyn std::error::Error>;

/// Runs it. True if the totals agree.
pub fn run(arguments: &VoterArguments) -> Result<bool, Failure> {
    arguments.check()?;
    let place = Place::choose(arguments)?;
    let target: Box<dyn VoterTarget> = match &arguments.target {
        TargetAddress::Embedded => Box::new(EmbeddedTarget::open(&place.path(), arguments.durability)?),
        server => Box::new(ServerTarget::new(server.clone(), arguments.procedure)),
    };
    let environment = Environment::read(&place.path());
    print!("{}", environment.text());
    let about = target.describe();
    println!("Target       {about}");
    println!("Arrivals     {}\n", arrivals_text(arguments));
    target.prepare(arguments.contestants)?;
    let before = target.totals(arguments.contestants)?;
    if before.votes() > 0 && !arguments.keep {
        return Err(
            format!("the store holds {} votes already: take an empty one, or give --keep", before.votes()).into()
        );
    }
    let run = measure(arguments, target.as_ref());
    let after = target.totals(arguments.contestants)?;
    target.close()?;
    let report = report(arguments, environment, about, run, &before, after);
    print!("{}", report.text());
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(report.check.agrees())
}

/// The directory of the embedded store; a temporary one goes away with this.
enum Place {
    Given(PathBuf),
    Temporary(TempDir),
}

impl Place {
    fn choose(arguments: &VoterArguments) -> Result<Place, Failure> {
        match (&arguments.target, &arguments.dir) {
            (TargetAddress::Embedded, Some(directory)) => {
                std::fs::create_dir_all(directory)?;
                Ok(Place::Given(directory.clone()))
            }
            (TargetAddress::Embedded, None) => {
                Ok(Place::Temporary(tempfile::Builder::new().prefix("logbench-").tempdir_in(".")?))
            }
            _ => Ok(Place::Given(PathBuf::from("."))),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Place::Given(path) => path.clone(),
            Place::Temporary(directory) => directory.path().to_owned(),
        }
    }
}

fn arrivals_text(arguments: &VoterArguments) -> String {
    let outstanding = arguments.outstanding();
    match (arguments.mode, arguments.rate) {
        (Mode::Open, Some(rate)) => {
            format!("open loop, {rate} calls/s, latency from the intended start, at most {outstanding} outstanding")
        }
        _ => format!("closed loop, {outstanding} outstanding over {} threads", arguments.clients()),
    }
}

/// What a run gives.
struct Run {
    tally: Tally,
    measures: Vec<Measures>,
    intervals: Vec<Interval>,
    start: Instant,
    end: Instant,
}

fn measure(arguments: &VoterArguments, target: &dyn VoterTarget) -> Run {
    let start = Instant::now();
    let measure = start + Duration::from_secs(arguments.warmup);
    let end = measure + Duration::from_secs(arguments.duration);
    let timeline = Timeline { measure, end, give_up: end + DRAIN };
    let shared: Vec<SharedMeasures> = (0..arguments.clients()).map(|_| Arc::new(Mutex::new(Measures::new()))).collect();
    let running = AtomicBool::new(true);
    let (results, intervals) = thread::scope(|scope| {
        let clients: Vec<_> = (0..arguments.clients())
            .zip(&shared)
            .map(|(client, measures)| scope.spawn(move || run_client(arguments, target, client, timeline, measures)))
            .collect();
        let running = &running;
        let shared = &shared;
        let display = Duration::from_secs(arguments.display);
        let printer = scope.spawn(move || print_lines(shared, measure, display, end, running));
        let results: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect();
        running.store(false, Ordering::Relaxed);
        (results, printer.join().expect("the printer does not panic"))
    });
    let mut tally = Tally::default();
    for (workload, lost) in results {
        tally.add(&workload.tally);
        if let Some(lost) = lost {
            eprintln!("logbench: a session was lost: {lost}");
        }
    }
    let measures = shared.iter().map(|measures| lock(measures).clone()).collect();
    Run { tally, measures, intervals, start: measure, end }
}

fn run_client(
    arguments: &VoterArguments,
    target: &dyn VoterTarget,
    client: u32,
    timeline: Timeline,
    measures: &Mutex<Measures>,
) -> (VoterWorkload, Option<String>) {
    let clients = arguments.clients();
    let first = timeline.measure - Duration::from_secs(arguments.warmup);
    let arrivals = match arguments.rate {
        Some(rate) => Arrivals::open(rate, client, clients, first, timeline.end),
        None => Arrivals::Closed { end: timeline.end },
    };
    let (all, share) = (arguments.outstanding(), arguments.outstanding() / clients);
    let outstanding_max = (share + u32::from(client < all % clients)) as usize;
    let workload = VoterWorkload::new(CallGenerator::new(arguments.seed, client, arguments.contestants));
    let driver = Driver { workload, arrivals, timeline, outstanding_max, measures };
    driver.run(&|| target.session(arguments.max_votes).map_err(|error| error.to_string()))
}

fn print_lines(
    shared: &[SharedMeasures],
    measure: Instant,
    display: Duration,
    end: Instant,
    running: &AtomicBool,
) -> Vec<Interval> {
    let mut intervals = Vec::new();
    let mut last = measure;
    while running.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        let now = Instant::now();
        let span = now.saturating_duration_since(last);
        if span >= display && last < end {
            let interval = take_interval(shared, span);
            println!("{}", interval.line());
            intervals.push(interval);
            last = now;
        }
    }
    // The last line is due at the very moment when the clients stop.
    let rest = end.saturating_duration_since(last);
    if rest >= display / 2 && Instant::now() >= end {
        let interval = take_interval(shared, rest);
        println!("{}", interval.line());
        intervals.push(interval);
    }
    intervals
}

fn take_interval(shared: &[SharedMeasures], span: Duration) -> Interval {
    let mut recent = Latencies::new();
    let (mut aborted, mut failures) = (0, 0);
    for measures in shared {
        let mut measures = lock(measures);
        recent.add(&measures.recent);
        measures.recent.clear();
        aborted += std::mem::take(&mut measures.recent_aborted);
        failures += std::mem::take(&mut measures.recent_unknown);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Interval {
        at: time_of_day(now.as_secs()),
        throughput: recent.count() as f64 / span.as_secs_f64(),
        aborted,
        failures,
        mean_ms: recent.mean_ms(),
        p95_ms: recent.percentile_ms(95.0),
    }
}

fn report(
    arguments: &VoterArguments,
    environment: Environment,
    target: String,
    run: Run,
    before: &Totals,
    after: Totals,
) -> Report {
    let mut latencies = Latencies::new();
    run.measures.iter().for_each(|measures| latencies.add(&measures.latencies));
    let last_end = run.measures.iter().filter_map(|measures| measures.last_end).max().unwrap_or(run.end);
    let seconds = last_end.max(run.end).duration_since(run.start).as_secs_f64();
    let mut report = Report {
        schema: 1,
        workload: "voter",
        environment,
        target,
        seed: arguments.seed,
        arrivals: arrivals_text(arguments),
        seconds,
        throughput: latencies.count() as f64 / seconds,
        calls: run.tally.measured,
        calls_with_warmup: run.tally.all,
        not_sent: run.measures.iter().map(|measures| measures.not_sent).sum(),
        sessions_lost: run.measures.iter().map(|measures| measures.sessions_lost).sum(),
        contestants: Vec::new(),
        latency: LatencyReport::of(&latencies),
        intervals: run.intervals,
        check: run.tally.check(before, &after),
    };
    report.set_totals(after);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use crate::workload::Outcome;
    use crate::workload::calls::Vote;
    use clap::Parser;

    fn arguments(flags: &[&str]) -> VoterArguments {
        let words = ["logbench", "voter"].iter().chain(flags);
        let Command::Voter(arguments) = Arguments::try_parse_from(words).unwrap().command;
        arguments
    }

    fn finished(run: Run, after: Totals) -> Report {
        let environment = Environment::read(std::path::Path::new("."));
        report(&arguments(&[]), environment, "test".to_owned(), run, &Totals::default(), after)
    }

    #[test]
    fn a_report_adds_up_and_keeps_the_order_of_the_original() {
        let start = Instant::now();
        let mut measures = Measures::new();
        let mut tally = Tally::default();
        for (code, phone) in [(0, 3_050_000_001), (0, 3_050_000_002), (1, 1), (2, 2)] {
            tally.note(&Vote { phone, contestant: 1 }, Outcome::Code(code), true);
            measures.latencies.record(Duration::from_millis(2));
        }
        let run =
            Run { tally, measures: vec![measures], intervals: Vec::new(), start, end: start + Duration::from_secs(2) };
        let report = finished(run, Totals::default());
        assert_eq!((report.throughput, report.seconds), (2.0, 2.0));
        assert_eq!(report.check.differences.len(), 2);
        let text = report.text();
        let order = ["4 votes", "2 accepted", "invalid", "maximum", "failed", "throughput", "99.9th", "CHECK FAILED"];
        let places: Vec<usize> = order.iter().map(|word| text.find(word).unwrap_or_else(|| panic!("{word}"))).collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(serde_json::to_value(&report).unwrap()["schema"], 1);
    }

    #[test]
    fn outstanding_calls_are_shared_without_losing_one() {
        let arguments = arguments(&["--threads", "3", "--outstanding", "10"]);
        let (all, clients) = (arguments.outstanding(), arguments.clients());
        let shares = (0..clients).map(|client| all / clients + u32::from(client < all % clients));
        assert_eq!(shares.sum::<u32>(), 10);
    }
}
