//! Voter in the library: the registered procedure, called from the measuring threads.
//! Guarantees: an accepted vote is done when its ticket is released at the level of the run; rejected ones change nothing
//! and are done at once.
//! Must not know: when calls start.
//! Next: the daemon's procedures/voter.rs.

use super::replies::{outcome, totals, unexpected};
use super::wire::{Parsed, Reply, parse};
use super::{TargetError, VoterTarget};
use crate::driver::{Done, Lost, Session};
use crate::workload::Outcome;
use crate::workload::calls::Vote;
use crate::workload::votes::Totals;
use logd::voter;
use logd_engine::error::Refused;
use logd_engine::{Db, DurabilityLevel, Error, Options, Ticket};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// A store in this process.
pub struct EmbeddedTarget {
    db: Db,
    level: DurabilityLevel,
    place: String,
}

impl EmbeddedTarget {
    /// Opens the store in a directory, or makes one.
    pub fn open(directory: &Path, level: DurabilityLevel) -> Result<EmbeddedTarget, TargetError> {
        let options = Options { durability: level, ..Options::default() };
        let builder = Db::builder(directory).options(options);
        let db = voter::procedures().into_iter().fold(builder, |builder, one| builder.register(one)).open()?;
        Ok(EmbeddedTarget { db, level, place: directory.display().to_string() })
    }

    fn ask(&self, procedure: &str, words: &[&str]) -> Result<Reply, TargetError> {
        let (reply, ticket) = self.db.call(procedure, &arguments(words), None)?;
        self.db.wait(ticket, None)?;
        match reply_of(&reply) {
            Some(reply @ Reply::Error(_)) => Err(unexpected(procedure, &reply)),
            Some(reply) => Ok(reply),
            None => Err(unexpected(procedure, &Reply::Bulk(reply))),
        }
    }
}

/// What a procedure replied: a reply of the protocol as it stands. `None` at damage.
fn reply_of(bytes: &[u8]) -> Option<Reply> {
    match parse(bytes) {
        Parsed::Whole(reply, _) => Some(reply),
        Parsed::Partial | Parsed::Broken => None,
    }
}

/// Words as the procedures take them: each with its length in four bytes, little-endian, before it.
fn arguments(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len() + 4).sum());
    for word in words {
        let length = u32::try_from(word.len()).expect("words of a call are short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes
}

impl VoterTarget for EmbeddedTarget {
    fn describe(&self) -> String {
        let disk = self.db.stats().disk;
        let direct = if disk.direct { ", direct" } else { "" };
        format!("embedded in {}, durability {}, disk by {}{direct}", self.place, self.level.word(), disk.backend)
    }

    fn prepare(&self, contestants: u32) -> Result<(), TargetError> {
        self.ask("voter_init", &[&contestants.to_string()]).map(drop)
    }

    fn totals(&self, _contestants: u32) -> Result<Totals, TargetError> {
        totals(&self.ask("voter_results", &[])?, &self.ask("voter_states", &[])?)
    }

    fn session(&self, max_votes: u64) -> Result<Box<dyn Session<Vote>>, TargetError> {
        Ok(Box::new(EmbeddedSession {
            db: self.db.clone(),
            level: self.level,
            max_votes: max_votes.to_string(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
        }))
    }

    fn snapshots(&self) -> Option<(u64, bool)> {
        let snapshots = self.db.stats().snapshots;
        let newest = snapshots.rows.iter().map(|row| row.start_millis).max().unwrap_or(0);
        Some((newest, snapshots.running))
    }

    fn close(&self) -> Result<(), TargetError> {
        Ok(self.db.close()?)
    }
}

/// One thread's calls. Tickets of one level are released in order, so waiting for the first is enough.
struct EmbeddedSession {
    db: Db,
    level: DurabilityLevel,
    max_votes: String,
    waiting: VecDeque<(usize, Ticket, Outcome)>,
    ended: Vec<Done>,
}

impl EmbeddedSession {
    fn take_released(&mut self, done: &mut Vec<Done>) {
        while let Some(&(token, ticket, outcome)) = self.waiting.front() {
            if !self.db.is_durable(ticket) {
                return;
            }
            self.waiting.pop_front();
            done.push(Done { token, outcome });
        }
    }
}

impl Session<Vote> for EmbeddedSession {
    fn submit(&mut self, token: usize, vote: &Vote) {
        let (phone, contestant) = (vote.phone.to_string(), vote.contestant.to_string());
        match self.db.call("vote", &arguments(&[&phone, &contestant, &self.max_votes]), Some(self.level)) {
            Ok((reply, ticket)) => {
                let outcome = reply_of(&reply).map_or(Outcome::Aborted, |reply| outcome(&reply));
                match outcome {
                    Outcome::Code(_) if ticket.lsn != Ticket::NOTHING.lsn => {
                        self.waiting.push_back((token, ticket, outcome));
                    }
                    _ => self.ended.push(Done { token, outcome }),
                }
            }
            Err(_) => self.ended.push(Done { token, outcome: Outcome::Aborted }),
        }
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        done.append(&mut self.ended);
        let none_yet = done.is_empty();
        match self.waiting.front() {
            None if none_yet => std::thread::sleep(limit),
            Some(&(_, ticket, _)) if none_yet && !limit.is_zero() => match self.db.wait(ticket, Some(limit)) {
                Ok(()) | Err(Error::Refused(Refused::TimedOut)) => {}
                Err(error) => return Err(Lost(error.to_string())),
            },
            _ => {}
        }
        self.take_released(done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_their_length_before_them() {
        assert_eq!(arguments(&["ab", ""]), [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0]);
    }

    #[test]
    fn votes_are_counted_until_the_limit_and_only_for_contestants() {
        let directory = tempfile::tempdir().unwrap();
        let target = EmbeddedTarget::open(directory.path(), DurabilityLevel::Synced).unwrap();
        target.prepare(3).unwrap();
        let mut session = target.session(2).unwrap();
        let votes = [(2, 3_050_000_001), (2, 3_050_000_001), (2, 3_050_000_001), (999, 3_050_000_002), (1, 1)];
        let mut done = Vec::new();
        for (token, (contestant, phone)) in votes.into_iter().enumerate() {
            session.submit(token, &Vote { phone, contestant });
        }
        while done.len() < votes.len() {
            session.poll(Duration::from_millis(10), &mut done).unwrap();
        }
        done.sort_by_key(|done| done.token);
        let codes: Vec<Outcome> = done.iter().map(|done| done.outcome).collect();
        assert_eq!(codes, [0, 0, 2, 1, 0].map(Outcome::Code));
        let totals = target.totals(3).unwrap();
        assert_eq!((totals.votes(), totals.contestants.len()), (3, 3));
        assert_eq!(totals.states.get(&(2, "FL".to_owned())), Some(&2));
        target.close().unwrap();
    }
}
