//! Judges what the engine makes of a damaged store: found with its place, or harmless; never a panic, never a wild allocation.

use super::allocation::peak_of;
use super::store::{Image, Store, image_of, medium, open};
use logd_engine::digest::Digest;
use logd_engine::error::{Error, Refused};
use logd_engine::recovery::LogFiles;
use logd_engine::verify::{Verdict, verify};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What came of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All data is there.
    Harmless,
    /// All data is there, and `verify` names the damage.
    FoundByVerify,
    /// The store is refused, and damage named, by both.
    Refused,
    /// The rule of the torn tail cut the last batch off.
    TornTail,
    /// Whatever was forged was taken for true: other data.
    Believed,
}

/// Judges the damaged images of one store.
pub struct Judge<'s> {
    pub store: &'s Store,
    allocated_max: usize,
}

/// What opening a store came to: its digest.
type Opened = Result<Digest, Error>;

fn opened(image: &Image) -> Opened {
    let db = open(&medium(image))?;
    let digest = db.digest().1;
    db.close()?;
    Ok(digest)
}

fn verdict(image: &Image) -> Result<Verdict, Error> {
    let storage = medium(image);
    let verdict = verify(&storage, &LogFiles, &mut |_| {});
    assert!(image_of(&storage) == *image, "verify changes nothing (KNOWN-FAULTS 39)");
    verdict
}

impl<'s> Judge<'s> {
    /// Learns from the whole store what opening it takes.
    pub fn of(store: &'s Store) -> Judge<'s> {
        let mut judge = Judge { store, allocated_max: usize::MAX };
        assert_eq!(judge.judge(&store.image, "", "undamaged"), Outcome::Harmless);
        let (_, to_verify) = peak_of(|| verdict(&store.image));
        let (_, to_open) = peak_of(|| opened(&store.image));
        judge.allocated_max = to_verify.max(to_open) + (2 << 20);
        judge
    }

    /// Judges; panics at what must not be. `file`: what was damaged.
    pub fn judge(&self, image: &Image, file: &str, at: &str) -> Outcome {
        let outcome = self.judge_forged(image, at);
        if outcome != Outcome::Believed {
            return outcome;
        }
        let (Ok(found), verdict) = (opened(image), verdict(image)) else { panic!("{at}: opened before and not again") };
        let may_be_torn = !self.store.stopped_cleanly && file == self.store.last_segment();
        // Less than all but the last batch may be left only where both say that something was cut.
        let last = self.store.before.last() == Some(&found);
        let told = verdict == Ok(Verdict::TornTailOnly) && self.store.before.contains(&found);
        assert!(may_be_torn && (last || told), "{at}: silently wrong ({verdict:?})");
        Outcome::TornTail
    }

    /// As `judge`, where other data than before is no fault.
    pub fn judge_forged(&self, image: &Image, at: &str) -> Outcome {
        let (verdict, to_verify) = peak_of(|| catch_unwind(AssertUnwindSafe(|| verdict(image))));
        let (opened, to_open) = peak_of(|| catch_unwind(AssertUnwindSafe(|| opened(image))));
        let verdict = verdict.unwrap_or_else(|_| panic!("{at}: verify panicked"));
        let opened = opened.unwrap_or_else(|_| panic!("{at}: opening panicked"));
        let (most, input) = (to_verify.max(to_open), image.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
        // The simulated medium holds the files once and the image that is compared with it once more.
        let allowed = self.allocated_max.saturating_add(3 * input);
        assert!(most <= allowed, "{at}: {most} bytes allocated for {input} bytes of files, {allowed} allowed");
        match opened {
            Err(error) => {
                assert_names_place(&error, at);
                let agrees = !matches!(verdict, Ok(Verdict::Sound | Verdict::TornTailOnly));
                assert!(agrees, "{at}: opening says {error}, verify {verdict:?} (KNOWN-FAULTS 4)");
                Outcome::Refused
            }
            Ok(digest) if digest != self.store.full => Outcome::Believed,
            Ok(_) => match verdict {
                Ok(Verdict::Sound | Verdict::TornTailOnly) => Outcome::Harmless,
                Ok(Verdict::Corrupt(damage)) => {
                    damage.into_iter().for_each(|corrupt| assert_names_place(&corrupt.into(), at));
                    Outcome::FoundByVerify
                }
                Ok(Verdict::NotAStore(why)) => panic!("{at}: opened, though verify finds no store: {why}"),
                Err(error) => {
                    assert_names_place(&error, at);
                    Outcome::FoundByVerify
                }
            },
        }
    }
}

fn assert_names_place(error: &Error, at: &str) {
    match error {
        Error::Corrupt(corrupt) => {
            assert!(!corrupt.file.is_empty() && !corrupt.expected.is_empty(), "{at}: {corrupt:?}");
        }
        Error::Refused(Refused::Version { file, found, known }) => {
            assert!(!file.is_empty() && found != known, "{at}: {error:?}");
        }
        other => panic!("{at}: damage is not called so: {other:?}"),
    }
}
