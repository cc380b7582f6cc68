//! A disk in memory that forgets, tears, reorders and fails on demand (feature `sim`).
//! Guarantees: keeps the contract and nothing beyond it; same options and calls, same outcome; never slow.
//! Must not know: what the bytes mean.
//! Next: file.rs is the heart: what of a file outlives a power cut. tree.rs has the names, medium.rs both together,
//! disk.rs one user, crash.rs the end of it all, faults.rs what goes wrong before.

mod crash;
mod disk;
mod faults;
mod file;
mod medium;
mod tree;

pub use faults::{SimFault, SimOperation};
pub use medium::SimCounts;

use super::sleeper::Sleeper;
use super::{Disk, DiskError, Storage};
use crate::prng::Prng;
use medium::Medium;
use parking_lot::Mutex;
use std::sync::Arc;

/// How a simulated medium behaves.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Where its randomness starts.
    pub seed: u64,
    /// An operation takes from 1 to so many steps, drawn for each, so that they end in any order.
    /// A step passes when a user waits, or by `SimStorage::step`. 0: everything is done when it was submitted.
    pub latency_steps_max: u64,
    /// Room for files in bytes.
    pub capacity_bytes: u64,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions { seed: 0, latency_steps_max: 0, capacity_bytes: 1 << 40 }
    }
}

/// A handle on one simulated medium; clones mean the same one.
#[derive(Clone)]
pub struct SimStorage {
    medium: Arc<Mutex<Medium>>,
}

impl SimStorage {
    /// An empty medium.
    pub fn new(options: SimOptions) -> SimStorage {
        SimStorage::with(Medium::new(options))
    }

    fn with(medium: Medium) -> SimStorage {
        SimStorage { medium: Arc::new(Mutex::new(medium)) }
    }

    /// Cuts the power. The old disks fail from now on; the new medium is one of those the contract allows.
    pub fn crash(&self, prng: &mut Prng) -> SimStorage {
        SimStorage::with(crash::cut_power(&mut self.medium.lock(), prng))
    }

    /// Kills the process. All that was written is there, synced or not; what was in flight happened, in part too, or did not;
    /// the locks are free and the old disks fail from now on.
    pub fn kill(&self) -> SimStorage {
        SimStorage::with(crash::kill_process(&mut self.medium.lock()))
    }

    /// Another medium with the same files, synced or not, and nothing in flight; this one goes on.
    pub fn copy(&self) -> SimStorage {
        let medium = self.medium.lock();
        SimStorage::with(Medium::with(medium.options.clone(), medium.tree.clone(), medium.prng.stream("copy")))
    }

    /// Another medium in the same state, with what is in flight; this one goes on.
    pub fn fork(&self) -> SimStorage {
        SimStorage::with(self.medium.lock().fork())
    }

    /// Arranges for a failure.
    pub fn fail(&self, fault: SimFault) {
        self.medium.lock().faults.add(fault);
    }

    /// Forgets all arranged failures.
    pub fn clear_faults(&self) {
        self.medium.lock().faults.clear();
    }

    /// Has the machine end at an operation to come, `skip` others going well before: inside a recovery or a checkpoint, say.
    /// Everything fails from then on, and `crash` or `kill` give the medium of that moment.
    pub fn die_after(&self, skip: u64) {
        self.medium.lock().doom = Some(skip);
    }

    /// Whether the machine has ended.
    pub fn is_dead(&self) -> bool {
        self.medium.lock().dead
    }

    /// How many operations have failed by arrangement so far.
    pub fn faults_struck(&self) -> u64 {
        self.medium.lock().faults.struck
    }

    /// Writes and syncs of files that failed by arrangement so far.
    pub fn writes_struck(&self) -> u64 {
        self.medium.lock().faults.struck_writes
    }

    /// Changes the room for files; it may become less than is in use.
    pub fn set_capacity(&self, bytes: u64) {
        self.medium.lock().options.capacity_bytes = bytes;
    }

    /// Flips the bits of `mask` in one byte of a file, on the medium itself. Panics if there is no such byte.
    pub fn corrupt(&self, name: &str, place: u64, mask: u8) {
        self.medium.lock().tree.file_named_mut(name).expect("there is a file to corrupt").corrupt(place, mask);
    }

    /// Puts a file there, synced, with its name and the directories above it.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.medium.lock().tree.put(name, bytes);
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) {
        let removed = self.medium.lock().tree.remove(name);
        assert!(removed.is_ok(), "there is a file to remove");
    }

    /// What a file holds now, synced or not.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.medium.lock().tree.file_named_mut(name).map(|file| file.content().to_vec())
    }

    /// The names of all files, in order.
    pub fn names(&self) -> Vec<String> {
        self.medium.lock().tree.file_names()
    }

    /// Lets one step pass: what is due completes.
    pub fn step(&self) {
        self.medium.lock().advance(1);
    }

    /// Holds all operations back, as a stuck device does, until `resume`.
    pub fn pause(&self) {
        self.medium.lock().paused = true;
    }

    /// Lets them go on.
    pub fn resume(&self) {
        let mut medium = self.medium.lock();
        medium.paused = false;
        medium.advance(0);
        medium.wake_all();
    }

    /// How much was done so far.
    pub fn counts(&self) -> SimCounts {
        self.medium.lock().counts
    }
}

impl Storage for SimStorage {
    fn disk(&self) -> Result<Box<dyn Disk>, DiskError> {
        let sleeper = Arc::new(Sleeper::default());
        self.medium.lock().sleepers.push(Arc::downgrade(&sleeper));
        Ok(Box::new(disk::SimDisk::new(Arc::clone(&self.medium), sleeper)))
    }

    fn place(&self) -> String {
        "simulated".to_owned()
    }
}

#[cfg(test)]
mod tests;
