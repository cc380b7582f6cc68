//! The stored procedures of the simulation: one logged by its effects, one by its calls, in several versions.
//! Guarantees: what a call does is one pure function of arguments, version, random number and time, which the model runs too.
//! Must not know: the run.
//! Next: clients.rs calls them.

use super::model::{Bytes, Change, SPACES};
use logd_engine::error::Refused;
use logd_engine::units::Millis;
use logd_engine::{Context, LogForm, Procedure};
use xxhash_rust::xxh3::xxh3_64;

/// Name of the one that is logged by its effects.
pub const BY_EFFECTS: &str = "order";
/// Name of the one that is logged by its calls.
pub const BY_CALLS: &str = "restock";

/// Arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// Marks the values it writes.
    pub stamp: u64,
    /// Number of the key in the first keyspace.
    pub first: u8,
    /// Number of the key in the second one.
    pub second: u8,
    /// What to do.
    pub mode: u8,
}

impl Arguments {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.stamp.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[self.first, self.second, self.mode]);
        bytes
    }

    fn decode(bytes: &[u8]) -> Arguments {
        let stamp = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        Arguments { stamp, first: bytes[8], second: bytes[9], mode: bytes[10] }
    }

    /// Whether the call gives up after having changed something.
    pub fn aborts(&self) -> bool {
        self.mode.is_multiple_of(8)
    }

    /// What the call does.
    pub fn changes(&self, version: u32, random: u64, now: Millis, seen: u64) -> Vec<Change> {
        let stamp = self.stamp ^ seen.rotate_left(7) ^ (random << 8) ^ u64::from(version);
        let expiry = if self.mode & 2 == 0 { 0 } else { now.0 + 1 + random % 4000 };
        let first =
            Change::Put { space: 0, key: key(0, self.first.into()), value: value(stamp, 8 + random % 90), expiry };
        let second = key(1, self.second.into());
        let second = match self.mode & 1 {
            0 => Change::Put { space: 1, key: second, value: value(!stamp, 30), expiry: 0 },
            _ => Change::Delete { space: 1, key: second },
        };
        vec![first, second]
    }
}

/// What a call answers: all that the model needs to do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The version that ran.
    pub version: u32,
    /// The random number it drew.
    pub random: u64,
    /// Engine time it saw.
    pub now: u64,
    /// Hash of what it read.
    pub seen: u64,
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        [u64::from(self.version), self.random, self.now, self.seen].iter().flat_map(|part| part.to_le_bytes()).collect()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let part = |at: usize| Some(u64::from_le_bytes(bytes.get(at * 8..at * 8 + 8)?.try_into().ok()?));
        Some(Answer { version: part(0)? as u32, random: part(1)?, now: part(2)?, seen: part(3)? })
    }
}

/// Hash of two values as a call sees them.
pub fn seen(first: Option<&[u8]>, second: Option<&[u8]>) -> u64 {
    first.map_or(1, xxh3_64) ^ second.map_or(2, xxh3_64).rotate_left(1)
}

/// A key by its number.
pub fn key(space: usize, number: u64) -> Bytes {
    // The first two bytes are the prefix by which the third keyspace is routed.
    let mut text = format!("{}{}/{number:03}", (b'a' + space as u8) as char, number % 4);
    if number.is_multiple_of(11) {
        text.push_str(&"-long".repeat(1 + number as usize % 30));
    }
    text.into_bytes().into()
}

/// A value that no other stamp gives.
pub fn value(stamp: u64, bytes: u64) -> Bytes {
    let mut value = Vec::with_capacity(bytes as usize + 8);
    let mut word = stamp;
    while (value.len() as u64) < bytes.max(8) {
        value.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ stamp;
    }
    value.truncate(bytes.max(8) as usize);
    value.into()
}

/// All versions up to the present one, oldest first.
pub fn all(version_last: u32) -> Vec<Procedure> {
    versions(version_last, 0)
}

/// The same by their names, but not by what they do.
pub fn liars(version_last: u32) -> Vec<Procedure> {
    versions(version_last, 1)
}

fn versions(version_last: u32, lie: u64) -> Vec<Procedure> {
    let versions = |name: &'static str, form: LogForm| {
        (1..=version_last).map(move |version| procedure(name, version, lie).logged_as(form))
    };
    versions(BY_EFFECTS, LogForm::Effects).chain(versions(BY_CALLS, LogForm::Call)).collect()
}

fn procedure(name: &'static str, version: u32, lie: u64) -> Procedure {
    let spaces = [SPACES[0].name, SPACES[1].name];
    let procedure = Procedure::new(name, version, &spaces, move |context, bytes| {
        let mut arguments = Arguments::decode(bytes);
        arguments.stamp ^= lie;
        run(context, version, &arguments)
    });
    if version.is_multiple_of(2) {
        return procedure;
    }
    procedure.touching(|bytes, touch| {
        let arguments = Arguments::decode(bytes);
        touch(SPACES[0].name, &key(0, arguments.first.into()));
        touch(SPACES[1].name, &key(1, arguments.second.into()));
    })
}

fn run(context: &mut Context<'_, '_>, version: u32, arguments: &Arguments) -> Result<Vec<u8>, logd_engine::Error> {
    let (first, second) = (context.keyspace(0), context.keyspace(1));
    let seen = seen(
        context.get(first, &key(0, arguments.first.into())).map(|record| record.value),
        context.get(second, &key(1, arguments.second.into())).map(|record| record.value),
    );
    let answer = Answer { version, random: context.random(), now: context.now().0, seen };
    for change in arguments.changes(version, answer.random, Millis(answer.now), seen) {
        match change {
            Change::Put { space, key, value, expiry } => {
                let expiry = (expiry != 0).then_some(Millis(expiry));
                context.put(context.keyspace(space), &key, &value, expiry)?;
            }
            Change::Delete { space, key } => {
                context.delete(context.keyspace(space), &key);
            }
            _ => unreachable!("calls put and delete only"),
        }
    }
    if arguments.aborts() {
        return Err(Refused::Aborted("as asked".to_owned()).into());
    }
    Ok(answer.encode())
}
