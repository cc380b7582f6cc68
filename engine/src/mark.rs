//! Coverage marks: proof that the simulation has been in a rare branch.
//! Guarantees: costs nothing without the feature `sim`.
//! Must not know: what the marks mean.
//! Next: the simulation fails when its seeds miss a mark.

/// Notes that a rare branch was taken. Compiled to nothing without the feature `sim`.
#[macro_export]
macro_rules! mark {
    ($name:literal) => {{
        #[cfg(feature = "sim")]
        $crate::mark::hit($name);
    }};
}

/// Counts one visit of the branch called `name`.
#[cfg(feature = "sim")]
pub fn hit(name: &'static str) {
    *COUNTS.lock().entry(name).or_insert(0) += 1;
}

/// The branches visited so far in this process, with how often.
#[cfg(feature = "sim")]
pub fn counts() -> Vec<(&'static str, u64)> {
    COUNTS.lock().iter().map(|(name, count)| (*name, *count)).collect()
}

#[cfg(feature = "sim")]
static COUNTS: parking_lot::Mutex<std::collections::BTreeMap<&'static str, u64>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());
