//! What a workload is to the driver: a source of requests that notes how each of them ended.
//! Guarantees: the same seed gives the same requests, whatever the target and the timing.
//! Must not know: targets, clocks.
//! Next: calls.rs and votes.rs are Voter; mixed.rs is the rest; arrival.rs says when requests start.

pub mod area_codes;
pub mod arrival;
pub mod asbench;
pub mod calls;
pub mod distribution;
pub mod filling;
pub mod iometer;
pub mod kv;
pub mod mixed;
pub mod operation;
pub mod queue;
pub mod votes;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done and answered with this result code.
    Code(u8),
    /// It was answered with an error: nothing was changed.
    Aborted,
    /// Its reply never came: it may have been done or not.
    Unknown,
}

/// A source of requests for one thread.
pub trait Workload {
    /// What is asked of the target.
    type Request: Copy;
    /// The next request.
    fn next(&mut self) -> Self::Request;
    /// Takes note of the end of one. `measured`: whether it was started in the measured time.
    fn note(&mut self, request: &Self::Request, outcome: Outcome, measured: bool);
    /// The class of a request, from 0: latencies of classes are also kept apart.
    fn class(&self, _request: &Self::Request) -> usize {
        0
    }
}
