//! One run: starts the clients, samples once a second, joins all up.
//! Guarantees: every second of the measured time is in the series once; what was measured before or after it is in none.
//! Must not know: workloads, targets; how a run is printed.
//! Next: driver.rs is one client; report/mod.rs makes figures of a `Run`.

use crate::device::DeviceCounters;
use crate::driver::{Driver, Lost, Measures, Session, SharedMeasures, Timeline, lock};
use crate::histogram::Latencies;
use crate::hlog::LoggedInterval;
use crate::report::{Interval, Mark, Second, time_of_day};
use crate::workload::Workload;
use crate::workload::arrival::Arrivals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time after the end in which replies are waited for.
const DRAIN: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(10);
/// Longest time of a run that ends after a number of requests.
const COUNTED_LIMIT: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads that send requests.
    pub clients: u32,
    /// Requests outstanding over all of them.
    pub outstanding: u32,
    /// Requests a second in the open loop; `None` for the closed loop.
    pub rate: Option<u64>,
    /// Not measured, at the start.
    pub warmup: Duration,
    /// Measured.
    pub duration: Duration,
    /// Requests after which the run ends, instead of after its duration.
    pub requests: Option<u64>,
    /// Between lines.
    pub display: Duration,
}

impl Plan {
    /// Requests that one client may have outstanding.
    pub fn share(&self, client: u32) -> usize {
        share(u64::from(self.outstanding), client, self.clients) as usize
    }

    /// One line about how requests start.
    pub fn text(&self, noun: &str) -> String {
        let Plan { outstanding, clients, .. } = self;
        match self.rate {
            Some(rate) => {
                format!(
                    "open loop, {rate} {noun}/s, latency from the intended start, at most {outstanding} outstanding"
                )
            }
            None => format!("closed loop, {outstanding} outstanding over {clients} threads"),
        }
    }
}

/// One client's part of a number that is shared out to the last one.
pub fn share(all: u64, client: u32, clients: u32) -> u64 {
    let (client, clients) = (u64::from(client), u64::from(clients));
    all / clients + u64::from(client < all % clients)
}

/// The number of snapshots a target has finished and whether one is being written, if it can tell.
pub type SnapshotWatch<'a> = dyn Fn() -> Option<(u64, bool)> + Sync + 'a;

/// What a run needs from outside.
pub struct Parts<'a, W: Workload> {
    /// Makes the workload of a client.
    pub workload: &'a (dyn Fn(u32) -> W + Sync),
    /// Opens a session.
    pub open: &'a (dyn Fn() -> Result<Box<dyn Session<W::Request>>, String> + Sync),
    /// Looks for snapshots.
    pub snapshots: &'a SnapshotWatch<'a>,
    /// Reads the counters of the device.
    pub device: &'a (dyn Fn() -> Option<DeviceCounters> + Sync),
    /// Takes the periodic lines.
    pub line: &'a (dyn Fn(&Interval) + Sync),
}

/// What a run gives.
pub struct Run<W> {
    /// The workloads, with what they noted.
    pub workloads: Vec<W>,
    /// The books of each client.
    pub measures: Vec<Measures>,
    /// Every second.
    pub series: Vec<Second>,
    /// Every second's histogram.
    pub logged: Vec<LoggedInterval>,
    /// Every line.
    pub intervals: Vec<Interval>,
    /// Snapshots.
    pub marks: Vec<Mark>,
    /// What went to the device in the measured time.
    pub device: Option<DeviceCounters>,
    /// When measuring began, by the wall clock.
    pub begun: SystemTime,
    /// Seconds from the start of measuring to the end or the last reply.
    pub seconds: f64,
}

impl<W> Run<W> {
    /// All latencies.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.measures.iter().for_each(|measures| all.add(&measures.latencies));
        all
    }

    /// Latencies by class; those without any are left out.
    pub fn classes(&self) -> Vec<(usize, Latencies)> {
        let count = self.measures.iter().map(|measures| measures.classes.len()).max().unwrap_or(0);
        let classes = (0..count).map(|class| {
            let mut all = Latencies::new();
            self.measures.iter().filter_map(|measures| measures.classes.get(class)).for_each(|one| all.add(one));
            (class, all)
        });
        classes.filter(|(_, latencies)| latencies.count() > 0).collect()
    }

    /// Sessions lost.
    pub fn sessions_lost(&self) -> u64 {
        self.measures.iter().map(|measures| measures.sessions_lost).sum()
    }

    /// Requests that were due and could not be sent.
    pub fn not_sent(&self) -> u64 {
        self.measures.iter().map(|measures| measures.not_sent).sum()
    }
}

/// Makes a run.
pub fn measure<W: Workload + Send>(plan: &Plan, parts: &Parts<'_, W>) -> Run<W> {
    let start = Instant::now();
    let measure = start + plan.warmup;
    let end = measure + if plan.requests.is_some() { COUNTED_LIMIT } else { plan.duration };
    let begun = SystemTime::now() + plan.warmup;
    let timeline = Timeline { measure, end, give_up: end + DRAIN };
    let shared: Vec<SharedMeasures> = (0..plan.clients).map(|_| Arc::new(Mutex::new(Measures::new()))).collect();
    let running = AtomicBool::new(true);
    let mut sampler = Sampler::new(&shared, parts, timeline, plan.display);
    let results: Vec<(W, Option<String>)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.clients)
            .zip(&shared)
            .map(|(client, measures)| scope.spawn(move || run_client(plan, parts, client, start, timeline, measures)))
            .collect();
        let (running, sampler) = (&running, &mut sampler);
        let sampling = scope.spawn(move || sampler.run(running));
        let results = clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect();
        running.store(false, Ordering::Relaxed);
        sampling.join().expect("the sampler does not panic");
        results
    });
    let Sampler { series, logged, intervals, marks, device_before, device_after, .. } = sampler;
    let device = device_before.zip(device_after).map(|(before, after)| after.since(&before));
    let measures: Vec<Measures> = shared.iter().map(|measures| lock(measures).clone()).collect();
    let last_end = measures.iter().filter_map(|measures| measures.last_end).max();
    let over = if plan.requests.is_some() { last_end } else { last_end.max(Some(end)) };
    let seconds = over.unwrap_or(end).duration_since(measure).as_secs_f64();
    let mut workloads = Vec::new();
    for (workload, lost) in results {
        workloads.push(workload);
        if let Some(Lost(lost)) = lost.map(Lost) {
            eprintln!("logbench: a session was lost: {lost}");
        }
    }
    Run { workloads, measures, series, logged, intervals, marks, device, begun, seconds }
}

fn run_client<W: Workload>(
    plan: &Plan,
    parts: &Parts<'_, W>,
    client: u32,
    start: Instant,
    timeline: Timeline,
    measures: &Mutex<Measures>,
) -> (W, Option<String>) {
    let arrivals = match (plan.requests, plan.rate) {
        (Some(requests), _) => Arrivals::Counted { left: share(requests, client, plan.clients) },
        (None, Some(rate)) => Arrivals::open(rate, client, plan.clients, start, timeline.end),
        (None, None) => Arrivals::Closed { end: timeline.end },
    };
    let (workload, outstanding_max) = ((parts.workload)(client), plan.share(client));
    let driver = Driver { workload, arrivals, timeline, outstanding_max, measures, clock: &Instant::now };
    driver.run(parts.open)
}

/// Looks at the books once a second.
struct Sampler<'a> {
    shared: &'a [SharedMeasures],
    snapshots: &'a SnapshotWatch<'a>,
    device: &'a (dyn Fn() -> Option<DeviceCounters> + Sync),
    line: &'a (dyn Fn(&Interval) + Sync),
    timeline: Timeline,
    display: Duration,
    last: Instant,
    device_before: Option<DeviceCounters>,
    device_after: Option<DeviceCounters>,
    snapshots_seen: Option<(u64, bool)>,
    since_line: Latencies,
    line_counts: (u64, u64),
    line_start: Instant,
    series: Vec<Second>,
    logged: Vec<LoggedInterval>,
    intervals: Vec<Interval>,
    marks: Vec<Mark>,
}

impl<'a> Sampler<'a> {
    fn new<W: Workload>(
        shared: &'a [SharedMeasures],
        parts: &'a Parts<'a, W>,
        timeline: Timeline,
        display: Duration,
    ) -> Sampler<'a> {
        Sampler {
            shared,
            snapshots: parts.snapshots,
            device: parts.device,
            line: parts.line,
            timeline,
            display,
            last: timeline.measure,
            device_before: None,
            device_after: None,
            snapshots_seen: None,
            since_line: Latencies::new(),
            line_counts: (0, 0),
            line_start: timeline.measure,
            series: Vec::new(),
            logged: Vec::new(),
            intervals: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn run(&mut self, running: &AtomicBool) {
        while Instant::now() < self.timeline.measure && running.load(Ordering::Relaxed) {
            thread::sleep(TICK.min(self.timeline.measure.saturating_duration_since(Instant::now())));
        }
        self.device_before = (self.device)();
        self.snapshots_seen = (self.snapshots)();
        while running.load(Ordering::Relaxed) && self.last < self.timeline.end {
            thread::sleep(TICK);
            let now = Instant::now();
            if now.duration_since(self.last) >= SECOND {
                self.sample(now.min(self.timeline.end));
            }
        }
        // The last second is a shorter one, unless it is so short that its figures would say nothing.
        let now = Instant::now().min(self.timeline.end);
        if now.saturating_duration_since(self.last) >= SECOND / 2 {
            self.sample(now);
        }
        self.device_after = (self.device)();
    }

    fn sample(&mut self, now: Instant) {
        let mut recent = Latencies::new();
        let (mut aborted, mut failures) = (0, 0);
        for measures in self.shared {
            let mut measures = lock(measures);
            recent.add(&measures.recent);
            measures.recent.clear();
            aborted += std::mem::take(&mut measures.recent_aborted);
            failures += std::mem::take(&mut measures.recent_unknown);
        }
        let (start, span) = (self.last.duration_since(self.timeline.measure), now.duration_since(self.last));
        self.last = now;
        self.series.push(Second::of(start + span, span, &recent, aborted + failures));
        self.logged.push(LoggedInterval::new(start, span, &recent));
        self.look_for_snapshots(start + span);
        self.since_line.add(&recent);
        self.line_counts = (self.line_counts.0 + aborted, self.line_counts.1 + failures);
        let line_span = now.duration_since(self.line_start);
        if line_span + TICK >= self.display {
            self.end_line(now, line_span);
        }
    }

    fn end_line(&mut self, now: Instant, span: Duration) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (aborted, failures) = std::mem::take(&mut self.line_counts);
        let interval = Interval {
            at: time_of_day(wall.as_secs()),
            throughput: self.since_line.count() as f64 / span.as_secs_f64(),
            aborted,
            failures,
            mean_ms: self.since_line.mean_ms(),
            p95_ms: self.since_line.percentile_ms(95.0),
        };
        (self.line)(&interval);
        self.intervals.push(interval);
        self.since_line.clear();
        self.line_start = now;
    }

    fn look_for_snapshots(&mut self, at: Duration) {
        let seen = (self.snapshots)();
        if let (Some((before, was_running)), Some((count, is_running))) = (self.snapshots_seen, seen) {
            let second = at.as_secs_f64();
            if is_running && !was_running {
                self.marks.push(Mark { second, text: "snapshot runs".to_owned() });
            }
            if count != before || (was_running && !is_running) {
                self.marks.push(Mark { second, text: "snapshot done".to_owned() });
            }
        }
        self.snapshots_seen = seen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Done;
    use crate::workload::Outcome;

    struct Endless;

    impl Workload for Endless {
        type Request = ();
        fn next(&mut self) {}
        fn note(&mut self, _request: &(), _outcome: Outcome, _measured: bool) {}
    }

    struct Instantly(Vec<usize>);

    impl Session<()> for Instantly {
        fn submit(&mut self, token: usize, _request: &()) {
            self.0.push(token);
        }
        fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
            thread::sleep(limit.min(Duration::from_millis(1)));
            done.extend(self.0.drain(..).map(|token| Done { token, outcome: Outcome::Code(0) }));
            Ok(())
        }
    }

    fn plan(clients: u32, outstanding: u32) -> Plan {
        let (warmup, duration, display) = (Duration::from_millis(50), Duration::from_millis(1600), SECOND);
        Plan { clients, outstanding, rate: Some(1000), warmup, duration, requests: None, display }
    }

    #[test]
    fn outstanding_requests_are_shared_without_losing_one() {
        assert_eq!((0..3).map(|client| plan(3, 10).share(client)).sum::<usize>(), 10);
    }

    #[test]
    fn the_series_holds_every_measured_request_once() {
        let parts = Parts {
            workload: &|_| Endless,
            open: &|| Ok(Box::new(Instantly(Vec::new()))),
            snapshots: &|| Some((0, false)),
            device: &|| Some(DeviceCounters::default()),
            line: &|_| {},
        };
        let run = measure(&plan(2, 8), &parts);
        let count = run.latencies().count();
        assert_eq!(count, 1600);
        let seconds: f64 = run.series.iter().map(|second| second.seconds).sum();
        assert!((seconds - 1.6).abs() < 0.001, "{seconds}");
        let in_series: u64 = run.series.iter().map(|second| second.count).sum();
        assert!(count - in_series <= 8, "{in_series} of {count}");
        assert_eq!((run.not_sent(), run.sessions_lost(), run.workloads.len()), (0, 0, 2));
        assert_eq!((run.classes().len(), run.device), (1, Some(DeviceCounters::default())));
    }
}
