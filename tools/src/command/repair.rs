//! `logctl repair`: saves what is whole of a damaged store into a new directory, after saying what will be lost.
//! Guarantees: the old directory is only read; the new one gets its name when it is whole and was verified, so that a repair
//! that is killed leaves nothing that opens as a store; nothing is done without a yes.
//! Must not know: how the plan is made; the engine makes the same one for `--on-corruption salvage`.
//! Next: the engine's recovery/plan.rs and recovery/extract.rs.

use super::{EXIT_CORRUPT, EXIT_FAILED, EXIT_OK, ToolError, directory_of};
use crate::directory::{self, digest_of, procedures};
use crate::moment::Moment;
use crate::place::{Place, holder};
use crate::progress::Progress;
use crate::render::{Output, size_text};
use crate::state::{Limit, rebuild};
use logd_engine::Error;
use logd_engine::disk::{IoMode, OsStorage, Storage};
use logd_engine::error::Failed;
use logd_engine::recovery::{LogFiles, Plan, extract, plan};
use logd_engine::units::Millis;
use logd_engine::verify::{Finding, Verdict, verify};
use serde::Serialize;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "Examples:
  logctl repair /var/lib/logd /var/lib/logd.new --dry-run   only say what would be lost
  logctl repair /var/lib/logd /var/lib/logd.new --yes       do it; then start logd --dir /var/lib/logd.new

DIR is only read; stop the daemon first. NEWDIR must not be there, or be empty. What is damaged stays in DIR: keep it.
Exit codes: 0 done (or --dry-run: nothing would be lost), 1 --dry-run: something would be lost, 2 nothing can be saved,
3 not a store, 4 failed or not confirmed, 64 wrong command line.";

/// Exit code of a dry run that found that something would be lost.
const EXIT_LOSS: u8 = 1;

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the damaged store.
    #[arg(value_name = "DIR")]
    place: Place,
    /// Directory of the store to be made.
    #[arg(value_name = "NEWDIR")]
    target: PathBuf,
    /// Only say what would be lost.
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking. Needed where nobody can be asked.
    #[arg(long)]
    yes: bool,
}

/// What is lost, in numbers.
#[derive(Clone, Debug, Serialize)]
struct LossReport {
    /// Commands that stand whole behind the damage.
    commands_countable: u64,
    /// First and last LSN that may be lost; 0 if none is.
    first_lsn: u64,
    last_lsn: u64,
    /// Wall time of the first and last countable batch, in milliseconds; 0 if unknown.
    first_wall_millis: u64,
    last_wall_millis: u64,
    /// Bytes and files that are not taken over.
    bytes: u64,
    files: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    command: &'static str,
    place: String,
    target: String,
    /// "planned" or "repaired".
    state: &'static str,
    damage: Vec<String>,
    manifest_rebuilt: bool,
    snapshot_lsn: u64,
    last_lsn: u64,
    loss: LossReport,
    /// State digest of the result; `None` where it was not made, or cannot be rebuilt here (a note says why).
    digest: Option<String>,
    notes: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let source_path = directory_of(&arguments.place)?;
    if let Some(process) = holder(source_path) {
        let text = format!("process {process} has {} open; stop it first", source_path.display());
        return Err(ToolError::Usage(text));
    }
    check_target(&arguments.target)?;
    let not_a_store = || ToolError::NotAStore { place: source_path.display().to_string() };
    if !source_path.is_dir() {
        return Err(not_a_store());
    }
    let storage = OsStorage::read_only(source_path).map_err(Error::from)?;
    let mut disk = storage.disk().map_err(Error::from)?;
    let found = plan(&mut *disk, now())?.ok_or_else(not_a_store)?;
    let mut report = report(&found, source_path, &arguments.target);
    if arguments.dry_run {
        output.result(&report, text);
        return Ok(if found.is_lossless() { EXIT_OK } else { EXIT_LOSS });
    }
    if !confirm(arguments, &report) {
        output.note("nothing was done; say --yes to go on");
        return Ok(EXIT_FAILED);
    }
    let unfinished = unfinished(&arguments.target);
    let result = build(&mut *disk, &found, &unfinished)?;
    if let Some(reason) = result.damage {
        output.note(&format!("the new store did not verify and stays in {}: {reason}", unfinished.display()));
        return Ok(EXIT_CORRUPT);
    }
    put_in_place(&unfinished, &arguments.target)?;
    report.state = "repaired";
    report.last_lsn = result.last_lsn.max(report.snapshot_lsn);
    match digest(&arguments.target) {
        Ok(digest) => report.digest = Some(digest),
        Err(error) => report.notes.push(format!("its digest could not be made: {error}")),
    }
    output.result(&report, text);
    Ok(EXIT_OK)
}

/// Replays the new store once more, from its files.
fn digest(target: &Path) -> Result<String, ToolError> {
    let mut store = directory::open(target)?;
    Ok(digest_of(&rebuild(store.as_mut(), Limit::End, procedures())?.rebuild.view()))
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(since.as_millis() as u64)
}

fn failed(operation: &'static str, path: &Path, error: &std::io::Error) -> ToolError {
    Error::from(Failed { operation, file: path.display().to_string(), reason: error.to_string() }).into()
}

/// A directory of that name must not exist, or be empty.
fn check_target(target: &Path) -> Result<(), ToolError> {
    let mut names = match fs::read_dir(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", target, &error)),
        Ok(names) => names,
    };
    match names.next() {
        None => Ok(()),
        Some(_) => Err(ToolError::Usage(format!("{} is not empty; name a new directory", target.display()))),
    }
}

/// Where the new store is built: beside its place, so that a rename puts it there.
fn unfinished(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(".repairing");
    target.with_file_name(name)
}

fn confirm(arguments: &Arguments, report: &Report) -> bool {
    if arguments.yes {
        return true;
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    let _ = write!(std::io::stderr(), "{}go on? [y/N] ", text(report));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "yes")
}

struct Built {
    damage: Option<String>,
    last_lsn: u64,
}

fn build(source: &mut dyn logd_engine::disk::Disk, found: &Plan, unfinished: &Path) -> Result<Built, ToolError> {
    match fs::remove_dir_all(unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed("remove", unfinished, &error)),
        _ => {}
    }
    let storage = OsStorage::new(unfinished, IoMode::Syscall).map_err(Error::from)?;
    let mut target = storage.disk().map_err(Error::from)?;
    let mut progress = Progress::new("repair");
    extract(source, &mut *target, found, &mut |bytes| progress.add(0, bytes))?;
    drop(target);
    progress.finish();
    let mut built = Built { damage: None, last_lsn: 0 };
    let verdict = verify(&storage, &LogFiles, &mut |finding| {
        if let Finding::Log { last_lsn, .. } = finding {
            built.last_lsn = last_lsn.0;
        }
    })?;
    built.damage = match verdict {
        Verdict::Sound | Verdict::TornTailOnly => None,
        Verdict::Corrupt(damage) => Some(damage.first().map_or(String::new(), ToString::to_string)),
        Verdict::NotAStore(reason) => Some(reason),
    };
    Ok(built)
}

fn put_in_place(unfinished: &Path, target: &Path) -> Result<(), ToolError> {
    // An empty directory is replaced by the rename.
    fs::rename(unfinished, target).map_err(|error| failed("rename", unfinished, &error))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(|error| failed("sync", parent, &error))
}

fn report(found: &Plan, source: &Path, target: &Path) -> Report {
    let loss = &found.loss;
    let segments = found.log.moved.iter().map(|(segment, _)| logd_engine::log::segment_name(*segment));
    let cut =
        found.log.cut.map(|cut| format!("{} from byte {} on", logd_engine::log::segment_name(cut.segment), cut.from));
    let snapshots = found.snapshots_damaged.iter().map(|(lsn, _)| logd_engine::snapshot::file_name(*lsn));
    let manifest = found.manifest_rebuilt.then(|| "manifest".to_owned());
    Report {
        command: "repair",
        place: source.display().to_string(),
        target: target.display().to_string(),
        state: "planned",
        damage: found.damage.iter().map(ToString::to_string).collect(),
        manifest_rebuilt: found.manifest_rebuilt,
        snapshot_lsn: found.snapshot().map_or(0, |snapshot| snapshot.lsn.0),
        last_lsn: found.last_lsn().0,
        loss: LossReport {
            commands_countable: loss.commands,
            first_lsn: loss.first_lsn.0,
            last_lsn: loss.last_lsn.0,
            first_wall_millis: loss.first_wall.0,
            last_wall_millis: loss.last_wall.0,
            bytes: loss.bytes,
            files: manifest.into_iter().chain(snapshots).chain(cut).chain(segments).collect(),
        },
        digest: None,
        notes: notes(found),
    }
}

fn notes(found: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if found.damage.is_empty() {
        notes.push("the store is not damaged; the result is a copy".to_owned());
    }
    if found.manifest_rebuilt {
        notes.push(
            "without the manifest nothing proves where the log ended; commands at its very end may be missing"
                .to_owned(),
        );
    }
    notes
}

fn text(report: &Report) -> String {
    let mut text = format!("{} -> {}: {}\n", report.place, report.target, report.state);
    report.damage.iter().for_each(|damage| text += &format!("damage: {damage}\n"));
    text += &format!("kept: snapshot {} and the log up to LSN {}\n", report.snapshot_lsn, report.last_lsn);
    let loss = &report.loss;
    if loss.last_lsn == 0 {
        text += "lost: no command\n";
    } else {
        text += &format!(
            "lost: LSN {} up to at most {}, of which {} commands can be counted\n",
            loss.first_lsn, loss.last_lsn, loss.commands_countable
        );
        if loss.last_wall_millis > 0 {
            let (first, last) = (Moment(loss.first_wall_millis), Moment(loss.last_wall_millis));
            text += &format!("written between {first} and {last}\n");
        }
    }
    if !loss.files.is_empty() {
        text += &format!("left behind ({}): {}\n", size_text(loss.bytes), loss.files.join(", "));
    }
    if let Some(digest) = &report.digest {
        text += &format!("verified: last LSN {}, digest {digest}\n", report.last_lsn);
    }
    report.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}
