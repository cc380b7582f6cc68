//! The device and its file system: operations in flight, and what they do when their time has come.
//! Guarantees: an operation takes effect at its completion, in the order of their due steps; a dead medium does nothing.
//! Must not know: open files of users; operations come with the file's node.
//! Next: crash.rs.

use super::super::sleeper::Sleeper;
use super::super::{Buffer, Completion, DiskError, DiskErrorKind};
use super::SimOptions;
use super::faults::{Faults, SimOperation};
use super::tree::{NodeId, Tree};
use crate::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

/// What was done to a medium since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounts {
    /// Writes, durable ones included.
    pub writes: u64,
    /// Durable writes.
    pub writes_durable: u64,
    /// Reads.
    pub reads: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
}

/// A simulated medium.
pub(super) struct Medium {
    pub(super) options: SimOptions,
    pub(super) tree: Tree,
    pub(super) faults: Faults,
    pub(super) counts: SimCounts,
    pub(super) locks: BTreeSet<String>,
    pub(super) sleepers: Vec<Weak<Sleeper>>,
    pub(super) paused: bool,
    pub(super) dead: bool,
    pub(super) prng: Prng,
    pub(super) in_flight: Vec<InFlight>,
    /// What was in flight when the medium died at an operation of its own choice.
    pub(super) left: Vec<InFlight>,
    /// Operations until it dies.
    pub(super) doom: Option<u64>,
    open_counts: BTreeMap<NodeId, u64>,
    done: Vec<(u64, Completion)>,
    step: u64,
    users: u64,
}

/// An operation in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) user: u64,
    pub(super) token: u64,
    pub(super) node: NodeId,
    pub(super) name: String,
    pub(super) due: u64,
    pub(super) work: Work,
}

/// What it will do.
#[derive(Debug)]
pub(super) enum Work {
    Write {
        place: usize,
        buffer: Buffer,
        durable: bool,
    },
    Read {
        place: usize,
        buffer: Buffer,
    },
    /// `sequence`: the last change that was complete when the sync was submitted.
    Sync {
        sequence: u64,
    },
}

impl InFlight {
    fn copy(&self) -> InFlight {
        let copy_of = |buffer: &Buffer| {
            let mut copy = Buffer::zeroed(buffer.len());
            copy.copy_from_slice(buffer);
            copy
        };
        let work = match &self.work {
            Work::Write { place, buffer, durable } => {
                Work::Write { place: *place, buffer: copy_of(buffer), durable: *durable }
            }
            Work::Read { place, buffer } => Work::Read { place: *place, buffer: copy_of(buffer) },
            Work::Sync { sequence } => Work::Sync { sequence: *sequence },
        };
        InFlight { name: self.name.clone(), work, ..*self }
    }
}

impl Medium {
    pub(super) fn new(options: SimOptions) -> Medium {
        let prng = Prng::new(options.seed).stream("disk");
        Medium::with(options, Tree::new(), prng)
    }

    /// A medium that holds a tree and nothing in flight.
    pub(super) fn with(options: SimOptions, tree: Tree, prng: Prng) -> Medium {
        Medium {
            options,
            tree,
            faults: Faults::default(),
            counts: SimCounts::default(),
            locks: BTreeSet::new(),
            sleepers: Vec::new(),
            paused: false,
            dead: false,
            prng,
            in_flight: Vec::new(),
            left: Vec::new(),
            doom: None,
            open_counts: BTreeMap::new(),
            done: Vec::new(),
            step: 0,
            users: 0,
        }
    }

    /// The same once more, with nobody who uses it.
    pub(super) fn fork(&self) -> Medium {
        let copies = |flights: &[InFlight]| flights.iter().map(InFlight::copy).collect();
        let mut fork = Medium::with(self.options.clone(), self.tree.clone(), self.prng.stream("fork"));
        (fork.in_flight, fork.left) = (copies(&self.in_flight), copies(&self.left));
        fork
    }

    pub(super) fn new_user(&mut self) -> u64 {
        self.users += 1;
        self.users
    }

    pub(super) fn submit(&mut self, user: u64, token: u64, node: NodeId, name: &str, work: Work) {
        let latency = self.options.latency_steps_max;
        let steps = if latency == 0 { 0 } else { 1 + self.prng.below(latency) };
        let due = self.step + steps;
        self.in_flight.push(InFlight { user, token, node, name: name.to_owned(), due, work });
        self.count_down();
        self.advance(0);
    }

    /// Lets steps pass and completes what is due.
    pub(super) fn advance(&mut self, steps: u64) {
        self.step += steps;
        if self.paused && !self.dead {
            return;
        }
        let mut due: Vec<InFlight> =
            self.in_flight.extract_if(.., |operation| self.dead || operation.due <= self.step).collect();
        due.sort_by_key(|operation| operation.due);
        for operation in due {
            self.complete(operation);
        }
    }

    /// Lets time pass until something of a user is due. False if nothing of it can complete by itself.
    pub(super) fn advance_for(&mut self, user: u64) -> bool {
        let due = self.in_flight.iter().filter(|operation| operation.user == user).map(|operation| operation.due).min();
        match due {
            Some(due) if !self.paused => {
                self.advance(due.saturating_sub(self.step));
                true
            }
            _ => false,
        }
    }

    pub(super) fn has_done(&self, user: u64) -> bool {
        self.done.iter().any(|(owner, _)| *owner == user)
    }

    pub(super) fn take_done(&mut self, user: u64, done: &mut Vec<Completion>) {
        let mine = self.done.extract_if(.., |(owner, _)| *owner == user);
        done.extend(mine.map(|(_, completion)| completion));
    }

    pub(super) fn is_in_flight(&self, user: u64, node: NodeId) -> bool {
        self.in_flight.iter().any(|operation| operation.user == user && operation.node == node)
    }

    /// A user puts an operation of its own on the list of what ended, without the medium.
    pub(super) fn refuse(&mut self, user: u64, completion: Completion) {
        self.done.push((user, completion));
    }

    /// A user is gone: nothing of it is in flight any more, and nobody asks for its completions.
    pub(super) fn forget_user(&mut self, user: u64) {
        let left: Vec<InFlight> = self.in_flight.extract_if(.., |operation| operation.user == user).collect();
        left.into_iter().for_each(|operation| self.complete(operation));
        self.done.retain(|(owner, _)| *owner != user);
    }

    pub(super) fn opened(&mut self, node: NodeId) {
        *self.open_counts.entry(node).or_insert(0) += 1;
    }

    pub(super) fn closed(&mut self, node: NodeId) {
        let count = self.open_counts.get_mut(&node).expect("what is closed was opened");
        *count -= 1;
        if *count == 0 {
            self.open_counts.remove(&node);
        }
    }

    pub(super) fn sweep(&mut self) {
        let open = &self.open_counts;
        self.tree.forget_unreachable(|node| open.contains_key(&node));
    }

    /// Room for files that is not taken.
    pub(super) fn free_bytes(&self) -> u64 {
        self.options.capacity_bytes.saturating_sub(self.tree.bytes())
    }

    pub(super) fn wake_all(&mut self) {
        self.sleepers.retain(|sleeper| sleeper.upgrade().inspect(|sleeper| sleeper.wake()).is_some());
    }

    /// The medium is gone: whatever is in flight fails.
    pub(super) fn die(&mut self) {
        self.dead = true;
        self.advance(0);
        self.wake_all();
    }

    /// Counts an operation, whatever its kind; at the one that was chosen the medium dies, with what is in flight left open.
    pub(super) fn count_down(&mut self) {
        match &mut self.doom {
            Some(0) => {
                self.doom = None;
                self.left = self.in_flight.iter().map(InFlight::copy).collect();
                self.die();
            }
            Some(left) => *left -= 1,
            None => {}
        }
    }

    fn complete(&mut self, operation: InFlight) {
        let InFlight { user, token, node, name, work, .. } = operation;
        let (word, buffer, result) = match work {
            _ if self.dead => ("use", buffer_of(work), Err(dead())),
            Work::Write { place, buffer, durable } => {
                let result = self.write(node, place, &buffer, durable);
                ("write", Some(buffer), result)
            }
            Work::Read { place, mut buffer } => {
                let result = self.read(node, place, &mut buffer);
                ("read", Some(buffer), result)
            }
            Work::Sync { sequence } => ("sync", None, self.sync(node, sequence)),
        };
        let result = result.map_err(|kind| DiskError { operation: word, file: name, kind });
        self.done.push((user, Completion { token, buffer, result }));
    }

    fn write(&mut self, node: NodeId, place: usize, bytes: &[u8], durable: bool) -> Result<(), DiskErrorKind> {
        self.counts.writes += 1;
        self.counts.writes_durable += u64::from(durable);
        self.counts.written_bytes += bytes.len() as u64;
        let growth = (place + bytes.len()).saturating_sub(self.tree.file(node).content().len());
        if growth as u64 > 0 && growth as u64 > self.free_bytes() {
            return Err(DiskErrorKind::Full);
        }
        let fault = self.faults.strike(SimOperation::Write);
        let file = self.tree.file_mut(node);
        match fault {
            Some(kind) => {
                file.write_torn(place, bytes, &mut self.prng);
                return Err(kind);
            }
            None if durable => file.write_durable(place, bytes),
            None => file.write(place, bytes),
        }
        Ok(())
    }

    fn read(&mut self, node: NodeId, place: usize, buffer: &mut Buffer) -> Result<(), DiskErrorKind> {
        self.counts.reads += 1;
        self.counts.read_bytes += buffer.len() as u64;
        if let Some(kind) = self.faults.strike(SimOperation::Read) {
            return Err(kind);
        }
        let content = self.tree.file(node).content();
        match content.get(place..place + buffer.len()) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let there = content.len().saturating_sub(place);
                Err(DiskErrorKind::Io(format!("only {there} of {} bytes", buffer.len())))
            }
        }
    }

    fn sync(&mut self, node: NodeId, sequence: u64) -> Result<(), DiskErrorKind> {
        self.counts.syncs += 1;
        let fault = self.faults.strike(SimOperation::Sync);
        let file = self.tree.file_mut(node);
        match fault {
            Some(kind) => {
                file.abandon(sequence);
                Err(kind)
            }
            None => {
                file.sync(sequence);
                Ok(())
            }
        }
    }
}

/// What every operation on a dead medium gets.
pub(super) fn dead() -> DiskErrorKind {
    DiskErrorKind::Io("the simulated machine is off".to_owned())
}

fn buffer_of(work: Work) -> Option<Buffer> {
    match work {
        Work::Write { buffer, .. } | Work::Read { buffer, .. } => Some(buffer),
        Work::Sync { .. } => None,
    }
}
