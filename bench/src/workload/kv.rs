//! The core workloads of YCSB by their letters.
//! Guarantees: shares, choice of records and key order are those of YCSB's workload files.
//! Must not know: targets.
//! Next: mixed.rs.

use super::distribution::Choice;
use super::mixed::{Mix, Sizes};
use super::operation::{KeyOrder, Kind};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Letter {
    /// Half reads, half updates; zipfian.
    A,
    /// 95 reads to 5 updates; zipfian.
    B,
    /// Reads only; zipfian.
    C,
    /// 95 reads to 5 inserts; the latest records most.
    D,
    /// 95 short scans to 5 inserts; zipfian, over ordered keys.
    E,
    /// Half reads, half read-modify-writes; zipfian.
    F,
    /// Not of YCSB: writes only, uniform.
    Put,
}

impl Letter {
    /// The mix. `choice`: instead of the letter's own.
    pub fn mix(self, records: u64, value_bytes: u32, choice: Option<Choice>) -> Mix {
        let shares = match self {
            Letter::A => vec![(50, Kind::Read), (50, Kind::Put)],
            Letter::B => vec![(95, Kind::Read), (5, Kind::Put)],
            Letter::C => vec![(100, Kind::Read)],
            Letter::D => vec![(95, Kind::Read), (5, Kind::Insert)],
            Letter::E => vec![(95, Kind::Scan), (5, Kind::Insert)],
            Letter::F => vec![(50, Kind::Read), (50, Kind::Modify)],
            Letter::Put => vec![(100, Kind::Put)],
        };
        let own = match self {
            Letter::D => Choice::Latest,
            Letter::Put => Choice::Uniform,
            _ => Choice::Zipfian,
        };
        Mix {
            shares,
            choice: choice.unwrap_or(own),
            sequential_percent: 0,
            first: 0,
            records,
            order: if self == Letter::E { KeyOrder::Counted } else { KeyOrder::Hashed },
            sizes: Sizes::one(value_bytes),
            scan_max: 100,
            fresh_values: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_those_of_ycsb() {
        let shares = |letter: Letter| letter.mix(10, 100, None).shares;
        assert_eq!(shares(Letter::A), [(50, Kind::Read), (50, Kind::Put)]);
        assert_eq!(shares(Letter::E), [(95, Kind::Scan), (5, Kind::Insert)]);
        assert_eq!(Letter::D.mix(10, 100, None).choice, Choice::Latest);
        assert_eq!(Letter::A.mix(10, 100, Some(Choice::Uniform)).choice, Choice::Uniform);
        assert_eq!(Letter::E.mix(10, 100, None).order, KeyOrder::Counted);
    }
}
