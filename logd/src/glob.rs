//! The patterns of KEYS and SCAN: `*`, `?`, `[a-c]`, `[^x]` and `\` before a character that means itself.
//! Guarantees: Redis' answers, also for patterns that are not closed; at most pattern length times text length steps,
//! however many stars there are.
//! Must not know: keys.
//! Next: request/scan.rs.

/// Whether a text matches a pattern as a whole.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut pattern_at = 0;
    let mut text_at = 0;
    // Only the newest star has to be taken up again: whatever an older one could still yield, the newest can too.
    let mut star: Option<(usize, usize)> = None;
    while text_at < text.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, text_at));
            continue;
        }
        if let Some(next) = match_one(pattern, pattern_at, text[text_at]) {
            pattern_at = next;
            text_at += 1;
            continue;
        }
        let Some((after_star, star_end)) = star else { return false };
        pattern_at = after_star;
        text_at = star_end + 1;
        star = Some((after_star, text_at));
    }
    pattern[pattern_at..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the element of the pattern at a place; the place of the next element if it does.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => {
            let (is_match, next) = match_class(pattern, at + 1, byte);
            is_match.then_some(next)
        }
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// Matches one byte against a class whose inside begins at a place. A class that is not closed ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let is_negated = pattern.get(at) == Some(&b'^');
    at += usize::from(is_negated);
    let mut is_match = false;
    loop {
        match pattern[at..] {
            [] => return (is_match != is_negated, at),
            [b'\\', escaped, ..] => {
                is_match |= escaped == byte;
                at += 2;
            }
            [b']', ..] => return (is_match != is_negated, at + 1),
            [from, b'-', to, ..] => {
                is_match |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                is_match |= literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a\\", "a\\", true),
            ("[\\]]", "]", true),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[abc", "b", true),
            ("[abc", "d", false),
            ("[a-]", "a", true),
            ("a**b", "ab", true),
            ("*a*b*c*", "xaxbxcx", true),
            ("*a*b*c", "xaxbxcx", false),
            ("ab*", "a", false),
            ("[", "[", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), *expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn many_stars_on_a_text_that_almost_matches_stay_cheap() {
        let pattern = "a*".repeat(64) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
