//! The block device under a directory and what went to it, by the kernel's own counters.
//! Guarantees: counters are of the whole device, so that they are a store's only on a machine that does nothing else.
//! Must not know: stores.
//! Next: store.rs and compare.rs show differences.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

const SECTOR_BYTES: u64 = 512;

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    directory: PathBuf,
}

/// What went to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Flush requests: what makes a volatile cache durable.
    pub flushes: u64,
}

impl DeviceCounters {
    /// What was added since.
    pub fn since(&self, earlier: &DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            writes: self.writes.saturating_sub(earlier.writes),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }
}

impl Device {
    /// The device of a file system. `None` for those that have none, as tmpfs.
    pub fn under(directory: &Path) -> Option<Device> {
        let device = rustix::fs::stat(directory).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        Some(Device { directory })
    }

    /// The counters now. `None` if the kernel has none.
    pub fn counters(&self) -> Option<DeviceCounters> {
        parse(&fs::read_to_string(self.directory.join("stat")).ok()?)
    }

    /// Name, kind of cache and scheduler.
    pub fn about(&self) -> String {
        // A partition has no queue of its own.
        let whole =
            if self.directory.join("partition").exists() { self.directory.join("..") } else { self.directory.clone() };
        let word = |name: &str| {
            let text = fs::read_to_string(whole.join("queue").join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let model = fs::read_to_string(whole.join("device/model")).unwrap_or_default();
        let fua = if word("fua") == "1" { ", FUA" } else { "" };
        let model = if model.trim().is_empty() { String::new() } else { format!(" ({})", model.trim()) };
        format!(
            "{name}{model}, cache {}{fua}, blocks of {} bytes, scheduler {}",
            word("write_cache"),
            word("physical_block_size"),
            word("scheduler")
        )
    }
}

/// Columns: see the kernel's Documentation/block/stat.rst; older kernels end before the flushes.
fn parse(text: &str) -> Option<DeviceCounters> {
    let columns: Vec<u64> = text.split_whitespace().filter_map(|column| column.parse().ok()).collect();
    let (writes, sectors, flushes) = (*columns.get(4)?, *columns.get(6)?, columns.get(15).copied().unwrap_or(0));
    Some(DeviceCounters { writes, bytes: sectors * SECTOR_BYTES, flushes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_kernel() {
        let text = " 1 2 3 4 50 6 70 8 0 9 10 11 12 13 14 99 15\n";
        let expected = DeviceCounters { writes: 50, bytes: 70 * 512, flushes: 99 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(expected.since(&DeviceCounters { writes: 1, bytes: 0, flushes: 9 }).flushes, 90);
    }
}
