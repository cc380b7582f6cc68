//! Runs requests: finds the command, queues it inside MULTI, runs it, counts it.
//! Guarantees: one reply for each request, or none and `Busy`, or a promise of one (`Later`); an error reply has changed
//! nothing; nothing waits.
//! Must not know: sockets; when replies are released.
//! Next: request/table.rs, request/multi.rs.

use crate::request::table::{Call, Code, Found, InMulti, key_words};
use crate::request::value::TAG_STRING;
use crate::request::{Data, DataSpec, Failure, Words, errors, pause, procedure};
use crate::resp::Out;
use crate::session::{Multi, Queued, ReplyMode, Session};
use crate::shared::Shared;
use logd_engine::error::{Full, Refused};
use logd_engine::{DurabilityLevel, Error, Keyspace, Scope, Ticket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// GET and SET take less time than it takes to read a clock well; one of so many is timed.
const SHORT_CALLS_PER_SAMPLE: u32 = 8;
/// Memory that a queued word takes besides its bytes.
const WORD_OVERHEAD_BYTES: usize = 32;

/// What became of a request.
pub enum Outcome {
    /// Exactly one reply was written (none if the client wants none); `Ticket::NOTHING` if it need not wait.
    Done(Ticket),
    /// Nothing was written or changed: run the same request again after the next notice of the log.
    Busy,
    /// Nothing was written yet: the connection takes no further request until `poll` gives true.
    Later(Box<dyn Later>),
    /// The reply, if there is one, was written; close when it is sent.
    Close,
}

impl Outcome {
    /// A reply that need not wait.
    pub const WRITTEN: Outcome = Outcome::Done(Ticket::NOTHING);
}

/// A reply that comes later.
pub trait Later: Send {
    /// Writes the reply and gives true when it is ready. Called at every log notice, at the deadline, and at least every
    /// 100 ms.
    fn poll(&mut self, shared: &Shared, session: &mut Session, out: &mut Out, now: Instant) -> bool;
    /// When to call at the latest.
    fn deadline(&self) -> Option<Instant>;
}

/// Runs one request.
pub fn run(shared: &Shared, session: &mut Session, words: &Words<'_>, out: &mut Out) -> Outcome {
    if words.is_empty() {
        return Outcome::WRITTEN;
    }
    let start = out.len();
    let mode = session.reply;
    let outcome = match try_short(shared, session, words, out) {
        Some(outcome) => outcome,
        None => run_any(shared, session, words, out),
    };
    if mode == ReplyMode::On && session.reply == ReplyMode::On {
        return outcome;
    }
    mute(session, mode, outcome, out, start)
}

/// Takes back the reply of a client that does not want it. CLIENT REPLY OFF and SKIP are not answered themselves.
fn mute(session: &mut Session, mode: ReplyMode, outcome: Outcome, out: &mut Out, start: usize) -> Outcome {
    if matches!(outcome, Outcome::Busy) {
        return outcome;
    }
    let is_muted = match (mode, session.reply) {
        (ReplyMode::On, _) | (ReplyMode::Off, ReplyMode::Off) => true,
        (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
            session.reply = ReplyMode::On;
            true
        }
        (ReplyMode::Off | ReplyMode::SkipNext, _) => session.reply == ReplyMode::Off,
    };
    if !is_muted {
        return outcome;
    }
    out.truncate(start);
    match outcome {
        Outcome::Later(later) => Outcome::Later(Box::new(Muted(later))),
        Outcome::Done(_) => Outcome::WRITTEN,
        other => other,
    }
}

struct Muted(Box<dyn Later>);

impl Later for Muted {
    fn poll(&mut self, shared: &Shared, session: &mut Session, out: &mut Out, now: Instant) -> bool {
        let start = out.len();
        let is_ready = self.0.poll(shared, session, out, now);
        out.truncate(start);
        is_ready
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}

/// The two most frequent requests, without a look-up or a transaction.
fn try_short(shared: &Shared, session: &mut Session, words: &Words<'_>, out: &mut Out) -> Option<Outcome> {
    let is_held = !shared.gate.is_open() || session.client.is_paused.load(Ordering::Relaxed);
    if is_held || session.multi.is_some() {
        return None;
    }
    let number = match words {
        [name, _] if name.eq_ignore_ascii_case(b"get") => shared.table.get_number(),
        [name, _, _] if name.eq_ignore_ascii_case(b"set") => shared.table.set_number(),
        _ => return None,
    };
    session.short_calls = session.short_calls.wrapping_add(1);
    let counters = &shared.command_counters[number];
    // The first one is timed too, so that none that ran is without times.
    let is_first = !counters.has_run();
    let is_timed = is_first || session.short_calls % SHORT_CALLS_PER_SAMPLE == 1;
    let began = is_timed.then(Instant::now);
    let done = match words {
        [_, key] => get(shared, session, key, out),
        [_, key, value] => set(shared, session, key, value),
        _ => return None,
    };
    let outcome = match done {
        Ok(ticket) => {
            if words.len() == 3 {
                session.note_write(ticket);
                out.ok();
            }
            Outcome::Done(ticket)
        }
        Err(failure) => match failure_reply(failure) {
            None => return Some(Outcome::Busy),
            Some(text) => {
                counters.note_failed();
                shared.note_error(&text);
                out.error(&text);
                Outcome::WRITTEN
            }
        },
    };
    counters.note_call();
    shared.counters.commands.fetch_add(1, Ordering::Relaxed);
    session.client.command.store(number as u32, Ordering::Relaxed);
    if let Some(began) = began {
        let now = Instant::now();
        counters.note_time(now - began, if is_first { 1 } else { SHORT_CALLS_PER_SAMPLE.into() });
        note_slow(shared, session, words, now, now - began);
    }
    Some(outcome)
}

fn get(shared: &Shared, session: &Session, key: &[u8], out: &mut Out) -> Result<Ticket, Failure> {
    let keyspace = shared.databases[session.database];
    shared.db.get_with(keyspace, key, |record| match record.map(|record| record.value) {
        None => {
            shared.counters.lookups.note(false);
            out.null();
            Ok(Ticket::NOTHING)
        }
        Some([TAG_STRING, bytes @ ..]) => {
            shared.counters.lookups.note(true);
            out.bulk(bytes);
            Ok(Ticket::NOTHING)
        }
        Some(_) => Err(errors::wrong_type()),
    })
}

fn set(shared: &Shared, session: &mut Session, key: &[u8], value: &[u8]) -> Result<Ticket, Failure> {
    let keyspace = shared.databases[session.database];
    let level = level_of(shared, session);
    session.scratch.clear();
    session.scratch.push(TAG_STRING);
    session.scratch.extend_from_slice(value);
    let put = shared.db.try_put(keyspace, key, &session.scratch, None, level);
    if session.scratch.capacity() > 1 << 20 {
        session.scratch = Vec::new();
    }
    Ok(put?)
}

/// The level of a connection's writes.
pub fn level_of(shared: &Shared, session: &Session) -> Option<DurabilityLevel> {
    session.level.or_else(|| shared.level())
}

fn run_any(shared: &Shared, session: &mut Session, words: &Words<'_>, out: &mut Out) -> Outcome {
    let found = match shared.table.find(words) {
        Ok(found) => found,
        Err((text, number)) => {
            if let Some(number) = number {
                shared.command_counters[number].note_rejected();
            }
            return reject(shared, session, &text, out);
        }
    };
    if !shared.gate.is_open() {
        match pause::stop(shared, session, found) {
            None => {}
            Some(Ok(outcome)) => return outcome,
            Some(Err(text)) => return refuse(shared, session, found, &text, out),
        }
    } else if session.client.is_paused.load(Ordering::Relaxed) {
        session.client.is_paused.store(false, Ordering::Relaxed);
    }
    if session.multi.is_some() && found.in_multi != InMulti::Immediate {
        return queue(shared, session, found, words, out);
    }
    run_found(shared, session, found, words, out)
}

fn reject(shared: &Shared, session: &mut Session, text: &str, out: &mut Out) -> Outcome {
    if let Some(multi) = &mut session.multi {
        multi.is_broken = true;
    }
    shared.note_error(text);
    out.error(text);
    Outcome::WRITTEN
}

/// The reply to a command that may not run now. An EXEC ends with it.
fn refuse(shared: &Shared, session: &mut Session, found: Found, text: &str, out: &mut Out) -> Outcome {
    shared.command_counters[found.number].note_rejected();
    if shared.table.number_name(found.number) != "exec" || session.take_multi().is_none() {
        return reject(shared, session, text, out);
    }
    session.unwatch();
    reject(shared, session, &format!("EXECABORT Transaction discarded because of: {text}"), out)
}

fn queue(shared: &Shared, session: &mut Session, found: Found, words: &Words<'_>, out: &mut Out) -> Outcome {
    if found.in_multi == InMulti::Refused {
        shared.command_counters[found.number].note_rejected();
        return reject(shared, session, "ERR Command not allowed inside a transaction", out);
    }
    if let Some(mut multi) = session.multi.take() {
        multi.bytes += words.iter().map(|word| word.len() + WORD_OVERHEAD_BYTES).sum::<usize>();
        if multi.bytes > shared.settings.input_bytes_max {
            multi = Multi { is_broken: true, ..Multi::default() };
            session.set_multi(multi);
            return reject(shared, session, "ERR the transaction is larger than a request may be", out);
        }
        multi.queue.push(Queued { found, words: words.iter().map(|word| Box::from(*word)).collect() });
        session.set_multi(multi);
    }
    out.simple("QUEUED");
    Outcome::WRITTEN
}

fn run_found(shared: &Shared, session: &mut Session, found: Found, words: &Words<'_>, out: &mut Out) -> Outcome {
    let start = out.len();
    session.client.command.store(found.number as u32, Ordering::Relaxed);
    let began = Instant::now();
    let ran = match found.code {
        Code::Data(spec) => run_data(shared, session, spec, words, out),
        Code::Server(run) => run(&mut Call { shared, session, in_exec: false }, words, out),
        Code::Procedure(is_reading) => procedure::call(shared, session, is_reading, words, out),
    };
    let counters = &shared.command_counters[found.number];
    let outcome = match ran {
        Ok(outcome) => outcome,
        Err(failure) => {
            out.truncate(start);
            match failure_reply(failure) {
                None => Outcome::Busy,
                Some(text) => {
                    counters.note_failed();
                    shared.note_error(&text);
                    out.error(&text);
                    Outcome::WRITTEN
                }
            }
        }
    };
    if matches!(outcome, Outcome::Busy) {
        return outcome;
    }
    if let Outcome::Done(ticket) = &outcome {
        session.note_write(*ticket);
    }
    let now = Instant::now();
    counters.note_call();
    counters.note_time(now - began, 1);
    shared.counters.commands.fetch_add(1, Ordering::Relaxed);
    if !matches!(outcome, Outcome::Later(_)) {
        note_slow(shared, session, words, now, now - began);
    }
    outcome
}

/// Notes a request that took long. One that is answered later is noted then, by what answers it.
pub fn note_slow(shared: &Shared, session: &Session, words: &Words<'_>, now: Instant, took: Duration) {
    session.client.touch(now);
    if !shared.slow_log.is_slow(took) && !shared.latency_events.is_slow(took) {
        return;
    }
    let wall = shared.db.time().wall().0;
    let row = shared.table.row(words[0]);
    // EXEC's commands are told one by one.
    if row.is_none_or(|row| !matches!(row.name, "slowlog" | "exec")) {
        shared.slow_log.note(words, took, wall / 1000, &session.client);
    }
    let is_fast = row.is_some_and(|row| row.flags.contains(&"fast"));
    shared.latency_events.note(if is_fast { "fast-command" } else { "command" }, took, wall / 1000);
}

/// Runs a data command in a transaction of its own.
fn run_data(
    shared: &Shared,
    session: &mut Session,
    spec: &'static DataSpec,
    words: &Words<'_>,
    out: &mut Out,
) -> Result<Outcome, Failure> {
    let level = level_of(shared, session);
    let random = session.random();
    let database = session.database;
    let keyspace = shared.databases[database];
    let body = |transaction: &mut logd_engine::Transaction<'_>| {
        if shared.gate.keeps_due() {
            key_words(spec.keys, words).for_each(|key| pause::remove_if_due(shared, transaction, keyspace, key));
        }
        let mut data = data_of(shared, transaction, database, random);
        match (spec.run)(&mut data, words, out) {
            Ok(()) => Ok(None),
            Err(Failure::Reply(text)) => Ok(Some(text)),
            Err(Failure::Engine(error)) => Err(error),
        }
    };
    let keys: Vec<(Keyspace, &[u8])> = key_words(spec.keys, words).map(|key| (keyspace, key)).collect();
    let (refused, ticket) = match keys.as_slice() {
        [] => shared.db.try_transact(Scope::All, level, body)?,
        [(keyspace, key)] => shared.db.try_transact(Scope::Key(*keyspace, key), level, body)?,
        keys => shared.db.try_transact(Scope::Keys(keys), level, body)?,
    };
    match refused {
        None => Ok(Outcome::Done(ticket)),
        Some(text) => Err(Failure::Reply(text)),
    }
}

/// What a data command works on.
pub fn data_of<'d, 'c>(
    shared: &'d Shared,
    transaction: &'d mut logd_engine::Transaction<'c>,
    database: usize,
    random: u64,
) -> Data<'d, 'c> {
    Data {
        transaction,
        databases: &shared.databases,
        all_keyspaces: &shared.all_keyspaces,
        database,
        random,
        time: shared.db.time(),
        cursors: &shared.cursors,
        lookups: &shared.counters.lookups,
    }
}

/// The error reply for a failure. `None`: the log is busy, which is never told but tried again.
pub fn failure_reply(failure: Failure) -> Option<String> {
    let error = match failure {
        Failure::Reply(text) => return Some(text),
        Failure::Engine(error) => error,
    };
    match error {
        Error::Refused(Refused::Busy) => None,
        // A procedure's own words may bring their class.
        Error::Refused(Refused::Aborted(text)) if has_class(&text) => Some(text),
        Error::Full(full @ (Full::Disk | Full::Log { .. })) => Some(format!("DISKFULL {full}")),
        Error::Refused(refused @ Refused::ReadOnly { .. }) => Some(format!("MISCONF {refused}")),
        Error::Failed(failed) => Some(format!("IOERR failed to {failed}; writes are refused until restart")),
        Error::Corrupt(corrupt) => Some(format!("IOERR {corrupt}")),
        other => Some(format!("ERR {other}")),
    }
}

fn has_class(text: &str) -> bool {
    text.split_once(' ')
        .is_some_and(|(class, _)| class.len() > 1 && class.bytes().all(|byte| byte.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Daemon;
    use logd_engine::error::Failed;

    #[test]
    fn errors_of_the_look_up_are_in_redis_words() {
        let daemon = Daemon::new();
        daemon.client().play(
            &daemon,
            "foo a b => -ERR unknown command 'foo', with args beginning with: 'a' 'b'
             foo => -ERR unknown command 'foo', with args beginning with:
             GET => -ERR wrong number of arguments for 'get' command
             get a b => -ERR wrong number of arguments for 'get' command
             Set a => -ERR wrong number of arguments for 'set' command
             CLIENT => -ERR wrong number of arguments for 'client' command
             CLIENT SETNAME => -ERR wrong number of arguments for 'client|setname' command
             CLIENT x => -ERR unknown subcommand 'x'. Try CLIENT HELP.
             CLIENT MAINT_NOTIFICATIONS ON => -ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
        );
        let long = "x".repeat(200);
        let reply = daemon.client().ask(&daemon, &format!("{long} {long} b"));
        let cut = "x".repeat(128);
        assert_eq!(reply, format!("-ERR unknown command '{cut}', with args beginning with: '{cut}'"));
    }

    #[test]
    fn the_short_ways_of_get_and_set_answer_as_the_long_ones() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(&daemon, "GET a => $-1\nSET a 1 => +OK");
        assert_ne!(client.ticket, Ticket::NOTHING);
        assert_eq!(client.session.write_last, client.ticket);
        client.play(&daemon, "gEt a => $1 1\nSET a 2 EX 100 => +OK\nSET a 3 => +OK\nTTL a => :-1\nSTRLEN a => :1");
        client.play(&daemon, "HELLO => ~*14 $6 server $5 redis $7 version $5 7.2.4 $5 proto :2 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0~");
        let keyspace = daemon.shared.databases[0];
        daemon.shared.db.put(keyspace, b"odd", &[9, 9], None, None).unwrap();
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(client.ask(&daemon, "GET odd"), wrong);
        let long = vec![b'k'; 70_000];
        let reply = client.ask_words(&daemon, &[b"SET", &long, b"v"]);
        assert!(reply.starts_with("-ERR key of 70000 bytes"), "{reply}");
    }

    #[test]
    fn failures_of_the_engine_have_their_classes_and_busy_has_no_reply() {
        let failed = Failed { operation: "sync", file: "log/1".to_owned(), reason: "gone".to_owned() };
        let reply = |error: Error| failure_reply(Failure::Engine(error));
        assert_eq!(reply(Refused::Busy.into()), None);
        assert!(reply(Full::Disk.into()).is_some_and(|text| text.starts_with("DISKFULL no disk space")));
        assert!(reply(Full::Log { bytes_max: 1 }.into()).is_some_and(|text| text.starts_with("DISKFULL ")));
        assert!(reply(failed.into()).is_some_and(|text| text.starts_with("IOERR failed to sync log/1")));
        assert!(reply(Refused::Closed.into()).is_some_and(|text| text.starts_with("ERR the store")));
        assert_eq!(reply(Refused::Aborted("WRONGTYPE x".to_owned()).into()).as_deref(), Some("WRONGTYPE x"));
        assert_eq!(reply(Refused::Aborted("no class".to_owned()).into()).as_deref(), Some("ERR no class"));
    }

    #[test]
    fn replies_that_are_not_wanted_are_taken_back() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "CLIENT REPLY ON => +OK
             CLIENT REPLY SKIP => ~~
             SET a 1 => ~~
             GET a => $1 1
             CLIENT REPLY OFF => ~~
             GET a => ~~
             nosuch => ~~
             DEBUG SLEEP 0 => ~~
             CLIENT REPLY SKIP => ~~
             GET a => ~~
             CLIENT REPLY ON => +OK
             GET a => $1 1",
        );
    }

    #[test]
    fn calls_are_counted_rejected_and_failed_ones_apart() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        (0..20).for_each(|_| assert_eq!(client.ask(&daemon, "SET a text"), "+OK"));
        client.ask(&daemon, "SET a");
        client.ask(&daemon, "INCR a");
        client.ask(&daemon, "CLIENT ID");
        let told = client.ask(&daemon, "INFO commandstats errorstats latencystats");
        assert!(told.contains("cmdstat_set:calls=20,usec="), "{told}");
        assert!(told.contains(",rejected_calls=1,failed_calls=0"), "{told}");
        assert!(told.contains("cmdstat_client|id:calls=1,"), "{told}");
        assert!(told.contains("cmdstat_incr:calls=1,"), "{told}");
        assert!(told.contains(",rejected_calls=0,failed_calls=1"), "{told}");
        assert!(told.contains("errorstat_ERR:count=2"), "{told}");
        assert!(told.contains("latency_percentiles_usec_set:p50="), "{told}");
        client.ask(&daemon, "CONFIG RESETSTAT");
        assert!(!client.ask(&daemon, "INFO commandstats").contains("cmdstat_set"));
    }
}
