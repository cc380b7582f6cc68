//! What every store under measurement must do, as one check that the tests of each of them run.
//! Must not know: which store it is.

use super::store::StoreTarget;
use crate::driver::{Done, Session};
use crate::workload::Outcome;
use crate::workload::mixed::CODE_MISSING;
use crate::workload::operation::{KeyOrder, Kind, Operation};
use std::time::{Duration, Instant};

fn operation(kind: Kind, number: u64, count: u32) -> Operation {
    Operation { kind, order: KeyOrder::Counted, number, count, bytes: 40, fill: number }
}

fn ends(session: &mut dyn Session<Operation>, operations: &[Operation]) -> Vec<Outcome> {
    let mut done: Vec<Done> = Vec::new();
    let start = Instant::now();
    for (token, operation) in operations.iter().enumerate() {
        session.submit(token, operation);
    }
    while done.len() < operations.len() {
        session.poll(Duration::from_millis(20), &mut done).unwrap();
        assert!(start.elapsed() < Duration::from_secs(60), "operations that never end");
    }
    done.sort_by_key(|done| done.token);
    assert!(done.iter().map(|done| done.token).eq(0..operations.len()), "each ends once");
    done.iter().map(|done| done.outcome).collect()
}

/// Loads, reads, writes, scans and removes.
pub fn check(target: &dyn StoreTarget) {
    let (done, missing) = (Outcome::Code(0), Outcome::Code(CODE_MISSING));
    target.load(&mut (0..2500).map(|number| operation(Kind::Put, number, 1))).unwrap();
    let mut session = target.session().unwrap();
    let mut ask = |kind, number, count| ends(session.as_mut(), &[operation(kind, number, count)])[0];
    assert_eq!((ask(Kind::Read, 2499, 1), ask(Kind::Read, 2500, 1)), (done, missing));
    assert_eq!((ask(Kind::Scan, 2400, 100), ask(Kind::Scan, 2401, 100)), (done, missing));
    assert_eq!((ask(Kind::Insert, 2500, 1), ask(Kind::Read, 2500, 1)), (done, done));
    assert_eq!(ask(Kind::Modify, 7, 1), done);
    assert_eq!((ask(Kind::Take, 0, 10), ask(Kind::Read, 9, 1), ask(Kind::Read, 10, 1)), (done, missing, done));
    let many: Vec<Operation> = (0..200).map(|number| operation(Kind::Put, number, 1)).collect();
    assert!(ends(session.as_mut(), &many).iter().all(|end| *end == done));
    drop(session);
    let mut other = target.session().unwrap();
    assert_eq!(ends(other.as_mut(), &[operation(Kind::Scan, 0, 100)]), [done]);
}
