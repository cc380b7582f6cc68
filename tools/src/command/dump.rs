//! `logctl dump`: shows manifest, snapshots and log with their places.
//! Guarantees: shows what is there, also before and behind damage; damage is shown where it stands and makes the exit code 2.
//! Must not know: formats.
//! Next: effect_text.rs.

use super::effect_text::{Line, Names, lines};
use super::{EXIT_CORRUPT, EXIT_OK, ToolError, directory_of, open};
use crate::moment::Moment;
use crate::place::Place;
use crate::render::{Output, Table, bytes_text, size_text};
use crate::store::{BatchFacts, LogVisitor, ManifestFacts, SegmentFacts, SnapshotFacts, Store, WalkEnd};
use logd_engine::Error;
use logd_engine::error::Corrupt;
use logd_engine::units::Lsn;
use serde::Serialize;
use std::ops::ControlFlow;

const EXAMPLES: &str = "Examples:
  logctl dump /var/lib/logd --manifest
  logctl dump /var/lib/logd --log --from 1000 --to 1010
  logctl dump /var/lib/logd --log --keyspace sensors --json | jq -c .effects
  logctl dump /var/lib/logd --snapshots --keyspace sensors      with the records of that keyspace

Without --log, --snapshots or --manifest all three are shown. JSON comes as one object a line.";

/// Flags.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the store.
    #[arg(value_name = "DIR", required = true)]
    place: Option<Place>,
    /// Show the log.
    #[arg(long)]
    log: bool,
    /// Show the snapshots.
    #[arg(long)]
    snapshots: bool,
    /// Show the manifest.
    #[arg(long)]
    manifest: bool,
    /// First LSN of the log to show.
    #[arg(long, value_name = "LSN")]
    from: Option<u64>,
    /// Last LSN of the log to show.
    #[arg(long, value_name = "LSN")]
    to: Option<u64>,
    /// Only commands on this keyspace; of snapshots, its records.
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
}

/// One line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Item<'a> {
    Manifest { manifest: &'a ManifestFacts },
    Snapshot { snapshot: &'a SnapshotFacts },
    Record { snapshot_lsn: u64, keyspace: &'a str, key: String, value: String, expiry_millis: u64 },
    Segment { segment: &'a SegmentFacts },
    Batch(BatchItem),
    Command { lsn: u64, bytes: usize, effects: Vec<Line> },
    Damage { case: char, file: &'a str, offset: u64, what: &'a str, expected: &'a str, found: &'a str },
    Unreadable { segment: u64, from: u64, to: u64 },
    End { case: char, segment: u64, offset: u64, last_lsn: u64, torn_bytes: u64 },
}

#[derive(Debug, Serialize)]
struct BatchItem {
    segment: u64,
    offset: u64,
    bytes: u64,
    sequence: u64,
    first_lsn: u64,
    last_lsn: u64,
    lsn_synced: u64,
    time_millis: u64,
    wall_millis: u64,
    behind_damage: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let place = arguments.place.as_ref().ok_or_else(|| ToolError::Usage("a directory is needed".to_owned()))?;
    let mut store = open(directory_of(place)?, output)?;
    dump(store.as_mut(), arguments, &mut |item, text| output.item(item, |_| text.trim_end().to_owned()))
}

type Emit<'e> = dyn FnMut(&Item<'_>, &str) + 'e;

fn dump(store: &mut dyn Store, arguments: &Arguments, emit: &mut Emit<'_>) -> Result<u8, ToolError> {
    let all = !(arguments.log || arguments.snapshots || arguments.manifest);
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let mut code = EXIT_OK;
    let mut names = Names::default();
    if all || arguments.manifest {
        emit(&Item::Manifest { manifest: &manifest }, &manifest_text(&manifest));
    }
    for reference in &manifest.snapshots {
        match store.snapshot(Lsn(reference.lsn)) {
            Ok(snapshot) => {
                (0..).zip(&snapshot.keyspaces).for_each(|(number, name)| names.learn(number, name));
                if all || arguments.snapshots {
                    code = code.max(dump_snapshot(store, &snapshot, arguments, &names, emit)?);
                }
            }
            Err(Error::Corrupt(damage)) => {
                emit_damage(&damage, emit);
                code = EXIT_CORRUPT;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if all || arguments.log {
        code = code.max(dump_log(store, arguments, names, emit)?);
    }
    Ok(code)
}

fn dump_snapshot(
    store: &mut dyn Store,
    snapshot: &SnapshotFacts,
    arguments: &Arguments,
    names: &Names,
    emit: &mut Emit<'_>,
) -> Result<u8, ToolError> {
    emit(&Item::Snapshot { snapshot }, &snapshot_text(snapshot, names));
    let Some(wanted) = &arguments.keyspace else { return Ok(EXIT_OK) };
    let read = store.snapshot_records(Lsn(snapshot.lsn), &mut |keyspace, key, entry| {
        let name = names.of(keyspace);
        if name != *wanted {
            return;
        }
        let (key, value) = (bytes_text(key), bytes_text(entry.value));
        let until =
            if entry.expiry_millis == 0 { String::new() } else { format!(" expires {}", Moment(entry.expiry_millis)) };
        let text = format!("  {name} {key} = {value}{until}");
        let expiry_millis = entry.expiry_millis;
        emit(&Item::Record { snapshot_lsn: snapshot.lsn, keyspace: &name, key, value, expiry_millis }, &text);
    });
    match read {
        Ok(()) => Ok(EXIT_OK),
        Err(Error::Corrupt(damage)) => {
            emit_damage(&damage, emit);
            Ok(EXIT_CORRUPT)
        }
        Err(error) => Err(error.into()),
    }
}

fn dump_log(store: &mut dyn Store, arguments: &Arguments, names: Names, emit: &mut Emit<'_>) -> Result<u8, ToolError> {
    let range = (arguments.from.unwrap_or(0), arguments.to.unwrap_or(u64::MAX));
    let mut dumper = Dumper { range, keyspace: arguments.keyspace.clone(), names, damaged: false, emit };
    // From the front whatever the range: keyspaces get their names there, and only so damage anywhere is shown.
    let walked = store.log(Lsn::NONE, &mut dumper)?;
    let Dumper { names, damaged, emit, keyspace, .. } = dumper;
    if let WalkEnd::End(end) = walked {
        let torn = if end.is_torn() { format!(", {} torn bytes behind it", end.torn_bytes) } else { String::new() };
        let text = format!(
            "end at LSN {}, segment {} byte {} (case {}: {}){torn}",
            end.last_lsn, end.segment, end.offset, end.case, end.condition
        );
        let (case, segment, offset) = (end.case, end.segment, end.offset);
        emit(&Item::End { case, segment, offset, last_lsn: end.last_lsn, torn_bytes: end.torn_bytes }, &text);
    }
    match keyspace {
        Some(name) if !names.has(&name) => Err(ToolError::Usage(format!("no keyspace is named {name:?}"))),
        _ => Ok(if damaged { EXIT_CORRUPT } else { EXIT_OK }),
    }
}

struct Dumper<'d, 'e> {
    range: (u64, u64),
    keyspace: Option<String>,
    names: Names,
    damaged: bool,
    emit: &'d mut Emit<'e>,
}

impl Dumper<'_, '_> {
    fn show(&mut self, batch: &BatchFacts<'_>, behind_damage: bool) {
        let mut commands = Vec::new();
        for (lsn, frame) in (batch.first_lsn.0..).zip(&batch.frames) {
            let mut effects = lines(frame, &mut self.names);
            if let Some(wanted) = &self.keyspace {
                effects.retain(|effect| effect.keyspace.as_ref() == Some(wanted));
            }
            if (self.range.0..=self.range.1).contains(&lsn) && !(effects.is_empty() && self.keyspace.is_some()) {
                commands.push(Item::Command { lsn, bytes: frame.len(), effects });
            }
        }
        if commands.is_empty() {
            return;
        }
        let item = batch_item(batch, behind_damage);
        let text = batch_text(&item);
        (self.emit)(&Item::Batch(item), &text);
        for command in &commands {
            (self.emit)(command, &command_text(command));
        }
    }
}

impl LogVisitor for Dumper<'_, '_> {
    fn segment(&mut self, segment: &SegmentFacts) {
        let state = match (&segment.first_lsn, &segment.reason) {
            (Some(lsn), _) => format!("from LSN {lsn}"),
            (None, Some(reason)) => format!("not in use ({reason})"),
            (None, None) => "not in use".to_owned(),
        };
        let text = format!("segment {} in {}, {}, {state}", segment.segment, segment.file, size_text(segment.bytes));
        (self.emit)(&Item::Segment { segment }, &text);
    }

    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        if batch.first_lsn.0 > self.range.1 {
            return ControlFlow::Break(());
        }
        self.show(batch, false);
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damaged = true;
        emit_damage(damage, self.emit);
    }

    fn batch_behind(&mut self, batch: &BatchFacts<'_>) {
        self.show(batch, true);
    }

    fn unreadable(&mut self, segment: u64, from: u64, to: u64) {
        let text = format!("UNREADABLE: segment {segment}, bytes {from} to {to}");
        (self.emit)(&Item::Unreadable { segment, from, to }, &text);
    }
}

fn emit_damage(damage: &Corrupt, emit: &mut Emit<'_>) {
    let Corrupt { what, file, offset, case, expected, found } = damage;
    let text = format!("DAMAGE (case {case}): {what} in {file} at byte {offset}: expected {expected}, found {found}");
    emit(&Item::Damage { case: *case, file, offset: *offset, what, expected, found }, &text);
}

fn batch_item(batch: &BatchFacts<'_>, behind_damage: bool) -> BatchItem {
    BatchItem {
        segment: batch.segment,
        offset: batch.offset,
        bytes: batch.bytes,
        sequence: batch.sequence,
        first_lsn: batch.first_lsn.0,
        last_lsn: batch.last_lsn().0,
        lsn_synced: batch.lsn_synced.0,
        time_millis: batch.time_millis,
        wall_millis: batch.wall_millis,
        behind_damage,
    }
}

fn batch_text(item: &BatchItem) -> String {
    format!(
        "batch {} in segment {} at byte {}, {} bytes, LSN {} to {}, synced {}, written {}{}",
        item.sequence,
        item.segment,
        item.offset,
        item.bytes,
        item.first_lsn,
        item.last_lsn,
        item.lsn_synced,
        Moment(item.wall_millis),
        if item.behind_damage { ", BEHIND DAMAGE" } else { "" }
    )
}

fn command_text(item: &Item<'_>) -> String {
    let Item::Command { lsn, effects, .. } = item else { return String::new() };
    let lines = effects.iter().map(|effect| format!("  LSN {lsn}  {}", effect.text()));
    lines.collect::<Vec<_>>().join("\n")
}

fn manifest_text(manifest: &ManifestFacts) -> String {
    let mut text = format!(
        "manifest: store {}, made {}, segments of {}, {} shards, synced at least to LSN {}\n",
        manifest.store_id,
        Moment(manifest.created_millis),
        size_text(manifest.segment_bytes),
        manifest.shards,
        manifest.lsn_proof
    );
    match &manifest.clean {
        Some(clean) => {
            text += &format!(
                "closed in good order at LSN {}, segment {} byte {}\n",
                clean.last_lsn, clean.segment, clean.end_offset
            );
        }
        None => text += "not closed in good order, or open\n",
    }
    let mut table = Table::new(&[">snapshot of LSN", ">size", ">records", "digest", "engine time"]);
    for snapshot in &manifest.snapshots {
        let (lsn, records) = (snapshot.lsn.to_string(), snapshot.record_count.to_string());
        let time = Moment(snapshot.time_millis).to_string();
        table.row(vec![lsn, size_text(snapshot.file_bytes), records, snapshot.digest.clone(), time]);
    }
    if !table.is_empty() {
        text += &table.text();
    }
    text
}

fn snapshot_text(snapshot: &SnapshotFacts, names: &Names) -> String {
    let mut text = format!(
        "snapshot {}: LSN {}, {}, {} records in {} keyspaces, digest {}\n",
        snapshot.file,
        snapshot.lsn,
        size_text(snapshot.file_bytes),
        snapshot.record_count,
        snapshot.keyspaces.len(),
        snapshot.digest
    );
    let mut table = Table::new(&[">block at byte", ">bytes", ">records", ">shard", "keyspace"]);
    for block in &snapshot.blocks {
        let numbers = [block.offset, block.bytes, block.record_count, block.shard];
        let mut row: Vec<String> = numbers.iter().map(u64::to_string).collect();
        row.push(names.of(block.keyspace));
        table.row(row);
    }
    if !table.is_empty() {
        text += &table.text();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::{FakeStore, corrupt};

    fn dumped(store: &mut FakeStore, arguments: &Arguments) -> (Result<u8, ToolError>, String, Vec<serde_json::Value>) {
        let (mut all, mut values) = (String::new(), Vec::new());
        let code = dump(store, arguments, &mut |item, text| {
            all += &format!("{}\n", text.trim_end());
            values.push(serde_json::to_value(item).unwrap());
        });
        (code, all, values)
    }

    #[test]
    fn a_range_shows_its_lsns_only() {
        let arguments = Arguments { log: true, from: Some(2), to: Some(3), ..Arguments::default() };
        let (code, text, values) = dumped(&mut FakeStore::sound(), &arguments);
        assert_eq!(code.unwrap(), 0);
        assert!(text.contains(r#"LSN 2  put things "a" = "1""#) && !text.contains("LSN 4  "), "{text}");
        assert_eq!(values.iter().filter(|value| value["kind"] == "command").count(), 2);
    }

    #[test]
    fn a_keyspace_is_found_by_the_name_it_was_given_before_the_range() {
        let keyspace = Some("things".to_owned());
        let arguments = Arguments { log: true, from: Some(4), keyspace, ..Arguments::default() };
        let (code, text, _) = dumped(&mut FakeStore::sound(), &arguments);
        assert_eq!(code.unwrap(), 0);
        assert!(text.contains(r#"LSN 4  put things "c""#) && !text.contains("LSN 3  "), "{text}");
        let arguments = Arguments { log: true, keyspace: Some("other".to_owned()), ..Arguments::default() };
        assert!(dumped(&mut FakeStore::sound(), &arguments).0.is_err());
    }

    #[test]
    fn damage_is_shown_with_its_case_and_makes_the_exit_code() {
        let mut store = FakeStore::sound();
        store.damage = Some(corrupt("log/1"));
        let (code, text, values) = dumped(&mut store, &Arguments::default());
        assert_eq!(code.unwrap(), 2);
        assert!(text.contains("DAMAGE (case F)"), "{text}");
        assert!(values.iter().any(|value| value["kind"] == "damage" && value["offset"] == 4096));
    }
}
