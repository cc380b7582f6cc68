//! Figures of runs over keys and values, of one store or of several side by side.
//! Guarantees: ratios are of medians; a spread is from the lowest run to the highest.
//! Must not know: how runs were made.
//! Next: table.rs shows them.

use super::{ClassReport, LatencyReport, Mark, Second, median};
use crate::device::DeviceCounters;
use crate::env::Environment;
use crate::measure::Run;
use crate::workload::mixed::Counts;
use crate::workload::operation::Kind;
use serde::Serialize;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunFigures {
    /// Its number, from 0.
    pub run: u64,
    /// Measured seconds.
    pub seconds: f64,
    /// Operations that ended, a second.
    pub throughput: f64,
    /// Bytes of values read and written, a second, in millions.
    pub megabytes_per_second: f64,
    /// Latencies of all operations.
    pub latency: LatencyReport,
    /// Latencies by kind of operation.
    pub classes: Vec<ClassReport>,
    /// What became of them.
    pub counts: Counts,
    /// Operations that were due in the open loop but could not be sent.
    pub not_sent: u64,
    /// Sessions lost.
    pub sessions_lost: u64,
    /// What went to the device meanwhile, if the store is on one of ours.
    pub device: Option<DeviceCounters>,
    /// Every second.
    pub series: Vec<Second>,
    /// What happened.
    pub marks: Vec<Mark>,
}

impl RunFigures {
    /// Reads a run off.
    pub fn of<W>(run: &Run<W>, number: u64, counts: Counts) -> RunFigures {
        let latencies = run.latencies();
        let classes = run.classes().into_iter().map(|(class, latencies)| ClassReport {
            name: Kind::ALL.get(class).map_or("other", |kind| kind.word()).to_owned(),
            count: latencies.count(),
            latency: LatencyReport::of(&latencies),
        });
        RunFigures {
            run: number,
            seconds: run.seconds,
            throughput: latencies.count() as f64 / run.seconds,
            megabytes_per_second: counts.bytes as f64 / run.seconds / 1e6,
            latency: LatencyReport::of(&latencies),
            classes: classes.collect(),
            counts,
            not_sent: run.not_sent(),
            sessions_lost: run.sessions_lost(),
            device: run.device,
            series: run.series.clone(),
            marks: run.marks.clone(),
        }
    }

    /// Operations measured.
    pub fn count(&self) -> u64 {
        self.counts.done
    }
}

/// Middle, lowest and highest of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Middle.
    pub median: f64,
    /// Lowest.
    pub lowest: f64,
    /// Highest.
    pub highest: f64,
}

impl Spread {
    /// Of numbers, of which there must be one.
    pub fn of(numbers: impl Iterator<Item = f64> + Clone) -> Spread {
        Spread {
            median: median(numbers.clone()),
            lowest: numbers.clone().fold(f64::INFINITY, f64::min),
            highest: numbers.fold(0.0, f64::max),
        }
    }
}

/// Syncs as a trace of system calls counts them, in a run apart from the measured ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedSyncs {
    /// Calls by name, those that sync.
    pub calls: Vec<(String, u64)>,
    /// Operations that ended meanwhile.
    pub operations: u64,
}

/// All runs of one store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFigures {
    /// Its name, as it was given.
    pub name: String,
    /// What it says of itself.
    pub about: String,
    /// How operations started.
    pub arrivals: String,
    /// Its runs.
    pub runs: Vec<RunFigures>,
    /// Operations a second over the runs.
    pub throughput: Option<Spread>,
    /// Its median throughput against that of the first store.
    pub ratio: Option<f64>,
    /// Its syncs, if they were traced.
    pub traced: Option<TracedSyncs>,
}

impl StoreFigures {
    /// A store without a run.
    pub fn new(name: &str, about: &str, arrivals: String) -> StoreFigures {
        let (name, about) = (name.to_owned(), about.to_owned());
        StoreFigures { name, about, arrivals, runs: Vec::new(), throughput: None, ratio: None, traced: None }
    }

    /// Median of a figure over the runs.
    pub fn median(&self, figure: impl Fn(&RunFigures) -> f64) -> f64 {
        median(self.runs.iter().map(figure))
    }

    /// Median over the runs that have the figure; `None` if none has.
    pub fn median_of_some(&self, figure: impl Fn(&RunFigures) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> = self.runs.iter().filter_map(figure).collect();
        (!known.is_empty()).then(|| median(known.into_iter()))
    }
}

/// A finished measurement.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// Version of this form.
    pub schema: u32,
    /// "kv", "asbench", "iometer" or "queue".
    pub workload: String,
    /// What was asked for, in words.
    pub settings: String,
    /// Where and how.
    pub environment: Environment,
    /// Seed of the operations.
    pub seed: u64,
    /// The stores, in their order.
    pub stores: Vec<StoreFigures>,
}

impl StoreReport {
    /// Works out spreads and ratios.
    pub fn finish(&mut self) {
        for store in self.stores.iter_mut().filter(|store| !store.runs.is_empty()) {
            store.throughput = Some(Spread::of(store.runs.iter().map(|run| run.throughput)));
        }
        let middle = |store: &StoreFigures| store.throughput.map(|spread| spread.median);
        let first = self.stores.first().and_then(middle);
        for store in &mut self.stores {
            store.ratio = middle(store).zip(first).filter(|(_, first)| *first > 0.0).map(|(own, first)| own / first);
        }
    }

    /// Whether every operation of every run was done.
    pub fn is_whole(&self) -> bool {
        let runs = self.stores.iter().flat_map(|store| &store.runs);
        runs.map(|run| run.counts.failed + run.counts.unknown + run.not_sent).sum::<u64>() == 0
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::histogram::Latencies;
    use std::time::Duration;

    /// A run of so many operations a second.
    pub fn run(throughput: f64) -> RunFigures {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(3));
        let latency = LatencyReport::of(&latencies);
        RunFigures {
            run: 0,
            seconds: 2.0,
            throughput,
            megabytes_per_second: 1.0,
            classes: vec![ClassReport { name: "read".to_owned(), count: 1, latency: latency.clone() }],
            latency,
            counts: Counts { done: (2.0 * throughput) as u64, ..Counts::default() },
            not_sent: 0,
            sessions_lost: 0,
            device: Some(DeviceCounters { writes: 10, bytes: 4096, flushes: 20 }),
            series: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// A report of two stores.
    pub fn report() -> StoreReport {
        let store = |name: &str, rates: &[f64]| {
            let mut store = StoreFigures::new(name, "about it", "closed loop".to_owned());
            store.runs = rates.iter().map(|rate| run(*rate)).collect();
            store
        };
        let mut report = StoreReport {
            schema: super::super::SCHEMA,
            workload: "kv".to_owned(),
            settings: "letter a".to_owned(),
            environment: Environment::read(std::path::Path::new(".")),
            seed: 1,
            stores: vec![store("one", &[90.0, 100.0, 300.0]), store("two", &[50.0, 40.0, 60.0])],
        };
        report.finish();
        report
    }

    #[test]
    fn ratios_are_of_medians_to_the_first_store() {
        let report = report();
        assert_eq!(report.stores[0].throughput, Some(Spread { median: 100.0, lowest: 90.0, highest: 300.0 }));
        assert_eq!((report.stores[0].ratio, report.stores[1].ratio), (Some(1.0), Some(0.5)));
        assert!(report.is_whole());
    }

    #[test]
    fn the_json_has_its_version_and_the_curves() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["schema"], super::super::SCHEMA);
        for place in ["/environment/device", "/stores/1/ratio", "/stores/0/runs/0/series", "/stores/0/runs/0/marks"] {
            assert!(json.pointer(place).is_some(), "{place}");
        }
    }
}
