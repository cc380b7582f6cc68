//! When requests start: as soon as there is room, or at a fixed rate whatever the target does.
//! Guarantees: in the open loop the n-th start is fixed beforehand and a late one is reported with the time it was due, so
//! that a stalled target cannot hide the requests it kept from being sent.
//! Must not know: requests, targets.
//! Next: driver.rs.

use std::time::{Duration, Instant};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Start a request that was due at this time.
    Due(Instant),
    /// The next one is due then.
    Later(Instant),
    /// No further one.
    Over,
}

/// The starts of one thread.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Whenever there is room, until the end.
    Closed {
        /// No start from here on.
        end: Instant,
    },
    /// Whenever there is room, so many times.
    Counted {
        /// Starts left.
        left: u64,
    },
    /// At a fixed rate.
    Open {
        /// The first start.
        first: Instant,
        /// Nanoseconds between starts.
        interval_ns: f64,
        /// Starts so far.
        count: u64,
        /// No start from here on.
        end: Instant,
    },
}

impl Arrivals {
    /// The share of one of `threads` threads in a rate of starts: they take turns.
    pub fn open(rate: u64, thread: u32, threads: u32, start: Instant, end: Instant) -> Arrivals {
        let interval_ns = 1e9 * f64::from(threads) / rate as f64;
        let turn = Duration::from_nanos((interval_ns * f64::from(thread) / f64::from(threads)) as u64);
        Arrivals::Open { first: start + turn, interval_ns, count: 0, end }
    }

    /// Looks at what is next without taking it.
    pub fn next(&self, now: Instant) -> Arrival {
        match *self {
            Arrivals::Closed { end } => {
                if now < end {
                    Arrival::Due(now)
                } else {
                    Arrival::Over
                }
            }
            Arrivals::Counted { left: 0 } => Arrival::Over,
            Arrivals::Counted { .. } => Arrival::Due(now),
            Arrivals::Open { first, interval_ns, count, end } => {
                let due = first + Duration::from_nanos((interval_ns * count as f64) as u64);
                match due {
                    due if due >= end => Arrival::Over,
                    due if due <= now => Arrival::Due(due),
                    due => Arrival::Later(due),
                }
            }
        }
    }

    /// Takes the start that `next` said was due.
    pub fn take(&mut self) {
        match self {
            Arrivals::Open { count, .. } => *count += 1,
            Arrivals::Counted { left } => *left = left.saturating_sub(1),
            Arrivals::Closed { .. } => {}
        }
    }

    /// Starts that were due by the end but were never taken.
    pub fn missed(&self) -> u64 {
        match *self {
            Arrivals::Closed { .. } => 0,
            Arrivals::Counted { left } => left,
            Arrivals::Open { first, interval_ns, count, end } => {
                let all = (end.saturating_duration_since(first).as_nanos() as f64 / interval_ns).ceil() as u64;
                all.saturating_sub(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_start_keeps_the_time_it_was_due() {
        let start = Instant::now();
        let mut arrivals = Arrivals::open(1000, 0, 1, start, start + Duration::from_secs(1));
        arrivals.take();
        let late = start + Duration::from_millis(500);
        assert_eq!(arrivals.next(late), Arrival::Due(start + Duration::from_millis(1)));
        assert_eq!(arrivals.next(start), Arrival::Later(start + Duration::from_millis(1)));
    }

    #[test]
    fn threads_share_a_rate_and_take_turns() {
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let second = Arrivals::open(1000, 1, 4, start, end);
        assert_eq!(second.next(start), Arrival::Later(start + Duration::from_millis(1)));
        let all: u64 = (0..4).map(|thread| Arrivals::open(1000, thread, 4, start, end).missed()).sum();
        assert_eq!(all, 1000);
    }

    #[test]
    fn nothing_starts_at_or_after_the_end() {
        let start = Instant::now();
        let mut arrivals = Arrivals::open(10, 0, 1, start, start + Duration::from_millis(200));
        (0..2).for_each(|_| arrivals.take());
        assert_eq!(arrivals.next(start + Duration::from_secs(9)), Arrival::Over);
        assert_eq!(Arrivals::Closed { end: start }.next(start), Arrival::Over);
        let mut counted = Arrivals::Counted { left: 1 };
        counted.take();
        assert_eq!((counted.next(start), counted.missed()), (Arrival::Over, 0));
    }
}
