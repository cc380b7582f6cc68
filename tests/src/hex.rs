//! Annotated hex: `offset: bytes ; comment` a line, so that a golden file is read, reviewed and compared as text.
//! Guarantees: bytes read from a text stand where the text says; a run of zeros is written `00 * count`.
//! Must not know: what the bytes mean; tables of fields say that.
//! Next: golden.rs has the values; examples/golden_files.rs writes the texts.

use logd_engine::format::Field;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes on one line.
const LINE_BYTES: usize = 16;

/// The bytes of a text. Panics where it contradicts itself: the text is a fixture.
pub fn read(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let plain = line.split(';').next().expect("a split has a first part").trim();
        let Some((offset, what)) = plain.split_once(':') else {
            assert!(plain.is_empty(), "a line without an offset: {line}");
            continue;
        };
        assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()), "the offset of: {line}");
        match what.split_once('*') {
            Some((zeros, count)) => {
                assert_eq!(zeros.trim(), "00", "only zeros are repeated: {line}");
                bytes.resize(bytes.len() + count.trim().parse::<usize>().expect("a count"), 0);
            }
            None => bytes.extend(what.split_whitespace().map(|two| u8::from_str_radix(two, 16).expect("hex"))),
        }
    }
    bytes
}

/// Where the fields of a structure were found: place and width by name.
pub type Places = BTreeMap<&'static str, (usize, usize)>;

/// Bytes and what is known about them.
pub struct Annotated<'a> {
    bytes: &'a [u8],
    pieces: BTreeMap<usize, (usize, String)>,
}

impl<'a> Annotated<'a> {
    /// Nothing is known yet.
    pub fn new(bytes: &'a [u8]) -> Annotated<'a> {
        Annotated { bytes, pieces: BTreeMap::new() }
    }

    /// Names some bytes.
    pub fn name(&mut self, at: usize, count: usize, comment: impl Into<String>) {
        if count > 0 {
            let before = self.pieces.insert(at, (count, comment.into()));
            assert!(before.is_none(), "byte {at} has one meaning");
        }
    }

    /// A little-endian number.
    pub fn number(&self, (at, count): (usize, usize)) -> u64 {
        let mut wide = [0; 8];
        wide[..count].copy_from_slice(&self.bytes[at..at + count]);
        u64::from_le_bytes(wide)
    }

    /// Names the fields of a structure. A field without a width is as long as the one called `<its name>_bytes` says, or else
    /// goes on to `end`. Answers where the structure ends and where its fields are.
    pub fn table(&mut self, title: &str, start: usize, fields: &[Field], end: usize) -> (usize, Places) {
        let (mut places, mut extra, mut behind) = (Places::new(), 0, start);
        for field in fields {
            let at = start + field.offset + extra;
            let count = match (field.bytes, places.get(format!("{}_bytes", field.name).as_str())) {
                (0, Some(place)) => self.number(*place) as usize,
                (0, None) => end - at,
                (fixed, _) => fixed,
            };
            extra += if field.bytes == 0 { count } else { 0 };
            places.insert(field.name, (at, count));
            behind = at + count;
        }
        for (name, (at, count)) in &places {
            let is_inner = matches!(*name, "body" | "zeros");
            if !is_inner {
                let comment = format!("{title}{name}{}", self.words(name, *at, *count));
                self.name(*at, *count, comment);
            }
        }
        (behind, places)
    }

    fn words(&self, name: &str, at: usize, count: usize) -> String {
        let bytes = &self.bytes[at..at + count];
        match name {
            "keyspaces" | "procedures" | "snapshots" => {
                format!(": {} from byte {:+} on", self.number((at + 4, 4)), self.number((at, 4)) as u32 as i32)
            }
            "name" if bytes.first().is_some_and(|first| first & 0xc0 == 0x80) => {
                format!(": longer than 8 bytes, from byte {:+} on", self.number((at + 4, 4)) as u32 as i32)
            }
            "magic" | "key" | "value" | "name" | "arguments" => format!(" \"{}\"", bytes.escape_ascii()),
            _ if name.ends_with("crc") => format!(" {:08x}", self.number((at, count))),
            "seed" | "version" => format!(" {:#x}", self.number((at, count))),
            _ if count <= 8 => format!(" {}", self.number((at, count))),
            _ => String::new(),
        }
    }

    /// The text. Bytes that nobody has named must be zero.
    pub fn render(&self, title: &str) -> String {
        let mut text = format!("; {title}\n");
        let mut at = 0;
        for (place, (count, comment)) in &self.pieces {
            self.render_zeros(at, *place, &mut text);
            at = place + count;
            for (line, bytes) in self.bytes[*place..at].chunks(LINE_BYTES).enumerate() {
                let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let comment = if line == 0 { comment.as_str() } else { "…" };
                let written = writeln!(text, "{:08x}: {:<48}; {comment}", place + line * LINE_BYTES, hex.join(" "));
                written.expect("writing to memory does not fail");
            }
        }
        self.render_zeros(at, self.bytes.len(), &mut text);
        text
    }

    fn render_zeros(&self, from: usize, to: usize, text: &mut String) {
        assert!(from <= to, "no byte below {from} is named twice");
        assert!(self.bytes[from..to].iter().all(|byte| *byte == 0), "unnamed bytes from {from} to {to}");
        if from < to {
            let zeros = format!("00 * {}", to - from);
            writeln!(text, "{from:08x}: {zeros:<48}; zeros").expect("writing to memory does not fail");
        }
    }
}
