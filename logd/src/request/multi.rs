//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//! Guarantees: M1 an EXEC is one transaction of the engine, so it happens wholly or not at all; M2 nothing of it runs if
//! a watched key was changed, or ended, since it was watched; M3 a command that fails inside leaves the others be.
//! Must not know: what the queued commands do.
//! Next: executor.rs queues them.
//!
//! Server commands (PING, INFO, CONFIG …) take locks of their own, so they run before the transaction, into side buffers,
//! and their replies are put in their places. If a watched key changes in the moment between, they have run in vain.

use super::table::{Call, Code, InMulti, ServerSpec, key_words};
use super::{DataSpec, Failure, KeyPlaces, Words, procedure};
use crate::executor::{Outcome, data_of, failure_reply, level_of};
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
        remove_if_due(call.shared, keyspace, key)?;
        let watch = call.shared.db.watch(keyspace, key);
        let was_there = call.shared.db.get_with(keyspace, key, |record| record.is_some());
        call.session.watched.push(WatchedKey { keyspace, key: Box::from(*key), watch, was_there });
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// A record that is due but still there would touch the watch when it is removed, though nothing changed for anyone.
fn remove_if_due(shared: &Shared, keyspace: Keyspace, key: &[u8]) -> Result<(), Failure> {
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
            run_step(shared, transaction, plan, step, out)?;
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
            let mut data = data_of(shared, transaction, *database, *random);
            let ran = (spec.run)(&mut data, words, out);
            shared.command_counters[*number].note_time(began.elapsed(), 1);
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

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;
    use logd_engine::Ticket;

    #[test]
    fn queued_commands_run_as_one_and_a_failing_one_leaves_the_others_be() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "SET text abc => +OK
             MULTI => +OK
             SET a 1 => +QUEUED
             INCR text => +QUEUED
             PING => +QUEUED
             INCR a => +QUEUED
             GET a => +QUEUED
             EXEC => *5 +OK -ERR value is not an integer or out of range +PONG :2 $1 2
             GET a => $1 2
             EXEC => -ERR EXEC without MULTI",
        );
        let before = daemon.shared.db.last_lsn();
        client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED\nSET b 2 => +QUEUED\nEXEC => *2 +OK +OK");
        assert_eq!(daemon.shared.db.last_lsn(), before.next());
        assert_eq!(client.ticket.lsn, before.next());
        client.play(&daemon, "MULTI => +OK\nGET a => +QUEUED\nEXEC => *1 $1 1\nMULTI => +OK\nEXEC => *0");
        assert_eq!(client.ticket, Ticket::NOTHING);
    }

    #[test]
    fn nesting_and_stray_commands_are_refused_without_ending_the_queue() {
        let daemon = Daemon::new();
        daemon.client().play(
            &daemon,
            "DISCARD => -ERR DISCARD without MULTI
             MULTI => +OK
             MULTI => -ERR MULTI calls can not be nested
             WATCH a => -ERR WATCH inside MULTI is not allowed
             SET a 1 => +QUEUED
             EXEC => *1 +OK
             MULTI => +OK
             SET a 2 => +QUEUED
             DISCARD => +OK
             GET a => $1 1",
        );
    }

    #[test]
    fn a_command_that_cannot_be_queued_makes_exec_refuse_all() {
        let daemon = Daemon::new();
        for bad in ["nosuch", "GET", "CLIENT nosuch", "CLIENT SETNAME", "SAVE", "SHUTDOWN"] {
            let mut client = daemon.client();
            client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED");
            assert!(client.ask(&daemon, bad).starts_with("-ERR "), "{bad}");
            client.play(
                &daemon,
                "EXEC => -EXECABORT Transaction discarded because of previous errors.
                 GET a => $-1
                 EXEC => -ERR EXEC without MULTI",
            );
        }
        assert!(!daemon.shared.shutdown_wanted());
    }

    #[test]
    fn a_watched_key_that_was_changed_by_anyone_stops_exec() {
        let daemon = Daemon::new();
        for change in ["SET a 2", "SET a 1", "DEL a", "EXPIRE a 100", "FLUSHALL", "APPEND a x"] {
            let (mut client, mut other) = (daemon.client(), daemon.client());
            client.play(&daemon, "SET a 1 => +OK\nWATCH a b => +OK\nMULTI => +OK\nSET c 1 => +QUEUED");
            other.ask(&daemon, change);
            client.play(&daemon, "EXEC => *-1\nEXISTS c => :0\nMULTI => +OK\nPING => +QUEUED\nEXEC => *1 +PONG");
        }
    }

    #[test]
    fn a_watched_key_that_stayed_or_was_unwatched_does_not_stop_exec() {
        let daemon = Daemon::new();
        let (mut client, mut other) = (daemon.client(), daemon.client());
        client.play(&daemon, "WATCH a => +OK");
        other.play(&daemon, "SET b 1 => +OK\nGET a => $-1\nDEL a => :0");
        client.play(&daemon, "MULTI => +OK\nSET a 1 => +QUEUED\nEXEC => *1 +OK");
        for end in ["UNWATCH", "DISCARD", "EXEC"] {
            client.play(&daemon, "WATCH a => +OK");
            if end != "UNWATCH" {
                client.ask(&daemon, "MULTI");
            }
            client.ask(&daemon, end);
            other.ask(&daemon, "SET a other");
            client.play(&daemon, "MULTI => +OK\nPING => +QUEUED\nEXEC => *1 +PONG");
        }
        client.play(&daemon, "WATCH a => +OK\nSELECT 1 => +OK\nSET a 1 => +OK\nMULTI => +OK\nEXEC => *0");
    }

    #[test]
    fn a_watched_key_that_ends_before_exec_stops_it_and_one_that_had_ended_before_does_not() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(&daemon, "SET a 1 PX 30 => +OK\nWATCH a => +OK\nMULTI => +OK\nPING => +QUEUED");
        std::thread::sleep(std::time::Duration::from_millis(40));
        client.play(&daemon, "EXEC => *-1\nSET a 1 PX 20 => +OK");
        std::thread::sleep(std::time::Duration::from_millis(30));
        client.play(&daemon, "WATCH a => +OK\nMULTI => +OK\nPING => +QUEUED\nGET a => +QUEUED\nEXEC => *2 +PONG $-1");
    }

    #[test]
    fn select_inside_moves_what_follows_and_commands_without_keys_see_the_whole() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "MULTI => +OK
             SET a 0 => +QUEUED
             SELECT 1 => +QUEUED
             SET a 1 => +QUEUED
             DBSIZE => +QUEUED
             KEYS * => +QUEUED
             SELECT 99 => +QUEUED
             CONFIG GET maxmemory => +QUEUED
             MEMORY USAGE a => +QUEUED
             EXEC => *8 +OK +OK +OK :1 *1 $1 a -ERR DB index is out of range *2 $9 maxmemory $1 0 $-1
             GET a => $1 1
             SELECT 0 => +OK
             GET a => $1 0",
        );
    }

    #[test]
    fn select_inside_an_exec_that_fails_moves_nothing() {
        let daemon = Daemon::new();
        let (mut client, mut other) = (daemon.client(), daemon.client());
        let long = "k".repeat(70_000);
        client.play(&daemon, "MULTI => +OK\nSELECT 2 => +QUEUED\nSET a 1 => +QUEUED\nWAIT 0 0 => +QUEUED");
        assert_eq!(client.ask(&daemon, &format!("RENAME a {long}")), "+QUEUED");
        assert!(client.ask(&daemon, "EXEC").contains("-ERR key of 70000 bytes"));
        client.play(&daemon, "DBSIZE => :1\nSELECT 0 => +OK\nWATCH b => +OK\nMULTI => +OK\nSELECT 3 => +QUEUED");
        other.play(&daemon, "SET b 1 => +OK");
        client.play(&daemon, "EXEC => *-1\nGET b => $1 1");
    }

    #[test]
    fn a_queue_larger_than_a_request_may_be_is_refused() {
        let mut daemon = Daemon::new();
        daemon.shared.settings.input_bytes_max = 200;
        daemon.client().play(
            &daemon,
            "MULTI => +OK
             SET a 1 => +QUEUED
             SET b 1 => -ERR the transaction is larger than a request may be
             EXEC => -EXECABORT Transaction discarded because of previous errors.",
        );
    }

    #[test]
    fn procedures_run_inside_and_waiting_commands_do_not_wait() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "FCALL voter_init 0 2 Ann,Bob => :2
             MULTI => +OK
             FCALL vote 1 3050000001 1 => +QUEUED
             FCALL nosuch 0 => +QUEUED
             FCALL_RO voter_results 0 => +QUEUED
             WAITAOF 1 1 0 => +QUEUED
             WAIT 1 0 => +QUEUED
             UNWATCH => +QUEUED",
        );
        // Whether the client's earlier write is synced by now is the disk's affair.
        let told = client.ask(&daemon, "EXEC");
        let wanted = "*6 :0 -ERR Function not found *2 *3 $3 Ann :1 :1 *3 $3 Bob :2 :0 *2 :N :0 :0 +OK";
        assert!((0..2).any(|count| told == wanted.replace('N', &count.to_string())), "{told}");
    }

    #[test]
    fn quit_and_reset_are_not_queued() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client
            .play(&daemon, "MULTI => +OK\nRESET => +RESET\nEXEC => -ERR EXEC without MULTI\nMULTI => +OK\nQUIT => +OK");
        assert!(client.is_closed);
    }
}
