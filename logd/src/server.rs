//! The server as a whole: starts listeners and loops, and stops them in order.
//! Guarantees: a stop loses no acknowledged write and sends every reply that is due to a client that reads.
//! Must not know: flags, signals.
//! Next: net/acceptor.rs, net/event_loop.rs; shutdown.rs decides when to stop.

use crate::net::{Acceptor, Gate, Listeners, LoopHandle, Phase};
use crate::notes::note;
use crate::shared::Shared;
use logd_engine::Error;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Descriptors that clients may not take: the log, snapshots, listeners, the standard three.
const DESCRIPTORS_RESERVED: usize = 32;
/// Descriptors that a thread takes for its own.
const DESCRIPTORS_PER_THREAD: usize = 3;

/// A server that runs.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    loops: Vec<(LoopHandle, JoinHandle<()>)>,
    quiet: Receiver<()>,
    names: Vec<String>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Binds and starts serving.
    pub fn start(shared: Arc<Shared>) -> io::Result<Server> {
        let settings = &shared.settings;
        let listeners = Listeners::bind(&settings.listen, settings.unix.as_deref())?;
        let (names, addresses) = (listeners.names.clone(), listeners.addresses.clone());
        let gate = Arc::new(Gate::new(settings.clients_max, settings.output_bytes_max, settings.input_bytes_max));
        let (sender, quiet) = channel();
        let loops = (0..settings.threads.max(1))
            .map(|index| {
                LoopHandle::start(format!("loop {index}"), Arc::clone(&shared), Arc::clone(&gate), sender.clone())
            })
            .collect::<io::Result<Vec<_>>>()?;
        let handles = loops.iter().map(|(handle, _)| handle.clone()).collect();
        let acceptor = Acceptor::start(listeners, handles, gate, Arc::clone(&shared))?;
        Ok(Server { shared, acceptor, loops, quiet, names, addresses })
    }

    /// Where it listens, in words.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its network addresses, with the port the system chose where 0 was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops: no more clients, no more requests, then the store is closed, which makes the last writes durable, then their
    /// replies go out. Errors: the failure that kept writes from becoming durable.
    pub fn stop(self) -> Result<(), Error> {
        self.acceptor.stop();
        for (handle, _) in &self.loops {
            handle.enter(Phase::Quiet);
        }
        for _ in &self.loops {
            if self.quiet.recv().is_err() {
                break;
            }
        }
        let closed = self.shared.db.close();
        for (handle, _) in &self.loops {
            handle.enter(Phase::End);
        }
        for (_, thread) in self.loops {
            if thread.join().is_err() {
                note("an event loop has panicked");
            }
        }
        closed
    }
}

/// Most clients the process can have descriptors for, at most `wanted`; raises its own limit where that is allowed.
pub fn clients_max(wanted: usize, threads: usize) -> usize {
    let reserved = DESCRIPTORS_RESERVED + DESCRIPTORS_PER_THREAD * (threads + 1);
    let needed = (wanted + reserved) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        limit.current = Some(raised);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            note(&format!("failed to raise the limit of open files to {raised}: {error}"));
        }
    }
    let open_max =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |current| current.try_into().unwrap_or(usize::MAX));
    let bounded = wanted.min(open_max.saturating_sub(reserved)).max(1);
    if bounded < wanted {
        note(&format!("maxclients is {bounded} instead of {wanted}: {open_max} files may be open"));
    }
    bounded
}
