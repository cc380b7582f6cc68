//! One file: what reading it gives now, and what of it outlives a power cut.
//! Guarantees: C1 and C2. Each unsynced sector has its own fate: any version written since the last sync, or the synced one.
//! Must not know: names, users, time.
//! Invariant: F1 sequence numbers rise with each change, so that a sync covers exactly what came before it.
//! Next: crash.rs asks for images.

use crate::prng::Prng;
use std::collections::BTreeMap;

/// What a device writes as a whole.
pub(super) const SECTOR_BYTES: usize = 512;

/// A simulated file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    content: Vec<u8>,
    synced: Vec<u8>,
    sequence: u64,
    /// Changes up to this one met a failed sync: no later sync covers them, as on Linux.
    abandoned: u64,
    /// By sector, the versions that are not known to be synced, oldest first.
    unsynced: BTreeMap<usize, Vec<Version>>,
    /// Lengths that are not known to be synced, oldest first.
    unsynced_lengths: Vec<(u64, usize)>,
}

#[derive(Clone, Debug)]
struct Version {
    sequence: u64,
    bytes: Vec<u8>,
}

impl File {
    /// A file with synced content.
    pub(super) fn synced(bytes: &[u8]) -> File {
        File { content: bytes.to_vec(), synced: bytes.to_vec(), ..File::default() }
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Number of the last change: what a sync that starts now has to cover.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn write(&mut self, place: usize, bytes: &[u8]) {
        self.sequence += 1;
        let end = place + bytes.len();
        if end > self.content.len() {
            self.content.resize(end, 0);
            self.unsynced_lengths.push((self.sequence, end));
        }
        self.content[place..end].copy_from_slice(bytes);
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let version = Version { sequence: self.sequence, bytes: sector.to_vec() };
            self.unsynced.entry(place / SECTOR_BYTES + index).or_default().push(version);
        }
    }

    /// A write of which only some sectors arrived, because it failed.
    pub(super) fn write_torn(&mut self, place: usize, bytes: &[u8], prng: &mut Prng) {
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if prng.one_in(2) {
                self.write(place + index * SECTOR_BYTES, sector);
            }
        }
    }

    /// A write that is on stable storage when it is done, with the length that is needed to read it.
    pub(super) fn write_durable(&mut self, place: usize, bytes: &[u8]) {
        self.write(place, bytes);
        let sequence = self.sequence;
        self.sync_length(sequence);
        for sector in place / SECTOR_BYTES..(place + bytes.len()).div_ceil(SECTOR_BYTES) {
            self.sync_sector(sector, sequence);
        }
    }

    /// Growing is as unsynced as any change. Shrinking lasts at once, which the contract allows and which keeps
    /// the bytes that were cut off from coming back when the file grows again.
    pub(super) fn set_length(&mut self, bytes: usize) {
        self.sequence += 1;
        if bytes < self.content.len() {
            self.unsynced_lengths.clear();
            self.synced.truncate(bytes);
            self.unsynced.retain(|sector, _| sector * SECTOR_BYTES < bytes);
            for version in self.unsynced.get_mut(&(bytes / SECTOR_BYTES)).into_iter().flatten() {
                version.bytes.truncate(bytes % SECTOR_BYTES);
            }
        }
        self.content.resize(bytes, 0);
        self.unsynced_lengths.push((self.sequence, bytes));
    }

    /// Makes the changes up to `sequence` last, but those that a failed sync gave up.
    pub(super) fn sync(&mut self, sequence: u64) {
        self.sync_length(sequence);
        let sectors: Vec<usize> = self.unsynced.keys().copied().collect();
        for sector in sectors {
            self.sync_sector(sector, sequence);
        }
    }

    /// A sync up to `sequence` failed: whether those changes last is open for ever.
    pub(super) fn abandon(&mut self, sequence: u64) {
        self.abandoned = self.abandoned.max(sequence);
    }

    fn sync_length(&mut self, sequence: u64) {
        if let Some((_, bytes)) = self.unsynced_lengths.iter().rev().find(|(number, _)| *number <= sequence) {
            self.synced.resize(*bytes, 0);
        }
        self.unsynced_lengths.retain(|(number, _)| *number > sequence);
    }

    fn sync_sector(&mut self, sector: usize, sequence: u64) {
        let Some(versions) = self.unsynced.get_mut(&sector) else { return };
        let covered = versions.iter().rposition(|version| version.sequence <= sequence);
        if let Some(newest) = covered.filter(|newest| versions[*newest].sequence > self.abandoned) {
            put_sector(&mut self.synced, sector, &versions[newest].bytes);
            versions.drain(..=newest);
        }
        if versions.is_empty() {
            self.unsynced.remove(&sector);
        }
    }

    /// One of the files that a power cut may leave of this one.
    pub(super) fn after_power_cut(&self, prng: &mut Prng) -> File {
        let mut image = self.synced.clone();
        let mut length = image.len();
        let choice = prng.below(self.unsynced_lengths.len() as u64 + 1) as usize;
        if choice > 0 {
            length = self.unsynced_lengths[choice - 1].1;
        }
        for (sector, versions) in &self.unsynced {
            let choice = prng.below(versions.len() as u64 + 1) as usize;
            if choice > 0 {
                put_sector(&mut image, *sector, &versions[choice - 1].bytes);
            }
        }
        image.resize(length, 0);
        File::synced(&image)
    }

    pub(super) fn corrupt(&mut self, place: u64, mask: u8) {
        let place = place as usize;
        self.content[place] ^= mask;
        if let Some(byte) = self.synced.get_mut(place) {
            *byte ^= mask;
        }
        for version in self.unsynced.get_mut(&(place / SECTOR_BYTES)).into_iter().flatten() {
            version.bytes[place % SECTOR_BYTES] ^= mask;
        }
    }
}

fn put_sector(image: &mut Vec<u8>, sector: usize, bytes: &[u8]) {
    let place = sector * SECTOR_BYTES;
    if image.len() < place + bytes.len() {
        image.resize(place + bytes.len(), 0);
    }
    image[place..place + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;

    #[test]
    fn a_synced_write_always_survives_and_an_unsynced_one_is_torn() {
        let mut file = File::default();
        file.write(0, &[1; BLOCK]);
        file.sync(file.sequence());
        file.write(0, &[2; BLOCK]);
        let mut prng = Prng::new(1);
        let images: Vec<File> = (0..50).map(|_| file.after_power_cut(&mut prng)).collect();
        assert!(images.iter().all(|image| image.content().iter().all(|&byte| byte == 1 || byte == 2)));
        assert!(images.iter().any(|image| image.content().contains(&1) && image.content().contains(&2)));
    }

    #[test]
    fn a_sync_covers_only_what_was_written_before_it_started() {
        let mut file = File::default();
        file.write(0, &[1; BLOCK]);
        let started = file.sequence();
        file.write(0, &[2; BLOCK]);
        file.sync(started);
        let mut prng = Prng::new(1);
        assert!((0..50).any(|_| file.after_power_cut(&mut prng).content().contains(&1)));
        assert!((0..50).all(|_| !file.after_power_cut(&mut prng).content().contains(&0)));
    }

    #[test]
    fn a_durable_write_covers_itself_only() {
        let mut file = File::default();
        file.write(0, &[1; BLOCK]);
        file.write_durable(BLOCK, &[2; BLOCK]);
        let mut prng = Prng::new(1);
        let images: Vec<File> = (0..50).map(|_| file.after_power_cut(&mut prng)).collect();
        assert!(images.iter().all(|image| image.content()[BLOCK..].iter().all(|&byte| byte == 2)));
        assert!(images.iter().any(|image| image.content()[..BLOCK].contains(&0)));
    }

    #[test]
    fn a_sync_after_a_failed_one_promises_nothing() {
        let mut file = File::default();
        file.write(0, &[1; BLOCK]);
        file.sync(file.sequence());
        file.write(0, &[2; BLOCK]);
        file.abandon(file.sequence());
        file.sync(file.sequence());
        let mut prng = Prng::new(1);
        assert!((0..50).any(|_| file.after_power_cut(&mut prng).content().contains(&1)));
    }

    #[test]
    fn bytes_cut_off_do_not_come_back() {
        let mut file = File::default();
        file.write_durable(0, &[1; BLOCK]);
        file.set_length(0);
        file.set_length(BLOCK);
        assert!(file.content().iter().all(|&byte| byte == 0));
        file.sync(file.sequence());
        assert!(file.after_power_cut(&mut Prng::new(1)).content().iter().all(|&byte| byte == 0));
    }
}
