//! Decides what the bytes after the last good batch of a segment mean.
//!
//! Guarantees: nothing that is provably durable is dropped, and a mere power cut never refuses to start.
//! Invariants: I1 exactly one row of `CASES` matches. I2 only rows F to I let the log end here.
//! Must not know: disks, bytes. It sees facts only, so every case is a unit test.
//! Next: facts.rs finds the facts; reader.rs acts on the verdict.

use crate::units::{Lsn, SegmentId};

/// What a manifest or snapshot proves about the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Everything up to here was on stable storage.
    pub synced: Lsn,
    /// A segment with this id or a higher one must exist; 0 for none.
    pub segment: SegmentId,
    /// The store was stopped cleanly, and nothing was written since: `synced` is the last LSN there is.
    pub clean: bool,
}

/// What stands where the next batch would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The segment is full.
    SegmentEnd,
    /// Zeros up to the segment's end.
    Zeros,
    /// Old bytes of a recycled file.
    Stale,
    /// Bytes of a batch that is not whole, bytes where zeros should be, or a file that is too short.
    Torn,
    /// A whole batch of this segment that does not follow the one before it.
    Disorder,
}

/// What batches behind the place say about it, in this segment or in later files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// There are none.
    Nothing,
    /// There are some, and none of them knew the missing LSN to be synced.
    Unproven,
    /// One of them was formed when the missing LSN was synced already.
    Proves,
}

/// What the header of the next segment says about the end of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// There is no later segment in use.
    Nothing,
    /// The good batches end exactly where it says.
    Agrees,
    /// They do not.
    Disagrees,
}

/// All that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// At the end of the good batches.
    pub place: Place,
    /// Behind it.
    pub later: Later,
    /// In the next segment.
    pub successor: Successor,
    /// Whether the log reaches the LSN that the manifest proves.
    pub reaches_proof: bool,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The log, or its part in this segment, ends here.
    CleanEnd,
    /// It ends here, and unsynced bytes behind it are to be cut.
    TornTail,
    /// Something that was durable is missing.
    Corruption,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its letter, cited in messages, tests and docs/FORMAT.md.
    pub letter: char,
    /// The condition in words.
    pub condition: &'static str,
    /// What follows.
    pub verdict: Verdict,
    matches: fn(&Facts) -> bool,
}

/// The table. Rows exclude each other, so their order means nothing.
pub const CASES: &[Case] = &[
    Case {
        letter: 'A',
        condition: "the next segment names this end",
        verdict: Verdict::CleanEnd,
        matches: |facts| facts.successor == Successor::Agrees,
    },
    Case {
        letter: 'B',
        condition: "the next segment names another end",
        verdict: Verdict::Corruption,
        matches: |facts| facts.successor == Successor::Disagrees,
    },
    Case {
        letter: 'C',
        condition: "last segment: a whole batch out of order",
        verdict: Verdict::Corruption,
        matches: |facts| is_last(facts) && facts.place == Place::Disorder,
    },
    Case {
        letter: 'D',
        condition: "last segment: a later batch proves that what is missing was synced",
        verdict: Verdict::Corruption,
        matches: |facts| is_last(facts) && in_order(facts) && facts.later == Later::Proves,
    },
    Case {
        letter: 'E',
        condition: "last segment: the log ends below the LSN that the manifest or a snapshot proves",
        verdict: Verdict::Corruption,
        matches: |facts| is_last(facts) && in_order(facts) && facts.later != Later::Proves && !facts.reaches_proof,
    },
    Case {
        letter: 'F',
        condition: "last segment: full, or zeros to its end",
        verdict: Verdict::CleanEnd,
        matches: |facts| {
            let nothing = facts.place == Place::Zeros || facts.place == Place::SegmentEnd;
            is_open(facts) && facts.later == Later::Nothing && nothing
        },
    },
    Case {
        letter: 'G',
        condition: "last segment: old bytes of a recycled file",
        verdict: Verdict::CleanEnd,
        matches: |facts| is_open(facts) && facts.later == Later::Nothing && facts.place == Place::Stale,
    },
    Case {
        letter: 'H',
        condition: "last segment: part of a batch, nothing behind it",
        verdict: Verdict::TornTail,
        matches: |facts| is_open(facts) && facts.later == Later::Nothing && facts.place == Place::Torn,
    },
    Case {
        letter: 'I',
        condition: "last segment: later batches, none of which proves that what is missing was synced",
        verdict: Verdict::TornTail,
        matches: |facts| is_open(facts) && facts.later == Later::Unproven,
    },
];

/// Case of a segment file whose header is damaged though the log's chain or its batches need it.
pub const CASE_HEADER: char = 'K';
/// Case of a segment that is missing from the chain.
pub const CASE_MISSING: char = 'L';
/// Case of a segment in use that the chain of headers leaves out.
pub const CASE_STRAY: char = 'M';

/// The row that matches.
pub fn decide(facts: &Facts) -> &'static Case {
    let mut rows = CASES.iter().filter(|case| (case.matches)(facts));
    let case = rows.next().expect("tail I1: a row matches all facts");
    assert!(rows.next().is_none(), "tail I1: rows exclude each other");
    case
}

fn is_last(facts: &Facts) -> bool {
    facts.successor == Successor::Nothing
}

fn in_order(facts: &Facts) -> bool {
    facts.place != Place::Disorder
}

/// The log may end here as far as order and manifest go.
fn is_open(facts: &Facts) -> bool {
    is_last(facts) && in_order(facts) && facts.reaches_proof
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Facts =
        Facts { place: Place::Zeros, later: Later::Nothing, successor: Successor::Nothing, reaches_proof: true };

    fn letter(facts: Facts) -> (char, Verdict) {
        let case = decide(&facts);
        (case.letter, case.verdict)
    }

    fn all_facts() -> Vec<Facts> {
        let mut all = Vec::new();
        for place in [Place::SegmentEnd, Place::Zeros, Place::Stale, Place::Torn, Place::Disorder] {
            for later in [Later::Nothing, Later::Unproven, Later::Proves] {
                for successor in [Successor::Nothing, Successor::Agrees, Successor::Disagrees] {
                    for reaches_proof in [false, true] {
                        all.push(Facts { place, later, successor, reaches_proof });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn exactly_one_row_matches_each_combination_and_every_row_is_reached() {
        let mut reached: Vec<char> = all_facts().iter().map(|facts| decide(facts).letter).collect();
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached, CASES.iter().map(|case| case.letter).collect::<Vec<_>>());
    }

    #[test]
    fn a_the_next_segment_is_a_durable_cut_whatever_stands_behind_it() {
        for facts in all_facts().into_iter().filter(|facts| facts.successor == Successor::Agrees) {
            assert_eq!(letter(facts), ('A', Verdict::CleanEnd), "{facts:?}");
        }
    }

    #[test]
    fn b_an_end_other_than_the_next_segment_names_is_corruption() {
        for facts in all_facts().into_iter().filter(|facts| facts.successor == Successor::Disagrees) {
            assert_eq!(letter(facts), ('B', Verdict::Corruption), "{facts:?}");
        }
    }

    #[test]
    fn c_a_batch_out_of_order_is_corruption() {
        assert_eq!(letter(Facts { place: Place::Disorder, ..CLEAN }), ('C', Verdict::Corruption));
    }

    #[test]
    fn d_a_later_batch_that_knew_of_the_sync_turns_damage_into_corruption() {
        assert_eq!(letter(Facts { place: Place::Torn, later: Later::Proves, ..CLEAN }), ('D', Verdict::Corruption));
        assert_eq!(letter(Facts { place: Place::Zeros, later: Later::Proves, ..CLEAN }), ('D', Verdict::Corruption));
    }

    #[test]
    fn e_a_log_that_ends_below_the_manifest_is_corruption() {
        assert_eq!(letter(Facts { reaches_proof: false, ..CLEAN }), ('E', Verdict::Corruption));
    }

    #[test]
    fn f_zeros_or_the_end_of_the_segment_are_a_clean_end() {
        assert_eq!(letter(CLEAN), ('F', Verdict::CleanEnd));
        assert_eq!(letter(Facts { place: Place::SegmentEnd, ..CLEAN }), ('F', Verdict::CleanEnd));
    }

    #[test]
    fn g_old_bytes_of_a_recycled_file_are_a_clean_end() {
        assert_eq!(letter(Facts { place: Place::Stale, ..CLEAN }), ('G', Verdict::CleanEnd));
    }

    #[test]
    fn h_a_broken_batch_with_nothing_behind_it_is_a_torn_tail() {
        assert_eq!(letter(Facts { place: Place::Torn, ..CLEAN }), ('H', Verdict::TornTail));
    }

    #[test]
    fn i_later_batches_that_prove_nothing_are_part_of_the_torn_tail() {
        assert_eq!(letter(Facts { place: Place::Torn, later: Later::Unproven, ..CLEAN }), ('I', Verdict::TornTail));
        assert_eq!(letter(Facts { place: Place::Zeros, later: Later::Unproven, ..CLEAN }), ('I', Verdict::TornTail));
    }
}
