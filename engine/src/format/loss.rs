//! The note of what a salvage cut off a store: one block in the file `loss`.
//!
//! Guarantees: the checksum covers the whole block; numbers only, so that nothing in it has to be bounded but its state.
//! Must not know: files, how a loss comes about.
//! Cases: t the block is damaged.
//! Next: ../loss.rs reads and replaces the file.

use super::damage::{Flaw, check_crc, check_equal, check_zero};
use super::{Field, fields};
use crate::limits::BLOCK_BYTES;
use crate::units::{Lsn, Millis, SegmentId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Newest version known here; the one that is written.
pub const VERSION: u32 = 1;
/// Bytes of the file.
pub const LOSS_BYTES: usize = BLOCK_BYTES;

const MAGIC: [u8; 8] = *b"logdLOSS";
const WHAT: &str = "loss note";
const RAW_BYTES: usize = size_of::<Raw>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    state: U32,
    acknowledged: U32,
    salvage_count: U64,
    commands: U64,
    first_lsn: U64,
    last_lsn: U64,
    bytes: U64,
    files: U64,
    first_wall_millis: U64,
    last_wall_millis: U64,
    noted_millis: U64,
    lsn_floor: U64,
    segment_floor: U64,
}

/// The note's table, as docs/FORMAT.md shows it. Zeros follow up to the block's end.
pub const FIELDS: &[Field] = fields!(Raw {
    magic: 8,
    version: 4,
    crc: 4,
    state: 4,
    acknowledged: 4,
    salvage_count: 8,
    commands: 8,
    first_lsn: 8,
    last_lsn: 8,
    bytes: 8,
    files: 8,
    first_wall_millis: 8,
    last_wall_millis: 8,
    noted_millis: 8,
    lsn_floor: 8,
    segment_floor: 8,
});

/// What salvages of a store have cost since somebody last acknowledged it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// A salvage has begun and may not have ended: what it does again is not counted twice.
    pub under_way: bool,
    /// Somebody has taken note.
    pub acknowledged: bool,
    /// Salvages.
    pub salvage_count: u64,
    /// Lost commands that could still be counted: those in whole batches behind the damage.
    pub commands: u64,
    /// First LSN lost; 0 if none is.
    pub first_lsn: Lsn,
    /// Last LSN that may have been lost; 0 if none is.
    pub last_lsn: Lsn,
    /// Bytes put aside.
    pub bytes: u64,
    /// Files put aside or cut.
    pub files: u64,
    /// Wall time of the first countable lost batch; 0 if unknown.
    pub first_wall: Millis,
    /// Wall time of the last one.
    pub last_wall: Millis,
    /// Wall time of the newest salvage.
    pub noted: Millis,
    /// Every LSN up to here may have been told to somebody: none is given again. Stays for ever.
    pub lsn_floor: Lsn,
    /// Every segment id up to here may stand in `quarantine/`: none is used again. Stays for ever.
    pub segment_floor: SegmentId,
}

impl Loss {
    /// Writes it as the block.
    pub fn encode(&self) -> Vec<u8> {
        let raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            crc: 0.into(),
            state: if self.under_way { 1 } else { 2 }.into(),
            acknowledged: u32::from(self.acknowledged).into(),
            salvage_count: self.salvage_count.into(),
            commands: self.commands.into(),
            first_lsn: self.first_lsn.0.into(),
            last_lsn: self.last_lsn.0.into(),
            bytes: self.bytes.into(),
            files: self.files.into(),
            first_wall_millis: self.first_wall.0.into(),
            last_wall_millis: self.last_wall.0.into(),
            noted_millis: self.noted.0.into(),
            lsn_floor: self.lsn_floor.0.into(),
            segment_floor: self.segment_floor.0.into(),
        };
        let mut block = raw.as_bytes().to_vec();
        block.resize(LOSS_BYTES, 0);
        let crc = crc32fast::hash(&block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads the block.
    pub fn decode(block: &[u8]) -> Result<Loss, Flaw> {
        let block = block
            .get(..LOSS_BYTES)
            .ok_or_else(|| Flaw::damaged(WHAT, 't', 0, format!("{LOSS_BYTES} bytes"), block.len()))?;
        let (raw, rest) = Raw::ref_from_prefix(block)
            .map_err(|_| Flaw::damaged(WHAT, 't', 0, format!("{LOSS_BYTES} bytes"), block.len()))?;
        if raw.magic != MAGIC {
            return Err(Flaw::damaged(WHAT, 't', 0, MAGIC.escape_ascii(), raw.magic.escape_ascii()));
        }
        let mut crc = crc32fast::Hasher::new();
        [&block[..12], &[0; 4], &block[16..]].iter().for_each(|piece| crc.update(piece));
        check_crc(WHAT, 't', 12, raw.crc.get(), crc.finalize())?;
        let version = raw.version.get();
        if !(1..=VERSION).contains(&version) {
            return Err(Flaw::Newer { found: version, known: VERSION });
        }
        check_zero(WHAT, 't', RAW_BYTES as u64, rest)?;
        let state = raw.state.get();
        check_equal(WHAT, 't', 16, state.clamp(1, 2), state)?;
        let acknowledged = raw.acknowledged.get();
        check_equal(WHAT, 't', 20, acknowledged.min(1), acknowledged)?;
        Ok(Loss {
            under_way: state == 1,
            acknowledged: acknowledged == 1,
            salvage_count: raw.salvage_count.get(),
            commands: raw.commands.get(),
            first_lsn: Lsn(raw.first_lsn.get()),
            last_lsn: Lsn(raw.last_lsn.get()),
            bytes: raw.bytes.get(),
            files: raw.files.get(),
            first_wall: Millis(raw.first_wall_millis.get()),
            last_wall: Millis(raw.last_wall_millis.get()),
            noted: Millis(raw.noted_millis.get()),
            lsn_floor: Lsn(raw.lsn_floor.get()),
            segment_floor: SegmentId(raw.segment_floor.get()),
        })
    }

    /// Whether somebody has to be told.
    pub fn is_unacknowledged(&self) -> bool {
        self.salvage_count > 0 && !self.acknowledged
    }

    /// The note once a further salvage has this to tell. One that was interrupted tells again what is left to see, so the larger
    /// number counts; one after an acknowledgement begins anew.
    pub fn with(&self, next: &Loss) -> Loss {
        let counts = if self.acknowledged && !self.under_way { Loss::default() } else { *self };
        let add = |before: u64, now: u64| if self.under_way { before.max(now) } else { before.saturating_add(now) };
        let first = |before: u64, now: u64| if before == 0 || now == 0 { before.max(now) } else { before.min(now) };
        Loss {
            under_way: true,
            acknowledged: false,
            salvage_count: if self.under_way { counts.salvage_count } else { counts.salvage_count + 1 },
            commands: add(counts.commands, next.commands),
            first_lsn: Lsn(first(counts.first_lsn.0, next.first_lsn.0)),
            last_lsn: counts.last_lsn.max(next.last_lsn),
            bytes: add(counts.bytes, next.bytes),
            files: add(counts.files, next.files),
            first_wall: Millis(first(counts.first_wall.0, next.first_wall.0)),
            last_wall: counts.last_wall.max(next.last_wall),
            noted: next.noted,
            lsn_floor: self.lsn_floor.max(next.lsn_floor),
            segment_floor: self.segment_floor.max(next.segment_floor),
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.last_lsn == Lsn::NONE {
            return write!(
                f,
                "no command was lost; {} damaged files ({} bytes) are in quarantine/",
                self.files, self.bytes
            );
        }
        write!(
            f,
            "commands from LSN {} up to at most {} were lost ({} of them countable); {} files ({} bytes) are in quarantine/",
            self.first_lsn, self.last_lsn, self.commands, self.files, self.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Loss {
        Loss {
            under_way: true,
            acknowledged: false,
            salvage_count: 1,
            commands: 7,
            first_lsn: Lsn(10),
            last_lsn: Lsn(20),
            bytes: 4096,
            files: 2,
            first_wall: Millis(5),
            last_wall: Millis(9),
            noted: Millis(11),
            lsn_floor: Lsn(20),
            segment_floor: SegmentId(3),
        }
    }

    #[test]
    fn a_note_comes_back_as_it_went_in_and_every_damaged_byte_shows() {
        let block = note().encode();
        assert_eq!(Loss::decode(&block), Ok(note()));
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 4;
            assert!(Loss::decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_salvage_that_begins_again_is_not_counted_twice_and_one_after_it_is() {
        let begun = Loss::default().with(&note());
        let less = Loss { commands: 3, files: 1, ..note() };
        assert_eq!(begun.with(&less), begun);
        let ended = Loss { under_way: false, ..begun };
        let second = ended.with(&less);
        assert_eq!((second.salvage_count, second.commands, second.files), (2, 10, 3));
        let acknowledged = Loss { acknowledged: true, ..ended };
        let anew = acknowledged.with(&Loss { lsn_floor: Lsn(5), ..less });
        assert_eq!((anew.salvage_count, anew.commands, anew.lsn_floor), (1, 3, Lsn(20)));
    }
}
