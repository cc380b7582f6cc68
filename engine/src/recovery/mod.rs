//! Opening a store: manifest, snapshot, log, the decision about the tail, and the mark that it is in use.
//! Guarantees: a store that was only cut off from its power always opens; damage to what was durable never passes in silence;
//! nothing of what is cut is thrown away; a crash during recovery changes nothing about the next one.
//! Must not know: how commands are executed, how the log is laid out, threads.
//! Next: seam.rs has what recovery asks of others; start.rs is the order of things.

mod defined;
mod extract;
mod files;
mod load;
mod plan;
mod prefix;
mod quarantine;
mod report;
mod salvage;
mod seam;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use defined::{Defined, check_frame};
pub use extract::extract;
pub use files::LogFiles;
pub use plan::{Plan, plan};
pub use prefix::load_prefix;
pub use report::{Elapsed, Kept, Recovered};
pub use salvage::{finish, salvage};
pub use seam::{Job, LogCut, LogProof, LogReader, LogTail, Parallel, Sequential, Target, Visit};
pub(crate) use start::check_reference;
pub use start::{Recovery, log_proof, recover};
