//! The measuring loop of one thread: starts requests when they are due, collects replies, and keeps the books.
//! Guarantees: D1 a latency runs from the time a request was due; D2 every request started is noted exactly once, with
//! `Unknown` if its session was lost; D3 what was due by the end is still sent, unless the target is too slow to take it
//! within the drain time, and then it is counted as not sent.
//! Must not know: what is asked, and of whom.
//! Next: workload/mod.rs and target/mod.rs are the two sides it joins.

use crate::histogram::Latencies;
use crate::workload::arrival::{Arrival, Arrivals};
use crate::workload::{Outcome, Workload};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests sent between two looks at the replies, so that a long burst does not make early replies look late.
const BURST: usize = 32;
/// Longest wait for replies when nothing else is to be done.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Pause between attempts to reach a target that was lost.
const REOPEN_PAUSE: Duration = Duration::from_millis(50);

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The number given at `submit`.
    pub token: usize,
    /// How.
    pub outcome: Outcome,
}

/// The session is over: requests without a reply may have been done or not.
#[derive(Clone, Debug, thiserror::Error)]
#[error("lost: {0}")]
pub struct Lost(pub String);

/// One thread's hold on a target.
pub trait Session<R> {
    /// Starts a request, or queues it until the next `poll`.
    fn submit(&mut self, token: usize, request: &R);
    /// Waits up to `limit` for the end of a request, and moves all that have ended to `done`.
    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost>;
}

/// When a run starts, counts, stops and gives up.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// Requests due before this are warm-up.
    pub measure: Instant,
    /// Nothing is due from here on.
    pub end: Instant,
    /// Nothing is waited for from here on.
    pub give_up: Instant,
}

/// What one thread has measured so far; the report reads it while the run goes on.
#[derive(Clone)]
pub struct Measures {
    /// Latencies of measured requests.
    pub latencies: Latencies,
    /// The same by class of request; as many as were seen.
    pub classes: Vec<Latencies>,
    /// Latencies since the last line.
    pub recent: Latencies,
    /// Errors since the last line.
    pub recent_aborted: u64,
    /// Requests without reply since the last line.
    pub recent_unknown: u64,
    /// When the last measured request ended.
    pub last_end: Option<Instant>,
    /// Sessions lost.
    pub sessions_lost: u64,
    /// Requests that were due and could not be sent.
    pub not_sent: u64,
}

impl Measures {
    /// Nothing yet.
    pub fn new() -> Measures {
        Measures {
            latencies: Latencies::new(),
            classes: Vec::new(),
            recent: Latencies::new(),
            recent_aborted: 0,
            recent_unknown: 0,
            last_end: None,
            sessions_lost: 0,
            not_sent: 0,
        }
    }

    fn record(&mut self, class: usize, latency: Duration, now: Instant) {
        self.latencies.record(latency);
        self.recent.record(latency);
        while self.classes.len() <= class {
            self.classes.push(Latencies::new());
        }
        self.classes[class].record(latency);
        self.last_end = Some(now);
    }
}

/// Measures shared by the thread that makes them and the one that prints them.
pub type SharedMeasures = Arc<Mutex<Measures>>;

/// Locks measures; a thread that panicked leaves them usable.
pub fn lock(measures: &Mutex<Measures>) -> MutexGuard<'_, Measures> {
    measures.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pending<R> {
    request: R,
    due: Instant,
}

/// One thread's run.
pub struct Driver<'a, W: Workload> {
    /// What is asked.
    pub workload: W,
    /// When.
    pub arrivals: Arrivals,
    /// From when to when.
    pub timeline: Timeline,
    /// Requests outstanding at once.
    pub outstanding_max: usize,
    /// Where the numbers go.
    pub measures: &'a Mutex<Measures>,
    /// What time it is.
    pub clock: &'a (dyn Fn() -> Instant + Sync),
}

/// Opens a session, also again after one was lost.
pub type Opener<'a, R> = dyn Fn() -> Result<Box<dyn Session<R>>, String> + 'a;

impl<W: Workload> Driver<'_, W> {
    /// Runs to the end. Gives the workload back, with what it noted, and the last reason for a lost session.
    pub fn run(mut self, open: &Opener<'_, W::Request>) -> (W, Option<String>) {
        let mut lost = None;
        while (self.clock)() < self.timeline.end {
            match open() {
                Ok(mut session) => match self.run_session(session.as_mut()) {
                    Ok(()) => break,
                    Err(error) => lost = Some(error.0),
                },
                Err(reason) => lost = Some(reason),
            }
            std::thread::sleep(REOPEN_PAUSE);
        }
        lock(self.measures).not_sent += self.arrivals.missed();
        (self.workload, lost)
    }

    /// Runs over one session until the end, or until it is lost; then everything outstanding is unknown.
    fn run_session(&mut self, session: &mut dyn Session<W::Request>) -> Result<(), Lost> {
        let mut pending = Slots::new(self.outstanding_max);
        let mut done = Vec::new();
        let ended = loop {
            let limit = self.fill(session, &mut pending);
            let over = limit.is_none() && pending.is_empty();
            if over || (self.clock)() >= self.timeline.give_up {
                break Ok(());
            }
            let polled = session.poll(limit.unwrap_or(WAIT_MAX), &mut done);
            self.settle(&mut pending, &mut done);
            if polled.is_err() {
                lock(self.measures).sessions_lost += 1;
                break polled;
            }
        };
        self.abandon(pending);
        ended
    }

    /// Sends what is due. Gives the time until there is something to send again; `None` if there is nothing more, or no
    /// room before a reply comes.
    fn fill(&mut self, session: &mut dyn Session<W::Request>, pending: &mut Slots<W::Request>) -> Option<Duration> {
        for _ in 0..BURST {
            let now = (self.clock)();
            match self.arrivals.next(now) {
                Arrival::Over => return None,
                Arrival::Later(at) => return Some(at.duration_since(now).min(WAIT_MAX)),
                Arrival::Due(_) if pending.is_full() => return Some(WAIT_MAX),
                Arrival::Due(due) => {
                    self.arrivals.take();
                    let request = self.workload.next();
                    session.submit(pending.put(Pending { request, due }), &request);
                }
            }
        }
        Some(if pending.is_full() { WAIT_MAX } else { Duration::ZERO })
    }

    fn settle(&mut self, pending: &mut Slots<W::Request>, done: &mut Vec<Done>) {
        if done.is_empty() {
            return;
        }
        let now = (self.clock)();
        let mut measures = lock(self.measures);
        for Done { token, outcome } in done.drain(..) {
            let Pending { request, due } = pending.take(token).expect("a session ends what was submitted, once");
            let measured = due >= self.timeline.measure;
            self.workload.note(&request, outcome, measured);
            if !measured {
                continue;
            }
            match outcome {
                Outcome::Code(_) => {
                    measures.record(self.workload.class(&request), now.saturating_duration_since(due), now);
                }
                Outcome::Aborted => measures.recent_aborted += 1,
                Outcome::Unknown => measures.recent_unknown += 1,
            }
        }
    }

    fn abandon(&mut self, pending: Slots<W::Request>) {
        for left in pending.slots.into_iter().flatten() {
            let measured = left.due >= self.timeline.measure;
            self.workload.note(&left.request, Outcome::Unknown, measured);
            lock(self.measures).recent_unknown += u64::from(measured);
        }
    }
}

/// Requests outstanding, by token.
struct Slots<R> {
    slots: Vec<Option<Pending<R>>>,
    free: Vec<usize>,
}

impl<R> Slots<R> {
    fn new(count: usize) -> Slots<R> {
        Slots { slots: (0..count).map(|_| None).collect(), free: (0..count).rev().collect() }
    }

    fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn put(&mut self, pending: Pending<R>) -> usize {
        let token = self.free.pop().expect("the caller saw room");
        self.slots[token] = Some(pending);
        token
    }

    fn take(&mut self, token: usize) -> Option<Pending<R>> {
        let pending = self.slots.get_mut(token)?.take();
        if pending.is_some() {
            self.free.push(token);
        }
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    struct Numbers(u64, Vec<(u64, Outcome, bool)>);

    impl Workload for Numbers {
        type Request = u64;
        fn next(&mut self) -> u64 {
            self.0 += 1;
            self.0
        }
        fn note(&mut self, request: &u64, outcome: Outcome, measured: bool) {
            self.1.push((*request, outcome, measured));
        }
    }

    /// Ends requests in order, and is lost after so many.
    struct Echo(VecDeque<usize>, usize);

    impl Session<u64> for Echo {
        fn submit(&mut self, token: usize, _request: &u64) {
            self.0.push_back(token);
        }
        fn poll(&mut self, _limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
            if self.1 == 0 {
                return Err(Lost("gone".to_owned()));
            }
            self.1 -= 1;
            done.extend(self.0.pop_front().map(|token| Done { token, outcome: Outcome::Code(0) }));
            Ok(())
        }
    }

    fn drive(arrivals: Arrivals, end: Instant, polls: usize) -> (Numbers, Option<String>, Measures) {
        let measures = Mutex::new(Measures::new());
        let give_up = end + Duration::from_secs(5);
        let timeline = Timeline { measure: Instant::now(), end, give_up };
        let driver = Driver {
            workload: Numbers(0, Vec::new()),
            arrivals,
            timeline,
            outstanding_max: 4,
            measures: &measures,
            clock: &Instant::now,
        };
        let (numbers, lost) = driver.run(&|| Ok(Box::new(Echo(VecDeque::new(), polls))));
        let measures = lock(&measures).clone();
        (numbers, lost, measures)
    }

    #[test]
    fn an_open_loop_sends_everything_that_was_due() {
        let start = Instant::now();
        let end = start + Duration::from_millis(20);
        let (numbers, lost, measures) = drive(Arrivals::open(5000, 0, 1, start, end), end, usize::MAX);
        assert_eq!((numbers.1.len(), lost, measures.not_sent), (100, None, 0));
    }

    #[test]
    fn what_a_lost_session_leaves_behind_is_unknown_and_nothing_is_noted_twice() {
        let end = Instant::now() + Duration::from_millis(120);
        let (mut numbers, lost, measures) = drive(Arrivals::Closed { end }, end, 3);
        assert_eq!(lost.as_deref(), Some("gone"));
        assert!(measures.sessions_lost >= 1);
        let unknown = numbers.1.iter().filter(|(_, outcome, _)| *outcome == Outcome::Unknown).count();
        assert!(unknown >= 1);
        numbers.1.sort_by_key(|(request, _, _)| *request);
        assert!(numbers.1.iter().map(|(request, _, _)| *request).eq(1..=numbers.0));
    }

    /// Stands still for a while at one poll, as a target that stalls, and otherwise takes a tenth of a millisecond.
    struct Stalling<'a> {
        now: &'a Mutex<Instant>,
        queue: VecDeque<usize>,
        polls: u64,
        has_stalled: bool,
    }

    impl Session<u64> for Stalling<'_> {
        fn submit(&mut self, token: usize, _request: &u64) {
            self.queue.push_back(token);
        }
        fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
            self.polls += 1;
            let idle = self.queue.is_empty();
            // An idle poll waits for what is due; the stall is to hit one that has work.
            let stalls = !idle && self.polls >= 100 && !std::mem::replace(&mut self.has_stalled, true);
            let step = if stalls { Duration::from_secs(1) } else { Duration::from_micros(100) };
            *self.now.lock().unwrap() += if idle { limit } else { step };
            done.extend(self.queue.drain(..).map(|token| Done { token, outcome: Outcome::Code(0) }));
            Ok(())
        }
    }

    /// Runs for ten seconds of an invented clock, at 1000 requests a second or closed.
    fn drive_stalling(open: bool) -> Measures {
        let start = Instant::now();
        let now = Mutex::new(start);
        let end = start + Duration::from_secs(10);
        let measures = Mutex::new(Measures::new());
        let arrivals = if open { Arrivals::open(1000, 0, 1, start, end) } else { Arrivals::Closed { end } };
        let timeline = Timeline { measure: start, end, give_up: end + Duration::from_secs(5) };
        let clock = || *now.lock().unwrap();
        let mut session = Stalling { now: &now, queue: VecDeque::new(), polls: 0, has_stalled: false };
        let workload = Numbers(0, Vec::new());
        let outstanding_max = if open { 4000 } else { 1 };
        let mut driver = Driver { workload, arrivals, timeline, outstanding_max, measures: &measures, clock: &clock };
        driver.run_session(&mut session).unwrap();
        measures.into_inner().unwrap()
    }

    #[test]
    fn a_stall_shows_in_all_requests_that_were_due_in_it_and_only_in_the_open_loop() {
        let open = drive_stalling(true);
        assert_eq!(open.latencies.count(), 10_000);
        let late = 100.0 - open.latencies.percent_below_ms(10.0);
        assert!((9.0..11.0).contains(&late), "a tenth of all was due in the stall, {late} % are late");
        let closed = drive_stalling(false);
        assert!(closed.latencies.percent_below_ms(10.0) > 99.9 && closed.latencies.max_ms() > 990.0);
    }
}
