//! The four classes of failure, by what the caller can do about them.
//! Guarantees: fields, not sentences; the text is a lower-case fragment that completes "failed to …".
//! Must not know: who caused what; it only carries it.
//! Next: log/mod.rs latches `Failed`.

use crate::units::FileOffset;

/// What went wrong, by what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be done as asked; nothing was changed. Ask differently.
    #[error("{0}")]
    Refused(Refused),
    /// A limit is reached; nothing was changed. Reads and deletes go on; free something and ask again.
    #[error("{0}")]
    Full(Full),
    /// The disk failed a write or sync. The engine has latched: reads go on, every write gets this error until restart.
    #[error("{0}")]
    Failed(Failed),
    /// Bytes on disk are not what was written there.
    #[error("{0}")]
    Corrupt(Box<Corrupt>),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A key is longer than the limit.
    #[error("key of {bytes} bytes is longer than {bytes_max}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A command's frame is larger than the log takes.
    #[error("command of {bytes} bytes is larger than {bytes_max}; use larger segments or smaller values")]
    CommandTooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// No keyspace or procedure of this name.
    #[error("no {kind} named {name:?}")]
    Unknown {
        /// "keyspace" or "procedure".
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// A setting or argument is out of its bounds.
    #[error("{name} is {value}: {rule}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// The directory is in use by another process.
    #[error("{path} is in use by another process; stop it first")]
    InUse {
        /// The lock file.
        path: String,
    },
    /// A format version newer than this program reads.
    #[error("{file} has format version {found}; this program reads up to {known}: use the newer program")]
    Version {
        /// The file.
        file: String,
        /// The version in it.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// The transaction's own code gave up; nothing was changed.
    #[error("{0}")]
    Aborted(String),
    /// The log cannot take the command right now, but will soon: wait for `Db::writable` and ask again.
    #[error("the log is busy; wait and ask again")]
    Busy,
    /// The time limit of a wait passed; the write itself goes on.
    #[error("the time limit passed before the write was durable; it may still become so")]
    TimedOut,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The store was damaged and is open for reading only, as `on_corruption` says.
    #[error("the store is read-only, since it is damaged: {reason}")]
    ReadOnly {
        /// The damage.
        reason: String,
    },
    /// The log holds calls of a procedure that this program cannot run.
    #[error(
        "the log holds a call of procedure {name:?} version {version:08x} at LSN {lsn}, which is not registered: open with that version registered too, checkpoint, then upgrade"
    )]
    ProcedureMissing {
        /// Its name, or its number where the name is not known.
        name: String,
        /// The version that was logged.
        version: u32,
        /// The command's LSN.
        lsn: u64,
    },
    /// A procedure replayed from the log did something else than when it ran first.
    #[error(
        "procedure {name:?} replayed at LSN {lsn} had other effects than when it ran: its code is not deterministic or was changed without a new version"
    )]
    Diverged {
        /// Its name.
        name: String,
        /// The command's LSN.
        lsn: u64,
    },
}

/// Which limit is reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// No room for another log segment.
    #[error("no disk space is left for the log; free some and writes go on by themselves")]
    Disk,
    /// The log has reached its cap and no checkpoint could shorten it yet.
    #[error("the log has reached its limit of {bytes_max} bytes and the checkpoint that shortens it has not succeeded")]
    Log {
        /// The cap.
        bytes_max: u64,
    },
    /// A table of fixed size is full.
    #[error("no more than {count_max} {kind}")]
    Count {
        /// What is counted.
        kind: &'static str,
        /// The limit.
        count_max: usize,
    },
}

/// A disk operation that failed. Final where it was a write or a sync.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {file}: {reason}")]
pub struct Failed {
    /// "write", "sync", "open", …
    pub operation: &'static str,
    /// File inside the store's directory.
    pub file: String,
    /// The system's words.
    pub reason: String,
}

/// Damage: where it is, what should stand there, what to run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} in {file} at byte {offset} (case {case}): expected {expected}, found {found}; `logctl verify DIR` shows its extent, `logctl repair DIR NEWDIR` saves what is whole, and --on-corruption says what a start does about it"
)]
pub struct Corrupt {
    /// The structure that is damaged.
    pub what: &'static str,
    /// File inside the store's directory.
    pub file: String,
    /// Byte place in it.
    pub offset: FileOffset,
    /// Row of the table in docs/FORMAT.md that decided it.
    pub case: char,
    /// What should stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}

impl From<Full> for Error {
    fn from(full: Full) -> Error {
        Error::Full(full)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        Error::Failed(failed)
    }
}

impl From<Corrupt> for Error {
    fn from(corrupt: Corrupt) -> Error {
        Error::Corrupt(Box::new(corrupt))
    }
}
