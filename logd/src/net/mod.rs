//! Sockets: listeners, event loops, connections.
//! Guarantees: one slow client delays no other; memory is bounded for the sum of all clients; no reply leaves before the write it
//! tells of is as durable as was asked.
//! Must not know: what the requests mean.
//! Next: server.rs starts it; event_loop.rs, then connection.rs.

mod acceptor;
mod connection;
mod event_loop;
mod gate;
mod input;
mod listener;
mod output;
mod stream;

pub use acceptor::Acceptor;
pub use event_loop::{LoopHandle, Phase};
pub use gate::Gate;
pub use listener::{Listener, Listeners};
