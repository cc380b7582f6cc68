//! Flags of the workloads over keys and values.
//! Guarantees: what parses makes a workload; options named as those of the originals mean the same.
//! Must not know: what the flags do.
//! Next: ../store.rs and ../queue.rs.

use super::{LoadArguments, StoreSpec};
use crate::workload::asbench::{AsWorkload, ObjectSpec, Stage};
use crate::workload::distribution::Choice;
use crate::workload::iometer::AccessSpec;
use crate::workload::kv::Letter;
use std::path::PathBuf;

const KV_EXAMPLES: &str = "Examples:
  logbench kv                                      workload A on the library, 100000 records of 100 bytes
  logbench kv --letter e --runs 3
  logbench kv --letter put -c 512 --target redis://127.0.0.1:6379
  logbench kv --letter b --rate 50000 --hlog b.hlog --json b.json";

/// Flags of kv.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = KV_EXAMPLES)]
pub struct KvArguments {
    /// What is measured: embedded, redis://HOST:PORT, unix:PATH, a server started for it, or a peer; see compare.
    #[arg(long, default_value = "embedded")]
    pub target: StoreSpec,
    #[command(flatten)]
    pub mix: KvMix,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// What kv asks for.
#[derive(clap::Args, Debug, Clone)]
pub struct KvMix {
    /// YCSB's workload, or put: writes only.
    #[arg(long, value_enum, default_value = "a", ignore_case = true)]
    pub letter: Letter,
    /// Records there before the run.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub records: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    pub value_bytes: u32,
    /// Choice of records, instead of the letter's own.
    #[arg(long, value_enum)]
    pub choice: Option<Choice>,
}

const AS_EXAMPLES: &str = "Examples:
  logbench asbench -k 1000000 -o B1024 -w I              insert all keys, and tell how fast
  logbench asbench -k 1000000 -o B1024 -w RU,80 -z 2 -t 60
  logbench asbench --workload-stages bench/scenarios/asbench-stages.yml";

/// Flags of asbench.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = AS_EXAMPLES)]
pub struct AsbenchArguments {
    /// What is measured; see kv.
    #[arg(long, default_value = "embedded")]
    pub target: StoreSpec,
    #[command(flatten)]
    pub mix: AsbenchMix,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// What asbench asks for.
#[derive(clap::Args, Debug, Clone)]
pub struct AsbenchMix {
    /// I: insert all keys. RU,PERCENT: read so many percent, update the rest.
    #[arg(short = 'w', long, default_value = "RU,50")]
    pub workload: AsWorkload,
    /// The object: I or I1..I8, D, Bn bytes, Sn characters, separated by commas.
    #[arg(short = 'o', long, default_value = "I")]
    pub object_spec: ObjectSpec,
    /// The first key.
    #[arg(short = 'K', long, default_value_t = 0)]
    pub start_key: u64,
    /// Number of keys.
    #[arg(short = 'k', long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub keys: u64,
    /// New random bytes at every write.
    #[arg(short = 'R', long)]
    pub random: bool,
    /// Stages, one after the other, from a file.
    #[arg(long)]
    pub workload_stages: Option<PathBuf>,
}

impl AsbenchMix {
    /// The one stage that the flags describe.
    pub fn stage(&self, load: &LoadArguments) -> Stage {
        Stage {
            workload: self.workload,
            duration: Some(load.duration),
            rate: load.rate,
            object: self.object_spec,
            key_start: self.start_key,
            keys: self.keys,
            random: self.random,
            pause: 0,
        }
    }
}

const IO_EXAMPLES: &str = "Examples:
  logbench iometer                                    8 KiB, 67 % reads, random; 16 outstanding with -c 16
  logbench iometer --access file-server --span-mib 512
  logbench iometer --access 4K,100,0 -c 1";

/// Flags of iometer.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = IO_EXAMPLES)]
pub struct IometerArguments {
    /// What is measured; see kv.
    #[arg(long, default_value = "embedded")]
    pub target: StoreSpec,
    #[command(flatten)]
    pub mix: IometerMix,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// What iometer asks for.
#[derive(clap::Args, Debug, Clone)]
pub struct IometerMix {
    /// oltp, file-server, web-server, or BLOCK,READ%,RANDOM%.
    #[arg(long, default_value = "oltp")]
    pub access: AccessSpec,
    /// MiB of blocks.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub span_mib: u64,
}

const QUEUE_EXAMPLES: &str = "Examples:
  logbench queue                                      10 s up, 10 s down, 10 s up again
  logbench queue --rate 20000 --phases up:5,down:30,up:30 --batch 500";

/// Flags of queue.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = QUEUE_EXAMPLES)]
pub struct QueueArguments {
    /// What is measured; see kv.
    #[arg(long, default_value = "embedded")]
    pub target: StoreSpec,
    /// Bytes of a message.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    pub message_bytes: u32,
    /// Messages the reader takes, sends and acknowledges at once.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub batch: u32,
    /// Phases of the uplink with their seconds. Instead of --duration.
    #[arg(long, default_value = "up:10,down:10,up:10")]
    pub phases: Phases,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// A phase of the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Whether messages can be sent on.
    pub up: bool,
    /// How long.
    pub seconds: u64,
}

/// Phases in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases(pub Vec<Phase>);

impl std::str::FromStr for Phases {
    type Err = String;

    fn from_str(text: &str) -> Result<Phases, String> {
        let phase = |part: &str| {
            let (name, seconds) = part.split_once(':')?;
            let seconds = seconds.parse().ok().filter(|seconds| (1..=86_400).contains(seconds))?;
            match name {
                "up" => Some(Phase { up: true, seconds }),
                "down" => Some(Phase { up: false, seconds }),
                _ => None,
            }
        };
        let phases: Option<Vec<Phase>> = text.split(',').map(phase).collect();
        phases.map(Phases).ok_or_else(|| format!("phases are as up:10,down:10,up:10; not {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Command};
    use super::*;
    use crate::workload::asbench::AsWorkload;
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(["logbench"].iter().chain(words)).map(|arguments| arguments.command)
    }

    #[test]
    fn the_flags_of_asbench_are_understood() {
        let words = ["asbench", "-k", "500", "-o", "B1024", "-w", "RU,80", "-z", "4", "-t", "7", "-g", "100", "-R"];
        let Ok(Command::Asbench(asbench)) = parse(&words) else { panic!("asbench") };
        let stage = asbench.mix.stage(&asbench.load);
        assert_eq!((stage.workload, stage.object.bytes, stage.keys), (AsWorkload::ReadUpdate(80), 1024, 500));
        assert_eq!((stage.duration, stage.rate, stage.random), (Some(7), 100, true));
        assert_eq!((asbench.load.plan().clients, asbench.load.plan().rate), (4, Some(100)));
    }

    #[test]
    fn letters_phases_and_accesses_parse_and_nonsense_does_not() {
        assert!(matches!(parse(&["kv", "--letter", "F"]), Ok(Command::Kv(kv)) if kv.mix.letter == Letter::F));
        let Ok(Command::Queue(queue)) = parse(&["queue", "--phases", "up:1,down:2"]) else { panic!("queue") };
        assert_eq!(queue.phases.0, [Phase { up: true, seconds: 1 }, Phase { up: false, seconds: 2 }]);
        for wrong in [
            &["kv", "--letter", "g"][..],
            &["queue", "--phases", "up"],
            &["queue", "--phases", "sideways:1"],
            &["iometer", "--access", "8K"],
            &["asbench", "-w", "X"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fewer_operations_outstanding_than_threads_are_refused() {
        let Ok(Command::Kv(kv)) = parse(&["kv", "-z", "8", "-c", "4"]) else { panic!("kv") };
        assert!(kv.load.check().is_err());
    }
}
