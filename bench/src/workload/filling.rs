//! Inserts every record of a mix once: the insert phase of asbench.
//! Guarantees: the clients' shares are disjoint and together are all records.
//! Must not know: targets.
//! Next: mixed.rs.

use super::mixed::{Counts, Mix};
use super::operation::{Kind, Operation};
use super::{Outcome, Workload};
use std::sync::Arc;

/// One client's inserts.
pub struct FillingWorkload {
    mix: Arc<Mix>,
    next: u64,
    step: u64,
    /// What became of them.
    pub counts: Counts,
}

impl FillingWorkload {
    /// Client `client` of `clients`.
    pub fn new(mix: &Arc<Mix>, client: u32, clients: u32) -> FillingWorkload {
        let (next, step) = (u64::from(client), u64::from(clients));
        FillingWorkload { mix: Arc::clone(mix), next, step, counts: Counts::default() }
    }
}

impl Workload for FillingWorkload {
    type Request = Operation;

    fn next(&mut self) -> Operation {
        let number = self.next;
        self.next += self.step;
        Operation { kind: Kind::Insert, ..self.mix.loading(number) }
    }

    fn note(&mut self, operation: &Operation, outcome: Outcome, _measured: bool) {
        self.counts.note(operation, outcome);
    }

    fn class(&self, operation: &Operation) -> usize {
        operation.kind as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::kv::Letter;
    use super::*;

    #[test]
    fn all_records_are_inserted_once_over_all_clients() {
        let mix = Arc::new(Letter::Put.mix(10, 5, None));
        let shares = [4, 3, 3];
        let mut numbers: Vec<u64> = Vec::new();
        for (client, share) in shares.into_iter().enumerate() {
            let mut filling = FillingWorkload::new(&mix, client as u32, 3);
            assert_eq!(crate::measure::share(10, client as u32, 3), share);
            numbers.extend((0..share).map(|_| filling.next().number));
        }
        numbers.sort();
        assert!(numbers.into_iter().eq(0..10));
    }
}
