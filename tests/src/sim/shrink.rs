//! Makes a failing run smaller: fewer lives, steps and clients, whole features left out, as long as it still fails.
//! Guarantees: every attempt is a process of its own, since a panic ends one; the result fails by itself.
//! Must not know: why a run fails.
//! Next: form.rs has what can be left out.

use super::form::{FEATURES, Form};
use std::process::{Command, Stdio};

/// Processes started at most.
const ATTEMPTS_MAX: u32 = 120;

/// The smallest form found in which a seed still fails.
pub fn shrink(seed: u64, form: &Form, canary: Option<&str>) -> Form {
    let mut shrinking = Shrinking { seed, canary, form: form.clone(), attempts: 0 };
    for feature in FEATURES {
        let mut smaller = shrinking.form.clone();
        smaller.without.push((*feature).to_owned());
        shrinking.attempt(smaller);
    }
    shrinking.halve(5, |form| &mut form.lives);
    shrinking.halve(5, |form| &mut form.clients);
    shrinking.halve(400, |form| &mut form.steps);
    shrinking.form
}

struct Shrinking<'a> {
    seed: u64,
    canary: Option<&'a str>,
    form: Form,
    attempts: u32,
}

impl Shrinking<'_> {
    fn attempt(&mut self, smaller: Form) -> bool {
        self.attempts += 1;
        let fails = self.attempts <= ATTEMPTS_MAX && fails(self.seed, &smaller, self.canary);
        if fails {
            self.form = smaller;
        }
        fails
    }

    /// Goes down by halves, then by smaller and smaller steps.
    fn halve(&mut self, most: u64, part: impl Fn(&mut Form) -> &mut u64) {
        let mut best = (*part(&mut self.form.clone())).min(most);
        let mut step = best / 2;
        while step > 0 && best > 1 {
            let mut smaller = self.form.clone();
            *part(&mut smaller) = best.saturating_sub(step).max(1);
            let tried = *part(&mut smaller);
            if self.attempt(smaller) {
                best = tried;
            } else {
                step /= 2;
            }
        }
    }
}

fn fails(seed: u64, form: &Form, canary: Option<&str>) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let mut command = Command::new(program);
    command.args(["--seed", &seed.to_string(), "--no-shrink"]).args(form.flags().split_whitespace());
    command.args(canary.into_iter().flat_map(|name| ["--canary", name]));
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| !status.success())
}
