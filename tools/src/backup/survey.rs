//! Finds what of a store that is in use can be copied: its snapshots, and its log up to a batch that is whole.
//! Guarantees: everything that was on disk when it began is in it; damage that a second look finds at the same place is damage,
//! and one that is gone then was a write under way.
//! Must not know: where it is copied to.
//! Next: copy.rs, stream.rs.

use super::catalogue::{Catalogue, SCHEMA, SegmentCopy, SnapshotCopy};
use crate::command::ToolError;
use crate::directory;
use crate::fresh::failed;
use crate::store::{BatchFacts, LogVisitor, ManifestFacts, Store, WalkEnd};
use logd_engine::error::Corrupt;
use logd_engine::format::StoreId;
use logd_engine::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use logd_engine::log::segment_name;
use logd_engine::snapshot;
use logd_engine::units::Lsn;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// Looks at a place that seems damaged before it is believed.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// What there is to copy; checksums are not known yet.
#[derive(Clone, Debug)]
pub struct Survey {
    /// With the snapshots and segments of the source that the backup does not have whole.
    pub new: Catalogue,
}

/// Looks at a store. `have`: what the backup has already.
pub fn survey(source: &Path, have: &Catalogue) -> Result<Survey, ToolError> {
    let mut store = directory::open(source)?;
    let facts = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    if !have.store_id.is_empty() && have.store_id != facts.store_id {
        let (held, found) = (&have.store_id, &facts.store_id);
        return Err(ToolError::Usage(format!("the backup is of store {held}, and this is store {found}")));
    }
    let store_id = u128::from_str_radix(&facts.store_id, 16).unwrap_or(0);
    let chain = chain(source, StoreId(store_id.to_le_bytes()))?;
    let is_held =
        |header: &&SegmentHeader| have.segments.iter().any(|held| held.sealed && held.segment == header.segment.0);
    let wanted: Vec<&SegmentHeader> = chain.iter().skip_while(is_held).collect();
    let mut spans = Spans::default();
    if let Some(first) = wanted.first() {
        walk(store.as_mut(), first.first_lsn, &mut spans)?;
    }
    let mut new = head(&facts);
    new.snapshots = snapshots(&facts, have);
    for (at, header) in wanted.iter().enumerate() {
        let Some(span) = spans.by_segment.get(&header.segment.0) else { continue };
        let sealed = wanted.get(at + 1).is_some_and(|next| spans.by_segment.contains_key(&next.segment.0));
        new.segments.push(copy_of(header, span, sealed));
    }
    // The newest is copied again only if it grew.
    let is_same =
        |one: &SegmentCopy, held: &SegmentCopy| one.segment == held.segment && one.used_bytes == held.used_bytes;
    new.segments.retain(|one| have.segments.iter().all(|held| !is_same(one, held)));
    Ok(Survey { new })
}

fn head(facts: &ManifestFacts) -> Catalogue {
    Catalogue {
        schema: SCHEMA,
        store_id: facts.store_id.clone(),
        store_created_millis: facts.created_millis,
        segment_bytes: facts.segment_bytes,
        shards: facts.shards as u16,
        time_millis: facts.time_millis,
        ..Catalogue::default()
    }
}

fn snapshots(facts: &ManifestFacts, have: &Catalogue) -> Vec<SnapshotCopy> {
    let is_new = |lsn: u64| have.snapshots.iter().all(|held| held.lsn != lsn);
    let new = facts.snapshots.iter().filter(|snapshot| is_new(snapshot.lsn)).map(|snapshot| SnapshotCopy {
        file: snapshot::file_name(Lsn(snapshot.lsn)),
        lsn: snapshot.lsn,
        bytes: snapshot.file_bytes,
        crc: 0,
        digest: snapshot.digest.clone(),
        time_millis: snapshot.time_millis,
        records: snapshot.record_count,
    });
    new.collect()
}

fn copy_of(header: &SegmentHeader, span: &Span, sealed: bool) -> SegmentCopy {
    SegmentCopy {
        file: segment_name(header.segment),
        segment: header.segment.0,
        previous_segment: header.previous_segment.0,
        previous_last_lsn: header.previous_last_lsn.0,
        bytes: header.segment_bytes,
        used_bytes: span.end,
        crc: 0,
        first_lsn: span.first_lsn,
        last_lsn: span.last_lsn,
        first_millis: span.first_millis,
        last_millis: span.last_millis,
        sealed,
    }
}

/// The segments in use, oldest first, as far back as they follow each other.
fn chain(source: &Path, store: StoreId) -> Result<Vec<SegmentHeader>, ToolError> {
    let directory = source.join("log");
    let mut headers = BTreeMap::new();
    let listed = fs::read_dir(&directory).map_err(|error| failed("list", &directory, &error))?;
    for path in listed.filter_map(|file| file.ok().map(|file| file.path())) {
        let mut block = vec![0; SEGMENT_HEADER_BYTES];
        // A file may be renamed or removed meanwhile, and the walk finds out what is missing.
        if File::open(&path).and_then(|mut file| file.read_exact(&mut block)).is_err() {
            continue;
        }
        if let Ok(header) = SegmentHeader::decode(store, &block)
            && path.ends_with(segment_name(header.segment))
        {
            headers.insert(header.segment, header);
        }
    }
    let mut chain: Vec<SegmentHeader> = headers.values().next_back().copied().into_iter().collect();
    while let Some(previous) = chain.last().and_then(|first| headers.get(&first.previous_segment)) {
        chain.push(*previous);
    }
    chain.reverse();
    Ok(chain)
}

#[derive(Clone, Copy, Debug)]
struct Span {
    end: u64,
    first_lsn: u64,
    last_lsn: u64,
    first_millis: u64,
    last_millis: u64,
}

#[derive(Default)]
struct Spans {
    by_segment: BTreeMap<u64, Span>,
    last_lsn: Lsn,
    damage: Option<Corrupt>,
}

impl LogVisitor for Spans {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        let (first_lsn, last_lsn) = (batch.first_lsn.0, batch.last_lsn().0);
        let (first_millis, last_millis) = (batch.wall_millis, batch.wall_millis);
        let span = Span { end: 0, first_lsn, last_lsn, first_millis, last_millis };
        let span = self.by_segment.entry(batch.segment).or_insert(span);
        if batch.offset + batch.bytes > span.end {
            span.end = batch.offset + batch.bytes;
            (span.last_lsn, span.last_millis) = (last_lsn, last_millis);
        }
        self.last_lsn = self.last_lsn.max(batch.last_lsn());
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.damage = Some(damage.clone());
    }
}

/// Walks the log. The writer goes on meanwhile, so that a batch may be half there at the first look.
fn walk(store: &mut dyn Store, from: Lsn, spans: &mut Spans) -> Result<(), ToolError> {
    let mut next = from;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        let before = spans.last_lsn;
        match store.log(next, spans)? {
            WalkEnd::End(_) | WalkEnd::Stopped => return Ok(()),
            // From the last batch that was whole on, so that each look is short.
            WalkEnd::Damaged => next = next.max(spans.last_lsn),
        }
        if look > 2 && spans.last_lsn == before {
            break;
        }
    }
    let damage = spans.damage.take().expect("the walk told of the damage");
    Err(ToolError::Engine(damage.into()))
}
