//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//! Guarantees: M1 an EXEC is one transaction of the engine, so it happens wholly or not at all; M2 nothing of it runs if
//! a watched key was changed, or ended, since it was watched; M3 a command that fails inside leaves the others be.
//! Must not know: what the queued commands do.
//! Next: executor.rs queues them.
//!
//! Server commands (PING, INFO, CONFIG …) take locks of their own, so they run before the transaction, into side buffers,
//! and their replies are put in their places. If a watched key changes in the moment between, they have run in vain.

use super::pause::remove_if_due;
use super::table::{Call, Code, InMulti, ServerSpec, key_words};
use super::{DataSpec, Failure, KeyPlaces, Words, procedure};
use crate::executor::{Outcome, data_of, failure_reply, level_of, note_slow};
use crate::resp::Out;
use crate::session::{Multi, Session, WatchedKey};
use crate::shared::Shared;
use logd_engine::core::ActiveProcedure;
use logd_engine::{Error, Keyspace, Scope, Ticket, Transaction};
use std::sync::atomic::Ordering;
use std::time::Instant;

const FLAGS: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("multi", 1, FLAGS, "transactions", multi, "Begins to queue commands.").in_multi(InMulti::Immediate),
    ServerSpec::new("exec", 1, FLAGS, "transactions", exec, "Runs the queued commands as one.")
        .in_multi(InMulti::Immediate),
    ServerSpec::new("discard", 1, FLAGS, "transactions", discard, "Drops the queued commands.")
        .in_multi(InMulti::Immediate),
    ServerSpec::new("watch", -2, FLAGS, "transactions", watch, "Makes EXEC depend on keys staying as they are.")
        .at(KeyPlaces::ALL)
        .in_multi(InMulti::Immediate),
    ServerSpec::new("unwatch", 1, FLAGS, "transactions", unwatch, "Forgets the watched keys."),
];

fn multi(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    if call.session.multi.is_some() {
        return Err(Failure::reply("ERR MULTI calls can not be nested"));
    }
    call.session.set_multi(Multi::default());
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn discard(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    if call.session.take_multi().is_none() {
        return Err(Failure::reply("ERR DISCARD without MULTI"));
    }
    call.session.unwatch();
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn unwatch(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    // Inside EXEC the watched keys have done their part.
    if !call.in_exec {
        call.session.unwatch();
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn watch(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    if call.session.multi.is_some() {
        return Err(Failure::reply("ERR WATCH inside MULTI is not allowed"));
    }
    let keyspace = call.shared.databases[call.session.database];
    for key in &words[1..] {
        remove_if_ended(call.shared, keyspace, key)?;
        let watch = call.shared.db.watch(keyspace, key);
        let was_there = call.shared.db.get_with(keyspace, key, |record| record.is_some());
        call.session.watched.push(WatchedKey { keyspace, key: Box::from(*key), watch, was_there });
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// A record that is due but still there would touch the watch when it is removed, though nothing changed for anyone.
fn remove_if_ended(shared: &Shared, keyspace: Keyspace, key: &[u8]) -> Result<(), Failure> {
    if shared.db.get_with(keyspace, key, |record| record.is_some()) {
        return Ok(());
    }
    let removed = shared.db.try_transact(Scope::Key(keyspace, key), None, |transaction| {
        if transaction.get(keyspace, key).is_none() {
            transaction.delete(keyspace, key);
        }
        Ok(())
    });
    match removed {
        Err(error @ Error::Refused(_)) => Err(error.into()),
        // A store that takes no writes removes no due records either.
        _ => Ok(()),
    }
}

/// A queued request made ready.
enum Step<'q> {
    /// Already run: its reply is this part of the side buffer.
    Replied(std::ops::Range<usize>),
    /// A data command on a database.
    Data { spec: &'static DataSpec, words: Vec<&'q [u8]>, database: usize, random: u64, number: usize },
    /// A procedure with its arguments.
    Procedure { active: &'q ActiveProcedure, arguments: Vec<u8> },
}

struct Plan<'q> {
    steps: Vec<Step<'q>>,
    side: Out,
    keys: Vec<(Keyspace, &'q [u8])>,
    needs_all: bool,
    closes: bool,
}

fn exec(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let Some(multi) = call.session.take_multi() else { return Err(Failure::reply("ERR EXEC without MULTI")) };
    if multi.is_broken {
        call.session.unwatch();
        return Err(Failure::reply("EXECABORT Transaction discarded because of previous errors."));
    }
    if call.session.watched.iter().any(|watched| watched.watch.is_touched()) {
        return Ok(conflict(call, out));
    }
    let database = call.session.database;
    let watched = std::mem::take(&mut call.session.watched);
    let mut plan = Plan::new(call.shared, call.session, &multi, out.is_resp3());
    plan.keys.extend(watched.iter().map(|watched| (watched.keyspace, &*watched.key)));
    let closes = plan.closes;
    let ran = run_plan(call.shared, call.session, &plan, &watched, out);
    drop(plan);
    if matches!(&ran, Err(error) if is_busy(error)) {
        call.session.select(database);
        call.session.watched = watched;
        call.session.set_multi(multi);
        return Ok(Outcome::Busy);
    }
    call.session.unwatch();
    note_calls(call.shared, &multi);
    if !matches!(&ran, Ok((true, _))) {
        call.session.select(database);
    }
    match ran {
        Ok((true, _)) if closes => Ok(Outcome::Close),
        Ok((true, ticket)) => Ok(Outcome::Done(ticket)),
        Ok((false, _)) => Ok(conflict(call, out)),
        Err(error) => Err(error.into()),
    }
}

fn note_calls(shared: &Shared, multi: &Multi) {
    shared.counters.commands.fetch_add(multi.queue.len() as u64, Ordering::Relaxed);
    for queued in &multi.queue {
        shared.command_counters[queued.found.number].note_call();
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Refused(logd_engine::error::Refused::Busy))
}

fn conflict(call: &mut Call<'_>, out: &mut Out) -> Outcome {
    call.session.unwatch();
    call.shared.counters.exec_conflicts.fetch_add(1, Ordering::Relaxed);
    out.null_array();
    Outcome::WRITTEN
}

impl<'q> Plan<'q> {
    /// Runs the server commands and works out what the others will touch.
    fn new(shared: &'q Shared, session: &mut Session, multi: &'q Multi, is_resp3: bool) -> Plan<'q> {
        let mut side = Out::new();
        side.set_resp3(is_resp3);
        let (steps, keys) = (Vec::with_capacity(multi.queue.len()), Vec::new());
        let mut plan = Plan { steps, side, keys, needs_all: false, closes: false };
        for queued in &multi.queue {
            let words: Vec<&[u8]> = queued.words.iter().map(|word| &**word).collect();
            let number = queued.found.number;
            let step = match queued.found.code {
                Code::Server(run) => plan.run_server(shared, session, run, &words, number),
                Code::Data(spec) => plan.data(shared, session, spec, words, number),
                Code::Procedure(is_reading) => plan.procedure(shared, is_reading, &words, number),
            };
            plan.steps.push(step);
        }
        plan
    }

    fn run_server(
        &mut self,
        shared: &Shared,
        session: &mut Session,
        run: super::table::ServerCommand,
        words: &Words<'_>,
        number: usize,
    ) -> Step<'q> {
        let start = self.side.len();
        let mut inner = Call { shared, session, in_exec: true };
        match run(&mut inner, words, &mut self.side) {
            Ok(Outcome::Close) => self.closes = true,
            Ok(Outcome::Done(_)) => {}
            Ok(Outcome::Busy | Outcome::Later(_)) => {
                self.side.truncate(start);
                return self.error(shared, start, number, "ERR Command not allowed inside a transaction");
            }
            Err(failure) => {
                self.side.truncate(start);
                let text = failure_reply(failure).unwrap_or_else(|| "ERR the log is busy".to_owned());
                return self.error(shared, start, number, &text);
            }
        }
        Step::Replied(start..self.side.len())
    }

    fn error(&mut self, shared: &Shared, start: usize, number: usize, text: &str) -> Step<'q> {
        shared.command_counters[number].note_failed();
        shared.note_error(text);
        self.side.error(text);
        Step::Replied(start..self.side.len())
    }

    fn data(
        &mut self,
        shared: &Shared,
        session: &mut Session,
        spec: &'static DataSpec,
        words: Vec<&'q [u8]>,
        number: usize,
    ) -> Step<'q> {
        let database = session.database;
        let keyspace = shared.databases[database];
        let before = self.keys.len();
        self.keys.extend(key_words(spec.keys, &words).map(|key| (keyspace, key)));
        self.needs_all |= self.keys.len() == before;
        Step::Data { spec, words, database, random: session.random(), number }
    }

    fn procedure(&mut self, shared: &'q Shared, is_reading: bool, words: &Words<'_>, number: usize) -> Step<'q> {
        match procedure::find(shared, is_reading, words) {
            Ok((active, arguments)) => {
                self.needs_all = true;
                Step::Procedure { active, arguments }
            }
            Err(text) => {
                let start = self.side.len();
                self.error(shared, start, number, &text)
            }
        }
    }
}

/// Runs the steps in one transaction. False if a watched key stood in the way.
fn run_plan(
    shared: &Shared,
    session: &Session,
    plan: &Plan<'_>,
    watched: &[WatchedKey],
    out: &mut Out,
) -> Result<(bool, Ticket), Error> {
    let start = out.len();
    let scope = if plan.needs_all { Scope::All } else { Scope::Keys(&plan.keys) };
    let ran = shared.db.try_transact(scope, level_of(shared, session), |transaction| {
        if watched.iter().any(|watched| is_changed(transaction, watched)) {
            return Ok(false);
        }
        out.array(plan.steps.len());
        for step in &plan.steps {
            run_step(shared, session, transaction, plan, step, out)?;
        }
        Ok(true)
    });
    if ran.is_err() {
        out.truncate(start);
    }
    ran
}

fn is_changed(transaction: &Transaction<'_>, watched: &WatchedKey) -> bool {
    watched.watch.is_touched() || (watched.was_there && transaction.get(watched.keyspace, &watched.key).is_none())
}

fn run_step(
    shared: &Shared,
    session: &Session,
    transaction: &mut Transaction<'_>,
    plan: &Plan<'_>,
    step: &Step<'_>,
    out: &mut Out,
) -> Result<(), Error> {
    match step {
        Step::Replied(part) => out.raw(&plan.side.bytes()[part.clone()]),
        Step::Procedure { active, arguments } => {
            let reply = transaction.call(active, arguments)?;
            procedure::write_reply(&reply, out);
        }
        Step::Data { spec, words, database, random, number } => {
            let began = Instant::now();
            let keyspace = shared.databases[*database];
            key_words(spec.keys, words).for_each(|key| remove_if_due(shared, transaction, keyspace, key));
            let mut data = data_of(shared, transaction, *database, *random);
            let ran = (spec.run)(&mut data, words, out);
            let (now, took) = (Instant::now(), began.elapsed());
            shared.command_counters[*number].note_time(took, 1);
            note_slow(shared, session, words, now, took);
            match ran {
                Ok(()) => {}
                Err(Failure::Engine(error)) => return Err(error),
                Err(Failure::Reply(text)) => {
                    shared.command_counters[*number].note_failed();
                    shared.note_error(&text);
                    out.error(&text);
                }
            }
        }
    }
    Ok(())
}
