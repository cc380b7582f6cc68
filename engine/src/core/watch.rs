//! Tells a reader whether a key was changed since it looked: what optimistic transactions stand on.
//! Guarantees: exact; every change of the key after `watch` returned is noticed, at no cost where nothing is watched.
//! Must not know: who watches.
//! Next: shard.rs calls `touch` for every change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches one key until dropped.
#[derive(Clone, Debug)]
pub struct Watch {
    flag: Arc<AtomicBool>,
}

impl Watch {
    /// Whether the key was changed. Exact inside a transaction whose scope holds the key.
    pub fn is_touched(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

type Flags = Vec<Arc<AtomicBool>>;

/// The watched keys of one shard.
#[derive(Debug, Default)]
pub struct Watched {
    keys: HashMap<(u16, Box<[u8]>), Flags>,
}

impl Watched {
    /// Starts watching a key.
    pub fn watch(&mut self, keyspace: u16, key: &[u8]) -> Watch {
        self.drop_abandoned();
        let flag = Arc::new(AtomicBool::new(false));
        let flags = self.keys.entry((keyspace, key.into())).or_default();
        if flags.len() >= 8 && flags.len().is_power_of_two() {
            flags.retain(|flag| Arc::strong_count(flag) > 1);
        }
        flags.push(Arc::clone(&flag));
        Watch { flag }
    }

    /// Notes a change of a key.
    pub fn touch(&mut self, keyspace: u16, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        if let Some(flags) = self.keys.remove(&(keyspace, Box::from(key))) {
            flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
        }
    }

    /// Notes that a whole keyspace was cleared; `held` says whether a key was there to be removed.
    pub fn touch_cleared(&mut self, keyspace: u16, held: impl Fn(&[u8]) -> bool) {
        self.keys.retain(|(of, key), flags| {
            let touched = *of == keyspace && held(key);
            if touched {
                flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
            }
            !touched
        });
    }

    /// Forgets keys that nobody watches any more; amortised by doing it only when the table has grown.
    fn drop_abandoned(&mut self) {
        if self.keys.len() < 64 || !self.keys.len().is_power_of_two() {
            return;
        }
        self.keys.retain(|_, flags| {
            flags.retain(|flag| Arc::strong_count(flag) > 1);
            !flags.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_watched_key_is_noticed_and_others_are_not() {
        let mut watched = Watched::default();
        let (one, other) = (watched.watch(0, b"k"), watched.watch(1, b"k"));
        watched.touch(0, b"k");
        assert!(one.is_touched());
        assert!(!other.is_touched());
    }
}
