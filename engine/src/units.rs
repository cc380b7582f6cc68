//! Newtypes for every number that must not be confused with another.
//! Guarantees: arithmetic that could wrap panics instead, since a wrapped LSN would become durable.
//! Must not know: anything else of the engine.
//! Next: limits.rs bounds them.

use std::fmt;

/// Ordinal of a command in the log: dense, starting at 1; never a byte place. `Lsn::NONE` means "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first command.
    pub const NONE: Lsn = Lsn(0);

    /// The next command's LSN.
    pub fn next(self) -> Lsn {
        self.plus(1)
    }

    /// The LSN `count` commands later.
    pub fn plus(self, count: u64) -> Lsn {
        Lsn(self.0.checked_add(count).expect("an LSN fits 64 bits for ever"))
    }

    /// The LSN before this one; `NONE` stays `NONE`.
    pub fn previous(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of a log segment: rises for ever and is never used twice, so it doubles as the segment's generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// The segment made after this one.
    pub fn next(self) -> SegmentId {
        SegmentId(self.0.checked_add(1).expect("a segment id fits 64 bits for ever"))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Byte place inside one file.
pub type FileOffset = u64;

/// A reading of the monotonic clock, or a span of it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One millisecond.
    pub const MILLI: Nanos = Nanos(1_000_000);
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Time from `earlier` to this reading; zero when `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This reading moved on by a span; stays at the end of time rather than wrapping.
    pub fn after(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

/// Milliseconds since the Unix epoch. Times stored with data are in *engine time*: see `core/time.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);
