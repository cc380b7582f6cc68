//! Runs kv, asbench and iometer on one store.
//! Guarantees: a report is printed whatever happened, and says what was not done.
//! Must not know: how stores are driven.
//! Next: contender.rs.

use crate::args::{AsbenchArguments, IometerArguments, KvArguments, LoadArguments, StoreSpec};
use crate::contender::{Contender, Measured, Prepared, place_for};
use crate::env::Environment;
use crate::hlog::{self, LoggedRun};
use crate::measure::Plan;
use crate::report::store::{StoreFigures, StoreReport};
use crate::report::{Interval, SCHEMA};
use crate::target::StoreOptions;
use crate::workload::asbench::{AsWorkload, Stage, stages};
use crate::workload::mixed::Mix;
use std::fs::File;
use std::time::{Duration, Instant};

/// Why something could not be measured.
pub type Failure = Box<dyn std::error::Error>;

/// Prints a periodic line.
pub fn print_line(interval: &Interval) {
    println!("{}", interval.line());
}

/// Words for a mix.
pub fn mix_text(mix: &Mix) -> String {
    let shares = mix.shares.iter().map(|(weight, kind)| format!("{} {weight}", kind.word())).collect::<Vec<_>>();
    let order = if mix.sequential_percent > 0 {
        format!(", {} % of places in sequence", mix.sequential_percent)
    } else {
        String::new()
    };
    format!(
        "{}; {} records of {:.0} bytes, {:?} choice{order}",
        shares.join(", "),
        mix.records,
        mix.sizes.mean(),
        mix.choice
    )
}

/// Runs kv.
pub fn run_kv(arguments: &KvArguments) -> Result<bool, Failure> {
    let mix = &arguments.mix;
    let name = format!("kv {:?}", mix.letter).to_lowercase();
    run_mix(&name, &arguments.target, &arguments.load, mix.letter.mix(mix.records, mix.value_bytes, mix.choice))
}

/// Runs iometer.
pub fn run_iometer(arguments: &IometerArguments) -> Result<bool, Failure> {
    let mix = arguments.mix.access.mix(arguments.mix.span_mib << 20);
    run_mix("iometer", &arguments.target, &arguments.load, mix)
}

fn options_of(load: &LoadArguments) -> StoreOptions {
    StoreOptions { level: load.durability, in_order: false }
}

fn run_mix(name: &str, spec: &StoreSpec, load: &LoadArguments, mix: Mix) -> Result<bool, Failure> {
    load.check()?;
    let mut contender = Contender::open(spec, place_for(spec, load, true)?, options_of(load))?;
    let settings = mix_text(&mix);
    let mut output = Output::begin(name, &settings, load, &contender, &load.plan());
    let prepared = Prepared::new(mix);
    load_noisily(&contender, &prepared)?;
    for run in 0..u64::from(load.runs) {
        output.add(contender.run(&load.plan(), &prepared, load.seed, run, &print_line), name);
    }
    contender.target.close()?;
    output.end(load)
}

/// Loads a store and says how long it took.
pub fn load_noisily(contender: &Contender, prepared: &Prepared) -> Result<(), Failure> {
    let start = Instant::now();
    contender.load(&prepared.mix)?;
    println!("Loaded       {} records in {:.1} s\n", prepared.mix.records, start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs asbench: the stage of the flags, or those of a file.
pub fn run_asbench(arguments: &AsbenchArguments) -> Result<bool, Failure> {
    let load = &arguments.load;
    load.check()?;
    let base = arguments.mix.stage(load);
    let list = match &arguments.mix.workload_stages {
        Some(path) => stages(&std::fs::read_to_string(path)?, &base)?,
        None => vec![base],
    };
    let spec = &arguments.target;
    let mut contender = Contender::open(spec, place_for(spec, load, true)?, options_of(load))?;
    let settings = list.iter().map(stage_text).collect::<Vec<_>>().join("; then ");
    let mut output = Output::begin("asbench", &settings, load, &contender, &load.plan());
    let starts_empty = list[0].workload == AsWorkload::Insert;
    if !starts_empty {
        load_noisily(&contender, &Prepared::new(list[0].mix()))?;
    }
    for (number, stage) in list.iter().enumerate() {
        std::thread::sleep(Duration::from_secs(stage.pause));
        run_stage(&contender, load, stage, number, list.len(), &mut output);
    }
    contender.target.close()?;
    output.end(load)
}

fn stage_text(stage: &Stage) -> String {
    match stage.workload {
        AsWorkload::Insert => format!("insert {} objects of {} bytes", stage.keys, stage.object.bytes),
        AsWorkload::ReadUpdate(_) => mix_text(&stage.mix()),
    }
}

fn run_stage(
    contender: &Contender,
    load: &LoadArguments,
    stage: &Stage,
    number: usize,
    all: usize,
    output: &mut Output,
) {
    let seconds = stage.duration.unwrap_or(load.duration);
    let rate = (stage.rate > 0).then_some(stage.rate);
    let plan = Plan { duration: Duration::from_secs(seconds), rate, ..load.plan() };
    let prepared = Prepared::new(stage.mix());
    if all > 1 {
        output.next_store(&format!("stage {}", number + 1), &stage_text(stage), &contender.plan(&plan));
    }
    println!("{}", stage_text(stage));
    if stage.workload == AsWorkload::Insert {
        output.add(contender.fill(&plan, &prepared, &print_line), &format!("insert-{number}"));
        return;
    }
    for run in 0..u64::from(load.runs) {
        // Stages differ in what they draw, as runs do.
        let draw = run + (number as u64) * 100;
        let mut measured = contender.run(&plan, &prepared, load.seed, draw, &print_line);
        measured.figures.run = run;
        output.add(measured, &format!("stage-{number}"));
    }
}

/// Collects runs, and shows and writes them at the end.
pub struct Output {
    report: StoreReport,
    logged: Vec<(String, Measured)>,
}

impl Output {
    /// Prints the head.
    pub fn begin(name: &str, settings: &str, load: &LoadArguments, contender: &Contender, plan: &Plan) -> Output {
        let environment = Environment::read(&contender.path());
        let arrivals = contender.plan(plan).text("operations");
        print!("{}", environment.text());
        println!("Workload     {name}: {settings}\nTarget       {}\nArrivals     {arrivals}", contender.about);
        let mut output = Output::empty(name, settings, load, environment);
        output.report.stores.push(StoreFigures::new(&contender.spec.name, &contender.about, arrivals));
        output
    }

    /// Without any store yet.
    pub fn empty(name: &str, settings: &str, load: &LoadArguments, environment: Environment) -> Output {
        let report = StoreReport {
            schema: SCHEMA,
            workload: name.to_owned(),
            settings: settings.to_owned(),
            environment,
            seed: load.seed,
            stores: Vec::new(),
        };
        Output { report, logged: Vec::new() }
    }

    /// The report so far.
    pub fn report(&mut self) -> &mut StoreReport {
        &mut self.report
    }

    /// Starts another row; takes the place of one that has no run.
    pub fn next_store(&mut self, name: &str, about: &str, plan: &Plan) {
        self.report.stores.retain(|store| !store.runs.is_empty());
        self.report.stores.push(StoreFigures::new(name, about, plan.text("operations")));
    }

    /// Adds a run to the newest row.
    pub fn add(&mut self, measured: Measured, tag: &str) {
        let newest = self.report.stores.len() - 1;
        self.add_to(newest, measured, tag);
    }

    /// Adds a run to a row.
    pub fn add_to(&mut self, row: usize, measured: Measured, tag: &str) {
        self.report.stores[row].runs.push(measured.figures.clone());
        self.logged.push((tag.to_owned(), measured));
    }

    /// Prints the table and writes the files. True if every operation was done.
    pub fn end(mut self, load: &LoadArguments) -> Result<bool, Failure> {
        self.report.finish();
        print!("{}", self.report.text());
        if let Some(path) = &load.json {
            std::fs::write(path, serde_json::to_string_pretty(&self.report)? + "\n")?;
        }
        if let Some(path) = &load.hlog {
            let runs = self.logged.iter().map(|(tag, measured)| LoggedRun {
                tag: hlog::tag(&format!("{tag}-{}", measured.figures.run + 1)),
                begun: measured.begun,
                intervals: &measured.logged,
            });
            hlog::write(&mut File::create(path)?, &self.report.environment.comment(), &runs.collect::<Vec<_>>())?;
        }
        Ok(self.report.is_whole())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    fn command(words: &[&str]) -> Command {
        Arguments::try_parse_from(["logbench"].iter().chain(words)).unwrap().command
    }

    #[test]
    fn kv_runs_on_the_library_and_leaves_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).display().to_string();
        let (store, json, hlog) = (file("store"), file("run.json"), file("run.hlog"));
        let words = [
            "kv",
            "--letter",
            "f",
            "--records",
            "500",
            "-t",
            "1",
            "--warmup",
            "0",
            "--runs",
            "2",
            "--dir",
            &store,
            "--json",
            &json,
            "--hlog",
            &hlog,
        ];
        let Command::Kv(arguments) = command(&words) else { panic!("kv") };
        assert!(run_kv(&arguments).unwrap());
        let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let runs = report.pointer("/stores/0/runs").unwrap().as_array().unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].pointer("/counts/missing").unwrap(), 0);
        assert!(runs[0].pointer("/throughput").unwrap().as_f64().unwrap() > 0.0);
        let log = std::fs::read_to_string(hlog).unwrap();
        assert!(log.contains("Tag=kv-f-1") && log.contains("Tag=kv-f-2"), "{log}");
    }

    #[test]
    fn asbench_inserts_and_then_mixes_by_a_stages_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).display().to_string();
        let text = "- stage: 1\n  workload: I\n- stage: 2\n  workload: RU,80\n  duration: 1\n";
        std::fs::write(file("stages.yml"), text).unwrap();
        let (store, json, stages) = (file("store"), file("run.json"), file("stages.yml"));
        let words = [
            "asbench",
            "-k",
            "300",
            "-o",
            "B64",
            "--warmup",
            "0",
            "--workload-stages",
            &stages,
            "--dir",
            &store,
            "--json",
            &json,
        ];
        let Command::Asbench(arguments) = command(&words) else { panic!("asbench") };
        assert!(run_asbench(&arguments).unwrap());
        let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(report.pointer("/stores/0/runs/0/counts/done").unwrap(), 300);
        assert_eq!(report.pointer("/stores/1/runs/0/counts/missing").unwrap(), 0);
    }
}
