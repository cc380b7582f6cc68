//! Commands that walk over keys.
//! Guarantees: a key that is there all the while is told at least once over a whole SCAN; COUNT bounds what one step
//! looks at, not what it tells; keys that ended are never told.
//! Must not know: how places become numbers.
//! Next: cursors.rs, glob.rs.

use super::value::{integer, type_of};
use super::{Data, DataSpec, Failure, KeyPlaces, Words, errors, flags};
use crate::glob;
use crate::number::parse_u64;
use crate::resp::Out;
use logd_engine::ScanPosition;

const SCAN_COUNT_DEFAULT: usize = 10;
/// Samples RANDOMKEY takes before it settles for the first key that has not ended.
const SAMPLES_MAX: u64 = 32;
const WALK_RECORDS: usize = 256;

/// The rows of this file.
pub const SPECS: &[DataSpec] = &[
    DataSpec::new("keys", 2, flags::READ, KeyPlaces::NONE, "generic", keys, "Tells all keys that match a pattern."),
    DataSpec::new("scan", -2, flags::READ, KeyPlaces::NONE, "generic", scan, "Tells some keys and where to go on."),
    DataSpec::new("randomkey", 1, flags::READ, KeyPlaces::NONE, "generic", randomkey, "Tells some key."),
];

/// Replies that are counted before their head can be written.
#[derive(Default)]
struct Found {
    replies: Out,
    count: usize,
}

impl Found {
    fn tell(&mut self, key: &[u8]) {
        self.replies.bulk(key);
        self.count += 1;
    }

    fn write_to(&self, out: &mut Out) {
        out.array(self.count);
        out.raw(self.replies.bytes());
    }
}

fn keys(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let mut found = Found::default();
    data.transaction.visit(data.keyspace(), &ScanPosition::default(), usize::MAX, &mut |key, _| {
        if glob::matches(words[1], key) {
            found.tell(key);
        }
    });
    found.write_to(out);
    Ok(())
}

struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    count: usize,
}

impl<'a> ScanOptions<'a> {
    fn parse(words: &Words<'a>) -> Result<ScanOptions<'a>, Failure> {
        let mut options = ScanOptions { pattern: None, type_name: None, count: SCAN_COUNT_DEFAULT };
        for pair in words.chunks(2) {
            let [name, argument] = pair else { return Err(errors::syntax()) };
            match name.to_ascii_uppercase().as_slice() {
                b"MATCH" => options.pattern = Some(argument),
                b"TYPE" => options.type_name = Some(argument),
                b"COUNT" => options.count = positive_count(argument)?,
                _ => return Err(errors::syntax()),
            }
        }
        Ok(options)
    }

    fn select(&self, key: &[u8], value: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, key))
            && self.type_name.is_none_or(|name| type_of(value).as_bytes().eq_ignore_ascii_case(name))
    }
}

fn positive_count(word: &[u8]) -> Result<usize, Failure> {
    match integer(word)? {
        count @ 1.. => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(errors::syntax()),
    }
}

fn scan(data: &mut Data<'_, '_>, words: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let invalid_cursor = || Failure::reply("ERR invalid cursor");
    let cursor = parse_u64(words[1]).ok_or_else(invalid_cursor)?;
    let options = ScanOptions::parse(&words[2..])?;
    let start = if cursor == 0 { Some(ScanPosition::default()) } else { data.cursors.place(data.database, cursor) };
    let start = start.ok_or_else(invalid_cursor)?;
    let mut found = Found::default();
    let end = data.transaction.visit(data.keyspace(), &start, options.count, &mut |key, record| {
        if options.select(key, record.value) {
            found.tell(key);
        }
    });
    let next = end.map_or(0, |position| data.cursors.number(data.database, position));
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    found.write_to(out);
    Ok(())
}

fn randomkey(data: &mut Data<'_, '_>, _: &Words<'_>, out: &mut Out) -> Result<(), Failure> {
    let keyspace = data.keyspace();
    let is_live = |key: &Vec<u8>| data.transaction.get(keyspace, key).is_some();
    let mut draws = (0..SAMPLES_MAX).map(|draw| mix(data.random.wrapping_add(draw)));
    let sampled = draws.find_map(|random| data.transaction.sample(keyspace, random).filter(is_live));
    match sampled.or_else(|| first_live(data)) {
        Some(key) => out.bulk(&key),
        None => out.null(),
    }
    Ok(())
}

/// The first key that has not ended.
fn first_live(data: &Data<'_, '_>) -> Option<Vec<u8>> {
    let mut position = Some(ScanPosition::default());
    let mut found = None;
    while let (Some(start), None) = (position, &found) {
        position = data.transaction.visit(data.keyspace(), &start, WALK_RECORDS, &mut |key, _| {
            found.get_or_insert_with(|| key.to_vec());
        });
    }
    found
}

/// Spreads the bits of a number (the finalizer of splitmix64), so that successive numbers sample far apart.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
