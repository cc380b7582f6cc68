//! Effects of the log on their way into the shards, gathered so that all shards can take theirs at the same time.
//! Guarantees: each shard takes its effects in the order of the log, so the result is the one of taking them one by one.
//! Must not know: frames, LSNs, who has threads.
//! Next: replay.rs fills and empties it.

use super::shard::Shard;
use super::shards::Shards;
use crate::canary::{Canary, planted};
use crate::format::command::Effect;
use crate::index::Entry;
use crate::recovery::{Job, Parallel};

/// Bytes of keys and values from which the shards take what was gathered: some ten milliseconds of work.
const GATHERED_BYTES: usize = 8 << 20;

/// Effects by shard.
#[derive(Default)]
pub struct Gathered {
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    steps: Vec<Vec<Step>>,
}

/// One effect; its key begins at `at` in the bytes, and its value follows.
struct Step {
    kind: Kind,
    keyspace: u16,
    key_bytes: u16,
    value_bytes: u32,
    at: usize,
    expiry_millis: u64,
}

enum Kind {
    Put,
    Delete,
    Expire,
}

impl Gathered {
    /// Takes an effect on one key in; its shard is `shard`. False, and nothing done, for any other.
    pub fn push(&mut self, shard: usize, effect: &Effect<'_>) -> bool {
        let (kind, keyspace, key, value, expiry_millis) = match *effect {
            Effect::Put { keyspace, key, value, expiry_millis } => (Kind::Put, keyspace, key, value, expiry_millis),
            Effect::Delete { keyspace, key } => (Kind::Delete, keyspace, key, &[][..], 0),
            Effect::Expire { keyspace, key, expiry_millis } => (Kind::Expire, keyspace, key, &[][..], expiry_millis),
            Effect::Clear { .. } | Effect::Keyspace(_) | Effect::Procedure { .. } => return false,
        };
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        if shard >= self.steps.len() {
            self.steps.resize_with(shard + 1, Vec::new);
        }
        let key_bytes = u16::try_from(key.len()).expect("the decoder read it from two bytes");
        let value_bytes = u32::try_from(value.len()).expect("the decoder read it from four bytes");
        self.steps[shard].push(Step { kind, keyspace, key_bytes, value_bytes, at, expiry_millis });
        true
    }

    /// Whether there is enough for the shards to take it.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= GATHERED_BYTES
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(Vec::is_empty)
    }

    /// Has the shards take everything.
    pub fn drain(&mut self, shards: &Shards, parallel: &dyn Parallel) {
        let bytes = &self.bytes[..];
        let busy = self.steps.iter().enumerate().filter(|(_, steps)| !steps.is_empty());
        let jobs = busy.map(|(shard, steps)| -> Job<'_> {
            Box::new(move || {
                let mut shard = shards.lock(shard);
                match planted(Canary::ReplayDisorder) {
                    true => steps.iter().rev().for_each(|step| step.apply(&mut shard, bytes)),
                    false => steps.iter().for_each(|step| step.apply(&mut shard, bytes)),
                }
            })
        });
        parallel.run(jobs.collect());
        self.steps.iter_mut().for_each(Vec::clear);
        self.bytes.clear();
        self.bytes.shrink_to(2 * GATHERED_BYTES);
    }
}

impl Step {
    fn apply(&self, shard: &mut Shard, bytes: &[u8]) {
        let (key, rest) = bytes[self.at..].split_at(usize::from(self.key_bytes));
        match self.kind {
            Kind::Put => {
                let entry = Entry { value: &rest[..self.value_bytes as usize], expiry_millis: self.expiry_millis };
                shard.put(self.keyspace, key, entry);
            }
            Kind::Delete => {
                shard.delete(self.keyspace, key);
            }
            Kind::Expire => {
                shard.set_expiry(self.keyspace, key, self.expiry_millis);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::SimClock;
    use crate::core::{EngineTime, Procedures, Rebuild};
    use crate::digest::Digest;
    use crate::format::command::{Effect, FrameBuilder, KeyspaceEffect};
    use crate::options::Options;
    use crate::prng::Prng;
    use crate::recovery::{Job, Parallel};
    use crate::units::{Lsn, Millis};
    use std::sync::Arc;

    /// A thread for every job.
    struct Threads;

    impl Parallel for Threads {
        fn run<'a>(&self, jobs: Vec<Job<'a>>) {
            std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
        }
    }

    fn frame(prng: &mut Prng, lsn: u64) -> Vec<u8> {
        let mut builder = FrameBuilder::new();
        builder.start_effects();
        if lsn <= 2 {
            let name = ["one", "two"][lsn as usize - 1];
            let effect = KeyspaceEffect { keyspace: lsn as u16 - 1, level: 0, routing: 0, prefix_bytes: 0, name };
            builder.push(Effect::Keyspace(effect));
        }
        for _ in 0..if lsn <= 2 { 0 } else { 1 + prng.below(4) } {
            let (keyspace, key) = (prng.below(2) as u16, (prng.below(4000) as u32).to_be_bytes());
            let (key, expiry_millis) = (&key[..], prng.below(3) * 1000);
            let value = vec![prng.below(256) as u8; if prng.one_in(9) { 50_000 } else { 20 }];
            builder.push(match prng.below(3000) {
                0 => Effect::Clear { keyspace },
                1..600 => Effect::Delete { keyspace, key },
                600..1000 => Effect::Expire { keyspace, key, expiry_millis },
                _ => Effect::Put { keyspace, key, value: &value, expiry_millis },
            });
        }
        builder.finish().to_vec()
    }

    fn rebuilt(seed: u64, parallel: Option<Arc<Threads>>) -> (Digest, u64) {
        let time = EngineTime::start(Arc::new(SimClock::new(Millis(5))), Millis(0));
        let mut rebuild = Rebuild::new(&Options::default(), Procedures::new(), time);
        if let Some(parallel) = parallel {
            rebuild = rebuild.in_parallel(parallel);
        }
        let mut prng = Prng::new(seed);
        for lsn in 1..4000 {
            rebuild.apply(Lsn(lsn), &frame(&mut prng, lsn)).expect("effects on keyspaces that are there");
        }
        rebuild.drain();
        (rebuild.view().digest(), rebuild.finish().shards.next_due())
    }

    #[test]
    fn what_is_replayed_by_many_shards_at_once_is_what_is_replayed_one_by_one() {
        for seed in 0..4 {
            assert_eq!(rebuilt(seed, Some(Arc::new(Threads))), rebuilt(seed, None), "seed {seed}");
        }
    }
}
