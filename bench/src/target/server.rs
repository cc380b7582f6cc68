//! A server that speaks RESP as a store of keys and values: plain commands, pipelined.
//! Guarantees: an operation ends at its reply; a read-modify-write is a GET and then a SET.
//! Must not know: when operations start.
//! Next: wire.rs; started.rs starts servers of our own.

use super::TargetError;
use super::replies::unexpected;
use super::resp::{about, place};
use super::started::StartedServer;
use super::store::StoreTarget;
use super::wire::{Reply, Wire};
use crate::args::TargetAddress;
use crate::driver::{Done, Lost, Session};
use crate::workload::Outcome;
use crate::workload::mixed::CODE_MISSING;
use crate::workload::operation::{Key, Kind, Operation};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Requests of a load that may be outstanding.
const LOAD_FLYING_MAX: usize = 512;

/// A server.
pub struct ServerStore {
    address: TargetAddress,
    started: Option<StartedServer>,
    asking: Mutex<Option<Wire>>,
}

impl ServerStore {
    /// The server at an address; stopped at `close` if it was started for us.
    pub fn new(address: TargetAddress, started: Option<StartedServer>) -> ServerStore {
        ServerStore { address, started, asking: Mutex::new(None) }
    }

    fn connect(&self) -> Result<Wire, TargetError> {
        Wire::connect(&self.address).map_err(|source| TargetError::Reach { place: place(&self.address), source })
    }

    /// The text of INFO's section about snapshots, over a connection kept for that.
    fn info(&self) -> Option<String> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.is_none() {
            *asking = self.connect().ok();
        }
        let reply = asking.as_mut()?.ask(&[b"INFO", b"persistence"], Duration::from_secs(1));
        if reply.is_err() {
            *asking = None;
        }
        reply.ok()?.text()
    }
}

impl StoreTarget for ServerStore {
    fn describe(&self) -> String {
        let about = self.connect().ok().map(|mut wire| about(&mut wire)).unwrap_or_default();
        format!("{}{about}", place(&self.address))
    }

    fn load(&self, puts: &mut dyn Iterator<Item = Operation>) -> Result<(), TargetError> {
        let mut wire = self.connect()?;
        let (mut flying, mut value) = (0, Vec::new());
        let mut puts = puts.fuse();
        loop {
            while flying < LOAD_FLYING_MAX
                && let Some(put) = puts.next()
            {
                put.value(&mut value);
                wire.send(&[b"SET", &put.key(), &value]);
                flying += 1;
            }
            if flying == 0 {
                return Ok(());
            }
            wire.wait(Duration::from_millis(100))?;
            while let Some(reply) = wire.next()? {
                flying -= 1;
                if let Reply::Error(_) = reply {
                    return Err(unexpected("SET", &reply));
                }
            }
        }
    }

    fn session(&self) -> Result<Box<dyn Session<Operation>>, TargetError> {
        Ok(Box::new(ServerSession { wire: self.connect()?, asked: VecDeque::new(), value: Vec::new() }))
    }

    fn snapshots(&self) -> Option<(u64, bool)> {
        let info = self.info()?;
        let number = |name: &str| -> Option<u64> {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
        };
        let running =
            ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"].iter().filter_map(|name| number(name)).sum();
        let done = number("rdb_last_save_time").unwrap_or(0) + number("aof_rewrites").unwrap_or(0);
        Some((done, Some(running) > Some(0)))
    }

    fn process(&self) -> Option<u32> {
        self.started.as_ref().map(StartedServer::process)
    }

    fn close(&mut self) -> Result<(), TargetError> {
        *self.asking.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(started) = self.started.take() {
            started.stop();
        }
        Ok(())
    }
}

/// What a reply will be about.
struct Asked {
    token: usize,
    operation: Operation,
    /// The reply of this read is followed by a write of the same operation.
    then_write: bool,
}

struct ServerSession {
    wire: Wire,
    asked: VecDeque<Asked>,
    value: Vec<u8>,
}

impl ServerSession {
    fn send_put(&mut self, operation: &Operation) {
        operation.value(&mut self.value);
        self.wire.send(&[b"SET", &operation.key(), &self.value]);
    }

    fn send_keys(&mut self, command: &[u8], operation: &Operation) {
        let keys: Vec<Key> = operation.keys().collect();
        let words: Vec<&[u8]> = std::iter::once(command).chain(keys.iter().map(|key| key.as_slice())).collect();
        self.wire.send(&words);
    }
}

impl Session<Operation> for ServerSession {
    fn submit(&mut self, token: usize, operation: &Operation) {
        match operation.kind {
            Kind::Read | Kind::Modify => self.wire.send(&[b"GET", &operation.key()]),
            Kind::Put | Kind::Insert => self.send_put(operation),
            // Strings have no order in this protocol, so a scan asks for the keys that follow by name.
            Kind::Scan => self.send_keys(b"MGET", operation),
            Kind::Take => self.send_keys(b"DEL", operation),
        }
        self.asked.push_back(Asked { token, operation: *operation, then_write: operation.kind == Kind::Modify });
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        self.wire.wait(limit)?;
        while let Some(reply) = self.wire.next()? {
            let Asked { token, operation, then_write } =
                self.asked.pop_front().ok_or_else(|| Lost("by a reply that nobody asked for".to_owned()))?;
            if then_write && !matches!(reply, Reply::Error(_)) {
                self.send_put(&operation);
                self.asked.push_back(Asked { token, operation, then_write: false });
            } else {
                done.push(Done { token, outcome: outcome(&operation, &reply) });
            }
        }
        Ok(())
    }
}

fn outcome(operation: &Operation, reply: &Reply) -> Outcome {
    let missing = match (operation.kind, reply) {
        (_, Reply::Error(_)) => return Outcome::Aborted,
        (Kind::Read, Reply::Null) => true,
        (Kind::Scan, Reply::Array(values)) => values.contains(&Reply::Null),
        (Kind::Scan, _) => return Outcome::Aborted,
        (Kind::Take, Reply::Integer(count)) => *count != i64::from(operation.count),
        _ => false,
    };
    if missing { Outcome::Code(CODE_MISSING) } else { Outcome::Code(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::operation::KeyOrder;

    #[test]
    fn replies_say_what_was_found() {
        let ask = |kind, count| Operation { kind, order: KeyOrder::Counted, number: 0, count, bytes: 1, fill: 0 };
        let missing = Outcome::Code(CODE_MISSING);
        assert_eq!(outcome(&ask(Kind::Read, 1), &Reply::Null), missing);
        assert_eq!(outcome(&ask(Kind::Put, 1), &Reply::Simple("OK".to_owned())), Outcome::Code(0));
        assert_eq!(outcome(&ask(Kind::Scan, 2), &Reply::Array(vec![Reply::Integer(1), Reply::Null])), missing);
        assert_eq!(outcome(&ask(Kind::Take, 2), &Reply::Integer(2)), Outcome::Code(0));
        assert_eq!(outcome(&ask(Kind::Put, 1), &Reply::Error("MISCONF".to_owned())), Outcome::Aborted);
    }

    #[test]
    fn a_redis_server_keeps_the_contract_of_stores_where_there_is_one() {
        let binary = std::path::Path::new("redis-server");
        if std::process::Command::new(binary).arg("--version").output().is_err() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (kind, level) = (crate::args::ServerKind::Redis, logd_engine::DurabilityLevel::Synced);
        let started = StartedServer::start(kind, binary, directory.path(), level).unwrap();
        let mut target = ServerStore::new(started.address(), Some(started));
        assert!(target.describe().contains("appendfsync always"));
        assert!(target.snapshots().is_some_and(|(_, running)| !running));
        super::super::test_contract::check(&target);
        target.close().unwrap();
    }
}
