//! The table of all commands: by name, with arity, flags and what each one runs.
//! Guarantees: names and errors of the look-up are Redis'; each command and sub-command has a number for its counts.
//! Must not know: connections.
//! Next: executor.rs runs what is found here.

use super::{DATA_SPECS, DataSpec, Failure, KeyPlaces, Words, errors};
use super::{client, command, config, connection, durability, info, multi, object, procedure, server, slowlog};
use crate::executor::Outcome;
use crate::resp::Out;
use crate::session::Session;
use crate::shared::Shared;
use std::collections::HashMap;

const NAME_BYTES_MAX: usize = 32;
const SHOWN_BYTES_MAX: usize = 128;

/// What a server command works on.
pub struct Call<'a> {
    /// The daemon.
    pub shared: &'a Shared,
    /// The connection.
    pub session: &'a mut Session,
    /// Whether it runs as part of an EXEC: then it must not wait.
    pub in_exec: bool,
}

/// A server command: writes one reply, or says why it does not yet.
pub type ServerCommand = fn(&mut Call<'_>, &Words<'_>, &mut Out) -> Result<Outcome, Failure>;

/// What becomes of a server command between MULTI and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InMulti {
    /// It is queued.
    Queued,
    /// It runs at once.
    Immediate,
    /// It is refused.
    Refused,
}

/// A sub-command.
pub struct SubSpec {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of words, both names included; negative: at least so many.
    pub arity: i32,
    /// The code.
    pub run: ServerCommand,
}

impl SubSpec {
    /// A row.
    pub const fn new(name: &'static str, arity: i32, run: ServerCommand) -> SubSpec {
        SubSpec { name, arity, run }
    }
}

/// A command that is not about records.
pub struct ServerSpec {
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    keys: KeyPlaces,
    group: &'static str,
    summary: &'static str,
    run: ServerCommand,
    subs: &'static [SubSpec],
    in_multi: InMulti,
}

impl ServerSpec {
    /// A row.
    pub const fn new(
        name: &'static str,
        arity: i32,
        flags: &'static [&'static str],
        group: &'static str,
        run: ServerCommand,
        summary: &'static str,
    ) -> ServerSpec {
        let (keys, subs, in_multi) = (KeyPlaces::NONE, &[], InMulti::Queued);
        ServerSpec { name, arity, flags, keys, group, summary, run, subs, in_multi }
    }

    /// Gives it sub-commands.
    pub const fn with(mut self, subs: &'static [SubSpec]) -> ServerSpec {
        self.subs = subs;
        self
    }

    /// Says where its keys are.
    pub const fn at(mut self, keys: KeyPlaces) -> ServerSpec {
        self.keys = keys;
        self
    }

    /// Says what becomes of it between MULTI and EXEC.
    pub const fn in_multi(mut self, in_multi: InMulti) -> ServerSpec {
        self.in_multi = in_multi;
        self
    }
}

/// For containers, whose sub-commands are found by the table.
pub fn container(_: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    Err(errors::syntax())
}

/// What a command runs.
#[derive(Clone, Copy)]
pub enum Code {
    /// A data command, over a transaction.
    Data(&'static DataSpec),
    /// A server command.
    Server(ServerCommand),
    /// A procedure; true: only if it changes nothing.
    Procedure(bool),
}

/// A command in the table.
pub struct Row {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of words; negative: at least so many.
    pub arity: i32,
    /// As COMMAND INFO tells them.
    pub flags: &'static [&'static str],
    /// Where its keys are.
    pub keys: KeyPlaces,
    /// As COMMAND DOCS tells it.
    pub group: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its sub-commands.
    pub subs: &'static [SubSpec],
    code: Code,
    in_multi: InMulti,
    number: usize,
}

/// What a request runs.
#[derive(Clone, Copy)]
pub struct Found {
    /// Place of the command in the table.
    pub row: usize,
    /// Number for its counts.
    pub number: usize,
    /// The code.
    pub code: Code,
    /// What becomes of it between MULTI and EXEC.
    pub in_multi: InMulti,
}

/// All commands.
pub struct Table {
    rows: Vec<Row>,
    places: HashMap<&'static [u8], usize>,
    number_names: Vec<String>,
    get_number: usize,
    set_number: usize,
}

const SERVER_SPECS: &[&[ServerSpec]] = &[
    multi::SPECS,
    connection::SPECS,
    client::SPECS,
    command::SPECS,
    server::SPECS,
    info::SPECS,
    config::SPECS,
    durability::SPECS,
    slowlog::SPECS,
    procedure::SPECS,
];

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// Puts the table together.
    pub fn new() -> Table {
        let (rows, places, number_names) = (Vec::new(), HashMap::new(), Vec::new());
        let mut table = Table { rows, places, number_names, get_number: 0, set_number: 0 };
        for spec in DATA_SPECS.iter().copied().flatten() {
            table.push(Row {
                name: spec.name,
                arity: spec.arity,
                flags: spec.flags,
                keys: spec.keys,
                group: spec.group,
                summary: spec.summary,
                subs: if spec.name == "object" { object::SUBS } else { &[] },
                code: Code::Data(spec),
                in_multi: InMulti::Queued,
                number: 0,
            });
        }
        for spec in SERVER_SPECS.iter().copied().flatten() {
            let code = match spec.name {
                "fcall" => Code::Procedure(false),
                "fcall_ro" => Code::Procedure(true),
                _ => Code::Server(spec.run),
            };
            table.push(Row {
                name: spec.name,
                arity: spec.arity,
                flags: spec.flags,
                keys: spec.keys,
                group: spec.group,
                summary: spec.summary,
                subs: spec.subs,
                code,
                in_multi: spec.in_multi,
                number: 0,
            });
        }
        table.get_number = table.row(b"get").expect("GET is in the table").number;
        table.set_number = table.row(b"set").expect("SET is in the table").number;
        table
    }

    /// The number of GET.
    pub fn get_number(&self) -> usize {
        self.get_number
    }

    /// The number of SET.
    pub fn set_number(&self) -> usize {
        self.set_number
    }

    fn push(&mut self, mut row: Row) {
        row.number = self.number_names.len();
        self.number_names.push(row.name.to_owned());
        for sub in row.subs {
            self.number_names.push(format!("{}|{}", row.name, sub.name));
        }
        let before = self.places.insert(row.name.as_bytes(), self.rows.len());
        assert!(before.is_none(), "two commands are named {}", row.name);
        self.rows.push(row);
    }

    /// All commands.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many numbers for counts there are.
    pub fn numbers(&self) -> usize {
        self.number_names.len()
    }

    /// The name behind a number: "get", "client|list".
    pub fn number_name(&self, number: usize) -> &str {
        self.number_names.get(number).map_or("NULL", String::as_str)
    }

    /// The command of a name in any case.
    pub fn row(&self, name: &[u8]) -> Option<&Row> {
        self.place(name).map(|place| &self.rows[place])
    }

    /// What a request runs. Errors: the reply to one that cannot run, and the number of the command if it has one.
    pub fn find(&self, words: &Words<'_>) -> Result<Found, (String, Option<usize>)> {
        let Some(place) = self.place(words[0]) else { return Err((unknown_command(words), None)) };
        let row = &self.rows[place];
        let number = row.number;
        let found = Found { row: place, number, code: row.code, in_multi: row.in_multi };
        if !is_arity_met(row.arity, words.len()) {
            return Err((wrong_arity(row.name), Some(number)));
        }
        if row.subs.is_empty() || words.len() < 2 {
            return Ok(found);
        }
        let Some(at) = row.subs.iter().position(|sub| words[1].eq_ignore_ascii_case(sub.name.as_bytes())) else {
            return Err((unknown_subcommand(row.name, words[1]), Some(number)));
        };
        let number = number + 1 + at;
        if !is_arity_met(row.subs[at].arity, words.len()) {
            return Err((wrong_arity(self.number_name(number)), Some(number)));
        }
        let code = if matches!(row.code, Code::Data(_)) { row.code } else { Code::Server(row.subs[at].run) };
        Ok(Found { number, code, ..found })
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.places.get(&*lower).copied()
    }
}

/// The keys among a request's words.
pub fn key_words<'w>(keys: KeyPlaces, words: &Words<'w>) -> impl Iterator<Item = &'w [u8]> {
    let count = words.len() as i32;
    let last = if keys.last < 0 { count + keys.last } else { keys.last };
    let end = if keys.first == 0 { 0 } else { (last + 1).clamp(0, count) as usize };
    let first = (keys.first as usize).min(end);
    let keys: Vec<&'w [u8]> = words[first..end].iter().step_by(keys.step.max(1) as usize).copied().collect();
    keys.into_iter()
}

/// Whether a request has the right number of words.
pub fn is_arity_met(arity: i32, words: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { words >= wanted } else { words == wanted }
}

fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn unknown_command(words: &Words<'_>) -> String {
    let mut arguments = String::new();
    for word in &words[1..] {
        if arguments.len() >= SHOWN_BYTES_MAX {
            break;
        }
        arguments.push_str(&format!("'{}' ", shown(word, SHOWN_BYTES_MAX - arguments.len())));
    }
    format!("ERR unknown command '{}', with args beginning with: {arguments}", shown(words[0], SHOWN_BYTES_MAX))
}

/// The error for a sub-command that a command does not have.
pub fn unknown_subcommand(command: &str, sub: &[u8]) -> String {
    let command = command.to_ascii_uppercase();
    format!("ERR unknown subcommand '{}'. Try {command} HELP.", shown(sub, SHOWN_BYTES_MAX))
}

fn shown(word: &[u8], bytes_max: usize) -> String {
    String::from_utf8_lossy(&word[..word.len().min(bytes_max)]).into_owned()
}
