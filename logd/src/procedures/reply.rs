//! How procedures take arguments and reply.
//! Guarantees: a reply describes itself and is a reply of RESP2 as it stands, so it needs no translation there; damage in
//! arguments is an error, never a panic.
//! Must not know: any single procedure.
//! Next: voter.rs.
//!
//! Arguments: each word with its length before it, as an unsigned 32-bit number, little-endian. Replies: an integer
//! (`:1`), a string (`$3`), nothing (`$-1`), a list (`*2`, then its parts), an error (`-ERR …`), each line ended by CR LF.

use logd_engine::Error;
use logd_engine::error::Refused;

/// A reply being written.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    /// An empty one.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// The reply of one integer.
    pub fn of_integer(number: i64) -> Vec<u8> {
        let mut reply = Reply::new();
        reply.integer(number);
        reply.finish()
    }

    /// Adds an integer.
    pub fn integer(&mut self, number: i64) {
        self.line(':', &number.to_string());
    }

    /// Adds a string.
    pub fn bulk(&mut self, value: &[u8]) {
        self.line('$', &value.len().to_string());
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds nothing.
    pub fn nothing(&mut self) {
        self.line('$', "-1");
    }

    /// Adds the head of a list of `count` parts, which follow.
    pub fn array(&mut self, count: usize) {
        self.line('*', &count.to_string());
    }

    /// Adds an error: its class, then its words, without line ends. A call that must change nothing returns `refused`
    /// instead.
    pub fn error(&mut self, text: &str) {
        self.line('-', &text.replace(['\r', '\n'], " "));
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn line(&mut self, kind: char, text: &str) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Ends a call with an error reply and undoes what it did.
pub fn refused(text: impl Into<String>) -> Error {
    Refused::Aborted(text.into()).into()
}

/// Splits a reply after its first line, or, where that begins a string, after the string. `None` at damage.
pub fn without_head(reply: &[u8]) -> Option<(&[u8], &[u8])> {
    let line_end = reply.windows(2).position(|two| two == b"\r\n")? + 2;
    let string_bytes = match reply.first()? {
        b'$' => std::str::from_utf8(&reply[1..line_end - 2]).ok()?.parse::<i64>().ok()?,
        _ => -1,
    };
    match usize::try_from(string_bytes) {
        Err(_) => Some(reply.split_at(line_end)),
        Ok(bytes) => reply.split_at_checked(line_end.checked_add(bytes)?.checked_add(2)?),
    }
}

/// Puts words together as arguments.
pub fn encode_arguments(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.iter().map(|word| 4 + word.len()).sum());
    for word in words {
        let length = u32::try_from(word.len()).expect("a word is shorter than a request may be");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(word);
    }
    bytes
}

/// Takes arguments apart.
pub fn decode_arguments(mut arguments: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut words = Vec::new();
    while !arguments.is_empty() {
        let split = arguments
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let (word, rest) = split.ok_or_else(|| refused("ERR arguments are not words with their lengths"))?;
        words.push(word);
        arguments = rest;
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_damage_is_an_error() {
        let words: [&[u8]; 3] = [b"ab", b"", b"c"];
        let bytes = encode_arguments(&words);
        assert_eq!(bytes[..6], [2, 0, 0, 0, b'a', b'b']);
        assert_eq!(decode_arguments(&bytes).unwrap(), words);
        for end in [1, 5, 8, 12, 14] {
            assert!(decode_arguments(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(decode_arguments(&[255; 8]).is_err());
    }

    #[test]
    fn a_reply_is_taken_apart_part_by_part() {
        let mut reply = Reply::new();
        reply.array(3);
        reply.bulk(b"a\r\nb");
        reply.nothing();
        reply.integer(-5);
        let bytes = reply.finish();
        assert_eq!(bytes, b"*3\r\n$4\r\na\r\nb\r\n$-1\r\n:-5\r\n");
        let mut rest = &bytes[..];
        let mut parts = Vec::new();
        while let Some((part, after)) = without_head(rest) {
            parts.push(part);
            rest = after;
        }
        assert_eq!(parts, [&b"*3\r\n"[..], b"$4\r\na\r\nb\r\n", b"$-1\r\n", b":-5\r\n"]);
        assert_eq!(without_head(b"$9\r\nab\r\n"), None);
    }
}
