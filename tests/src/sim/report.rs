//! What is said about runs: failures with the line that repeats them, and marks that no run came to.
//! Guarantees: a failure is one line to paste, whether a rule was broken or the engine panicked.
//! Must not know: how runs are made smaller.
//! Next: shrink.rs.

use super::Form;
use std::path::Path;
use std::process::Command;

/// Marks that a simulated run cannot come to, each with its reason.
pub const UNREACHABLE_MARKS: &[(&str, &str)] = &[
    ("log.cap_reached", "no setting of the store has a cap on the log yet"),
    ("log.spare_skipped", "simulated segments have one size, and no command is larger than a quarter of that"),
    (
        "snapshot_beyond_log",
        "a manifest names a snapshot once the log is synced up to it; a log that ends before is refused",
    ),
];

/// Seeds that a default run makes.
pub const SEEDS_DEFAULT: u64 = 2000;

/// The line that repeats a run.
pub fn repeat_line(seed: u64, form: &Form, canary: Option<&str>) -> String {
    let canary = canary.map(|name| format!(" --canary {name}")).unwrap_or_default();
    format!("cargo run -rp logd-tests --bin sim -- --seed {seed}{}{canary}", form.flags())
}

/// First seed of the default range: from the commit, so that every commit looks elsewhere and a commit always at the same place.
/// `LOGD_COMMIT` goes first; without it and without git, 1.
pub fn first_seed() -> u64 {
    let asked = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = std::env::var("LOGD_COMMIT").ok();
    let commit = commit.or_else(|| asked.ok().and_then(|output| String::from_utf8(output.stdout).ok()));
    let digits = commit.unwrap_or_default().trim().chars().take(8).collect::<String>();
    u64::from_str_radix(&digits, 16).map_or(1, |number| 1 + number * 1000)
}

/// Names of all marks in the engine's sources.
pub fn all_marks() -> Vec<String> {
    let mut marks = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src"), &mut marks);
    marks.sort();
    marks.dedup();
    marks
}

fn collect(directory: &Path, marks: &mut Vec<String>) {
    for found in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = found.path();
        if path.is_dir() {
            collect(&path, marks);
        } else if path.file_name().is_some_and(|name| name != "mark.rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let names = product.split("mark!(\"").skip(1).filter_map(|rest| rest.split('"').next());
            marks.extend(names.map(str::to_owned));
        }
    }
}

/// Marks that were not come to, without those that cannot be.
pub fn missed_marks() -> Vec<String> {
    let hit = logd_engine::mark::counts();
    let mut missed = all_marks();
    missed.retain(|name| {
        !hit.iter().any(|(mark, _)| mark == name) && !UNREACHABLE_MARKS.iter().any(|(mark, _)| mark == name)
    });
    missed
}
