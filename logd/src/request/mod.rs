//! Requests as data: the table of names, arity, flags and key places, and what each one runs.
//! Guarantees: a command either validates everything and then changes records, or changes nothing.
//! Must not know: sockets.
//! Next: string.rs for the plainest commands; executor.rs runs the table.

pub mod bit;
pub mod bit_field;
pub mod bit_group;
pub mod client;
pub mod command;
pub mod config;
pub mod connection;
pub mod counter;
pub mod cursors;
pub mod database;
pub mod dump;
pub mod dump_payload;
pub mod durability;
pub mod errors;
pub mod expiry;
pub mod info;
pub mod key;
pub mod lcs;
pub mod moment;
pub mod multi;
pub mod object;
pub mod pause;
pub mod procedure;
pub mod scan;
pub mod server;
pub mod set;
pub mod slowlog;
pub mod string;
pub mod table;
#[cfg(test)]
mod tests;
pub mod value;

use crate::resp::Out;
use crate::shared::Lookups;
use cursors::Cursors;
use logd_engine::{EngineTime, Keyspace, Record, Transaction};

/// All data commands, group by group.
pub const DATA_SPECS: &[&[DataSpec]] = &[
    string::SPECS,
    set::SPECS,
    counter::SPECS,
    bit::SPECS,
    bit_group::SPECS,
    bit_field::SPECS,
    lcs::SPECS,
    key::SPECS,
    expiry::SPECS,
    object::SPECS,
    dump::SPECS,
    scan::SPECS,
    database::SPECS,
];

/// A request's words: the name, then its arguments.
pub type Words<'a> = [&'a [u8]];

/// What a data command works on: one transaction, and the keyspaces behind the numbered databases.
pub struct Data<'d, 'c> {
    /// The transaction: the request's own, or that of the EXEC it is part of.
    pub transaction: &'d mut Transaction<'c>,
    /// Keyspace of each database.
    pub databases: &'d [Keyspace],
    /// Every keyspace of the store, for FLUSHALL; whether the databases are in it or not does not matter.
    pub all_keyspaces: &'d [Keyspace],
    /// The selected database. SELECT inside EXEC moves it.
    pub database: usize,
    /// 64 random bits for this request.
    pub random: u64,
    /// Relates engine time to the wall clock, for commands that name a moment.
    pub time: &'d EngineTime,
    /// Where the SCANs of all clients stand.
    pub cursors: &'d Cursors,
    /// Counts what reading commands find.
    pub lookups: &'d Lookups,
}

impl Data<'_, '_> {
    /// The keyspace of the selected database.
    pub fn keyspace(&self) -> Keyspace {
        self.databases[self.database]
    }

    /// The record of a key, for a command that reads: it counts as found or missed.
    pub fn look_up(&self, key: &[u8]) -> Option<Record<'_>> {
        let record = self.transaction.get(self.keyspace(), key);
        self.lookups.note(record.is_some());
        record
    }
}

/// A data command: runs over a transaction and writes exactly one reply. `Err` is an error reply in full ("ERR …",
/// "WRONGTYPE …"); nothing may have been written to `out` or changed in the records then, except through
/// `Failure::Engine`, which undoes the whole transaction.
pub type DataCommand = fn(&mut Data<'_, '_>, &Words<'_>, &mut Out) -> Result<(), Failure>;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// An error reply; the transaction goes on with what it had.
    Reply(String),
    /// The engine's own error (Full, Busy, Failed, too large): everything is undone.
    Engine(logd_engine::Error),
}

impl From<logd_engine::Error> for Failure {
    fn from(error: logd_engine::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    /// An error reply.
    pub fn reply(text: impl Into<String>) -> Failure {
        Failure::Reply(text.into())
    }
}

/// Where a command's keys are, as COMMAND INFO tells it: first word, last word (negative: from the end), step. All 0: no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPlaces {
    /// First key's word.
    pub first: i32,
    /// Last key's word.
    pub last: i32,
    /// Distance of keys.
    pub step: i32,
}

impl KeyPlaces {
    /// No keys: the command needs all shards.
    pub const NONE: KeyPlaces = KeyPlaces { first: 0, last: 0, step: 0 };
    /// The first argument.
    pub const ONE: KeyPlaces = KeyPlaces { first: 1, last: 1, step: 1 };
    /// The first two arguments.
    pub const TWO: KeyPlaces = KeyPlaces { first: 1, last: 2, step: 1 };
    /// Every argument.
    pub const ALL: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 1 };
    /// Every other argument, beginning with the first.
    pub const PAIRS: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 2 };
}

/// One row of a command table.
pub struct DataSpec {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of words; negative: at least so many.
    pub arity: i32,
    /// "write", "readonly", "fast", "denyoom" …, as COMMAND INFO tells them.
    pub flags: &'static [&'static str],
    /// Where its keys are.
    pub keys: KeyPlaces,
    /// "string", "generic", …, as COMMAND DOCS tells it.
    pub group: &'static str,
    /// One sentence for COMMAND DOCS.
    pub summary: &'static str,
    /// The code.
    pub run: DataCommand,
}

impl DataSpec {
    /// A row, its columns in the order of COMMAND INFO.
    pub const fn new(
        name: &'static str,
        arity: i32,
        flags: &'static [&'static str],
        keys: KeyPlaces,
        group: &'static str,
        run: DataCommand,
        summary: &'static str,
    ) -> DataSpec {
        DataSpec { name, arity, flags, keys, group, summary, run }
    }
}

/// The flags that most commands have, as COMMAND INFO tells them.
pub mod flags {
    /// Reads, in constant time.
    pub const READ_FAST: &[&str] = &["readonly", "fast"];
    /// Reads.
    pub const READ: &[&str] = &["readonly"];
    /// Writes and may grow the store, in constant time.
    pub const GROW_FAST: &[&str] = &["write", "denyoom", "fast"];
    /// Writes and may grow the store.
    pub const GROW: &[&str] = &["write", "denyoom"];
    /// Writes, in constant time.
    pub const WRITE_FAST: &[&str] = &["write", "fast"];
    /// Writes.
    pub const WRITE: &[&str] = &["write"];
}
