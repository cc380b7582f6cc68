//! The durability levels and what each of them promises under which failure.
//! Guarantees: the order of the variants is the order of strength.
//! Must not know: how a level is reached; that is the log's business.
//! Next: log/mod.rs keeps the watermarks that these levels wait for.

/// When a write counts as done. Chosen per write, with a default per keyspace.
///
/// | level | acknowledged when | survives |
/// |---|---|---|
/// | `Accepted` | applied and queued for the log | a clean stop; a crash may lose at most the stated lag |
/// | `Written` | the kernel or device has it | `kill -9`; a power cut may lose at most the stated lag |
/// | `Synced` | a sync that covers it has completed | a power cut |
///
/// After any crash the state is a prefix of the log order, whatever the levels. Source: docs/DURABILITY.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DurabilityLevel {
    /// Not logged at all, not part of snapshots: gone at the next start. For a whole keyspace only.
    Volatile,
    /// Applied and queued.
    Accepted,
    /// Handed to the kernel or the device.
    Written,
    /// On stable storage.
    Synced,
}

impl DurabilityLevel {
    /// The word used in settings and output.
    pub fn word(self) -> &'static str {
        match self {
            DurabilityLevel::Volatile => "volatile",
            DurabilityLevel::Accepted => "accepted",
            DurabilityLevel::Written => "written",
            DurabilityLevel::Synced => "synced",
        }
    }
}

impl std::str::FromStr for DurabilityLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [DurabilityLevel::Volatile, DurabilityLevel::Accepted, DurabilityLevel::Written, DurabilityLevel::Synced]
            .into_iter()
            .find(|level| level.word() == text)
            .ok_or_else(|| format!("durability is one of synced, written, accepted, volatile; not {text:?}"))
    }
}
