//! Commands to the server that are no numbers and no settings: TIME, ROLE, SHUTDOWN, MEMORY, DEBUG.
//! Guarantees: what cannot be done here is refused, not pretended.
//! Must not know: how the daemon stops; it only asks for it.
//! Next: info.rs.

use super::connection::{REDIS_VERSION, accept};
use super::table::{Call, InMulti, ServerSpec, SubSpec, container};
use super::{Failure, KeyPlaces, Words, errors};
use crate::executor::{Later, Outcome, note_slow};
use crate::resp::Out;
use crate::session::Session;
use crate::shared::Shared;
use std::time::{Duration, Instant};

const FLAGS: &[&str] = &["loading", "stale", "fast"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];
/// Bytes a record takes besides its key and value: node head, place, due time; an estimate.
const RECORD_OVERHEAD_BYTES: usize = 32;

/// The rows of this file.
pub const SPECS: &[ServerSpec] =
    &[
        ServerSpec::new("time", 1, FLAGS, "server", time, "Tells the wall clock's time."),
        ServerSpec::new("role", 1, FLAGS, "server", role, "Tells that this is a lone primary."),
        ServerSpec::new("lolwut", -1, &["readonly", "fast"], "server", lolwut, "Tells the version."),
        ServerSpec::new("shutdown", -1, ADMIN, "server", shutdown, "Stops the server.").in_multi(InMulti::Refused),
        ServerSpec::new("memory", -2, &["readonly"], "server", container, "Tells of memory.")
            .with(MEMORY)
            .at(KeyPlaces { first: 2, last: 2, step: 1 }),
        ServerSpec::new("debug", -2, ADMIN, "server", container, "For test suites.").with(DEBUG),
    ];

const MEMORY: &[SubSpec] = &[
    SubSpec::new("usage", -3, memory_usage),
    SubSpec::new("stats", 2, memory_stats),
    SubSpec::new("doctor", 2, memory_doctor),
    SubSpec::new("purge", 2, accept),
    SubSpec::new("help", 2, memory_help),
];

const DEBUG: &[SubSpec] = &[
    SubSpec::new("sleep", 3, debug_sleep),
    SubSpec::new("object", -3, debug_object),
    SubSpec::new("jmap", 2, accept),
    SubSpec::new("set-active-expire", 3, set_active_expire),
    SubSpec::new("log", 3, accept),
    SubSpec::new("set-disable-deny-scripts", 3, accept),
    SubSpec::new("quicklist-packed-threshold", 3, accept),
    SubSpec::new("stringmatch-len", -3, accept),
    SubSpec::new("help", 2, debug_help),
];

fn time(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    out.array(2);
    out.bulk(now.as_secs().to_string().as_bytes());
    out.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(Outcome::WRITTEN)
}

fn role(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.array(3);
    out.bulk(b"master");
    out.integer(0);
    out.array(0);
    Ok(Outcome::WRITTEN)
}

fn lolwut(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.verbatim(&format!("logd {} (Redis ver. {REDIS_VERSION})\n", env!("CARGO_PKG_VERSION")));
    Ok(Outcome::WRITTEN)
}

/// As in Redis, a shutdown that works is not answered: the connection ends.
fn shutdown(call: &mut Call<'_>, words: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    let mut with_snapshot = None;
    for word in &words[1..] {
        match String::from_utf8_lossy(word).to_ascii_lowercase().as_str() {
            "save" if with_snapshot != Some(false) => with_snapshot = Some(true),
            "nosave" if with_snapshot != Some(true) => with_snapshot = Some(false),
            "now" | "force" => {}
            "abort" if words.len() == 2 => return Err(Failure::reply("ERR No shutdown in progress.")),
            _ => return Err(errors::syntax()),
        }
    }
    call.shared.shut_down(with_snapshot == Some(true));
    Ok(Outcome::Close)
}

fn memory_usage(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    match &words[3..] {
        [] => {}
        [option, count] if option.eq_ignore_ascii_case(b"samples") => {
            super::value::integer(count)?;
        }
        _ => return Err(errors::syntax()),
    }
    let (key, keyspace) = (words[2], call.shared.databases[call.session.database]);
    match call.shared.db.get_with(keyspace, key, |record| record.map(|record| record.value.len())) {
        Some(bytes) => out.integer((key.len() + bytes + RECORD_OVERHEAD_BYTES) as i64),
        None => out.null(),
    }
    Ok(Outcome::WRITTEN)
}

fn memory_stats(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let stats = call.shared.db.stats();
    let keys: usize = call.shared.databases.iter().map(|keyspace| call.shared.db.len(*keyspace)).sum();
    let per_key = if keys == 0 { 0 } else { stats.index.bytes / keys as u64 };
    let rows = [
        ("peak.allocated", super::info::memory_used_peak()),
        ("total.allocated", super::info::memory_used()),
        ("keys.count", keys as u64),
        ("keys.bytes-per-key", per_key),
        ("dataset.bytes", stats.index.bytes),
        ("clients.normal", 0),
    ];
    out.map(rows.len());
    for (name, number) in rows {
        out.bulk(name.as_bytes());
        out.integer(number as i64);
    }
    Ok(Outcome::WRITTEN)
}

fn memory_doctor(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.verbatim("No memory problem is looked for here; see INFO memory for the numbers.");
    Ok(Outcome::WRITTEN)
}

fn memory_help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("MEMORY", MEMORY, out);
    Ok(Outcome::WRITTEN)
}

fn debug_help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("DEBUG", DEBUG, out);
    Ok(Outcome::WRITTEN)
}

/// Only the connection that asks sleeps; Redis stops everyone.
fn debug_sleep(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let seconds: Option<f64> = std::str::from_utf8(words[2]).ok().and_then(|text| text.parse().ok());
    let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let until = span.and_then(|span| Instant::now().checked_add(span));
    let until = until.ok_or_else(|| Failure::reply("ERR value is not a valid float"))?;
    if call.in_exec {
        out.ok();
        return Ok(Outcome::WRITTEN);
    }
    let words = words.iter().map(|word| Box::from(*word)).collect();
    Ok(Outcome::Later(Box::new(Sleep { began: Instant::now(), until, words })))
}

/// Off: records that are due stay until a command meets them, as test suites want it.
fn set_active_expire(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let is_active = super::value::integer(words[2])? != 0;
    call.shared.gate.set_keeps_due(!is_active);
    call.shared.db.set_active_expiry(is_active);
    out.ok();
    Ok(Outcome::WRITTEN)
}

struct Sleep {
    began: Instant,
    until: Instant,
    words: Vec<Box<[u8]>>,
}

impl Later for Sleep {
    fn poll(&mut self, shared: &Shared, session: &mut Session, out: &mut Out, now: Instant) -> bool {
        let is_over = now >= self.until;
        if is_over {
            let words: Vec<&[u8]> = self.words.iter().map(|word| &**word).collect();
            note_slow(shared, session, &words, now, now - self.began);
            out.ok();
        }
        is_over
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.until)
    }
}

fn debug_object(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let keyspace = call.shared.databases[call.session.database];
    let told = call.shared.db.get_with(keyspace, words[2], |record| {
        record.map(|record| {
            let bytes = record.value.get(1..).unwrap_or_default();
            (super::value::encoding_of(bytes), bytes.len())
        })
    });
    let (encoding, bytes) = told.ok_or_else(errors::no_such_key)?;
    out.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 lru_seconds_idle:0"
    ));
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn shutdown_calls_the_hook_and_is_not_answered() {
        let daemon = Daemon::new();
        let called = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&called);
        daemon.shared.on_shutdown(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let mut client = daemon.client();
        client.play(
            &daemon,
            "SHUTDOWN x => -ERR syntax error
             SHUTDOWN SAVE NOSAVE => -ERR syntax error
             SHUTDOWN ABORT => -ERR No shutdown in progress.",
        );
        assert!(!daemon.shared.shutdown_wanted());
        client.play(&daemon, "SHUTDOWN SAVE NOW => ~~");
        assert!(client.is_closed && daemon.shared.shutdown_wanted() && daemon.shared.shutdown_wants_snapshot());
        assert_eq!(called.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_small_commands_answer() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "ROLE => *3 $6 master :0 *0
             SET a 123 => +OK
             MEMORY USAGE a => :37
             MEMORY USAGE b => $-1
             MEMORY PURGE => +OK
             DEBUG SLEEP 0.001 => +OK
             DEBUG SLEEP x => -ERR value is not a valid float
             DEBUG SET-ACTIVE-EXPIRE 0 => +OK
             DEBUG OBJECT a => +Value at:0x0 refcount:1 encoding:int serializedlength:3 lru:0 lru_seconds_idle:0
             DEBUG OBJECT b => -ERR no such key",
        );
        assert!(client.ask(&daemon, "TIME").starts_with("*2 $10 1"));
        assert!(client.ask(&daemon, "MEMORY STATS").contains("$10 keys.count :1"));
    }
}
