//! OBJECT: what Redis tells about how it keeps a value.
//! Guarantees: answers clients can live with; nothing here is kept by this store, so counts and ages are constants.
//! Must not know: the index.
//! Next: value.rs.

use super::table::{SubSpec, container, unknown_subcommand};
use super::value::{encoding_of, string_of};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::number::parse_i64;
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[DataSpec::new(
    "object",
    -2,
    flags::READ,
    KeyPlaces { first: 2, last: 2, step: 1 },
    "generic",
    object,
    "Tells how a value is kept.",
)];

/// Its sub-commands, so that the table checks them before anything is queued.
pub const SUBS: &[SubSpec] = &[
    SubSpec::new("encoding", 3, container),
    SubSpec::new("refcount", 3, container),
    SubSpec::new("idletime", 3, container),
    SubSpec::new("freq", 3, container),
    SubSpec::new("help", 2, container),
];

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Tell how Redis would keep the value of a key.",
    "FREQ <key>",
    "    Tell the access frequency of a key; an error, since none is kept.",
    "IDLETIME <key>",
    "    Tell the seconds since the last access; always 0, since it is not kept.",
    "REFCOUNT <key>",
    "    Tell how many share the value of a key in Redis: all do for a small number.",
    "HELP",
    "    Print this help.",
];

/// What Redis tells for a number that all its values share.
const REFERENCES_SHARED: i64 = 2_147_483_647;

const NO_FREQUENCY: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
    when switching between policies at runtime LRU and LFU data will take some time to adjust.";

fn object(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let subcommand = words[1].to_ascii_lowercase();
    if subcommand == b"help" {
        out.array(HELP.len());
        HELP.iter().for_each(|line| out.simple(line));
        return Ok(());
    }
    let Some(sub) = SUBS.iter().find(|sub| sub.name.as_bytes() == subcommand) else {
        return Err(Failure::Reply(unknown_subcommand("object", words[1])));
    };
    let [_, _, key] = words else { return Err(errors::wrong_arity(&format!("object|{}", sub.name))) };
    let Some(record) = data.look_up(key) else {
        out.null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"encoding" => out.bulk(string_of(record.value).map_or("raw", encoding_of).as_bytes()),
        b"refcount" => out.integer(reference_count(record.value)),
        b"idletime" => out.integer(0),
        _ => return Err(Failure::reply(NO_FREQUENCY)),
    }
    Ok(())
}

fn reference_count(value: &[u8]) -> i64 {
    let number = string_of(value).ok().and_then(parse_i64);
    if number.is_some_and(|number| (0..10_000).contains(&number)) { REFERENCES_SHARED } else { 1 }
}
