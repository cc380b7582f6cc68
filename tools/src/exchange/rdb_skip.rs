//! Passes over values of types that have no place here: lists, sets, hashes, sorted sets, streams, modules.
//! Guarantees: exactly the bytes of the value are taken, or the file is refused.
//! Must not know: what is in them.
//! Next: rdb_read.rs.

use super::input::InputError;
use super::rdb_read::RdbReader;
use std::io::BufRead;

/// Passes over a value. Gives the name of its type.
pub fn value<R: BufRead>(reader: &mut RdbReader<'_, R>, kind: u8) -> Result<&'static str, InputError> {
    match kind {
        1 | 14 => strings(reader, 1).map(|()| "list"),
        10 => reader.skip_string().map(|()| "list"),
        18 => quicklist(reader).map(|()| "list"),
        2 => strings(reader, 1).map(|()| "set"),
        11 | 20 => reader.skip_string().map(|()| "set"),
        3 | 5 => scores(reader, kind == 5).map(|()| "zset"),
        12 | 17 => reader.skip_string().map(|()| "zset"),
        4 => strings(reader, 2).map(|()| "hash"),
        9 | 13 | 16 => reader.skip_string().map(|()| "hash"),
        22 | 24 | 25 => hash_with_expiry(reader, kind).map(|()| "hash"),
        15 | 19 | 21 => stream(reader, kind).map(|()| "stream"),
        7 => {
            reader.length()?;
            module(reader).map(|()| "module")
        }
        kind => Err(reader.input.wrong(format!("a value of the unknown type {kind}"))),
    }
}

/// Passes over data that a module keeps beside the keys.
pub fn module_aux<R: BufRead>(reader: &mut RdbReader<'_, R>) -> Result<(), InputError> {
    for _ in 0..3 {
        reader.length()?;
    }
    module(reader)
}

fn strings<R: BufRead>(reader: &mut RdbReader<'_, R>, each: usize) -> Result<(), InputError> {
    for _ in 0..reader.length()? {
        for _ in 0..each {
            reader.skip_string()?;
        }
    }
    Ok(())
}

fn quicklist<R: BufRead>(reader: &mut RdbReader<'_, R>) -> Result<(), InputError> {
    for _ in 0..reader.length()? {
        reader.length()?;
        reader.skip_string()?;
    }
    Ok(())
}

fn scores<R: BufRead>(reader: &mut RdbReader<'_, R>, is_binary: bool) -> Result<(), InputError> {
    for _ in 0..reader.length()? {
        reader.skip_string()?;
        let bytes = if is_binary { 8 } else { reader.input.byte()? };
        // 253 to 255 stand for what is no number and the two infinities.
        reader.input.skip(if bytes < 253 { u64::from(bytes) } else { 0 })?;
    }
    Ok(())
}

/// Hashes whose fields end: 22 is Valkey's, 24 and 25 are those of Redis 7.4.
fn hash_with_expiry<R: BufRead>(reader: &mut RdbReader<'_, R>, kind: u8) -> Result<(), InputError> {
    if kind == 22 {
        for _ in 0..reader.length()? {
            reader.skip_string()?;
            reader.skip_string()?;
            reader.input.skip(8)?;
        }
        return Ok(());
    }
    reader.input.skip(8)?;
    if kind == 25 {
        return reader.skip_string();
    }
    for _ in 0..reader.length()? {
        reader.length()?;
        reader.skip_string()?;
        reader.skip_string()?;
    }
    Ok(())
}

fn lengths<R: BufRead>(reader: &mut RdbReader<'_, R>, count: usize) -> Result<(), InputError> {
    (0..count).try_for_each(|_| reader.length().map(drop))
}

fn stream<R: BufRead>(reader: &mut RdbReader<'_, R>, kind: u8) -> Result<(), InputError> {
    strings(reader, 2)?;
    // Count and last id; from the second form on also first id, newest deleted id and the number ever added.
    lengths(reader, if kind == 15 { 3 } else { 8 })?;
    for _ in 0..reader.length()? {
        reader.skip_string()?;
        lengths(reader, if kind == 15 { 2 } else { 3 })?;
        for _ in 0..reader.length()? {
            reader.input.skip(16 + 8)?;
            reader.length()?;
        }
        for _ in 0..reader.length()? {
            reader.skip_string()?;
            reader.input.skip(if kind == 21 { 16 } else { 8 })?;
            let pending = reader.length()?;
            reader.input.skip(pending.saturating_mul(16))?;
        }
    }
    Ok(())
}

fn module<R: BufRead>(reader: &mut RdbReader<'_, R>) -> Result<(), InputError> {
    loop {
        match reader.length()? {
            0 => return Ok(()),
            1 | 2 => drop(reader.length()?),
            3 => reader.input.skip(4)?,
            4 => reader.input.skip(8)?,
            5 => reader.skip_string()?,
            code => return Err(reader.input.wrong(format!("operation {code} of a module is not known"))),
        }
    }
}
