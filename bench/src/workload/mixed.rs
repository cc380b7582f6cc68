//! A stream of operations in given shares over given records: what kv, asbench and iometer have in common.
//! Guarantees: X1 seed, run and client fix the stream; X2 clients insert records of different numbers; X3 what became of
//! each operation is counted once.
//! Must not know: targets, clocks.
//! Next: kv.rs, asbench.rs and iometer.rs make a `Mix`.

use super::distribution::{Choice, Zipfian};
use super::operation::{KeyOrder, Kind, Operation};
use super::{Outcome, Workload};
use logd_engine::prng::Prng;
use serde::Serialize;
use std::sync::Arc;

/// Result code of a read or scan that found less than it asked for.
pub const CODE_MISSING: u8 = 1;

/// Sizes of values with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<(u32, u32)>);

impl Sizes {
    /// All of one size.
    pub fn one(bytes: u32) -> Sizes {
        Sizes(vec![(1, bytes)])
    }

    /// The size of a record: always the same for one record, and over all records in the shares of the weights.
    pub fn of(&self, number: u64) -> u32 {
        let all = self.0.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut at = Prng::new(number).stream("size").below(all);
        for (weight, bytes) in &self.0 {
            match at.checked_sub(u64::from(*weight)) {
                None => return *bytes,
                Some(rest) => at = rest,
            }
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        let (weights, bytes) = self.0.iter().fold((0.0, 0.0), |(weights, sum), (weight, bytes)| {
            (weights + f64::from(*weight), sum + f64::from(*weight) * f64::from(*bytes))
        });
        bytes / weights
    }
}

/// What is asked for in which shares.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Kinds with their weights.
    pub shares: Vec<(u32, Kind)>,
    /// Which records.
    pub choice: Choice,
    /// Draws of 100 that follow the one before instead of being chosen.
    pub sequential_percent: u32,
    /// Number of the first record.
    pub first: u64,
    /// Records there at the start.
    pub records: u64,
    /// How numbers become keys.
    pub order: KeyOrder,
    /// Sizes of the values.
    pub sizes: Sizes,
    /// Longest scan.
    pub scan_max: u32,
    /// Whether each write brings new bytes.
    pub fresh_values: bool,
}

impl Mix {
    /// The operation that puts a record there before the run.
    pub fn loading(&self, number: u64) -> Operation {
        let bytes = self.sizes.of(number);
        Operation { kind: Kind::Put, order: self.order, number: self.first + number, count: 1, bytes, fill: 0 }
    }
}

/// How operations ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Done.
    pub done: u64,
    /// Reads and scans that found less than they asked for; they are done as well.
    pub missing: u64,
    /// Answered with an error.
    pub failed: u64,
    /// Without a reply.
    pub unknown: u64,
    /// Bytes of values read or written.
    pub bytes: u64,
}

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.missing += other.missing;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.bytes += other.bytes;
    }

    /// Counts one.
    pub fn note(&mut self, operation: &Operation, outcome: Outcome) {
        match outcome {
            Outcome::Code(code) => {
                self.done += 1;
                self.missing += u64::from(code == CODE_MISSING);
                self.bytes += u64::from(operation.bytes) * u64::from(operation.count);
            }
            Outcome::Aborted => self.failed += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }
}

/// The stream of one client.
pub struct MixedWorkload {
    mix: Arc<Mix>,
    zipfian: Option<Arc<Zipfian>>,
    prng: Prng,
    client: u64,
    clients: u64,
    inserted: u64,
    cursor: u64,
    weights: u64,
    run: u64,
    /// What became of the measured operations.
    pub counts: Counts,
}

impl MixedWorkload {
    /// The stream of client `client` of `clients` in run `run`. `zipfian`: shared, over the records of the mix.
    pub fn new(mix: &Arc<Mix>, zipfian: &Option<Arc<Zipfian>>, seed: u64, run: u64, client: u32, clients: u32) -> Self {
        let weights = mix.shares.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let cursor = mix.records * u64::from(client) / u64::from(clients);
        MixedWorkload {
            mix: Arc::clone(mix),
            zipfian: zipfian.clone(),
            prng: Prng::new(seed).stream(&format!("run {run} client {client}")),
            client: u64::from(client),
            clients: u64::from(clients),
            inserted: 0,
            cursor,
            weights,
            run,
            counts: Counts::default(),
        }
    }

    fn kind(&mut self) -> Kind {
        let mut at = self.prng.below(self.weights);
        for (weight, kind) in &self.mix.shares {
            match at.checked_sub(u64::from(*weight)) {
                None => return *kind,
                Some(rest) => at = rest,
            }
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }

    /// A record that is there: one of the start, or one this client inserted.
    fn existing(&mut self) -> u64 {
        if self.mix.sequential_percent > 0 && self.prng.below(100) < u64::from(self.mix.sequential_percent) {
            self.cursor = (self.cursor + 1) % self.mix.records;
            return self.cursor;
        }
        self.cursor = match (self.mix.choice, &self.zipfian) {
            (Choice::Zipfian, Some(zipfian)) => zipfian.scattered(&mut self.prng),
            (Choice::Latest, Some(zipfian)) => {
                let age = zipfian.rank(&mut self.prng);
                return self.by_age(age);
            }
            _ => self.prng.below(self.mix.records),
        };
        self.cursor
    }

    fn by_age(&self, age: u64) -> u64 {
        match self.inserted.checked_sub(age + 1) {
            Some(place) => self.own(place),
            None => self.mix.records - 1 - (age - self.inserted).min(self.mix.records - 1),
        }
    }

    /// The number of this client's insert: each run begins where no earlier run can have been.
    fn own(&self, place: u64) -> u64 {
        ((self.run + 1) << 40) + self.mix.records + self.client + place * self.clients
    }
}

/// Builds the shared table for a mix, if it needs one.
pub fn zipfian_of(mix: &Mix) -> Option<Arc<Zipfian>> {
    (mix.choice != Choice::Uniform).then(|| Arc::new(Zipfian::new(mix.records)))
}

impl Workload for MixedWorkload {
    type Request = Operation;

    fn next(&mut self) -> Operation {
        let kind = self.kind();
        let number = if kind == Kind::Insert {
            self.inserted += 1;
            self.own(self.inserted - 1)
        } else {
            self.existing()
        };
        let count = if kind == Kind::Scan { 1 + self.prng.below(u64::from(self.mix.scan_max)) as u32 } else { 1 };
        let fill = if self.mix.fresh_values && kind.writes() { self.prng.next_u64() } else { 0 };
        let bytes = self.mix.sizes.of(number);
        // A scan begins early enough to find as many records as it asks for.
        let number =
            if kind == Kind::Scan { number.min(self.mix.records.saturating_sub(u64::from(count))) } else { number };
        Operation { kind, order: self.mix.order, number: self.mix.first + number, count, bytes, fill }
    }

    fn note(&mut self, operation: &Operation, outcome: Outcome, measured: bool) {
        if measured {
            self.counts.note(operation, outcome);
        }
    }

    fn class(&self, operation: &Operation) -> usize {
        operation.kind as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(shares: &[(u32, Kind)], choice: Choice) -> Arc<Mix> {
        Arc::new(Mix {
            shares: shares.to_vec(),
            choice,
            sequential_percent: 0,
            first: 0,
            records: 1000,
            order: KeyOrder::Counted,
            sizes: Sizes(vec![(1, 100), (3, 200)]),
            scan_max: 10,
            fresh_values: true,
        })
    }

    fn stream(mix: &Arc<Mix>, client: u32, count: usize) -> Vec<Operation> {
        let mut workload = MixedWorkload::new(mix, &zipfian_of(mix), 1, 0, client, 4);
        (0..count).map(|_| workload.next()).collect()
    }

    #[test]
    fn seed_and_client_fix_the_stream() {
        let mix = mix(&[(50, Kind::Read), (50, Kind::Put)], Choice::Zipfian);
        assert_eq!(stream(&mix, 0, 100), stream(&mix, 0, 100));
        assert_ne!(stream(&mix, 0, 100), stream(&mix, 1, 100));
    }

    #[test]
    fn kinds_and_sizes_come_in_their_shares() {
        let operations = stream(&mix(&[(80, Kind::Read), (20, Kind::Put)], Choice::Uniform), 0, 20_000);
        let reads = operations.iter().filter(|operation| operation.kind == Kind::Read).count();
        assert!((15_600..16_400).contains(&reads), "{reads}");
        let small = operations.iter().filter(|operation| operation.bytes == 100).count();
        assert!((4000..6000).contains(&small), "{small}");
    }

    #[test]
    fn clients_never_insert_the_same_record_and_latest_reads_only_what_is_there() {
        let mix = mix(&[(50, Kind::Insert), (50, Kind::Read)], Choice::Latest);
        let mut inserted = std::collections::BTreeSet::new();
        for client in 0..4 {
            for operation in stream(&mix, client, 1000) {
                match operation.kind {
                    Kind::Insert => assert!(inserted.insert(operation.number)),
                    _ => assert!(operation.number < 1000 || inserted.contains(&operation.number)),
                }
            }
        }
    }

    #[test]
    fn a_sequential_client_walks_on_and_wraps() {
        let mix = Mix { sequential_percent: 100, ..(*mix(&[(1, Kind::Read)], Choice::Uniform)).clone() };
        let numbers: Vec<u64> = stream(&Arc::new(mix), 3, 300).iter().map(|operation| operation.number).collect();
        assert_eq!((numbers[0], numbers[248], numbers[249]), (751, 999, 0));
    }

    #[test]
    fn a_scan_starts_where_it_can_find_all_it_asks_for() {
        let operations = stream(&mix(&[(1, Kind::Scan)], Choice::Uniform), 0, 5000);
        assert!(operations.iter().all(|scan| scan.number + u64::from(scan.count) <= 1000));
        assert!(operations.iter().all(|scan| (1..=10).contains(&scan.count)));
    }
}
