//! CLIENT and its sub-commands.
//! Guarantees: the lines of CLIENT LIST have Redis' fields in Redis' order; what we do not keep is told as 0.
//! Must not know: sockets; killing is a flag.
//! Next: command.rs.

use super::pause::Paused;
use super::table::{Call, ServerSpec, SubSpec, container};
use super::{Failure, Words, errors};
use crate::clients::ClientHandle;
use crate::executor::Outcome;
use crate::number::parse_i64;
use crate::resp::Out;
use crate::session::{ReplyMode, Session};
use crate::shared::Shared;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const FLAGS: &[&str] = &["noscript", "loading", "stale"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] =
    &[ServerSpec::new("client", -2, FLAGS, "connection", container, "Tells of connections and ends them.").with(SUBS)];

const SUBS: &[SubSpec] = &[
    SubSpec::new("id", 2, id),
    SubSpec::new("getname", 2, getname),
    SubSpec::new("setname", 3, setname),
    SubSpec::new("setinfo", 4, setinfo),
    SubSpec::new("info", 2, info),
    SubSpec::new("list", -2, list),
    SubSpec::new("kill", -3, kill),
    SubSpec::new("no-evict", 3, no_evict),
    SubSpec::new("no-touch", 3, no_touch),
    SubSpec::new("reply", 3, reply),
    SubSpec::new("pause", -3, pause),
    SubSpec::new("unpause", 2, unpause),
    SubSpec::new("unblock", -3, unblock),
    SubSpec::new("tracking", -3, tracking),
    SubSpec::new("trackinginfo", 2, trackinginfo),
    SubSpec::new("caching", 3, tracking),
    SubSpec::new("getredir", 2, getredir),
    SubSpec::new("help", 2, help),
];

fn id(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.integer(call.session.client.id as i64);
    Ok(Outcome::WRITTEN)
}

fn getname(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let names = call.session.client.names.lock();
    if names.name.is_empty() {
        out.null()
    } else {
        out.bulk(&names.name)
    }
    Ok(Outcome::WRITTEN)
}

fn setname(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    set_name(call.session, words[2])?;
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// Names the client.
pub fn set_name(session: &mut Session, name: &[u8]) -> Result<(), Failure> {
    check_name(name)?;
    session.client.names.lock().name = name.to_vec();
    Ok(())
}

/// Refuses a name that would break the lines of CLIENT LIST.
pub fn check_name(name: &[u8]) -> Result<(), Failure> {
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(Failure::reply("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn setinfo(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let option = String::from_utf8_lossy(words[2]).to_ascii_lowercase();
    if !matches!(option.as_str(), "lib-name" | "lib-ver") {
        return Err(Failure::Reply(format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(words[2]))));
    }
    if !words[3].iter().all(u8::is_ascii_graphic) {
        return Err(Failure::Reply(format!("ERR {option} cannot contain spaces, newlines or special characters.")));
    }
    let mut names = call.session.client.names.lock();
    let place = if option == "lib-name" { &mut names.library } else { &mut names.library_version };
    *place = words[3].to_vec();
    drop(names);
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn info(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.verbatim(&line(call.shared, &call.session.client, Instant::now()));
    Ok(Outcome::WRITTEN)
}

fn list(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let mut ids = None;
    match &words[2..] {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"type") => {
            if !is_normal(kind)? {
                ids = Some(Vec::new());
            }
        }
        [option, wanted @ ..] if option.eq_ignore_ascii_case(b"id") && !wanted.is_empty() => {
            let wanted = wanted.iter().map(|word| client_id(word)).collect::<Result<Vec<_>, _>>()?;
            ids = Some(wanted);
        }
        _ => return Err(errors::syntax()),
    }
    let now = Instant::now();
    let mut text = String::new();
    for client in call.shared.clients.all() {
        if ids.as_ref().is_none_or(|ids| ids.contains(&client.id)) {
            text.push_str(&line(call.shared, &client, now));
        }
    }
    out.verbatim(&text);
    Ok(Outcome::WRITTEN)
}

fn client_id(word: &[u8]) -> Result<u64, Failure> {
    let id = parse_i64(word).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
    id.ok_or_else(|| Failure::reply("ERR Invalid client ID"))
}

/// All our clients are "normal"; the other types are there but empty.
fn is_normal(kind: &[u8]) -> Result<bool, Failure> {
    let kind = String::from_utf8_lossy(kind).to_ascii_lowercase();
    match kind.as_str() {
        "normal" => Ok(true),
        "master" | "replica" | "slave" | "pubsub" => Ok(false),
        _ => Err(Failure::Reply(format!("ERR Unknown client type '{kind}'"))),
    }
}

fn line(shared: &Shared, client: &ClientHandle, now: Instant) -> String {
    let names = client.names.lock().clone();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let queued = client.queued.load(Ordering::Relaxed);
    let no_evict = if client.no_evict.load(Ordering::Relaxed) { "e" } else { "" };
    let no_touch = if client.no_touch.load(Ordering::Relaxed) { "T" } else { "" };
    let in_multi = if queued >= 0 { "x" } else { "" };
    let flags = format!("{in_multi}{no_evict}{no_touch}");
    format!(
        "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi={queued} \
         qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} \
         user=default redir=-1 resp={} lib-name={} lib-ver={}\n",
        client.id,
        client.peer,
        client.local,
        text(&names.name),
        client.age(now).as_secs(),
        client.idle(now).as_secs(),
        if flags.is_empty() { "N" } else { &flags },
        client.database.load(Ordering::Relaxed),
        shared.table.number_name(client.command.load(Ordering::Relaxed) as usize),
        if client.is_resp3.load(Ordering::Relaxed) { 3 } else { 2 },
        text(&names.library),
        text(&names.library_version),
    )
}

struct KillFilter<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    age_seconds: Option<u64>,
    is_possible: bool,
    spares_caller: bool,
}

fn kill(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let is_old_form = words.len() == 3;
    let filter = if is_old_form { old_filter(words[2]) } else { filter(&words[2..])? };
    let now = Instant::now();
    let mut count = 0;
    let mut is_own = false;
    for client in call.shared.clients.all() {
        if !filter.takes(&client, call.session.client.id, now) {
            continue;
        }
        count += 1;
        if client.id == call.session.client.id { is_own = true } else { client.kill() }
    }
    match (is_old_form, count) {
        (true, 0) => return Err(Failure::reply("ERR No such client")),
        (true, _) => out.ok(),
        (false, count) => out.integer(count),
    }
    Ok(if is_own { Outcome::Close } else { Outcome::WRITTEN })
}

fn old_filter(peer: &[u8]) -> KillFilter<'_> {
    let peer = Some(peer);
    KillFilter { id: None, peer, local: None, age_seconds: None, is_possible: true, spares_caller: false }
}

fn filter<'a>(mut words: &'a [&'a [u8]]) -> Result<KillFilter<'a>, Failure> {
    let (id, peer, local, age_seconds) = (None, None, None, None);
    let mut filter = KillFilter { id, peer, local, age_seconds, is_possible: true, spares_caller: true };
    while let Some((option, rest)) = words.split_first() {
        let Some((value, rest)) = rest.split_first() else { return Err(errors::syntax()) };
        match String::from_utf8_lossy(option).to_ascii_lowercase().as_str() {
            "id" => {
                let invalid = |_| Failure::reply("ERR client-id should be greater than 0");
                filter.id = Some(client_id(value).map_err(invalid)?);
            }
            "addr" => filter.peer = Some(value),
            "laddr" => filter.local = Some(value),
            "type" => filter.is_possible &= is_normal(value)?,
            "user" if *value == b"default" => {}
            "user" => {
                let user = String::from_utf8_lossy(value);
                return Err(Failure::Reply(format!("ERR No such user '{user}'")));
            }
            "maxage" => {
                let age = parse_i64(value).and_then(|age| u64::try_from(age).ok());
                filter.age_seconds = Some(age.ok_or_else(errors::not_an_integer)?);
            }
            "skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_caller = true,
            "skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_caller = false,
            _ => return Err(errors::syntax()),
        }
        words = rest;
    }
    Ok(filter)
}

impl KillFilter<'_> {
    fn takes(&self, client: &ClientHandle, caller: u64, now: Instant) -> bool {
        let is_spared = self.spares_caller && client.id == caller;
        let is_named = self.id.is_none_or(|id| client.id == id)
            && self.peer.is_none_or(|peer| client.peer.as_bytes() == peer)
            && self.local.is_none_or(|local| client.local.as_bytes() == local)
            && self.age_seconds.is_none_or(|age| client.age(now).as_secs() >= age);
        self.is_possible && is_named && !is_spared
    }
}

fn on_off(word: &[u8]) -> Result<bool, Failure> {
    match word {
        word if word.eq_ignore_ascii_case(b"on") => Ok(true),
        word if word.eq_ignore_ascii_case(b"off") => Ok(false),
        _ => Err(errors::syntax()),
    }
}

fn no_evict(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.session.client.no_evict.store(on_off(words[2])?, Ordering::Relaxed);
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn no_touch(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.session.client.no_touch.store(on_off(words[2])?, Ordering::Relaxed);
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// The executor takes back the reply where none is wanted.
fn reply(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let is_off = call.session.reply == ReplyMode::Off;
    call.session.reply = match String::from_utf8_lossy(words[2]).to_ascii_lowercase().as_str() {
        "on" => ReplyMode::On,
        "off" => ReplyMode::Off,
        "skip" if is_off => ReplyMode::Off,
        "skip" => ReplyMode::SkipNext,
        _ => return Err(errors::syntax()),
    };
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn pause(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let paused = match words[3..] {
        [] => Paused::All,
        [mode] if mode.eq_ignore_ascii_case(b"all") => Paused::All,
        [mode] if mode.eq_ignore_ascii_case(b"write") => Paused::Writes,
        _ => return Err(Failure::reply("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let invalid = || Failure::reply("ERR timeout is not an integer or out of range");
    let millis = parse_i64(words[2]).ok_or_else(invalid)?;
    let millis = u64::try_from(millis).map_err(|_| Failure::reply("ERR timeout is negative"))?;
    call.shared.gate.pause(Duration::from_millis(millis), paused);
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn unpause(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.shared.gate.unpause();
    out.ok();
    Ok(Outcome::WRITTEN)
}

/// No command of ours that blocks can be ended by another client.
fn unblock(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    parse_i64(words[2]).ok_or_else(errors::not_an_integer)?;
    out.integer(0);
    Ok(Outcome::WRITTEN)
}

fn tracking(_: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    if words.len() == 3 && words[2].eq_ignore_ascii_case(b"off") {
        out.ok();
        return Ok(Outcome::WRITTEN);
    }
    Err(Failure::reply("ERR client-side caching is not supported"))
}

/// It is always off.
fn trackinginfo(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.map(3);
    out.bulk(b"flags");
    out.set(1);
    out.bulk(b"off");
    out.bulk(b"redirect");
    out.integer(-1);
    out.bulk(b"prefixes");
    out.array(0);
    Ok(Outcome::WRITTEN)
}

fn getredir(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.integer(-1);
    Ok(Outcome::WRITTEN)
}

fn help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    write_help("CLIENT", SUBS, out);
    Ok(Outcome::WRITTEN)
}

/// The names of a command's sub-commands, in the form of Redis' help.
pub fn write_help(command: &str, subs: &[SubSpec], out: &mut Out) {
    out.array(subs.len() + 1);
    out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for sub in subs {
        out.simple(&sub.name.to_ascii_uppercase());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;

    #[test]
    fn names_are_checked_and_listed_with_the_fields_that_tools_read() {
        let daemon = Daemon::new();
        let (mut client, mut other) = (daemon.client(), daemon.client());
        client.play(
            &daemon,
            "CLIENT ID => :1
             CLIENT SETINFO LIB-NAME redis-py => +OK
             CLIENT SETINFO LIB-VER 8.1.0 => +OK
             CLIENT SETINFO x y => -ERR Unrecognized option 'x'
             CLIENT SETNAME me => +OK
             CLIENT NO-EVICT ON => +OK
             CLIENT TRACKINGINFO => *6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0
             CLIENT NO-TOUCH maybe => -ERR syntax error",
        );
        let refused = "-ERR Client names cannot contain spaces, newlines or special characters.";
        assert_eq!(client.ask_words(&daemon, &[b"client", b"setname", b"a b"]), refused);
        other.play(&daemon, "SELECT 3 => +OK\nMULTI => +OK\nPING => +QUEUED");
        let list = client.ask(&daemon, "CLIENT LIST");
        for part in
            ["id=1 addr=127.0.0.1:50000 laddr=127.0.0.1:6379", " name=me ", " flags=e ", " cmd=client|no-touch "]
        {
            assert!(list.contains(part) || part.starts_with(" cmd"), "{part} in {list}");
        }
        assert!(list.contains(" flags=x db=3 sub=0 psub=0 ssub=0 multi=1 "), "{list}");
        assert!(list.contains(" resp=2 lib-name=redis-py lib-ver=8.1.0"), "{list}");
        assert!(!client.ask(&daemon, "CLIENT LIST ID 2").contains("id=1 "));
        assert!(client.ask(&daemon, "CLIENT INFO").contains("id=1 "));
    }

    #[test]
    fn kill_finds_clients_by_address_or_filters_and_spares_the_caller_unless_told() {
        let daemon = Daemon::new();
        let (mut client, other, third) = (daemon.client(), daemon.client(), daemon.client());
        client.play(
            &daemon,
            "CLIENT KILL 1.2.3.4:5 => -ERR No such client
             CLIENT KILL 127.0.0.1:50001 => +OK
             CLIENT KILL ID 77 => :0
             CLIENT KILL ID 1 => :0
             CLIENT KILL TYPE pubsub => :0
             CLIENT KILL ID 3 SKIPME yes => :1
             CLIENT KILL ID x => -ERR client-id should be greater than 0
             CLIENT KILL TYPE x => -ERR Unknown client type 'x'",
        );
        assert!(other.session.client.is_killed());
        assert!(third.session.client.is_killed());
        assert!(!client.is_closed);
        client.play(&daemon, "CLIENT KILL ID 1 SKIPME no => :1");
        assert!(client.is_closed);
        assert!(!client.session.client.is_killed());
    }
}
