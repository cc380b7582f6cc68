//! Tables of figures that a person reads in ten seconds.
//! Guarantees: one line a store or run, medians in it, and what was not done right below.
//! Must not know: how runs were made.
//! Next: store.rs has the figures.

use super::store::{RunFigures, StoreFigures, StoreReport};
use std::fmt::Write;

/// A number in the digits that matter.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => grouped(value.round() as u64),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A whole number in groups of three.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn milliseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

fn flushes_per_second(run: &RunFigures) -> Option<f64> {
    run.device.map(|device| device.flushes as f64 / run.seconds)
}

fn operations_per_flush(run: &RunFigures) -> Option<f64> {
    run.device.filter(|device| device.flushes > 0).map(|device| run.count() as f64 / device.flushes as f64)
}

fn device_bytes(run: &RunFigures) -> Option<f64> {
    run.device.filter(|_| run.count() > 0).map(|device| device.bytes as f64 / run.count() as f64)
}

fn write_row(text: &mut String, cells: &[String]) -> std::fmt::Result {
    let widths = [22, 12, 19, 7, 9, 9, 9, 9, 10, 9, 10];
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if at == 0 {
            write!(text, "{cell:<width$}")?
        } else {
            write!(text, " {cell:>width$}")?
        };
    }
    writeln!(text)
}

impl StoreReport {
    /// The table and what belongs below it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes everything");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let head = [
            "store",
            "operations/s",
            "lowest..highest",
            "ratio",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "flushes/s",
            "ops/flush",
            "bytes/op",
        ];
        writeln!(text)?;
        write_row(text, &head.map(str::to_owned))?;
        self.stores.iter().try_for_each(|store| write_store(text, store))?;
        writeln!(text, "\nMedians of the runs. flushes and bytes: of the whole device, as the kernel counts them.\n")?;
        for store in &self.stores {
            self.write_kinds(text, store)?;
        }
        self.write_faults(text)
    }

    fn write_kinds(&self, text: &mut String, store: &StoreFigures) -> std::fmt::Result {
        let Some(run) = middle_run(store) else { return Ok(()) };
        writeln!(text, "{}: {}", store.name, store.about)?;
        writeln!(text, "  {}; {:.1} MB/s of values", store.arrivals, run.megabytes_per_second)?;
        for class in &run.classes {
            let ms = |percent| milliseconds(class.latency.percentile(percent));
            let name = format!("{:<18}{:>11}", class.name, grouped(class.count));
            writeln!(
                text,
                "  {name}  p50 {}  p99 {}  p99.9 {} ms   {}",
                ms(50.0),
                ms(99.0),
                ms(99.9),
                class.latency.below_text()
            )?;
        }
        if let Some(traced) = &store.traced {
            let calls: Vec<String> =
                traced.calls.iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
            let calls = if calls.is_empty() { "no call that syncs".to_owned() } else { calls.join(", ") };
            writeln!(text, "  traced apart: {calls}, for {} operations", grouped(traced.operations))?;
        }
        for mark in &run.marks {
            writeln!(text, "  {:.0} s: {}", mark.second, mark.text)?;
        }
        Ok(())
    }

    fn write_faults(&self, text: &mut String) -> std::fmt::Result {
        for (store, run) in self.stores.iter().flat_map(|store| store.runs.iter().map(move |run| (store, run))) {
            let counts = &run.counts;
            let faults = [
                (counts.failed, "answered with an error"),
                (counts.unknown, "without a reply"),
                (run.not_sent, "due but not sent: the store was too slow for this rate"),
                (counts.missing, "found less than they asked for"),
            ];
            for (count, what) in faults.into_iter().filter(|(count, _)| *count > 0) {
                writeln!(text, "{} run {}: {} operations {what}.", store.name, run.run + 1, grouped(count))?;
            }
        }
        Ok(())
    }
}

/// The run whose throughput is the middle one.
fn middle_run(store: &StoreFigures) -> Option<&RunFigures> {
    let mut runs: Vec<&RunFigures> = store.runs.iter().collect();
    runs.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}

fn write_store(text: &mut String, store: &StoreFigures) -> std::fmt::Result {
    let Some(spread) = store.throughput else { return writeln!(text, "{:<22} no run", store.name) };
    let ms = |percent: f64| milliseconds(store.median(|run| run.latency.percentile(percent)));
    let cells = [
        store.name.clone(),
        number(spread.median),
        format!("{}..{}", number(spread.lowest), number(spread.highest)),
        store.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
        ms(50.0),
        ms(99.0),
        ms(99.9),
        milliseconds(store.median(|run| run.latency.max_ms)),
        or_dash(store.median_of_some(flushes_per_second)),
        or_dash(store.median_of_some(operations_per_flush)),
        or_dash(store.median_of_some(device_bytes)),
    ];
    write_row(text, &cells)
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::report;
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!((grouped(1_234_567).as_str(), grouped(12).as_str()), ("1,234,567", "12"));
        assert_eq!(
            (number(0.123).as_str(), number(99.94).as_str(), number(1234.5).as_str()),
            ("0.12", "99.9", "1,235")
        );
    }

    #[test]
    fn the_table_has_a_line_a_store_and_tells_what_went_wrong() {
        let mut report = report();
        report.stores[1].runs[2].counts.failed = 7;
        let text = report.text();
        let line = text.lines().find(|line| line.starts_with("two ")).unwrap();
        for cell in ["50.0", "40.0..60.0", "0.500", "10.0"] {
            assert!(line.contains(cell), "{cell} in {line}");
        }
        assert!(text.contains("two run 1: 7 operations answered with an error."), "{text}");
        assert!(!report.is_whole());
    }
}
