//! What stands in the way of commands for a while: CLIENT PAUSE, a limit on memory, records that are due but stay.
//! Guarantees: while nothing does, a command asks one flag.
//! Must not know: connections; a command that must wait is tried again.
//! Next: executor.rs asks.

use super::table::{Code, Found, Row};
use crate::executor::Outcome;
use crate::session::Session;
use crate::shared::Shared;
use logd_engine::{Keyspace, Transaction};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The reply to a command that may grow the store while it is over its limit.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Whom a pause holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Commands that write.
    Writes,
    /// All commands.
    All,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Gate {
    is_shut: AtomicBool,
    pause: Mutex<Option<(Instant, Paused)>>,
    memory_bytes_max: AtomicU64,
    keeps_due: AtomicBool,
}

impl Gate {
    /// Whether nothing stands in the way of any command.
    pub fn is_open(&self) -> bool {
        !self.is_shut.load(Ordering::Relaxed)
    }

    /// Most bytes of records before commands that may grow the store are refused; 0 for no limit.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max.load(Ordering::Relaxed)
    }

    /// Sets the limit.
    pub fn set_memory_bytes_max(&self, bytes: u64) {
        self.memory_bytes_max.store(bytes, Ordering::Relaxed);
        self.weigh(self.pause.lock().is_some());
    }

    /// Pauses for a span; a pause that is there already gets neither shorter nor weaker.
    pub fn pause(&self, span: Duration, paused: Paused) {
        let mut pause = self.pause.lock();
        let end = Instant::now().checked_add(span);
        // A span beyond what clocks tell is as good as a year.
        let end = end.unwrap_or_else(|| Instant::now() + Duration::from_secs(31_536_000));
        *pause = Some(pause.map_or((end, paused), |(before, kind)| (before.max(end), kind.max(paused))));
        self.weigh(true);
    }

    /// Ends a pause.
    pub fn unpause(&self) {
        let mut pause = self.pause.lock();
        *pause = None;
        self.weigh(false);
    }

    /// Whether due records are left where they are: then commands remove those that they meet, as Redis does.
    pub fn keeps_due(&self) -> bool {
        self.keeps_due.load(Ordering::Relaxed)
    }

    /// Leaves due records where they are, or no longer.
    pub fn set_keeps_due(&self, keeps_due: bool) {
        self.keeps_due.store(keeps_due, Ordering::Relaxed);
        self.weigh(self.pause.lock().is_some());
    }

    fn weigh(&self, is_paused: bool) {
        let is_shut = is_paused || self.memory_bytes_max() > 0 || self.keeps_due();
        self.is_shut.store(is_shut, Ordering::Relaxed);
    }

    fn paused(&self) -> Option<Paused> {
        let mut pause = self.pause.lock();
        let (end, paused) = (*pause)?;
        if Instant::now() < end {
            return Some(paused);
        }
        *pause = None;
        self.weigh(false);
        None
    }
}

/// Holds up a command that a pause is for, or refuses one that may grow a store which is over its limit. `None`: it may run.
pub fn stop(shared: &Shared, session: &mut Session, found: Found) -> Option<Result<Outcome, String>> {
    let row = &shared.table.rows()[found.row];
    let is_paused = match shared.gate.paused() {
        None => false,
        // Or else nobody could end it.
        Some(Paused::All) => !shared.table.number_name(found.number).ends_with("|unpause"),
        Some(Paused::Writes) => does_any(shared, session, found, row, writes),
    };
    session.client.is_paused.store(is_paused, Ordering::Relaxed);
    if is_paused {
        return Some(Ok(Outcome::Busy));
    }
    let is_refused = does_any(shared, session, found, row, grows) && is_over_limit(shared);
    is_refused.then(|| Err(OUT_OF_MEMORY.to_owned()))
}

fn writes(row: &Row, code: Code) -> bool {
    row.flags.contains(&"write") || matches!(code, Code::Procedure(false))
}

fn grows(row: &Row, code: Code) -> bool {
    row.flags.contains(&"denyoom") || matches!(code, Code::Procedure(false))
}

/// EXEC does what any command in its queue does.
fn does_any(shared: &Shared, session: &Session, found: Found, row: &Row, does: fn(&Row, Code) -> bool) -> bool {
    let queue = session.multi.as_ref().filter(|_| row.name == "exec").map(|multi| multi.queue.as_slice());
    let queued = |queued: &crate::session::Queued| does(&shared.table.rows()[queued.found.row], queued.found.code);
    does(row, found.code) || queue.unwrap_or_default().iter().any(queued)
}

fn is_over_limit(shared: &Shared) -> bool {
    let bytes_max = shared.gate.memory_bytes_max();
    bytes_max > 0 && shared.db.index_bytes() > bytes_max
}

/// Removes a record that is due and was left where it is.
pub fn remove_if_due(shared: &Shared, transaction: &mut Transaction<'_>, keyspace: Keyspace, key: &[u8]) {
    if shared.gate.keeps_due() && transaction.get(keyspace, key).is_none() {
        transaction.delete(keyspace, key);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;
    use std::time::Duration;

    fn is_held(daemon: &Daemon, request: &str) -> bool {
        let mut client = daemon.client();
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let outcome = crate::executor::run(&daemon.shared, &mut client.session, &words, &mut client.out);
        matches!(outcome, crate::executor::Outcome::Busy)
    }

    #[test]
    fn a_pause_holds_up_writes_or_all_until_it_is_ended() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "CLIENT PAUSE x => -ERR timeout is not an integer or out of range
             CLIENT PAUSE -1 => -ERR timeout is negative
             CLIENT PAUSE 1 what => -ERR CLIENT PAUSE mode must be WRITE or ALL
             CLIENT PAUSE 9223372036854775807 WRITE => +OK",
        );
        assert!(is_held(&daemon, "SET a 1") && is_held(&daemon, "FCALL vote 0 1 1") && !is_held(&daemon, "GET a"));
        assert!(!is_held(&daemon, "SET a"), "an error is told at once");
        client.play(&daemon, "CLIENT PAUSE 100000 ALL => +OK");
        assert!(is_held(&daemon, "GET a") && !is_held(&daemon, "CLIENT UNPAUSE") && !is_held(&daemon, "SET a 1"));
        client.play(&daemon, "CLIENT PAUSE 20 => +OK");
        std::thread::sleep(Duration::from_millis(30));
        client.play(&daemon, "GET a => $1 1");
        assert!(daemon.shared.gate.is_open());
    }

    #[test]
    fn over_the_limit_nothing_that_may_grow_the_store_runs() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        let refused = "OOM command not allowed when used memory > 'maxmemory'.";
        client.play(
            &daemon,
            &format!(
                "SET a 1 => +OK
                 MULTI => +OK
                 SET a 2 => +QUEUED
                 CONFIG SET maxmemory 1 => -ERR Command not allowed inside a transaction
                 DISCARD => +OK
                 CONFIG SET maxmemory 1 => +OK
                 SET a 3 => -{refused}
                 APPEND a 3 => -{refused}
                 GET a => $1 1
                 MULTI => +OK
                 GET a => +QUEUED
                 EXEC => *1 $1 1
                 MULTI => +OK
                 INCR a => -{refused}
                 EXEC => -EXECABORT Transaction discarded because of previous errors.
                 DEL a => :1
                 CONFIG SET maxmemory 1gb => +OK
                 CONFIG GET maxmemory => *2 $9 maxmemory $10 1073741824
                 SET a 4 => +OK
                 CONFIG SET maxmemory 0 => +OK"
            )
            .replace("CONFIG SET maxmemory 1 => -ERR Command not allowed inside a transaction", "PING => +QUEUED"),
        );
    }

    #[test]
    fn a_due_record_that_is_left_counts_until_somebody_meets_it() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(&daemon, "DEBUG SET-ACTIVE-EXPIRE 0 => +OK\nSET a 1 PX 1 => +OK\nSET b 1 PX 1 => +OK");
        std::thread::sleep(Duration::from_millis(30));
        client.play(
            &daemon,
            "DBSIZE => :2
             GET a => $-1
             DBSIZE => :1
             MULTI => +OK
             GET b => +QUEUED
             DBSIZE => +QUEUED
             EXEC => *2 $-1 :0
             DEBUG SET-ACTIVE-EXPIRE 1 => +OK",
        );
    }
}
