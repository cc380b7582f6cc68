//! Bit rot, misdirected writes and lying procedures, on copies of the medium between two lives.
//! Guarantees: D1 a damaged store is refused with file and place, or what it serves is right; D2 what anything on the medium proves to
//! have been synced is never dropped; D3 a procedure that does something else when replayed is refused.
//! Must not know: how the engine finds damage.
//! Next: lives.rs calls it.

use super::procedures;
use super::reads::compare_raw;
use super::run::Run;
use super::{Broken, Checked, broken};
use logd_engine::Error;
use logd_engine::disk::{SimStorage, Storage};
use logd_engine::error::Refused;
use logd_engine::format::StoreId;
use logd_engine::format::batch::{BatchHeader, decode_header};
use logd_engine::format::segment::SegmentHeader;
use logd_engine::manifest::{self, ManifestRead};
use logd_engine::recovery::LogFiles;
use logd_engine::units::SegmentId;
use logd_engine::verify::{Verdict, verify};

const BLOCK: usize = 4096;
/// Bytes from one slot of the manifest to the next.
const SLOT: usize = logd_engine::format::manifest::SLOT_BYTES;

/// A batch where it stands.
struct Place {
    file: String,
    from: usize,
    to: usize,
    header: BatchHeader,
}

/// Where the log stands on a medium, and what the manifest proves about it.
pub struct Survey {
    batches: Vec<Place>,
    /// Segments in use, with their first LSN.
    segments: Vec<(String, SegmentId, u64)>,
    lsn_proof: u64,
    /// Snapshots that the manifest names.
    pub snapshots: usize,
}

/// Looks over a medium; `None` without a manifest.
pub fn survey(storage: &SimStorage) -> Option<Survey> {
    let mut disk = storage.disk().ok()?;
    let Ok(ManifestRead::Present(file, _)) = manifest::read(&mut *disk) else { return None };
    let manifest = file.manifest();
    let store = StoreId(manifest.store_id.to_le_bytes());
    let lsn_proof = manifest.clean.map_or(manifest.lsn_proof, |clean| clean.last_lsn.max(manifest.lsn_proof)).0;
    let snapshots = manifest.snapshots.len();
    let mut survey = Survey { batches: Vec::new(), segments: Vec::new(), lsn_proof, snapshots };
    for file in storage.names().into_iter().filter(|name| name.starts_with("log/")) {
        let bytes = storage.contents(&file)?;
        let id: u64 = file.trim_start_matches("log/").trim_end_matches(".seg").parse().ok()?;
        let Some(header) = bytes.get(..BLOCK).and_then(|block| SegmentHeader::decode(store, block).ok()) else {
            continue;
        };
        if header.segment.0 != id {
            continue;
        }
        survey.segments.push((file.clone(), header.segment, header.first_lsn.0));
        let mut at = BLOCK;
        while let Some(Ok(found)) = bytes.get(at..).map(|rest| decode_header(store, rest, rest.len() as u64)) {
            if found.generation.0 != id {
                break;
            }
            let to = at + found.padded_bytes() as usize;
            survey.batches.push(Place { file: file.clone(), from: at, to, header: found });
            at = to;
        }
    }
    survey.segments.sort_by_key(|(_, segment, _)| *segment);
    Some(survey)
}

impl Survey {
    /// The first LSN that damage to a range of a file touches.
    pub fn touched(&self, file: &str, from: usize, to: usize) -> Option<u64> {
        let header = self.segments.iter().filter(|(name, ..)| name == file && from < BLOCK).map(|(.., first)| *first);
        let hit = |place: &&Place| place.file == file && place.from < to && from < place.to;
        let batches = self.batches.iter().filter(hit).map(|place| place.header.first_lsn.0);
        header.chain(batches).min()
    }

    /// What that is not damaged itself proves that an LSN was synced.
    fn proof(&self, lsn: u64, file: &str, from: usize, to: usize) -> Option<String> {
        let whole = |place: &&Place| place.file != file || place.to <= from || to <= place.from;
        let batch = self.batches.iter().filter(whole).find(|place| place.header.lsn_synced.0 >= lsn);
        let segment = self.segments.iter().find(|(name, _, first)| name != file && *first > lsn);
        let by_batch = batch.map(|place| format!("batch in {} at {}", place.file, place.from));
        let by_segment = segment.map(|(name, ..)| format!("segment {name}"));
        by_batch.or(by_segment).or_else(|| (self.lsn_proof >= lsn).then(|| "manifest".to_owned()))
    }
}

impl Run {
    /// Damages a copy of the medium and opens it.
    pub fn check_damage(&mut self) -> Checked {
        let copy = self.storage.copy();
        copy.set_capacity(1 << 40);
        let Some(survey) = survey(&copy) else { return Ok(()) };
        let names: Vec<String> = copy.names().into_iter().filter(|name| is_data(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let Some((file, from, to)) = self.damage(&copy, &survey, &names) else { return Ok(()) };
        let verdict = verify(&copy, &LogFiles, &mut |_| {});
        let seed = self.order.next_u64();
        let opened = self.builder_over(copy, procedures::all(self.version)).open_stepped(seed);
        let place = format!("{file} at {from}..{to}");
        self.trace.note(format_args!("damaged {place}: {:?}, {verdict:?}", opened.as_ref().err()));
        if opened.is_err() && file == "manifest" && from / SLOT == (to - 1) / SLOT && self.promises.floor_written > 0 {
            return broken("manifest", format!("{place}: refused, though the other slot is sound"));
        }
        match opened {
            Err(Error::Corrupt(corrupt)) if corrupt.file.is_empty() => {
                broken("damage", format!("{place}: no file named"))
            }
            Err(Error::Corrupt(_)) => match verdict {
                Ok(Verdict::Corrupt(_)) => Ok(()),
                other => broken("damage", format!("{place}: refused, but verify says {other:?}")),
            },
            Err(Error::Refused(Refused::Version { .. })) => Ok(()),
            Err(error) => broken("damage", format!("{place}: {error}")),
            Ok(store) => {
                let lsn = store.recovered_lsn().0;
                let view = store.db().view();
                let right = match self.model.knows(lsn) {
                    true => compare_raw("damage", &view, &self.model.state_at(lsn)),
                    false if view.digest().0 == self.model.digest_at(lsn) => Ok(()),
                    false => broken("damage", "another state than at that LSN"),
                };
                right.map_err(|wrong| Broken { words: format!("{place}, LSN {lsn}: {}", wrong.words), ..wrong })?;
                if lsn >= self.promises.floor_written {
                    return Ok(());
                }
                self.check_unproven(&survey, (&file, from, to), lsn)
            }
        }
    }

    /// What was promised is gone, silently: right only where nothing that is not hit proves it, and all before it is there.
    pub fn check_unproven(&self, survey: &Survey, hit: (&str, usize, usize), lsn: u64) -> Checked {
        let (file, from, to) = hit;
        let place = format!("{file} at {from}..{to}");
        let Some(touched) = survey.touched(file, from, to) else {
            return broken("damage", format!("{place}: LSN {lsn} only, though no command was hit"));
        };
        // What a snapshot holds is not lost with the log.
        let lost = touched.max(lsn + 1);
        if let Some(proof) = survey.proof(lost, file, from, to) {
            return broken("damage", format!("{place}: opened with LSN {lsn}, though {lost} is proven by {proof}"));
        }
        let before = self.model.digests.range(..touched).next_back().map_or(0, |(before, _)| *before);
        if lsn < before {
            return broken("damage", format!("{place}: opened with LSN {lsn}, though {before} was not hit"));
        }
        Ok(())
    }

    /// Does the damage; gives the file and the bytes that were hit.
    pub fn damage(&mut self, copy: &SimStorage, survey: &Survey, names: &[String]) -> Option<(String, usize, usize)> {
        let draw = |run: &mut Run, count: usize| run.fault.below(count.max(1) as u64) as usize;
        let in_use = !survey.batches.is_empty() && self.fault.below(3) > 0;
        let (file, from) = if in_use {
            let place = &survey.batches[draw(self, survey.batches.len())];
            (place.file.clone(), place.from + draw(self, (place.to - place.from).min(300)))
        } else {
            let file = names[draw(self, names.len())].clone();
            let bytes = copy.contents(&file)?.len();
            (file, draw(self, bytes))
        };
        let mut bytes = copy.contents(&file)?;
        if from >= bytes.len() {
            return None;
        }
        if self.fault.one_in(2) {
            bytes[from] ^= 1 << draw(self, 8);
            copy.put(&file, &bytes);
            return Some((file, from, from + 1));
        }
        let (from, source) = (from / BLOCK * BLOCK, self.draw_blocks(copy, survey, names)?);
        let to = (from + source.len()).min(bytes.len());
        if bytes[from..to] == source[..to - from] {
            return None;
        }
        bytes[from..to].copy_from_slice(&source[..to - from]);
        copy.put(&file, &bytes);
        Some((file, from, to))
    }

    /// Blocks that another write was to put elsewhere: often a whole batch.
    fn draw_blocks(&mut self, copy: &SimStorage, survey: &Survey, names: &[String]) -> Option<Vec<u8>> {
        if !survey.batches.is_empty() && self.fault.one_in(2) {
            let place = &survey.batches[self.fault.below(survey.batches.len() as u64) as usize];
            return copy.contents(&place.file)?.get(place.from..place.to).map(<[u8]>::to_vec);
        }
        let name = &names[self.fault.below(names.len() as u64) as usize];
        let bytes = copy.contents(name)?;
        let at = self.fault.below((bytes.len() / BLOCK).max(1) as u64) as usize * BLOCK;
        bytes.get(at..at + BLOCK).map(<[u8]>::to_vec)
    }

    /// Opens a copy with procedures that do something else under the same version.
    pub fn check_liar(&mut self) -> Checked {
        let copy = self.storage.copy();
        copy.set_capacity(1 << 40);
        let seed = self.order.next_u64();
        match self.builder_over(copy, procedures::liars(self.version)).open_stepped(seed) {
            Err(Error::Refused(Refused::Diverged { .. })) => Ok(()),
            Err(error) => broken("open", format!("with changed procedures: {error}")),
            Ok(store) => {
                let lsn = store.recovered_lsn().0;
                compare_raw("divergence", &store.db().view(), &self.model.state_at(lsn))
            }
        }
    }
}

/// Whether a file belongs to the store's data.
pub fn is_data(name: &str) -> bool {
    name == "manifest" || name.starts_with("log/") || name.starts_with("snapshot/")
}
