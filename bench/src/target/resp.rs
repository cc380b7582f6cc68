//! Voter on a server that speaks RESP: as a registered procedure, as a script, or over plain commands.
//! Guarantees: all three forms keep the same result codes, and totals are read back from the server, not from us.
//! Must not know: when calls start.
//! Next: watch.rs is the session over plain commands.

use super::replies::{outcome, totals, unexpected};
use super::watch::WatchSession;
use super::wire::{Reply, Wire};
use super::{CONTESTANT_NAMES, TargetError, VoterTarget};
use crate::args::{ProcedureForm, TargetAddress};
use crate::driver::{Done, Lost, Session};
use crate::workload::area_codes;
use crate::workload::calls::Vote;
use crate::workload::votes::{ContestantTotal, Totals};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long an answer outside of measurements may take.
pub const REPLY_LIMIT: Duration = Duration::from_secs(60);
/// How long a server that went away may take to come back before the check gives up.
const RETURN_LIMIT: Duration = Duration::from_secs(30);

/// The vote as a script: two reads and a look-up of the state, then the vote and two counters.
const VOTE_SCRIPT: &str = "\
if redis.call('EXISTS', 'voter:contestant:' .. ARGV[2]) == 0 then return 1 end
local phone = 'voter:phone:' .. ARGV[1]
if tonumber(redis.call('GET', phone) or '0') >= tonumber(ARGV[3]) then return 2 end
local state = redis.call('GET', 'voter:area:' .. string.sub(ARGV[1], 1, 3)) or 'XX'
redis.call('INCR', phone)
redis.call('INCR', 'voter:votes:' .. ARGV[2])
redis.call('INCR', 'voter:state:' .. ARGV[2] .. ':' .. state)
return 0";

/// A server.
pub struct ServerTarget {
    address: TargetAddress,
    form: ProcedureForm,
}

impl ServerTarget {
    /// The server at an address.
    pub fn new(address: TargetAddress, form: ProcedureForm) -> ServerTarget {
        ServerTarget { address, form }
    }

    fn connect(&self) -> Result<Wire, TargetError> {
        Wire::connect(&self.address).map_err(|source| TargetError::Reach { place: place(&self.address), source })
    }

    /// Connects, waiting for a server that is being restarted.
    fn connect_patiently(&self) -> Result<Wire, TargetError> {
        let start = Instant::now();
        loop {
            let answered = self.connect().and_then(|mut wire| {
                let reply = wire.ask(&[b"PING"], REPLY_LIMIT)?;
                if matches!(reply, Reply::Error(_)) { Err(unexpected("PING", &reply)) } else { Ok(wire) }
            });
            match answered {
                Err(_) if start.elapsed() < RETURN_LIMIT => std::thread::sleep(Duration::from_millis(200)),
                answered => return answered,
            }
        }
    }

    fn totals_of_procedure(&self, wire: &mut Wire) -> Result<Totals, TargetError> {
        let results = wire.ask(&[b"FCALL", b"voter_results", b"0"], REPLY_LIMIT)?;
        let states = wire.ask(&[b"FCALL", b"voter_states", b"0"], REPLY_LIMIT)?;
        totals(&results, &states)
    }

    fn totals_of_keys(&self, wire: &mut Wire, contestants: u32) -> Result<Totals, TargetError> {
        let mut totals = Totals::default();
        for number in 1..=contestants {
            let name = wire.ask(&[b"GET", format!("voter:contestant:{number}").as_bytes()], REPLY_LIMIT)?;
            let votes = count(wire, &format!("voter:votes:{number}"))?;
            let name = name.text().unwrap_or_else(|| number.to_string());
            totals.contestants.push(ContestantTotal { name, number, votes });
            for state in area_codes::states().chain([area_codes::STATE_UNKNOWN]) {
                let votes = count(wire, &format!("voter:state:{number}:{state}"))?;
                if votes > 0 {
                    totals.states.insert((number, state.to_owned()), votes);
                }
            }
        }
        totals.sort();
        Ok(totals)
    }
}

/// An address as the user writes it.
pub fn place(address: &TargetAddress) -> String {
    match address {
        TargetAddress::Embedded => "embedded".to_owned(),
        TargetAddress::Tcp(host) => format!("redis://{host}"),
        TargetAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn count(wire: &mut Wire, key: &str) -> Result<u64, TargetError> {
    match wire.ask(&[b"GET", key.as_bytes()], REPLY_LIMIT)? {
        Reply::Null => Ok(0),
        reply => {
            let number = reply.integer().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| unexpected("GET", &reply))
        }
    }
}

fn ask_ok(wire: &mut Wire, words: &[&[u8]]) -> Result<Reply, TargetError> {
    match wire.ask(words, REPLY_LIMIT)? {
        reply @ Reply::Error(_) => Err(unexpected(&String::from_utf8_lossy(words[0]), &reply)),
        reply => Ok(reply),
    }
}

impl VoterTarget for ServerTarget {
    fn describe(&self) -> String {
        let form = match self.form {
            ProcedureForm::Fcall => "FCALL vote",
            ProcedureForm::Lua => "EVALSHA",
            ProcedureForm::Watch => "WATCH, MULTI and EXEC",
        };
        let about = self.connect().ok().map(|mut wire| about(&mut wire)).unwrap_or_default();
        format!("{} by {form}{about}", place(&self.address))
    }

    fn prepare(&self, contestants: u32) -> Result<(), TargetError> {
        let mut wire = self.connect()?;
        let names = &CONTESTANT_NAMES[..contestants as usize];
        if self.form == ProcedureForm::Fcall {
            let count = contestants.to_string();
            ask_ok(&mut wire, &[b"FCALL", b"voter_init", b"0", count.as_bytes()])?;
            return Ok(());
        }
        for (name, number) in names.iter().zip(1..) {
            let key = format!("voter:contestant:{number}");
            ask_ok(&mut wire, &[b"SET", key.as_bytes(), name.as_bytes()])?;
        }
        for (code, state) in area_codes::all() {
            ask_ok(&mut wire, &[b"SET", format!("voter:area:{code}").as_bytes(), state.as_bytes()])?;
        }
        Ok(())
    }

    fn totals(&self, contestants: u32) -> Result<Totals, TargetError> {
        let mut wire = self.connect_patiently()?;
        match self.form {
            ProcedureForm::Fcall => self.totals_of_procedure(&mut wire),
            _ => self.totals_of_keys(&mut wire, contestants),
        }
    }

    fn session(&self, max_votes: u64) -> Result<Box<dyn Session<Vote>>, TargetError> {
        let mut wire = self.connect()?;
        let head: Vec<Vec<u8>> = match self.form {
            ProcedureForm::Watch => return Ok(Box::new(WatchSession::new(wire, max_votes))),
            ProcedureForm::Fcall => vec![b"FCALL".to_vec(), b"vote".to_vec(), b"0".to_vec()],
            ProcedureForm::Lua => {
                let loaded = ask_ok(&mut wire, &[b"SCRIPT", b"LOAD", VOTE_SCRIPT.as_bytes()])?;
                let digest = loaded.text().ok_or_else(|| unexpected("SCRIPT LOAD", &loaded))?;
                vec![b"EVALSHA".to_vec(), digest.into_bytes(), b"0".to_vec()]
            }
        };
        Ok(Box::new(CallSession { wire, head, max_votes: max_votes.to_string(), tokens: VecDeque::new() }))
    }

    fn close(&self) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Name, version and durability of the server, as far as it tells.
pub fn about(wire: &mut Wire) -> String {
    let mut about = String::new();
    let info = wire.ask(&[b"INFO", b"server"], REPLY_LIMIT).ok().and_then(|reply| reply.text()).unwrap_or_default();
    let told = ["server_name", "logd_version", "valkey_version", "redis_version"];
    for line in info.lines().filter(|line| told.iter().any(|name| line.starts_with(name))) {
        about += &format!(", {}", line.trim().replacen(':', " ", 1));
    }
    for name in ["durability", "appendonly", "appendfsync"] {
        if let Ok(Reply::Array(pair)) = wire.ask(&[b"CONFIG", b"GET", name.as_bytes()], REPLY_LIMIT)
            && let Some(value) = pair.get(1).and_then(Reply::text)
        {
            about += &format!(", {name} {value}");
        }
    }
    about
}

/// One request and one reply a vote, any number of them outstanding.
struct CallSession {
    wire: Wire,
    head: Vec<Vec<u8>>,
    max_votes: String,
    tokens: VecDeque<usize>,
}

impl CallSession {
    fn take_replies(&mut self, done: &mut Vec<Done>) -> Result<(), Lost> {
        while let Some(reply) = self.wire.next()? {
            let token = self.tokens.pop_front().ok_or_else(|| Lost("by a reply that nobody asked for".to_owned()))?;
            done.push(Done { token, outcome: outcome(&reply) });
        }
        Ok(())
    }
}

impl Session<Vote> for CallSession {
    fn submit(&mut self, token: usize, vote: &Vote) {
        let (phone, contestant) = (vote.phone.to_string(), vote.contestant.to_string());
        let words: [&[u8]; 6] = [
            &self.head[0],
            &self.head[1],
            &self.head[2],
            phone.as_bytes(),
            contestant.as_bytes(),
            self.max_votes.as_bytes(),
        ];
        self.wire.send(&words);
        self.tokens.push_back(token);
    }

    fn poll(&mut self, limit: Duration, done: &mut Vec<Done>) -> Result<(), Lost> {
        self.wire.wait(limit)?;
        self.take_replies(done)
    }
}
