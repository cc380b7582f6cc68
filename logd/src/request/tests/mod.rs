//! Data commands run for real: recorded sessions, and random requests held against a live server.
//! Guarantees: what a session says is checked both in-process and, on demand, against another server.
//! Must not know: sockets of the daemon.
//! Next: session.rs, differential.rs.

mod counts;
mod differential;
mod draws;
mod live;
mod multi;
mod session;
