//! SET with all its options, and the commands that are SET in other words.
//! Guarantees: options are read to the end before anything is looked up; the old value is told as it was before.
//! Must not know: how a moment becomes engine time.
//! Next: moment.rs.

use super::moment::{self, Form};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::resp::Out;
use logd_engine::units::Millis;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new(
        "set",
        -3,
        flags::GROW,
        KeyPlaces::ONE,
        "string",
        set,
        "Sets a string, under conditions and with an end if asked.",
    ),
    DataSpec::new(
        "setnx",
        3,
        flags::GROW_FAST,
        KeyPlaces::ONE,
        "string",
        setnx,
        "Sets a string if the key has no value yet.",
    ),
    DataSpec::new(
        "setex",
        4,
        flags::GROW,
        KeyPlaces::ONE,
        "string",
        setex,
        "Sets a string that ends after some seconds.",
    ),
    DataSpec::new(
        "psetex",
        4,
        flags::GROW,
        KeyPlaces::ONE,
        "string",
        psetex,
        "Sets a string that ends after some milliseconds.",
    ),
    DataSpec::new(
        "getset",
        3,
        flags::GROW_FAST,
        KeyPlaces::ONE,
        "string",
        getset,
        "Sets a string and tells the one before.",
    ),
    DataSpec::new(
        "getex",
        -2,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "string",
        getex,
        "Tells a string and changes when it ends.",
    ),
];

/// Whether the key must have a value, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
}

/// What becomes of the expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lifetime<'a> {
    /// Nothing said.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Endless,
    /// EX, PX, EXAT, PXAT.
    Until(Form, &'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SetOptions<'a> {
    condition: Condition,
    is_get: bool,
    lifetime: Lifetime<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(words: &Words<'a>) -> Result<SetOptions<'a>, Failure> {
        let mut options = SetOptions::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" if options.condition != Condition::IfPresent => options.condition = Condition::IfAbsent,
                b"XX" if options.condition != Condition::IfAbsent => options.condition = Condition::IfPresent,
                b"GET" => options.is_get = true,
                b"KEEPTTL" => options.lifetime = options.lifetime.replace(Lifetime::Keep)?,
                name => {
                    let until = parse_until(name, rest.next())?;
                    options.lifetime = options.lifetime.replace(until)?;
                }
            }
        }
        Ok(options)
    }
}

impl<'a> Lifetime<'a> {
    /// The later of two options. They must be of one kind: EX after EX is fine, EX after PX is not.
    fn replace(self, later: Lifetime<'a>) -> Result<Lifetime<'a>, Failure> {
        let is_allowed = match (self, later) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Until(before, _), Lifetime::Until(after, _)) => before == after,
            (before, after) => before == after,
        };
        if is_allowed { Ok(later) } else { Err(errors::syntax()) }
    }
}

fn parse_until<'a>(name: &[u8], moment: Option<&&'a [u8]>) -> Result<Lifetime<'a>, Failure> {
    let form = match name {
        b"EX" => moment::EX,
        b"PX" => moment::PX,
        b"EXAT" => moment::EXAT,
        b"PXAT" => moment::PXAT,
        _ => return Err(errors::syntax()),
    };
    moment.map(|moment| Lifetime::Until(form, moment)).ok_or_else(errors::syntax)
}

/// What a SET did.
struct Outcome {
    was_set: bool,
    old: Option<Vec<u8>>,
}

impl Outcome {
    fn tell_old(self, out: &mut Out) {
        match self.old {
            Some(old) => out.bulk(&old),
            None => out.null(),
        }
    }
}

/// The one way a string is set as a whole.
fn set_string(
    data: &mut Data<'_, '_>,
    key: &[u8],
    bytes: &[u8],
    options: SetOptions<'_>,
    command: &str,
) -> Result<Outcome, Failure> {
    let asked = match options.lifetime {
        Lifetime::Until(form, word) => Some(moment::positive(data, form, word, command)?),
        _ => None,
    };
    let old = if options.is_get { data.read_string(key)?.map(|old| old.bytes.to_vec()) } else { None };
    let found: Option<Option<Millis>> = data.transaction.get(data.keyspace(), key).map(|record| record.expiry);
    let is_allowed = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => found.is_none(),
        Condition::IfPresent => found.is_some(),
    };
    if is_allowed {
        let expiry = if options.lifetime == Lifetime::Keep { found.flatten() } else { asked };
        data.put_string(key, bytes, expiry)?;
    }
    Ok(Outcome { was_set: is_allowed, old })
}

fn set(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let options = SetOptions::parse(&words[3..])?;
    let outcome = set_string(data, words[1], words[2], options, "set")?;
    match (options.is_get, outcome.was_set) {
        (true, _) => outcome.tell_old(out),
        (false, true) => out.ok(),
        (false, false) => out.null(),
    }
    Ok(())
}

fn setnx(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let options = SetOptions { condition: Condition::IfAbsent, ..Default::default() };
    let outcome = set_string(data, words[1], words[2], options, "setnx")?;
    out.integer(outcome.was_set.into());
    Ok(())
}

fn setex(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    set_until(data, words, moment::EX, "setex", out)
}

fn psetex(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    set_until(data, words, moment::PX, "psetex", out)
}

fn set_until(
    data: &mut Data<'_, '_>,
    words: &Words<'_>,
    form: Form,
    command: &str,
    out: &mut Out,
) -> Result<(), Failure> {
    let options = SetOptions { lifetime: Lifetime::Until(form, words[2]), ..Default::default() };
    set_string(data, words[1], words[3], options, command)?;
    out.ok();
    Ok(())
}

fn getset(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let options = SetOptions { is_get: true, ..Default::default() };
    set_string(data, words[1], words[2], options, "getset")?.tell_old(out);
    Ok(())
}

fn getex(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let mut lifetime = Lifetime::Unsaid;
    let mut rest = words[2..].iter();
    while let Some(word) = rest.next() {
        lifetime = match word.to_ascii_uppercase().as_slice() {
            b"PERSIST" => lifetime.replace(Lifetime::Endless)?,
            name => lifetime.replace(parse_until(name, rest.next())?)?,
        };
    }
    let keyspace = data.keyspace();
    let Some(old) = data.read_string(words[1])? else {
        out.null();
        return Ok(());
    };
    let expiry = match lifetime {
        Lifetime::Until(form, word) => Some(moment::positive(data, form, word, "getex")?),
        _ => None,
    };
    out.bulk(old.bytes);
    if data.is_past(expiry) {
        data.transaction.delete(keyspace, words[1]);
    } else if lifetime != Lifetime::Unsaid {
        data.transaction.set_expiry(keyspace, words[1], expiry);
    }
    Ok(())
}
