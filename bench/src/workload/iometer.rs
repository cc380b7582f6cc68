//! Access specifications as IOmeter has them: block sizes, share of reads, share of random places.
//! Guarantees: the named ones are the mixes that were published with IOmeter and used by others since.
//! Must not know: targets; a block is a record.
//! Next: mixed.rs.

use super::distribution::Choice;
use super::mixed::{Mix, Sizes};
use super::operation::{KeyOrder, Kind};
use std::str::FromStr;

/// An access specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSpec {
    sizes: Sizes,
    read_percent: u32,
    random_percent: u32,
}

const KIB: u32 = 1024;

impl AccessSpec {
    /// The mix over so many bytes of blocks.
    pub fn mix(&self, span_bytes: u64) -> Mix {
        let records = ((span_bytes as f64 / self.sizes.mean()) as u64).max(1);
        let mut shares = vec![(self.read_percent, Kind::Read), (100 - self.read_percent, Kind::Put)];
        shares.retain(|(weight, _)| *weight > 0);
        Mix {
            shares,
            choice: Choice::Uniform,
            sequential_percent: 100 - self.random_percent,
            first: 0,
            records,
            order: KeyOrder::Counted,
            sizes: self.sizes.clone(),
            scan_max: 1,
            fresh_values: true,
        }
    }
}

impl FromStr for AccessSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<AccessSpec, String> {
        let named = |sizes: &[(u32, u32)], read_percent| AccessSpec {
            sizes: Sizes(sizes.to_vec()),
            read_percent,
            random_percent: 100,
        };
        match text {
            "oltp" => Ok(named(&[(1, 8 * KIB)], 67)),
            "file-server" => Ok(named(
                &[
                    (10, 512),
                    (5, KIB),
                    (5, 2 * KIB),
                    (60, 4 * KIB),
                    (2, 8 * KIB),
                    (4, 16 * KIB),
                    (4, 32 * KIB),
                    (10, 64 * KIB),
                ],
                80,
            )),
            "web-server" => Ok(named(
                &[
                    (22, 512),
                    (15, KIB),
                    (8, 2 * KIB),
                    (23, 4 * KIB),
                    (15, 8 * KIB),
                    (2, 16 * KIB),
                    (6, 32 * KIB),
                    (7, 64 * KIB),
                    (1, 128 * KIB),
                    (1, 512 * KIB),
                ],
                100,
            )),
            _ => numbers(text).ok_or_else(|| {
                format!("an access is oltp, file-server, web-server, or SIZE,READ%,RANDOM% as 8K,67,100; not {text:?}")
            }),
        }
    }
}

fn numbers(text: &str) -> Option<AccessSpec> {
    let [size, read, random]: [&str; 3] = text.split(',').collect::<Vec<_>>().try_into().ok()?;
    let percent = |text: &str| text.parse().ok().filter(|percent| *percent <= 100);
    let bytes = size_of(size)?;
    Some(AccessSpec { sizes: Sizes::one(bytes), read_percent: percent(read)?, random_percent: percent(random)? })
}

/// A block size: bytes, or with K or M.
fn size_of(text: &str) -> Option<u32> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, KIB),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, KIB * KIB)),
    };
    digits.parse::<u32>().ok()?.checked_mul(unit).filter(|bytes| (1..=16 << 20).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oltp_is_8k_two_thirds_reads_all_random() {
        let mix = "oltp".parse::<AccessSpec>().unwrap().mix(80 << 20);
        assert_eq!(mix.shares, [(67, Kind::Read), (33, Kind::Put)]);
        assert_eq!((mix.sizes, mix.sequential_percent, mix.records), (Sizes::one(8192), 0, 10_240));
    }

    #[test]
    fn numbers_parse_and_nonsense_does_not() {
        assert_eq!("4K,100,0".parse::<AccessSpec>().unwrap().mix(1 << 20).shares, [(100, Kind::Read)]);
        for wrong in ["4K,101,0", "4K,50", "0,50,50", "abc", "9999M,1,1"] {
            assert!(wrong.parse::<AccessSpec>().is_err(), "{wrong}");
        }
    }
}
