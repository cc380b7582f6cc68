//! Undoes LZF, with which RDB files shorten long strings.
//! Guarantees: any bytes give a result or `None`; nothing is read or written out of bounds.
//! Must not know: RDB.
//! Next: rdb_read.rs. (The crates for it are unmaintained or reserve what the file claims; this is shorter than their bindings.)

/// Longest piece that a back reference or a literal run can add.
const RESERVED_AT_ONCE_MAX: usize = 1 << 20;

/// The bytes that were shortened; `None` if they are not what they claim to be.
pub fn decompress(packed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(bytes.min(RESERVED_AT_ONCE_MAX));
    let mut rest = packed;
    while let Some((&control, after)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, after) = after.split_at_checked(control + 1)?;
            plain.extend_from_slice(literal);
            rest = after;
        } else {
            rest = copy_back(&mut plain, control, after)?;
        }
        if plain.len() > bytes {
            return None;
        }
    }
    (plain.len() == bytes).then_some(plain)
}

/// Three bits of length (7: one more byte), thirteen bits of distance.
fn copy_back<'a>(plain: &mut Vec<u8>, control: usize, rest: &'a [u8]) -> Option<&'a [u8]> {
    let (mut count, mut rest) = (control >> 5, rest);
    if count == 7 {
        let (&more, after) = rest.split_first()?;
        count += usize::from(more);
        rest = after;
    }
    let (&low, rest) = rest.split_first()?;
    let distance = ((control & 31) << 8 | usize::from(low)) + 1;
    let from = plain.len().checked_sub(distance)?;
    // The copy may run into what it has just written: that is how runs are packed.
    for at in from..from + count + 2 {
        plain.push(plain[at]);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_runs_come_back() {
        assert_eq!(decompress(&[2, b'a', b'b', b'c'], 3).as_deref(), Some(&b"abc"[..]));
        // "a" and then 9 + 2 bytes from one byte back.
        assert_eq!(decompress(&[0, b'a', 7 << 5, 2, 0], 12).as_deref(), Some(&[b'a'; 12][..]));
    }

    #[test]
    fn forged_bytes_are_refused() {
        assert_eq!(decompress(&[5, b'a'], 6), None, "a literal beyond the end");
        assert_eq!(decompress(&[1 << 5, 0], 3), None, "a distance before the front");
        assert_eq!(decompress(&[0, b'a'], 2), None, "another length than claimed");
        assert_eq!(decompress(&[0, b'a', 7 << 5, 255, 0], 3), None, "more than claimed");
    }
}
