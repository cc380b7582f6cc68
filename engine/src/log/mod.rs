//! The command log: appending, group commit, segments, and reading it all back.
//!
//! Picture: callers `Log::append` frames into the open batch; `LogWriter::step` takes, seals and submits batches and
//! advances the watermarks; `Preparer::step` keeps segments ready; `scan` reads a log that nobody writes.
//! Guarantees: I1 `synced <= written <= assigned`. I2 nothing is released at a level before that level's watermark covers it
//! and everything before it. I3 a failed write or sync is final. I4 a segment is written to only when everything in the
//! one before it is on stable storage.
//! Must not know: commands, indexes, snapshots. A frame is bytes with its length in front.
//! Next: append.rs, then group_commit.rs, writer.rs; reader.rs with tail.rs for the other direction.

mod append;
mod blocked;
mod catalog;
mod facts;
mod group_commit;
mod inspect;
mod lag;
mod position;
mod prefix;
mod prepare;
mod queue;
mod reader;
mod reserve;
mod retention;
mod segments;
mod tail;
mod tally;
#[cfg(test)]
mod test_disk;
#[cfg(test)]
mod tests;
mod waiters;
mod walk;
mod writer;

pub use append::{Appended, Log, Stamp, Watermarks};
pub use inspect::{Observer, inspect};
pub use position::{ActiveSegment, LogOptions, LogPosition};
pub use prefix::{Behind, Prefix, find_prefix};
pub use prepare::{PrepareNext, Preparer};
pub use queue::Purpose;
pub use reader::{LogEnd, scan};
pub use reserve::{Reserve, SpaceNow};
pub use retention::SegmentSpan;
pub use segments::{SpareFile, segment_name};
pub use tail::{CASES, Case, Proof, Verdict};
pub use tally::TallyNow;
pub use waiters::{Subscriber, Waiter};
pub use walk::{Batch, Cut};
pub use writer::{LogStop, LogWriter, Next};
