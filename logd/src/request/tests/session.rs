//! Runs the recorded sessions in fixtures/resp against the commands, or against a live server.
//! Goal: every reply and error text of the data commands, in files that any server of this protocol can be held against.
//! Method: each request is one transaction on an empty store; a request that is refused must not reach the log.
//! Next: fixtures/resp/README.md tells the form of the files.

use super::super::cursors::Cursors;
use super::super::table::key_words;
use super::super::{DATA_SPECS, Data, DataSpec, Failure};
use super::live::{Live, Server, read_reply};
use crate::resp::Out;
use crate::shared::Lookups;
use logd_engine::{Db, Keyspace, Options, Scope, Ticket};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DATABASES: usize = 16;

/// The commands on a store of their own.
struct Commands {
    db: Db,
    databases: Vec<Keyspace>,
    other: Keyspace,
    cursors: Cursors,
    lookups: Lookups,
    database: usize,
    random: u64,
    _directory: tempfile::TempDir,
}

impl Commands {
    fn new() -> Commands {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Options::default()).unwrap();
        let make = |name: &str| db.keyspace(name, Default::default()).unwrap();
        let databases: Vec<_> = (0..DATABASES).map(|number| make(&format!("db{number}"))).collect();
        let other = make("other");
        let (cursors, lookups) = (Cursors::new(), Lookups::default());
        Commands { db, databases, other, cursors, lookups, database: 0, random: 1, _directory: directory }
    }

    fn run(&mut self, spec: &DataSpec, words: &[&[u8]]) -> Vec<u8> {
        self.random += 1;
        let keys: Vec<_> = key_words(spec.keys, words).map(|key| (self.databases[self.database], key)).collect();
        let scope = if keys.is_empty() { Scope::All } else { Scope::Keys(&keys) };
        let all_keyspaces = [self.other];
        let (is_refused, ticket, out) = {
            let mut out = Out::new();
            let ran = self.db.transact(scope, None, |transaction| {
                let mut data = Data {
                    transaction,
                    databases: &self.databases,
                    all_keyspaces: &all_keyspaces,
                    database: self.database,
                    random: self.random,
                    time: self.db.time(),
                    cursors: &self.cursors,
                    lookups: &self.lookups,
                };
                match (spec.run)(&mut data, words, &mut out) {
                    Ok(()) => Ok(false),
                    Err(Failure::Engine(error)) => Err(error),
                    Err(Failure::Reply(text)) => {
                        assert!(out.is_empty(), "{} wrote a reply and then failed", spec.name);
                        out.error(&text);
                        Ok(true)
                    }
                }
            });
            let (is_refused, ticket) = ran.unwrap();
            (is_refused, ticket, out)
        };
        let is_reading = !spec.flags.contains(&"write");
        assert!(!(is_refused || is_reading) || ticket == Ticket::NOTHING, "{} logged something", spec.name);
        out.bytes().to_vec()
    }
}

impl Server for Commands {
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<String> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let name = String::from_utf8_lossy(words[0]).to_lowercase();
        if name == "select" {
            self.database = String::from_utf8_lossy(words[1]).parse().unwrap();
            return vec!["+OK".to_owned()];
        }
        let spec = DATA_SPECS.iter().copied().flatten().find(|spec| spec.name == name);
        let spec = spec.unwrap_or_else(|| panic!("no command {name}"));
        let count = words.len() as i32;
        let is_fitting = if spec.arity < 0 { count >= -spec.arity } else { count == spec.arity };
        if !is_fitting {
            return vec![format!("-ERR wrong number of arguments for '{name}' command")];
        }
        read_reply(&mut self.run(spec, &words).as_slice())
    }

    fn is_ours(&self) -> bool {
        true
    }
}

/// Splits a request as redis-cli does: blanks separate, quotes hold together, `\xHH` and the like are bytes.
fn split_words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = unescape(quoted, &mut word);
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            word.extend_from_slice(&rest.as_bytes()[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_start();
    }
    words
}

fn unescape<'l>(quoted: &'l str, word: &mut Vec<u8>) -> &'l str {
    let bytes = quoted.as_bytes();
    let mut at = 0;
    while bytes[at] != b'"' {
        match &bytes[at..] {
            [b'\\', b'x', high, low, ..] => {
                let digits = [*high, *low];
                word.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                at += 4;
            }
            [b'\\', escaped, ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                word.push(*byte);
                at += 1;
            }
            [] => unreachable!("the quote is closed"),
        }
    }
    &quoted[at + 1..]
}

/// Whether a line of a reply is as expected: `?` is anything, `:5..9` a number in a range.
fn fits(expected: &str, found: &str) -> bool {
    let range = expected.strip_prefix(':').and_then(|range| range.split_once(".."));
    match (expected, range) {
        ("?", _) => true,
        (_, Some((low, high))) => {
            let number: i64 = found[1..].parse().unwrap();
            found.starts_with(':') && (low.parse().unwrap()..=high.parse().unwrap()).contains(&number)
        }
        _ => expected == found,
    }
}

/// Runs a session; one line for each reply that is not as expected.
fn run_session(server: &mut dyn Server, path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut faults = Vec::new();
    let mut is_ours_only = false;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line == "!ours" {
            is_ours_only = true;
        } else if let Some(millis) = line.strip_prefix("~ ") {
            std::thread::sleep(Duration::from_millis(millis.parse().unwrap()));
        } else if let Some(request) = line.strip_prefix("> ") {
            let replies = std::iter::from_fn(|| lines.next_if(|(_, line)| line.starts_with('<')));
            let mut expected: Vec<&str> = replies.map(|(_, line)| line).collect();
            if !std::mem::take(&mut is_ours_only) || server.is_ours() {
                let mut found = server.ask(&split_words(request));
                if expected.first() == Some(&"<sorted") {
                    expected.remove(0);
                    found[1..].sort();
                }
                let is_fitting = expected.len() == found.len()
                    && expected.iter().zip(&found).all(|(expected, found)| fits(&expected[2..], found));
                if !is_fitting {
                    let name = path.file_name().unwrap().to_string_lossy();
                    faults
                        .push(format!("{name}:{}: {request}\n  expected {expected:?}\n  found {found:?}", number + 1));
                }
            }
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{}:{}: {line}", path.display(), number + 1);
        }
    }
    faults
}

fn sessions() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/resp");
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt")).collect();
    files.sort();
    files
}

#[test]
fn the_commands_answer_the_recorded_sessions() {
    let faults: Vec<_> = sessions().iter().flat_map(|path| run_session(&mut Commands::new(), path)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `RESP_ADDRESS=127.0.0.1:6379 cargo test -p logd a_live_server -- --ignored`. Removes all data of that server.
#[test]
#[ignore = "needs a server that may be emptied, named by RESP_ADDRESS"]
fn a_live_server_answers_the_recorded_sessions() {
    let faults: Vec<_> = sessions()
        .iter()
        .flat_map(|path| run_session(&mut Live::named().expect("RESP_ADDRESS names the server"), path))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Puts a record that no command here makes.
fn put_raw(server: &Commands, key: &[u8], value: &[u8]) {
    server.db.put(server.databases[0], key, value, None, None).unwrap();
}

fn ask(server: &mut Commands, request: &str) -> String {
    server.ask(&split_words(request)).join(" ")
}

#[test]
fn a_value_of_another_type_is_refused_by_string_commands_and_left_as_it_is() {
    let requests = [
        "GET k",
        "GETSET k v",
        "SET k v GET",
        "GETDEL k",
        "GETEX k PERSIST",
        "APPEND k v",
        "STRLEN k",
        "GETRANGE k 0 1",
        "SETRANGE k 0 v",
        "INCR k",
        "INCRBYFLOAT k 1",
        "SETBIT k 0 1",
        "GETBIT k 0",
        "BITCOUNT k",
        "BITPOS k 1",
        "BITOP AND j k",
        "BITFIELD k GET u8 0",
        "BITFIELD k SET u8 0 1",
        "BITFIELD_RO k GET u8 0",
        "DUMP k",
    ];
    let mut server = Commands::new();
    put_raw(&server, b"k", b"\x07abc");
    for request in requests {
        let reply = ask(&mut server, request);
        assert_eq!(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value", "{request}");
    }
    assert_eq!(ask(&mut server, "MGET k"), "*1 _");
    assert_eq!(ask(&mut server, "LCS k j"), "-ERR The specified keys must contain string values");
    assert_eq!(ask(&mut server, "SCAN 0 TYPE string"), "*2 \"0\" *0");
    assert_eq!(server.db.get(server.databases[0], b"k").as_deref(), Some(&b"\x07abc"[..]));
    assert_eq!(ask(&mut server, "SET k v"), "+OK");
}

#[test]
fn flushall_clears_keyspaces_that_are_no_database_and_flushdb_does_not() {
    let mut server = Commands::new();
    server.db.put(server.other, b"k", b"v", None, None).unwrap();
    assert_eq!(ask(&mut server, "FLUSHDB"), "+OK");
    assert_eq!(server.db.len(server.other), 1);
    assert_eq!(ask(&mut server, "FLUSHALL"), "+OK");
    assert_eq!(server.db.len(server.other), 0);
}

#[test]
fn a_whole_scan_tells_every_key_once_though_others_come_and_go() {
    let mut server = Commands::new();
    (0..500).for_each(|number| put_raw(&server, format!("stay{number}").as_bytes(), b"\0v"));
    let mut cursor = b"0".to_vec();
    let mut told = Vec::new();
    for round in 0.. {
        let reply = server.ask(&[b"SCAN".to_vec(), cursor, b"COUNT".to_vec(), b"7".to_vec()]);
        told.extend(reply[3..].iter().filter(|key| key.starts_with("\"stay")).cloned());
        cursor = reply[1].trim_matches('"').as_bytes().to_vec();
        if cursor == b"0" {
            break;
        }
        put_raw(&server, format!("pass{round}").as_bytes(), b"\0v");
        server.ask(&[b"DEL".to_vec(), format!("pass{}", round - 3).into_bytes()]);
    }
    assert_eq!(told.len(), 500);
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 500);
}

#[test]
fn keys_that_ended_but_were_not_removed_yet_are_never_told() {
    let mut server = Commands::new();
    let due = Some(logd_engine::units::Millis(1));
    (0..300).for_each(|number: i32| {
        server.db.put(server.databases[0], &number.to_le_bytes(), b"\0v", due, None).unwrap();
    });
    assert_eq!(ask(&mut server, "RANDOMKEY"), "_");
    assert_eq!(ask(&mut server, "KEYS *"), "*0");
    put_raw(&server, b"live", b"\0v");
    assert_eq!(ask(&mut server, "RANDOMKEY"), "\"live\"");
    assert_eq!(ask(&mut server, "KEYS *"), "*1 \"live\"");
}

#[test]
fn a_key_longer_than_the_limit_is_refused_before_anything_is_set() {
    let mut server = Commands::new();
    let words: Vec<Vec<u8>> = vec![b"MSET".to_vec(), b"a".to_vec(), b"1".to_vec(), vec![b'k'; 65_536], b"2".to_vec()];
    assert_eq!(server.ask(&words), ["-ERR key of 65536 bytes is longer than 65535"]);
    assert_eq!(ask(&mut server, "DBSIZE"), ":0");
    assert_eq!(ask(&mut server, "SET a 1"), "+OK");
    let rename = [b"RENAME".to_vec(), b"a".to_vec(), vec![b'k'; 65_536]];
    assert_eq!(server.ask(&rename), ["-ERR key of 65536 bytes is longer than 65535"]);
}

#[test]
fn names_are_unique_and_every_row_is_whole() {
    let mut names: Vec<_> = DATA_SPECS.iter().copied().flatten().map(|spec| spec.name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    for spec in DATA_SPECS.iter().copied().flatten() {
        assert!(spec.summary.ends_with('.'), "{}", spec.name);
        assert!(spec.arity != 0, "{}", spec.name);
    }
}
