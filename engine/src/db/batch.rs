//! Puts and deletes that happen together or not at all.
//! Guarantees: one command in the log, whatever the number of keys and shards.
//! Must not know: the log.
//! Next: mod.rs `Db::apply`.

use crate::core::{Keyspace, Transaction};
use crate::error::Error;
use crate::units::Millis;

/// A list of changes, applied in order by `Db::apply`.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    keyspace: Keyspace,
    key: Vec<u8>,
    put: Option<(Vec<u8>, Option<Millis>)>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a put.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8], expiry: Option<Millis>) -> &mut Batch {
        self.changes.push(Change { keyspace, key: key.to_vec(), put: Some((value.to_vec(), expiry)) });
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> &mut Batch {
        self.changes.push(Change { keyspace, key: key.to_vec(), put: None });
        self
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn keys(&self) -> Vec<(Keyspace, &[u8])> {
        self.changes.iter().map(|change| (change.keyspace, change.key.as_slice())).collect()
    }

    pub(super) fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        self.changes.iter().try_for_each(|change| match &change.put {
            Some((value, expiry)) => transaction.put(change.keyspace, &change.key, value, *expiry),
            None => {
                transaction.delete(change.keyspace, &change.key);
                Ok(())
            }
        })
    }
}
