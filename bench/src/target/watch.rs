//! The vote as an optimistic transaction over plain commands, so that any RESP server can be measured.
//! Guarantees: a vote whose phone was changed by another in between is cast again, so no vote counts twice or is lost; a
//! vote is done at the reply of EXEC.
//! Must not know: when calls start.
//! Next: wire.rs.

use super::wire::{Reply, Wire};
use crate::driver::{Done, Lost, Session};
use crate::workload::Outcome;
use crate::workload::area_codes::STATE_UNKNOWN;
use crate::workload::calls::{PHONES_PER_AREA, Vote};
use crate::workload::votes::{CODE_ACCEPTED, CODE_INVALID_CONTESTANT, CODE_OVER_LIMIT};
use std::collections::VecDeque;
use std::time::Duration;

/// What the next reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// WATCH, UNWATCH, MULTI, a queued command.
    Nothing,
    /// The MGET of contestant, phone and area.
    Look,
    /// EXEC.
    Exec,
}

/// One vote at a time on one connection.
pub struct WatchSession {
    wire: Wire,
    max_votes: u64,
    expected: VecDeque<Expected>,
    current: Option<(usize, Vote)>,
}

impl WatchSession {
    /// A session on a connection.
    pub fn new(wire: Wire, max_votes: u64) -> WatchSession {
        WatchSession { wire, max_votes, expected: VecDeque::new(), current: None }
    }

    fn send(&mut self, words: &[&str], expected: Expected) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.wire.send(&words);
        self.expected.push_back(expected);
    }

    fn look(&mut self, vote: &Vote) {
        let phone = phone_key(vote);
        let contestant = format!("voter:contestant:{}", vote.contestant);
        let area = format!("voter:area:{}", vote.phone / PHONES_PER_AREA);
        self.send(&["WATCH", &phone], Expected::Nothing);
        self.send(&["MGET", &contestant, &phone, &area], Expected::Look);
    }

    fn cast(&mut self, vote: &Vote, state: &str) {
        self.send(&["MULTI"], Expected::Nothing);
        self.send(&["INCR", &phone_key(vote)], Expected::Nothing);
        self.send(&["INCR", &format!("voter:votes:{}", vote.contestant)], Expected::Nothing);
        self.send(&["INCR", &format!("voter:state:{}:{state}", vote.contestant)], Expected::Nothing);
        self.send(&["EXEC"], Expected::Exec);
    }

    /// Takes one reply. Gives the outcome if it ends the vote.
    fn step(&mut self, expected: Expected, reply: &Reply, vote: &Vote) -> Option<Outcome> {
        match expected {
            // An error here shows again at EXEC, which then answers with one too.
            Expected::Nothing => None,
            Expected::Look => match decide(reply, self.max_votes) {
                Decision::Cast(state) => {
                    self.cast(vote, &state);
                    None
                }
                Decision::Leave(outcome) => {
                    self.send(&["UNWATCH"], Expected::Nothing);
                    Some(outcome)
                }
            },
            Expected::Exec => match reply {
                Reply::Array(_) => Some(Outcome::Code(CODE_ACCEPTED)),
                Reply::Null => {
                    self.look(vote);
                    None
                }
                _ => Some(Outcome::Aborted),
            },
        }
    }
}

fn phone_key(vote: &Vote) -> String {
    format!("voter:phone:{}", vote.phone)
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Cast(String),
    Leave(Outcome),
}

/// VoltDB's order of checks: contestant, then limit, then state.
fn decide(reply: &Reply, max_votes: u64) -> Decision {
    let Reply::Array(columns) = reply else { return Decision::Leave(Outcome::Aborted) };
    let [contestant, phone, area] = columns.as_slice() else { return Decision::Leave(Outcome::Aborted) };
    if *contestant == Reply::Null {
        return Decision::Leave(Outcome::Code(CODE_INVALID_CONTESTANT));
    }
    let cast = if *phone == Reply::Null { Some(0) } else { phone.integer() };
    match cast.map(u64::try_from) {
        Some(Ok(cast)) if cast < max_votes => Decision::Cast(area.text().unwrap_or_else(|| STATE_UNKNOWN.to_owned())),
        Some(Ok(_)) => Decision::Leave(Outcome::Code(CODE_OVER_LIMIT)),
        _ => Decision::Leave(Outcome::Aborted),
    }
}

impl Session<Vote> for WatchSession {
    fn submit(&mut self, token: usize, vote: &Vote) {
        assert!(self.current.is_none(), "a watching session has one vote at a time");
        self.current = Some((token, *vote));
        self.look(vote);
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        self.wire.wait(limit)?;
        while let Some(reply) = self.wire.next()? {
            let unasked = || Lost("by a reply that nobody asked for".to_owned());
            let expected = self.expected.pop_front().ok_or_else(unasked)?;
            let Some((token, vote)) = self.current else { continue };
            if let Some(outcome) = self.step(expected, &reply, &vote) {
                self.current = None;
                done.push(Done { token, outcome });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(contestant: Option<&str>, phone: Option<&str>, area: Option<&str>) -> Reply {
        let bulk = |text: Option<&str>| text.map_or(Reply::Null, |text| Reply::Bulk(text.as_bytes().to_vec()));
        Reply::Array(vec![bulk(contestant), bulk(phone), bulk(area)])
    }

    #[test]
    fn checks_are_made_in_the_order_of_the_original() {
        let nobody = Decision::Leave(Outcome::Code(CODE_INVALID_CONTESTANT));
        assert_eq!(decide(&columns(None, Some("2"), None), 2), nobody);
        let over = Decision::Leave(Outcome::Code(CODE_OVER_LIMIT));
        assert_eq!(decide(&columns(Some("Ann"), Some("2"), Some("FL")), 2), over);
        assert_eq!(decide(&columns(Some("Ann"), Some("1"), Some("FL")), 2), Decision::Cast("FL".to_owned()));
        assert_eq!(decide(&columns(Some("Ann"), None, None), 2), Decision::Cast("XX".to_owned()));
        assert_eq!(decide(&Reply::Error("LOADING".to_owned()), 2), Decision::Leave(Outcome::Aborted));
    }
}
