//! `logctl export`: gives all strings as RESP commands, JSON lines or an RDB file.
//! Guarantees: what is read is not changed; from files it is the state at one LSN, from a running server what SCAN tells.
//! Must not know: the bytes of RDB.
//! Next: exchange/rdb_write.rs.

use super::{EXIT_DIFFERENT, EXIT_OK, ToolError, open};
use crate::daemon::{Daemon, Reply, encode};
use crate::directory::procedures;
use crate::exchange::Record;
use crate::exchange::rdb_write::RdbWriter;
use crate::fresh::failed;
use crate::load::set_words;
use crate::place::Place;
use crate::progress::Progress;
use crate::render::Output;
use crate::state::{Limit, rebuild};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::ValueEnum;
use logd_engine::core::StateView;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const EXAMPLES: &str = "Examples:
  logctl export /var/lib/logd --format rdb --output dump.rdb
  logctl export redis://127.0.0.1:6379 --format jsonl | jq -r .key
  logctl export /backup --format resp | redis-cli --pipe
  logctl export unix:/run/logd.sock --output data.resp --json

From a directory or a backup: the state at the end of its log. From a running server: what SCAN tells, which is not of one
moment. JSON lines: {\"db\":0,\"key\":\"a\",\"value\":\"b\",\"expires_at_ms\":1}; where key or value is no UTF-8, key_base64 and
value_base64 stand instead. Only the databases 0 to 15 of the daemon are exported; records of other keyspaces are counted.

Exit codes: 0 all was exported, 1 some records have no place in the format or are no strings (their number is told).";

const SCAN_COUNT: &str = "1000";
/// The daemon's databases are keyspaces of these names.
const DATABASE_PREFIX: &str = "db";
/// First byte of a record that is a string of the daemon.
const TAG_STRING: u8 = logd::request::value::TAG_STRING;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Commands in the Redis protocol: SELECT, SET with PXAT
    Resp,
    /// One JSON object a line
    Jsonl,
    /// An RDB file that Redis 7.0 and later load
    Rdb,
}

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of a store or backup, redis://HOST:PORT or unix:PATH.
    #[arg(value_name = "PLACE")]
    place: Place,
    /// What to write.
    #[arg(long, value_enum, default_value = "resp")]
    format: Format,
    /// File to write, which must not be there; without it, standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    command: &'static str,
    records: u64,
    /// Records of other types or keyspaces.
    left_out: u64,
    bytes: u64,
    seconds: f64,
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let sink: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(File::create_new(path).map_err(|error| failed("make", path, &error))?),
        None => Box::new(io::stdout()),
    };
    let result = export(arguments, output, sink);
    if let (Err(_), Some(path)) = (&result, &arguments.output) {
        // Half an export must not be taken for one.
        let _ = std::fs::remove_file(path);
    }
    let report = result?;
    if arguments.output.is_some() {
        output.result(&report, text);
    } else {
        output.note(text(&report).trim_end());
    }
    Ok(if report.left_out == 0 { EXIT_OK } else { EXIT_DIFFERENT })
}

fn text(report: &Report) -> String {
    let left_out = match report.left_out {
        0 => String::new(),
        count => format!("; left out {count} that are no strings of the databases 0 to 15"),
    };
    format!("exported {} records in {:.2} s{left_out}\n", report.records, report.seconds)
}

fn export(arguments: &Arguments, output: &Output, sink: Box<dyn Write>) -> Result<Report, ToolError> {
    let path = arguments.output.as_deref().unwrap_or(Path::new("standard output"));
    let wrong = |error: io::Error| failed("write", path, &error);
    let mut writer = Writer::new(arguments.format, BufWriter::with_capacity(256 << 10, sink)).map_err(wrong)?;
    let mut progress = Progress::of("export", "records", 0);
    let mut put = |record: &Record| {
        progress.add(1, (record.key.len() + record.value.len()) as u64);
        writer.put(record)
    };
    let left_out = match &arguments.place {
        Place::Directory(path) => {
            let mut store = open(path, output)?;
            let view = rebuild(store.as_mut(), Limit::End, procedures())?.rebuild.view();
            let mut result = Ok(());
            let left_out = visit_records(&view, &mut |record| {
                if result.is_ok() {
                    result = put(record);
                }
            });
            result.map_err(wrong)?;
            left_out
        }
        place => from_server(place, arguments.format == Format::Rdb, &mut |record| put(record).map_err(wrong))?,
    };
    writer.finish().map_err(wrong)?;
    let work = progress.finish();
    let (records, bytes, seconds) = (work.commands, work.bytes, work.seconds);
    Ok(Report { command: "export", records, left_out, bytes, seconds })
}

/// Visits the strings of the daemon's databases, database by database. Gives the number of all other records.
pub fn visit_records(view: &StateView, visit: &mut dyn FnMut(&Record)) -> u64 {
    let (mut left_out, mut record) = (0, Record::default());
    for (number, keyspace) in view.catalog.keyspaces.iter().enumerate().filter(|(at, _)| view.catalog.is_logged(*at)) {
        let database = database_of(&keyspace.name);
        for records in view.shards.iter().filter_map(|trees| trees.get(number)) {
            for (key, entry) in records.range(Bound::Unbounded, Bound::Unbounded) {
                let (Some(database), [TAG_STRING, value @ ..]) = (database, entry.value) else {
                    left_out += 1;
                    continue;
                };
                record.database = database;
                record.key.clear();
                record.key.extend_from_slice(key);
                record.value.clear();
                record.value.extend_from_slice(value);
                record.expiry_millis = entry.expiry_millis;
                visit(&record);
            }
        }
    }
    left_out
}

/// The number of a database by the name of its keyspace.
pub fn database_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(DATABASE_PREFIX)?.parse::<u64>().ok()?;
    (format!("{DATABASE_PREFIX}{number}") == name).then_some(number)
}

/// Asks a server for everything. Gives the number of values that are no strings.
pub fn from_server(
    place: &Place,
    once_only: bool,
    put: &mut dyn FnMut(&Record) -> Result<(), ToolError>,
) -> Result<u64, ToolError> {
    let mut daemon = Daemon::connect(place)?;
    let mut left_out = 0;
    for database in 0.. {
        if database > 0 && daemon.ask(&["SELECT", &database.to_string()]).is_err() {
            break;
        }
        let mut seen = HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let (next, mut keys) = scan(&mut daemon, &cursor)?;
            // A server that moves its keys about tells some twice, and an RDB file may have each key once.
            keys.retain(|key| !once_only || seen.insert(xxh3_128(key)));
            left_out += fetch(&mut daemon, database, keys, put)?;
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(left_out)
}

fn scan(daemon: &mut Daemon, cursor: &str) -> Result<(String, Vec<Vec<u8>>), ToolError> {
    let reply = daemon.ask(&["SCAN", cursor, "COUNT", SCAN_COUNT])?;
    if let Reply::Array(mut items) = reply
        && let (Some(Reply::Array(keys)), Some(Reply::Text(cursor))) = (items.pop(), items.pop())
    {
        return Ok((cursor, keys.into_iter().filter_map(Reply::into_bytes).collect()));
    }
    Err(ToolError::Io("the server answered SCAN with something else than a cursor and keys".to_owned()))
}

fn fetch(
    daemon: &mut Daemon,
    database: u64,
    keys: Vec<Vec<u8>>,
    put: &mut dyn FnMut(&Record) -> Result<(), ToolError>,
) -> Result<u64, ToolError> {
    let mut left_out = 0;
    // Values may be large, so that few are under way at a time.
    for keys in keys.chunks(16) {
        let mut requests = Vec::new();
        for key in keys {
            encode(&[b"GET", &key[..]], &mut requests);
            encode(&[b"PEXPIRETIME", &key[..]], &mut requests);
        }
        daemon.send(&requests)?;
        for key in keys {
            let (value, expiry) = (daemon.receive()?, daemon.receive()?);
            let expiry = expiry.ok().and_then(|expiry| expiry.integer()).unwrap_or(-1);
            match (value, expiry) {
                (Err(words), _) if words.starts_with("WRONGTYPE") => left_out += 1,
                (Err(words), _) => return Err(ToolError::Io(format!("the server refused GET: {words}"))),
                // Gone meanwhile.
                (Ok(Reply::Null), _) | (Ok(_), -2) => {}
                (Ok(value), expiry) => {
                    let value = value.into_bytes().unwrap_or_default();
                    let expiry_millis = u64::try_from(expiry).unwrap_or(0);
                    put(&Record { database, key: key.clone(), value, expiry_millis })?;
                }
            }
        }
    }
    Ok(left_out)
}

enum Writer<W: Write> {
    Resp { write: W, database: Option<u64>, buffer: Vec<u8> },
    Jsonl(W),
    Rdb(Box<RdbWriter<W>>),
}

impl<W: Write> Writer<W> {
    fn new(format: Format, write: W) -> io::Result<Writer<W>> {
        Ok(match format {
            Format::Resp => Writer::Resp { write, database: None, buffer: Vec::new() },
            Format::Jsonl => Writer::Jsonl(write),
            Format::Rdb => Writer::Rdb(Box::new(RdbWriter::new(write)?)),
        })
    }

    fn put(&mut self, record: &Record) -> io::Result<()> {
        match self {
            Writer::Resp { write, database, buffer } => {
                buffer.clear();
                if *database != Some(record.database) {
                    *database = Some(record.database);
                    encode(&[&b"SELECT"[..], record.database.to_string().as_bytes()], buffer);
                }
                let mut expiry = String::new();
                encode(&set_words(record, &mut expiry), buffer);
                write.write_all(buffer)
            }
            Writer::Jsonl(write) => writeln!(write, "{}", json_line(record)),
            Writer::Rdb(writer) => writer.record(record),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Writer::Resp { mut write, .. } | Writer::Jsonl(mut write) => write.flush(),
            Writer::Rdb(writer) => writer.finish()?.flush(),
        }
    }
}

fn json_line(record: &Record) -> String {
    let mut line = Map::new();
    line.insert("db".to_owned(), json!(record.database));
    for (name, bytes) in [("key", &record.key), ("value", &record.value)] {
        match std::str::from_utf8(bytes) {
            Ok(text) => line.insert(name.to_owned(), json!(text)),
            Err(_) => line.insert(format!("{name}_base64"), json!(BASE64.encode(bytes))),
        };
    }
    if record.expiry_millis != 0 {
        line.insert("expires_at_ms".to_owned(), json!(record.expiry_millis));
    }
    Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, record: &Record) -> String {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(format, &mut bytes).unwrap();
        writer.put(record).unwrap();
        writer.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn commands_carry_the_moment_of_the_end() {
        let record = Record { database: 2, key: b"k".to_vec(), value: b"v".to_vec(), expiry_millis: 12 };
        let expected =
            "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$2\r\n12\r\n";
        assert_eq!(written(Format::Resp, &record), expected);
    }

    #[test]
    fn what_is_no_text_is_base64_in_json() {
        let record = Record { database: 0, key: b"k\"".to_vec(), value: vec![0xff, 0], expiry_millis: 0 };
        assert_eq!(written(Format::Jsonl, &record), "{\"db\":0,\"key\":\"k\\\"\",\"value_base64\":\"/wA=\"}\n");
    }

    #[test]
    fn only_the_daemons_own_names_are_databases() {
        assert_eq!(database_of("db0"), Some(0));
        assert_eq!(database_of("db15"), Some(15));
        for name in ["db", "db01", "things", "dbx", "db-1"] {
            assert_eq!(database_of(name), None, "{name}");
        }
    }
}
