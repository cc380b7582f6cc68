//! What a run did, line by line: printed on demand, and always summed up to one number that a repeated run must reach again.
//! Guarantees: same lines, same number.
//! Must not know: what the lines mean.
//! Next: run.rs writes most of them.

use std::fmt::{Arguments, Write};
use xxhash_rust::xxh3::Xxh3;

/// The lines of one run.
pub struct Trace {
    printed: bool,
    line: String,
    sum: Xxh3,
}

impl Trace {
    /// An empty trace.
    pub fn new(printed: bool) -> Trace {
        Trace { printed, line: String::new(), sum: Xxh3::new() }
    }

    /// Adds a line.
    pub fn note(&mut self, words: Arguments<'_>) {
        self.line.clear();
        let _ = self.line.write_fmt(words);
        self.line.push('\n');
        self.sum.update(self.line.as_bytes());
        if self.printed {
            eprint!("{}", self.line);
        }
    }

    /// Adds bytes to the sum only.
    pub fn sum_bytes(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
    }

    /// The number.
    pub fn digest(&self) -> u64 {
        self.sum.digest()
    }
}
