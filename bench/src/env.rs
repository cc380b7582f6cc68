//! What a number depends on besides the code: machine, kernel, file system, commit, command line.
//! Guarantees: what cannot be found out is "unknown", never an error.
//! Must not know: workloads.
//! Next: report/ prints it.

use crate::device::Device;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where and how a run was made.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Processor model.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Frequency governor of the first processor.
    pub governor: String,
    /// Load average over one minute at the start: other work on the machine.
    pub load: String,
    /// Kernel release.
    pub kernel: String,
    /// File system and device under the store, or under the current directory for servers.
    pub file_system: String,
    /// Block device below it: its cache decides what a sync costs.
    pub device: String,
    /// Commit of the source tree.
    pub commit: String,
    /// Whether the build was optimised.
    pub release: bool,
    /// The command line.
    pub command_line: String,
}

impl Environment {
    /// Looks around. `directory`: where the store is.
    pub fn read(directory: &Path) -> Environment {
        let system = rustix::system::uname();
        Environment {
            processor: value_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: value_of("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)).unwrap_or(0) / 1024,
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load: word("/proc/loadavg"),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            file_system: file_system(directory).unwrap_or_else(unknown),
            device: Device::under(directory).map_or_else(unknown, |device| device.about()),
            commit: commit().unwrap_or_else(unknown),
            release: !cfg!(debug_assertions),
            command_line: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }

    /// One line for the head of a log.
    pub fn comment(&self) -> String {
        format!("logbench at commit {}, {}: {}", self.commit, self.kernel, self.command_line)
    }

    /// The lines at the head of a report.
    pub fn text(&self) -> String {
        let build = if self.release { "release build" } else { "DEBUG BUILD, not for comparison" };
        format!(
            "Machine      {} x {}, {} MiB, governor {}, load {}\nKernel       {}\nFile system  {}\nDevice       {}\nCommit       {} ({build})\nCommand      {}\n",
            self.processors,
            self.processor,
            self.memory_mib,
            self.governor,
            self.load,
            self.kernel,
            self.file_system,
            self.device,
            self.commit,
            self.command_line,
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().map_or_else(unknown, str::to_owned)
}

fn value_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The mount with the longest path above the directory. Columns: see proc(5), mountinfo.
fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (_, text) = mounts.lines().filter_map(|line| mount(line, &directory)).max_by_key(|(bytes, _)| *bytes)?;
    Some(text)
}

fn mount(line: &str, directory: &Path) -> Option<(usize, String)> {
    let (front, back) = line.split_once(" - ")?;
    let mut columns = front.split(' ').skip(4);
    let (point, options) = (columns.next()?, columns.next()?);
    let mut kinds = back.split(' ');
    let (kind, device) = (kinds.next()?, kinds.next()?);
    directory.starts_with(point).then(|| (point.len(), format!("{kind} on {device} ({options})")))
}

fn commit() -> Option<String> {
    if let Some(built) = option_env!("LOGD_COMMIT") {
        return Some(built.to_owned());
    }
    let git = |words: &[&str]| -> Option<String> {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let suffix = if changed.is_empty() { "" } else { " with changes" };
    Some(git(&["rev-parse", "--short=12", "HEAD"])? + suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_counts_only_for_what_lies_below_it() {
        let line = "36 35 98:0 / /data rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue";
        let found = mount(line, Path::new("/data/store"));
        assert_eq!(found, Some((5, "ext4 on /dev/sda1 (rw,noatime)".to_owned())));
        assert_eq!(mount(line, Path::new("/database")), None);
    }

    #[test]
    fn the_head_of_a_report_names_machine_and_commit() {
        let text = Environment::read(Path::new(".")).text();
        for word in ["Machine", "Kernel", "File system", "Device", "Commit", "Command"] {
            assert!(text.contains(word), "{word}");
        }
    }
}
