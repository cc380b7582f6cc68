//! The area codes of Voter and the state each of them lies in, as the daemon's procedures know them.
//! Guarantees: in the order of VoltDB's generator, which decides about favourites.
//! Must not know: calls.
//! Next: calls.rs.

use logd::voter::AREA_CODES;

pub use logd::voter::STATE_UNKNOWN;

/// Every area code with its state, in the generator's order.
pub fn all() -> impl Iterator<Item = (u16, &'static str)> {
    AREA_CODES.iter().copied()
}

/// All states.
pub fn states() -> impl Iterator<Item = &'static str> {
    AREA_CODES.chunk_by(|one, next| one.1 == next.1).map(|codes| codes[0].1)
}

/// The state of an area code.
pub fn state_of(code: u16) -> &'static str {
    logd::voter::state_of(u64::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_305_different_codes_of_three_digits() {
        let codes: BTreeSet<u16> = all().map(|(code, _)| code).collect();
        assert_eq!((all().count(), codes.len()), (305, 305));
        assert!(codes.iter().all(|code| (200..1000).contains(code)));
        assert_eq!(state_of(305), "FL");
        assert_eq!(state_of(1), STATE_UNKNOWN);
    }
}
