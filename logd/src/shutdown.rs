//! Waits for a reason to stop: a signal, or the SHUTDOWN command.
//! Guarantees: the first SIGTERM or SIGINT asks for an orderly stop, the second ends the process at once with 1.
//! Must not know: what stopping takes.
//! Next: server.rs.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Tells when to stop. Made before anything else, so that no signal is missed.
pub struct StopSignal {
    receiver: UnixStream,
    sender: UnixStream,
}

impl StopSignal {
    /// Takes over the two signals.
    pub fn new() -> io::Result<StopSignal> {
        let (receiver, sender) = UnixStream::pair()?;
        let was_signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first signal passes the condition and then sets it for the second.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&was_signalled))?;
            signal_hook::flag::register(signal, Arc::clone(&was_signalled))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(StopSignal { receiver, sender })
    }

    /// What the SHUTDOWN command calls.
    pub fn hook(&self) -> io::Result<Box<dyn Fn() + Send + Sync>> {
        let sender = self.sender.try_clone()?;
        // A full pipe means that many have asked already.
        sender.set_nonblocking(true)?;
        Ok(Box::new(move || drop((&sender).write(b"s"))))
    }

    /// Blocks until the process is asked to stop.
    pub fn wait(&mut self) {
        let mut byte = [0];
        while let Err(error) = self.receiver.read_exact(&mut byte) {
            if error.kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}
