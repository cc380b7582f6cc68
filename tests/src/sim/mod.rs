//! The whole engine under simulation: one seed is one run, with clients, crashes and faults, against a plain model.
//! Guarantees: no thread, clock or randomness but the seed's; a run repeats byte for byte; what breaks a promise is named by a rule.
//! Must not know: how the programs use the engine.
//! Next: form.rs says what a run may do, run.rs does it, model.rs knows what is right, promises.rs what a crash may take.

pub mod canaries;
pub mod clients;
pub mod damage;
pub mod forks;
pub mod form;
pub mod lives;
pub mod model;
pub mod policies;
pub mod procedures;
pub mod promises;
pub mod reads;
pub mod report;
pub mod run;
pub mod settle;
pub mod shrink;
pub mod trace;
pub mod writes;

pub use form::Form;
pub use run::{Outcome, run_seed};

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule, by its name.
    pub rule: &'static str,
    /// What was seen.
    pub words: String,
}

/// Stops a run because a rule was broken.
pub fn broken<T>(rule: &'static str, words: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { rule, words: words.into() })
}

/// What checks answer.
pub type Checked<T = ()> = Result<T, Broken>;
