//! Reads an append-only file: the directory of Redis 7 (manifest, base, increments) or the single file before it.
//! Guarantees: files come in the manifest's order; a command is told whole or not at all.
//! Must not know: what the commands do.
//! Next: command/import.rs runs them.

use super::input::{Input, InputError};
use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};

const WORD_BYTES_MAX: u64 = 512 << 20;
const WORDS_MAX: u64 = 1 << 20;
const LINE_BYTES_MAX: u64 = 4096;
/// Name of the directory that Redis 7 makes by itself.
const DIRECTORY: &str = "appendonlydir";

/// The files to read, in order: the path itself if it is a file.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let inner = path.join(DIRECTORY);
    let directory = if inner.is_dir() { inner } else { path.to_owned() };
    let listed = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let names = listed.filter_map(|file| file.ok().map(|file| file.path()));
    let manifests: Vec<PathBuf> = names.filter(|name| name.extension().is_some_and(|end| end == "manifest")).collect();
    let [manifest] = manifests.as_slice() else {
        return Err(format!("{}: one *.manifest was expected, found {}", directory.display(), manifests.len()));
    };
    let text = fs::read_to_string(manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    parse_manifest(&text)
        .map(|names| names.iter().map(|name| directory.join(name)).collect())
        .map_err(|reason| format!("{}: {reason}", manifest.display()))
}

/// Lines are `file NAME seq N type b`; b is the base, i an increment, h history.
fn parse_manifest(text: &str) -> Result<Vec<String>, String> {
    let (mut base, mut increments) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words = split_words(line);
        let field = |name: &str| words.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1)).cloned();
        let (Some(file), Some(kind)) = (field("file"), field("type")) else {
            return Err(format!("the line {line:?} names no file and type"));
        };
        if file.contains('/') {
            return Err(format!("{file:?} is not a name in the same directory"));
        }
        match kind.as_str() {
            "b" => base.push(file),
            "i" => increments.push(file),
            "h" => {}
            _ => return Err(format!("type {kind:?} is not known")),
        }
    }
    if base.len() > 1 {
        return Err("it names more than one base".to_owned());
    }
    base.extend(increments);
    if base.is_empty() { Err("it names no file".to_owned()) } else { Ok(base) }
}

/// Words between blanks; one with blanks in it stands in quotes.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|inner| inner.split_once('"'));
        let (word, after) = quoted.unwrap_or_else(|| rest.split_once(' ').unwrap_or((rest, "")));
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// The next command; `None` at the end of the file. Annotations (`#TS:…`) are passed over.
pub fn next_command<R: BufRead>(input: &mut Input<R>) -> Result<Option<Vec<Vec<u8>>>, InputError> {
    loop {
        match input.peek()?.first().copied() {
            None => return Ok(None),
            Some(b'#') => drop(input.line(LINE_BYTES_MAX)?),
            Some(b'*') => return command(input).map(Some),
            Some(byte) => return Err(input.wrong(format!("a command was expected, found byte {byte:#04x}"))),
        }
    }
}

fn command<R: BufRead>(input: &mut Input<R>) -> Result<Vec<Vec<u8>>, InputError> {
    let count = number(input, b'*', WORDS_MAX)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let bytes = number(input, b'$', WORD_BYTES_MAX)?;
        words.push(input.bytes(bytes)?);
        if input.array()? != *b"\r\n" {
            return Err(input.wrong("a word without an end"));
        }
    }
    if words.is_empty() { Err(input.wrong("a command without words")) } else { Ok(words) }
}

fn number<R: BufRead>(input: &mut Input<R>, sign: u8, max: u64) -> Result<u64, InputError> {
    let line = input.line(LINE_BYTES_MAX)?;
    let digits = line.strip_prefix(&[sign]).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number) if number <= max => Ok(number),
        _ => Err(input.wrong(format!("{}<number> was expected", char::from(sign)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_gives_base_and_increments_in_order() {
        let text = "file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type h\nfile \"a b.2.incr.aof\" seq 2 type i\nfile a.3.incr.aof seq 3 type i\n";
        assert_eq!(parse_manifest(text).unwrap(), ["a.1.base.rdb", "a b.2.incr.aof", "a.3.incr.aof"]);
        assert!(parse_manifest("").is_err());
        assert!(parse_manifest("file ../x seq 1 type b").is_err());
        assert!(parse_manifest("file x seq 1 type z").is_err());
    }

    #[test]
    fn commands_come_whole_and_annotations_are_passed_over() {
        let bytes = b"#TS:1700000000\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$4\r\nPI\r\n\r\n";
        let mut input = Input::new(&bytes[..], "test.aof");
        assert_eq!(next_command(&mut input).unwrap().unwrap(), [b"SELECT".to_vec(), b"0".to_vec()]);
        assert_eq!(next_command(&mut input).unwrap().unwrap(), [b"PI\r\n".to_vec()]);
        assert_eq!(next_command(&mut input).unwrap(), None);
    }

    #[test]
    fn a_command_cut_short_is_told_from_a_damaged_one() {
        let whole = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";
        for bytes in 1..whole.len() {
            let error = next_command(&mut Input::new(&whole[..bytes], "test.aof")).unwrap_err();
            assert!(error.is_short, "{bytes}: {error}");
        }
        for damaged in [&b"+OK\r\n"[..], b"*x\r\n", b"*1\r\n$1\r\nabc", b"*0\r\n", b"*1\r\n$99999999999\r\n"] {
            assert!(!next_command(&mut Input::new(damaged, "test.aof")).unwrap_err().is_short);
        }
    }
}
