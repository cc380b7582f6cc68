//! Loads a snapshot into a target: one job a shard, each with a disk of its own.
//! Guarantees: the target sees either all trees or an error; nothing is inserted that was not checked.
//! Must not know: the log, the manifest.
//! Next: start.rs replays the log on top.

use super::seam::{Job, Parallel, Target};
use crate::disk::Storage;
use crate::error::{Corrupt, Error};
use crate::index::{BulkBuilder, Tree};
use crate::snapshot::{BlockStream, Snapshot};
use parking_lot::Mutex;
use std::collections::BTreeMap;

type Trees = Vec<(u16, Tree)>;

/// Loads all blocks as trees; the store has the same shards as the snapshot.
pub(super) fn load_trees(
    storage: &dyn Storage,
    snapshot: &Snapshot,
    parallel: &dyn Parallel,
    target: &mut dyn Target,
) -> Result<(), Error> {
    let mut shards: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (number, block) in snapshot.blocks.iter().enumerate() {
        shards.entry(block.shard).or_default().push(number);
    }
    let results: Vec<Mutex<Option<Result<Trees, Error>>>> = shards.iter().map(|_| Mutex::new(None)).collect();
    let jobs = shards.values().zip(&results).map(|(numbers, result)| -> Job<'_> {
        Box::new(move || *result.lock() = Some(load_shard(storage, snapshot, numbers)))
    });
    parallel.run(jobs.collect());
    for (shard, result) in shards.keys().zip(results) {
        let trees = result.into_inner().expect("every job ran");
        trees?.into_iter().for_each(|(keyspace, tree)| target.tree(*shard, keyspace, tree));
    }
    Ok(())
}

fn load_shard(storage: &dyn Storage, snapshot: &Snapshot, numbers: &[usize]) -> Result<Trees, Error> {
    let mut disk = storage.disk()?;
    let mut builders: BTreeMap<u16, BulkBuilder> = BTreeMap::new();
    let mut stream = BlockStream::new(snapshot, &mut *disk, numbers)?;
    while let Some(block) = stream.next_block() {
        let (number, block) = block?;
        let place = &snapshot.blocks[number];
        let builder = builders.entry(place.keyspace).or_default();
        for record in snapshot.records(&block, number) {
            let (key, entry) = record?;
            if !builder.push(key, entry) {
                return Err(out_of_order(snapshot, place.offset, key).into());
            }
        }
    }
    Ok(builders.into_iter().map(|(keyspace, builder)| (keyspace, builder.finish())).collect())
}

fn out_of_order(snapshot: &Snapshot, offset: u64, key: &[u8]) -> Corrupt {
    Corrupt {
        what: "snapshot block",
        file: snapshot.name.clone(),
        offset,
        case: 'h',
        expected: "keys above those of the block before it".to_owned(),
        found: key.escape_ascii().to_string(),
    }
}

/// Loads all blocks record by record; the target sorts them into its own shards.
pub(super) fn load_records(storage: &dyn Storage, snapshot: &Snapshot, target: &mut dyn Target) -> Result<(), Error> {
    crate::mark!("snapshot_rerouted");
    let mut disk = storage.disk()?;
    let numbers: Vec<usize> = (0..snapshot.blocks.len()).collect();
    let mut stream = BlockStream::new(snapshot, &mut *disk, &numbers)?;
    while let Some(block) = stream.next_block() {
        let (number, block) = block?;
        let keyspace = snapshot.blocks[number].keyspace;
        for record in snapshot.records(&block, number) {
            let (key, entry) = record?;
            target.record(keyspace, key, entry);
        }
    }
    Ok(())
}
