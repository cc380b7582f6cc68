//! What all event loops share: limits, and the counts that they bound.
//! Guarantees: a count that was taken is given back when its connection ends.
//! Must not know: single connections.
//! Next: acceptor.rs takes places, connection.rs counts input.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Limits and counts over all connections.
#[derive(Debug)]
pub struct Gate {
    /// Most connections at a time.
    pub clients_max: usize,
    /// Most unsent bytes of one connection.
    pub output_bytes_max: usize,
    /// Most bytes of unfinished requests, over all connections.
    pub input_bytes_max: usize,
    clients: AtomicUsize,
    input_bytes: AtomicUsize,
}

impl Gate {
    /// Nobody is here yet.
    pub fn new(clients_max: usize, output_bytes_max: usize, input_bytes_max: usize) -> Gate {
        let (clients, input_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Gate { clients_max, output_bytes_max, input_bytes_max, clients, input_bytes }
    }

    /// Takes a place for a connection. False if there is none.
    pub fn enter(&self) -> bool {
        let enter = |count: usize| (count < self.clients_max).then_some(count + 1);
        self.clients.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).is_ok()
    }

    /// Gives a place back.
    pub fn leave(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Changes what one connection holds of the common input from `before` to `after` bytes. False, and nothing changed, if
    /// that is too much.
    pub fn count_input(&self, before: usize, after: usize) -> bool {
        let change = |sum: usize| {
            let sum = sum - before + after;
            (after <= before || sum <= self.input_bytes_max).then_some(sum)
        };
        before == after || self.input_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_input_are_bounded_and_come_back() {
        let gate = Gate::new(2, 0, 100);
        assert!(gate.enter() && gate.enter());
        assert!(!gate.enter());
        gate.leave();
        assert!(gate.enter());
        assert!(gate.count_input(0, 60));
        assert!(!gate.count_input(0, 60));
        assert!(gate.count_input(60, 20));
        assert!(gate.count_input(0, 80));
        assert!(!gate.count_input(20, 21));
    }
}
