//! Where a store under measurement lies.
//! Guarantees: a temporary place is in the current directory, so that it is on the file system the caller chose, and goes
//! away at the end.
//! Must not know: stores.
//! Next: env.rs says what kind of place it is.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory.
pub enum Place {
    /// The caller's.
    Given(PathBuf),
    /// Ours.
    Temporary(TempDir),
}

impl Place {
    /// A place for a store here: the given directory, which is made, or a temporary one. For servers elsewhere, the current
    /// directory.
    pub fn choose(is_local: bool, given: Option<&Path>) -> io::Result<Place> {
        match given {
            Some(directory) if is_local => {
                std::fs::create_dir_all(directory)?;
                Ok(Place::Given(directory.to_owned()))
            }
            None if is_local => Place::temporary(Path::new(".")),
            _ => Ok(Place::Given(PathBuf::from("."))),
        }
    }

    /// A temporary directory in another.
    pub fn temporary(parent: &Path) -> io::Result<Place> {
        std::fs::create_dir_all(parent)?;
        let directory = tempfile::Builder::new().prefix("logbench-").tempdir_in(parent)?;
        Ok(Place::Temporary(directory))
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        match self {
            Place::Given(path) => path.clone(),
            Place::Temporary(directory) => directory.path().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_place_goes_away_and_a_given_one_stays() {
        let root = tempfile::tempdir().unwrap();
        let temporary = Place::temporary(root.path()).unwrap();
        let path = temporary.path();
        assert!(path.is_dir());
        drop(temporary);
        assert!(!path.exists());
        let given = Place::choose(true, Some(&root.path().join("a"))).unwrap();
        assert!(given.path().is_dir());
        drop(given);
        assert!(root.path().join("a").is_dir());
    }
}
