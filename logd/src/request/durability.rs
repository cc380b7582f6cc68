//! Commands about snapshots and about when writes are durable: SAVE, BGSAVE, LASTSAVE, WAITAOF, WAIT, LOGD.DURABILITY, LOGD.ACKLOSS.
//! Guarantees: WAITAOF tells 1 only once all earlier writes of the connection are synced; nothing blocks an event loop.
//! Must not know: how the log syncs.
//! Next: slowlog.rs.

use super::table::{Call, InMulti, ServerSpec};
use super::{Failure, Words, errors};
use crate::executor::{Later, Outcome, failure_reply, level_of};
use crate::number::parse_i64;
use crate::resp::Out;
use crate::session::Session;
use crate::shared::Shared;
use logd_engine::units::Lsn;
use logd_engine::{Db, DurabilityLevel, Error};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const ADMIN: &[&str] = &["admin", "noscript"];
const BLOCKING: &[&str] = &["blocking"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("save", 1, ADMIN, "server", save, "Takes a snapshot and answers when it is on disk.")
        .in_multi(InMulti::Refused),
    ServerSpec::new("bgsave", -1, ADMIN, "server", bgsave, "Starts a snapshot."),
    ServerSpec::new("bgrewriteaof", 1, ADMIN, "server", bgrewriteaof, "Starts a snapshot and shortens the log."),
    ServerSpec::new(
        "lastsave",
        1,
        &["loading", "stale", "fast"],
        "server",
        lastsave,
        "Tells the last snapshot's time.",
    ),
    ServerSpec::new("wait", 3, BLOCKING, "generic", wait, "Would wait for replicas; there are none."),
    ServerSpec::new("waitaof", 4, BLOCKING, "generic", waitaof, "Waits until this connection's writes are synced."),
    ServerSpec::new("logd.durability", -1, &["fast"], "logd", level, "Tells or sets this connection's level."),
    ServerSpec::new("logd.ackloss", 1, ADMIN, "logd", acknowledge, "Takes note of what a salvage lost.")
        .in_multi(InMulti::Refused),
    ServerSpec::new("logd.digest", 1, &["readonly"], "logd", digest, "Tells a digest of all records.")
        .in_multi(InMulti::Refused),
];

type Writer<T> = fn(&Shared, T, &mut Out);

/// The result of a thread that does what must not block an event loop.
struct Awaited<T> {
    place: Arc<Mutex<Option<Result<T, Error>>>>,
    write: Writer<T>,
}

/// Runs `work` in a thread of its own; `write` writes the reply when it is done.
fn in_thread<T: Send + 'static>(
    db: Db,
    name: &str,
    work: fn(&Db) -> Result<T, Error>,
    write: Writer<T>,
) -> Result<Outcome, Failure> {
    let place = Arc::new(Mutex::new(None));
    let result = Arc::clone(&place);
    let run = move || {
        let done = work(&db);
        *result.lock() = Some(done);
    };
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| Failure::Reply(format!("ERR no thread could be started: {error}")))?;
    Ok(Outcome::Later(Box::new(Awaited { place, write })))
}

impl<T: Send> Later for Awaited<T> {
    fn poll(&mut self, shared: &Shared, _: &mut Session, out: &mut Out, _: Instant) -> bool {
        match self.place.lock().take() {
            None => return false,
            Some(Ok(result)) => (self.write)(shared, result, out),
            Some(Err(error)) => {
                let text = failure_reply(error.into()).unwrap_or_else(|| "ERR the log is busy".to_owned());
                shared.note_error(&text);
                out.error(&text);
            }
        }
        true
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn save(call: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    in_thread(call.shared.db.clone(), "logd-save", Db::checkpoint, |shared, (), out| {
        note_saved(shared);
        out.ok();
    })
}

fn note_saved(shared: &Shared) {
    shared.saved_seconds.store(shared.db.time().wall().0 / 1000, Ordering::Relaxed);
}

fn acknowledge(call: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    in_thread(call.shared.db.clone(), "logd-ackloss", Db::acknowledge_loss, |_, was_there, out| {
        out.integer(was_there.into());
    })
}

fn digest(call: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    in_thread(
        call.shared.db.clone(),
        "logd-digest",
        |db| Ok(db.digest()),
        |_, (lsn, digest), out| {
            out.array(2);
            out.integer(lsn.0 as i64);
            out.bulk(format!("{digest}").as_bytes());
        },
    )
}

fn bgsave(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let is_scheduled = match &words[1..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"schedule") => true,
        _ => return Err(errors::syntax()),
    };
    match (call.shared.db.start_checkpoint()?, is_scheduled) {
        (true, _) => out.simple("Background saving started"),
        (false, true) => out.simple("Background saving scheduled"),
        (false, false) => return Err(Failure::reply("ERR Background save already in progress")),
    }
    Ok(Outcome::WRITTEN)
}

fn bgrewriteaof(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    // One that is asked for while another runs follows it, as Redis schedules a rewrite behind a save.
    let word = if call.shared.db.start_checkpoint()? { "started" } else { "scheduled" };
    out.simple(&format!("Background append only file rewriting {word}"));
    Ok(Outcome::WRITTEN)
}

fn lastsave(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let stats = call.shared.db.stats();
    out.integer(last_saved_seconds(call.shared, &stats) as i64);
    Ok(Outcome::WRITTEN)
}

/// When the last snapshot that succeeded ended, or else when the daemon began, by the wall clock.
pub fn last_saved_seconds(shared: &Shared, stats: &logd_engine::Stats) -> u64 {
    let newest = stats
        .snapshots
        .rows
        .iter()
        .rev()
        .find(|row| row.error.is_none())
        .map_or(0, |row| (row.start_millis + row.duration_millis) / 1000);
    newest.max(shared.saved_seconds.load(Ordering::Relaxed))
}

/// A reply that waits for syncs, for replicas that do not exist, or for the time to pass.
struct Acknowledged {
    lsn: Lsn,
    wants_local: bool,
    wants_replicas: bool,
    is_waitaof: bool,
    until: Option<Instant>,
}

impl Acknowledged {
    fn try_write(&self, shared: &Shared, out: &mut Out, is_over: bool) -> bool {
        let is_synced = shared.db.watermarks().synced >= self.lsn;
        let is_met = (is_synced || !self.wants_local) && !self.wants_replicas;
        // A log that has failed will sync nothing more: tell so, do not let wait for ever.
        let is_lost = self.wants_local && !is_synced && shared.db.failure().is_some();
        if !is_met && !is_over && !is_lost {
            return false;
        }
        if self.is_waitaof {
            out.array(2);
            out.integer(is_synced.into());
        }
        out.integer(0);
        true
    }
}

impl Later for Acknowledged {
    fn poll(&mut self, shared: &Shared, _: &mut Session, out: &mut Out, now: Instant) -> bool {
        self.try_write(shared, out, self.until.is_some_and(|until| now >= until))
    }

    fn deadline(&self) -> Option<Instant> {
        self.until
    }
}

fn wait(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let replicas = parse_i64(words[1]).ok_or_else(errors::not_an_integer)?;
    let until = deadline(words[2])?;
    let wants_replicas = replicas > 0;
    let reply = Acknowledged { lsn: Lsn::NONE, wants_local: false, wants_replicas, is_waitaof: false, until };
    write_or_wait(call, reply, out)
}

fn waitaof(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let local = parse_i64(words[1]).ok_or_else(errors::not_an_integer)?;
    if !(0..=1).contains(&local) {
        return Err(Failure::reply("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = parse_i64(words[2]).filter(|count| *count >= 0);
    let replicas = replicas.ok_or_else(|| Failure::reply("ERR value is out of range, must be positive"))?;
    let until = deadline(words[3])?;
    let (wants_local, wants_replicas) = (local == 1, replicas > 0);
    let lsn = call.session.write_last.lsn;
    if wants_local && call.shared.db.watermarks().synced < lsn {
        call.shared.db.request_sync();
    }
    write_or_wait(call, Acknowledged { lsn, wants_local, wants_replicas, is_waitaof: true, until }, out)
}

fn write_or_wait(call: &Call<'_>, reply: Acknowledged, out: &mut Out) -> Result<Outcome, Failure> {
    if reply.try_write(call.shared, out, call.in_exec) {
        return Ok(Outcome::WRITTEN);
    }
    Ok(Outcome::Later(Box::new(reply)))
}

/// Milliseconds from now; 0 for without end.
fn deadline(word: &[u8]) -> Result<Option<Instant>, Failure> {
    let millis = parse_i64(word).ok_or_else(|| Failure::reply("ERR timeout is not an integer or out of range"))?;
    match u64::try_from(millis) {
        Err(_) => Err(Failure::reply("ERR timeout is negative")),
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Instant::now().checked_add(Duration::from_millis(millis))),
    }
}

/// The level in force for a connection's writes.
pub fn level_in_force(shared: &Shared, session: &Session) -> DurabilityLevel {
    level_of(shared, session).unwrap_or(shared.db.options().durability)
}

fn level(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    match &words[1..] {
        [] => out.bulk(level_in_force(call.shared, call.session).word().as_bytes()),
        [word] if word.eq_ignore_ascii_case(b"default") => {
            call.session.level = None;
            out.ok();
        }
        [word] => {
            let level: DurabilityLevel = String::from_utf8_lossy(word)
                .to_ascii_lowercase()
                .parse()
                .map_err(|text| Failure::Reply(format!("ERR {text}")))?;
            if level == DurabilityLevel::Volatile {
                return Err(Failure::reply("ERR volatile is for whole keyspaces, not for writes"));
            }
            call.session.level = Some(level);
            out.ok();
        }
        _ => return Err(errors::wrong_arity("logd.durability")),
    }
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::Acknowledged;
    use crate::resp::Out;
    use crate::testing::Daemon;
    use logd_engine::DurabilityLevel;
    use logd_engine::units::Lsn;

    #[test]
    fn waitaof_tells_one_local_log_and_no_replica() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "WAITAOF 1 0 0 => *2 :1 :0
             SET a 1 => +OK
             WAITAOF 1 0 1000 => *2 :1 :0
             WAITAOF 0 0 0 => *2 :1 :0
             WAITAOF 1 1 5 => *2 :1 :0
             WAITAOF 2 0 0 => -ERR value is out of range, value must between 0 and 1
             WAITAOF 1 -1 0 => -ERR value is out of range, must be positive
             WAITAOF 1 0 x => -ERR timeout is not an integer or out of range
             WAITAOF 1 0 -1 => -ERR timeout is negative
             WAIT 0 0 => :0
             WAIT 1 5 => :0",
        );
        client.start(&daemon, &[b"WAIT", b"1", b"0"]);
        assert!(client.later.is_some_and(|later| later.deadline().is_none()));
    }

    #[test]
    fn a_write_that_is_not_synced_is_waited_for_until_the_time_is_over() {
        let daemon = Daemon::new();
        let reply = Acknowledged {
            lsn: Lsn(1_000_000),
            wants_local: true,
            wants_replicas: false,
            is_waitaof: true,
            until: None,
        };
        let mut out = Out::new();
        assert!(!reply.try_write(&daemon.shared, &mut out, false));
        assert!(out.is_empty());
        assert!(reply.try_write(&daemon.shared, &mut out, true));
        assert_eq!(out.bytes(), b"*2\r\n:0\r\n:0\r\n");
    }

    #[test]
    fn the_level_of_writes_is_the_stores_until_it_is_changed_for_all_or_for_one() {
        let daemon = Daemon::new();
        let (mut client, mut other) = (daemon.client(), daemon.client());
        client.play(&daemon, "LOGD.DURABILITY => $6 synced\nCONFIG GET appendfsync => *2 $11 appendfsync $6 always");
        client.play(&daemon, "SET a 1 => +OK");
        assert_eq!(client.ticket.level, DurabilityLevel::Synced);
        client.play(&daemon, "CONFIG SET appendfsync everysec => +OK\nSET a 1 => +OK");
        assert_eq!(client.ticket.level, DurabilityLevel::Accepted);
        other.play(&daemon, "CONFIG GET appendfsync => *2 $11 appendfsync $8 everysec\nINCR n => :1");
        assert_eq!(other.ticket.level, DurabilityLevel::Accepted);
        other.play(&daemon, "LOGD.DURABILITY written => +OK\nMULTI => +OK\nINCR n => +QUEUED\nEXEC => *1 :2");
        assert_eq!(other.ticket.level, DurabilityLevel::Written);
        client.play(&daemon, "CONFIG SET appendfsync always => +OK\nAPPEND a 1 => :2");
        assert_eq!(client.ticket.level, DurabilityLevel::Synced);
        assert!(other.ask(&daemon, "LOGD.DURABILITY volatile").starts_with("-ERR volatile"));
    }

    #[test]
    fn snapshots_are_started_or_awaited() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "SAVE => +OK
             BGSAVE => +Background saving started
             BGSAVE x => -ERR syntax error",
        );
        let told = client.ask(&daemon, "BGREWRITEAOF");
        let (front, word) = told.rsplit_once(' ').unwrap();
        assert_eq!(front, "+Background append only file rewriting");
        assert!(["started", "scheduled"].contains(&word), "{told}");
        assert!(client.ask(&daemon, "LASTSAVE").starts_with(":1"));
        let digest = client.ask(&daemon, "LOGD.DIGEST");
        let hex = digest.rsplit(' ').next().unwrap_or_default();
        assert!(digest.starts_with("*2 :"), "{digest}");
        assert!(hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    }
}
