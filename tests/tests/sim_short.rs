//! Goal: a short range of simulated runs in every `cargo test`, from a place that the commit decides.
//! Method: each seed once, every tenth twice; a failure prints the line that repeats it.

use logd_tests::sim::report::{first_seed, repeat_line};
use logd_tests::sim::{Form, run_seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds of the short range: some ten seconds in a debug build.
const SEEDS: u64 = 150;

#[test]
fn a_short_range_of_seeds_keeps_every_promise() {
    let form = Form::default();
    for seed in first_seed()..first_seed() + SEEDS {
        let line = repeat_line(seed, &form, None);
        let run = || catch_unwind(AssertUnwindSafe(|| run_seed(seed, &form, false)));
        let outcome = run().unwrap_or_else(|_| panic!("the engine panicked; repeat with\n{line}"));
        assert!(outcome.broken.is_none(), "{:?}; repeat with\n{line}", outcome.broken);
        if seed.is_multiple_of(10) {
            let again = run().map(|again| again.digest).ok();
            assert_eq!(again, Some(outcome.digest), "the second run left other bytes; repeat with\n{line}");
        }
    }
}
