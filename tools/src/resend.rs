//! Sends a store's history to a running server: its snapshot, then its log, command by command.
//! Guarantees: a command of several effects goes as one MULTI; the server gets each at its time, at a multiple of the speed at
//! which it was written, or at once.
//! Must not know: command lines.
//! Next: load.rs has the connection.

use crate::command::ToolError;
use crate::directory::procedures;
use crate::exchange::Record;
use crate::filter::Filter;
use crate::load::{Load, Server, set_words};
use crate::place::Place;
use crate::progress::{Progress, Work};
use crate::state::{Limit, limit_of, start_lsn};
use crate::store::{BatchFacts, LogVisitor, Store, WalkEnd};
use logd_engine::error::Corrupt;
use logd_engine::format::command::{Command, Effect, decode};
use logd_engine::units::Lsn;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// First byte of a record that is a string of the daemon.
const TAG_STRING: u8 = logd::request::value::TAG_STRING;

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the server takes it.
    Full,
    /// A multiple of the speed at which it was written.
    Times(f64),
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        match text {
            "max" => return Ok(Speed::Full),
            "original" => return Ok(Speed::Times(1.0)),
            _ => {}
        }
        let times = text.strip_prefix('x').and_then(|times| times.parse::<f64>().ok());
        times
            .filter(|times| times.is_finite() && *times > 0.0)
            .map(Speed::Times)
            .ok_or_else(|| format!("a speed is max, original, or a multiple as x10 or x0.5; not {text:?}"))
    }
}

/// What was sent.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// LSN of the snapshot sent first.
    pub snapshot_lsn: Option<u64>,
    /// Records of it, and the time they took.
    pub load: Work,
    /// Commands of the log.
    pub replay: Work,
    /// Last LSN sent.
    pub lsn: u64,
    /// Effects that are no strings of the databases 0 to 15, or not of the filter.
    pub left_out: u64,
    /// Error replies.
    pub refused: u64,
    /// The first of them.
    pub refusal: Option<String>,
}

/// Sends everything up to a limit.
pub fn resend(
    store: &mut dyn Store,
    limit: Limit,
    place: &Place,
    speed: Speed,
    filter: &Filter,
) -> Result<Sent, ToolError> {
    let manifest = store.manifest()?.ok_or_else(|| ToolError::NotAStore { place: store.place() })?;
    let limit = limit_of(store, &manifest, limit)?;
    let snapshot = start_lsn(&manifest, limit);
    let mut resend = Resend {
        server: Server::connect(place)?,
        filter,
        databases: Vec::new(),
        limit,
        speed,
        start: None,
        last: snapshot.unwrap_or(Lsn::NONE),
        sent: Sent { snapshot_lsn: snapshot.map(|lsn| lsn.0), ..Sent::default() },
        progress: Progress::of("load", "records", 0),
        error: None,
    };
    if let Some(lsn) = snapshot {
        let catalog = store.snapshot_catalog(lsn)?;
        catalog.keyspaces.iter().for_each(|keyspace| resend.learn(&keyspace.name));
        let mut result = Ok(());
        store.snapshot_records(lsn, &mut |keyspace, key, entry| {
            if result.is_ok() {
                result = resend.put(keyspace, key, entry.value, entry.expiry_millis);
                resend.progress.add(1, (key.len() + entry.value.len()) as u64);
            }
        })?;
        result?;
    }
    resend.settle()?;
    let progress = std::mem::replace(&mut resend.progress, Progress::new("replay"));
    resend.sent.load = progress.finish();
    let walked = match resend.has_reached() {
        true => WalkEnd::Stopped,
        false => store.log(resend.last.next(), &mut resend)?,
    };
    if let Some(error) = resend.error.take() {
        return Err(error);
    }
    resend.settle()?;
    if let Limit::Lsn(lsn) = limit
        && walked != WalkEnd::Stopped
        && resend.last < lsn
    {
        return Err(ToolError::Usage(format!("the store ends at LSN {}; there is no LSN {lsn}", resend.last)));
    }
    resend.sent.lsn = resend.last.0;
    resend.sent.replay = resend.progress.finish();
    Ok(resend.sent)
}

struct Resend<'f> {
    server: Server,
    filter: &'f Filter,
    /// By keyspace number: the database, if it is one and taken.
    databases: Vec<Option<u64>>,
    limit: Limit,
    speed: Speed,
    /// When the first batch was sent and when it had been written.
    start: Option<(Instant, u64)>,
    last: Lsn,
    sent: Sent,
    progress: Progress,
    error: Option<ToolError>,
}

type Words = (u64, Vec<Vec<u8>>);

impl Resend<'_> {
    fn learn(&mut self, name: &str) {
        let database = crate::command::database_of(name).filter(|_| self.filter.takes_keyspace(name));
        self.databases.push(database);
    }

    fn note(&mut self, refusals: Vec<String>) {
        self.sent.refused += refusals.len() as u64;
        let first = refusals.into_iter().next();
        self.sent.refusal = self.sent.refusal.take().or(first);
    }

    fn settle(&mut self) -> Result<(), ToolError> {
        let refusals = self.server.settle()?;
        self.note(refusals);
        Ok(())
    }

    fn send(&mut self, (database, words): &Words) -> Result<(), ToolError> {
        let refusals = self.server.add(*database, words)?;
        self.note(refusals);
        Ok(())
    }

    fn database(&self, keyspace: u16, key: &[u8]) -> Option<u64> {
        self.databases.get(usize::from(keyspace)).copied().flatten().filter(|_| self.filter.takes_key(key))
    }

    fn put_words(&self, keyspace: u16, key: &[u8], value: &[u8], expiry_millis: u64) -> Option<Words> {
        let (Some(database), [TAG_STRING, value @ ..]) = (self.database(keyspace, key), value) else { return None };
        let record = Record { database, key: key.to_vec(), value: value.to_vec(), expiry_millis };
        let mut expiry = String::new();
        Some((database, set_words(&record, &mut expiry).into_iter().map(<[u8]>::to_vec).collect()))
    }

    fn put(&mut self, keyspace: u16, key: &[u8], value: &[u8], expiry_millis: u64) -> Result<(), ToolError> {
        match self.put_words(keyspace, key, value, expiry_millis) {
            Some(words) => self.send(&words),
            None => {
                self.sent.left_out += 1;
                Ok(())
            }
        }
    }

    /// The commands of one effect; `None` if it is left out.
    fn words_of(&mut self, effect: &Effect<'_>) -> Option<Option<Words>> {
        let words = |database: u64, words: &[&[u8]]| (database, words.iter().map(|word| word.to_vec()).collect());
        Some(match *effect {
            Effect::Put { keyspace, key, value, expiry_millis } => {
                Some(self.put_words(keyspace, key, value, expiry_millis)?)
            }
            Effect::Delete { keyspace, key } => Some(words(self.database(keyspace, key)?, &[b"DEL", key])),
            Effect::Expire { keyspace, key, expiry_millis: 0 } => {
                Some(words(self.database(keyspace, key)?, &[b"PERSIST", key]))
            }
            Effect::Expire { keyspace, key, expiry_millis } => {
                let moment = expiry_millis.to_string();
                Some(words(self.database(keyspace, key)?, &[b"PEXPIREAT", key, moment.as_bytes()]))
            }
            Effect::Clear { keyspace } => {
                // With a prefix only some keys would be gone, and which ones the server alone knows.
                Some(words(self.database(keyspace, b"").filter(|_| self.filter.prefix.is_none())?, &[b"FLUSHDB"]))
            }
            Effect::Keyspace(made) => {
                self.learn(made.name);
                None
            }
            Effect::Procedure { .. } => None,
        })
    }

    fn frame(&mut self, lsn: Lsn, frame: &[u8]) -> Result<(), ToolError> {
        let damaged = |reason: String| ToolError::Replay { lsn: lsn.0, place: "the log".to_owned(), reason };
        let Command::Effects(effects) = decode(frame).map_err(|error| damaged(error.to_string()))? else {
            let known = procedures().all().count();
            return Err(ToolError::Unsupported(format!(
                "LSN {lsn} is a call of a procedure, whose effects are not in the log; replay it into a directory \
                 ({known} procedures are known) and export that"
            )));
        };
        let mut all = Vec::new();
        for effect in effects {
            let effect = effect.map_err(|error| damaged(error.to_string()))?;
            match self.words_of(&effect) {
                Some(words) => all.extend(words),
                None => self.sent.left_out += 1,
            }
        }
        match all.as_slice() {
            [one] => self.send(one)?,
            [] => {}
            [(database, _), ..] => {
                let word = |word: &str| (*database, vec![word.as_bytes().to_vec()]);
                // In one transaction all commands must be of one database; others follow behind it.
                let (inside, behind): (Vec<&Words>, Vec<&Words>) = all.iter().partition(|(other, _)| other == database);
                self.send(&word("MULTI"))?;
                inside.into_iter().try_for_each(|words| self.send(words))?;
                self.send(&word("EXEC"))?;
                behind.into_iter().try_for_each(|words| self.send(words))?;
            }
        }
        self.progress.add(1, frame.len() as u64);
        Ok(())
    }

    /// Waits until a batch is due.
    fn wait(&mut self, wall_millis: u64) -> Result<(), ToolError> {
        let Speed::Times(times) = self.speed else { return Ok(()) };
        let (began, first) = *self.start.get_or_insert((Instant::now(), wall_millis));
        let due = Duration::from_secs_f64(wall_millis.saturating_sub(first) as f64 / 1000.0 / times);
        let early = due.saturating_sub(began.elapsed());
        if early > Duration::ZERO {
            self.settle()?;
            std::thread::sleep(early);
        }
        Ok(())
    }

    fn apply(&mut self, batch: &BatchFacts<'_>) -> Result<ControlFlow<()>, ToolError> {
        let is_beyond = |lsn: Lsn, limit| matches!(limit, Limit::Lsn(last) if lsn > last);
        if is_beyond(batch.first_lsn, self.limit) {
            return Ok(ControlFlow::Break(()));
        }
        if batch.last_lsn() > self.last {
            self.wait(batch.wall_millis)?;
        }
        for (lsn, frame) in (batch.first_lsn.0..).map(Lsn).zip(&batch.frames) {
            if is_beyond(lsn, self.limit) {
                return Ok(ControlFlow::Break(()));
            }
            if lsn > self.last {
                self.frame(lsn, frame)?;
                self.last = lsn;
            }
        }
        Ok(if self.has_reached() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn has_reached(&self) -> bool {
        matches!(self.limit, Limit::Lsn(limit) if self.last >= limit)
    }
}

impl LogVisitor for Resend<'_> {
    fn batch(&mut self, batch: &BatchFacts<'_>) -> ControlFlow<()> {
        self.apply(batch).unwrap_or_else(|error| {
            self.error = Some(error);
            ControlFlow::Break(())
        })
    }

    fn damage(&mut self, damage: &Corrupt) {
        self.error = Some(ToolError::Engine(damage.clone().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_words_or_multiples() {
        assert_eq!("max".parse(), Ok(Speed::Full));
        assert_eq!("original".parse(), Ok(Speed::Times(1.0)));
        assert_eq!("x2.5".parse(), Ok(Speed::Times(2.5)));
        for wrong in ["", "x", "x0", "x-1", "xinf", "2"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
