//! The reserve of disk space: when the store may not grow, and when a checkpoint is taken to get room back.
//!
//! ```text
//! free >= 2 reserves   roomy   all goes on, as many snapshots are kept as were asked for
//! free <  2 reserves   tight   one snapshot is kept; a checkpoint is taken where that frees more log than it writes
//! free <  1 reserve    low     growth gets `Full::Disk`; deletes and reads go on; checkpoints free what they can
//! ```
//! Guarantees: pure; checkpoints for room are spaced out, so that a disk that stays full is not worn out by them.
//! Must not know: files, the log.
//! Next: ../maintenance.rs measures and acts.

use crate::units::Nanos;

/// The reserve is never more than this share of the file system: one in so many.
const RESERVE_SHARE: u64 = 2;
/// Segments in a reserve that is chosen here.
const RESERVE_SEGMENTS: u64 = 2;
/// Least time between two checkpoints for room.
const PAUSE: Nanos = Nanos::SECOND;
/// And at least so many times what the last one took.
const PAUSE_FACTOR: u64 = 20;
/// A store that is smaller by this share, one in so many, is worth a checkpoint.
const SHRUNK_SHARE: u64 = 8;
/// Least time between measurements while there is plenty of room.
pub const MEASURE_PAUSE: Nanos = Nanos::from_millis(10);
/// Time between measurements while there is little room: others may free it.
pub const LOOK_AGAIN: Nanos = Nanos::from_millis(250);

/// How much room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Enough.
    #[default]
    Roomy,
    /// Less than two reserves.
    Tight,
    /// Less than the reserve.
    Low,
}

/// A measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// All of the file system.
    pub total: u64,
    /// What is free.
    pub free: u64,
    /// Whether a segment could not be made for lack of room.
    pub is_log_full: bool,
    /// What the next snapshot takes, estimated.
    pub snapshot_bytes: u64,
    /// A full-grown segment.
    pub segment_bytes: u64,
}

/// What a checkpoint for room could free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gain {
    /// Bytes of sealed segments.
    pub log_bytes: u64,
    /// Snapshots besides the newest.
    pub older_snapshots: usize,
    /// Length of the newest.
    pub snapshot_bytes: u64,
    /// Size of the index when it was taken.
    pub index_bytes_then: u64,
    /// Size of the index.
    pub index_bytes_now: u64,
}

impl Gain {
    /// While room is only tight, a checkpoint must free more than it writes; once it is low, anything but a trifle counts.
    pub fn is_worth_it(&self, room: Room) -> bool {
        let has_shrunk = self.index_bytes_now < self.index_bytes_then - self.index_bytes_then / SHRUNK_SHARE;
        match room {
            Room::Roomy => false,
            Room::Tight => self.log_bytes > self.snapshot_bytes,
            Room::Low => self.log_bytes > 0 || self.older_snapshots > 0 || has_shrunk,
        }
    }
}

/// The bytes that growth leaves alone: two segments and a snapshot, at most half of the disk; or as many as were asked for.
pub fn reserve_bytes(asked: Option<u64>, measured: &Measured) -> u64 {
    let share = measured.total / RESERVE_SHARE;
    asked.unwrap_or((RESERVE_SEGMENTS * measured.segment_bytes).saturating_add(measured.snapshot_bytes)).min(share)
}

/// The room there is. What is low stays so until there is half a reserve more, so that it does not flicker.
pub fn room(before: Room, reserve: u64, measured: &Measured) -> Room {
    let low = if before == Room::Low { reserve + reserve / 2 } else { reserve };
    match measured.free {
        _ if reserve == 0 && !measured.is_log_full => Room::Roomy,
        _ if measured.is_log_full => Room::Low,
        free if free < low => Room::Low,
        free if free < reserve.saturating_mul(2) => Room::Tight,
        _ => Room::Roomy,
    }
}

/// When the next checkpoint for room may start.
pub fn next_start(last_start: Nanos, last_end: Nanos) -> Nanos {
    last_end.after(PAUSE.max(Nanos(last_end.since(last_start).0.saturating_mul(PAUSE_FACTOR))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SMALL: Measured =
        Measured { total: 16 * MIB, free: 8 * MIB, is_log_full: false, snapshot_bytes: MIB, segment_bytes: MIB };

    #[test]
    fn the_reserve_is_bounded_by_the_disk_and_may_be_set() {
        assert_eq!(reserve_bytes(None, &SMALL), 3 * MIB);
        assert_eq!(reserve_bytes(None, &Measured { snapshot_bytes: 100 * MIB, ..SMALL }), 8 * MIB);
        assert_eq!(reserve_bytes(Some(MIB), &SMALL), MIB);
        assert_eq!(reserve_bytes(Some(100 * MIB), &SMALL), 8 * MIB);
    }

    #[test]
    fn room_gets_low_below_the_reserve_and_comes_back_with_half_a_reserve_more() {
        let at = |before, free| room(before, 2 * MIB, &Measured { free, ..SMALL });
        assert_eq!(at(Room::Roomy, 4 * MIB), Room::Roomy);
        assert_eq!(at(Room::Roomy, 4 * MIB - 1), Room::Tight);
        assert_eq!(at(Room::Tight, 2 * MIB - 1), Room::Low);
        assert_eq!(at(Room::Low, 3 * MIB - 1), Room::Low);
        assert_eq!(at(Room::Low, 3 * MIB), Room::Tight);
        let full = Measured { is_log_full: true, free: 100 * MIB, ..SMALL };
        assert_eq!(room(Room::Roomy, 0, &full), Room::Low);
        assert_eq!(room(Room::Low, 0, &Measured { free: 0, ..SMALL }), Room::Roomy);
    }

    #[test]
    fn a_checkpoint_for_room_has_to_be_worth_its_bytes() {
        let gain = Gain {
            log_bytes: MIB,
            snapshot_bytes: 2 * MIB,
            index_bytes_then: 80,
            index_bytes_now: 80,
            ..Gain::default()
        };
        assert!(!gain.is_worth_it(Room::Roomy) && !gain.is_worth_it(Room::Tight) && gain.is_worth_it(Room::Low));
        assert!(Gain { snapshot_bytes: 0, ..gain }.is_worth_it(Room::Tight));
        let nothing = Gain { log_bytes: 0, ..gain };
        assert!(!nothing.is_worth_it(Room::Low));
        assert!(Gain { index_bytes_now: 69, ..nothing }.is_worth_it(Room::Low));
        assert!(Gain { older_snapshots: 1, ..nothing }.is_worth_it(Room::Low));
    }

    #[test]
    fn checkpoints_for_room_take_at_most_a_small_share_of_the_time() {
        assert_eq!(next_start(Nanos(0), Nanos(5)), Nanos::SECOND.after(Nanos(5)));
        assert_eq!(next_start(Nanos(0), Nanos::SECOND), Nanos(21 * Nanos::SECOND.0));
    }
}
