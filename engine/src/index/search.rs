//! Finding keys inside one node: by four-byte heads first, by whole keys only among equal heads.
//! Guarantees: order is that of the key bytes.
//! Must not know: cells and memory.
//! Next: cursor.rs.

use super::node::{Node, Slot};
use std::cmp::Ordering;

/// The four bytes of a key behind a prefix, so that comparing numbers is comparing bytes.
pub(super) fn head_of(key: &[u8], prefix_bytes: usize) -> u32 {
    let rest = key.get(prefix_bytes..).unwrap_or_default();
    if let Some(head) = rest.first_chunk::<4>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; 4];
    head[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(head)
}

/// Length of what two keys begin with in common, as far as a node header can say it.
pub(super) fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    common.min(usize::from(u16::MAX))
}

/// The shortest key that is above `left` and not above `right`.
pub(super) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..common + 1]
}

impl Node {
    /// The slot of a key of a leaf.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        // The prefix is not compared: where it differs no whole key can be equal, whatever place the heads lead to.
        let prefix_bytes = self.prefix_bytes();
        if key.len() < prefix_bytes {
            return None;
        }
        let (first, end) = equal_heads(self.slots(), head_of(key, prefix_bytes));
        if end - first == 1 {
            return (self.key(first) == key).then_some(first);
        }
        self.search_whole(first, end, key, 0).ok()
    }

    /// The slot of a key, or the one it would get.
    pub(super) fn place(&self, key: &[u8]) -> Result<usize, usize> {
        let (first_key, count) = (self.first_key(), self.count());
        if first_key >= count {
            return Err(count);
        }
        let prefix_bytes = self.prefix_bytes();
        if prefix_bytes > 0 {
            let own = &key[..prefix_bytes.min(key.len())];
            match own.cmp(&self.key(first_key)[..prefix_bytes]) {
                Ordering::Less => return Err(first_key),
                Ordering::Greater => return Err(count),
                Ordering::Equal => {}
            }
        }
        let (first, end) = equal_heads(&self.slots()[first_key..], head_of(key, prefix_bytes));
        self.search_whole(first_key + first, first_key + end, key, prefix_bytes)
    }

    /// The child below which a key is, if it is anywhere.
    pub(super) fn child_index(&self, key: &[u8]) -> usize {
        match self.place(key) {
            Ok(index) => index,
            Err(index) => index.saturating_sub(1),
        }
    }

    fn search_whole(&self, mut first: usize, mut end: usize, key: &[u8], prefix_bytes: usize) -> Result<usize, usize> {
        while first < end {
            let middle = first.midpoint(end);
            match self.key(middle)[prefix_bytes..].cmp(&key[prefix_bytes..]) {
                Ordering::Less => first = middle + 1,
                Ordering::Greater => end = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(first)
    }
}

fn equal_heads(slots: &[Slot], head: u32) -> (usize, usize) {
    let first = slots.partition_point(|slot| slot.head < head);
    let equal = slots[first..].iter().take_while(|slot| slot.head == head).count();
    (first, first + equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_bytes_do() {
        assert!(head_of(b"ab", 0) < head_of(b"b", 0));
        assert_eq!(head_of(b"a\0", 0), head_of(b"a", 0), "equal heads leave the decision to the keys");
        assert_eq!(head_of(b"ab", 5), 0);
    }

    #[test]
    fn a_separator_is_the_shortest_that_separates() {
        assert_eq!(separator(b"abcdef", b"abxyz"), b"abx");
        assert_eq!(separator(b"", b"zebra"), b"z");
        assert_eq!(separator(b"ab", b"ab\0\0"), b"ab\0");
    }
}
