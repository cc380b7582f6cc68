//! Due times in order. PLACEHOLDER with the face of the real one.
use std::collections::BTreeSet;

/// Which record is due when.
#[derive(Debug, Default)]
pub struct ExpiryIndex {
    due: BTreeSet<(u64, u16, Box<[u8]>)>,
}

impl ExpiryIndex {
    /// Moves a record's due time from one to another; 0 stands for none.
    pub fn set(&mut self, keyspace: u16, key: &[u8], old_millis: u64, new_millis: u64) {
        if old_millis == new_millis {
            return;
        }
        if old_millis != 0 {
            self.due.remove(&(old_millis, keyspace, key.into()));
        }
        if new_millis != 0 {
            self.due.insert((new_millis, keyspace, key.into()));
        }
    }
    /// The earliest due time.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(millis, _, _)| *millis)
    }
    /// Up to `limit` records that are due, earliest first; they stay in the index.
    pub fn due(&self, now_millis: u64, limit: usize) -> Vec<(u16, Box<[u8]>)> {
        self.due
            .iter()
            .take_while(|(millis, _, _)| *millis <= now_millis)
            .take(limit)
            .map(|(_, k, key)| (*k, key.clone()))
            .collect()
    }
    /// Forgets a keyspace.
    pub fn clear_keyspace(&mut self, keyspace: u16) {
        self.due.retain(|(_, of, _)| *of != keyspace);
    }
    /// Number of records of one keyspace with a due time.
    pub fn len_of(&self, keyspace: u16) -> usize {
        self.due.iter().filter(|(_, of, _)| *of == keyspace).count()
    }
    /// Number of records with a due time.
    pub fn len(&self) -> usize {
        self.due.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}
