//! One client: receives, runs its requests in order, sends its replies.
//! Guarantees: one read, one write and a bounded number of requests a turn; a request that cannot run now is run again, unchanged,
//! and nothing overtakes it; a client that does not read is not read from.
//! Must not know: other clients, how events arrive.
//! Invariants: I1 requests run only while nothing is waited for and the connection is not ending.
//! Next: event_loop.rs gives the turns; executor.rs runs the requests.

use super::gate::Gate;
use super::input::Input;
use super::output::Output;
use super::stream::Stream;
use crate::clients::ClientHandle;
use crate::executor::{self, Later, Outcome};
use crate::notes::note;
use crate::request::Words;
use crate::resp::Out;
use crate::resp::parse::{Parser, Step};
use crate::session::Session;
use crate::shared::Shared;
use logd_engine::Ticket;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Requests of one turn.
const TURN_REQUESTS_MAX: usize = 1024;
/// Input bytes used up in one turn.
const TURN_BYTES_MAX: usize = 512 << 10;
/// Unsent bytes above which a client is not served until it reads.
const UNSENT_BYTES_SERVED: usize = 1 << 20;
/// A busy log tells when it is not any more; this is for the case that it does not.
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// Longest rest between two looks at a reply that comes later.
const LATER_RETRY: Duration = Duration::from_millis(100);
/// Shortest one, so that a reply that is late does not keep the loop spinning.
const LATER_RETRY_MIN: Duration = Duration::from_millis(1);
/// Requests up to this many words need no allocation.
const WORDS_ON_STACK: usize = 12;
/// Reads of what is dropped at the end, so that the close does not destroy the last reply on its way.
const READS_AT_END: usize = 32;

/// What a loop lends its connections for a turn.
pub struct Desk {
    /// All that requests need.
    pub shared: Arc<Shared>,
    /// Common limits.
    pub gate: Arc<Gate>,
    /// Input buffer for connections without one.
    pub spare_input: Vec<u8>,
    /// The same for output.
    pub spare_output: Vec<u8>,
    /// No more requests are taken.
    pub is_stopping: bool,
}

/// What a connection wants after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another turn, after the others had theirs.
    Turn,
    /// An event or notice.
    Rest,
    /// To be dropped.
    Close,
}

/// Why the next request is not run.
enum Wait {
    Nothing,
    Busy { until: Instant },
    Later(Box<dyn Later>),
}

/// The connection ends now; replies that were not sent are lost with it.
struct Ended;

/// A client's connection.
pub struct Connection {
    stream: Stream,
    client: Arc<ClientHandle>,
    session: Session,
    input: Input,
    input_counted: usize,
    parser: Parser,
    output: Output,
    wait: Wait,
    is_readable: bool,
    is_writable: bool,
    /// The client sends no more.
    is_input_ended: bool,
    /// The kernel told of the end; it shows behind what is still to be read.
    is_end_near: bool,
    /// The client takes no more replies; what it sent before is still to be run.
    is_gone: bool,
    /// The input may hold whole requests.
    has_requests: bool,
    /// Closed once all is sent.
    is_ending: bool,
}

impl Connection {
    /// A new client. Its socket is registered already.
    pub fn new(stream: Stream, client: Arc<ClientHandle>) -> Connection {
        Connection {
            stream,
            session: Session::new(Arc::clone(&client)),
            client,
            input: Input::default(),
            input_counted: 0,
            parser: Parser::default(),
            output: Output::default(),
            wait: Wait::Nothing,
            is_readable: true,
            is_writable: true,
            is_input_ended: false,
            is_end_near: false,
            is_gone: false,
            has_requests: false,
            is_ending: false,
        }
    }

    /// Takes note of what the kernel told.
    pub fn note_event(&mut self, event: &mio::event::Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_writable |= event.is_writable() || event.is_error();
        self.is_end_near |= event.is_read_closed() || event.is_error();
        self.is_gone |= event.is_error() || (event.is_read_closed() && event.is_write_closed());
    }

    /// Gives the connection its turn.
    pub fn turn(&mut self, desk: &mut Desk) -> Next {
        if self.client.is_killed() {
            return Next::Close;
        }
        self.output.borrow(&mut desk.spare_output);
        let result = self.receive(desk).and_then(|()| {
            self.run_requests(desk);
            self.send(desk)
        });
        let is_counted = self.settle(desk);
        let Ok(()) = result else { return Next::Close };
        if self.output.unsent_bytes() > desk.gate.output_bytes_max {
            note(&format!("client {} closed: its unread replies exceed client-output-limit", self.name()));
            return Next::Close;
        }
        if !is_counted && !self.is_ending {
            self.end_with_error("ERR unfinished requests of all clients exceed input-limit");
            note(&format!("client {} closed: unfinished requests exceed input-limit", self.name()));
            return Next::Turn;
        }
        self.next(desk)
    }

    /// At a notice of the log or when a rest is over: looks again at what is waited for, then gives a turn.
    pub fn resume(&mut self, desk: &mut Desk, now: Instant) -> Next {
        match &mut self.wait {
            Wait::Nothing => {}
            Wait::Busy { .. } => self.wait = Wait::Nothing,
            Wait::Later(later) => {
                if later.poll(&desk.shared, &mut self.session, &mut self.output.out, now) {
                    self.wait = Wait::Nothing;
                }
            }
        }
        self.turn(desk)
    }

    /// Whether notices of the log matter to it.
    pub fn is_waiting(&self) -> bool {
        self.output.is_holding() || !matches!(self.wait, Wait::Nothing)
    }

    /// When to look again at the latest without a notice.
    pub fn resume_at(&self, now: Instant) -> Option<Instant> {
        match &self.wait {
            Wait::Nothing => None,
            Wait::Busy { until } => Some(*until),
            Wait::Later(later) => {
                Some(later.deadline().unwrap_or(now + LATER_RETRY).clamp(now + LATER_RETRY_MIN, now + LATER_RETRY))
            }
        }
    }

    /// Sends what may go out. True if more would go if the client took it.
    pub fn send_last(&mut self, desk: &Desk) -> bool {
        self.is_writable = true;
        self.send(desk).is_ok() && !self.output.sendable().is_empty()
    }

    /// Gives back all that it holds of common goods.
    pub fn close(mut self, desk: &mut Desk) {
        if self.is_ending && self.is_readable && desk.spare_input.len() > 1 {
            self.stream.end_output();
            for _ in 0..READS_AT_END {
                if !matches!(self.stream.read(&mut desk.spare_input), Ok(bytes) if bytes > 0) {
                    break;
                }
            }
        }
        desk.gate.count_input(self.input_counted, 0);
        desk.gate.leave();
        desk.shared.clients.remove(self.client.id);
    }

    fn name(&self) -> String {
        format!("{} ({})", self.client.id, self.stream.addresses().0)
    }

    fn is_served(&self, desk: &Desk) -> bool {
        matches!(self.wait, Wait::Nothing)
            && !self.is_ending
            && !desk.is_stopping
            && self.output.unsent_bytes() <= UNSENT_BYTES_SERVED
    }

    fn is_to_receive(&self, desk: &Desk) -> bool {
        self.is_readable && !self.is_input_ended && !self.has_requests && self.is_served(desk)
    }

    fn receive(&mut self, desk: &mut Desk) -> Result<(), Ended> {
        if !self.is_to_receive(desk) {
            return Ok(());
        }
        let space = self.input.space(&mut desk.spare_input);
        let room = space.len();
        match self.stream.read(space) {
            Ok(0) => self.is_input_ended = true,
            Ok(bytes) => {
                self.input.filled(bytes);
                self.has_requests = true;
                // A short read has emptied the socket; the next event comes with the next byte. The end is no byte.
                self.is_readable = bytes == room || self.is_end_near;
                desk.shared.counters.net_input_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Ended),
        }
        Ok(())
    }

    fn run_requests(&mut self, desk: &Desk) {
        let (mut requests, mut used) = (0, 0);
        while self.has_requests && requests < TURN_REQUESTS_MAX && used < TURN_BYTES_MAX && self.is_served(desk) {
            match self.parser.next(self.input.pending()) {
                Step::More => self.has_requests = false,
                Step::Nothing(bytes) => {
                    self.input.consume(bytes);
                    used += bytes;
                }
                Step::Error(text) => self.end_with_error(&format!("ERR Protocol error: {text}")),
                Step::Request(bytes) => {
                    let start = self.output.out.len();
                    let outcome = self.run_request(&desk.shared);
                    if self.settle_outcome(outcome, start, desk) {
                        self.parser.finish();
                        self.input.consume(bytes);
                    }
                    requests += 1;
                    used += bytes;
                }
            }
            if self.is_ending {
                self.drop_input();
            }
        }
    }

    fn run_request(&mut self, shared: &Shared) -> Outcome {
        let pending: &[u8] = self.input.pending();
        let mut run = |words: &Words<'_>| executor::run(shared, &mut self.session, words, &mut self.output.out);
        let count = self.parser.words_len();
        if count <= WORDS_ON_STACK {
            let mut words: [&[u8]; WORDS_ON_STACK] = [&[]; WORDS_ON_STACK];
            for (word, range) in words.iter_mut().zip(self.parser.words()) {
                *word = &pending[range];
            }
            run(&words[..count])
        } else {
            let words: Vec<&[u8]> = self.parser.words().map(|range| &pending[range]).collect();
            run(&words)
        }
    }

    /// False if the request must be run again.
    fn settle_outcome(&mut self, outcome: Outcome, start: usize, desk: &Desk) -> bool {
        match outcome {
            Outcome::Done(ticket) => {
                if ticket != Ticket::NOTHING && !desk.shared.db.is_durable(ticket) {
                    self.output.hold(start, ticket);
                }
            }
            Outcome::Busy => {
                self.output.out.truncate(start);
                self.wait = Wait::Busy { until: Instant::now() + BUSY_RETRY };
                return false;
            }
            Outcome::Later(later) => self.wait = Wait::Later(later),
            Outcome::Close => self.is_ending = true,
        }
        true
    }

    fn end_with_error(&mut self, error: &str) {
        let out: &mut Out = &mut self.output.out;
        out.error(error);
        self.is_ending = true;
        self.drop_input();
    }

    fn drop_input(&mut self) {
        self.has_requests = false;
        self.parser.finish();
        self.input.clear();
    }

    fn send(&mut self, desk: &Desk) -> Result<(), Ended> {
        if self.output.is_holding() {
            self.output.release(&desk.shared.db);
        }
        let bytes = self.output.sendable();
        if bytes.is_empty() || !self.is_writable {
            return Ok(());
        }
        match self.stream.write(bytes) {
            Ok(sent) => {
                // A short write has filled the socket; an event tells when there is room again.
                self.is_writable = sent == bytes.len();
                self.output.advance(sent);
                desk.shared.counters.net_output_bytes.fetch_add(sent as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Ended),
        }
        Ok(())
    }

    /// Gives lent buffers back. False if the input left is more than all connections together may hold.
    fn settle(&mut self, desk: &mut Desk) -> bool {
        self.input.settle(&mut desk.spare_input);
        self.output.settle(&mut desk.spare_output);
        let held = self.input.held_bytes();
        let is_counted = desk.gate.count_input(self.input_counted, held);
        if is_counted {
            self.input_counted = held;
        }
        is_counted
    }

    fn next(&self, desk: &Desk) -> Next {
        let is_sent = self.output.unsent_bytes() == 0;
        let is_over = self.is_input_ended && !self.has_requests && matches!(self.wait, Wait::Nothing);
        // Only a reply that comes later would keep it here, and nobody is there to get that.
        let is_left = self.is_gone && matches!(self.wait, Wait::Later(_));
        if is_left || (is_sent && (self.is_ending || is_over)) {
            Next::Close
        } else if self.is_to_receive(desk)
            || (self.has_requests && self.is_served(desk))
            || (self.is_writable && !self.output.sendable().is_empty())
        {
            Next::Turn
        } else {
            Next::Rest
        }
    }
}
