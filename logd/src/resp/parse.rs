//! Finds requests in a stream of bytes: arrays of bulk strings and inline commands, mixed.
//! Guarantees: looks at each byte once however the stream is split; allocates by what has arrived, never by what a header
//! announces; no recursion. Words are ranges of the caller's buffer; quoting is undone in place.
//! Must not know: sockets, commands.
//! Next: inline.rs splits inline commands; net/connection.rs feeds it.

use super::inline;
use std::ops::Range;

/// Most words of a request.
pub const WORDS_MAX: i64 = 1_048_576;
/// Longest word.
pub const BULK_BYTES_MAX: i64 = 512 << 20;
/// Longest request, headers included.
pub const REQUEST_BYTES_MAX: usize = 1 << 30;
/// Longest inline command or header line.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Words kept allocated between requests.
const WORDS_KEPT: usize = 1024;

/// What the stream holds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole request of so many bytes; `words` has it until `finish`.
    Request(usize),
    /// So many bytes that ask for nothing: an empty line or array.
    Nothing(usize),
    /// More bytes are needed.
    More,
    /// The stream makes no sense from here on: answer once and close. Completes "Protocol error: ".
    Error(String),
}

/// A place in a request; requests are shorter than 4 GiB.
#[derive(Clone, Copy, Debug)]
struct Word {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// At the first byte of a request.
    #[default]
    Start,
    /// At the header of a word.
    Header,
    /// At the bytes of a word of this length.
    Body(usize),
    /// The request is whole.
    Whole,
}

/// Parses one stream. All places count from the first byte of the request at hand.
#[derive(Debug, Default)]
pub struct Parser {
    words: Vec<Word>,
    stage: Stage,
    /// Begin of what is not understood yet.
    place: usize,
    /// Up to here no line end was found.
    searched: usize,
    words_left: usize,
}

impl Parser {
    /// Reads on. `input` begins with the first byte of the request at hand: what came before has been taken out. Asked again
    /// after `Request`, it gives the same one until `finish`.
    pub fn next(&mut self, input: &mut [u8]) -> Step {
        loop {
            let step = match self.stage {
                Stage::Start => match input.first() {
                    None => Some(Step::More),
                    Some(b'*') => self.array_header(input),
                    Some(_) => Some(self.inline(input)),
                },
                Stage::Header => self.word_header(input),
                Stage::Body(bytes) => self.word_body(input, bytes),
                Stage::Whole => Some(Step::Request(self.place)),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Number of words of the request at hand.
    pub fn words_len(&self) -> usize {
        self.words.len()
    }

    /// The words of the request at hand, as ranges of the input.
    pub fn words(&self) -> impl Iterator<Item = Range<usize>> {
        self.words.iter().map(|word| word.start as usize..word.end as usize)
    }

    /// Forgets the request at hand; the next byte seen is the first of another.
    pub fn finish(&mut self) {
        self.words.clear();
        self.words.shrink_to(WORDS_KEPT);
        (self.stage, self.place, self.searched, self.words_left) = (Stage::Start, 0, 0, 0);
    }

    /// Ends a piece of the stream that asks for nothing.
    fn nothing(&mut self, bytes: usize) -> Step {
        self.finish();
        Step::Nothing(bytes)
    }

    fn array_header(&mut self, input: &[u8]) -> Option<Step> {
        let line = match self.header_line(input, "too big mbulk count string") {
            Ok(line) => line,
            Err(step) => return Some(step),
        };
        let after = line.end + 2;
        match number(&input[line.start + 1..line.end]) {
            Some(count) if count > WORDS_MAX => Some(Step::Error("invalid multibulk length".into())),
            None => Some(Step::Error("invalid multibulk length".into())),
            Some(count) if count <= 0 => Some(self.nothing(after)),
            Some(count) => {
                self.words_left = usize::try_from(count).expect("a count in bounds fits");
                self.proceed(Stage::Header, after);
                None
            }
        }
    }

    fn word_header(&mut self, input: &[u8]) -> Option<Step> {
        let line = match self.header_line(input, "too big bulk count string") {
            Ok(line) => line,
            Err(step) => return Some(step),
        };
        if input[line.start] != b'$' {
            return Some(Step::Error(format!("expected '$', got '{}'", char::from(input[line.start]))));
        }
        let after = line.end + 2;
        let Some(bytes) = number(&input[line.start + 1..line.end]).filter(|bytes| (0..=BULK_BYTES_MAX).contains(bytes))
        else {
            return Some(Step::Error("invalid bulk length".into()));
        };
        let bytes = usize::try_from(bytes).expect("a length in bounds fits");
        if !fits(after, bytes) {
            return Some(Step::Error("too big request".into()));
        }
        self.proceed(Stage::Body(bytes), after);
        None
    }

    fn word_body(&mut self, input: &[u8], bytes: usize) -> Option<Step> {
        let after = self.place + bytes + 2;
        if input.len() < after {
            return Some(Step::More);
        }
        self.push(self.place..self.place + bytes);
        self.words_left -= 1;
        self.proceed(if self.words_left == 0 { Stage::Whole } else { Stage::Header }, after);
        None
    }

    fn inline(&mut self, input: &mut [u8]) -> Step {
        let Some(end) = self.find(input, b'\n') else {
            let is_too_long = input.len() > LINE_BYTES_MAX;
            return if is_too_long { Step::Error("too big inline request".into()) } else { Step::More };
        };
        if end > LINE_BYTES_MAX {
            return Step::Error("too big inline request".into());
        }
        let Ok(()) = inline::split(&mut input[..end], |word| self.push(word)) else {
            self.words.clear();
            return Step::Error("unbalanced quotes in request".into());
        };
        if self.words.is_empty() {
            return self.nothing(end + 1);
        }
        self.proceed(Stage::Whole, end + 1);
        Step::Request(self.place)
    }

    /// The line at `place` without its end, once all of it including both bytes of its end is here.
    fn header_line(&mut self, input: &[u8], too_long: &str) -> Result<Range<usize>, Step> {
        let found = self.find(input, b'\r');
        let line_bytes = found.unwrap_or(input.len()) - self.place;
        if line_bytes > LINE_BYTES_MAX {
            return Err(Step::Error(too_long.into()));
        }
        match found {
            // As in Redis the byte after '\r' is not looked at.
            Some(end) if end + 2 <= input.len() => Ok(self.place..end),
            _ => Err(Step::More),
        }
    }

    fn find(&mut self, input: &[u8], end: u8) -> Option<usize> {
        let from = self.searched.max(self.place).min(input.len());
        let found = input[from..].iter().position(|byte| *byte == end).map(|place| from + place);
        self.searched = found.unwrap_or(input.len());
        found
    }

    fn proceed(&mut self, stage: Stage, place: usize) {
        (self.stage, self.place, self.searched) = (stage, place, place);
    }

    fn push(&mut self, word: Range<usize>) {
        let narrow = |place: usize| u32::try_from(place).expect("requests are bounded far below 4 GiB");
        self.words.push(Word { start: narrow(word.start), end: narrow(word.end) });
    }
}

/// Whether a request may have a word of so many bytes at this place.
fn fits(place: usize, bytes: usize) -> bool {
    place + bytes + 2 <= REQUEST_BYTES_MAX
}

/// A decimal number as Redis reads it: no sign but '-', no leading zeros, no blanks.
fn number(digits: &[u8]) -> Option<i64> {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    let is_plain = match unsigned {
        [b'0'] => unsigned.len() == digits.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_plain { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
