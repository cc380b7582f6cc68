//! STAND-IN for `logd::voter::procedures` until that is merged: the same names, arguments and replies, in the plainest form.
//! Guarantees: the result codes and the order of checks are those of VoltDB's Vote.
//! Must not know: who calls.
//! Next: when `logd::voter` is there, `procedures` and `reply` below become calls of it; nothing else changes.

use super::CONTESTANT_NAMES;
use super::wire::{Parsed, Reply, parse};
use crate::workload::area_codes;
use logd_engine::error::Refused;
use logd_engine::{Context, Error, Procedure};

const KEYSPACES: [&str; 4] = ["voter_contestants", "voter_phones", "voter_votes", "voter_states"];

/// The procedures of Voter.
pub fn procedures() -> Vec<Procedure> {
    vec![
        Procedure::new("voter_init", 1, &KEYSPACES, init),
        Procedure::new("vote", 1, &KEYSPACES, vote),
        Procedure::new("voter_results", 1, &KEYSPACES, |context, _| Ok(rows(&results(context)))),
        Procedure::new("voter_states", 1, &KEYSPACES, |context, _| Ok(rows(&states(context)))),
    ]
}

/// Reads what a procedure returned.
pub fn reply(bytes: &[u8]) -> Option<Reply> {
    match parse(bytes) {
        Parsed::Whole(reply, _) => Some(reply),
        Parsed::Partial | Parsed::Broken => None,
    }
}

fn init(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    let words = words(arguments);
    let count = words.first().and_then(|count| count.parse().ok()).unwrap_or(0);
    for (name, number) in CONTESTANT_NAMES.iter().take(count).zip(1..) {
        context.put(context.keyspace(0), i32::to_string(&number).as_bytes(), name.as_bytes(), None)?;
    }
    Ok(b"+OK\r\n".to_vec())
}

fn vote(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    let words = words(arguments);
    let [phone, contestant, limit] = words.as_slice() else {
        return Err(Refused::Aborted("vote takes phone, contestant and limit".to_owned()).into());
    };
    if context.get(context.keyspace(0), contestant.as_bytes()).is_none() {
        return Ok(b":1\r\n".to_vec());
    }
    let cast = count(context, 1, phone);
    if cast >= limit.parse().unwrap_or(0) {
        return Ok(b":2\r\n".to_vec());
    }
    let area: u64 = phone.parse().unwrap_or(0);
    let state = area_codes::state_of(u16::try_from(area / 10_000_000).unwrap_or(0));
    for (place, key) in [(1, phone.clone()), (2, contestant.clone()), (3, format!("{contestant} {state}"))] {
        let votes = count(context, place, &key) + 1;
        context.put(context.keyspace(place), key.as_bytes(), votes.to_string().as_bytes(), None)?;
    }
    Ok(b":0\r\n".to_vec())
}

fn count(context: &Context<'_, '_>, place: usize, key: &str) -> u64 {
    let record = context.get(context.keyspace(place), key.as_bytes());
    record.and_then(|record| std::str::from_utf8(record.value).ok()?.parse().ok()).unwrap_or(0)
}

fn names(context: &Context<'_, '_>) -> Vec<(u32, String)> {
    let name = |number: u32| {
        let record = context.get(context.keyspace(0), number.to_string().as_bytes())?;
        Some((number, String::from_utf8_lossy(record.value).into_owned()))
    };
    (1..=12).filter_map(name).collect()
}

fn results(context: &Context<'_, '_>) -> Vec<[String; 3]> {
    let row = |(number, name): (u32, String)| {
        let votes = count(context, 2, &number.to_string());
        [format!("+{name}"), format!(":{number}"), format!(":{votes}")]
    };
    names(context).into_iter().map(row).collect()
}

fn states(context: &Context<'_, '_>) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    for (number, _) in names(context) {
        for state in area_codes::states().chain([area_codes::STATE_UNKNOWN]) {
            let votes = count(context, 3, &format!("{number} {state}"));
            if votes > 0 {
                rows.push([format!(":{number}"), format!("+{state}"), format!(":{votes}")]);
            }
        }
    }
    rows
}

fn rows(rows: &[[String; 3]]) -> Vec<u8> {
    let rows_text = rows.iter().map(|row| format!("*3\r\n{}\r\n", row.join("\r\n")));
    format!("*{}\r\n{}", rows.len(), rows_text.collect::<String>()).into_bytes()
}

fn words(mut arguments: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    while let Some((length, rest)) = arguments.split_first_chunk::<4>() {
        let Some((word, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
        words.push(String::from_utf8_lossy(word).into_owned());
        arguments = rest;
    }
    words
}
