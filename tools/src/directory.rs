//! The store in a directory, read through the engine's own readers.
//! Guarantees: the storage is opened read-only, no lock is taken, and every byte is decoded by the engine.
//! Must not know: what is shown of it.
//! Next: store.rs has the facts; the engine's verify.rs, log/inspect.rs and snapshot/reader.rs do the work.

use crate::command::ToolError;
use crate::place::holder;
use crate::store::{
    BatchFacts, BlockFacts, CleanFacts, LogEndFacts, LogVisitor, ManifestFacts, SegmentFacts, SnapshotFacts,
    SnapshotReferenceFacts, Store, WalkEnd,
};
use logd_engine::Error;
use logd_engine::core::{Catalog, ProcedureDefinition, Procedures, StateView};
use logd_engine::disk::{Disk, DiskErrorKind, OsStorage, Storage};
use logd_engine::error::{Corrupt, Refused};
use logd_engine::format::command::KeyspaceEffect;
use logd_engine::format::segment::SegmentHeader;
use logd_engine::format::{StoreId, Unreadable};
use logd_engine::index::Entry;
use logd_engine::log::{Batch, CASES, LogEnd, Observer, Proof, inspect, scan, segment_name};
use logd_engine::manifest::{self, Manifest, ManifestRead};
use logd_engine::recovery::{LogFiles, log_proof};
use logd_engine::snapshot::Snapshot;
use logd_engine::units::{FileOffset, Lsn, SegmentId};
use logd_engine::verify::{Finding, Verdict, verify};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const QUARANTINE: &str = "quarantine";

/// Opens a directory for reading. Errors: it is not there.
pub fn open(path: &Path) -> Result<Box<dyn Store>, ToolError> {
    if !path.is_dir() {
        return Err(ToolError::NotAStore { place: path.display().to_string() });
    }
    let storage = OsStorage::read_only(path).map_err(Error::from)?;
    let disk = storage.disk().map_err(Error::from)?;
    Ok(Box::new(Directory { path: path.to_owned(), storage, disk }))
}

static PROCEDURES: OnceLock<Procedures> = OnceLock::new();

/// Makes procedures known, so that logs with calls of them can be replayed. Called once, before any command.
pub fn set_procedures(procedures: Procedures) {
    // A second call would come from the same program, which is to say everything at once.
    let _ = PROCEDURES.set(procedures);
}

/// The procedures whose calls a replay can run: those of the program, or else the daemon's own.
pub fn procedures() -> Procedures {
    PROCEDURES.get().cloned().unwrap_or_else(|| {
        let mut own = Procedures::new();
        logd::voter::procedures().into_iter().for_each(|procedure| {
            own.register(procedure);
        });
        own
    })
}

/// The digest of a state, as it is printed.
pub fn digest_of(view: &StateView) -> String {
    view.digest().to_string()
}

struct Directory {
    path: PathBuf,
    storage: OsStorage,
    disk: Box<dyn Disk>,
}

impl Directory {
    fn read_manifest(&mut self) -> Result<Option<(Manifest, Option<String>)>, Error> {
        match manifest::read(&mut *self.disk)? {
            ManifestRead::Empty => Ok(None),
            ManifestRead::Present(file, note) => Ok(Some((file.manifest().clone(), note))),
            ManifestRead::Unreadable(corrupt) => Err(corrupt.into()),
        }
    }
}

impl Store for Directory {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn holder(&self) -> Option<u32> {
        holder(&self.path)
    }

    fn manifest(&mut self) -> Result<Option<ManifestFacts>, Error> {
        Ok(self.read_manifest()?.map(|(manifest, note)| manifest_facts(&manifest, note)))
    }

    fn verify(&mut self, sink: &mut dyn FnMut(&Finding)) -> Result<Verdict, Error> {
        verify(&self.storage, &LogFiles, sink)
    }

    fn snapshot(&mut self, lsn: Lsn) -> Result<SnapshotFacts, Error> {
        Ok(snapshot_facts(&Snapshot::open(&mut *self.disk, lsn)?))
    }

    fn snapshot_catalog(&mut self, lsn: Lsn) -> Result<Catalog, Error> {
        let snapshot = Snapshot::open(&mut *self.disk, lsn)?;
        catalog_of(&snapshot)
    }

    fn snapshot_records(&mut self, lsn: Lsn, visit: &mut dyn FnMut(u16, &[u8], Entry<'_>)) -> Result<(), Error> {
        let snapshot = Snapshot::open(&mut *self.disk, lsn)?;
        let file = snapshot.open_file(&mut *self.disk)?;
        let read = (0..snapshot.blocks.len()).try_for_each(|number| {
            let block = snapshot.read_block(&mut *self.disk, file, number)?;
            let keyspace = snapshot.blocks[number].keyspace;
            snapshot.records(&block, number).try_for_each(|record| {
                let (key, entry) = record?;
                visit(keyspace, key, entry);
                Ok(())
            })
        });
        self.disk.close(file);
        read
    }

    fn log(&mut self, from: Lsn, visitor: &mut dyn LogVisitor) -> Result<WalkEnd, Error> {
        let Some((manifest, _)) = self.read_manifest()? else { return Ok(WalkEnd::End(LogEndFacts::default())) };
        let store = StoreId(manifest.store_id.to_le_bytes());
        let proof = log_proof(&manifest);
        let proof = Proof { synced: proof.synced, segment: proof.segment };
        match from {
            Lsn::NONE => inspect_log(&mut *self.disk, store, proof, visitor),
            from => scan_log(&mut *self.disk, store, from, proof, visitor),
        }
    }

    fn quarantined(&mut self) -> Result<Vec<(String, u64)>, Error> {
        match self.disk.list(QUARANTINE) {
            Ok(listed) => Ok(listed.into_iter().map(|file| (file.name, file.bytes)).collect()),
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The lenient way: all files, and what stands behind damage.
fn inspect_log(
    disk: &mut dyn Disk,
    store: StoreId,
    proof: Proof,
    visitor: &mut dyn LogVisitor,
) -> Result<WalkEnd, Error> {
    let mut watch = Watch { visitor, stopped: false };
    let end = inspect(disk, store, proof, &mut watch)?;
    Ok(match end {
        _ if watch.stopped => WalkEnd::Stopped,
        Some(end) => WalkEnd::End(end_facts(&end)),
        None => WalkEnd::Damaged,
    })
}

/// The strict way: from an LSN on, up to damage or to where the visitor stops.
fn scan_log(
    disk: &mut dyn Disk,
    store: StoreId,
    from: Lsn,
    proof: Proof,
    visitor: &mut dyn LogVisitor,
) -> Result<WalkEnd, Error> {
    let mut stopped = false;
    let scanned = scan(disk, store, from, proof, &mut |batch| match visitor.batch(&batch_facts(&batch)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            stopped = true;
            Err(Refused::Aborted("stopped by the reader".to_owned()).into())
        }
    });
    match scanned {
        Ok(end) => Ok(WalkEnd::End(end_facts(&end))),
        Err(_) if stopped => Ok(WalkEnd::Stopped),
        Err(Error::Corrupt(damage)) => {
            visitor.damage(&damage);
            Ok(WalkEnd::Damaged)
        }
        Err(error) => Err(error),
    }
}

/// Hands on what `inspect` reports, until the visitor has had enough.
struct Watch<'v> {
    visitor: &'v mut dyn LogVisitor,
    stopped: bool,
}

impl Observer for Watch<'_> {
    fn file(&mut self, segment: SegmentId, bytes: u64, header: &Result<SegmentHeader, Unreadable>) {
        self.visitor.segment(&SegmentFacts {
            file: segment_name(segment),
            segment: segment.0,
            bytes,
            first_lsn: header.as_ref().ok().map(|header| header.first_lsn.0),
            reason: header.as_ref().err().map(Unreadable::to_string),
        });
    }

    fn batch(&mut self, batch: &Batch<'_>) {
        if !self.stopped {
            self.stopped = self.visitor.batch(&batch_facts(batch)).is_break();
        }
    }

    fn damage(&mut self, damage: &Corrupt) {
        if !self.stopped {
            self.visitor.damage(damage);
        }
    }

    fn batch_behind(&mut self, batch: &Batch<'_>) {
        if !self.stopped {
            self.visitor.batch_behind(&batch_facts(batch));
        }
    }

    fn unreadable(&mut self, segment: SegmentId, from: FileOffset, to: FileOffset) {
        if !self.stopped {
            self.visitor.unreadable(segment.0, from, to);
        }
    }
}

fn manifest_facts(manifest: &Manifest, note: Option<String>) -> ManifestFacts {
    let snapshots = manifest.snapshots.iter().map(|snapshot| SnapshotReferenceFacts {
        lsn: snapshot.lsn.0,
        file_bytes: snapshot.file_bytes,
        digest: format!("{:032x}", snapshot.digest),
        time_millis: snapshot.time_millis.0,
        record_count: snapshot.record_count,
    });
    let clean = manifest.clean.map(|clean| CleanFacts {
        last_lsn: clean.last_lsn.0,
        segment: clean.segment.0,
        end_offset: clean.end_offset,
    });
    ManifestFacts {
        store_id: format!("{:032x}", manifest.store_id),
        created_millis: manifest.created_millis.0,
        segment_bytes: manifest.segment_bytes,
        shards: u64::from(manifest.shards),
        time_millis: manifest.time_millis.0,
        lsn_proof: log_proof(manifest).synced.0,
        clean,
        snapshots: snapshots.collect(),
        note,
    }
}

fn snapshot_facts(snapshot: &Snapshot) -> SnapshotFacts {
    let (meta, trailer) = (&snapshot.meta, &snapshot.trailer);
    let blocks = snapshot.blocks.iter().map(|block| BlockFacts {
        offset: block.offset,
        bytes: block.file_bytes(),
        record_count: u64::from(block.record_count),
        shard: u64::from(block.shard),
        keyspace: block.keyspace,
    });
    SnapshotFacts {
        file: snapshot.name.clone(),
        lsn: meta.lsn.0,
        time_millis: meta.time_millis.0,
        file_bytes: trailer.file_bytes,
        shards: u64::from(meta.shards),
        record_count: trailer.record_count,
        digest: format!("{:032x}", trailer.digest),
        keyspaces: meta.keyspaces.iter().map(|definition| definition.name.clone()).collect(),
        blocks: blocks.collect(),
    }
}

fn catalog_of(snapshot: &Snapshot) -> Result<Catalog, Error> {
    let mut catalog = Catalog::default();
    let keyspaces = snapshot.meta.keyspaces.iter().all(|definition| {
        catalog.define_keyspace(&KeyspaceEffect {
            keyspace: definition.keyspace,
            level: definition.level,
            routing: definition.routing,
            prefix_bytes: definition.prefix_bytes,
            name: &definition.name,
        })
    });
    let procedures = snapshot.meta.procedures.iter().all(|definition| {
        let (version, form) = (definition.version, definition.form);
        let named = ProcedureDefinition { name: definition.name.clone(), version, form };
        catalog.define_procedure(definition.procedure, named)
    });
    if keyspaces && procedures {
        return Ok(catalog);
    }
    let (expected, found) = ("dense numbers".to_owned(), "a gap".to_owned());
    Err(Corrupt { what: "definitions", file: snapshot.name.clone(), offset: 0, case: 'd', expected, found }.into())
}

fn batch_facts<'a>(batch: &Batch<'a>) -> BatchFacts<'a> {
    let header = &batch.header;
    BatchFacts {
        segment: batch.segment.0,
        offset: batch.offset,
        bytes: header.padded_bytes(),
        sequence: header.sequence,
        first_lsn: header.first_lsn,
        lsn_synced: header.lsn_synced,
        time_millis: header.time.0,
        wall_millis: header.wall.0,
        frames: batch.frames().map(|(_, frame)| frame).collect(),
    }
}

fn end_facts(end: &LogEnd) -> LogEndFacts {
    let condition = CASES.iter().find(|case| case.letter == end.case).map_or("", |case| case.condition);
    LogEndFacts {
        last_lsn: end.last_lsn.0,
        case: end.case,
        condition: condition.to_owned(),
        segment: end.active.map_or(0, |active| active.segment.0),
        offset: end.active.map_or(0, |active| active.end),
        torn_bytes: end.cut.map_or(0, |cut| cut.to.saturating_sub(cut.from)),
        torn_files: end.torn_files.len() as u64,
    }
}
