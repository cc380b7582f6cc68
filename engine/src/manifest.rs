//! The manifest file: two slots, the newest valid one counts.
//! Guarantees: a store that lost its manifest never passes for a fresh one; a torn write of one slot loses nothing; once
//! `replace` has returned, both slots say the same, so that a single bad block later costs nothing either.
//! Must not know: what the snapshots and the log look like inside.
//! Next: checkpoint.rs and recovery write it.

use crate::canary::{Canary, planted};
use crate::disk::{BlockingDisk, Disk, DiskErrorKind, FileId, OpenMode};
use crate::error::{Corrupt, Error, Failed};
use crate::format::damage::{Damage, Flaw};
use crate::format::manifest::{SLOT_BYTES, decode, encode};
use crate::units::{Millis, SegmentId};

pub use crate::format::manifest::{CleanMark, Manifest, SnapshotReference};

/// Path of the manifest.
pub const FILE: &str = "manifest";
const FILE_UNFINISHED: &str = "manifest.tmp";
const SLOT: u64 = SLOT_BYTES as u64;
/// Directories that hold the data a manifest belongs to.
const DIRECTORIES: [&str; 2] = ["log", "snapshot"];

/// What reading found.
#[derive(Debug)]
pub enum ManifestRead {
    /// No manifest, and nothing that one would belong to.
    Empty,
    /// A manifest; with a note if only one of its slots was sound.
    Present(ManifestFile, Option<String>),
    /// There was a manifest, or must have been, but it cannot be read. Never to be treated as a fresh start.
    Unreadable(Corrupt),
}

/// The manifest as it stands on disk, ready to be replaced.
#[derive(Debug)]
pub struct ManifestFile {
    manifest: Manifest,
    sequence: u64,
    /// The slot that holds `sequence`.
    slot: u64,
    /// Set by the first failure: what the disk holds is in doubt from then on.
    failed: bool,
}

/// Reads the manifest. Only disk errors and newer versions are errors here.
pub fn read(disk: &mut dyn Disk) -> Result<ManifestRead, Error> {
    let file = match disk.open(FILE, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind == DiskErrorKind::NotFound => return read_missing(disk),
        Err(error) => return Err(error.into()),
    };
    let slots = read_slots(disk, file);
    disk.close(file);
    choose(slots?)
}

type Slot = Result<(Manifest, u64), Damage>;

fn read_slots(disk: &mut dyn Disk, file: FileId) -> Result<[Slot; 2], Error> {
    let file_bytes = disk.file_bytes(file)?;
    Ok([read_slot(disk, file, 0, file_bytes)?, read_slot(disk, file, 1, file_bytes)?])
}

fn read_slot(disk: &mut dyn Disk, file: FileId, slot: u64, file_bytes: u64) -> Result<Slot, Error> {
    if file_bytes < (slot + 1) * SLOT {
        let (expected, found) = ("8192 bytes".to_owned(), file_bytes.to_string());
        return Ok(Err(Damage { what: "manifest", case: 'm', offset: slot * SLOT, expected, found }));
    }
    let buffer = disk.buffer(SLOT_BYTES);
    match decode(&disk.read_at(file, slot * SLOT, buffer)?) {
        Ok(decoded) => Ok(Ok(decoded)),
        Err(Flaw::Damaged(mut damage)) => {
            damage.offset += slot * SLOT;
            Ok(Err(damage))
        }
        Err(newer @ Flaw::Newer { .. }) => Err(newer.into_error(FILE, slot * SLOT)),
    }
}

fn choose(slots: [Slot; 2]) -> Result<ManifestRead, Error> {
    let present = |slot, (manifest, sequence), note| {
        ManifestRead::Present(ManifestFile { manifest, sequence, slot, failed: false }, note)
    };
    Ok(match slots {
        [Ok(first), Ok(second)] if first.1 > second.1 => present(0, first, None),
        [Ok(_), Ok(second)] => present(1, second, None),
        [Ok(first), Err(damage)] => present(0, first, Some(note(damage))),
        [Err(damage), Ok(second)] => present(1, second, Some(note(damage))),
        [Err(first), Err(_)] => {
            crate::mark!("manifest_unreadable");
            ManifestRead::Unreadable(first.into_corrupt(FILE, 0))
        }
    })
}

fn note(damage: Damage) -> String {
    crate::mark!("manifest_slot_damaged");
    format!("the {}; the other slot is sound and was used", damage.into_corrupt(FILE, 0))
}

/// Without a manifest the directory is fresh only if there is nothing that belongs to one.
fn read_missing(disk: &mut dyn Disk) -> Result<ManifestRead, Error> {
    for directory in DIRECTORIES {
        let listed = match disk.list(directory) {
            Ok(listed) => listed,
            Err(error) if error.kind == DiskErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some(first) = listed.first() {
            crate::mark!("manifest_missing_beside_data");
            return Ok(ManifestRead::Unreadable(Corrupt {
                what: "manifest",
                file: FILE.to_owned(),
                offset: 0,
                case: 'n',
                expected: "a manifest beside the data".to_owned(),
                found: format!("none, but {directory}/{}", first.name),
            }));
        }
    }
    Ok(ManifestRead::Empty)
}

/// Makes the manifest of a fresh store. It gets its name only when it is whole: a crash leaves a fresh directory.
pub fn create(disk: &mut dyn Disk, manifest: Manifest) -> Result<ManifestFile, Error> {
    create_from(disk, manifest, 0)
}

/// The same for a store that had another manifest, which was written so many times: LSNs are counted from that.
pub fn create_from(disk: &mut dyn Disk, manifest: Manifest, sequence: u64) -> Result<ManifestFile, Error> {
    match disk.remove(FILE_UNFINISHED) {
        Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error.into()),
        Err(_) => {}
        Ok(()) => crate::mark!("manifest_left_unfinished"),
    }
    let file = disk.open(FILE_UNFINISHED, OpenMode::Create)?;
    disk.allocate(file, 2 * SLOT)?;
    write_slot(disk, file, 0, &manifest, sequence + 1)?;
    write_slot(disk, file, 1, &manifest, sequence + 2)?;
    disk.sync(file)?;
    disk.close(file);
    disk.rename(FILE_UNFINISHED, FILE)?;
    disk.sync_directory("")?;
    Ok(ManifestFile { manifest, sequence: sequence + 2, slot: 1, failed: false })
}

impl ManifestFile {
    /// What it says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// An error once a write of it has failed: what it names on disk is in doubt, so nothing may be removed for its sake.
    pub fn check_certain(&self) -> Result<(), Error> {
        if self.failed {
            let reason = "an earlier write of it failed".to_owned();
            return Err(Failed { operation: "write", file: FILE.to_owned(), reason }.into());
        }
        Ok(())
    }

    /// Replaces the manifest durably: first the older slot, then the other.
    pub fn replace(&mut self, disk: &mut dyn Disk, manifest: Manifest) -> Result<(), Error> {
        self.check_certain()?;
        self.failed = true;
        let file = disk.open(FILE, OpenMode::Write)?;
        let replaced = self.write_both(disk, file, manifest);
        disk.close(file);
        self.failed = replaced.is_err();
        replaced
    }

    /// Number of writes of it since the store was made; never the same after two openings.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Notes that a segment exists, so that its loss is not taken for a log that never was. Call it once the first
    /// segment of a run is durable; costs nothing when the manifest knows already.
    pub fn prove_segment(&mut self, disk: &mut dyn Disk, segment: SegmentId) -> Result<(), Error> {
        if segment <= self.manifest.segment_proof {
            return Ok(());
        }
        self.replace(disk, Manifest { segment_proof: segment, ..self.manifest.clone() })
    }

    /// Notes a clean stop. The next start removes the mark durably before anything is served.
    pub fn mark_clean(&mut self, disk: &mut dyn Disk, clean: CleanMark, time_millis: Millis) -> Result<(), Error> {
        self.mark_stop(disk, clean, true, time_millis)
    }

    /// Notes how the log ends and the time, with the mark of a clean stop or without it.
    pub fn mark_stop(
        &mut self,
        disk: &mut dyn Disk,
        clean: CleanMark,
        is_clean: bool,
        time_millis: Millis,
    ) -> Result<(), Error> {
        let mut next = self.manifest.clone();
        next.lsn_proof = next.lsn_proof.max(clean.last_lsn);
        next.segment_proof = next.segment_proof.max(clean.segment);
        next.time_millis = next.time_millis.max(time_millis);
        next.clean = is_clean.then_some(clean);
        self.replace(disk, next)
    }

    fn write_both(&mut self, disk: &mut dyn Disk, file: FileId, manifest: Manifest) -> Result<(), Error> {
        self.manifest = manifest;
        for _ in 0..2 {
            let other = if planted(Canary::ManifestOneSlot) { 0 } else { 1 - self.slot };
            let (slot, sequence) = (other, self.sequence + 1);
            write_slot(disk, file, slot, &self.manifest, sequence)?;
            (self.slot, self.sequence) = (slot, sequence);
        }
        Ok(())
    }
}

fn write_slot(disk: &mut dyn Disk, file: FileId, slot: u64, manifest: &Manifest, sequence: u64) -> Result<(), Error> {
    let mut buffer = disk.buffer(SLOT_BYTES);
    buffer.copy_from_slice(&encode(manifest, sequence));
    disk.write_at(file, slot * SLOT, buffer, !planted(Canary::ManifestNotSynced))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Storage;
    use crate::test_disk::TestStorage;
    use crate::units::Lsn;

    fn manifest(lsn: u64) -> Manifest {
        Manifest { lsn_proof: Lsn(lsn), ..Manifest::default() }
    }

    fn read_lsn(storage: &TestStorage) -> (Lsn, Option<String>) {
        match read(&mut *storage.disk().unwrap()) {
            Ok(ManifestRead::Present(file, note)) => (file.manifest().lsn_proof, note),
            other => panic!("{other:?}"),
        }
    }

    fn damage(storage: &TestStorage, at: usize) {
        let mut bytes = storage.bytes(FILE);
        bytes[at] ^= 0x10;
        storage.put(FILE, bytes);
    }

    #[test]
    fn a_crash_at_any_step_of_creation_leaves_a_fresh_directory_or_a_manifest() {
        for lucky in [false, true] {
            for changes in 0..20 {
                let storage = TestStorage::default();
                storage.stop_after(changes);
                let created = create(&mut *storage.disk().unwrap(), manifest(1));
                let after = storage.crash(lucky);
                match read(&mut *after.disk().unwrap()) {
                    Ok(ManifestRead::Empty) => assert!(created.is_err()),
                    Ok(ManifestRead::Present(..)) => {}
                    other => panic!("{changes} changes: {other:?}"),
                }
                create_or_nothing(&after);
                assert_eq!(read_lsn(&after), (Lsn(1), None));
            }
        }
    }

    fn create_or_nothing(storage: &TestStorage) {
        let mut disk = storage.disk().unwrap();
        if matches!(read(&mut *disk), Ok(ManifestRead::Empty)) {
            create(&mut *disk, manifest(1)).unwrap();
        }
    }

    #[test]
    fn a_crash_at_any_step_of_a_replacement_leaves_the_old_or_the_new() {
        for changes in 0..3 {
            let storage = TestStorage::default();
            let mut file = create(&mut *storage.disk().unwrap(), manifest(1)).unwrap();
            storage.stop_after(changes);
            let replaced = file.replace(&mut *storage.disk().unwrap(), manifest(2));
            assert_eq!(replaced.is_ok(), changes == 2);
            let expected = if changes == 0 { Lsn(1) } else { Lsn(2) };
            assert_eq!(read_lsn(&storage.crash(false)), (expected, None));
            if replaced.is_err() {
                let again = file.replace(&mut *storage.crash(false).disk().unwrap(), manifest(3));
                assert!(matches!(again, Err(Error::Failed(_))), "a failed write is final");
            }
        }
    }

    #[test]
    fn any_one_damaged_slot_costs_nothing_and_is_told() {
        let storage = TestStorage::default();
        let mut file = create(&mut *storage.disk().unwrap(), manifest(1)).unwrap();
        file.replace(&mut *storage.disk().unwrap(), manifest(2)).unwrap();
        let sound = storage.bytes(FILE);
        for at in 0..sound.len() {
            storage.put(FILE, sound.clone());
            damage(&storage, at);
            let (lsn, note) = read_lsn(&storage);
            assert_eq!((lsn, note.is_some()), (Lsn(2), true), "byte {at}");
        }
    }

    #[test]
    fn two_damaged_slots_are_unreadable_and_never_a_fresh_start() {
        let storage = TestStorage::default();
        create(&mut *storage.disk().unwrap(), manifest(1)).unwrap();
        damage(&storage, 100);
        damage(&storage, 5000);
        assert!(matches!(read(&mut *storage.disk().unwrap()), Ok(ManifestRead::Unreadable(_))));
        for bytes in [0, 1, 4096, 8192] {
            storage.put(FILE, vec![0; bytes]);
            assert!(matches!(read(&mut *storage.disk().unwrap()), Ok(ManifestRead::Unreadable(_))), "{bytes} zeros");
        }
    }

    #[test]
    fn a_missing_manifest_beside_data_is_unreadable() {
        for name in ["log/00000000000000000001.seg", "snapshot/00000000000000000001.snap"] {
            let storage = TestStorage::default();
            assert!(matches!(read(&mut *storage.disk().unwrap()), Ok(ManifestRead::Empty)));
            storage.put(name, Vec::new());
            assert!(matches!(read(&mut *storage.disk().unwrap()), Ok(ManifestRead::Unreadable(_))), "{name}");
        }
    }

    #[test]
    fn slots_alternate_and_the_newest_wins() {
        let storage = TestStorage::default();
        let mut file = create(&mut *storage.disk().unwrap(), manifest(1)).unwrap();
        for lsn in 2..6 {
            storage.stop_after(1);
            let mut torn = present(&storage);
            let _ = torn.replace(&mut *storage.disk().unwrap(), manifest(lsn));
            storage.stop_after(u64::MAX);
            assert_eq!(read_lsn(&storage).0, Lsn(lsn));
            file = present(&storage);
        }
        assert_eq!(file.manifest().lsn_proof, Lsn(5));
    }

    fn present(storage: &TestStorage) -> ManifestFile {
        match read(&mut *storage.disk().unwrap()) {
            Ok(ManifestRead::Present(file, _)) => file,
            other => panic!("{other:?}"),
        }
    }
}
