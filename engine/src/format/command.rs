//! A command's bytes in the log: a frame header, then effects or a call.
//!
//! ```text
//! frame   body_bytes u32 | kind u8 | reserved 3 (zero) | body
//! effects (kind 1) one after the other:
//!   1 put        keyspace u16 | key_bytes u16 | value_bytes u32 | key | value
//!   2 put+expiry keyspace u16 | key_bytes u16 | value_bytes u32 | expiry_millis u64 | key | value
//!   3 delete     keyspace u16 | key_bytes u16 | key
//!   4 expire     keyspace u16 | key_bytes u16 | expiry_millis u64 (0: never) | key
//!   5 clear      keyspace u16
//!   6 keyspace   keyspace u16 | level u8 | routing u8 | prefix_bytes u16 | name_bytes u8 | name
//!   7 procedure  procedure u32 | version u32 | form u8 | name_bytes u8 | name
//! call (kind 2) procedure u32 | version u32 | time_millis u64 | seed u64 | effects_crc u32 | arguments (the rest)
//! ```
//! Guarantees: decoding never reads past the frame, never allocates, and refuses unknown kinds.
//! Must not know: batches, LSNs, what the index does with an effect.
//! Next: batch.rs carries frames; core/apply.rs applies them.

use super::{Cursor, Field, packed};

/// Bytes before a frame's body.
pub const FRAME_HEADER_BYTES: usize = 8;

const KIND_EFFECTS: u8 = 1;
const KIND_CALL: u8 = 2;

/// A frame's table.
pub const FRAME_FIELDS: &[Field] = &packed([("body_bytes", 4), ("kind", 1), ("reserved", 3), ("body", 0)]);
/// Table of effect 1.
pub const PUT_FIELDS: &[Field] =
    &packed([("effect", 1), ("keyspace", 2), ("key_bytes", 2), ("value_bytes", 4), ("key", 0), ("value", 0)]);
/// Table of effect 2.
pub const PUT_EXPIRY_FIELDS: &[Field] = &packed([
    ("effect", 1),
    ("keyspace", 2),
    ("key_bytes", 2),
    ("value_bytes", 4),
    ("expiry_millis", 8),
    ("key", 0),
    ("value", 0),
]);
/// Table of effect 3.
pub const DELETE_FIELDS: &[Field] = &packed([("effect", 1), ("keyspace", 2), ("key_bytes", 2), ("key", 0)]);
/// Table of effect 4.
pub const EXPIRE_FIELDS: &[Field] =
    &packed([("effect", 1), ("keyspace", 2), ("key_bytes", 2), ("expiry_millis", 8), ("key", 0)]);
/// Table of effect 5.
pub const CLEAR_FIELDS: &[Field] = &packed([("effect", 1), ("keyspace", 2)]);
/// Table of effect 6.
pub const KEYSPACE_FIELDS: &[Field] = &packed([
    ("effect", 1),
    ("keyspace", 2),
    ("level", 1),
    ("routing", 1),
    ("prefix_bytes", 2),
    ("name_bytes", 1),
    ("name", 0),
]);
/// Table of effect 7.
pub const PROCEDURE_FIELDS: &[Field] =
    &packed([("effect", 1), ("procedure", 4), ("version", 4), ("form", 1), ("name_bytes", 1), ("name", 0)]);
/// Table of a call, which is the whole body of its frame.
pub const CALL_FIELDS: &[Field] =
    &packed([("procedure", 4), ("version", 4), ("time_millis", 8), ("seed", 8), ("effects_crc", 4), ("arguments", 0)]);

/// One change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Sets a record.
    Put {
        /// Keyspace number.
        keyspace: u16,
        /// Key.
        key: &'a [u8],
        /// Value.
        value: &'a [u8],
        /// End of the record in engine milliseconds; 0 for never.
        expiry_millis: u64,
    },
    /// Removes a record.
    Delete {
        /// Keyspace number.
        keyspace: u16,
        /// Key.
        key: &'a [u8],
    },
    /// Changes a record's end only.
    Expire {
        /// Keyspace number.
        keyspace: u16,
        /// Key.
        key: &'a [u8],
        /// End of the record in engine milliseconds; 0 for never.
        expiry_millis: u64,
    },
    /// Removes all records of a keyspace.
    Clear {
        /// Keyspace number.
        keyspace: u16,
    },
    /// Makes a keyspace.
    Keyspace(KeyspaceEffect<'a>),
    /// Names a procedure and the version of it that commands from here on mean.
    Procedure {
        /// Procedure number.
        procedure: u32,
        /// Version hash.
        version: u32,
        /// 1: logged as effects, 2: logged as calls.
        form: u8,
        /// Name.
        name: &'a str,
    },
}

/// Makes a keyspace, or changes the settings of one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceEffect<'a> {
    /// Its number.
    pub keyspace: u16,
    /// Its default level: 0 store's default, 1 accepted, 2 written, 3 synced, 4 volatile.
    pub level: u8,
    /// How keys find their shard: 0 by hash of the whole key, 1 by hash of its first `prefix_bytes`, 2 all in one shard.
    pub routing: u8,
    /// For routing 1.
    pub prefix_bytes: u16,
    /// Its name.
    pub name: &'a str,
}

/// A procedure call that is replayed by running it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Procedure number.
    pub procedure: u32,
    /// Version hash of the code that ran.
    pub version: u32,
    /// Engine time it saw.
    pub time_millis: u64,
    /// Seed of its random numbers.
    pub seed: u64,
    /// CRC-32 of the effects it had, encoded as a body of kind 1.
    pub effects_crc: u32,
    /// Its arguments.
    pub arguments: &'a [u8],
}

/// A decoded frame.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// Effects, to be applied in order.
    Effects(Effects<'a>),
    /// A call, to be run again.
    Call(Call<'a>),
}

/// What is wrong with a frame whose checksum is right: written by a newer program, or a fault of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Splits the first frame off a batch's payload.
pub fn split_frame(payload: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut cursor = Cursor::new(payload);
    let body_bytes = cursor.u32().ok_or(Malformed("frame header is cut short"))? as usize;
    let frame_bytes = body_bytes.checked_add(FRAME_HEADER_BYTES).ok_or(Malformed("frame length overflows"))?;
    payload.split_at_checked(frame_bytes).ok_or(Malformed("frame is longer than its batch"))
}

/// Decodes one frame. Effects are decoded as they are walked.
pub fn decode(frame: &[u8]) -> Result<Command<'_>, Malformed> {
    let mut cursor = Cursor::new(frame);
    let short = Malformed("frame header is cut short");
    let body_bytes = cursor.u32().ok_or(short)? as usize;
    let kind = cursor.u8().ok_or(short)?;
    let reserved: [u8; 3] = cursor.array().ok_or(short)?;
    if reserved != [0; 3] {
        return Err(Malformed("reserved bytes of a frame are not zero"));
    }
    if cursor.rest().len() != body_bytes {
        return Err(Malformed("frame length differs from its bytes"));
    }
    match kind {
        KIND_EFFECTS => Ok(Command::Effects(Effects { cursor })),
        KIND_CALL => decode_call(cursor).map(Command::Call),
        _ => Err(Malformed("unknown kind of frame")),
    }
}

fn decode_call(mut cursor: Cursor<'_>) -> Result<Call<'_>, Malformed> {
    let short = Malformed("call is cut short");
    Ok(Call {
        procedure: cursor.u32().ok_or(short)?,
        version: cursor.u32().ok_or(short)?,
        time_millis: cursor.u64().ok_or(short)?,
        seed: cursor.u64().ok_or(short)?,
        effects_crc: cursor.u32().ok_or(short)?,
        arguments: cursor.rest(),
    })
}

/// Walks the effects of a command. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Effects<'a> {
    type Item = Result<Effect<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.rest().is_empty() {
            return None;
        }
        let effect = decode_effect(&mut self.cursor);
        if effect.is_err() {
            self.cursor = Cursor::new(&[]);
        }
        Some(effect)
    }
}

fn decode_effect<'a>(cursor: &mut Cursor<'a>) -> Result<Effect<'a>, Malformed> {
    let short = Malformed("effect is cut short");
    match cursor.u8().ok_or(short)? {
        kind @ (1 | 2) => decode_put(cursor, kind == 2).ok_or(short),
        3 => decode_key(cursor, 0).map(|(keyspace, key, _)| Effect::Delete { keyspace, key }).ok_or(short),
        4 => decode_key(cursor, 8)
            .map(|(keyspace, key, expiry_millis)| Effect::Expire { keyspace, key, expiry_millis })
            .ok_or(short),
        5 => cursor.u16().map(|keyspace| Effect::Clear { keyspace }).ok_or(short),
        6 => decode_keyspace(cursor),
        7 => decode_procedure(cursor),
        _ => Err(Malformed("unknown kind of effect")),
    }
}

fn decode_put<'a>(cursor: &mut Cursor<'a>, expiring: bool) -> Option<Effect<'a>> {
    let keyspace = cursor.u16()?;
    let key_bytes = cursor.u16()? as usize;
    let value_bytes = cursor.u32()? as usize;
    let expiry_millis = if expiring { cursor.u64()? } else { 0 };
    let key = cursor.take(key_bytes)?;
    let value = cursor.take(value_bytes)?;
    Some(Effect::Put { keyspace, key, value, expiry_millis })
}

fn decode_key<'a>(cursor: &mut Cursor<'a>, expiry_bytes: usize) -> Option<(u16, &'a [u8], u64)> {
    let keyspace = cursor.u16()?;
    let key_bytes = cursor.u16()? as usize;
    let expiry_millis = if expiry_bytes == 0 { 0 } else { cursor.u64()? };
    Some((keyspace, cursor.take(key_bytes)?, expiry_millis))
}

fn decode_keyspace<'a>(cursor: &mut Cursor<'a>) -> Result<Effect<'a>, Malformed> {
    let short = Malformed("keyspace definition is cut short");
    let keyspace = cursor.u16().ok_or(short)?;
    let level = cursor.u8().ok_or(short)?;
    let routing = cursor.u8().ok_or(short)?;
    let prefix_bytes = cursor.u16().ok_or(short)?;
    let name = decode_name(cursor)?;
    if level > 4 || routing > 2 {
        return Err(Malformed("keyspace definition has an unknown level or routing"));
    }
    Ok(Effect::Keyspace(KeyspaceEffect { keyspace, level, routing, prefix_bytes, name }))
}

fn decode_procedure<'a>(cursor: &mut Cursor<'a>) -> Result<Effect<'a>, Malformed> {
    let short = Malformed("procedure definition is cut short");
    let procedure = cursor.u32().ok_or(short)?;
    let version = cursor.u32().ok_or(short)?;
    let form = cursor.u8().ok_or(short)?;
    if !(1..=2).contains(&form) {
        return Err(Malformed("procedure definition has an unknown form"));
    }
    Ok(Effect::Procedure { procedure, version, form, name: decode_name(cursor)? })
}

fn decode_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, Malformed> {
    let name_bytes = cursor.u8().ok_or(Malformed("name is cut short"))? as usize;
    let name = cursor.take(name_bytes).ok_or(Malformed("name is cut short"))?;
    std::str::from_utf8(name).map_err(|_| Malformed("name is not UTF-8"))
}

/// Builds one frame in a buffer that is reused from command to command.
#[derive(Clone, Debug, Default)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
}

impl FrameBuilder {
    /// An empty builder.
    pub fn new() -> FrameBuilder {
        FrameBuilder::default()
    }

    /// Starts a frame of effects, dropping what was there.
    pub fn start_effects(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, KIND_EFFECTS, 0, 0, 0]);
    }

    /// Whether no effect was added since `start_effects`.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= FRAME_HEADER_BYTES
    }

    /// The effects alone, without the frame's header: what `Call::effects_crc` is taken of.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(FRAME_HEADER_BYTES..).unwrap_or(&[])
    }

    /// Adds an effect. Lengths must have been checked against `limits`.
    pub fn push(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::Put { keyspace, key, value, expiry_millis } => self.push_put(keyspace, key, value, expiry_millis),
            Effect::Delete { keyspace, key } => self.push_key(3, keyspace, key, None),
            Effect::Expire { keyspace, key, expiry_millis } => self.push_key(4, keyspace, key, Some(expiry_millis)),
            Effect::Clear { keyspace } => {
                self.bytes.push(5);
                self.bytes.extend_from_slice(&keyspace.to_le_bytes());
            }
            Effect::Keyspace(keyspace) => self.push_keyspace(keyspace),
            Effect::Procedure { procedure, version, form, name } => {
                self.bytes.push(7);
                self.bytes.extend_from_slice(&procedure.to_le_bytes());
                self.bytes.extend_from_slice(&version.to_le_bytes());
                self.bytes.push(form);
                self.push_name(name);
            }
        }
    }

    fn push_put(&mut self, keyspace: u16, key: &[u8], value: &[u8], expiry_millis: u64) {
        let value_bytes = u32::try_from(value.len()).expect("a value's length was checked");
        self.bytes.reserve(17 + key.len() + value.len());
        self.bytes.push(if expiry_millis == 0 { 1 } else { 2 });
        self.bytes.extend_from_slice(&keyspace.to_le_bytes());
        self.bytes.extend_from_slice(&key_bytes(key).to_le_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        if expiry_millis != 0 {
            self.bytes.extend_from_slice(&expiry_millis.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn push_key(&mut self, kind: u8, keyspace: u16, key: &[u8], expiry_millis: Option<u64>) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&keyspace.to_le_bytes());
        self.bytes.extend_from_slice(&key_bytes(key).to_le_bytes());
        if let Some(expiry_millis) = expiry_millis {
            self.bytes.extend_from_slice(&expiry_millis.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
    }

    fn push_keyspace(&mut self, keyspace: KeyspaceEffect<'_>) {
        self.bytes.push(6);
        self.bytes.extend_from_slice(&keyspace.keyspace.to_le_bytes());
        self.bytes.push(keyspace.level);
        self.bytes.push(keyspace.routing);
        self.bytes.extend_from_slice(&keyspace.prefix_bytes.to_le_bytes());
        self.push_name(keyspace.name);
    }

    fn push_name(&mut self, name: &str) {
        self.bytes.push(u8::try_from(name.len()).expect("a name's length was checked"));
        self.bytes.extend_from_slice(name.as_bytes());
    }

    /// Makes the frame a call instead, dropping what was there.
    pub fn replace_by_call(&mut self, call: &Call<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, KIND_CALL, 0, 0, 0]);
        self.bytes.extend_from_slice(&call.procedure.to_le_bytes());
        self.bytes.extend_from_slice(&call.version.to_le_bytes());
        self.bytes.extend_from_slice(&call.time_millis.to_le_bytes());
        self.bytes.extend_from_slice(&call.seed.to_le_bytes());
        self.bytes.extend_from_slice(&call.effects_crc.to_le_bytes());
        self.bytes.extend_from_slice(call.arguments);
    }

    /// Completes the header and gives the frame.
    pub fn finish(&mut self) -> &[u8] {
        let body_bytes = u32::try_from(self.bytes.len() - FRAME_HEADER_BYTES).expect("a command's length was checked");
        self.bytes[..4].copy_from_slice(&body_bytes.to_le_bytes());
        &self.bytes
    }
}

fn key_bytes(key: &[u8]) -> u16 {
    u16::try_from(key.len()).expect("a key's length was checked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_kinds() -> Vec<Effect<'static>> {
        vec![
            Effect::Put { keyspace: 1, key: b"k", value: b"value", expiry_millis: 0 },
            Effect::Put { keyspace: 2, key: b"", value: b"", expiry_millis: 77 },
            Effect::Delete { keyspace: 3, key: b"gone" },
            Effect::Expire { keyspace: 4, key: b"later", expiry_millis: 0 },
            Effect::Clear { keyspace: 5 },
            Effect::Keyspace(KeyspaceEffect { keyspace: 6, level: 3, routing: 1, prefix_bytes: 4, name: "six" }),
            Effect::Procedure { procedure: 7, version: 0xfeed, form: 2, name: "vote" },
        ]
    }

    #[test]
    fn effects_come_back_as_they_went_in() {
        let mut builder = FrameBuilder::new();
        builder.start_effects();
        assert!(builder.is_empty());
        all_kinds().into_iter().for_each(|effect| builder.push(effect));
        let Ok(Command::Effects(effects)) = decode(builder.finish()) else { panic!("effects expected") };
        assert_eq!(effects.collect::<Result<Vec<_>, _>>(), Ok(all_kinds()));
    }

    #[test]
    fn every_cut_of_a_frame_is_refused_or_shorter_and_never_panics() {
        let mut builder = FrameBuilder::new();
        builder.start_effects();
        all_kinds().into_iter().for_each(|effect| builder.push(effect));
        let frame = builder.finish().to_vec();
        for cut in 0..frame.len() {
            assert!(decode(&frame[..cut]).is_err(), "cut at {cut}");
            assert!(split_frame(&frame[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_call_comes_back_as_it_went_in() {
        let call = Call { procedure: 1, version: 2, time_millis: 3, seed: 4, effects_crc: 5, arguments: b"args" };
        let mut builder = FrameBuilder::new();
        builder.start_effects();
        builder.replace_by_call(&call);
        assert!(matches!(decode(builder.finish()), Ok(Command::Call(decoded)) if decoded == call));
    }

    #[test]
    fn an_unknown_kind_with_a_right_length_is_refused() {
        assert!(decode(&[0, 0, 0, 0, 9, 0, 0, 0]).is_err());
        let Ok(Command::Effects(mut effects)) = decode(&[1, 0, 0, 0, 1, 0, 0, 0, 99]) else {
            panic!("effects expected")
        };
        assert_eq!(effects.next(), Some(Err(Malformed("unknown kind of effect"))));
        assert_eq!(effects.next(), None);
    }
}
