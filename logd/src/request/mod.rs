//! Requests as data: the table of names, arity, flags and key places, and what each one runs.
//! Guarantees: a command either validates everything and then changes records, or changes nothing.
//! Must not know: sockets.
//! Next: string.rs for the plainest commands; executor.rs runs the table.

use crate::resp::Out;
use logd_engine::{Keyspace, Transaction};

/// A request's words: the name, then its arguments.
pub type Words<'a> = [&'a [u8]];

/// What a data command works on: one transaction, and the keyspaces behind the numbered databases.
pub struct Data<'d, 'c> {
    /// The transaction: the request's own, or that of the EXEC it is part of.
    pub transaction: &'d mut Transaction<'c>,
    /// Keyspace of each database.
    pub databases: &'d [Keyspace],
    /// The selected database. SELECT inside EXEC moves it.
    pub database: usize,
    /// 64 random bits for this request.
    pub random: u64,
}

impl Data<'_, '_> {
    /// The keyspace of the selected database.
    pub fn keyspace(&self) -> Keyspace {
        self.databases[self.database]
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
