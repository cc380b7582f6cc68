//! One thread that serves its share of the connections: waits for events, gives turns, releases replies by notice of the log.
//! Guarantees: no connection gets a second turn before all that are ready had one; one wake-up a batch of the log, and no polling
//! while nothing is waited for.
//! Must not know: requests, the log's inside.
//! Next: connection.rs for a turn; server.rs for the phases.

use super::connection::{Connection, Desk, Next};
use super::gate::Gate;
use super::stream::Stream;
use crate::notes::note;
use crate::shared::Shared;
use mio::{Events, Poll, Token, Waker};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WAKE: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
/// How long a client that does not read can hold up the end.
const FAREWELL: Duration = Duration::from_millis(150);
/// Rest between two attempts to send the last replies.
const FAREWELL_RETRY: Duration = Duration::from_millis(5);

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Requests are served.
    Serve = 0,
    /// No more requests are run; replies still go out.
    Quiet = 1,
    /// The store is closed: the last replies go out, then the loop ends.
    End = 2,
}

/// Reaches a loop from other threads.
#[derive(Clone)]
pub struct LoopHandle {
    mail: Arc<Mail>,
}

struct Mail {
    waker: Waker,
    arrivals: Mutex<Vec<Stream>>,
    /// Connections that someone wants looked at.
    calls: Mutex<Vec<usize>>,
    /// The log has come on since it was last armed.
    is_noticed: AtomicBool,
    phase: AtomicU8,
}

struct EventLoop {
    poll: Poll,
    mail: Arc<Mail>,
    desk: Desk,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Connections to be given a turn, and which are in it.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
    /// Connections that notices of the log matter to, and which are in it.
    waiting: Vec<usize>,
    is_waiting: Vec<bool>,
    resume_at: Option<Instant>,
    quiet: Sender<()>,
}

impl LoopHandle {
    /// Starts a loop. It says on `quiet` when it has reached `Phase::Quiet`.
    pub fn start(
        name: String,
        shared: Arc<Shared>,
        gate: Arc<Gate>,
        quiet: Sender<()>,
    ) -> io::Result<(LoopHandle, JoinHandle<()>)> {
        let poll = Poll::new()?;
        let mail = Arc::new(Mail {
            waker: Waker::new(poll.registry(), WAKE)?,
            arrivals: Mutex::default(),
            calls: Mutex::default(),
            is_noticed: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Serve as u8),
        });
        let spare_input = vec![0; super::input::LENT_BYTES];
        let event_loop = EventLoop {
            poll,
            mail: Arc::clone(&mail),
            desk: Desk { shared, gate, spare_input, spare_output: Vec::new(), is_stopping: false },
            connections: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            is_ready: Vec::new(),
            waiting: Vec::new(),
            is_waiting: Vec::new(),
            resume_at: None,
            quiet,
        };
        let thread = std::thread::Builder::new().name(name).spawn(move || event_loop.run())?;
        Ok((LoopHandle { mail }, thread))
    }

    /// Gives it a connection that was let in by the gate.
    pub fn hand_over(&self, stream: Stream) {
        self.mail.arrivals.lock().push(stream);
        self.mail.wake();
    }

    /// Moves it to a later phase.
    pub fn enter(&self, phase: Phase) {
        self.mail.phase.store(phase as u8, Ordering::Release);
        self.mail.wake();
    }
}

impl Mail {
    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            note(&format!("failed to wake an event loop: {error}"));
        }
    }
}

impl EventLoop {
    fn run(mut self) {
        let mail = Arc::clone(&self.mail);
        let notice = move || {
            mail.is_noticed.store(true, Ordering::Release);
            mail.wake();
        };
        let subscription = self.desk.shared.db.subscribe(Arc::new(notice));
        let mut events = Events::with_capacity(EVENTS);
        let mut is_armed = false;
        loop {
            self.wait(&mut events);
            self.note_events(&events);
            self.take_mail();
            self.give_turns();
            match self.mail.phase.load(Ordering::Acquire) {
                phase if phase == Phase::End as u8 => return self.end(),
                phase if phase == Phase::Quiet as u8 && !self.desk.is_stopping => {
                    self.desk.is_stopping = true;
                    // Nobody listens any more only if the server has given up.
                    let _ = self.quiet.send(());
                }
                _ => {}
            }
            is_armed &= !self.mail.is_noticed.swap(false, Ordering::AcqRel);
            let is_due = self.resume_at.is_some_and(|at| at <= Instant::now());
            if !self.waiting.is_empty() && (!is_armed || is_due) {
                // Armed before looking, so that progress in between is told.
                subscription.arm();
                is_armed = true;
                self.resume_waiting();
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let now = Instant::now();
        let limit = match self.resume_at {
            _ if !self.ready.is_empty() => Some(Duration::ZERO),
            at => at.map(|at| at.saturating_duration_since(now)),
        };
        if let Err(error) = self.poll.poll(events, limit)
            && error.kind() != io::ErrorKind::Interrupted
        {
            // Nothing else can fail here but a bug of ours; going on without events would be silence.
            note(&format!("failed to wait for events: {error}"));
            std::process::abort();
        }
    }

    fn note_events(&mut self, events: &Events) {
        for event in events {
            let index = event.token().0;
            if let Some(Some(connection)) = self.connections.get_mut(index) {
                connection.note_event(event);
                self.make_ready(index);
            }
        }
    }

    fn take_mail(&mut self) {
        let arrivals = std::mem::take(&mut *self.mail.arrivals.lock());
        for stream in arrivals {
            self.admit(stream);
        }
        let calls = std::mem::take(&mut *self.mail.calls.lock());
        for index in calls {
            // Another connection may have the number by now; a turn too many does it no harm.
            if matches!(self.connections.get(index), Some(Some(_))) {
                self.make_ready(index);
            }
        }
    }

    fn admit(&mut self, mut stream: Stream) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.is_ready.push(false);
            self.is_waiting.push(false);
            self.connections.len() - 1
        });
        if let Err(error) = stream.register(self.poll.registry(), Token(index)) {
            note(&format!("failed to serve a connection: {error}"));
            self.desk.gate.leave();
            self.free.push(index);
            return;
        }
        let (peer, local) = stream.addresses();
        let mail = Arc::clone(&self.mail);
        let wake = move || {
            mail.calls.lock().push(index);
            mail.wake();
        };
        let client = self.desk.shared.clients.add(peer, local, Box::new(wake));
        self.connections[index] = Some(Box::new(Connection::new(stream, client)));
        self.make_ready(index);
    }

    fn make_ready(&mut self, index: usize) {
        if !self.is_ready[index] {
            self.is_ready[index] = true;
            self.ready.push_back(index);
        }
    }

    /// One turn for each that is ready now; who wants another comes after the next events.
    fn give_turns(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { return };
            self.is_ready[index] = false;
            let Some(connection) = &mut self.connections[index] else { continue };
            let next = connection.turn(&mut self.desk);
            self.proceed(index, next, Instant::now());
            if !self.desk.is_stopping && self.mail.phase.load(Ordering::Relaxed) != Phase::Serve as u8 {
                return;
            }
        }
    }

    fn resume_waiting(&mut self) {
        let now = Instant::now();
        self.resume_at = None;
        for index in std::mem::take(&mut self.waiting) {
            self.is_waiting[index] = false;
            let Some(connection) = &mut self.connections[index] else { continue };
            let next = connection.resume(&mut self.desk, now);
            self.proceed(index, next, now);
        }
    }

    fn proceed(&mut self, index: usize, next: Next, now: Instant) {
        let Some(connection) = &self.connections[index] else { return };
        if next == Next::Close {
            if let Some(connection) = self.connections[index].take() {
                connection.close(&mut self.desk);
            }
            self.free.push(index);
            return;
        }
        if connection.is_waiting() {
            let at = connection.resume_at(now);
            self.resume_at = [self.resume_at, at].into_iter().flatten().min();
            if !self.is_waiting[index] {
                self.is_waiting[index] = true;
                self.waiting.push(index);
            }
        }
        if next == Next::Turn {
            self.make_ready(index);
        }
    }

    /// Sends the last replies, for a while, and lets go of everybody.
    fn end(mut self) {
        let limit = Instant::now() + FAREWELL;
        loop {
            let desk = &self.desk;
            let is_more = self.connections.iter_mut().flatten().fold(false, |is_more, connection| {
                let is_unsent = connection.send_last(desk);
                is_more || is_unsent
            });
            if !is_more || Instant::now() >= limit {
                break;
            }
            std::thread::sleep(FAREWELL_RETRY);
        }
        for connection in std::mem::take(&mut self.connections).into_iter().flatten() {
            connection.close(&mut self.desk);
        }
    }
}
