//! The simulation's command line: many seeds, one seed with its trace, planted faults.
//! Guarantees: exit code 0 when every promise was kept and every mark was come to, else 1 with one line that repeats the run.
//! Must not know: what a run does.
//! Next: sim/mod.rs.

use logd_engine::canary::{Canary, plant};
use logd_tests::sim::canaries::catch_all;
use logd_tests::sim::form::FEATURES;
use logd_tests::sim::report::{SEEDS_DEFAULT, first_seed, missed_marks, repeat_line};
use logd_tests::sim::shrink::shrink;
use logd_tests::sim::{Form, run_seed};
use std::cell::Cell;
use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const HELP: &str = "Simulates the whole engine: one seed is one run.

  sim                        the default range of this commit; fails on marks that no run came to
  sim --seeds N [--from S]   N seeds from S on (default: 1)
  sim --seed S [--trace]     one seed; with every step of it
  sim --canaries [--canary NAME]   plants each fault of the engine's list until a run fails

  --jobs N                   runs at the same time (default: one a core)
  --lives N --steps N --clients N --without A,B   smaller runs; parts that can be left out:
  ";

/// One run in so many is made twice and must come out the same.
const TWICE_SHARE: u64 = 16;

#[derive(Clone, Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: Option<u64>,
    jobs: Option<u64>,
    trace: bool,
    no_shrink: bool,
    canaries: bool,
    canary: Option<String>,
    form: Form,
}

static ARGUMENTS: OnceLock<Arguments> = OnceLock::new();

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

fn main() {
    let arguments = ARGUMENTS.get_or_init(|| parse(std::env::args().skip(1)).unwrap_or_else(|words| usage(&words)));
    std::panic::set_hook(Box::new(|panic| fail(SEED.get(), "panic", &panic.to_string())));
    if arguments.canaries {
        exit(i32::from(!catch_all(arguments.canary.as_deref())));
    }
    if let Some(name) = &arguments.canary {
        let canary = Canary::from_name(name).unwrap_or_else(|| usage(&format!("no fault is called {name}")));
        plant(Some(canary));
    }
    match arguments.seed {
        Some(seed) => {
            run_one(seed, true);
            println!("seed {seed} kept every promise");
        }
        None => run_many(arguments),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(flag) = words.next() {
        let mut text = || words.next().ok_or(format!("{flag} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        match flag.as_str() {
            "--seed" => arguments.seed = Some(number(text()?)?),
            "--seeds" => arguments.seeds = Some(number(text()?)?),
            "--from" => arguments.from = Some(number(text()?)?),
            "--jobs" => arguments.jobs = Some(number(text()?)?),
            "--lives" => arguments.form.lives = number(text()?)?,
            "--steps" => arguments.form.steps = number(text()?)?,
            "--clients" => arguments.form.clients = number(text()?)?.max(1),
            "--canary" => arguments.canary = Some(text()?),
            "--canaries" => arguments.canaries = true,
            "--trace" => arguments.trace = true,
            "--no-shrink" => arguments.no_shrink = true,
            "--without" => arguments.form.without = text()?.split(',').map(str::to_owned).collect(),
            other => return Err(format!("unknown flag {other}")),
        }
    }
    match arguments.form.without.iter().find(|feature| !FEATURES.contains(&feature.as_str())) {
        Some(unknown) => Err(format!("nothing is called {unknown}")),
        None => Ok(arguments),
    }
}

fn usage(words: &str) -> ! {
    eprintln!("{words}\n\n{HELP}{}", FEATURES.join(" "));
    exit(64)
}

fn arguments() -> &'static Arguments {
    ARGUMENTS.get().expect("parsed first of all")
}

/// Says what went wrong and the line that repeats it, makes the run smaller, and ends the process.
fn fail(seed: u64, rule: &str, words: &str) -> ! {
    let arguments = arguments();
    let canary = arguments.canary.as_deref();
    eprintln!("FAILED seed {seed}, rule {rule}: {words}");
    eprintln!("{}", repeat_line(seed, &arguments.form, canary));
    if !arguments.no_shrink {
        let smaller = shrink(seed, &arguments.form, canary);
        eprintln!("smaller: {}", repeat_line(seed, &smaller, canary));
    }
    exit(1)
}

fn run_one(seed: u64, twice: bool) -> u64 {
    SEED.set(seed);
    let form = &arguments().form;
    let outcome = run_seed(seed, form, arguments().trace);
    if let Some(broken) = outcome.broken {
        fail(seed, broken.rule, &broken.words);
    }
    if twice && run_seed(seed, form, false).digest != outcome.digest {
        fail(seed, "repeat", "the second run of the seed left other bytes");
    }
    outcome.crashes
}

fn run_many(arguments: &Arguments) {
    let is_default = arguments.seeds.is_none() && arguments.from.is_none();
    let count = arguments.seeds.unwrap_or(SEEDS_DEFAULT);
    let from = arguments.from.unwrap_or_else(|| if is_default { first_seed() } else { 1 });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = arguments.jobs.unwrap_or(cores).max(1);
    let (next, crashes, started) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let made = run_one(from + number, number.is_multiple_of(TWICE_SHARE));
                    crashes.fetch_add(made, Ordering::Relaxed);
                }
            });
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let crashes = crashes.load(Ordering::Relaxed);
    println!(
        "{count} seeds from {from} kept every promise: {crashes} crashes, {seconds:.1} s, {:.0} runs/s, {jobs} jobs",
        count as f64 / seconds
    );
    let missed = missed_marks();
    if !missed.is_empty() {
        println!("no run came to these marks: {}", missed.join(", "));
        if is_default {
            exit(1);
        }
    }
}
