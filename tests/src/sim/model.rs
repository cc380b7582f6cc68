//! The plain model: what the store holds after each command, by maps that know nothing of trees, logs or shards.
//! Guarantees: the digest is computed here anew, from the description in docs, not by the engine's code.
//! Must not know: the engine's insides.
//! Next: clients.rs records commands here; lives.rs compares after a crash.

use logd_engine::DurabilityLevel;
use logd_engine::units::{Millis, Nanos};
use std::collections::BTreeMap;
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_128;

/// Shared bytes.
pub type Bytes = Rc<[u8]>;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rec {
    /// The value.
    pub value: Bytes,
    /// End in engine milliseconds; 0 for never.
    pub expiry: u64,
}

impl Rec {
    /// Whether it counts as gone at a moment.
    pub fn is_due(&self, now: Millis) -> bool {
        self.expiry != 0 && self.expiry <= now.0
    }
}

/// One change of state; `space` is the place of the keyspace in `SPACES`, `expiry` engine milliseconds or 0.
#[expect(missing_docs, reason = "the fields are what the names say, five times over")]
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets a record.
    Put { space: usize, key: Bytes, value: Bytes, expiry: u64 },
    /// Removes one.
    Delete { space: usize, key: Bytes },
    /// Changes a record's end.
    Expire { space: usize, key: Bytes, expiry: u64 },
    /// Removes all records of a keyspace.
    Clear { space: usize },
    /// Makes a keyspace.
    Make { space: usize },
}

impl Change {
    /// The keyspace.
    pub fn space(&self) -> usize {
        match self {
            Change::Put { space, .. }
            | Change::Delete { space, .. }
            | Change::Expire { space, .. }
            | Change::Clear { space }
            | Change::Make { space } => *space,
        }
    }

    /// Bytes it has in the log at least.
    pub fn bytes(&self) -> u64 {
        match self {
            Change::Put { key, value, .. } => 9 + (key.len() + value.len()) as u64,
            Change::Delete { key, .. } => 5 + key.len() as u64,
            Change::Expire { key, .. } => 13 + key.len() as u64,
            Change::Clear { .. } => 3,
            Change::Make { .. } => 7,
        }
    }
}

/// A keyspace of the simulated store.
pub struct Space {
    /// Its name.
    pub name: &'static str,
    /// Whether it is neither logged nor in snapshots.
    pub volatile: bool,
}

/// All keyspaces. The procedures work on the first two.
pub const SPACES: &[Space] = &[
    Space { name: "orders", volatile: false },
    Space { name: "stock", volatile: false },
    Space { name: "prefixed", volatile: false },
    Space { name: "scratch", volatile: true },
    Space { name: "ordered", volatile: false },
];

/// The state after some command.
#[derive(Clone, Debug)]
pub struct State {
    /// Records by keyspace.
    pub spaces: Vec<BTreeMap<Bytes, Rec>>,
    /// Which keyspaces were made.
    pub made: Vec<bool>,
    /// Sum of the hashes of all logged records.
    pub digest: u128,
}

impl Default for State {
    fn default() -> State {
        State { spaces: vec![BTreeMap::new(); SPACES.len()], made: vec![false; SPACES.len()], digest: 0 }
    }
}

impl State {
    /// The record of a key, due or not.
    pub fn raw(&self, space: usize, key: &[u8]) -> Option<&Rec> {
        self.spaces[space].get(key)
    }

    /// The record of a key, unless it is due.
    pub fn live(&self, space: usize, key: &[u8], now: Millis) -> Option<&Rec> {
        self.raw(space, key).filter(|record| !record.is_due(now))
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { space, key, value, expiry } => {
                self.set(*space, key, Some(Rec { value: Rc::clone(value), expiry: *expiry }));
            }
            Change::Delete { space, key } => self.set(*space, key, None),
            Change::Expire { space, key, expiry } => {
                let record = self.raw(*space, key).cloned();
                self.set(*space, key, record.map(|record| Rec { expiry: *expiry, ..record }));
            }
            Change::Clear { space } => {
                let keys: Vec<Bytes> = self.spaces[*space].keys().cloned().collect();
                keys.iter().for_each(|key| self.set(*space, key, None));
            }
            Change::Make { space } => self.made[*space] = true,
        }
    }

    fn set(&mut self, space: usize, key: &Bytes, record: Option<Rec>) {
        let logged = !SPACES[space].volatile;
        if logged && let Some(record) = &record {
            self.digest = self.digest.wrapping_add(hash(space, key, record));
        }
        let before = match record {
            Some(record) => self.spaces[space].insert(Rc::clone(key), record),
            None => self.spaces[space].remove(key),
        };
        if logged && let Some(before) = &before {
            self.digest = self.digest.wrapping_sub(hash(space, key, before));
        }
    }

    /// Forgets what no crash leaves.
    pub fn drop_volatile(&mut self) {
        for (space, records) in SPACES.iter().zip(&mut self.spaces) {
            if space.volatile {
                records.clear();
            }
        }
    }
}

/// As engine/src/digest.rs describes it.
fn hash(space: usize, key: &[u8], record: &Rec) -> u128 {
    let name = SPACES[space].name.as_bytes();
    let mut bytes = Vec::with_capacity(11 + name.len() + key.len() + record.value.len());
    bytes.push(name.len() as u8);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&record.expiry.to_le_bytes());
    bytes.extend_from_slice(&record.value);
    xxh3_128(&bytes)
}

/// A command in the log.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its LSN.
    pub lsn: u64,
    /// The level its client waits for.
    pub level: DurabilityLevel,
    /// What it did, volatile keyspaces left out.
    pub changes: Vec<Change>,
    /// When it was given to the store.
    pub at: Nanos,
    /// Engine time of it.
    pub time: Millis,
    /// Bytes it takes in the log at least.
    pub bytes: u64,
    /// When the client was told that it is durable, and the last LSN at that moment.
    pub acked: Option<(Nanos, u64)>,
}

/// The store as it should be: a base that no crash can take, the commands behind it, and the state of now.
#[derive(Default)]
pub struct Model {
    /// State up to `base_lsn`.
    pub base: State,
    /// Last command in the base.
    pub base_lsn: u64,
    /// Commands behind the base, in log order.
    pub commits: Vec<Commit>,
    /// State after all of them, with volatile keyspaces.
    pub now: State,
    /// Digest after each command that a snapshot may hold.
    pub digests: BTreeMap<u64, u128>,
    /// Highest LSN that anyone was ever told.
    pub told: u64,
    /// Engine time of the newest command of the base.
    pub base_time: Millis,
}

impl Model {
    /// Takes a command in. `changes` holds those of volatile keyspaces too.
    pub fn commit(&mut self, mut commit: Commit) {
        commit.changes.iter().for_each(|change| self.now.apply(change));
        if commit.lsn == 0 {
            return;
        }
        commit.changes.retain(|change| !SPACES[change.space()].volatile || matches!(change, Change::Make { .. }));
        self.told = self.told.max(commit.lsn);
        self.digests.insert(commit.lsn, self.now.digest);
        self.commits.push(commit);
    }

    /// The state after a command, as a recovery must give it.
    pub fn state_at(&self, lsn: u64) -> State {
        let mut state = self.base.clone();
        state.drop_volatile();
        let changes = self.commits.iter().filter(|commit| commit.lsn <= lsn).flat_map(|commit| &commit.changes);
        changes.for_each(|change| state.apply(change));
        state
    }

    /// The digest after a command.
    pub fn digest_at(&self, lsn: u64) -> u128 {
        self.digests.range(..=lsn).next_back().map_or(0, |(_, digest)| *digest)
    }

    /// Whether the state after a command is still known record by record.
    pub fn knows(&self, lsn: u64) -> bool {
        lsn >= self.base_lsn
    }

    /// Engine time of the newest command up to an LSN.
    pub fn time_at(&self, lsn: u64) -> Millis {
        let times = self.commits.iter().filter(|commit| commit.lsn <= lsn).map(|commit| commit.time);
        times.fold(self.base_time, Millis::max)
    }

    /// A recovery has ended at an LSN: what is behind it is lost for good, what is before it is the new base.
    pub fn recovered(&mut self, lsn: u64, state: State) {
        self.base_time = self.time_at(lsn);
        self.digests.retain(|of, _| *of <= lsn);
        self.commits.clear();
        self.now = state.clone();
        self.base = state;
        self.base_lsn = lsn;
    }
}
