//! Counts what became of the calls, and compares that with the totals a target reports.
//! Guarantees: V1 a vote is counted as accepted only at its reply; V2 a vote without a reply widens what is accepted as
//! right, by exactly one in its own contestant and state.
//! Must not know: targets, time.
//! Next: report.rs prints; target/ fetches the totals.

use super::area_codes::state_of;
use super::calls::{CONTESTANT_INVALID, CallGenerator, Vote};
use super::{Outcome, Workload};
use serde::Serialize;
use std::collections::BTreeMap;

/// Result codes of the vote procedure.
pub const CODE_ACCEPTED: u8 = 0;
/// No such contestant.
pub const CODE_INVALID_CONTESTANT: u8 = 1;
/// This phone has voted often enough.
pub const CODE_OVER_LIMIT: u8 = 2;

/// Number of calls by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Votes counted by the target.
    pub accepted: u64,
    /// Calls for nobody.
    pub rejected_invalid: u64,
    /// Calls of phones that had voted often enough.
    pub rejected_over_limit: u64,
    /// Calls answered with an error, which changed nothing.
    pub failed: u64,
    /// Calls without a reply.
    pub unknown: u64,
}

impl Calls {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.accepted + self.rejected_invalid + self.rejected_over_limit + self.failed + self.unknown
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Code(CODE_ACCEPTED) => self.accepted += 1,
            Outcome::Code(CODE_INVALID_CONTESTANT) => self.rejected_invalid += 1,
            Outcome::Code(CODE_OVER_LIMIT) => self.rejected_over_limit += 1,
            Outcome::Code(_) | Outcome::Aborted => self.failed += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }

    fn add(&mut self, other: &Calls) {
        self.accepted += other.accepted;
        self.rejected_invalid += other.rejected_invalid;
        self.rejected_over_limit += other.rejected_over_limit;
        self.failed += other.failed;
        self.unknown += other.unknown;
    }
}

/// Votes of one contestant in one state: sure ones, and ones that may have been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    accepted: u64,
    unknown: u64,
}

/// What became of the calls of one thread, or of all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls of the measured time.
    pub measured: Calls,
    /// All calls, the warm-up's included.
    pub all: Calls,
    cells: BTreeMap<(u32, &'static str), Cell>,
}

impl Tally {
    /// Takes note of one call.
    pub fn note(&mut self, vote: &Vote, outcome: Outcome, measured: bool) {
        self.all.count(outcome);
        if measured {
            self.measured.count(outcome);
        }
        // A call for nobody cannot have counted, whether its reply came or not.
        let may_count = outcome == Outcome::Unknown && vote.contestant != CONTESTANT_INVALID;
        if outcome == Outcome::Code(CODE_ACCEPTED) || may_count {
            let cell = self.cells.entry((vote.contestant, state_of(vote.area_code()))).or_default();
            match outcome {
                Outcome::Unknown => cell.unknown += 1,
                _ => cell.accepted += 1,
            }
        }
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Tally) {
        self.measured.add(&other.measured);
        self.all.add(&other.all);
        for (place, cell) in &other.cells {
            let sum = self.cells.entry(*place).or_default();
            sum.accepted += cell.accepted;
            sum.unknown += cell.unknown;
        }
    }

    /// Compares the totals a target reports now with what it reported before and what this run knows.
    pub fn check(&self, before: &Totals, after: &Totals) -> Check {
        let mut check = Check { unknown: self.all.unknown, ..Check::default() };
        let mut by_contestant: BTreeMap<u32, Cell> = BTreeMap::new();
        let mut by_state: BTreeMap<(u32, String), Cell> = BTreeMap::new();
        for (&(contestant, state), cell) in &self.cells {
            let sum = by_contestant.entry(contestant).or_default();
            sum.accepted += cell.accepted;
            sum.unknown += cell.unknown;
            by_state.insert((contestant, state.to_owned()), *cell);
        }
        let numbers = |totals: &Totals| -> BTreeMap<u32, u64> {
            totals.contestants.iter().map(|row| (row.number, row.votes)).collect()
        };
        check.compare("contestant", &by_contestant, &numbers(before), &numbers(after), |number| number.to_string());
        check.compare("state", &by_state, &before.states, &after.states, |(number, state)| format!("{number} {state}"));
        check
    }
}

/// One contestant's votes as a target reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContestantTotal {
    /// Name.
    pub name: String,
    /// Number, from 1.
    pub number: u32,
    /// Votes.
    pub votes: u64,
}

/// The totals as a target reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Most votes first.
    pub contestants: Vec<ContestantTotal>,
    /// Votes by contestant and state.
    pub states: BTreeMap<(u32, String), u64>,
}

impl Totals {
    /// All votes.
    pub fn votes(&self) -> u64 {
        self.contestants.iter().map(|row| row.votes).sum()
    }

    /// Puts contestants in VoltDB's order: votes downwards, then number, then name.
    pub fn sort(&mut self) {
        self.contestants.sort_by(|a, b| (b.votes, a.number, &a.name).cmp(&(a.votes, b.number, &b.name)));
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Check {
    /// Totals compared.
    pub compared: u64,
    /// Calls without a reply, each of which widens one total by one.
    pub unknown: u64,
    /// One line for each total that is wrong.
    pub differences: Vec<String>,
}

impl Check {
    /// Whether everything agrees.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty()
    }

    fn compare<K: Ord + Clone>(
        &mut self,
        kind: &str,
        cells: &BTreeMap<K, Cell>,
        before: &BTreeMap<K, u64>,
        after: &BTreeMap<K, u64>,
        show: impl Fn(&K) -> String,
    ) {
        let mut places: Vec<&K> = cells.keys().chain(before.keys()).chain(after.keys()).collect();
        places.sort();
        places.dedup();
        for place in places {
            let cell = cells.get(place).copied().unwrap_or_default();
            let least = before.get(place).copied().unwrap_or(0) + cell.accepted;
            let most = least + cell.unknown;
            let found = after.get(place).copied().unwrap_or(0);
            self.compared += 1;
            if found < least || found > most {
                let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
                self.differences.push(format!("{kind} {}: expected {expected}, found {found}", show(place)));
            }
        }
    }
}

/// The Voter workload of one thread.
pub struct VoterWorkload {
    calls: CallGenerator,
    /// What became of the calls so far.
    pub tally: Tally,
}

impl VoterWorkload {
    /// Starts with nothing counted.
    pub fn new(calls: CallGenerator) -> VoterWorkload {
        VoterWorkload { calls, tally: Tally::default() }
    }
}

impl Workload for VoterWorkload {
    type Request = Vote;

    fn next(&mut self) -> Vote {
        self.calls.call()
    }

    fn note(&mut self, vote: &Vote, outcome: Outcome, measured: bool) {
        self.tally.note(vote, outcome, measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTE: Vote = Vote { phone: 3_050_000_001, contestant: 2 };

    fn totals(votes: u64) -> Totals {
        Totals {
            contestants: vec![ContestantTotal { name: "Two".to_owned(), number: 2, votes }],
            states: BTreeMap::from([((2, "FL".to_owned()), votes)]),
        }
    }

    #[test]
    fn a_vote_lost_by_the_target_is_found() {
        let mut tally = Tally::default();
        (0..3).for_each(|_| tally.note(&VOTE, Outcome::Code(0), true));
        assert!(tally.check(&totals(4), &totals(7)).agrees());
        let check = tally.check(&totals(4), &totals(6));
        assert_eq!(check.differences, ["contestant 2: expected 7, found 6", "state 2 FL: expected 7, found 6"]);
    }

    #[test]
    fn a_call_without_reply_may_have_counted_or_not() {
        let mut tally = Tally::default();
        tally.note(&VOTE, Outcome::Code(0), true);
        tally.note(&VOTE, Outcome::Unknown, true);
        assert!(tally.check(&Totals::default(), &totals(1)).agrees());
        assert!(tally.check(&Totals::default(), &totals(2)).agrees());
        assert!(!tally.check(&Totals::default(), &totals(3)).agrees());
    }

    #[test]
    fn a_call_for_nobody_widens_nothing() {
        let mut tally = Tally::default();
        tally.note(&Vote { contestant: CONTESTANT_INVALID, ..VOTE }, Outcome::Unknown, true);
        let check = tally.check(&Totals::default(), &Totals::default());
        assert_eq!((check.compared, check.unknown, check.agrees()), (0, 1, true));
    }

    #[test]
    fn a_vote_in_a_state_where_none_was_cast_is_found() {
        let mut after = totals(0);
        after.states.insert((2, "XX".to_owned()), 1);
        assert_eq!(Tally::default().check(&totals(0), &after).differences.len(), 1);
    }

    #[test]
    fn warm_up_votes_are_checked_but_not_measured() {
        let mut tally = Tally::default();
        tally.note(&VOTE, Outcome::Code(0), false);
        tally.note(&VOTE, Outcome::Code(2), true);
        tally.note(&VOTE, Outcome::Code(1), true);
        tally.note(&VOTE, Outcome::Aborted, true);
        let measured = tally.measured;
        assert_eq!((measured.accepted, measured.rejected_over_limit, measured.rejected_invalid), (0, 1, 1));
        assert_eq!((measured.failed, measured.total(), tally.all.total()), (1, 3, 4));
        assert!(tally.check(&Totals::default(), &totals(1)).agrees());
    }
}
