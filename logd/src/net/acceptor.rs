//! Accepts connections and hands them to the event loops in turn.
//! Guarantees: never more connections than the gate allows; does not spin when descriptors run out.
//! Must not know: what happens on a connection.
//! Next: event_loop.rs takes them.

use super::event_loop::LoopHandle;
use super::gate::Gate;
use super::listener::{Listener, Listeners};
use super::stream::Stream;
use crate::notes::note;
use crate::shared::Shared;
use mio::{Events, Poll, Token, Waker};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rest after a failed accept: the cause, mostly a lack of descriptors, does not go away by asking again.
const PAUSE: Duration = Duration::from_millis(100);
const WAKE: Token = Token(usize::MAX);

/// The thread that accepts.
pub struct Acceptor {
    waker: Waker,
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Accepting {
    poll: Poll,
    listeners: Vec<Listener>,
    loops: Vec<LoopHandle>,
    next_loop: usize,
    gate: Arc<Gate>,
    shared: Arc<Shared>,
    is_stopping: Arc<AtomicBool>,
    was_short: bool,
}

impl Acceptor {
    /// Starts accepting.
    pub fn start(
        listeners: Listeners,
        loops: Vec<LoopHandle>,
        gate: Arc<Gate>,
        shared: Arc<Shared>,
    ) -> io::Result<Acceptor> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let mut listeners = listeners.all;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(index))?;
        }
        let is_stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopping);
        let accepting =
            Accepting { poll, listeners, loops, next_loop: 0, gate, shared, is_stopping: flag, was_short: false };
        let thread = std::thread::Builder::new().name("accept".into()).spawn(move || accepting.run())?;
        Ok(Acceptor { waker, is_stopping, thread })
    }

    /// Closes the listening sockets and ends the thread.
    pub fn stop(self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            note(&format!("failed to wake the accepting thread: {error}"));
            return;
        }
        if self.thread.join().is_err() {
            note("the accepting thread has panicked");
        }
    }
}

impl Accepting {
    fn run(mut self) {
        let mut events = Events::with_capacity(16);
        let mut is_paused = false;
        while !self.is_stopping.load(Ordering::Acquire) {
            let limit = is_paused.then_some(PAUSE);
            match self.poll.poll(&mut events, limit) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    note(&format!("failed to wait for connections: {error}"));
                    return;
                }
                _ => {}
            }
            // Readiness is told once only, so all listeners are drained, also those that a pause interrupted.
            is_paused = !self.accept_all();
        }
    }

    /// False if accepting must pause.
    fn accept_all(&mut self) -> bool {
        for index in 0..self.listeners.len() {
            loop {
                if self.is_stopping.load(Ordering::Acquire) {
                    return true;
                }
                match self.listeners[index].accept() {
                    Ok(stream) => self.hand_over(stream),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        if !self.was_short {
                            note(&format!("failed to accept a connection: {error}; going on in {PAUSE:?}"));
                        }
                        self.was_short = true;
                        return false;
                    }
                }
            }
        }
        self.was_short = false;
        true
    }

    fn hand_over(&mut self, mut stream: Stream) {
        self.shared.counters.connections_received.fetch_add(1, Ordering::Relaxed);
        if !self.gate.enter() {
            self.shared.counters.connections_rejected.fetch_add(1, Ordering::Relaxed);
            // A new socket has room for so little; if not, the client still sees it closed.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        }
        self.next_loop = (self.next_loop + 1) % self.loops.len();
        self.loops[self.next_loop].hand_over(stream);
    }
}

/// Whether accepting failed because of the client: it has gone again.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | InvalidInput | NotConnected)
}
