//! The end of a machine or a process, and what it leaves behind.
//! Guarantees: the new medium is one that the contract allows; the old one is dead.
//! Must not know: what would be convenient for recovery.
//! Next: file.rs and tree.rs choose among what is allowed.

use super::medium::{Medium, Work};
use crate::prng::Prng;

/// Cuts the power: what was not synced survives in part.
pub(super) fn cut_power(medium: &mut Medium, prng: &mut Prng) -> Medium {
    // A write in flight may have reached any of its sectors; as an unsynced write it has just that freedom.
    settle(medium, prng, |_| true, |_| false, |_| false);
    let tree = medium.tree.after_power_cut(prng);
    let next = Medium::with(medium.options.clone(), tree, Prng::new(prng.next_u64()));
    medium.die();
    next
}

/// Kills the process: the system goes on, with all that was written and what is still unsynced.
pub(super) fn kill_process(medium: &mut Medium) -> Medium {
    let mut prng = medium.prng.stream("kill");
    settle(medium, &mut prng, |prng| prng.one_in(2), |prng| prng.one_in(2), |prng| prng.one_in(2));
    let next = Medium::with(medium.options.clone(), medium.tree.clone(), Prng::new(prng.next_u64()));
    medium.die();
    next
}

/// Decides about what is in flight, in an order of its own: whether it happened, and if so whether durably or only in part.
fn settle(
    medium: &mut Medium,
    prng: &mut Prng,
    happens: impl Fn(&mut Prng) -> bool,
    durably: impl Fn(&mut Prng) -> bool,
    in_part: impl Fn(&mut Prng) -> bool,
) {
    let flights = match medium.left.is_empty() {
        true => &medium.in_flight,
        false => &medium.left,
    };
    let mut order: Vec<usize> = (0..flights.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, prng.below(last as u64 + 1) as usize);
    }
    for index in order {
        let operation = &flights[index];
        if !happens(prng) {
            continue;
        }
        let file = medium.tree.file_mut(operation.node);
        match &operation.work {
            Work::Write { place, buffer, durable: true } if durably(prng) => file.write_durable(*place, buffer),
            Work::Write { place, buffer, .. } if in_part(prng) => file.write_torn(*place, buffer, prng),
            Work::Write { place, buffer, .. } => file.write(*place, buffer),
            Work::Sync { sequence } if prng.one_in(2) => file.sync(*sequence),
            Work::Read { .. } | Work::Sync { .. } => {}
        }
    }
}
