//! What a recovery found and did, for the engine, for statistics and as one line for people.
//! Guarantees: everything that was lost or doubtful is in it.
//! Must not know: how it came about.
//! Next: start.rs fills it.

use crate::manifest::ManifestFile;
use crate::units::{Lsn, Millis, Nanos};
use std::fmt;

/// Cut bytes that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Path of the copy.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elapsed {
    /// Reading the manifest and loading the snapshot.
    pub load: Nanos,
    /// Replaying the log.
    pub replay: Nanos,
    /// Keeping cut bytes and writing the manifest.
    pub finish: Nanos,
}

/// A store that is ready to be written to. `E` is where the log goes on.
#[derive(Debug)]
pub struct Recovered<E> {
    /// The manifest, without a clean mark by now.
    pub manifest: ManifestFile,
    /// What the log's writer needs.
    pub log: E,
    /// Whether the store was made just now.
    pub fresh: bool,
    /// Last command that is part of the state.
    pub last_lsn: Lsn,
    /// LSN of the next command: above everything ever seen.
    pub next_lsn: Lsn,
    /// The snapshot that was loaded; `NONE` for none.
    pub snapshot_lsn: Lsn,
    /// Commands replayed.
    pub replayed: u64,
    /// First and last LSN replayed.
    pub replayed_range: Option<(Lsn, Lsn)>,
    /// Letter of the decision about the end of the log.
    pub case: char,
    /// Bytes cut off.
    pub cut_bytes: u64,
    /// LSNs that had been given away and are lost with them: first and last.
    pub cut_range: Option<(Lsn, Lsn)>,
    /// Where the cut bytes are now.
    pub kept: Vec<Kept>,
    /// Whatever else somebody should know, each to be printed once.
    pub notes: Vec<String>,
    /// Whether the last stop was a clean one and the log agrees.
    pub was_clean: bool,
    /// Engine time may not start before this.
    pub time_floor: Millis,
    /// Size of new segments.
    pub segment_bytes: u64,
    /// Time spent.
    pub elapsed: Elapsed,
}

impl<E> fmt::Display for Recovered<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fresh {
            return f.write_str("made a new store");
        }
        write!(f, "recovered {} commands from ", self.replayed)?;
        match (self.snapshot_lsn, self.replayed_range) {
            (Lsn::NONE, None) => f.write_str("an empty log")?,
            (Lsn::NONE, Some((first, last))) => write!(f, "log {first}..{last}")?,
            (snapshot, None) => write!(f, "snapshot {snapshot} and no log behind it")?,
            (snapshot, Some((first, last))) => write!(f, "snapshot {snapshot} and log {first}..{last}")?,
        }
        if self.was_clean {
            f.write_str(" after a clean stop")?;
        }
        if self.cut_bytes > 0 {
            write!(f, "; cut a torn tail of {} bytes (case {})", self.cut_bytes, self.case)?;
            let names: Vec<&str> = self.kept.iter().map(|kept| kept.name.as_str()).collect();
            match names.is_empty() {
                true => f.write_str(" that could not be kept")?,
                false => write!(f, " kept in {}", names.join(", "))?,
            }
        }
        Ok(())
    }
}
