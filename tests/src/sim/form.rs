//! What a run is allowed to do, and what its seed makes of that: settings, weights, sizes.
//! Guarantees: everything is drawn from the seed; a form with less in it is a smaller run, for shrinking.
//! Must not know: the store.
//! Next: run.rs follows the plan; shrink.rs makes forms smaller.

use logd_engine::checkpoint::Pieces;
use logd_engine::prng::Prng;
use logd_engine::{DurabilityLevel, OnCorruption, Options};

/// Parts of a run that can be left out.
pub const FEATURES: &[&str] = &[
    "faults",
    "damage",
    "policies",
    "death",
    "forks",
    "capacity",
    "stuck",
    "wall",
    "expiry",
    "calls",
    "clear",
    "views",
    "checkpoints",
    "watches",
    "transactions",
    "kill",
    "stop",
    "rerouting",
    "large",
];

/// The outer form of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Most lives (times between an opening and an end).
    pub lives: u64,
    /// Most steps of a life.
    pub steps: u64,
    /// Most clients.
    pub clients: u64,
    /// Features left out.
    pub without: Vec<String>,
}

impl Default for Form {
    fn default() -> Form {
        Form { lives: u64::MAX, steps: u64::MAX, clients: u64::MAX, without: Vec::new() }
    }
}

impl Form {
    /// Whether a part is in.
    pub fn has(&self, feature: &str) -> bool {
        debug_assert!(FEATURES.contains(&feature), "{feature} is in the list");
        !self.without.iter().any(|without| without == feature)
    }

    /// The flags that give this form.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let numbers = [("--lives", self.lives), ("--steps", self.steps), ("--clients", self.clients)];
        for (flag, number) in numbers.into_iter().filter(|(_, number)| *number != u64::MAX) {
            flags += &format!(" {flag} {number}");
        }
        if !self.without.is_empty() {
            flags += &format!(" --without {}", self.without.join(","));
        }
        flags
    }
}

/// What one seed does within a form.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Settings of the store.
    pub options: Options,
    /// Lives.
    pub lives: u64,
    /// Steps of a life.
    pub steps: u64,
    /// Clients.
    pub clients: u64,
    /// Keys of a keyspace.
    pub keys: u64,
    /// Largest usual value.
    pub value_bytes: u64,
    /// Steps an operation of the disk may take.
    pub latency: u64,
    /// Weights of the scheduler's choices, in the order of `run::Choice`.
    pub weights: [u64; 6],
    /// Typical span of a clock step, in microseconds.
    pub clock_micros: u64,
    /// Operations of clients in a row.
    pub burst: u64,
    /// Pieces in which snapshots are written.
    pub pieces: Pieces,
    /// Levels that clients ask for.
    pub levels: Vec<Option<DurabilityLevel>>,
}

fn pick<T: Clone>(prng: &mut Prng, from: &[T]) -> T {
    from[prng.below(from.len() as u64) as usize].clone()
}

impl Plan {
    /// Draws a plan.
    pub fn draw(prng: &mut Prng, form: &Form) -> Plan {
        let large = prng.one_in(12) && form.has("large");
        let segment_bytes = if large {
            pick(prng, &[512 << 10, 1 << 20, 2 << 20])
        } else {
            pick(prng, &[44 << 10, 48 << 10, 64 << 10, 64 << 10, 96 << 10, 128 << 10, 256 << 10])
        };
        let command_bytes_max = segment_bytes / 4 - 8192;
        let value_bytes = if large { 12 << 10 } else { pick(prng, &[40, 200, 900, 2500]).min(command_bytes_max / 4) };
        let checkpoint_segments = pick(prng, &[1, 2, 3, 6]);
        let levels = draw_levels(prng);
        Plan {
            options: Options {
                disk_reserve_bytes: pick(prng, &[None, None, Some(0), Some(segment_bytes), Some(4 * segment_bytes)]),
                on_corruption: OnCorruption::Refuse,
                durability: pick(prng, &[DurabilityLevel::Synced, DurabilityLevel::Written, DurabilityLevel::Accepted]),
                lag_millis: pick(prng, &[1, 4, 20, 200, 1000]),
                lag_bytes: pick(prng, &[4 << 10, 16 << 10, 64 << 10, 8 << 20]),
                segment_bytes,
                batch_bytes_max: if large { 256 << 10 } else { pick(prng, &[4 << 10, 8 << 10, 32 << 10, 128 << 10]) },
                batches_in_flight_max: pick(prng, &[1, 2, 3, 4]),
                checkpoint_log_bytes: checkpoint_segments * segment_bytes,
                checkpoint_seconds: pick(prng, &[0, 0, 1, 10]),
                checkpoint_bytes_per_second: pick(prng, &[0, 0, 1 << 20, 64 << 20]),
                snapshots_kept: pick(prng, &[1, 1, 2, 3, 8]),
                shards: pick(prng, &[1, 2, 3, 4, 8]),
                load_threads: 1,
            },
            lives: (2 + prng.below(4)).min(form.lives),
            steps: pick(prng, &[40, 120, 250, 400]).min(form.steps),
            clients: (1 + prng.below(5)).min(form.clients),
            keys: pick(prng, &[3, 12, 40, 120]),
            value_bytes,
            latency: pick(prng, &[0, 1, 3, 8, 60]),
            weights: draw_weights(prng),
            clock_micros: pick(prng, &[20, 300, 2000, 30_000]),
            burst: if large { pick(prng, &[1, 12, 40]) } else { pick(prng, &[1, 1, 1, 6]) },
            pieces: Pieces {
                slice_bytes: pick(prng, &[1, 1, 8 << 10, 256 << 10]),
                block_bytes: pick(prng, &[256, 1 << 10, 8 << 10, 256 << 10]),
            },
            levels,
        }
    }
}

fn draw_levels(prng: &mut Prng) -> Vec<Option<DurabilityLevel>> {
    use DurabilityLevel::{Accepted, Synced, Written};
    let mixes: [&[Option<DurabilityLevel>]; 5] = [
        &[None, Some(Synced), Some(Written), Some(Accepted)],
        &[Some(Synced)],
        &[Some(Written), Some(Accepted), Some(Accepted)],
        &[Some(Accepted)],
        &[Some(Written), Some(Written), Some(Written), Some(Synced)],
    ];
    pick(prng, &mixes).to_vec()
}

fn draw_weights(prng: &mut Prng) -> [u64; 6] {
    let client = pick(prng, &[20, 40, 60]);
    let writer = pick(prng, &[6, 20, 30]);
    let maintenance = pick(prng, &[4, 12, 24]);
    let medium = pick(prng, &[5, 12, 24]);
    [client, writer, maintenance, medium, 6, 6]
}
