//! Flags of compare, the names of stores, and scenario files.
//! Guarantees: a store's name says which store it is and in what form it is driven, and nothing else does.
//! Must not know: how stores are opened.
//! Next: ../target/choose.rs opens them; ../compare.rs.

use super::stores::{AsbenchMix, IometerMix, KvMix};
use super::{LoadArguments, TargetAddress};
use std::path::PathBuf;
use std::str::FromStr;

const COMPARE_EXAMPLES: &str = "Stores:
  embedded                      the library, tickets: one thread keeps many writes in flight
  redis                         redis-server, started here with appendonly; redis=PATH for another binary
  valkey=PATH, logd=PATH        the same with valkey-server or logd
  redis://HOST:PORT, unix:PATH  a server that runs
  sqlite lmdb redb fjall surrealkv canopydb (feature peers), rocksdb (feature peer-rocksdb)
Forms, added to a name:
  +threads   a blocked thread for every operation outstanding; what peers do without a form
  +batch     peers: one writer thread commits all that callers have queued, as applications do

Examples:
  logbench compare --stores embedded,redis kv --letter put
  logbench compare --stores embedded,fjall,fjall+batch,redb+batch,sqlite --runs 3 kv --letter a
  logbench compare --stores embedded,redis --trace-syncs iometer --access oltp";

/// Flags of compare.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArguments {
    /// Stores, the first being what the others are compared with.
    #[arg(long, value_delimiter = ',', required = true)]
    pub stores: Vec<StoreSpec>,
    /// Seconds of rest before each run, for work that stores leave for later.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub rest: u64,
    /// Adds a run of two seconds to each store, outside the figures, with strace counting its syncs.
    #[arg(long)]
    pub trace_syncs: bool,
    /// The workload.
    #[command(subcommand)]
    pub workload: ComparedWorkload,
}

/// Workloads that can be compared.
#[derive(clap::Subcommand, Debug, Clone)]
pub enum ComparedWorkload {
    /// YCSB's core workloads.
    Kv(Compared<KvMix>),
    /// Aerospike's asbench.
    Asbench(Compared<AsbenchMix>),
    /// IOmeter.
    Iometer(Compared<IometerMix>),
}

/// A mix and how it is driven.
#[derive(clap::Args, Debug, Clone)]
pub struct Compared<M: clap::Args> {
    #[command(flatten)]
    pub mix: M,
    #[command(flatten)]
    pub load: LoadArguments,
}

/// A scenario file.
#[derive(clap::Args, Debug, Clone)]
pub struct ScenarioArguments {
    /// The file: `question = "..."` and `command = "..."`.
    pub file: PathBuf,
    /// Flags added at the end of its command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub more: Vec<String>,
}

/// A store that runs in this process, other than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// SQLite.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
    /// fjall.
    Fjall,
    /// SurrealKV.
    Surrealkv,
    /// canopydb.
    Canopydb,
    /// RocksDB.
    Rocksdb,
}

/// A server that is started for the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// redis-server or valkey-server.
    Redis,
    /// Our daemon.
    Logd,
}

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// The library.
    Embedded,
    /// A server that runs.
    Server(TargetAddress),
    /// A server to be started from a binary.
    Started(ServerKind, PathBuf),
    /// Another library.
    Peer(PeerKind),
}

/// How a store is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As its documentation says.
    Own,
    /// A blocked thread for each operation outstanding.
    Threads,
    /// Behind a queue and one writer thread.
    Batch,
}

/// A store and its form, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// As it was written.
    pub name: String,
    /// Which store.
    pub kind: StoreKind,
    /// How it is driven.
    pub form: Form,
}

impl StoreSpec {
    /// Whether each operation outstanding needs a thread.
    pub fn is_blocking(&self) -> bool {
        match self.form {
            Form::Own => matches!(self.kind, StoreKind::Peer(_)),
            Form::Threads => true,
            Form::Batch => false,
        }
    }

    /// Whether it is kept in a directory of ours.
    pub fn is_local(&self) -> bool {
        !matches!(self.kind, StoreKind::Server(_))
    }
}

impl FromStr for StoreSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreSpec, String> {
        let (store, form) = match text.rsplit_once('+') {
            Some((store, "threads")) => (store, Form::Threads),
            Some((store, "batch")) => (store, Form::Batch),
            _ => (text, Form::Own),
        };
        let kind = store_kind(store)?;
        if form == Form::Batch && !matches!(kind, StoreKind::Peer(_)) {
            return Err(format!("{text}: +batch is for peers; {store} batches by itself"));
        }
        Ok(StoreSpec { name: text.to_owned(), kind, form })
    }
}

fn store_kind(store: &str) -> Result<StoreKind, String> {
    let peer = |kind| Ok(StoreKind::Peer(kind));
    match (store.split_once('='), store) {
        (Some(("redis" | "valkey", path)), _) => Ok(StoreKind::Started(ServerKind::Redis, path.into())),
        (Some(("logd", path)), _) => Ok(StoreKind::Started(ServerKind::Logd, path.into())),
        (_, "redis") => Ok(StoreKind::Started(ServerKind::Redis, "redis-server".into())),
        (_, "sqlite") => peer(PeerKind::Sqlite),
        (_, "lmdb") => peer(PeerKind::Lmdb),
        (_, "redb") => peer(PeerKind::Redb),
        (_, "fjall") => peer(PeerKind::Fjall),
        (_, "surrealkv") => peer(PeerKind::Surrealkv),
        (_, "canopydb") => peer(PeerKind::Canopydb),
        (_, "rocksdb") => peer(PeerKind::Rocksdb),
        _ => match store.parse() {
            Ok(TargetAddress::Embedded) => Ok(StoreKind::Embedded),
            Ok(address) => Ok(StoreKind::Server(address)),
            Err(_) => Err(format!("{store:?} is no store; `logbench compare --help` lists them")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_store_and_form() {
        let spec = |name: &str| name.parse::<StoreSpec>().unwrap();
        assert_eq!(
            (spec("fjall+batch").kind, spec("fjall+batch").form),
            (StoreKind::Peer(PeerKind::Fjall), Form::Batch)
        );
        assert!(spec("fjall").is_blocking() && spec("embedded+threads").is_blocking());
        assert!(!spec("embedded").is_blocking() && !spec("redb+batch").is_blocking() && !spec("redis").is_blocking());
        assert_eq!(spec("logd=/a/logd").kind, StoreKind::Started(ServerKind::Logd, "/a/logd".into()));
        assert!(!spec("redis://h:1").is_local());
        for wrong in ["embedded+batch", "mongo", "redis+batch", ""] {
            assert!(wrong.parse::<StoreSpec>().is_err(), "{wrong}");
        }
    }
}
