//! The engine's own pseudo-random generator, so that a seed means the same run next year.
//! Guarantees: same seed and stream name, same numbers, on every machine and version.
//! Must not know: where seeds come from. Not for secrets.
//! Next: nothing; this is a leaf.

/// SplitMix64: small, fast, and good enough for seeds, shuffles and test schedules.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// A generator that starts from a seed.
    pub fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// An independent generator for one named purpose: drawing more from one stream leaves the others as they are.
    pub fn stream(&self, name: &str) -> Prng {
        let mut state = self.state ^ 0x9e37_79b9_7f4a_7c15;
        for byte in name.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Prng { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which must not be zero. The bias of the multiplication is below 2^-32 for small bounds.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a bound of zero leaves no number");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` draws on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut prng = Prng::new(7);
        assert_eq!(prng.next_u64(), 7191089600892374487);
        assert_ne!(Prng::new(7).stream("disk").next_u64(), Prng::new(7).stream("clock").next_u64());
    }

    #[test]
    fn below_stays_below() {
        let mut prng = Prng::new(1);
        assert!((0..1000).all(|_| prng.below(3) < 3));
    }
}
