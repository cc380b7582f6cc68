//! Writes replies in the protocol version of the client, straight into its output buffer.
//! Guarantees: never fails, never copies a reply twice.
//! Must not know: what is replied to.
//! Next: request/mod.rs hands it to the commands.

use std::io::Write;

/// A reply buffer that knows its client's protocol version.
#[derive(Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
    is_resp3: bool,
}

impl Out {
    /// An empty buffer for RESP2.
    pub fn new() -> Out {
        Out::default()
    }

    /// Switches the protocol: true for RESP3.
    pub fn set_resp3(&mut self, is_resp3: bool) {
        self.is_resp3 = is_resp3;
    }

    /// Whether replies are RESP3.
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was replied.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes back everything after a place: the request will be run again.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer itself, for the connection to drain.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Already encoded replies.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `+text`
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `+OK`
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`, where text begins with its class (`ERR …`). Line ends in it become blanks.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `:number`
    pub fn integer(&mut self, number: i64) {
        self.number_line(b':', number);
    }

    /// A length-prefixed string.
    pub fn bulk(&mut self, value: &[u8]) {
        self.number_line(b'$', value.len() as i64);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A text with a format; a bulk string in RESP2. Used by INFO and the like.
    pub fn verbatim(&mut self, text: &str) {
        if self.is_resp3 {
            self.number_line(b'=', text.len() as i64 + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array, as a failed EXEC answers.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array of `count` replies, which follow.
    pub fn array(&mut self, count: usize) {
        self.number_line(b'*', count as i64);
    }

    /// The head of a map of `count` pairs; a flat array in RESP2.
    pub fn map(&mut self, count: usize) {
        if self.is_resp3 { self.number_line(b'%', count as i64) } else { self.array(count * 2) }
    }

    /// The head of a set; an array in RESP2.
    pub fn set(&mut self, count: usize) {
        self.number_line(if self.is_resp3 { b'~' } else { b'*' }, count as i64);
    }

    /// A truth value; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        if self.is_resp3 {
            self.simple_raw(if value { b"#t\r\n" } else { b"#f\r\n" })
        } else {
            self.integer(value.into())
        }
    }

    /// A floating point number, already in decimal; a bulk string in RESP2.
    pub fn double(&mut self, text: &str) {
        if self.is_resp3 { self.line(b',', text.as_bytes()) } else { self.bulk(text.as_bytes()) }
    }

    fn simple_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number_line(&mut self, kind: u8, number: i64) {
        self.bytes.push(kind);
        write!(self.bytes, "{number}").expect("writing to memory does not fail");
        self.bytes.extend_from_slice(b"\r\n");
    }
}
