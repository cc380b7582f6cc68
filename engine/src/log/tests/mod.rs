//! The log as a whole on a small disk in memory.
//! Guarantees: time stands still unless a test moves it, and nothing runs that a test does not step.
//! Must not know: the store above.
//! Next: one file for each promise.

mod durability;
mod random;
#[cfg(feature = "sim")]
mod simulated;
mod space;
mod tails;
mod waiting;

use super::test_disk::TestStorage;
use super::*;
use crate::disk::Disk;
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::format::StoreId;
use crate::format::command::{Effect, FrameBuilder};
use crate::units::{Lsn, Millis, Nanos};
use std::sync::Arc;

const STORE: StoreId = StoreId(*b"a store of tests");
const LAG: Nanos = Nanos(1000);

fn options() -> LogOptions {
    LogOptions {
        lag: LAG,
        lag_bytes: 1 << 30,
        segment_bytes: 64 << 10,
        batch_bytes_max: 32 << 10,
        batches_in_flight_max: 2,
        log_bytes_max: None,
    }
}

/// A frame that says which one it is.
fn frame(number: u64, value_bytes: usize) -> Vec<u8> {
    let mut builder = FrameBuilder::new();
    builder.start_effects();
    let value = vec![number as u8 | 1; value_bytes];
    builder.push(Effect::Put { keyspace: 1, key: &number.to_le_bytes(), value: &value, expiry_millis: 0 });
    let mut frame = builder.body().to_vec();
    let mut bytes = (frame.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[1, 0, 0, 0]);
    bytes.append(&mut frame);
    bytes
}

struct Rig {
    storage: TestStorage,
    disk: Box<dyn Disk>,
    log: Arc<Log>,
    writer: LogWriter,
    preparer: Preparer,
    now: Nanos,
}

impl Rig {
    fn new(options: LogOptions) -> Rig {
        Rig::start(TestStorage::new(), &LogPosition::fresh(STORE), options)
    }

    fn start(storage: TestStorage, position: &LogPosition, options: LogOptions) -> Rig {
        let log = Log::new(position, options);
        let writer = LogWriter::new(storage.disk(), log.clone(), position).unwrap();
        Rig { disk: storage.disk(), preparer: Preparer::new(log.clone()), storage, log, writer, now: Nanos(0) }
    }

    /// Opens what a crash left, as a store would.
    fn reopen(storage: &TestStorage, options: LogOptions) -> (Rig, LogEnd) {
        let (end, _) = read(storage, Lsn(1), Proof::default()).unwrap();
        (Rig::start(storage.copy(), &end.position(STORE, false), options), end)
    }

    fn try_append(&mut self, level: DurabilityLevel, value_bytes: usize) -> Result<Appended, Error> {
        let number = self.log.watermarks().assigned.0 + 1;
        let stamp = Stamp { now: self.now, time: Millis(self.now.0 + 5), wall: Millis(7) };
        self.log.append(&frame(number, value_bytes), level, Purpose::Grow, stamp)
    }

    /// Appends, preparing a segment and stepping the writer where that is what is missing.
    fn append(&mut self, level: DurabilityLevel, value_bytes: usize) -> Lsn {
        for _ in 0..100 {
            match self.try_append(level, value_bytes) {
                Ok(appended) => return appended.lsn,
                Err(Error::Refused(Refused::Busy)) => {
                    self.prepare();
                    self.writer.step(self.now);
                }
                Err(error) => panic!("append failed: {error}"),
            }
        }
        panic!("busy for ever");
    }

    fn prepare(&mut self) -> PrepareNext {
        loop {
            match self.preparer.step(&mut *self.disk, self.now) {
                PrepareNext::Again => {}
                next => return next,
            }
        }
    }

    /// Steps until nothing is left to do without waiting for time.
    fn settle(&mut self) -> Next {
        loop {
            self.prepare();
            match self.writer.step(self.now) {
                Next::Again | Next::Disk => {}
                next => return next,
            }
        }
    }

    fn synced(&mut self, value_bytes: usize) -> Lsn {
        let lsn = self.append(DurabilityLevel::Synced, value_bytes);
        self.settle();
        assert!(self.log.is_released(lsn, DurabilityLevel::Synced));
        lsn
    }

    fn operations(&self) -> Vec<String> {
        std::mem::take(&mut self.storage.0.lock().operations)
    }
}

/// Reads a log: its end, and the LSNs visited. Every frame is checked against `frame`'s own pattern.
fn read(storage: &TestStorage, from: Lsn, proof: Proof) -> Result<(LogEnd, Vec<u64>), Error> {
    let mut seen = Vec::new();
    let end = scan(&mut *storage.disk(), STORE, from, proof, &mut |batch| {
        for (lsn, bytes) in batch.frames() {
            // Behind the frame's header: kind of effect, keyspace, two lengths, key, value.
            let value = &bytes[8 + 9 + 8..];
            assert!(value.iter().all(|byte| *byte == value[0]), "a frame is one command's");
            seen.push(lsn.0);
        }
        Ok(())
    })?;
    Ok((end, seen))
}

fn proof(synced: u64) -> Proof {
    Proof { synced: Lsn(synced), ..Proof::default() }
}
