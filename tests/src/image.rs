//! A file system in a file, mounted for one test, whose power can be cut.
//! Guarantees: unmounted when dropped. Where it cannot be made (no root, no loop device, no mkfs) the test is told so and prints it.
//! Must not know: what is stored there.
//! Next: round.rs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Kinds of file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4
    Ext4,
    /// XFS, which wants at least 300 MiB.
    Xfs,
}

/// What a cut does with the journal that is still in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// It is gone.
    Lost,
    /// It reaches the disk.
    Written,
}

/// A mounted image.
pub struct Image {
    directory: TempDir,
}

impl Image {
    /// Makes and mounts one; `None`, with a line about it, where that is not possible.
    pub fn make(kind: FileSystem, mebibytes: u64) -> Option<Image> {
        match Image::try_make(kind, mebibytes) {
            Ok(image) => Some(image),
            Err(why) => {
                eprintln!("skipped, since no {kind:?} image can be used here: {why}");
                None
            }
        }
    }

    fn try_make(kind: FileSystem, mebibytes: u64) -> Result<Image, String> {
        let image = Image { directory: tempfile::tempdir().map_err(|error| error.to_string())? };
        let made = std::fs::File::create(image.file()).and_then(|file| file.set_len(mebibytes << 20));
        made.and_then(|()| std::fs::create_dir(image.path())).map_err(|error| error.to_string())?;
        let file = image.file().to_string_lossy().into_owned();
        match kind {
            FileSystem::Ext4 => command(&["mkfs.ext4", "-q", "-F", "-m", "0", &file])?,
            FileSystem::Xfs => command(&["mkfs.xfs", "-q", "-f", &file])?,
        }
        image.mount()?;
        Ok(image)
    }

    /// The root of the mounted file system.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn mount(&self) -> Result<(), String> {
        command(&["mount", "-o", "loop", &self.file().to_string_lossy(), &self.path().to_string_lossy()])
    }

    /// Cuts the power: what is not on the disk yet is lost, and everything fails until `mount_again`.
    pub fn cut_power(&self, journal: Journal) {
        let words = if journal == Journal::Lost { "shutdown" } else { "shutdown -f" };
        command(&["xfs_io", "-x", "-c", words, &self.path().to_string_lossy()]).expect("it was there a moment ago");
    }

    /// Whether this machine can cut the power of an image; prints a line if not.
    pub fn can_cut_power() -> bool {
        let can = command(&["xfs_io", "-V"]);
        if let Err(why) = &can {
            eprintln!("skipped, since no power can be cut here: {why}");
        }
        can.is_ok()
    }

    /// Mounts it anew, as a start of the machine does. Nobody may use it any more.
    pub fn mount_again(&self) {
        self.unmount().expect("nobody uses it");
        self.mount().expect("it was mounted before");
    }

    /// Makes an ext4 turn read-only under whoever uses it, as it does after an error of its disk.
    pub fn turn_read_only(&self) {
        command(&["mount", "-o", "remount,abort", &self.path().to_string_lossy()]).expect("ext4 takes this option");
    }

    /// Mounts it anew, read-only. Nobody may use it any more.
    pub fn mount_read_only(&self) {
        // Writable first, so that the journal is replayed.
        self.mount_again();
        command(&["mount", "-o", "remount,ro", &self.path().to_string_lossy()]).expect("nobody uses it");
    }

    /// Fills it with a foreign file until nothing fits any more, and gives its name.
    pub fn fill(&self) -> PathBuf {
        let foreign = self.path().join("foreign");
        for unit in ["64K", "4K"] {
            let (from, to) = ("if=/dev/zero".to_owned(), format!("of={}", foreign.display()));
            // It ends with an error, since the file system gets full: that is what is wanted.
            let _ =
                command(&["dd", &from, &to, &format!("bs={unit}"), "oflag=append,sync", "conv=notrunc", "status=none"]);
        }
        foreign
    }

    fn unmount(&self) -> Result<(), String> {
        let mut last = Ok(());
        // The kernel ends the requests of a killed process a moment after it.
        for _ in 0..500 {
            last = command(&["umount", &self.path().to_string_lossy()]);
            if last.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        last
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if is_mounted(&self.path()) && self.unmount().is_err() {
            let _ = command(&["umount", "-l", &self.path().to_string_lossy()]);
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

fn command(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).output().map_err(|error| format!("{}: {error}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {said}", words[0])) }
}
