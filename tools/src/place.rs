//! Where a store is: a directory, or a daemon behind a socket.
//! Guarantees: what looks like an address is never taken for a directory.
//! Must not know: how either is read.
//! Next: daemon.rs, store.rs.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Name of the file that a running daemon or program holds locked.
const LOCK_FILE: &str = "LOCK";

/// A place as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// Host and port.
    Tcp(String),
    /// Path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Tcp(host) => write!(f, "redis://{host}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Place::Unix(PathBuf::from(path)));
        }
        let Some(host) = text.strip_prefix("redis://") else {
            if text.contains("://") {
                return Err(format!("an address is redis://HOST:PORT or unix:PATH; not {text:?}"));
            }
            return Ok(Place::Directory(PathBuf::from(text)));
        };
        let host = host.trim_end_matches('/');
        match host.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => Ok(Place::Tcp(host.to_owned())),
            None if !host.is_empty() => Ok(Place::Tcp(format!("{host}:6379"))),
            _ => Err(format!("an address is redis://HOST:PORT; not {text:?}")),
        }
    }
}

/// The process that has a store open, if one has. Reads the kernel's table, since trying the lock would take it.
pub fn holder(directory: &Path) -> Option<u32> {
    let lock_inode = fs::metadata(directory.join(LOCK_FILE)).ok()?.ino();
    holder_in(&fs::read_to_string("/proc/locks").ok()?, lock_inode)
}

/// Lines look like `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; a waiting one has `->` behind the number.
fn holder_in(table: &str, inode: u64) -> Option<u32> {
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, "WRITE", process, file, ..] = columns.as_slice() else { return None };
        let of_file = file.rsplit(':').next()?.parse::<u64>().ok()?;
        (of_file == inode).then(|| process.parse().unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_directories_are_told_apart() {
        assert_eq!("data/store".parse(), Ok(Place::Directory(PathBuf::from("data/store"))));
        assert_eq!("redis://h:1".parse(), Ok(Place::Tcp("h:1".to_owned())));
        assert_eq!("redis://h".parse(), Ok(Place::Tcp("h:6379".to_owned())));
        assert_eq!("unix:/run/s".parse(), Ok(Place::Unix(PathBuf::from("/run/s"))));
        for wrong in ["http://h", "redis://", "redis://h:x", "redis://:1"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_found_by_its_inode() {
        let table = "1: POSIX  ADVISORY  READ  77 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 08:01:42 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 99 08:01:42 0 EOF\n";
        assert_eq!(holder_in(table, 42), Some(1234));
        assert_eq!(holder_in(table, 43), None);
    }
}
