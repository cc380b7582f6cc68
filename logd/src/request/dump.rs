//! DUMP and RESTORE: a value with its checksum, in the form in which Redis servers exchange them.
//! Guarantees: what DUMP gives, Redis from 7.0 on restores; a payload is checked as a whole before any of it is believed.
//! Must not know: keys.
//! Next: dump_payload.rs has the form.

use super::dump_payload::{Fault, decode, encode};
use super::moment;
use super::value::integer;
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new(
        "dump",
        2,
        flags::READ,
        KeyPlaces::ONE,
        "generic",
        dump,
        "Tells a value in a form to restore it from.",
    ),
    DataSpec::new("restore", -4, flags::GROW, KeyPlaces::ONE, "generic", restore, "Sets a value from its dumped form."),
];

fn dump(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    match data.read_string(words[1])? {
        Some(string) => out.bulk(&encode(string.bytes)),
        None => out.null(),
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    is_replacing: bool,
    is_absolute: bool,
}

impl Options {
    fn parse(words: &Words<'_>) -> Result<Options, Failure> {
        let mut options = Options::default();
        // Age and frequency are checked and then forgotten, since neither is kept here; only one of the two may be told.
        let (mut has_age, mut has_frequency) = (false, false);
        let mut rest = words;
        while let Some((name, after)) = rest.split_first() {
            rest = match (name.to_ascii_lowercase().as_slice(), after) {
                (b"replace", after) => {
                    options.is_replacing = true;
                    after
                }
                (b"absttl", after) => {
                    options.is_absolute = true;
                    after
                }
                (b"idletime", [seconds, after @ ..]) if !has_frequency => {
                    if integer(seconds)? < 0 {
                        return Err(Failure::reply("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                    has_age = true;
                    after
                }
                (b"freq", [frequency, after @ ..]) if !has_age => {
                    if !(0..=255).contains(&integer(frequency)?) {
                        return Err(Failure::reply("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                    }
                    has_frequency = true;
                    after
                }
                _ => return Err(errors::syntax()),
            };
        }
        Ok(options)
    }
}

fn restore(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let options = Options::parse(&words[4..])?;
    if !options.is_replacing && data.exists(words[1]) {
        return Err(Failure::reply("BUSYKEY Target key name already exists."));
    }
    let millis = integer(words[2])?;
    if millis < 0 {
        return Err(Failure::reply("ERR Invalid TTL value, must be >= 0"));
    }
    let bytes = decode(words[3]).map_err(|fault| {
        Failure::reply(match fault {
            Fault::Unproven => "ERR DUMP payload version or checksum are wrong",
            Fault::Malformed => "ERR Bad data format",
        })
    })?;
    let form = if options.is_absolute { moment::PXAT } else { moment::PX };
    let expiry = if millis == 0 { None } else { Some(moment::any(data, form, words[2], "restore")?) };
    data.put_string(words[1], &bytes, expiry)?;
    out.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;

    fn dumped(client: &mut crate::testing::Client, daemon: &Daemon, key: &[u8]) -> Vec<u8> {
        client.start(daemon, &[b"DUMP", key]);
        let reply = client.out.bytes().to_vec();
        client.out.truncate(0);
        let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        reply[start..reply.len() - 2].to_vec()
    }

    #[test]
    fn a_dumped_value_is_restored_and_what_is_not_whole_is_refused() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        for value in ["", "x", "-129", "70000", "2147483648", &"y".repeat(70_000)] {
            client.ask_words(&daemon, &[b"SET", b"a", value.as_bytes()]);
            let payload = dumped(&mut client, &daemon, b"a");
            assert_eq!(client.ask_words(&daemon, &[b"RESTORE", b"b", b"0", &payload, b"replace"]), "+OK");
            assert_eq!(client.ask(&daemon, "GET b"), client.ask(&daemon, "GET a"));
            assert!(client.ask_words(&daemon, &[b"RESTORE", b"b", b"0", &payload]).starts_with("-BUSYKEY "));
            assert_eq!(client.ask_words(&daemon, &[b"RESTORE", b"c", b"1", &payload, b"ABSTTL"]), "+OK");
            assert_eq!(client.ask(&daemon, "EXISTS c"), ":0");
            for at in 0..payload.len().min(40) {
                let mut damaged = payload.clone();
                damaged[at] ^= 1;
                let reply = client.ask_words(&daemon, &[b"RESTORE", b"d", b"0", &damaged]);
                assert_eq!(reply, "-ERR DUMP payload version or checksum are wrong");
            }
        }
        client.play(
            &daemon,
            "DUMP nothing => $-1
             RESTORE x 0 short => -ERR DUMP payload version or checksum are wrong
             RESTORE x -1 short => -ERR Invalid TTL value, must be >= 0
             RESTORE x z short => -ERR value is not an integer or out of range
             RESTORE x 0 short WHAT => -ERR syntax error
             RESTORE x 0 short IDLETIME 1 FREQ 1 => -ERR syntax error
             RESTORE x 0 short FREQ 256 => -ERR Invalid FREQ value, must be >= 0 and <= 255
             RESTORE b 0 short => -BUSYKEY Target key name already exists.",
        );
    }
}
