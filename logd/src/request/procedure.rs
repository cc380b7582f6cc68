//! FCALL and FUNCTION: the procedures that are part of the program.
//! Guarantees: a procedure that fails has changed nothing; its reply is read in full before any of it is written.
//! Must not know: any single procedure.
//! Next: crate logd's `reply` has the form of replies; `voter` is a procedure.

use super::table::{Call, ServerSpec, SubSpec, container};
use super::{Failure, Words, errors};
use crate::executor::{Outcome, level_of};
use crate::number::parse_i64;
use crate::reply::{encode_arguments, without_head};
use crate::resp::Out;
use crate::session::Session;
use crate::shared::Shared;
use crate::voter;
use logd_engine::core::ActiveProcedure;

/// The rows of this file. FCALL's code is the executor's, since a procedure needs a transaction.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("fcall", -3, &["noscript", "movablekeys"], "scripting", container, "Calls a procedure."),
    ServerSpec::new(
        "fcall_ro",
        -3,
        &["noscript", "readonly", "movablekeys"],
        "scripting",
        container,
        "Calls a reader.",
    ),
    ServerSpec::new("function", -2, &["noscript"], "scripting", container, "Tells of the procedures.").with(SUBS),
];

const SUBS: &[SubSpec] = &[
    SubSpec::new("list", -2, list),
    SubSpec::new("stats", 2, stats),
    SubSpec::new("flush", -2, remove_loaded),
    SubSpec::new("delete", 3, delete),
    SubSpec::new("kill", 2, kill),
    SubSpec::new("load", -3, load),
    SubSpec::new("help", 2, help),
];

/// The procedure that a request names, and its arguments: keys and other words alike, in their order.
pub fn find<'s>(
    shared: &'s Shared,
    is_reading: bool,
    words: &Words<'_>,
) -> Result<(&'s ActiveProcedure, Vec<u8>), String> {
    let name = String::from_utf8_lossy(words[1]);
    let active = shared.db.procedures().find(|active| active.name() == name);
    let active = active.ok_or_else(|| "ERR Function not found".to_owned())?;
    let keys = parse_i64(words[2]).ok_or_else(|| "ERR Bad number of keys provided".to_owned())?;
    if keys < 0 {
        return Err("ERR Number of keys can't be negative".to_owned());
    }
    if keys > words.len() as i64 - 3 {
        return Err("ERR Number of keys can't be greater than number of args".to_owned());
    }
    if is_reading && !voter::READERS.contains(&active.name()) {
        return Err("ERR Can not execute a script with write flag using *_ro command.".to_owned());
    }
    Ok((active, encode_arguments(&words[3..])))
}

/// Runs FCALL outside of MULTI.
pub fn call(
    shared: &Shared,
    session: &mut Session,
    is_reading: bool,
    words: &Words<'_>,
    out: &mut Out,
) -> Result<Outcome, Failure> {
    let (active, arguments) = find(shared, is_reading, words).map_err(Failure::Reply)?;
    let (reply, ticket) = shared.db.try_call(active.name(), &arguments, level_of(shared, session))?;
    write_reply(&reply, out);
    Ok(Outcome::Done(ticket))
}

/// Writes a procedure's reply in the client's protocol version. Only "nothing" differs between the two.
pub fn write_reply(reply: &[u8], out: &mut Out) {
    if !out.is_resp3() {
        out.raw(reply);
        return;
    }
    let mut rest = reply;
    while !rest.is_empty() {
        let Some((part, after)) = without_head(rest) else { break };
        if part == b"$-1\r\n" {
            out.null()
        } else {
            out.raw(part)
        }
        rest = after;
    }
}

fn list(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let mut is_wanted = true;
    let mut rest = &words[2..];
    while let Some((option, after)) = rest.split_first() {
        rest = match after {
            after if option.eq_ignore_ascii_case(b"withcode") => after,
            [pattern, after @ ..] if option.eq_ignore_ascii_case(b"libraryname") => {
                is_wanted = crate::glob::matches(pattern, b"logd");
                after
            }
            _ => return Err(errors::syntax()),
        };
    }
    let procedures: Vec<_> = call.shared.db.procedures().collect();
    if !is_wanted || procedures.is_empty() {
        out.array(0);
        return Ok(Outcome::WRITTEN);
    }
    out.array(1);
    out.map(3);
    for (name, text) in [("library_name", "logd"), ("engine", "RUST")] {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"functions");
    out.array(procedures.len());
    for active in procedures {
        out.map(3);
        out.bulk(b"name");
        out.bulk(active.name().as_bytes());
        out.bulk(b"description");
        out.null();
        out.bulk(b"flags");
        let is_reader = voter::READERS.contains(&active.name());
        out.set(is_reader.into());
        if is_reader {
            out.simple("no-writes");
        }
    }
    Ok(Outcome::WRITTEN)
}

/// Nothing can be loaded, so nothing loaded is left; what is part of the program stays. Redis' test suite begins with it.
fn remove_loaded(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    match words[2..] {
        [] => {}
        [manner] if manner.eq_ignore_ascii_case(b"async") || manner.eq_ignore_ascii_case(b"sync") => {}
        _ => return Err(Failure::reply("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn delete(_: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    Err(Failure::reply("ERR Library not found"))
}

fn kill(_: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    Err(Failure::reply("NOTBUSY No scripts in execution right now."))
}

fn load(_: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    Err(Failure::reply("ERR Functions cannot be loaded here: they are part of the program"))
}

fn stats(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let count = call.shared.db.procedures().count() as i64;
    out.map(2);
    out.bulk(b"running_script");
    out.null();
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"RUST");
    out.map(2);
    out.bulk(b"libraries_count");
    out.integer((count > 0).into());
    out.bulk(b"functions_count");
    out.integer(count);
    Ok(Outcome::WRITTEN)
}

fn help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("FUNCTION", SUBS, out);
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::write_reply;
    use crate::resp::Out;
    use crate::testing::Daemon;

    #[test]
    fn fcall_runs_procedures_and_refuses_as_redis_does() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "FCALL voter_init 0 2 Ann,Bob => :2
             FCALL vote 1 3050000001 2 => :0
             FCALL vote 2 3050000001 2 2 => :0
             FCALL vote 0 3050000001 2 => :2
             FCALL vote 0 3050000001 9 => :1
             FCALL vote 0 x 2 => -ERR phone number is not an integer or out of range
             FCALL nosuch 0 => -ERR Function not found
             FCALL vote x => -ERR Bad number of keys provided
             FCALL vote -1 => -ERR Number of keys can't be negative
             FCALL vote 3 a => -ERR Number of keys can't be greater than number of args
             FCALL_RO vote 0 1 1 => -ERR Can not execute a script with write flag using *_ro command.
             FCALL_RO voter_states 0 => *1 *3 :2 $2 FL :2
             FUNCTION LIST LIBRARYNAME x* => *0
             FUNCTION FLUSH => +OK
             FUNCTION FLUSH async => +OK
             FUNCTION FLUSH now => -ERR FUNCTION FLUSH only supports SYNC|ASYNC option
             FUNCTION DELETE x => -ERR Library not found
             FUNCTION KILL => -NOTBUSY No scripts in execution right now.
             FUNCTION STATS => *4 $14 running_script $-1 $7 engines *2 $4 RUST *4 $15 libraries_count :1 $15 functions_count :4",
        );
        let list = client.ask(&daemon, "FUNCTION LIST");
        assert!(list.contains("$4 vote $11 description $-1 $5 flags *0"), "{list}");
        assert!(list.contains("$13 voter_results $11 description $-1 $5 flags *1 +no-writes"), "{list}");
    }

    #[test]
    fn nothing_is_translated_and_strings_that_look_like_it_are_not() {
        let mut out = Out::new();
        out.set_resp3(true);
        write_reply(b"*2\r\n$-1\r\n$5\r\n$-1\r\n\r\n", &mut out);
        assert_eq!(out.bytes(), b"*2\r\n_\r\n$5\r\n$-1\r\n\r\n");
    }
}
