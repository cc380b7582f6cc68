//! Store and forward: a producer appends, a reader takes batches in order, sends them on and acknowledges them by removing
//! them; the uplink is up and down by phases.
//! Guarantees: U1 the reader never passes what was acknowledged to the producer; U2 at the end everything acknowledged was
//! read once, in order and without a gap, and is removed, or the run says so.
//! Must not know: how the store keeps it.
//! Next: workload/queue.rs is the producer; report/queue.rs the figures.

use crate::args::{Phase, QueueArguments};
use crate::contender::{Contender, place_for};
use crate::driver::{Done, Session};
use crate::env::Environment;
use crate::hlog::{self, LoggedRun};
use crate::measure::{Parts, Plan, Run, measure};
use crate::report::SCHEMA;
use crate::report::queue::{PhaseFigures, QueueCheck, QueueReport};
use crate::report::{LatencyReport, Mark};
use crate::store::{Failure, print_line};
use crate::target::StoreOptions;
use crate::workload::Outcome;
use crate::workload::operation::{KeyOrder, Kind, Operation};
use crate::workload::queue::{QueueState, QueueWorkload};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long the reader may take after the last phase.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);

/// Runs it. True if nothing was lost.
pub fn run(arguments: &QueueArguments) -> Result<bool, Failure> {
    let load = &arguments.load;
    load.check()?;
    let options = StoreOptions { level: load.durability, in_order: true };
    let spec = &arguments.target;
    let mut contender = Contender::open(spec, place_for(spec, load, true)?, options)?;
    let phases = &arguments.phases.0;
    let seconds = phases.iter().map(|phase| phase.seconds).sum();
    // One producer, so that acknowledgements come in order; one operation at a time where calls block.
    let outstanding = if spec.is_blocking() { 1 } else { load.outstanding() };
    let plan =
        Plan { clients: 1, outstanding, warmup: Duration::ZERO, duration: Duration::from_secs(seconds), ..load.plan() };
    let environment = Environment::read(&contender.path());
    print!("{}", environment.text());
    println!(
        "Workload     queue: messages of {} bytes, read in batches of {}",
        arguments.message_bytes, arguments.batch
    );
    println!("Target       {}\nArrivals     {}\n", contender.about, plan.text("messages"));
    let state = Arc::new(QueueState::default());
    let (run, read) = run_phases(arguments, &contender, &plan, &state);
    contender.target.close()?;
    let report = report(arguments, environment, &contender, &plan, &run, read);
    print!("{}", report.text());
    if let Some(path) = &load.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(path) = &load.hlog {
        let logged = LoggedRun { tag: "append".to_owned(), begun: run.begun, intervals: &run.logged };
        hlog::write(&mut std::fs::File::create(path)?, &report.environment.comment(), &[logged])?;
    }
    Ok(report.is_whole())
}

/// What the reader knows at the end.
#[derive(Default)]
struct Read {
    phases: Vec<PhaseFigures>,
    drain_seconds: f64,
    error: Option<String>,
    left: u64,
}

fn run_phases(
    arguments: &QueueArguments,
    contender: &Contender,
    plan: &Plan,
    state: &Arc<QueueState>,
) -> (Run<QueueWorkload>, Read) {
    let appending = AtomicBool::new(true);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_on(arguments, contender, state, &appending));
        let parts = Parts {
            workload: &|_| QueueWorkload::new(state, arguments.message_bytes),
            open: &|| contender.target.session().map_err(|error| error.to_string()),
            snapshots: &|| contender.target.snapshots(),
            device: &|| contender.device_counters(),
            line: &print_line,
        };
        let run = measure(plan, &parts);
        appending.store(false, Ordering::Release);
        (run, reader.join().expect("the reader does not panic"))
    })
}

/// The reader's life: the phases, then the rest.
fn read_on(arguments: &QueueArguments, contender: &Contender, state: &QueueState, appending: &AtomicBool) -> Read {
    let mut read = Read::default();
    let mut session = match contender.target.session() {
        Ok(session) => session,
        Err(error) => return Read { error: Some(error.to_string()), ..read },
    };
    let mut end = Instant::now();
    for (number, phase) in arguments.phases.0.iter().enumerate() {
        state.phase.store(number, Ordering::Relaxed);
        end += Duration::from_secs(phase.seconds);
        match read_phase(arguments, session.as_mut(), state, *phase, end) {
            Ok(figures) => read.phases.push(figures),
            Err(error) => return Read { error: Some(error), ..read },
        }
    }
    let start = Instant::now();
    while start.elapsed() < DRAIN_LIMIT {
        match forward(arguments, session.as_mut(), state) {
            Err(error) => return Read { error: Some(error), ..read },
            Ok(true) => {}
            Ok(false) if appending.load(Ordering::Acquire) => thread::sleep(TICK),
            Ok(false) => break,
        }
    }
    read.drain_seconds = start.elapsed().as_secs_f64();
    read.left = backlog(state);
    read
}

fn backlog(state: &QueueState) -> u64 {
    state.appended.load(Ordering::Acquire).saturating_sub(state.removed.load(Ordering::Relaxed))
}

fn read_phase(
    arguments: &QueueArguments,
    session: &mut dyn Session<Operation>,
    state: &QueueState,
    phase: Phase,
    end: Instant,
) -> Result<PhaseFigures, String> {
    let start = Instant::now();
    let (appended, removed) = (state.appended.load(Ordering::Acquire), state.removed.load(Ordering::Relaxed));
    let backlog_before = backlog(state);
    let mut caught_up = None;
    while Instant::now() < end {
        if phase.up && backlog(state) > 0 && forward(arguments, session, state)? {
            // Behind by a batch is as near as a reader of batches gets.
            if caught_up.is_none() && backlog(state) <= u64::from(arguments.batch) {
                caught_up = Some((start.elapsed(), state.removed.load(Ordering::Relaxed) - removed));
            }
        } else {
            thread::sleep(TICK);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let forwarded = state.removed.load(Ordering::Relaxed) - removed;
    let (catch_up, catch_up_count) =
        caught_up.map_or((seconds, forwarded), |(time, count)| (time.as_secs_f64(), count));
    Ok(PhaseFigures {
        up: phase.up,
        seconds,
        appended: state.appended.load(Ordering::Acquire) - appended,
        forwarded,
        backlog_before,
        backlog_after: backlog(state),
        caught_up_seconds: caught_up.map(|(time, _)| time.as_secs_f64()),
        catch_up_rate: if phase.up { catch_up_count as f64 / catch_up.max(1e-9) } else { 0.0 },
        append_latency: None,
    })
}

/// Reads a batch, which is then sent on, and acknowledges it. False if there was none.
fn forward(
    arguments: &QueueArguments,
    session: &mut dyn Session<Operation>,
    state: &QueueState,
) -> Result<bool, String> {
    let count = backlog(state).min(u64::from(arguments.batch)) as u32;
    if count == 0 {
        return Ok(false);
    }
    let number = state.removed.load(Ordering::Relaxed);
    let bytes = arguments.message_bytes;
    let batch = Operation { kind: Kind::Scan, order: KeyOrder::Counted, number, count, bytes, fill: 1 };
    for kind in [Kind::Scan, Kind::Take] {
        match ask(session, &Operation { kind, ..batch })? {
            Outcome::Code(0) => {}
            other => return Err(format!("{} of {count} messages from {number} on ended with {other:?}", kind.word())),
        }
    }
    state.removed.store(number + u64::from(count), Ordering::Relaxed);
    Ok(true)
}

fn ask(session: &mut dyn Session<Operation>, operation: &Operation) -> Result<Outcome, String> {
    session.submit(0, operation);
    let mut done: Vec<Done> = Vec::new();
    let start = Instant::now();
    while done.is_empty() && start.elapsed() < ANSWER_LIMIT {
        session.poll(TICK * 100, &mut done).map_err(|lost| lost.to_string())?;
    }
    done.first().map(|done| done.outcome).ok_or_else(|| format!("no answer to a {}", operation.kind.word()))
}

fn report(
    arguments: &QueueArguments,
    environment: Environment,
    contender: &Contender,
    plan: &Plan,
    run: &Run<QueueWorkload>,
    mut read: Read,
) -> QueueReport {
    for (phase, latencies) in run.classes() {
        if let Some(figures) = read.phases.get_mut(phase) {
            figures.append_latency = Some(LatencyReport::of(&latencies));
        }
    }
    let mut second = 0.0;
    let mut marks = run.marks.clone();
    for phase in &read.phases {
        marks.push(Mark { second, text: if phase.up { "uplink up" } else { "uplink down" }.to_owned() });
        second += phase.seconds;
    }
    marks.sort_by(|a, b| a.second.total_cmp(&b.second));
    let counts = run.workloads.first().map(|workload| workload.counts).unwrap_or_default();
    QueueReport {
        schema: SCHEMA,
        workload: "queue",
        environment,
        target: contender.about.clone(),
        arrivals: plan.text("messages"),
        message_bytes: arguments.message_bytes,
        batch: arguments.batch,
        phases: read.phases,
        drain_seconds: read.drain_seconds,
        append_latency: LatencyReport::of(&run.latencies()),
        counts,
        not_sent: run.not_sent(),
        device: run.device,
        series: run.series.clone(),
        marks,
        check: QueueCheck { appended: counts.done, left: read.left, error: read.error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn messages_pile_up_while_the_uplink_is_down_and_none_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let (store, json) = (directory.path().join("store"), directory.path().join("q.json"));
        let (store, json) = (store.display().to_string(), json.display().to_string());
        let words =
            ["logbench", "queue", "--rate", "300", "--phases", "up:1,down:1,up:1", "--dir", &store, "--json", &json];
        let Command::Queue(arguments) = Arguments::try_parse_from(words).unwrap().command else { panic!("queue") };
        assert!(run(&arguments).unwrap());
        let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let number = |place: &str| report.pointer(place).unwrap().as_u64().unwrap();
        assert_eq!(number("/check/appended"), 900);
        assert_eq!(number("/check/left"), 0);
        assert_eq!(number("/phases/1/forwarded"), 0);
        assert!(number("/phases/1/backlog_after") >= 200);
        assert_eq!(report.pointer("/marks/1/text").unwrap(), "uplink down");
    }
}
