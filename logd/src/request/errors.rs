//! The error replies that several commands share, in Redis' words: clients compare them.
//! Guarantees: each text stands in one place.
//! Must not know: when they apply.
//! Next: value.rs.

use super::Failure;

/// The value has another type than the command is for.
pub fn wrong_type() -> Failure {
    Failure::reply("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// An argument or a combination of arguments that the command does not have.
pub fn syntax() -> Failure {
    Failure::reply("ERR syntax error")
}

/// An argument or value that must be an integer is none.
pub fn not_an_integer() -> Failure {
    Failure::reply("ERR value is not an integer or out of range")
}

/// A moment that is not positive or beyond the range of time.
pub fn invalid_expire(command: &str) -> Failure {
    Failure::reply(format!("ERR invalid expire time in '{command}' command"))
}

/// Too many or too few words.
pub fn wrong_arity(command: &str) -> Failure {
    Failure::reply(format!("ERR wrong number of arguments for '{command}' command"))
}

/// A string would get longer than a string may be.
pub fn string_too_long() -> Failure {
    Failure::reply("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
}

/// The source of a rename is not there.
pub fn no_such_key() -> Failure {
    Failure::reply("ERR no such key")
}

/// A database number beyond the last.
pub fn database_out_of_range() -> Failure {
    Failure::reply("ERR DB index is out of range")
}

/// Source and destination of a move or copy are one.
pub fn same_object() -> Failure {
    Failure::reply("ERR source and destination objects are the same")
}
