//! `logctl verify`: checks every checksum and every relation between the files.
//! Guarantees: reads everything, changes nothing; the verdict is the worst finding.
//! Must not know: how damage is found; store.rs reports it.
//! Next: store.rs.

use super::{EXIT_CORRUPT, EXIT_DIFFERENT, EXIT_NOT_A_STORE, EXIT_OK, ToolError, directory_of, open};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::{Output, Table};
use crate::store::{BatchFacts, LogVisitor, ManifestFacts, Store};
use logd_engine::error::Corrupt;
use logd_engine::log::CASES;
use logd_engine::units::Lsn;
use logd_engine::verify::{Finding, Verdict};
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
pub enum Word {
    /// All is well.
    Sound,
    /// A crash left unsynced bytes behind the end.
    TornTail,
    /// Something that was durable is damaged or missing.
    Corrupt,
    /// There is no store.
    NotAStore,
}

impl Word {
    fn exit_code(self) -> u8 {
        match self {
            Word::Sound => EXIT_OK,
            Word::TornTail => EXIT_DIFFERENT,
            Word::Corrupt => EXIT_CORRUPT,
            Word::NotAStore => EXIT_NOT_A_STORE,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Word::Sound => "sound",
            Word::TornTail => "sound but for a torn tail, which the next start cuts off",
            Word::Corrupt => "CORRUPT",
            Word::NotAStore => "not a store",
        }
    }
}

/// One piece of damage.
#[derive(Clone, Debug, Serialize)]
struct Damage {
    case: char,
    file: String,
    offset: u64,
    what: &'static str,
    expected: String,
    found: String,
}

impl From<&Corrupt> for Damage {
    fn from(corrupt: &Corrupt) -> Damage {
        Damage {
            case: corrupt.case,
            file: corrupt.file.clone(),
            offset: corrupt.offset,
            what: corrupt.what,
            expected: corrupt.expected.clone(),
            found: corrupt.found.clone(),
        }
    }
}

/// A whole snapshot.
#[derive(Clone, Debug, Serialize)]
struct SnapshotCheck {
    lsn: u64,
    blocks: u64,
    records: u64,
    digest: String,
}

/// A whole log.
#[derive(Clone, Debug, Serialize)]
struct LogCheck {
    commands: u64,
    last_lsn: u64,
    case: char,
    condition: &'static str,
    cut_bytes: u64,
}

/// What stands behind damage in the log.
#[derive(Clone, Debug, Default, Serialize)]
struct Extent {
    last_lsn_before: u64,
    batches_behind: u64,
    last_lsn_behind: u64,
    unreadable_bytes: u64,
}

/// The report.
#[derive(Clone, Debug, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    verdict: Word,
    /// The process that had the store open meanwhile.
    live_process: Option<u32>,
    manifest: Option<ManifestFacts>,
    snapshots: Vec<SnapshotCheck>,
    log: Option<LogCheck>,
    damage: Vec<Damage>,
    extent: Option<Extent>,
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
        verdict: Word::Sound,
        live_process: store.holder(),
        manifest: None,
        snapshots: Vec::new(),
        log: None,
        damage: Vec::new(),
        extent: None,
        notes: Vec::new(),
    };
    let verdict = store.verify(&mut |finding| report.take(finding))?;
    report.verdict = match verdict {
        Verdict::Sound => Word::Sound,
        Verdict::TornTailOnly => Word::TornTail,
        Verdict::NotAStore(reason) => {
            report.notes.push(reason);
            Word::NotAStore
        }
        Verdict::Corrupt(damage) => {
            report.damage = damage.iter().map(Damage::from).collect();
            Word::Corrupt
        }
    };
    // A manifest that cannot be read is among the damage already, and without it nothing more can be said of the log.
    report.manifest = store.manifest().ok().flatten();
    if report.verdict == Word::Corrupt && report.manifest.is_some() {
        let mut extent = Extent::default();
        store.log(Lsn::NONE, &mut extent)?;
        report.extent = Some(extent);
    }
    if let Some(process) = report.live_process {
        report.notes.push(format!(
            "process {process} had this store open meanwhile: a torn tail or a missing file may be its work in progress; stop it for a final verdict"
        ));
    }
    Ok(report)
}

impl Report {
    fn take(&mut self, finding: &Finding) {
        match finding {
            Finding::Note(note) => self.notes.push(note.clone()),
            Finding::Snapshot { lsn, block_count, record_count, digest } => self.snapshots.push(SnapshotCheck {
                lsn: lsn.0,
                blocks: *block_count,
                records: *record_count,
                digest: digest.to_string(),
            }),
            Finding::Log { commands, last_lsn, case, cut_bytes } => {
                let row = CASES.iter().find(|row| row.letter == *case);
                let condition = row.map_or("", |row| row.condition);
                let (commands, cut_bytes) = (*commands, *cut_bytes);
                self.log = Some(LogCheck { commands, last_lsn: last_lsn.0, case: *case, condition, cut_bytes });
            }
            // The verdict has all of it.
            Finding::Damage(_) => {}
        }
    }
}

impl LogVisitor for Extent {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.last_lsn_before = batch.last_lsn().0;
        ControlFlow::Continue(())
    }

    fn batch_behind(&mut self, batch: &BatchFacts<'_>) {
        self.batches_behind += 1;
        self.last_lsn_behind = self.last_lsn_behind.max(batch.last_lsn().0);
    }

    fn unreadable(&mut self, _segment: u64, from: u64, to: u64) {
        self.unreadable_bytes += to - from;
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.place, report.verdict.text());
    if let Some(manifest) = &report.manifest {
        let made = Moment(manifest.created_millis);
        let stop = if manifest.clean.is_some() { "closed in good order" } else { "not closed in good order, or open" };
        text += &format!("store {}, made {made}, {stop}\n", manifest.store_id);
    }
    let mut table = Table::new(&[">snapshot of LSN", ">blocks", ">records", "digest"]);
    for snapshot in &report.snapshots {
        let numbers = [snapshot.lsn, snapshot.blocks, snapshot.records];
        let mut row: Vec<String> = numbers.iter().map(u64::to_string).collect();
        row.push(snapshot.digest.clone());
        table.row(row);
    }
    if !table.is_empty() {
        text += &format!("\n{}", table.text());
    }
    if let Some(log) = &report.log {
        text += &format!(
            "\nlog: {} commands from the oldest snapshot on, ends at LSN {} (case {}: {})\n",
            log.commands, log.last_lsn, log.case, log.condition
        );
        if log.cut_bytes > 0 {
            text += &format!("torn tail: {} bytes behind it\n", log.cut_bytes);
        }
    }
    text += &damage_text(&report.damage);
    if let Some(extent) = &report.extent {
        text += &format!(
            "\nlog: readable in order to LSN {}; behind that {} whole batches up to LSN {} and {} unreadable bytes\n",
            extent.last_lsn_before, extent.batches_behind, extent.last_lsn_behind, extent.unreadable_bytes
        );
    }
    report.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

fn damage_text(damage: &[Damage]) -> String {
    let mut table = Table::new(&["case", "file", ">byte", "what", "expected", "found"]);
    for one in damage {
        table.row(vec![
            one.case.to_string(),
            one.file.clone(),
            one.offset.to_string(),
            one.what.to_owned(),
            one.expected.clone(),
            one.found.clone(),
        ]);
    }
    if table.is_empty() { String::new() } else { format!("\n{}", table.text()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::{FakeStore, corrupt};

    fn exit_code(store: &mut FakeStore) -> u8 {
        verify(store).unwrap().verdict.exit_code()
    }

    #[test]
    fn the_exit_code_is_the_verdict() {
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
        for word in ["CORRUPT", "F     log/1", "4096", "in order to LSN 4", "process 77"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}
