//! Whether the disk is so full that only what shrinks the store may still be appended.
//! Guarantees: one look at an atomic on the write path; whoever asked is told of each change, once.
//! Must not know: disks, how much the reserve is.
//! Next: ../maintenance/space.rs measures and decides; core/transaction.rs asks.

use crate::error::Full;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Room on the disk, as the maintenance driver last saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceNow {
    /// Whether writes that grow the store are refused.
    pub is_low: bool,
    /// Bytes free on the file system.
    pub free_bytes: u64,
    /// Bytes that writes which grow the store leave alone.
    pub reserve_bytes: u64,
    /// How often it became low since the store was opened.
    pub low_count: u64,
    /// Writes refused for it.
    pub refused_count: u64,
}

type Hook = Box<dyn Fn(SpaceNow) + Send + Sync>;

/// The state that callers and the maintenance driver share.
#[derive(Default)]
pub struct Reserve {
    is_low: AtomicBool,
    free_bytes: AtomicU64,
    reserve_bytes: AtomicU64,
    low_count: AtomicU64,
    refused_count: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

impl Reserve {
    /// An error if the store may not grow now.
    pub fn check_growth(&self) -> Result<(), Full> {
        if !self.is_low.load(Ordering::Relaxed) {
            return Ok(());
        }
        crate::mark!("log.growth_refused");
        self.refused_count.fetch_add(1, Ordering::Relaxed);
        Err(Full::Disk)
    }

    /// Takes note of a measurement.
    pub fn set(&self, free_bytes: u64, reserve_bytes: u64, is_low: bool) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.reserve_bytes.store(reserve_bytes, Ordering::Relaxed);
        if self.is_low.swap(is_low, Ordering::SeqCst) == is_low {
            return;
        }
        self.low_count.fetch_add(u64::from(is_low), Ordering::Relaxed);
        if let Some(hook) = &*self.hook.lock() {
            hook(self.now());
        }
    }

    /// Whom to tell of changes; at once, if it is low already.
    pub fn on_change(&self, hook: Hook) {
        let mut place = self.hook.lock();
        if self.is_low.load(Ordering::SeqCst) {
            hook(self.now());
        }
        *place = Some(hook);
    }

    /// Reads it.
    pub fn now(&self) -> SpaceNow {
        SpaceNow {
            is_low: self.is_low.load(Ordering::SeqCst),
            free_bytes: self.free_bytes.load(Ordering::Relaxed),
            reserve_bytes: self.reserve_bytes.load(Ordering::Relaxed),
            low_count: self.low_count.load(Ordering::Relaxed),
            refused_count: self.refused_count.load(Ordering::Relaxed),
        }
    }
}
