//! Commands that set, tell and take away when a key ends.
//! Guarantees: a moment that has passed removes the key at once, and the log says so.
//! Must not know: who removes keys that end later; the engine does.
//! Next: moment.rs.

use super::moment::{self, Form};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, flags};
use crate::resp::Out;
use logd_engine::units::Millis;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new(
        "expire",
        -3,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        expire,
        "Lets a key end after some seconds.",
    ),
    DataSpec::new(
        "pexpire",
        -3,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        pexpire,
        "Lets a key end after some milliseconds.",
    ),
    DataSpec::new(
        "expireat",
        -3,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        expireat,
        "Lets a key end at a Unix time in seconds.",
    ),
    DataSpec::new(
        "pexpireat",
        -3,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        pexpireat,
        "Lets a key end at a Unix time in milliseconds.",
    ),
    DataSpec::new("ttl", 2, flags::READ_FAST, KeyPlaces::ONE, "generic", ttl, "Tells the seconds a key has left."),
    DataSpec::new(
        "pttl",
        2,
        flags::READ_FAST,
        KeyPlaces::ONE,
        "generic",
        pttl,
        "Tells the milliseconds a key has left.",
    ),
    DataSpec::new(
        "expiretime",
        2,
        flags::READ_FAST,
        KeyPlaces::ONE,
        "generic",
        expiretime,
        "Tells the Unix time in seconds at which a key ends.",
    ),
    DataSpec::new(
        "pexpiretime",
        2,
        flags::READ_FAST,
        KeyPlaces::ONE,
        "generic",
        pexpiretime,
        "Tells the Unix time in milliseconds at which a key ends.",
    ),
    DataSpec::new(
        "persist",
        2,
        flags::WRITE_FAST,
        KeyPlaces::ONE,
        "generic",
        keep_for_good,
        "Lets a key stay for good.",
    ),
];

/// Which present expiries a new one may replace.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    if_absent: bool,
    if_present: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(words: &Words<'_>) -> Result<Conditions, Failure> {
        let mut conditions = Conditions::default();
        for word in words {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => conditions.if_absent = true,
                b"XX" => conditions.if_present = true,
                b"GT" => conditions.if_later = true,
                b"LT" => conditions.if_earlier = true,
                _ => {
                    let option = String::from_utf8_lossy(word);
                    return Err(Failure::reply(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Conditions { if_absent, if_present, if_later, if_earlier } = conditions;
        if if_absent && (if_present || if_later || if_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Failure::reply(text));
        }
        if if_later && if_earlier {
            return Err(Failure::reply("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// No expiry counts as later than any moment.
    fn allow(&self, present: Option<Millis>, asked: Millis) -> bool {
        let is_later = present.is_some_and(|present| asked > present);
        let is_earlier = present.is_none_or(|present| asked < present);
        (!self.if_absent || present.is_none())
            && (!self.if_present || present.is_some())
            && (!self.if_later || is_later)
            && (!self.if_earlier || is_earlier)
    }
}

fn expire(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    expire_at(data, words, moment::EX, "expire", out)
}

fn pexpire(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    expire_at(data, words, moment::PX, "pexpire", out)
}

fn expireat(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    expire_at(data, words, moment::EXAT, "expireat", out)
}

fn pexpireat(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    expire_at(data, words, moment::PXAT, "pexpireat", out)
}

fn expire_at(
    data: &mut Data<'_, '_>,
    words: &Words<'_>,
    form: Form,
    command: &str,
    out: &mut Out,
) -> Result<(), Failure> {
    let conditions = Conditions::parse(&words[3..])?;
    let asked = moment::any(data, form, words[2], command)?;
    let keyspace = data.keyspace();
    let present = data.transaction.get(keyspace, words[1]).map(|record| record.expiry);
    let is_allowed = present.is_some_and(|present| conditions.allow(present, asked));
    if is_allowed && data.is_past(Some(asked)) {
        data.transaction.delete(keyspace, words[1]);
    } else if is_allowed {
        data.transaction.set_expiry(keyspace, words[1], Some(asked));
    }
    out.integer(is_allowed.into());
    Ok(())
}

fn ttl(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let now = data.transaction.now();
    tell(data, words[1], out, |expiry| seconds((expiry.0 - now.0) as i64));
    Ok(())
}

fn pttl(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let now = data.transaction.now();
    tell(data, words[1], out, |expiry| (expiry.0 - now.0) as i64);
    Ok(())
}

fn expiretime(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let time = data.time;
    tell(data, words[1], out, |expiry| seconds(time.to_wall(expiry)));
    Ok(())
}

fn pexpiretime(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let time = data.time;
    tell(data, words[1], out, |expiry| time.to_wall(expiry));
    Ok(())
}

/// To the nearest second, as Redis rounds.
fn seconds(millis: i64) -> i64 {
    millis / 1000 + i64::from(millis % 1000 >= 500)
}

/// Tells something about an expiry, -1 if the key never ends, -2 if there is none.
fn tell(data: &Data<'_, '_>, key: &[u8], out: &mut Out, of: impl FnOnce(Millis) -> i64) {
    let record = data.look_up(key);
    out.integer(record.map_or(-2, |record| record.expiry.map_or(-1, of)));
}

fn keep_for_good(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let keyspace = data.keyspace();
    let has_end = data.transaction.get(keyspace, words[1]).is_some_and(|record| record.expiry.is_some());
    if has_end {
        data.transaction.set_expiry(keyspace, words[1], None);
    }
    out.integer(has_end.into());
    Ok(())
}
