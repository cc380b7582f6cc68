//! Text and JSON on standard output.
//! Guarantees: columns line up; bytes that are no text are escaped, so that no key can steer a terminal; a closed pipe ends
//! the program in silence.
//! Must not know: stores.
//! Next: json.rs.

use crate::json::Document;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Bytes of a key or value shown at most.
const SHOWN_BYTES_MAX: usize = 64;

/// Where output goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Output as JSON or as text.
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether JSON was asked for.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One result: as a document, or as text.
    pub fn result<T: Serialize>(&self, body: &T, text: impl FnOnce(&T) -> String) {
        if self.json {
            print(&(Document::new(body).pretty() + "\n"));
        } else {
            print(&text(body));
        }
    }

    /// One of many: a JSON line, or a line of text.
    pub fn item<T: Serialize>(&self, body: &T, text: impl FnOnce(&T) -> String) {
        if self.json {
            print(&(Document::new(body).line() + "\n"));
        } else {
            print(&(text(body) + "\n"));
        }
    }

    /// A remark beside the result: on standard error, so that it never gets into JSON.
    pub fn note(&self, text: &str) {
        eprintln!("note: {text}");
    }
}

fn print(text: &str) {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        let silent = error.kind() == ErrorKind::BrokenPipe;
        if !silent {
            eprintln!("logctl: failed to write the output: {error}");
        }
        std::process::exit(if silent { 0 } else { 4 });
    }
}

/// A table with a line of headings. Columns whose heading begins with `>` are set to the right.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(headings: &[&'static str]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each heading.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "a row has a cell for each heading");
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line with its end.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.headings.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        let right: Vec<bool> = self.headings.iter().map(|name| name.starts_with('>')).collect();
        let lines = || std::iter::once(&names).chain(&self.rows);
        let widths: Vec<usize> = (0..names.len())
            .map(|column| lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let cells = line.iter().zip(&widths).zip(&right).map(|((cell, &width), &right)| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// Bytes as text between quotes: printable ASCII as it is, the rest as `\xNN`, long ones cut with their length.
pub fn bytes_text(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let escaped: String = shown
        .iter()
        .map(|&byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect();
    if shown.len() < bytes.len() {
        format!("\"{escaped}\"... ({} bytes)", bytes.len())
    } else {
        format!("\"{escaped}\"")
    }
}

/// A number of bytes for people: `64.0 MiB`.
pub fn size_text(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = "bytes";
    for larger in units {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{scaled:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", ">bytes"]);
        table.row(vec!["a".to_owned(), "10".to_owned()]);
        table.row(vec!["long name".to_owned(), "1234567".to_owned()]);
        assert_eq!(table.text(), "name         bytes\na               10\nlong name  1234567\n");
    }

    #[test]
    fn no_key_can_steer_a_terminal() {
        assert_eq!(bytes_text(b"a\x1b[2J\"\n"), r#""a\x1b[2J\"\x0a""#);
        assert!(bytes_text(&[b'x'; 100]).ends_with("... (100 bytes)"));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size_text(512), "512 bytes");
        assert_eq!(size_text(64 << 20), "64.0 MiB");
    }
}
