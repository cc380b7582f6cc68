//! What a target of the workloads over keys and values can do.
//! Guarantees: a session ends a write only when the store says that it is done at the level of the run.
//! Must not know: workloads, when operations start.
//! Next: library.rs is ours, server.rs are servers, direct.rs and peers/ the other libraries; choose.rs opens by name.

use super::TargetError;
use crate::driver::Session;
use crate::workload::operation::Operation;
use logd_engine::DurabilityLevel;

/// A store under measurement.
pub trait StoreTarget: Sync {
    /// One line for the report: store, version, settings that matter.
    fn describe(&self) -> String;
    /// Puts records there, fast and in large steps, and waits until they are durable.
    fn load(&self, puts: &mut dyn Iterator<Item = Operation>) -> Result<(), TargetError>;
    /// A session for one thread, to be made in it.
    fn session(&self) -> Result<Box<dyn Session<Operation>>, TargetError>;
    /// Snapshots finished so far and whether one is being written, if it can tell.
    fn snapshots(&self) -> Option<(u64, bool)> {
        None
    }
    /// The process whose system calls are the store's.
    fn process(&self) -> Option<u32> {
        Some(std::process::id())
    }
    /// Ends the use in good order.
    fn close(&mut self) -> Result<(), TargetError>;
}

/// How a store is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// When a write counts as done.
    pub level: DurabilityLevel,
    /// Whether records are read in the order of their keys most of the time, by one reader.
    pub in_order: bool,
}
