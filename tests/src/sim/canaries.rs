//! Planted faults: each must make some run fail within a thousand seeds.
//! Guarantees: every fault has a process of its own, so that one that panics does not end the others.
//! Must not know: what the faults are; the engine has the list.
//! Next: engine/src/canary.rs.

use logd_engine::canary::Canary;
use std::process::Command;
use std::time::Instant;

/// Seeds within which a planted fault must be caught.
pub const SEEDS_MAX: u64 = 1000;

/// Plants one fault after the other (or the one named) and says when it was caught, and by which rule. True if all were.
pub fn catch_all(only: Option<&str>) -> bool {
    let started = Instant::now();
    let mut missed = Vec::new();
    let chosen = Canary::ALL.iter().filter(|canary| only.is_none_or(|name| name == canary.name()));
    for canary in chosen {
        let begun = Instant::now();
        let caught = catch(canary.name());
        let seconds = begun.elapsed().as_secs_f64();
        match caught {
            Some((seeds, words)) => {
                println!("{:30} caught after {seeds:4} seeds, {seconds:5.1} s: {words}", canary.name())
            }
            None => {
                println!("{:30} NOT CAUGHT in {SEEDS_MAX} seeds, {seconds:.1} s: {}", canary.name(), canary.what());
                missed.push(canary.name());
            }
        }
    }
    println!("{:.0} s; not caught: {}", started.elapsed().as_secs_f64(), missed.len());
    missed.is_empty()
}

/// Seeds it took, and the rule with the beginning of its words.
fn catch(name: &str) -> Option<(u64, String)> {
    let program = std::env::current_exe().ok()?;
    let seeds = SEEDS_MAX.to_string();
    let output = Command::new(program).args(["--seeds", &seeds, "--no-shrink", "--canary", name]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| line.starts_with("FAILED seed "))?;
    let (seed, rest) = line.trim_start_matches("FAILED seed ").split_once(", ")?;
    Some((seed.parse().ok()?, rest.chars().take(110).collect()))
}
