//! Runs one workload on several stores in turns, so that the drift of a machine hits all of them alike.
//! Guarantees: every store gets the same operations and as many of them outstanding; the order of a round is that of the
//! round before turned around.
//! Must not know: how stores are driven.
//! Next: contender.rs; syncs.rs traces.

use crate::args::{CompareArguments, ComparedWorkload, LoadArguments};
use crate::contender::{Contender, Prepared, place_for};
use crate::env::Environment;
use crate::measure::Plan;
use crate::report::store::{StoreFigures, TracedSyncs};
use crate::store::{Failure, Output, mix_text};
use crate::syncs::Trace;
use crate::target::StoreOptions;
use crate::workload::mixed::Mix;
use std::path::Path;
use std::time::Duration;

/// Measured seconds of the run that is traced.
const TRACED: Duration = Duration::from_secs(2);

/// Compares. True if every operation was done.
pub fn run(arguments: &CompareArguments) -> Result<bool, Failure> {
    let (name, mix, load) = workload(&arguments.workload)?;
    load.check()?;
    let parent = load.dir.clone().unwrap_or_else(|| ".".into());
    std::fs::create_dir_all(&parent)?;
    let environment = Environment::read(&parent);
    let settings = mix_text(&mix);
    print!("{}", environment.text());
    println!("Workload     {name}: {settings}");
    let mut output = Output::empty(&name, &settings, load, environment);
    let prepared = Prepared::new(mix);
    let mut contenders = open_all(arguments, load, &prepared, &mut output)?;
    measure_in_turns(arguments, load, &contenders, &prepared, &mut output);
    if arguments.trace_syncs {
        trace_all(load, &contenders, &prepared, &mut output);
    }
    for contender in &mut contenders {
        contender.target.close()?;
    }
    output.end(load)
}

fn workload(workload: &ComparedWorkload) -> Result<(String, Mix, &LoadArguments), Failure> {
    Ok(match workload {
        ComparedWorkload::Kv(kv) => {
            let mix = kv.mix.letter.mix(kv.mix.records, kv.mix.value_bytes, kv.mix.choice);
            (format!("kv {:?}", kv.mix.letter).to_lowercase(), mix, &kv.load)
        }
        ComparedWorkload::Asbench(asbench) if asbench.mix.workload_stages.is_some() => {
            return Err("compare runs one stage: give -w and -o instead of --workload-stages".into());
        }
        ComparedWorkload::Asbench(asbench) => {
            ("asbench".to_owned(), asbench.mix.stage(&asbench.load).mix(), &asbench.load)
        }
        ComparedWorkload::Iometer(iometer) => {
            ("iometer".to_owned(), iometer.mix.access.mix(iometer.mix.span_mib << 20), &iometer.load)
        }
    })
}

fn open_all(
    arguments: &CompareArguments,
    load: &LoadArguments,
    prepared: &Prepared,
    output: &mut Output,
) -> Result<Vec<Contender>, Failure> {
    let options = StoreOptions { level: load.durability, in_order: false };
    let mut contenders = Vec::new();
    for spec in &arguments.stores {
        let open = || -> Result<Contender, Failure> {
            let contender = Contender::open(spec, place_for(spec, load, false)?, options)?;
            contender.load(&prepared.mix)?;
            Ok(contender)
        };
        let contender = open().map_err(|error| format!("{}: {error}", spec.name))?;
        println!("Store        {}: {}", spec.name, contender.about);
        output.report().stores.push(StoreFigures::new(
            &spec.name,
            &contender.about,
            contender.plan(&load.plan()).text("operations"),
        ));
        contenders.push(contender);
    }
    println!();
    Ok(contenders)
}

/// The order of a round: forwards, backwards, forwards.
fn order(count: usize, round: u64) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..count).collect() } else { (0..count).rev().collect() }
}

fn measure_in_turns(
    arguments: &CompareArguments,
    load: &LoadArguments,
    contenders: &[Contender],
    prepared: &Prepared,
    output: &mut Output,
) {
    for round in 0..u64::from(load.runs) {
        for row in order(contenders.len(), round) {
            std::thread::sleep(Duration::from_secs(arguments.rest));
            let contender = &contenders[row];
            let measured = contender.run(&load.plan(), prepared, load.seed, round, &|_| {});
            let figures = &measured.figures;
            let p99 = figures.latency.percentile(99.0);
            let name = &contender.spec.name;
            println!("run {} {name:<22} {:>12.0} operations/s, p99 {p99:.3} ms", round + 1, figures.throughput);
            output.add_to(row, measured, name);
        }
    }
}

fn trace_all(load: &LoadArguments, contenders: &[Contender], prepared: &Prepared, output: &mut Output) {
    let plan = Plan { duration: TRACED, warmup: Duration::ZERO, rate: None, ..load.plan() };
    // A number that no measured run has, so that what it writes is new as well.
    let run = u64::from(load.runs);
    for (row, contender) in contenders.iter().enumerate() {
        let Some(process) = contender.target.process() else { continue };
        match traced(contender, &plan, prepared, load.seed, run, process) {
            Ok(traced) => output.report().stores[row].traced = Some(traced),
            Err(error) => eprintln!("logbench: {} is not traced: {error}", contender.spec.name),
        }
    }
}

fn traced(
    contender: &Contender,
    plan: &Plan,
    prepared: &Prepared,
    seed: u64,
    run: u64,
    process: u32,
) -> std::io::Result<TracedSyncs> {
    let trace = Trace::attach(process, Path::new("/tmp"))?;
    let measured = contender.run(plan, prepared, seed, run, &|_| {});
    Ok(TracedSyncs { calls: trace.detach()?, operations: measured.figures.counts.done })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn stores_take_turns_and_the_order_turns_around() {
        assert_eq!([order(3, 0), order(3, 1), order(3, 2)], [vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2]]);
    }

    #[test]
    fn a_comparison_of_the_library_with_itself_gives_two_rows_and_a_ratio() {
        let directory = tempfile::tempdir().unwrap();
        let (stores, json) = (directory.path().join("stores"), directory.path().join("c.json"));
        let (stores, json) = (stores.display().to_string(), json.display().to_string());
        let words = [
            "logbench",
            "compare",
            "--stores",
            "embedded,embedded+threads",
            "--rest",
            "0",
            "kv",
            "--letter",
            "put",
            "--records",
            "100",
            "-c",
            "4",
            "-t",
            "1",
            "--warmup",
            "0",
            "--runs",
            "2",
            "--dir",
            &stores,
            "--json",
            &json,
        ];
        let Command::Compare(arguments) = Arguments::try_parse_from(words).unwrap().command else { panic!("compare") };
        assert!(run(&arguments).unwrap());
        let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let rows = report.pointer("/stores").unwrap().as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(row.pointer("/runs").unwrap().as_array().unwrap().len(), 2);
            assert!(row.pointer("/ratio").unwrap().as_f64().unwrap() > 0.0);
        }
        assert!(rows[1].pointer("/arrivals").unwrap().as_str().unwrap().contains("over 4 threads"));
        assert_eq!(std::fs::read_dir(stores).unwrap().count(), 0, "temporary stores are gone");
    }

    #[test]
    fn a_peer_that_is_not_built_in_says_how_to_build_it() {
        if cfg!(feature = "peer-rocksdb") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let stores = directory.path().display().to_string();
        let words = ["logbench", "compare", "--stores", "rocksdb", "kv", "--records", "1", "--dir", &stores];
        let Command::Compare(arguments) = Arguments::try_parse_from(words).unwrap().command else { panic!("compare") };
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("--features peer-rocksdb"), "{error}");
    }
}
