//! Checks a closed store without changing it: manifest, every kept snapshot, the log from the oldest of them on.
//! Guarantees: writes nothing; goes on after damage where it can, so that one run shows its extent.
//! Must not know: how results are shown.
//! Next: the tools print findings and turn the verdict into an exit code.

use crate::digest::Digest;
use crate::disk::{Disk, DiskErrorKind, Storage};
use crate::error::{Corrupt, Error};
use crate::manifest::{self, Manifest, ManifestRead, SnapshotReference};
use crate::recovery::{Defined, LogReader, LogTail, check_frame, check_reference, log_proof};
use crate::snapshot::{self, Snapshot};
use crate::units::Lsn;

/// What a check of a whole store came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Sound,
    /// A crash left unsynced bytes at the end of the log; the next start cuts them off by itself.
    TornTailOnly,
    /// What was durable is damaged: all places found.
    Corrupt(Vec<Corrupt>),
    /// There is no store here.
    NotAStore(String),
}

/// Something found on the way, in the order of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A remark.
    Note(String),
    /// A whole snapshot.
    Snapshot {
        /// Its LSN.
        lsn: Lsn,
        /// Blocks in it.
        block_count: u64,
        /// Records in it.
        record_count: u64,
        /// Its digest.
        digest: Digest,
    },
    /// A whole log.
    Log {
        /// Commands read.
        commands: u64,
        /// Last LSN.
        last_lsn: Lsn,
        /// Letter of the decision about its end.
        case: char,
        /// Bytes behind the end that the next start will cut off.
        cut_bytes: u64,
    },
    /// Damage.
    Damage(Corrupt),
}

/// Checks a store that nobody has open. Errors are disks that cannot be read and formats that are too new.
pub fn verify<L: LogReader>(storage: &dyn Storage, log: &L, sink: &mut dyn FnMut(&Finding)) -> Result<Verdict, Error> {
    let mut disk = storage.disk()?;
    let mut check = Check { disk: &mut *disk, sink, damage: Vec::new(), defined: None };
    let manifest = match manifest::read(check.disk)? {
        ManifestRead::Empty => {
            return Ok(Verdict::NotAStore(format!("{} holds no manifest, log or snapshot", storage.place())));
        }
        ManifestRead::Unreadable(corrupt) => {
            // Without the store's id no other file can be believed.
            check.damaged(corrupt);
            return Ok(Verdict::Corrupt(check.damage));
        }
        ManifestRead::Present(file, note) => {
            note.into_iter().for_each(|note| (check.sink)(&Finding::Note(note)));
            file.manifest().clone()
        }
    };
    if manifest.snapshots.is_empty() {
        check.defined = Some(Defined::default());
    }
    for (number, reference) in manifest.snapshots.iter().enumerate() {
        let defined = check.snapshot(manifest.store_id, reference)?;
        if number == 0 {
            check.defined = defined;
        }
    }
    check.left_overs(&manifest)?;
    let tail = check.log(log, &manifest)?;
    Ok(match tail {
        _ if !check.damage.is_empty() => Verdict::Corrupt(check.damage),
        Some(tail) if !tail.cuts.is_empty() => Verdict::TornTailOnly,
        _ => Verdict::Sound,
    })
}

struct Check<'a> {
    disk: &'a mut dyn Disk,
    sink: &'a mut dyn FnMut(&Finding),
    damage: Vec<Corrupt>,
    /// What the oldest kept snapshot defines; `None` if it cannot be read.
    defined: Option<Defined>,
}

impl Check<'_> {
    fn damaged(&mut self, corrupt: Corrupt) {
        (self.sink)(&Finding::Damage(corrupt.clone()));
        self.damage.push(corrupt);
    }

    /// Notes damage and goes on; passes other errors up.
    fn collect<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt(corrupt)) => {
                self.damaged(*corrupt);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn snapshot(&mut self, store_id: u128, reference: &SnapshotReference) -> Result<Option<Defined>, Error> {
        let opened = Snapshot::open(self.disk, reference.lsn);
        let Some(snapshot) = self.collect(opened)? else { return Ok(None) };
        self.collect(check_reference(store_id, reference, &snapshot))?;
        let file = snapshot.open_file(self.disk)?;
        let (mut digest, mut whole) = (Digest::EMPTY, true);
        for number in 0..snapshot.blocks.len() {
            let block = snapshot.digest_block(self.disk, file, number);
            match self.collect(block)? {
                Some(of_block) => digest.add_all(of_block),
                None => whole = false,
            }
        }
        self.disk.close(file);
        if whole && self.collect(snapshot.check_digest(digest))?.is_some() {
            let trailer = &snapshot.trailer;
            let (block_count, record_count) = (trailer.block_count, trailer.record_count);
            (self.sink)(&Finding::Snapshot { lsn: reference.lsn, block_count, record_count, digest });
        }
        Ok(Some(Defined::by(&snapshot)))
    }

    /// Files that a crash may leave are no damage, but worth a word.
    fn left_overs(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let listed = match self.disk.list(snapshot::DIRECTORY) {
            Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for file in listed {
            let lsn = snapshot::lsn_of_name(&file.name);
            if !manifest.snapshots.iter().any(|kept| Some(kept.lsn) == lsn) {
                let name = file.name;
                let note = format!("snapshot/{name} is not named by the manifest; the next checkpoint removes it");
                (self.sink)(&Finding::Note(note));
            }
        }
        Ok(())
    }

    fn log<L: LogReader>(&mut self, log: &L, manifest: &Manifest) -> Result<Option<LogTail>, Error> {
        let from = manifest.snapshots.first().map_or(Lsn::NONE, |oldest| oldest.lsn).next();
        let proof = log_proof(manifest);
        let (mut commands, mut malformed, mut defined) = (0, Vec::new(), self.defined);
        let scanned = log.scan(self.disk, manifest.store_id, from, proof, &mut |lsn, _, frame| {
            commands += 1;
            if let Err(reason) = check_frame(frame, defined.as_mut()) {
                malformed.push((lsn, reason));
            }
            Ok(())
        });
        for (lsn, reason) in malformed {
            let expected = format!("a command with LSN {lsn}");
            let (file, found) = ("log".to_owned(), reason.to_string());
            self.damaged(Corrupt { what: "command", file, offset: 0, case: 'k', expected, found });
        }
        let Some((tail, _)) = self.collect(scanned)? else { return Ok(None) };
        if tail.last_lsn < proof.synced {
            let (expected, found) =
                (format!("commands up to LSN {}", proof.synced), format!("up to {}", tail.last_lsn));
            self.damaged(Corrupt { what: "log", file: "log".to_owned(), offset: 0, case: 'q', expected, found });
        }
        let cut_bytes = tail.cuts.iter().map(|cut| cut.to.saturating_sub(cut.from)).sum();
        (self.sink)(&Finding::Log { commands, last_lsn: tail.last_lsn, case: tail.case, cut_bytes });
        Ok(Some(tail))
    }
}
