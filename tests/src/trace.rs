//! Commands that start the daemon under other conditions: system calls that fail, are slow or are written down; few descriptors.
//! Guarantees: it is always the daemon that becomes our child, so signals reach it. What the machine cannot do is told, and printed.
//! Must not know: what the calls are for.
//! Next: tests/tests/failing_disk.rs.

use std::path::Path;
use std::process::{Command, Stdio};

/// Words to put before the daemon so that calls are changed, each as `calls:what`, for example `fdatasync:error=EIO:when=5+`.
/// `None`, with a line about it, where processes cannot be traced.
pub fn injecting(injections: &[&str]) -> Option<Vec<String>> {
    let calls: Vec<&str> = injections.iter().filter_map(|injection| injection.split(':').next()).collect();
    let mut words = tracing(&calls.join(","), Path::new("/dev/null"))?;
    words.extend(injections.iter().map(|injection| format!("--inject={injection}")));
    Some(words)
}

/// Words to put before the daemon so that calls are written down in a file, with the paths of their descriptors.
pub fn tracing(calls: &str, file: &Path) -> Option<Vec<String>> {
    let fixed = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "0", "--signal=none", "-o"];
    let mut words: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
    words.push(file.to_string_lossy().into_owned());
    words.push(format!("--trace={calls}"));
    is_possible(&words).then_some(words)
}

/// Words to put before the daemon so that it may have so many files open.
pub fn with_descriptors(count: u32) -> Vec<String> {
    with_limit(&format!("-n {count}"))
}

/// Words to put before the daemon so that it may have so much memory mapped.
pub fn with_mebibytes(count: u32) -> Vec<String> {
    with_limit(&format!("-v {}", u64::from(count) << 10))
}

fn with_limit(limit: &str) -> Vec<String> {
    ["sh", "-c", &format!("ulimit {limit}; exec \"$@\""), "sh"].iter().map(|word| (*word).to_owned()).collect()
}

/// As words that are lent.
pub fn lend(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Whether a command can be run through these words; prints a line if not.
pub fn is_possible(words: &[String]) -> bool {
    let tried = Command::new(&words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    let is_possible = tried.is_ok_and(|status| status.success());
    if !is_possible {
        eprintln!("skipped, since `{}` cannot be used here", words.join(" "));
    }
    is_possible
}
