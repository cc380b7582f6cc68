//! Goal: no damage to a store's files is silently taken for data, makes the engine panic or allocate without bound.
//! Method: two small stores (one stopped cleanly, so that all of it is proven; one killed, so that its last batch is not), damaged in
//! every way below; each is verified, opened and read. KNOWN-FAULTS 1, 4, 7, 8, 10, 12, 28, 29, 39 and 40 are named where they are.
//! `LOGD_DAMAGE=all` tries each byte and cut; without it every so many (docs/TESTING.md).

mod allocation;
mod forge;
mod judge;
mod store;

use judge::{Judge, Outcome};
use logd_engine::format::batch::{self, BATCH_HEADER_BYTES, decode_header};
use logd_engine::format::{manifest as slot, segment::SEGMENT_HEADER_BYTES};
use logd_engine::units::Lsn;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use store::{Image, Store, build, image_of, medium, open};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Allocations are counted for the whole process, so one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

/// Distance of the places that are tried: 1, or a prime that meets every place in a block in time.
fn stride(sampled: usize) -> usize {
    if std::env::var("LOGD_DAMAGE").is_ok_and(|wish| wish == "all") { 1 } else { sampled }
}

fn both(last_count: u32, test: impl Fn(&Judge<'_>)) {
    let _alone = alone();
    for stopped_cleanly in [true, false] {
        let store = build(stopped_cleanly, last_count);
        test(&Judge::of(&store));
    }
}

fn files(store: &Store) -> impl Iterator<Item = (&str, usize)> {
    store.image.iter().map(|(name, bytes)| (name.as_str(), bytes.len()))
}

fn count(outcomes: &mut BTreeMap<Outcome, u64>, outcome: Outcome) {
    *outcomes.entry(outcome).or_default() += 1;
}

/// KNOWN-FAULTS 12.
#[test]
fn any_flipped_bit_is_found_or_harmless() {
    both(2, |judge| {
        let mut outcomes = BTreeMap::new();
        for (name, length) in files(judge.store) {
            for at in (0..length).step_by(stride(211)) {
                let image = judge.store.with(name, |bytes| bytes[at] ^= 1 << (at % 8));
                count(&mut outcomes, judge.judge(&image, name, &format!("bit {} of byte {at} of {name}", at % 8)));
            }
        }
        assert!(outcomes.len() >= 3, "every kind of answer: {outcomes:?}");
    });
}

/// KNOWN-FAULTS 1 in its other direction: files that end early, at every boundary of sectors and blocks and beside it.
#[test]
fn a_file_that_ends_early_is_found_or_harmless() {
    both(2, |judge| {
        for (name, length) in files(judge.store) {
            for at in (0..length).step_by(512).step_by(stride(5)).flat_map(|at| [at, at + 1]) {
                let image = judge.store.with(name, |bytes| bytes.truncate(at));
                judge.judge(&image, name, &format!("{name} cut to {at}"));
            }
        }
    });
}

/// KNOWN-FAULTS 8: a batch of 64 KiB of which any one page did not arrive is there wholly or not at all.
#[test]
fn zeroed_sectors_and_pages_are_found_or_harmless() {
    both(16, |judge| {
        for (name, length) in files(judge.store) {
            for (unit, sampled) in [(512, 13), (4096, 1)] {
                for at in (0..length).step_by(unit).step_by(stride(sampled)) {
                    let image = judge.store.with(name, |bytes| bytes[at..length.min(at + unit)].fill(0));
                    judge.judge(&image, name, &format!("{unit} bytes at {at} of {name} zeroed"));
                }
            }
            let image = judge.store.with(name, |bytes| bytes.fill(0));
            judge.judge(&image, name, &format!("{name} zeroed"));
        }
    });
}

/// KNOWN-FAULTS 1: what a file system put behind the end starts by itself, with all data.
#[test]
fn a_longer_file_costs_nothing() {
    both(2, |judge| {
        for (name, _) in files(judge.store) {
            for (more, fill) in [(150, 0), (4096, 0), (1_000_000, 0), (150, 0xa5), (4096, 0xa5), (100_000, 0xa5)] {
                let image = judge.store.with(name, |bytes| bytes.resize(bytes.len() + more, fill));
                let outcome = judge.judge(&image, name, &format!("{name} with {more} bytes {fill:#x} more"));
                let is_log = name.ends_with(".seg");
                assert!(
                    !is_log || outcome == Outcome::Harmless,
                    "{name} with {more} bytes {fill:#x} more: {outcome:?}"
                );
            }
        }
    });
}

/// KNOWN-FAULTS 7: a segment that was prepared and not used yet.
#[test]
fn a_prepared_segment_of_zeros_is_a_normal_end() {
    both(2, |judge| {
        for length in [0, 100, 4096, 1 << 20] {
            let mut image = judge.store.image.clone();
            image.push(("log/00000000000000000099.seg".to_owned(), vec![0; length]));
            image.sort();
            let outcome = judge.judge(&image, "", &format!("{length} bytes of zeros as segment 99"));
            assert_eq!(outcome, Outcome::Harmless, "{length} bytes of zeros");
        }
    });
}

/// KNOWN-FAULTS 28: nothing that is missing turns a store into an empty one.
#[test]
fn removed_and_exchanged_files_are_found() {
    both(2, |judge| {
        let store = judge.store;
        for (name, _) in files(store) {
            let outcome = judge.judge(&store.without(|file| file == name), name, &format!("{name} removed"));
            // The older snapshot and what only it needs are found by verify; opening does without.
            assert!(matches!(outcome, Outcome::Refused | Outcome::FoundByVerify), "{name} removed: {outcome:?}");
            for (other, _) in files(store).filter(|(other, _)| *other != name) {
                let image = store.with(name, |bytes| *bytes = store.bytes(other).to_vec());
                judge.judge(&image, name, &format!("{other} in the place of {name}"));
            }
        }
        for directory in ["log/", "snapshot/", "manifest"] {
            let outcome = judge.judge(&store.without(|file| file.starts_with(directory)), "", directory);
            assert_eq!(outcome, Outcome::Refused, "{directory} renamed away");
        }
        let no_head = store.without(|file| file == "manifest" || file.starts_with("snapshot/"));
        assert_eq!(judge.judge(&no_head, "", "log alone"), Outcome::Refused);
    });
}

#[test]
fn batches_that_have_changed_places_are_found() {
    both(2, |judge| {
        for name in judge.store.segments() {
            let bytes = judge.store.bytes(name);
            let mut blocks: Vec<usize> = (0..bytes.len()).step_by(4096).collect();
            blocks.truncate(40);
            for (one, two) in blocks.windows(2).map(|pair| (pair[0], pair[1])).chain([(4096, bytes.len() - 3 * 4096)]) {
                let image = judge.store.with(name, |bytes| {
                    let first = bytes[one..one + 4096].to_vec();
                    bytes.copy_within(two..two + 4096, one);
                    bytes[two..two + 4096].copy_from_slice(&first);
                });
                judge.judge(&image, name, &format!("blocks {one} and {two} of {name} exchanged"));
                let image = judge.store.with(name, |bytes| bytes.copy_within(one..one + 4096, two));
                judge.judge(&image, name, &format!("block {one} of {name} also at {two}"));
            }
        }
    });
}

/// KNOWN-FAULTS 10 and 29: lengths, counts and places with a right checksum are bounded before they are believed.
#[test]
fn forged_fields_are_refused_or_harmless_and_cost_no_memory() {
    both(2, |judge| {
        let mut believed = Vec::new();
        for place in forge::places(judge.store) {
            forge::for_each(judge.store, &place, &mut |field, value, image| {
                let at = format!("{} of the {} in {} set to {value:#x}", field.name, place.what, place.file);
                if judge.judge_forged(image, &at) == Outcome::Believed {
                    believed.push(at);
                }
            });
        }
        let unexpected: Vec<_> = believed.iter().filter(|at| !is_a_lie_nobody_can_find(at, judge.store)).collect();
        assert!(unexpected.is_empty(), "other data and no word about it: {unexpected:#?}");
    });
}

/// Who can write a right checksum can also take the last batch of a killed store away: it looks like a torn tail.
fn is_a_lie_nobody_can_find(at: &str, store: &Store) -> bool {
    !store.stopped_cleanly && at.contains(store.last_segment()) && at.contains("batch header")
}

/// KNOWN-FAULTS 40: a version that is not known is named, with the one that is, and nothing is changed on disk.
#[test]
fn a_newer_version_of_any_structure_is_refused_and_nothing_is_written() {
    let _alone = alone();
    let store = build(true, 2);
    let newest = store.last_segment().to_owned();
    let snapshot = store.snapshots()[1].to_owned();
    for place in
        forge::places(&store).iter().filter(|place| [&newest, &snapshot, "manifest"].contains(&place.file.as_str()))
    {
        let Some(field) = place.fields.iter().find(|field| field.name == "version") else { continue };
        for version in [2, 77] {
            let image = forge::forged(&store, place, field, version).unwrap();
            let storage = medium(&image);
            let error = open(&storage).err().unwrap_or_else(|| panic!("{} of version {version} opened", place.what));
            let words = error.to_string();
            assert!(words.contains(&version.to_string()) && words.contains('1'), "{}: {words}", place.what);
            let changed: Image = image_of(&storage).into_iter().filter(|(name, _)| name != "LOCK").collect();
            assert_eq!(changed, image, "{} of version {version}: something was written", place.what);
        }
    }
}

/// KNOWN-FAULTS 40: a kind of command or effect that is not known, under a right checksum.
#[test]
fn an_unknown_command_is_refused_by_opening_and_by_verify() {
    both(2, |judge| {
        let (store, name) = (judge.store, judge.store.last_segment().to_owned());
        // The frame's kind, and the kind of its first effect.
        for (at, value) in [(4, 3), (4, 0xff), (8, 8), (8, 0xff), (8, 0)] {
            let image = store.with(&name, |bytes| {
                let header = decode_header(store.id, &bytes[SEGMENT_HEADER_BYTES..], 1 << 20).unwrap();
                let batch = &mut bytes[SEGMENT_HEADER_BYTES..SEGMENT_HEADER_BYTES + header.padded_bytes() as usize];
                batch[BATCH_HEADER_BYTES + at] = value;
                batch::seal(store.id, &header, batch);
            });
            assert_eq!(judge.judge(&image, &name, &format!("byte {at} of a frame set to {value}")), Outcome::Refused);
        }
    });
}

/// KNOWN-FAULTS 10: every byte of a frame at its extremes, checksums right.
#[test]
fn forged_commands_never_panic_and_cost_no_memory() {
    both(2, |judge| {
        let (store, name) = (judge.store, judge.store.last_segment().to_owned());
        for at in (0..120).step_by(stride(3)) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let image = store.with(&name, |bytes| {
                    let header = decode_header(store.id, &bytes[SEGMENT_HEADER_BYTES..], 1 << 20).unwrap();
                    let batch = &mut bytes[SEGMENT_HEADER_BYTES..SEGMENT_HEADER_BYTES + header.padded_bytes() as usize];
                    batch[BATCH_HEADER_BYTES + at..][..2].fill(value);
                    batch::seal(store.id, &header, batch);
                });
                judge.judge_forged(&image, &format!("bytes {at} and one more of a frame set to {value:#x}"));
            }
        }
    });
}

/// KNOWN-FAULTS 29: a manifest that names another snapshot, or proves more than there is, is not believed.
#[test]
fn a_manifest_that_names_what_is_not_there_is_refused() {
    both(2, |judge| {
        let sound = slot::decode(&judge.store.bytes("manifest")[..slot::SLOT_BYTES]).unwrap().0;
        let mut lies = Vec::new();
        for step in [1, 51, 4096, u64::MAX / 4] {
            let mut lie = sound.clone();
            lie.snapshots.last_mut().unwrap().lsn.0 += step;
            lies.push(lie);
            lies.push(slot::Manifest { lsn_proof: Lsn(sound.lsn_proof.0 + (1 << 30) + step), ..sound.clone() });
            lies.push(slot::Manifest { store_id: sound.store_id.wrapping_add(u128::from(step)), ..sound.clone() });
        }
        for lie in lies {
            let bytes = [slot::encode(&lie, 100), slot::encode(&lie, 101)].concat();
            let image = judge.store.with("manifest", |file| *file = bytes);
            assert_eq!(judge.judge(&image, "manifest", &format!("{lie:?}")), Outcome::Refused, "{lie:?}");
        }
    });
}
