//! Every setting of a store: its unit, default and bounds, checked once.
//! Guarantees: `check` has passed before anything else sees an `Options`.
//! Must not know: flags and configuration files; the programs translate those.
//! Next: db/mod.rs opens a store with them.

use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::limits;

/// What opening does about damage to what was durable. A torn tail is no damage: every policy cuts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorruption {
    /// It is an error that names the place and what to run. Nothing is changed.
    #[default]
    Refuse,
    /// What is provably right is served for reading: newest whole snapshot, log up to the damage. Nothing is changed.
    ReadOnly,
    /// A damaged snapshot or manifest is put aside and an older snapshot with the log behind it takes its place, which loses
    /// nothing. Damage to that log is still refused.
    PreviousSnapshot,
    /// As before; a damaged log is cut at the damage, the rest is put aside, and the loss is counted until acknowledged.
    Salvage,
}

impl OnCorruption {
    /// All of them.
    pub const ALL: [OnCorruption; 4] =
        [OnCorruption::Refuse, OnCorruption::ReadOnly, OnCorruption::PreviousSnapshot, OnCorruption::Salvage];

    /// The word in flags, configuration and INFO.
    pub fn word(self) -> &'static str {
        match self {
            OnCorruption::Refuse => "refuse",
            OnCorruption::ReadOnly => "read-only",
            OnCorruption::PreviousSnapshot => "previous-snapshot",
            OnCorruption::Salvage => "salvage",
        }
    }
}

impl std::str::FromStr for OnCorruption {
    type Err = String;

    fn from_str(text: &str) -> Result<OnCorruption, String> {
        let known = OnCorruption::ALL.into_iter().find(|policy| policy.word() == text);
        known.ok_or_else(|| format!("{text:?} is none of refuse, read-only, previous-snapshot, salvage"))
    }
}

/// Settings of a store. `Options::default()` is right for a gateway with a small SSD.
#[derive(Clone, Debug)]
pub struct Options {
    /// Level of writes that do not name one, in keyspaces that do not either. Default `Synced`.
    pub durability: DurabilityLevel,
    /// Longest time that an acknowledged `Accepted` or `Written` write may stay unsynced, in milliseconds. Default 1000.
    pub lag_millis: u64,
    /// Most bytes of acknowledged writes that may stay unsynced. Default 8 MiB.
    pub lag_bytes: u64,
    /// Size of a log segment in bytes, a whole number of blocks; 0 chooses by the free space (64 MiB where there is room). Default 0.
    pub segment_bytes: u64,
    /// Most bytes of a batch that is being formed before writers have to wait. Default 1 MiB.
    pub batch_bytes_max: usize,
    /// Batches written at the same time, once they are large. Default 2.
    pub batches_in_flight_max: usize,
    /// Log bytes after which a checkpoint is taken; 0 chooses by the segment size and free space. Default 0.
    pub checkpoint_log_bytes: u64,
    /// Longest time between checkpoints in seconds, if something was written; 0 for no limit. Default 0.
    pub checkpoint_seconds: u64,
    /// Bytes a second a checkpoint may write while the engine is busy; 0 for no limit. Default 64 MiB.
    pub checkpoint_bytes_per_second: u64,
    /// Snapshots kept; the log is kept from the oldest on. Default 2.
    pub snapshots_kept: usize,
    /// Parts of the index with a lock each. Default 16.
    pub shards: usize,
    /// Threads that load snapshots at start; 0 for one a core. Default 0.
    pub load_threads: usize,
    /// What opening does about damage. Default `Refuse`.
    pub on_corruption: OnCorruption,
    /// Free bytes of the file system that writes which grow the store leave alone; deletes, expiry and checkpoints use them.
    /// `None` chooses: two segments and the size of the newest snapshot, at most half of the file system. Default `None`.
    pub disk_reserve_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: DurabilityLevel::Synced,
            lag_millis: 1000,
            lag_bytes: 8 << 20,
            segment_bytes: 0,
            batch_bytes_max: 1 << 20,
            batches_in_flight_max: 2,
            checkpoint_log_bytes: 0,
            checkpoint_seconds: 0,
            checkpoint_bytes_per_second: 64 << 20,
            snapshots_kept: 2,
            shards: 16,
            load_threads: 0,
            on_corruption: OnCorruption::Refuse,
            disk_reserve_bytes: None,
        }
    }
}

impl Options {
    /// Refuses settings that are out of their bounds.
    pub fn check(&self) -> Result<(), Error> {
        self.check_from(limits::SEGMENT_BYTES_MIN)
    }

    /// The same, with another lower bound for segments: the simulation's are so small that they recycle all the time.
    pub(crate) fn check_from(&self, segment_bytes_min: u64) -> Result<(), Error> {
        let block = limits::BLOCK_BYTES as u64;
        let segment_fits = self.segment_bytes == 0
            || ((segment_bytes_min..=limits::SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
                && self.segment_bytes.is_multiple_of(block));
        rule(segment_fits, "segment_bytes", self.segment_bytes, "0, or a multiple of 4096 from 1 MiB to 1 GiB")?;
        rule(
            self.durability != DurabilityLevel::Volatile,
            "durability",
            self.durability.word(),
            "volatile is for single keyspaces",
        )?;
        rule((1..=3_600_000).contains(&self.lag_millis), "lag_millis", self.lag_millis, "from 1 to 3600000")?;
        rule(self.lag_bytes >= block, "lag_bytes", self.lag_bytes, "at least 4096")?;
        let batch = limits::BLOCK_BYTES..=64 << 20;
        rule(batch.contains(&self.batch_bytes_max), "batch_bytes_max", self.batch_bytes_max, "from 4096 to 64 MiB")?;
        rule(
            (1..=16).contains(&self.batches_in_flight_max),
            "batches_in_flight_max",
            self.batches_in_flight_max,
            "from 1 to 16",
        )?;
        let kept = 1..=limits::SNAPSHOTS_KEPT_MAX;
        rule(kept.contains(&self.snapshots_kept), "snapshots_kept", self.snapshots_kept, "from 1 to 16")?;
        rule((1..=limits::SHARDS_MAX).contains(&self.shards), "shards", self.shards, "from 1 to 256")?;
        Ok(())
    }
}

fn rule(holds: bool, name: &'static str, value: impl ToString, rule: &'static str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Refused::Setting { name, value: value.to_string(), rule }.into()) }
}
