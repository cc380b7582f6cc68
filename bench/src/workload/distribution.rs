//! Which record is asked for: uniform, zipfian, or the latest ones most.
//! Guarantees: the same draws for the same generator; a rank stays below the number of records.
//! Must not know: keys, operations.
//! Next: mixed.rs.

use logd_engine::prng::Prng;

/// Skew of YCSB's zipfian choice.
const THETA: f64 = 0.99;

/// A rule of choice by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// Every record alike.
    Uniform,
    /// Few records most of the time, scattered over the key space.
    Zipfian,
    /// The newest records most of the time.
    Latest,
}

/// Zipfian ranks after Gray et al., "Quickly generating billion-record synthetic databases", as in YCSB: rank 0 is the
/// most popular.
#[derive(Clone, Debug)]
pub struct Zipfian {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks below a count, which must not be zero. Takes time in proportion to the count.
    pub fn new(count: u64) -> Zipfian {
        assert!(count > 0, "no rank below zero");
        let zeta = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_two() / zeta);
        Zipfian { count, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// Draws a rank.
    pub fn rank(&self, prng: &mut Prng) -> u64 {
        let share = unit(prng);
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < zeta_of_two() {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * share - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// Draws a record number: ranks scattered over all numbers, so that popular records are no neighbours.
    pub fn scattered(&self, prng: &mut Prng) -> u64 {
        let rank = self.rank(prng);
        Prng::new(rank).next_u64() % self.count
    }
}

fn zeta(count: u64) -> f64 {
    (1..=count).map(|rank| 1.0 / (rank as f64).powf(THETA)).sum()
}

fn zeta_of_two() -> f64 {
    1.0 + 0.5_f64.powf(THETA)
}

/// A number from 0 to below 1.
pub fn unit(prng: &mut Prng) -> f64 {
    (prng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of_first(count: u64, ranks: u64) -> f64 {
        let zipfian = Zipfian::new(count);
        let mut prng = Prng::new(5);
        let hits = (0..100_000).filter(|_| zipfian.rank(&mut prng) < ranks).count();
        hits as f64 / 100_000.0
    }

    #[test]
    fn ranks_have_the_shares_of_the_law() {
        let expected = |ranks| zeta(ranks) / zeta(10_000);
        for ranks in [1, 2, 100, 1000] {
            let found = share_of_first(10_000, ranks);
            assert!((found - expected(ranks)).abs() < 0.02, "{ranks}: {found} against {}", expected(ranks));
        }
    }

    #[test]
    fn ranks_and_scattered_numbers_stay_below_the_count() {
        for count in [1, 2, 3, 1000] {
            let zipfian = Zipfian::new(count);
            let mut prng = Prng::new(count);
            assert!((0..10_000).all(|_| zipfian.rank(&mut prng) < count && zipfian.scattered(&mut prng) < count));
        }
    }

    #[test]
    fn the_same_generator_draws_the_same() {
        let zipfian = Zipfian::new(100);
        let draw = || {
            let mut prng = Prng::new(9);
            (0..50).map(|_| zipfian.rank(&mut prng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }
}
