//! The flags of logbench.
//! Guarantees: what parses is within its bounds, but for combinations, which `VoterArguments::check` refuses.
//! Must not know: what the flags do.
//! Next: args/stores.rs has the other workloads; voter.rs, store.rs and compare.rs run them.

mod compare;
mod load;
mod stores;

pub use compare::{
    CompareArguments, ComparedWorkload, Form, PeerKind, ScenarioArguments, ServerKind, StoreKind, StoreSpec,
};
pub use load::LoadArguments;
pub use stores::{AsbenchArguments, IometerArguments, KvArguments, Phase, QueueArguments};

use crate::measure::Plan;
use logd_engine::DurabilityLevel;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Measures stores under published workloads.
#[derive(clap::Parser, Debug)]
#[command(name = "logbench", version, args_override_self = true)]
pub struct Arguments {
    /// Measure although this is a debug build.
    #[arg(long, global = true)]
    pub allow_debug: bool,
    /// The workload.
    #[command(subcommand)]
    pub command: Command,
}

/// The workloads.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// VoltDB's Voter: one small transaction per call, checked against the votes that were accepted.
    Voter(VoterArguments),
    /// YCSB's core workloads A to F over keys and values.
    Kv(KvArguments),
    /// Aerospike's asbench: objects that are read and updated in given shares.
    Asbench(AsbenchArguments),
    /// IOmeter: blocks that are read and written at random or in order.
    Iometer(IometerArguments),
    /// Store and forward: messages are appended, read and acknowledged, with the uplink up and down.
    Queue(QueueArguments),
    /// One workload on several stores, in turns, with ratios.
    Compare(CompareArguments),
    /// A scenario file: the command line it holds, and what is added here.
    Scenario(ScenarioArguments),
}

const VOTER_EXAMPLES: &str = "Examples:
  logbench voter                                              the library, a new store under the current directory
  logbench voter --durability written --threads 2
  logbench voter --target redis://127.0.0.1:6379 --connections 4 --outstanding 256
  logbench voter --target unix:/run/logd.sock --mode open --rate 20000 --json run.json
  logbench voter --target redis://127.0.0.1:6380 --procedure lua       redis-server or valkey-server
  logbench voter --target redis://127.0.0.1:6380 --procedure watch --connections 32

Exit codes: 0 measured and the totals agree, 1 the totals differ, 2 not measured.";

/// Flags of the Voter workload.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = VOTER_EXAMPLES)]
pub struct VoterArguments {
    /// What is measured: embedded, redis://HOST:PORT or unix:PATH.
    #[arg(long, default_value = "embedded")]
    pub target: TargetAddress,
    /// Directory of the embedded store; a temporary one under the current directory if not given.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Level of the embedded store: synced, written or accepted.
    #[arg(long, default_value = "synced")]
    pub durability: DurabilityLevel,
    /// Threads that call the embedded store.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Connections to a server, each with a thread of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub connections: u32,
    /// Calls outstanding at once, over all threads or connections. Default: 128, in the open loop 4000.
    #[arg(long)]
    pub outstanding: Option<u32>,
    /// How a server is asked: fcall (logd), lua (EVAL), or watch (WATCH, MULTI and EXEC over plain commands).
    #[arg(long, value_enum, default_value = "fcall")]
    pub procedure: ProcedureForm,
    /// closed: the next call starts when one has ended; open: calls start at --rate whatever happens.
    #[arg(long, value_enum, default_value = "closed")]
    pub mode: Mode,
    /// Calls a second in the open loop.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub duration: u64,
    /// Seconds before, in which votes are cast but not counted.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub warmup: u64,
    /// Seconds between lines.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub display: u64,
    /// Number of contestants.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=12))]
    pub contestants: u32,
    /// Votes that one phone number may cast.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub max_votes: u64,
    /// Seed of the calls.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Go on with a store that has votes: the totals found at the start are added to those expected at the end.
    #[arg(long)]
    pub keep: bool,
    /// A variant of VoltDB's: sets loop, threads and times as the original of that name has them.
    #[arg(long, value_enum, conflicts_with_all = ["threads", "connections", "outstanding", "mode"])]
    pub variant: Option<VoterVariant>,
    /// Also write the report to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also write every second's histogram to this file, in HdrHistogram's interval log format.
    #[arg(long)]
    pub hlog: Option<PathBuf>,
}

impl VoterArguments {
    /// The flags with those of the variant set.
    pub fn resolved(mut self) -> VoterArguments {
        let (clients, outstanding) = match self.variant {
            None => return self,
            Some(VoterVariant::Async) => (2, 1500),
            Some(VoterVariant::Sync) => (40, 40),
            Some(VoterVariant::Simple) => (1, 1),
        };
        (self.threads, self.connections, self.outstanding) = (clients, clients, Some(outstanding));
        self
    }

    /// How the run is made.
    pub fn plan(&self) -> Plan {
        Plan {
            clients: self.clients(),
            outstanding: self.outstanding(),
            rate: self.rate,
            warmup: Duration::from_secs(self.warmup),
            duration: Duration::from_secs(self.duration),
            requests: None,
            display: Duration::from_secs(self.display),
        }
    }

    /// Refuses combinations that would measure something else than they say.
    pub fn check(&self) -> Result<(), String> {
        let open = self.mode == Mode::Open;
        if open && self.rate.is_none() {
            return Err("--mode open needs --rate".to_owned());
        }
        if !open && self.rate.is_some() {
            return Err("--rate is for --mode open".to_owned());
        }
        if self.durability == DurabilityLevel::Volatile {
            return Err("--durability is one of synced, written, accepted".to_owned());
        }
        if self.target == TargetAddress::Embedded && self.procedure != ProcedureForm::Fcall {
            return Err("--procedure is for servers; the embedded store runs the registered procedure".to_owned());
        }
        if self.target != TargetAddress::Embedded && self.dir.is_some() {
            return Err("--dir is for the embedded store".to_owned());
        }
        let outstanding = self.outstanding();
        if outstanding < self.clients() || outstanding > 1_000_000 {
            return Err(format!("--outstanding is from {} (one a thread or connection) to 1000000", self.clients()));
        }
        Ok(())
    }

    /// Threads that send calls.
    pub fn clients(&self) -> u32 {
        if self.target == TargetAddress::Embedded { self.threads } else { self.connections }
    }

    /// Calls outstanding at once. A watching connection can have one only.
    pub fn outstanding(&self) -> u32 {
        let default = if self.mode == Mode::Open { 4000 } else { 128 };
        match self.procedure {
            ProcedureForm::Watch => self.connections,
            _ => self.outstanding.unwrap_or(default.max(self.clients())),
        }
    }
}

/// Where the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    /// In this process.
    Embedded,
    /// Behind a TCP socket; host and port.
    Tcp(String),
    /// Behind a Unix socket.
    Unix(PathBuf),
}

impl FromStr for TargetAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetAddress, String> {
        if text == "embedded" {
            return Ok(TargetAddress::Embedded);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(TargetAddress::Unix(PathBuf::from(path)));
        }
        let host = text.strip_prefix("redis://").map(|rest| rest.trim_end_matches('/'));
        match host {
            Some(host) if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
                Ok(TargetAddress::Tcp(host.to_owned()))
            }
            Some(host) if !host.is_empty() && !host.ends_with(':') => Ok(TargetAddress::Tcp(format!("{host}:6379"))),
            _ => Err(format!("a target is embedded, redis://HOST:PORT or unix:PATH; not {text:?}")),
        }
    }
}

/// How the vote is cast on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProcedureForm {
    /// A registered procedure of logd.
    Fcall,
    /// A script.
    Lua,
    /// Optimistic transactions over plain commands.
    Watch,
}

/// Variants of VoltDB's Voter clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum VoterVariant {
    /// AsyncBenchmark: a few threads, up to 1500 calls outstanding.
    Async,
    /// SyncBenchmark: 40 threads, each waiting for its call.
    Sync,
    /// SimpleBenchmark: one thread that waits for its call.
    Simple,
}

/// Which loop drives the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A fixed number of calls outstanding.
    Closed,
    /// A fixed rate of calls.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn voter(flags: &[&str]) -> VoterArguments {
        let words = ["logbench", "voter"].iter().chain(flags);
        let Command::Voter(voter) = Arguments::try_parse_from(words).unwrap().command else { panic!("voter") };
        voter
    }

    #[test]
    fn a_flag_given_again_replaces_the_one_before() {
        assert_eq!(voter(&["--duration", "5", "--duration", "7"]).duration, 7);
    }

    #[test]
    fn targets_parse_and_nonsense_does_not() {
        assert_eq!("redis://box:7000".parse(), Ok(TargetAddress::Tcp("box:7000".to_owned())));
        assert_eq!("redis://box".parse(), Ok(TargetAddress::Tcp("box:6379".to_owned())));
        assert_eq!("unix:/tmp/s".parse(), Ok(TargetAddress::Unix(PathBuf::from("/tmp/s"))));
        assert!("http://box".parse::<TargetAddress>().is_err());
    }

    #[test]
    fn the_defaults_are_those_of_voltdb() {
        let voter = voter(&[]);
        assert_eq!((voter.duration, voter.warmup, voter.display), (20, 2, 5));
        assert_eq!((voter.contestants, voter.max_votes), (6, 2));
        assert_eq!(voter.check(), Ok(()));
    }

    #[test]
    fn a_variant_sets_threads_and_calls_outstanding() {
        let plan = |variant: &str| voter(&["--variant", variant]).resolved().plan();
        assert_eq!((plan("sync").clients, plan("sync").outstanding), (40, 40));
        assert_eq!((plan("simple").clients, plan("simple").outstanding), (1, 1));
        assert_eq!(plan("async").outstanding, 1500);
    }

    #[test]
    fn an_open_loop_without_a_rate_is_refused() {
        assert!(voter(&["--mode", "open"]).check().is_err());
        assert!(voter(&["--mode", "open", "--rate", "10"]).check().is_ok());
        assert!(voter(&["--rate", "10"]).check().is_err());
        assert!(voter(&["--procedure", "lua"]).check().is_err());
    }

    #[test]
    fn a_watching_connection_has_one_call_outstanding() {
        let voter = voter(&["--target", "redis://h:1", "--procedure", "watch", "--connections", "7"]);
        assert_eq!(voter.outstanding(), 7);
    }
}
