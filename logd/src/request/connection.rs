//! Commands about the connection itself: HELLO, AUTH, PING, SELECT, RESET and the like.
//! Guarantees: what a client library sends first is answered as Redis 7.2 without a password answers it.
//! Must not know: sockets.
//! Next: client.rs.

use super::client::{check_name, set_name};
use super::table::{Call, InMulti, ServerSpec};
use super::{Failure, Words, errors};
use crate::executor::Outcome;
use crate::number::parse_i64;
use crate::resp::Out;
use std::sync::atomic::Ordering;

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.2.4";

const FLAGS: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("hello", -1, FLAGS, "connection", hello, "Chooses the protocol version.")
        .in_multi(InMulti::Refused),
    ServerSpec::new("auth", -2, FLAGS, "connection", auth, "Would check a password; there is none."),
    ServerSpec::new("ping", -1, &["fast"], "connection", ping, "Answers."),
    ServerSpec::new("echo", 2, &["loading", "stale", "fast"], "connection", echo, "Answers with its argument."),
    ServerSpec::new("quit", -1, FLAGS, "connection", quit, "Closes the connection.").in_multi(InMulti::Immediate),
    ServerSpec::new("reset", 1, FLAGS, "connection", reset, "Sets the connection back to its start.")
        .in_multi(InMulti::Immediate),
    ServerSpec::new("select", 2, &["loading", "stale", "fast"], "connection", select, "Chooses the database."),
    ServerSpec::new("readonly", 1, &["loading", "stale", "fast"], "cluster", accept, "Accepted; for cluster clients."),
    ServerSpec::new("readwrite", 1, &["loading", "stale", "fast"], "cluster", accept, "Accepted; for cluster clients."),
];

fn hello(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let mut is_resp3 = out.is_resp3();
    if let Some(version) = words.get(1) {
        is_resp3 = match parse_i64(version) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err(Failure::reply("NOPROTO unsupported protocol version")),
            None => return Err(Failure::reply("ERR Protocol version is not an integer or out of range")),
        };
    }
    let mut name = None;
    let mut rest = words.get(2..).unwrap_or_default();
    while let Some((option, after)) = rest.split_first() {
        match after {
            [user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                check_user(user, password)?;
                rest = after;
            }
            [wanted, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                check_name(wanted)?;
                name = Some(*wanted);
                rest = after;
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Failure::Reply(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
    }
    if let Some(name) = name {
        set_name(call.session, name)?;
    }
    out.set_resp3(is_resp3);
    call.session.client.is_resp3.store(is_resp3, Ordering::Relaxed);
    write_hello(call, out);
    Ok(Outcome::WRITTEN)
}

fn write_hello(call: &Call<'_>, out: &mut Out) {
    out.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if out.is_resp3() { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(call.session.client.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

/// The only user is "default", who takes any password.
fn check_user(user: &[u8], _password: &[u8]) -> Result<(), Failure> {
    if user == b"default" {
        return Ok(());
    }
    Err(Failure::reply("WRONGPASS invalid username-password pair or user is disabled."))
}

fn auth(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    match words {
        [_, _] => {
            return Err(Failure::reply(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ));
        }
        [_, user, password] => check_user(user, password)?,
        _ => return Err(errors::syntax()),
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn ping(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    match words {
        [_] => out.simple("PONG"),
        [_, message] => out.bulk(message),
        _ => return Err(errors::wrong_arity("ping")),
    }
    Ok(Outcome::WRITTEN)
}

fn echo(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.bulk(words[1]);
    Ok(Outcome::WRITTEN)
}

fn quit(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.ok();
    Ok(Outcome::Close)
}

fn reset(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.session.reset();
    out.set_resp3(false);
    out.simple("RESET");
    Ok(Outcome::WRITTEN)
}

fn select(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let number = parse_i64(words[1]).ok_or_else(errors::not_an_integer)?;
    let number = usize::try_from(number).ok().filter(|number| *number < call.shared.databases.len());
    call.session.select(number.ok_or_else(errors::database_out_of_range)?);
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// Answers OK and does nothing.
pub fn accept(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.ok();
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;

    #[test]
    fn hello_switches_the_protocol_and_its_reply_is_in_the_new_one() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        let rest = |proto| {
            format!(
                "$6 server $5 redis $7 version $5 7.2.4 $5 proto :{proto} $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0"
            )
        };
        assert_eq!(client.ask(&daemon, "HELLO"), format!("*14 {}", rest(2)));
        assert_eq!(client.ask(&daemon, "HELLO 3 AUTH default x SETNAME me"), format!("%7 {}", rest(3)));
        client.play(&daemon, "CLIENT GETNAME => $2 me\nGET nothing => _\nCONFIG GET maxmemory => %1 $9 maxmemory $1 0");
        client.play(&daemon, "FCALL_RO voter_results 0 => *0");
        assert_eq!(client.ask(&daemon, "HELLO 2"), format!("*14 {}", rest(2)));
        client.play(
            &daemon,
            "HELLO 4 => -NOPROTO unsupported protocol version
             HELLO x => -ERR Protocol version is not an integer or out of range
             HELLO 3 x => -ERR Syntax error in HELLO option 'x'
             HELLO 3 AUTH other x => -WRONGPASS invalid username-password pair or user is disabled.
             GET nothing => $-1",
        );
    }

    #[test]
    fn connection_commands_answer_as_redis_without_a_password() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "PING => +PONG
             PING hi => $2 hi
             PING a b => -ERR wrong number of arguments for 'ping' command
             ECHO hi => $2 hi
             AUTH default any => +OK
             AUTH other any => -WRONGPASS invalid username-password pair or user is disabled.
             SELECT 15 => +OK
             SELECT 16 => -ERR DB index is out of range
             SELECT x => -ERR value is not an integer or out of range
             SET a 1 => +OK
             CLIENT SETNAME me => +OK
             RESET => +RESET
             CLIENT GETNAME => $-1
             GET a => $-1
             READONLY => +OK
             QUIT => +OK",
        );
        assert!(client.ask(&daemon, "AUTH pw").starts_with("-ERR AUTH <password> called without any password"));
        assert!(client.is_closed);
    }
}
