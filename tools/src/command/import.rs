//! `logctl import`: takes over the data of a Redis or Valkey server.
//! Guarantees: a new store has its name only when all is in it; what has no place in it is counted by name and refused, unless
//! the user leaves it out knowingly; memory is that of the new store and of one value.
//! Must not know: the bytes of the files.
//! Next: exchange/, load.rs.

use super::{EXIT_DIFFERENT, EXIT_OK, ToolError};
use crate::exchange::aof;
use crate::exchange::input::{Input, InputError};
use crate::exchange::rdb_read::{Item, RdbReader};
use crate::exchange::{Record, aof::next_command};
use crate::fresh::{Fresh, failed};
use crate::load::{Embedded, Load, Refusal, Server};
use crate::place::Place;
use crate::progress::Progress;
use crate::render::Output;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  logctl import /var/lib/redis/dump.rdb --into /var/lib/logd
  logctl import /var/lib/redis/appendonlydir --into /var/lib/logd
  logctl import /var/lib/redis/appendonly.aof --into redis://127.0.0.1:6380
  logctl import dump.rdb --into /var/lib/logd --skip-unsupported --json

A file, or a directory with the manifest of an append-only file (Redis 7, Valkey 8). RDB versions up to 12 are read.
logd keeps strings; a file with lists, sets, hashes, sorted sets, streams, modules or functions is refused with their
counts, unless --skip-unsupported leaves them out. A cut command at the end of the last append-only file is left out, as
Redis does, and told. Into a server, an append-only file is first run into a scratch store in $TMPDIR.

Exit codes: 0 all is in, 1 all but what was left out, 2 the file is damaged, 4 refused or failed.";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// RDB file, append-only file, or directory of one.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory of the new store, redis://HOST:PORT or unix:PATH.
    #[arg(long, value_name = "PLACE")]
    into: Place,
    /// Leave out what logd has no place for.
    #[arg(long)]
    skip_unsupported: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    command: &'static str,
    into: String,
    files: Vec<String>,
    /// Strings of RDB files.
    records: u64,
    /// Commands of append-only files.
    commands: u64,
    /// What has no place in logd, by name.
    left_out: BTreeMap<String, u64>,
    /// Bytes at the end that are no whole command, or no whole transaction.
    cut_bytes: u64,
    bytes: u64,
    seconds: f64,
    records_per_second: f64,
}

impl Report {
    fn leave_out(&mut self, what: &str) {
        *self.left_out.entry(what.to_owned()).or_default() += 1;
    }

    fn refuse(&mut self, refusals: Vec<Refusal>) {
        refusals.iter().for_each(|words| self.leave_out(words));
    }

    fn left_out_text(&self) -> String {
        let counts: Vec<String> = self.left_out.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        counts.join(", ")
    }
}

/// Runs it.
pub fn run(arguments: &Arguments, output: &Output) -> Result<u8, ToolError> {
    let files = aof::files(&arguments.file).map_err(ToolError::Io)?;
    let mut report = Report { command: "import", ..Report::default() };
    report.files = files.iter().map(|file| file.display().to_string()).collect();
    let bytes_total = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    let mut import = Import { report, progress: Progress::of("import", "records", bytes_total), counted: 0 };
    match &arguments.into {
        Place::Directory(path) => {
            let fresh = Fresh::begin(path)?;
            let mut store = Embedded::make(fresh.path())?;
            import.fill_store(&files, &mut store)?;
            check_left_out(arguments, &import.report)?;
            store.finish(fresh.path())?;
            fresh.finish()?;
        }
        place => import.fill_server(arguments, &files, place)?,
    }
    import.report.into = arguments.into.to_string();
    let Import { mut report, progress, .. } = import;
    let work = progress.finish();
    (report.bytes, report.seconds, report.records_per_second) = (work.bytes, work.seconds, work.commands_per_second());
    output.result(&report, text);
    Ok(if report.left_out.is_empty() && report.cut_bytes == 0 { EXIT_OK } else { EXIT_DIFFERENT })
}

fn check_left_out(arguments: &Arguments, report: &Report) -> Result<(), ToolError> {
    if arguments.skip_unsupported || report.left_out.is_empty() {
        return Ok(());
    }
    let what = report.left_out_text();
    Err(ToolError::Unsupported(format!(
        "not imported, since logd has no place for {what}; --skip-unsupported leaves them out"
    )))
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "imported {} records and {} commands from {} in {:.2} s, {:.0}/s\n",
        report.records,
        report.commands,
        report.files.join(", "),
        report.seconds,
        report.records_per_second
    );
    if !report.left_out.is_empty() {
        text += &format!("left out: {}\n", report.left_out_text());
    }
    if report.cut_bytes > 0 {
        text += &format!("left out: the last {} bytes, which are no whole command or transaction\n", report.cut_bytes);
    }
    text
}

struct Import {
    report: Report,
    progress: Progress,
    /// Bytes of the present file that the progress knows of.
    counted: u64,
}

type FileInput = Input<BufReader<File>>;

fn open(path: &Path) -> Result<FileInput, ToolError> {
    let file = File::open(path).map_err(|error| failed("open", path, &error))?;
    Ok(Input::new(BufReader::with_capacity(256 << 10, file), path.display().to_string()))
}

/// Whether a file begins as RDB does, and whether it is RDB to its end: only reading it tells, so only the name does here.
fn is_plain_rdb(path: &Path) -> bool {
    let mut head = [0; 5];
    let is_rdb = File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"REDIS";
    is_rdb && path.extension().is_none_or(|end| end != "aof")
}

impl Import {
    fn went_on(&mut self, input: &FileInput) {
        self.progress.add(1, input.offset() - self.counted);
        self.counted = input.offset();
    }

    fn fill_store(&mut self, files: &[PathBuf], store: &mut Embedded) -> Result<(), ToolError> {
        for (at, path) in files.iter().enumerate() {
            let mut input = open(path)?;
            self.counted = 0;
            if input.peek()?.starts_with(b"REDIS") {
                self.records(&mut input, store)?;
            }
            // Each file begins in the first database.
            store.run(&[b"SELECT", b"0"])?;
            self.commands(&mut input, store, at + 1 == files.len())?;
        }
        Ok(())
    }

    /// Records go to the server as they come; commands first run where the clock stands still.
    fn fill_server(&mut self, arguments: &Arguments, files: &[PathBuf], place: &Place) -> Result<(), ToolError> {
        let mut server = Server::connect(place)?;
        if let [file] = files
            && is_plain_rdb(file)
        {
            // A first pass only counts, so that a file that is refused changes nothing.
            self.records(&mut open(file)?, &mut Nowhere)?;
            check_left_out(arguments, &self.report)?;
            (self.report.records, self.counted) = (0, 0);
            self.report.left_out.clear();
            let mut input = open(file)?;
            self.records(&mut input, &mut server)?;
            if !input.peek()?.is_empty() {
                return Err(input.wrong("more bytes behind the end of an RDB file; is it an append-only file?").into());
            }
            return Ok(());
        }
        let scratch =
            tempfile::tempdir().map_err(|error| failed("make a directory in", &std::env::temp_dir(), &error))?;
        let mut store = Embedded::make(scratch.path())?;
        self.fill_store(files, &mut store)?;
        check_left_out(arguments, &self.report)?;
        send_all(&store, &mut server, &mut self.report)
    }

    fn records(&mut self, input: &mut FileInput, load: &mut dyn Load) -> Result<(), ToolError> {
        let mut reader = RdbReader::new(input)?;
        while let Some(item) = reader.next()? {
            match item {
                Item::Record(record) => {
                    let refusals = load.put(&record)?;
                    self.report.records += 1;
                    self.report.refuse(refusals);
                }
                Item::Other(what) | Item::Beside(what) => self.report.leave_out(what),
            }
            let offset = reader.offset();
            self.progress.add(1, offset - self.counted);
            self.counted = offset;
        }
        let refusals = load.settle()?;
        self.report.refuse(refusals);
        Ok(())
    }

    fn commands(&mut self, input: &mut FileInput, store: &mut Embedded, is_last: bool) -> Result<(), ToolError> {
        let mut multi_offset = None;
        loop {
            let offset = input.offset();
            let words = match next_command(input) {
                Ok(Some(words)) => words,
                Ok(None) => break,
                Err(error) if error.is_short && is_last => {
                    self.cut(multi_offset.unwrap_or(offset), &error);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            self.command(&words, input, store)?;
            multi_offset = if store.is_in_multi() { multi_offset.or(Some(offset)) } else { None };
            self.went_on(input);
        }
        if store.is_in_multi() {
            store.run(&[b"DISCARD"])?;
            let open = multi_offset.unwrap_or(0);
            let error = InputError { offset: open, ..input.wrong("a transaction without its end") };
            match is_last {
                true => self.cut(open, &InputError { offset: input.offset().max(error.offset), ..error }),
                false => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn cut(&mut self, from: u64, end: &InputError) {
        self.report.cut_bytes = self.report.cut_bytes.max(end.offset - from);
    }

    fn command(&mut self, words: &[&[u8]], input: &FileInput, store: &mut Embedded) -> Result<(), ToolError> {
        if is_relative(words) {
            let name = String::from_utf8_lossy(words[0]).into_owned();
            return Err(input.wrong(format!("{name} with a time from now on, which a file cannot mean")).into());
        }
        self.report.commands += 1;
        if let Some(refusal) = store.run(words)? {
            let name = String::from_utf8_lossy(&words[0][..words[0].len().min(32)]).to_ascii_uppercase();
            let class = refusal.split(' ').next().unwrap_or("ERR").to_owned();
            let is_unknown = refusal.contains("unknown command");
            self.report.leave_out(&if is_unknown { format!("command {name}") } else { format!("{name} ({class})") });
        }
        Ok(())
    }
}

/// Whether a command says when a key ends by a span and not by a moment: servers write moments since Redis 2.6 and, in all of
/// their commands, 7.0.
fn is_relative(words: &[&[u8]]) -> bool {
    let name = words[0].to_ascii_lowercase();
    match name.as_slice() {
        b"expire" | b"pexpire" | b"setex" | b"psetex" => true,
        b"set" => has_span(words.get(3..)),
        b"getex" => has_span(words.get(2..)),
        _ => false,
    }
}

fn has_span(options: Option<&[&[u8]]>) -> bool {
    let is_span = |word: &&[u8]| word.eq_ignore_ascii_case(b"ex") || word.eq_ignore_ascii_case(b"px");
    options.is_some_and(|options| options.iter().any(is_span))
}

/// Takes records and keeps nothing.
struct Nowhere;

impl Load for Nowhere {
    fn put(&mut self, _: &Record) -> Result<Vec<Refusal>, ToolError> {
        Ok(Vec::new())
    }

    fn settle(&mut self) -> Result<Vec<Refusal>, ToolError> {
        Ok(Vec::new())
    }
}

fn send_all(store: &Embedded, server: &mut Server, report: &mut Report) -> Result<(), ToolError> {
    let view = store.db().view();
    let mut error = None;
    super::export::visit_records(&view, &mut |record| match server.put(record) {
        Ok(refusals) => report.refuse(refusals),
        Err(failed) => error = error.take().or(Some(failed)),
    });
    if let Some(error) = error {
        return Err(error);
    }
    let refusals = server.settle()?;
    report.refuse(refusals);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_from_moments() {
        let words = |text: &'static str| text.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        for text in ["EXPIRE k 1", "setex k 1 v", "SET k v EX 1", "SET k v nx px 1", "GETEX k EX 1"] {
            assert!(is_relative(&words(text)), "{text}");
        }
        for text in ["PEXPIREAT k 1", "SET k ex", "SET ex px", "SET k v PXAT 1", "GETEX k PERSIST", "GET ex"] {
            assert!(!is_relative(&words(text)), "{text}");
        }
    }
}
