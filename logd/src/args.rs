//! Flags of the daemon, and what they and the configuration file come to.
//! Guarantees: a flag wins over the file, the file over the default; nothing out of its bounds gets through.
//! Must not know: what the settings do.
//! Next: config.rs reads the file; engine/src/options.rs has the bounds.

use crate::config;
use crate::settings::Settings;
use clap::{Parser, ValueEnum};
use logd_engine::disk::IoMode;
use logd_engine::{DurabilityLevel, OnCorruption, Options};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Port where none is named.
const PORT: u16 = 6379;
/// Most threads that are started unasked: more are rarely busy on an edge device.
const THREADS_UNASKED_MAX: usize = 4;

const EXAMPLES: &str = "\
Examples:
  logd                                             store in ./logd-data, on 127.0.0.1:6379, every write synced
  logd --dir /var/lib/logd --listen 0.0.0.0:6379   reachable from other machines
  logd --unix /run/logd/logd.sock                  also on a unix socket
  logd --durability written --lag-ms 200           acknowledged once the kernel has it, synced 200 ms later at the latest
  logd --segment-bytes 16M --checkpoint-log-bytes 64M --snapshots-kept 1   for a small disk
  logd --on-corruption salvage                     for an unattended box: starts whatever happened, and says what was lost
  logd --config /etc/logd.conf                     lines such as `lag-ms = 200`; flags win

Sizes take K, M or G. SIGTERM or SIGINT stops in order; a second one at once.";

/// Durable ordered store for edge devices that speaks the Redis protocol.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "logd", version, after_help = EXAMPLES)]
pub struct Args {
    /// Directory of the store; made if it is not there [default: ./logd-data]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Address to listen on; may be given several times; port 0 lets the system choose [default: 127.0.0.1:6379]
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub listen: Vec<SocketAddr>,
    /// The same as --listen 127.0.0.1:N
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Address for --port instead of 127.0.0.1; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub bind: Vec<IpAddr>,
    /// Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// File with `key = value` lines: the names of these flags, `#` for comments
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// When a write is acknowledged: synced (survives a power cut), written (survives kill -9), accepted [default: synced]
    #[arg(long, value_name = "LEVEL")]
    pub durability: Option<DurabilityLevel>,
    /// Longest time an acknowledged write of a weaker level may stay unsynced, in milliseconds [default: 1000]
    #[arg(long, value_name = "N")]
    pub lag_ms: Option<u64>,
    /// Most bytes of such writes [default: 8M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub lag_bytes: Option<u64>,
    /// How the disk is driven [default: auto]
    #[arg(long, value_enum)]
    pub io: Option<Io>,
    /// Size of a log segment [default: by free space, 64M where there is room]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub segment_bytes: Option<u64>,
    /// Log bytes after which a checkpoint is taken [default: by segment size]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub checkpoint_log_bytes: Option<u64>,
    /// Longest time between checkpoints, 0 for no limit [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub checkpoint_seconds: Option<u64>,
    /// Bytes a second a checkpoint writes while there is other work, 0 for no limit [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub checkpoint_rate: Option<u64>,
    /// Snapshots kept [default: 2]
    #[arg(long, value_name = "N")]
    pub snapshots_kept: Option<usize>,
    /// What a start does about damage: refuse, read-only, previous-snapshot, salvage [default: refuse]
    #[arg(long, value_name = "POLICY")]
    pub on_corruption: Option<OnCorruption>,
    /// Free disk space that only deletes and checkpoints may use [default: two segments and a snapshot, at most half of the disk]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub disk_reserve_bytes: Option<u64>,
    /// Parts of the index with a lock each [default: 16]
    #[arg(long, value_name = "N")]
    pub shards: Option<usize>,
    /// Threads that serve clients [default: number of cores, at most 4]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Most clients at a time [default: 10000]
    #[arg(long, value_name = "N")]
    pub maxclients: Option<usize>,
    /// Unread replies at which a client is closed [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub client_output_limit: Option<u64>,
    /// Most bytes of unfinished requests of all clients together [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub input_limit: Option<u64>,
}

/// How the disk is driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// io_uring where the kernel allows it
    #[default]
    Auto,
    /// io_uring, or no start
    Uring,
    /// Plain system calls
    Syscall,
}

/// Everything a start needs to know.
#[derive(Debug)]
pub struct Resolved {
    /// For the daemon.
    pub settings: Settings,
    /// For the store.
    pub options: Options,
    /// For the disk.
    pub io: IoMode,
}

impl Args {
    /// Reads the configuration file if one is named, and fills in what was not given. Errors are for the user to read.
    pub fn resolve(self) -> Result<Resolved, String> {
        let file = match &self.config {
            Some(path) => config::read(path)?,
            None => Args::default(),
        };
        let args = self.over(file);
        let options = args.options();
        options.check().map_err(|error| error.to_string())?;
        let io = args.io.unwrap_or_default();
        let mode = match io {
            Io::Auto => IoMode::Auto,
            Io::Uring => IoMode::Uring,
            Io::Syscall => IoMode::Syscall,
        };
        let settings = args.settings(&options, io)?;
        Ok(Resolved { settings, options, io: mode })
    }

    /// These, and where they say nothing, the others.
    fn over(self, other: Args) -> Args {
        let is_listen_given = !self.listen.is_empty() || self.port.is_some() || !self.bind.is_empty();
        let (listen, port, bind) =
            if is_listen_given { (self.listen, self.port, self.bind) } else { (other.listen, other.port, other.bind) };
        Args {
            dir: self.dir.or(other.dir),
            listen,
            port,
            bind,
            unix: self.unix.or(other.unix),
            config: self.config,
            durability: self.durability.or(other.durability),
            lag_ms: self.lag_ms.or(other.lag_ms),
            lag_bytes: self.lag_bytes.or(other.lag_bytes),
            io: self.io.or(other.io),
            segment_bytes: self.segment_bytes.or(other.segment_bytes),
            checkpoint_log_bytes: self.checkpoint_log_bytes.or(other.checkpoint_log_bytes),
            checkpoint_seconds: self.checkpoint_seconds.or(other.checkpoint_seconds),
            checkpoint_rate: self.checkpoint_rate.or(other.checkpoint_rate),
            snapshots_kept: self.snapshots_kept.or(other.snapshots_kept),
            on_corruption: self.on_corruption.or(other.on_corruption),
            disk_reserve_bytes: self.disk_reserve_bytes.or(other.disk_reserve_bytes),
            shards: self.shards.or(other.shards),
            threads: self.threads.or(other.threads),
            maxclients: self.maxclients.or(other.maxclients),
            client_output_limit: self.client_output_limit.or(other.client_output_limit),
            input_limit: self.input_limit.or(other.input_limit),
        }
    }

    fn options(&self) -> Options {
        let default = Options::default();
        Options {
            durability: self.durability.unwrap_or(default.durability),
            lag_millis: self.lag_ms.unwrap_or(default.lag_millis),
            lag_bytes: self.lag_bytes.unwrap_or(default.lag_bytes),
            segment_bytes: self.segment_bytes.unwrap_or(default.segment_bytes),
            checkpoint_log_bytes: self.checkpoint_log_bytes.unwrap_or(default.checkpoint_log_bytes),
            checkpoint_seconds: self.checkpoint_seconds.unwrap_or(default.checkpoint_seconds),
            checkpoint_bytes_per_second: self.checkpoint_rate.unwrap_or(default.checkpoint_bytes_per_second),
            snapshots_kept: self.snapshots_kept.unwrap_or(default.snapshots_kept),
            on_corruption: self.on_corruption.unwrap_or(default.on_corruption),
            disk_reserve_bytes: self.disk_reserve_bytes.or(default.disk_reserve_bytes),
            shards: self.shards.unwrap_or(default.shards),
            ..default
        }
    }

    fn settings(self, options: &Options, io: Io) -> Result<Settings, String> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = self.threads.unwrap_or(cores.min(THREADS_UNASKED_MAX));
        within("threads", threads, 1, 256)?;
        let clients_max = self.maxclients.unwrap_or(10_000);
        within("maxclients", clients_max, 1, 1_000_000)?;
        let bytes = |bytes: Option<u64>| usize::try_from(bytes.unwrap_or(256 << 20)).unwrap_or(usize::MAX);
        let output_bytes_max = bytes(self.client_output_limit);
        within("client-output-limit", output_bytes_max, 64 << 10, usize::MAX)?;
        let input_bytes_max = bytes(self.input_limit);
        within("input-limit", input_bytes_max, 64 << 10, usize::MAX)?;
        Ok(Settings {
            listen: self.addresses(),
            dir: self.dir.unwrap_or_else(|| PathBuf::from("./logd-data")),
            unix: self.unix,
            threads,
            clients_max,
            durability: options.durability,
            lag_millis: options.lag_millis,
            io: io.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
            output_bytes_max,
            input_bytes_max,
            config_file: self.config,
        })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let mut listen = self.listen.clone();
        if self.port.is_some() || !self.bind.is_empty() || listen.is_empty() {
            let local = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
            let bind = if self.bind.is_empty() { &local[..] } else { &self.bind[..] };
            listen.extend(bind.iter().map(|address| SocketAddr::new(*address, self.port.unwrap_or(PORT))));
        }
        listen
    }
}

fn within(name: &str, value: usize, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}: from {min} to {max}")) }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| format!("{error}; ADDR:PORT such as 127.0.0.1:6379"))?;
    found.next().ok_or_else(|| "no such address".to_owned())
}

/// A number of bytes: 4096, 512K, 64M, 1G.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size such as 4096, 512K, 64M or 1G");
    let upper = text.trim().to_ascii_uppercase();
    let plain = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match plain.as_bytes().last() {
        Some(b'K') => (&plain[..plain.len() - 1], 10),
        Some(b'M') => (&plain[..plain.len() - 1], 20),
        Some(b'G') => (&plain[..plain.len() - 1], 30),
        _ => (plain, 0),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(flags: &[&str]) -> Resolved {
        let line = ["logd"].iter().chain(flags);
        Args::try_parse_from(line).unwrap().resolve().unwrap()
    }

    #[test]
    fn sizes_take_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("512k"), Ok(512 << 10));
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        for wrong in ["", "M", "1T", "-1", "1.5G", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_and_addresses_add_up() {
        let listen =
            |flags: &[&str]| resolved(flags).settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(listen(&[]), ["127.0.0.1:6379"]);
        assert_eq!(listen(&["--port", "7000"]), ["127.0.0.1:7000"]);
        assert_eq!(listen(&["--bind", "0.0.0.0", "--port", "7"]), ["0.0.0.0:7"]);
        assert_eq!(listen(&["--listen", "127.0.0.1:1", "--listen", "[::1]:2"]), ["127.0.0.1:1", "[::1]:2"]);
    }

    #[test]
    fn flags_reach_the_store() {
        let found = resolved(&["--durability", "written", "--lag-ms", "5", "--segment-bytes", "2M", "--io", "syscall"]);
        assert_eq!(found.options.durability, DurabilityLevel::Written);
        assert_eq!((found.options.lag_millis, found.options.segment_bytes), (5, 2 << 20));
        assert_eq!((found.io, found.settings.io.as_str()), (IoMode::Syscall, "syscall"));
    }

    #[test]
    fn the_policy_for_damage_is_refuse_unless_told() {
        assert_eq!(resolved(&[]).options.on_corruption, OnCorruption::Refuse);
        for policy in OnCorruption::ALL {
            assert_eq!(resolved(&["--on-corruption", policy.word()]).options.on_corruption, policy);
        }
        assert!(Args::try_parse_from(["logd", "--on-corruption", "ignore"]).is_err());
        assert_eq!(resolved(&["--disk-reserve-bytes", "2M"]).options.disk_reserve_bytes, Some(2 << 20));
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        for flags in [["--threads", "0"], ["--maxclients", "0"], ["--shards", "0"], ["--segment-bytes", "5"]] {
            let args = Args::try_parse_from(["logd", flags[0], flags[1]]).unwrap();
            assert!(args.resolve().is_err(), "{flags:?}");
        }
    }
}
