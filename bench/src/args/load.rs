//! Flags that all workloads but Voter share: how long, how many, how often.
//! Guarantees: what parses is within its bounds, but for combinations, which `check` refuses.
//! Must not know: what is asked for.
//! Next: stores.rs.

use crate::measure::Plan;
use logd_engine::DurabilityLevel;
use std::path::PathBuf;
use std::time::Duration;

/// How a workload is driven.
#[derive(clap::Args, Debug, Clone)]
pub struct LoadArguments {
    /// Directory of stores that are made here; a temporary one under the current directory if not given.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// When a write counts as done: synced, written or accepted. Peers know synced and not synced; a server keeps its own.
    #[arg(long, default_value = "synced")]
    pub durability: DurabilityLevel,
    /// Threads, each with a connection of its own to a server.
    #[arg(short = 'z', long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Operations outstanding at once, over all threads. Default: 64, in the open loop 4000.
    #[arg(short = 'c', long, alias = "async-max-commands", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: Option<u32>,
    /// Operations a second: makes it an open loop, in which they start whatever happens. 0 for the closed loop.
    #[arg(short = 'g', long, alias = "throughput", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub rate: u64,
    /// Seconds that are measured in a run.
    #[arg(short = 't', long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub duration: u64,
    /// Seconds before each run that are not counted.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub warmup: u64,
    /// Runs, of which the median and the spread are told.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Seconds between lines.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub display: u64,
    /// Seed of keys, kinds and values.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also write the report to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also write every second's histogram to this file, in HdrHistogram's interval log format.
    #[arg(long)]
    pub hlog: Option<PathBuf>,
}

impl LoadArguments {
    /// Refuses combinations that would measure something else than they say.
    pub fn check(&self) -> Result<(), String> {
        if self.durability == DurabilityLevel::Volatile {
            return Err("--durability is one of synced, written, accepted".to_owned());
        }
        if self.outstanding() < self.threads {
            return Err(format!("--outstanding is at least one a thread, {}", self.threads));
        }
        Ok(())
    }

    /// Operations outstanding at once.
    pub fn outstanding(&self) -> u32 {
        let default = if self.rate > 0 { 4000 } else { 64 };
        self.outstanding.unwrap_or(default.max(self.threads))
    }

    /// How a run is made.
    pub fn plan(&self) -> Plan {
        Plan {
            clients: self.threads,
            outstanding: self.outstanding(),
            rate: (self.rate > 0).then_some(self.rate),
            warmup: Duration::from_secs(self.warmup),
            duration: Duration::from_secs(self.duration),
            requests: None,
            display: Duration::from_secs(self.display),
        }
    }
}
