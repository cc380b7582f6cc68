//! Where records and commands of others go: a new store in a directory, or a running server.
//! Guarantees: a store in a directory is filled through the daemon's own commands; nothing waits for the disk command by command.
//! Must not know: files of others.
//! Next: command/import.rs, command/replay.rs.

use crate::command::ToolError;
use crate::daemon::{Daemon, encode};
use crate::exchange::Record;
use crate::fresh::{self, PastClock};
use crate::place::Place;
use logd::executor::{Outcome, run};
use logd::resp::Out;
use logd::session::Session;
use logd::settings::Settings;
use logd::shared::Shared;
use logd_engine::db::Builder;
use logd_engine::{Db, DurabilityLevel, Error, Options};
use std::path::Path;
use std::sync::Arc;

/// Requests sent ahead of their replies.
const REQUESTS_AHEAD_MAX: usize = 512;
/// Bytes after which they are sent.
const REQUEST_BYTES: usize = 256 << 10;

/// Why a server or the executor did not take a request: its words.
pub type Refusal = String;

/// Takes records.
pub trait Load {
    /// Puts a record. Gives error replies that came in meanwhile, to this record or earlier ones.
    fn put(&mut self, record: &Record) -> Result<Vec<Refusal>, ToolError>;
    /// Waits for all replies.
    fn settle(&mut self) -> Result<Vec<Refusal>, ToolError>;
}

/// The words of a SET.
pub fn set_words<'a>(record: &'a Record, expiry: &'a mut String) -> Vec<&'a [u8]> {
    let mut words: Vec<&[u8]> = vec![b"SET", &record.key, &record.value];
    if record.expiry_millis != 0 {
        *expiry = record.expiry_millis.to_string();
        words.extend([&b"PXAT"[..], expiry.as_bytes()]);
    }
    words
}

/// A new store, filled through the daemon's commands.
pub struct Embedded {
    shared: Shared,
    session: Session,
    out: Out,
}

impl Embedded {
    /// Makes the store.
    pub fn make(path: &Path) -> Result<Embedded, ToolError> {
        let db = fresh::make(path, PastClock::start(), |builder| builder)?;
        let shared = Shared::new(db, Settings::default())?;
        let client = shared.clients.add("import".to_owned(), String::new(), Box::new(|| {}));
        let mut session = Session::new(Arc::clone(&client));
        session.level = Some(DurabilityLevel::Accepted);
        Ok(Embedded { shared, session, out: Out::new() })
    }

    /// Runs a command. Gives its error reply, if it has one.
    pub fn run(&mut self, words: &[&[u8]]) -> Result<Option<Refusal>, ToolError> {
        self.out.truncate(0);
        loop {
            match run(&self.shared, &mut self.session, words, &mut self.out) {
                Outcome::Busy => self.shared.db.wait_writable(None)?,
                Outcome::Done(_) => break,
                Outcome::Later(_) | Outcome::Close => return Ok(Some("ERR it has no place in a file".to_owned())),
            }
        }
        let reply = self.out.bytes();
        let is_error = reply.first() == Some(&b'-');
        let text = is_error.then(|| String::from_utf8_lossy(&reply[1..]).trim_end().to_owned());
        match (text, self.shared.db.failure()) {
            (Some(_), Some(failed)) => Err(Error::from(failed).into()),
            // Space that is gone does not come back by leaving a command out.
            (Some(text), None) if text.starts_with("DISKFULL") => Err(ToolError::Io(text)),
            (text, None) | (text @ None, Some(_)) => Ok(text),
        }
    }

    /// Whether a MULTI was begun and not ended.
    pub fn is_in_multi(&self) -> bool {
        self.session.multi.is_some()
    }

    /// The store.
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// Closes the store, and opens it once more by the clock of today, so that it is left with one snapshot and what has
    /// ended is gone.
    pub fn finish(self, path: &Path) -> Result<(), ToolError> {
        self.shared.db.close()?;
        drop(self);
        fresh::set_created(path)?;
        let options = Options { snapshots_kept: 1, ..Options::default() };
        let db = Builder::options(Db::builder(path), options).open()?;
        db.checkpoint()?;
        Ok(db.close()?)
    }
}

impl Load for Embedded {
    fn put(&mut self, record: &Record) -> Result<Vec<Refusal>, ToolError> {
        if self.session.database as u64 != record.database
            && let Some(refusal) = self.run(&[b"SELECT", record.database.to_string().as_bytes()])?
        {
            return Ok(vec![refusal]);
        }
        let mut expiry = String::new();
        Ok(self.run(&set_words(record, &mut expiry))?.into_iter().collect())
    }

    fn settle(&mut self) -> Result<Vec<Refusal>, ToolError> {
        Ok(Vec::new())
    }
}

/// A running server, asked in a pipeline.
pub struct Server {
    daemon: Daemon,
    database: Option<u64>,
    requests: Vec<u8>,
    ahead: usize,
}

impl Server {
    /// Connects.
    pub fn connect(place: &Place) -> Result<Server, ToolError> {
        Ok(Server { daemon: Daemon::connect(place)?, database: None, requests: Vec::new(), ahead: 0 })
    }

    /// Adds a request for a database. Gives error replies that came in meanwhile.
    pub fn add<W: AsRef<[u8]>>(&mut self, database: u64, words: &[W]) -> Result<Vec<Refusal>, ToolError> {
        if self.database != Some(database) {
            self.database = Some(database);
            encode(&[&b"SELECT"[..], database.to_string().as_bytes()], &mut self.requests);
            self.ahead += 1;
        }
        encode(words, &mut self.requests);
        self.ahead += 1;
        let is_full = self.ahead >= REQUESTS_AHEAD_MAX || self.requests.len() >= REQUEST_BYTES;
        if is_full { self.settle() } else { Ok(Vec::new()) }
    }
}

impl Load for Server {
    fn put(&mut self, record: &Record) -> Result<Vec<Refusal>, ToolError> {
        let mut expiry = String::new();
        self.add(record.database, &set_words(record, &mut expiry))
    }

    fn settle(&mut self) -> Result<Vec<Refusal>, ToolError> {
        self.daemon.send(&self.requests)?;
        self.requests.clear();
        let mut refusals = Vec::new();
        for _ in 0..std::mem::take(&mut self.ahead) {
            refusals.extend(self.daemon.receive()?.err());
        }
        Ok(refusals)
    }
}
