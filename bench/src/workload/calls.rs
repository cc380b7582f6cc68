//! The calls of Voter: who phones, and for whom, as VoltDB's generator draws them.
//! Guarantees: favourites depend on the seed alone, so all threads of a run share them; each thread draws calls of its own.
//! Must not know: what becomes of a call.
//! Next: votes.rs counts them.

use super::area_codes;
use logd_engine::prng::Prng;

/// The contestant of a call that nobody can win.
pub const CONTESTANT_INVALID: u32 = 999;
/// Phone numbers of one area.
pub const PHONES_PER_AREA: u64 = 10_000_000;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Ten digits, of which the first three are the area code.
    pub phone: u64,
    /// Whom it is for.
    pub contestant: u32,
}

impl Vote {
    /// Its area code.
    pub fn area_code(&self) -> u16 {
        u16::try_from(self.phone / PHONES_PER_AREA).unwrap_or(0)
    }
}

struct Area {
    code: u16,
    favourite: u32,
}

/// Draws calls.
pub struct CallGenerator {
    areas: Vec<Area>,
    contestants: u32,
    prng: Prng,
}

impl CallGenerator {
    /// The generator of one thread.
    pub fn new(seed: u64, thread: u32, contestants: u32) -> CallGenerator {
        let root = Prng::new(seed);
        let mut prng = root.stream("favourites");
        let areas = area_codes::all().enumerate().map(|(index, (code, _))| Area {
            code,
            favourite: if prng.below(100) >= 30 { favourite_by_sine(index, contestants) } else { 1 },
        });
        let areas = areas.collect();
        CallGenerator { areas, contestants, prng: root.stream(&format!("calls {thread}")) }
    }

    /// The next call.
    pub fn call(&mut self) -> Vote {
        let area_index = self.prng.below(self.areas.len() as u64) as usize;
        let area = &self.areas[area_index];
        let mut contestant = area.favourite;
        if self.prng.one_in(2) {
            contestant = 1 + self.prng.below(u64::from(self.contestants)) as u32;
        }
        if self.prng.one_in(100) {
            contestant = CONTESTANT_INVALID;
        }
        let phone = u64::from(area.code) * PHONES_PER_AREA + self.prng.below(PHONES_PER_AREA);
        Vote { phone, contestant }
    }
}

/// Spreads favourites over the areas without a pattern that shows: for 6 contestants, area 1 has |sin 1 · 6| = 5.05, so 6.
fn favourite_by_sine(area_index: usize, contestants: u32) -> u32 {
    let count = f64::from(contestants);
    (((area_index as f64).sin() * count).abs() % count) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: u32 = 200_000;

    fn share(mut counts: impl FnMut(&Vote) -> bool) -> f64 {
        let mut calls = CallGenerator::new(3, 0, 6);
        let hits = (0..CALLS).filter(|_| counts(&calls.call())).count();
        hits as f64 / f64::from(CALLS)
    }

    #[test]
    fn one_call_in_a_hundred_is_for_nobody() {
        let invalid = share(|vote| vote.contestant == CONTESTANT_INVALID);
        assert!((0.009..0.011).contains(&invalid), "{invalid}");
        assert_eq!(share(|vote| vote.contestant > 6 && vote.contestant != CONTESTANT_INVALID), 0.0);
    }

    #[test]
    fn about_three_areas_in_ten_favour_the_first_contestant_beyond_the_sine() {
        let calls = CallGenerator::new(3, 0, 6);
        let by_sine = calls.areas.iter().enumerate().filter(|(index, _)| favourite_by_sine(*index, 6) == 1).count();
        let first = calls.areas.iter().filter(|area| area.favourite == 1).count();
        let drawn = (first - by_sine) as f64 / (calls.areas.len() - by_sine) as f64;
        assert!((0.2..0.4).contains(&drawn), "{drawn}");
    }

    #[test]
    fn half_of_the_valid_calls_follow_the_favourite_and_the_rest_are_uniform() {
        let favourites: Vec<(u16, u32)> =
            CallGenerator::new(3, 0, 6).areas.iter().map(|area| (area.code, area.favourite)).collect();
        let followed = share(|vote| favourites.contains(&(vote.area_code(), vote.contestant)));
        let expected = 0.99 * (0.5 + 0.5 / 6.0);
        assert!((followed - expected).abs() < 0.01, "{followed} against {expected}");
    }

    #[test]
    fn favourites_are_the_same_for_all_threads_and_calls_are_not() {
        let (mut first, mut second) = (CallGenerator::new(9, 0, 6), CallGenerator::new(9, 1, 6));
        assert!(first.areas.iter().zip(&second.areas).all(|(a, b)| a.favourite == b.favourite));
        assert_ne!(first.call(), second.call());
        assert_eq!(CallGenerator::new(9, 1, 6).call(), CallGenerator::new(9, 1, 6).call());
    }

    #[test]
    fn sine_favourites_stay_among_the_contestants() {
        assert!((0..305).all(|index| (1..=12).contains(&favourite_by_sine(index, 12))));
        assert_eq!(favourite_by_sine(1, 6), 6);
    }
}
