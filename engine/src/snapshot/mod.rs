//! Snapshots: the state at one LSN in one file, `snapshot/<20 digits of the LSN>.snap`.
//! Guarantees: a file of that name is whole; what is being written has the ending `.tmp`.
//! Must not know: when one is due, which are kept; checkpoint.rs and the manifest do.
//! Next: writer.rs, then reader.rs.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{BlockStream, Snapshot};
pub use writer::{Content, Part, SnapshotWriter, Step, Written};

use crate::units::Lsn;

/// Where snapshots lie.
pub const DIRECTORY: &str = "snapshot";
/// Ending of a whole snapshot.
pub const SUFFIX: &str = ".snap";
/// Ending of one that is being written.
pub const SUFFIX_UNFINISHED: &str = ".tmp";

/// Path of the snapshot at an LSN.
pub fn file_name(lsn: Lsn) -> String {
    format!("{DIRECTORY}/{:020}{SUFFIX}", lsn.0)
}

/// Path of the same while it is being written.
pub fn file_name_unfinished(lsn: Lsn) -> String {
    format!("{DIRECTORY}/{:020}{SUFFIX_UNFINISHED}", lsn.0)
}

/// The LSN in the name of a whole snapshot (without its directory).
pub fn lsn_of_name(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    let sound = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if sound { digits.parse().ok().map(Lsn) } else { None }
}
