//! Splits an inline command into words by the quoting rules of Redis, undoing the quoting in place.
//! Guarantees: one pass; what is written lies before what is still to be read, so nothing is copied aside.
//! Must not know: where the line ends or came from.
//! Next: parse.rs finds the line.

use std::ops::Range;

/// Quotes that do not close, or close in the middle of a word.
#[derive(Debug, PartialEq, Eq)]
pub struct Unbalanced;

/// Gives the words of a line as ranges of it. A zero byte ends the line, as in Redis.
pub fn split(line: &mut [u8], mut word: impl FnMut(Range<usize>)) -> Result<(), Unbalanced> {
    let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
    let mut splitter = Splitter { line: &mut line[..end], read: 0, written: 0 };
    while splitter.skip_blanks() {
        word(splitter.word()?);
    }
    Ok(())
}

struct Splitter<'a> {
    line: &'a mut [u8],
    read: usize,
    /// End of the word so far; never after `read`.
    written: usize,
}

impl Splitter<'_> {
    fn skip_blanks(&mut self) -> bool {
        while self.peek(0).is_some_and(is_blank) {
            self.read += 1;
        }
        self.read < self.line.len()
    }

    fn word(&mut self) -> Result<Range<usize>, Unbalanced> {
        self.written = self.read;
        let start = self.read;
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => break,
                b'"' | b'\'' => {
                    self.quoted(byte)?;
                    break;
                }
                _ => self.take(byte, 1),
            }
        }
        Ok(start..self.written)
    }

    /// Reads from an opening quote to after its closing one, which must end the word.
    fn quoted(&mut self, quote: u8) -> Result<(), Unbalanced> {
        self.read += 1;
        loop {
            match (self.peek(0).ok_or(Unbalanced)?, self.peek(1)) {
                (byte, next) if byte == quote => {
                    self.read += 1;
                    return if next.is_none_or(is_blank) { Ok(()) } else { Err(Unbalanced) };
                }
                (b'\\', Some(b'\'')) if quote == b'\'' => self.take(b'\'', 2),
                (b'\\', Some(next)) if quote == b'"' => self.escaped(next),
                (byte, _) => self.take(byte, 1),
            }
        }
    }

    fn escaped(&mut self, next: u8) {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        if let (b'x', Some(high), Some(low)) = (next, hex(self.peek(2)), hex(self.peek(3))) {
            let byte = u8::try_from(high * 16 + low).expect("two hexadecimal digits make a byte");
            return self.take(byte, 4);
        }
        let byte = match next {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            other => other,
        };
        self.take(byte, 2);
    }

    fn take(&mut self, byte: u8, read: usize) {
        self.line[self.written] = byte;
        self.written += 1;
        self.read += read;
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.line.get(self.read + ahead).copied()
    }
}

/// What C calls a space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}
