//! Planted faults: proof that the tests would find the faults they are there to find.
//! Guarantees: without the feature `sim`, `planted` is a constant `false`, so every hook is compiled away; the assertion
//! below holds that together. With it, at most one fault is planted at a time, in the whole process.
//! Must not know: what a hook does; the hooks stand in the modules that they break.
//! Next: the simulator plants each in turn and must fail each time; docs/TESTING.md has the list of who finds what.

macro_rules! canaries {
    ($($variant:ident $name:literal $what:literal,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Canary {
            $(#[doc = $what] $variant,)*
        }

        #[cfg(feature = "sim")]
        impl Canary {
            /// All of them.
            pub const ALL: &[Canary] = &[$(Canary::$variant),*];

            /// Its name on a command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Canary::$variant => $name,)*
                }
            }

            /// What is wrong with it, and how that shows where one thread alone would not see it.
            pub fn what(self) -> &'static str {
                match self {
                    $(Canary::$variant => $what,)*
                }
            }
        }
    };
}

canaries! {
    WrittenAsSynced "written-as-synced" "a written batch counts as synced: acknowledged on the wrong completion",
    SyncCoversLater "sync-covers-later" "a sync counts for what was written while it was under way",
    SkipSync "skip-sync" "a durable write goes out without its sync",
    SkipFileSync "skip-file-sync" "syncs of snapshots, new segments and kept bytes are skipped",
    ManifestNotSynced "manifest-not-synced" "the manifest is written without a sync",
    SkipSnapshotDirectorySync "skip-snapshot-directory-sync" "the directory is not synced after a snapshot got its name",
    SkipLogDirectorySync "skip-log-directory-sync" "the directory is not synced after a segment got its name",
    IgnoreBatchChecksum "ignore-batch-checksum" "a batch is taken whatever its payload checksum says",
    BatchChecksumEmpty "batch-checksum-empty" "the payload checksum of a batch covers nothing, when written and when read",
    IgnoreBlockChecksum "ignore-block-checksum" "a snapshot block is taken whatever its payload checksum says (needs a flipped byte)",
    TornTailKept "torn-tail-kept" "after an unclean stop the log goes on in the segment with the torn tail",
    StaleGeneration "stale-generation" "batches of the segment that a recycled file once was are taken for its own",
    SequenceGap "sequence-gap" "a batch that does not follow the last one in sequence and LSN is taken (needs batches moved about)",
    SyncedProofTooHigh "synced-proof-too-high" "batches say of unsynced ones before them that they were synced",
    TailNotWrittenAgain "tail-not-written-again" "what recovery has read counts as synced without being made durable",
    LogRetiredEarly "log-retired-early" "the log goes when the snapshot begins, before a durable manifest names it",
    SnapshotRemovedEarly "snapshot-removed-early" "older snapshots go when a new one begins",
    SnapshotOutrunsLog "snapshot-outruns-log" "the manifest names a snapshot of commands that the log has not synced",
    SegmentRecycledEarly "segment-recycled-early" "a segment is retired as soon as its first command is in a snapshot",
    ManifestOneSlot "manifest-one-slot" "the manifest is always written to the same slot",
    CleanMarkKept "clean-mark-kept" "the mark of a clean stop is not removed when the store is opened",
    AppliedTwice "applied-twice" "a snapshot says one LSN less than it holds, so its last command is applied again (shows by calls, and by digests at an LSN)",
    HalfBatch "half-batch" "recovery applies the first half of each batch",
    SyncRetried "sync-retried" "a failed sync is tried again and believed",
    ErrorSwallowed "error-swallowed" "a failed write or sync of the log is treated as done",
    FailureForgotten "failure-forgotten" "the log takes commands after it has failed",
    LsnReused "lsn-reused" "after an unclean stop LSNs go on right behind the last one that was found",
    ExpiryByLocalClock "expiry-by-local-clock" "replay leaves out records that are due by the clock of now (shows where a later command prolonged them)",
    TimeFloorIgnored "time-floor-ignored" "engine time starts at the wall clock though the log is ahead of it (needs a clock set back)",
    LockNotTaken "lock-not-taken" "the store's lock is not taken (shows when the same storage is opened a second time: it must be refused)",
    LeafNotCopied "leaf-not-copied" "a view sees later values of the same length: their leaf is not copied",
    ShardsDescending "shards-descending" "the shards of a transaction are locked from the highest down (shows by the assertion in Shards::lock_scope)",
    ShardLeftUnlocked "shard-left-unlocked" "the highest shard of a transaction over several is not locked (shows by the panic of Guards)",
    NeighboursTicket "neighbours-ticket" "a waiter is released by the ticket before its own",
    LagIgnored "lag-ignored" "the bound on unsynced commands is not kept",
    QuarantineOverwritten "quarantine-overwritten" "kept bytes are replaced by others (needs a tail that changes between two recoveries)",
    UndoForgotten "undo-forgotten" "a transaction that fails leaves what it did in the trees",
    EffectsNotCompared "effects-not-compared" "a replayed call may do something else than it did at first (needs a procedure that does)",
    SnapshotLosesExpiry "snapshot-loses-expiry" "records from a snapshot never end",
    KeyspaceNotLogged "keyspace-not-logged" "a new keyspace is used without having been logged",
    SecondEffectLost "second-effect-lost" "only the first effect of a transaction is logged",
    UndoIncomplete "undo-incomplete" "a transaction of several changes that fails keeps its first one",
    DueTimesNotLoaded "due-times-not-loaded" "due times of records from a snapshot are not known",
    KeyspaceNumberOff "keyspace-number-off" "a snapshot takes records for those of the keyspace before their own",
    RetiredTooFar "retired-too-far" "with the segments that may go, the next one goes too",
    LagFromNewest "lag-from-newest" "the age of what is unsynced is that of its newest batch",
    TicketLate "ticket-late" "a waiter is released by the ticket behind its own",
    DigestSkipsShard "digest-skips-shard" "the state digest leaves the last shard out",
    DeleteNotKept "delete-not-kept" "a record that is deleted while a snapshot is written is not kept for it",
    CursorSkips "cursor-skips" "a snapshot leaves out the first record of each block but a part's first (shows with small blocks)",
    ClearNotKept "clear-not-kept" "a keyspace that is cleared behind a snapshot's first block is not kept for it (shows with small blocks)",
    ReplayDisorder "replay-disorder" "a shard takes the effects that replay has gathered for it from the last to the first",
    StopTimeForgotten "stop-time-forgotten" "the engine time that a stop left in the manifest is not looked at (needs a clock set back)",
    WatchMissesExpiry "watch-misses-expiry" "watches do not notice that a record was removed because it was due",
    ViewSkipsShard "view-skips-shard" "a view is taken without the last shard",
    SegmentProvenEarly "segment-proven-early" "the manifest names a segment before that is durable",
    SegmentProvenUnsynced "segment-proven-unsynced" "the manifest of a start names a segment that may be in the page cache only",
    GapForgotten "gap-forgotten" "a clean stop before the gap of an unclean one was logged forgets it",
    FailureNotTold "failure-not-told" "nobody who waits is told of a failure",
    KeyspaceLevelIgnored "keyspace-level-ignored" "writes that name no level are `Accepted`, whatever their keyspace says",
    DeleteNeedsRoom "delete-needs-room" "deletes are refused like growth when the disk is low",
    GrowthTakesReserve "growth-takes-reserve" "growth is not refused when the disk is low",
    DurableOutOfOrder "durable-out-of-order" "a batch counts as written although one before it is in flight (needs batches that overlap)",
    LossFloorIgnored "loss-floor-ignored" "after a salvage LSNs that were lost are given again",
    LossNotCounted "loss-not-counted" "a salvage notes no loss",
    SalvageGoesOn "salvage-goes-on" "a plan believes the log behind a damaged batch",
}

#[cfg(feature = "sim")]
impl Canary {
    /// The one with a name.
    pub fn from_name(name: &str) -> Option<Canary> {
        Canary::ALL.iter().copied().find(|canary| canary.name() == name)
    }
}

/// The planted fault's number and one more; 0 for none.
#[cfg(feature = "sim")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a fault in this process in the place of the one before, or removes that.
#[cfg(feature = "sim")]
pub fn plant(canary: Option<Canary>) {
    PLANTED.store(canary.map_or(0, |canary| canary as u8 + 1), std::sync::atomic::Ordering::SeqCst);
}

/// Whether a fault is planted.
#[cfg(feature = "sim")]
pub fn planted(canary: Canary) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == canary as u8 + 1
}

/// Whether a fault is planted: never, in a program that is shipped.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn planted(_: Canary) -> bool {
    false
}

// Only a constant function can be asked here: without `sim` the hooks are dead code, and the optimiser removes them.
#[cfg(not(feature = "sim"))]
const _: () = assert!(!planted(Canary::SkipSync), "nothing is planted in a shipped program");

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_fault_and_differ() {
        for canary in Canary::ALL {
            assert_eq!(Canary::from_name(canary.name()), Some(*canary));
        }
        assert_eq!(Canary::from_name("none of them"), None);
    }

    #[test]
    fn every_fault_has_a_hook_in_the_engine() {
        let mut sources = String::new();
        collect(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources);
        for canary in Canary::ALL {
            assert!(sources.contains(&format!("planted(Canary::{canary:?})")), "{canary:?} is planted nowhere");
        }
    }

    fn collect(directory: &std::path::Path, sources: &mut String) {
        for found in std::fs::read_dir(directory).expect("the source tree is there") {
            let path = found.expect("the source tree is there").path();
            if path.is_dir() {
                collect(&path, sources);
            } else if path.file_name().is_some_and(|name| name != "canary.rs") {
                sources.push_str(&std::fs::read_to_string(path).expect("the source tree is there"));
            }
        }
    }
}
