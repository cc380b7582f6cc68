//! `logctl verify`: checks every checksum and every relation between the files.
//! Guarantees: reads everything, changes nothing; the verdict is the worst finding.
//! Must not know: how damage is found; store.rs reports it.
//! Next: store.rs.

use super::{EXIT_CORRUPT, EXIT_DIFFERENT, EXIT_NOT_A_STORE, EXIT_OK, ToolError, directory_of, open};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::{Output, Table, size_text};
use crate::store::{BatchFacts, LogEndFacts, LogVisitor, ManifestFacts, SegmentFacts, SnapshotReferenceFacts, Store, WalkEnd};
use logd_engine::Error;
use logd_engine::error::Corrupt;
use logd_engine::units::Lsn;
use serde::Serialize;
use std::ops::ControlFlow;

const EXAMPLES: &str = "Examples:
  logctl verify /var/lib/logd
  logctl verify /var/lib/logd --json | jq .verdict

Exit codes: 0 sound, 1 torn tail only (a start cuts it, nothing acknowledged as durable is lost), 2 corrupt, 3 not a store.";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the store.
    #[arg(value_name = "DIR")]
    place: Place,
}

/// The result in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All is well.
    Sound,
    /// A crash left unsynced bytes behind the end.
    TornTail,
    /// Something that was durable is damaged or missing.
    Corrupt,
    /// There is no store.
    NotAStore,
}

impl Verdict {
    fn exit_code(self) -> u8 {
        match self {
            Verdict::Sound => EXIT_OK,
            Verdict::TornTail => EXIT_DIFFERENT,
            Verdict::Corrupt => EXIT_CORRUPT,
            Verdict::NotAStore => EXIT_NOT_A_STORE,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Sound => "sound",
            Verdict::TornTail => "sound but for a torn tail, which the next start cuts off",
            Verdict::Corrupt => "CORRUPT",
            Verdict::NotAStore => "not a store",
        }
    }
}

/// One piece of damage.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    case: char,
    file: String,
    offset: u64,
    what: &'static str,
    expected: String,
    found: String,
}

impl From<&Corrupt> for Finding {
    fn from(corrupt: &Corrupt) -> Finding {
        Finding {
            case: corrupt.case,
            file: corrupt.file.clone(),
            offset: corrupt.offset,
            what: corrupt.what,
            expected: corrupt.expected.clone(),
            found: corrupt.found.clone(),
        }
    }
}

/// A snapshot that was read to its end.
#[derive(Clone, Debug, Serialize)]
struct SnapshotCheck {
    lsn: u64,
    file: String,
    bytes: u64,
    records: u64,
    sound: bool,
}

/// What was seen of the log.
#[derive(Clone, Debug, Default, Serialize)]
struct LogCheck {
    files: u64,
    file_bytes: u64,
    batches: u64,
    commands: u64,
    first_lsn: u64,
    last_lsn: u64,
    end: Option<LogEndFacts>,
    batches_behind_damage: u64,
    lsn_behind_damage: u64,
    unreadable_bytes: u64,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    verdict: Verdict,
    /// The process that had the store open meanwhile.
    live_process: Option<u32>,
    manifest: Option<ManifestFacts>,
    snapshots: Vec<SnapshotCheck>,
    log: LogCheck,
    findings: Vec<Finding>,
    notes: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let mut store = open(directory_of(&arguments.place)?, output)?;
    let report = verify(store.as_mut())?;
    output.result(&report, text);
    Ok(report.verdict.exit_code())
}

fn verify(store: &mut dyn Store) -> Result<Report, ToolError> {
    let mut report = Report {
        command: "verify",
        place: store.place(),
        verdict: Verdict::Sound,
        live_process: store.holder(),
        manifest: None,
        snapshots: Vec::new(),
        log: LogCheck::default(),
        findings: Vec::new(),
        notes: Vec::new(),
    };
    match report.keep(store.manifest())? {
        // Without a readable manifest it is not known to which store the other files belong.
        None => {}
        Some(None) => report.verdict = Verdict::NotAStore,
        Some(Some(manifest)) => {
            report.notes.extend(manifest.note.clone());
            for reference in &manifest.snapshots {
                report.check_snapshot(store, reference)?;
            }
            report.manifest = Some(manifest);
            report.check_log(store)?;
        }
    }
    report.judge();
    Ok(report)
}

impl Report {
    /// Turns damage into a finding; other errors end the command.
    fn keep<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, ToolError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt(corrupt)) => {
                self.findings.push(Finding::from(&*corrupt));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check_snapshot(&mut self, store: &mut dyn Store, reference: &SnapshotReferenceFacts) -> Result<(), ToolError> {
        let lsn = Lsn(reference.lsn);
        let mut check = SnapshotCheck {
            lsn: lsn.0,
            file: format!("snapshot of LSN {lsn}"),
            bytes: reference.file_bytes,
            records: 0,
            sound: false,
        };
        if let Some(facts) = self.keep(store.snapshot(lsn))? {
            let read = store.snapshot_records(lsn, &mut |_, _, _| check.records += 1);
            let read = self.keep(read)?.is_some();
            let agrees = self.compare(reference, &facts.file, facts.file_bytes, &facts.digest, facts.record_count);
            check.sound = read && agrees;
            check.file = facts.file;
        }
        self.snapshots.push(check);
        Ok(())
    }

    /// Compares what the manifest says of a snapshot with what stands in it.
    fn compare(&mut self, said: &SnapshotReferenceFacts, file: &str, bytes: u64, digest: &str, records: u64) -> bool {
        if (said.file_bytes, said.digest.as_str(), said.record_count) == (bytes, digest, records) {
            return true;
        }
        self.findings.push(Finding {
            case: 's',
            file: file.to_owned(),
            offset: 0,
            what: "snapshot that the manifest describes",
            expected: format!("{} bytes, {} records, digest {}", said.file_bytes, said.record_count, said.digest),
            found: format!("{bytes} bytes, {records} records, digest {digest}"),
        });
        false
    }

    fn check_log(&mut self, store: &mut dyn Store) -> Result<(), ToolError> {
        let mut watcher = Watcher { log: LogCheck::default(), damage: Vec::new() };
        let walked = store.log(Lsn::NONE, &mut watcher);
        self.log = watcher.log;
        self.findings.extend(watcher.damage);
        if let Some(WalkEnd::End(end)) = self.keep(walked)? {
            self.log.end = Some(end);
        }
        Ok(())
    }

    fn judge(&mut self) {
        let torn = self.log.end.as_ref().is_some_and(LogEndFacts::is_torn);
        if !self.findings.is_empty() {
            self.verdict = Verdict::Corrupt;
        } else if torn && self.verdict == Verdict::Sound {
            self.verdict = Verdict::TornTail;
        }
        if let Some(process) = self.live_process {
            self.notes.push(format!(
                "process {process} wrote to this store meanwhile: a torn tail or missing file may be its work in progress; stop it for a final verdict"
            ));
        }
    }
}

struct Watcher {
    log: LogCheck,
    damage: Vec<Finding>,
}

impl LogVisitor for Watcher {
    fn segment(&mut self, segment: &SegmentFacts) {
        self.log.files += 1;
        self.log.file_bytes += segment.bytes;
    }

    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        if self.log.batches == 0 {
            self.log.first_lsn = batch.first_lsn.0;
        }
        self.log.batches += 1;
        self.log.commands += batch.frames.len() as u64;
        self.log.last_lsn = batch.last_lsn().0;
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damage.push(Finding::from(damage));
    }

    fn batch_behind(&mut self, batch: &BatchFacts<'_>) {
        self.log.batches_behind_damage += 1;
        self.log.lsn_behind_damage = self.log.lsn_behind_damage.max(batch.last_lsn().0);
    }

    fn unreadable(&mut self, _segment: u64, from: u64, to: u64) {
        self.log.unreadable_bytes += to - from;
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.place, report.verdict.text());
    if let Some(manifest) = &report.manifest {
        let made = Moment(manifest.created_millis);
        let stop = if manifest.clean.is_some() { "closed in good order" } else { "not closed, or open" };
        text += &format!("\nstore {}, made {made}, {stop}\n", manifest.store_id);
    }
    let mut table = Table::new(&["file", ">LSN", ">size", ">records", "state"]);
    for snapshot in &report.snapshots {
        let state = if snapshot.sound { "sound" } else { "DAMAGED" }.to_owned();
        let (lsn, records) = (snapshot.lsn.to_string(), snapshot.records.to_string());
        table.row(vec![snapshot.file.clone(), lsn, size_text(snapshot.bytes), records, state]);
    }
    if !table.is_empty() {
        text += &format!("\n{}", table.text());
    }
    if report.verdict != Verdict::NotAStore {
        text += &log_text(&report.log);
    }
    text += &findings_text(&report.findings);
    report.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

fn log_text(log: &LogCheck) -> String {
    let mut text = format!(
        "\nlog: {} files, {}; {} batches, {} commands, LSN {} to {}\n",
        log.files,
        size_text(log.file_bytes),
        log.batches,
        log.commands,
        log.first_lsn,
        log.last_lsn
    );
    if let Some(end) = &log.end {
        text += &format!(
            "end: LSN {}, segment {} at byte {} (case {}: {})\n",
            end.last_lsn, end.segment, end.offset, end.case, end.condition
        );
        if end.is_torn() {
            text += &format!("torn tail: {} bytes and {} files behind it\n", end.torn_bytes, end.torn_files);
        }
    }
    if log.batches_behind_damage > 0 || log.unreadable_bytes > 0 {
        text += &format!(
            "behind the damage: {} whole batches up to LSN {}, {} unreadable bytes\n",
            log.batches_behind_damage, log.lsn_behind_damage, log.unreadable_bytes
        );
    }
    text
}

fn findings_text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["case", "file", ">byte", "what", "expected", "found"]);
    for finding in findings {
        table.row(vec![
            finding.case.to_string(),
            finding.file.clone(),
            finding.offset.to_string(),
            finding.what.to_owned(),
            finding.expected.clone(),
            finding.found.clone(),
        ]);
    }
    format!("\n{}", table.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::{FakeStore, corrupt};

    fn exit_code(store: &mut FakeStore) -> u8 {
        verify(store).unwrap().verdict.exit_code()
    }

    #[test]
    fn the_exit_code_is_the_worst_finding() {
        let mut store = FakeStore::sound();
        assert_eq!(exit_code(&mut store), 0);
        store.end.torn_bytes = 4096;
        assert_eq!(exit_code(&mut store), 1);
        store.damage = Some(corrupt("log/1"));
        assert_eq!(exit_code(&mut store), 2);
        store.manifest = None;
        assert_eq!(exit_code(&mut store), 3);
        store.manifest_error = Some(corrupt("manifest").into());
        assert_eq!(exit_code(&mut store), 2);
    }

    #[test]
    fn a_damaged_snapshot_is_corrupt_and_the_log_is_still_checked() {
        let mut store = FakeStore::sound();
        let reference = SnapshotReferenceFacts {
            lsn: 2,
            file_bytes: 0,
            digest: String::new(),
            time_millis: 0,
            record_count: 0,
        };
        store.manifest = Some(ManifestFacts { snapshots: vec![reference.clone()], ..ManifestFacts::default() });
        assert_eq!(exit_code(&mut store), 0);
        store.snapshot_error = Some(corrupt("snapshot/2").into());
        let report = verify(&mut store).unwrap();
        assert_eq!((report.verdict, report.log.commands, report.snapshots[0].sound), (Verdict::Corrupt, 4, false));
        store.snapshot_error = None;
        let other = SnapshotReferenceFacts { digest: "00".to_owned(), ..reference };
        store.manifest = Some(ManifestFacts { snapshots: vec![other], ..ManifestFacts::default() });
        assert_eq!(exit_code(&mut store), 2);
    }

    #[test]
    fn an_unreadable_disk_is_no_verdict() {
        let mut store = FakeStore::sound();
        store.manifest_error = Some(logd_engine::error::Refused::Closed.into());
        assert!(verify(&mut store).is_err());
    }

    #[test]
    fn text_shows_case_letters_and_a_live_store_its_process() {
        let mut store = FakeStore::sound();
        store.holder = Some(77);
        store.damage = Some(corrupt("log/1"));
        let shown = text(&verify(&mut store).unwrap());
        for word in ["CORRUPT", "F     log/1", "4096", "process 77"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}
