//! What a Voter target can do, and the way to all other targets. The same workload runs into each of them.
//! Guarantees: a session counts a vote as done only when the target said so at the level it was asked for.
//! Must not know: when calls start, what becomes of the counts.
//! Next: for Voter embedded.rs is the library, resp.rs, watch.rs and wire.rs are servers; store.rs is for the rest.

mod choose;
mod direct;
mod embedded;
mod library;
mod peers;
mod replies;
mod resp;
mod server;
mod started;
mod store;
mod watch;
mod wire;

pub use choose::open;
pub use embedded::EmbeddedTarget;
pub use resp::ServerTarget;
pub use store::{StoreOptions, StoreTarget};

use crate::driver::{Lost, Session};
use crate::workload::calls::Vote;
use crate::workload::votes::Totals;

pub use logd::voter::NAMES as CONTESTANT_NAMES;

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The socket or directory is not there, or not for us.
    #[error("cannot reach {place}: {source}")]
    Reach {
        /// Which.
        place: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// The connection ended.
    #[error("connection {0}")]
    Lost(#[from] Lost),
    /// The server refused a command.
    #[error("{command} was refused: {reply}")]
    Refused {
        /// Which.
        command: String,
        /// Its words.
        reply: String,
    },
    /// The server answered with something else than was asked for.
    #[error("{command} was answered with {reply}")]
    Unexpected {
        /// What was asked.
        command: String,
        /// What came.
        reply: String,
    },
    /// The library refused.
    #[error("failed to use the embedded store: {0}")]
    Engine(#[from] logd_engine::Error),
    /// Another library failed.
    #[error("the peer failed: {0}")]
    Peer(#[from] direct::PeerError),
    /// This build does not have it.
    #[error("{store} is not in this build: cargo build --release -p logd-bench --features {feature}")]
    NotBuilt {
        /// Which.
        store: &'static str,
        /// What would bring it.
        feature: &'static str,
    },
}

/// A store that can run Voter.
pub trait VoterTarget: Sync {
    /// One line for the report.
    fn describe(&self) -> String;
    /// Makes the contestants and area codes known; does no harm if they are.
    fn prepare(&self, contestants: u32) -> Result<(), TargetError>;
    /// The totals as the target sees them.
    fn totals(&self, contestants: u32) -> Result<Totals, TargetError>;
    /// A session for one thread, to be made in it. `max_votes`: what one phone may cast.
    fn session(&self, max_votes: u64) -> Result<Box<dyn Session<Vote>>, TargetError>;
    /// Snapshots finished so far and whether one is being written, if it can tell.
    fn snapshots(&self) -> Option<(u64, bool)> {
        None
    }
    /// Ends the use of the target in good order.
    fn close(&self) -> Result<(), TargetError>;
}

#[cfg(test)]
mod test_contract;
