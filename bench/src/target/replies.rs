//! Reads Voter's results out of replies.
//! Guarantees: a reply of another shape is an error that shows it.
//! Must not know: where replies come from.
//! Next: resp.rs, embedded.rs.

use super::TargetError;
use super::wire::Reply;
use crate::workload::Outcome;
use crate::workload::votes::{ContestantTotal, Totals};
use std::collections::BTreeMap;

/// The end of a vote by its reply.
pub fn outcome(reply: &Reply) -> Outcome {
    match reply.integer().map(u8::try_from) {
        Some(Ok(code)) => Outcome::Code(code),
        _ => Outcome::Aborted,
    }
}

/// Totals from the rows of `voter_results` (name, number, votes) and `voter_states` (contestant, state, votes).
pub fn totals(results: &Reply, states: &Reply) -> Result<Totals, TargetError> {
    let mut totals = Totals::default();
    for [name, number, votes] in rows("voter_results", results)? {
        let name = name.text();
        let (number, votes) = (count(number), count(votes));
        let (Some(name), Some(number), Some(votes)) = (name, number, votes) else {
            return Err(unexpected("voter_results", results));
        };
        totals.contestants.push(ContestantTotal { name, number: number as u32, votes });
    }
    let mut by_state = BTreeMap::new();
    for [number, state, votes] in rows("voter_states", states)? {
        let (Some(number), Some(state), Some(votes)) = (count(number), state.text(), count(votes)) else {
            return Err(unexpected("voter_states", states));
        };
        by_state.insert((number as u32, state), votes);
    }
    totals.states = by_state;
    totals.sort();
    Ok(totals)
}

fn count(reply: &Reply) -> Option<u64> {
    reply.integer().and_then(|number| u64::try_from(number).ok())
}

fn rows<'a>(command: &str, reply: &'a Reply) -> Result<Vec<&'a [Reply; 3]>, TargetError> {
    let Reply::Array(rows) = reply else { return Err(unexpected(command, reply)) };
    let columns = rows.iter().map(|row| match row {
        Reply::Array(columns) => columns.as_slice().try_into().map_err(|_| unexpected(command, row)),
        _ => Err(unexpected(command, row)),
    });
    columns.collect()
}

/// The error for a reply that does not fit.
pub fn unexpected(command: &str, reply: &Reply) -> TargetError {
    if let Reply::Error(text) = reply {
        return TargetError::Refused { command: command.to_owned(), reply: text.clone() };
    }
    let mut shown = format!("{reply:?}");
    if let Some((cut, _)) = shown.char_indices().nth(200) {
        shown.truncate(cut);
    }
    TargetError::Unexpected { command: command.to_owned(), reply: shown }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Parsed, parse};
    use super::*;

    fn reply(text: &str) -> Reply {
        let Parsed::Whole(reply, _) = parse(text.as_bytes()) else { panic!("a whole reply") };
        reply
    }

    #[test]
    fn rows_become_totals_in_the_order_of_votes() {
        let results = reply("*2\r\n*3\r\n+Ann\r\n:1\r\n:3\r\n*3\r\n$3\r\nBob\r\n:2\r\n$1\r\n9\r\n");
        let states = reply("*1\r\n*3\r\n:2\r\n$2\r\nFL\r\n:9\r\n");
        let totals = totals(&results, &states).unwrap();
        assert_eq!(totals.contestants[0].name, "Bob");
        assert_eq!((totals.votes(), totals.states[&(2, "FL".to_owned())]), (12, 9));
    }

    #[test]
    fn an_error_reply_is_an_aborted_call_and_a_number_its_code() {
        assert_eq!(outcome(&Reply::Error("BUSY".to_owned())), Outcome::Aborted);
        assert_eq!(outcome(&Reply::Integer(2)), Outcome::Code(2));
        assert!(totals(&Reply::Error("ERR unknown".to_owned()), &Reply::Null).is_err());
    }
}
