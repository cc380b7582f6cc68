//! What goes wrong, and when.
//! Guarantees: a fault strikes exactly the operation it was arranged for, counted from its arrangement.
//! Must not know: how an operation fails; medium.rs does that.
//! Next: medium.rs.

use super::super::DiskErrorKind;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimOperation {
    /// Each operation of any kind, in a fault; nothing is called so itself.
    Any,
    /// Writes, durable or not.
    Write,
    /// Reads.
    Read,
    /// Syncs of files.
    Sync,
    /// Opening, and creating by opening.
    Open,
    /// Reserving space.
    Allocate,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Syncs of directories.
    SyncDirectory,
    /// Making directories.
    CreateDirectory,
    /// Listing directories.
    List,
    /// Asking for the length of a file.
    Length,
    /// Asking for the room left.
    Space,
    /// Taking the lock.
    Lock,
}

/// A failure to come.
#[derive(Clone, Debug)]
pub struct SimFault {
    /// What fails.
    pub operation: SimOperation,
    /// How many of these go well before.
    pub skip: u64,
    /// Whether all later ones fail too.
    pub lasting: bool,
    /// With what.
    pub kind: DiskErrorKind,
}

/// The failures arranged for one medium.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<SimFault>,
    /// Operations that failed by arrangement.
    pub(super) struck: u64,
    /// Writes and syncs of files among them.
    pub(super) struck_writes: u64,
}

impl Faults {
    pub(super) fn add(&mut self, fault: SimFault) {
        self.waiting.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Counts one operation and says how it fails, if it does. Every waiting fault counts it.
    pub(super) fn strike(&mut self, operation: SimOperation) -> Option<DiskErrorKind> {
        let mut kind = None;
        self.waiting.retain_mut(|fault| {
            if fault.operation != operation && fault.operation != SimOperation::Any {
                return true;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                return true;
            }
            kind.get_or_insert_with(|| fault.kind.clone());
            fault.lasting
        });
        self.struck += u64::from(kind.is_some());
        let is_write = matches!(operation, SimOperation::Write | SimOperation::Sync);
        self.struck_writes += u64::from(kind.is_some() && is_write);
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_operation_it_was_arranged_for() {
        let mut faults = Faults::default();
        faults.add(SimFault { operation: SimOperation::Write, skip: 1, lasting: false, kind: DiskErrorKind::Full });
        assert_eq!(faults.strike(SimOperation::Sync), None);
        assert_eq!(faults.strike(SimOperation::Write), None);
        assert_eq!(faults.strike(SimOperation::Write), Some(DiskErrorKind::Full));
        assert_eq!(faults.strike(SimOperation::Write), None);
    }

    #[test]
    fn a_fault_of_any_operation_counts_them_all() {
        let mut faults = Faults::default();
        faults.add(SimFault { operation: SimOperation::Any, skip: 2, lasting: true, kind: DiskErrorKind::Full });
        assert_eq!(faults.strike(SimOperation::Open), None);
        assert_eq!(faults.strike(SimOperation::List), None);
        assert_eq!(faults.strike(SimOperation::Write), Some(DiskErrorKind::Full));
        assert_eq!((faults.strike(SimOperation::Sync), faults.struck), (Some(DiskErrorKind::Full), 2));
    }
}
