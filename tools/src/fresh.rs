//! Makes a new store: beside its final place, and under its name only when it is whole.
//! Guarantees: what is left of a failed run is no store; nothing that is there is written over; while it is being filled
//! nothing in it comes to its end, since its clock stands in 1970.
//! Must not know: what it is filled with.
//! Next: command/import.rs, command/replay.rs, backup/restore.rs.

use crate::command::ToolError;
use logd_engine::clock::{Clock, OsClock};
use logd_engine::db::Builder;
use logd_engine::disk::{IoMode, OsStorage, Storage};
use logd_engine::manifest::{self, Manifest, ManifestRead};
use logd_engine::units::{Millis, Nanos};
use logd_engine::{Db, Error, Options};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SUFFIX: &str = ".unfinished";

/// A directory that is being filled.
#[derive(Debug)]
pub struct Fresh {
    target: PathBuf,
    staging: PathBuf,
    finished: bool,
}

impl Fresh {
    /// Makes the directory beside its final place. Errors: something is there already.
    pub fn begin(target: &Path) -> Result<Fresh, ToolError> {
        check_empty(target)?;
        let Some(name) = target.file_name() else {
            return Err(ToolError::Usage(format!("{} has no name of its own", target.display())));
        };
        let mut name = name.to_owned();
        name.push(SUFFIX);
        let staging = target.with_file_name(name);
        if let Err(error) = fs::create_dir_all(staging.parent().unwrap_or(Path::new("."))) {
            return Err(failed("make", &staging, &error));
        }
        match fs::create_dir(&staging) {
            Ok(()) => Ok(Fresh { target: target.to_owned(), staging, finished: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ToolError::Usage(format!(
                "{} is there: another run fills it, or a killed one left it; remove it then",
                staging.display()
            ))),
            Err(error) => Err(failed("make", &staging, &error)),
        }
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.staging
    }

    /// The directory in which it will stand.
    pub fn parent(&self) -> &Path {
        self.target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Gives it its name.
    pub fn finish(mut self) -> Result<(), ToolError> {
        let rename = || -> io::Result<()> {
            sync_directory(&self.staging)?;
            fs::rename(&self.staging, &self.target)?;
            sync_directory(self.parent())
        };
        rename().map_err(|error| failed("name", &self.target, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.finished {
            // Made by this run, and of no use to anyone.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A failure with files of our own.
pub fn failed(what: &str, path: &Path, error: &io::Error) -> ToolError {
    ToolError::Io(format!("failed to {what} {}: {error}", path.display()))
}

/// Refuses a place where something is.
pub fn check_empty(into: &Path) -> Result<(), ToolError> {
    match fs::read_dir(into).map(|mut listed| listed.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ToolError::Usage(format!("{} is not empty", into.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ToolError::Usage(format!("{} cannot be looked into: {error}", into.display()))),
    }
}

/// A clock that starts in 1970. What is written with it has its absolute expiry ahead, however long ago that moment
/// was: a later command of the same history may still take the expiry away.
pub struct PastClock {
    start: Nanos,
    shows_wall: AtomicBool,
}

impl PastClock {
    /// Starts it.
    pub fn start() -> Arc<PastClock> {
        Arc::new(PastClock { start: OsClock.monotonic(), shows_wall: AtomicBool::new(false) })
    }

    /// Lets the wall clock through from now on; engine time stays in 1970.
    pub fn show_wall(&self) {
        self.shows_wall.store(true, Ordering::Relaxed);
    }
}

impl Clock for PastClock {
    fn monotonic(&self) -> Nanos {
        OsClock.monotonic()
    }

    fn wall(&self) -> Millis {
        if self.shows_wall.load(Ordering::Relaxed) {
            return OsClock.wall();
        }
        Millis(1 + self.monotonic().since(self.start).0 / 1_000_000)
    }
}

/// Makes a store whose clock stands in 1970.
pub fn make(path: &Path, clock: Arc<PastClock>, build: impl FnOnce(Builder) -> Builder) -> Result<Db, Error> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage::new(path, IoMode::Auto)?);
    let options = Options { snapshots_kept: 1, ..Options::default() };
    build(Db::builder(path).options(options).storage(storage, clock)).open()
}

/// Sets the moment at which a closed store says it was made to now: its clock stood in 1970 then.
pub fn set_created(path: &Path) -> Result<(), Error> {
    let storage = OsStorage::new(path, IoMode::Auto)?;
    let mut disk = storage.disk()?;
    if let ManifestRead::Present(mut file, _) = manifest::read(&mut *disk)? {
        let manifest = Manifest { created_millis: OsClock.wall(), ..file.manifest().clone() };
        file.replace(&mut *disk, manifest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_store_goes_only_where_nothing_is() {
        let directory = tempfile::tempdir().unwrap();
        assert!(check_empty(directory.path()).is_ok());
        assert!(check_empty(&directory.path().join("new")).is_ok());
        fs::write(directory.path().join("file"), b"x").unwrap();
        assert_eq!(check_empty(directory.path()).unwrap_err().exit_code(), 64);
    }

    #[test]
    fn a_run_that_fails_leaves_nothing_and_one_that_ends_gives_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("store");
        drop(Fresh::begin(&target).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let fresh = Fresh::begin(&target).unwrap();
        assert_eq!(Fresh::begin(&target).unwrap_err().exit_code(), 64, "two runs at a time");
        fs::write(fresh.path().join("file"), b"x").unwrap();
        fresh.finish().unwrap();
        assert!(target.join("file").exists());
    }
}
