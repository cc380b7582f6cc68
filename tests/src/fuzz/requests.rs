//! The executor: arbitrary requests on a store in memory. No panic; one well-formed reply for each request that wants one.
//! Must not know: what a command answers.

use logd::executor::{Outcome, run as run_request};
use logd::resp::Out;
use logd::session::{ReplyMode, Session};
use logd::settings::Settings;
use logd::shared::Shared;
use logd_engine::clock::OsClock;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::{Db, DurabilityLevel, Options};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests of one input.
const REQUESTS_MAX: usize = 200;
/// Inputs after which the store is made anew: the simulated medium keeps what was written to it.
const INPUTS_MAX: u32 = 2000;
/// Longest wait for a reply that comes later.
const LATER: Duration = Duration::from_secs(20);

/// Never dropped at the end of a thread or process: the store would outlive what it needs to stop.
static DAEMON: Mutex<Option<(Shared, u32)>> = Mutex::new(None);

fn daemon() -> Shared {
    let options =
        Options { durability: DurabilityLevel::Accepted, shards: 2, segment_bytes: 1 << 20, ..Options::default() };
    let storage = Arc::new(SimStorage::new(SimOptions::default()));
    let builder = Db::builder("").options(options).storage(storage, Arc::new(OsClock));
    let builder = logd::voter::procedures().into_iter().fold(builder, |builder, one| builder.register(one));
    let settings = Settings { durability: DurabilityLevel::Accepted, ..Settings::default() };
    Shared::new(builder.open().expect("a fresh store"), settings).expect("a fresh store")
}

/// The input is a stream of requests, in the array form or inline.
pub fn run(input: &[u8]) {
    let mut held = DAEMON.lock().unwrap_or_else(PoisonError::into_inner);
    let (shared, inputs) = held.get_or_insert_with(|| (daemon(), 0));
    *inputs += 1;
    let mut client = Client::new(shared);
    client.ask(shared, &[b"FLUSHALL"]);
    for words in super::resp::parse(input, input.len().max(1)).0.iter().take(REQUESTS_MAX) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        // It may sleep, and crash, by intention.
        if !words[0].eq_ignore_ascii_case(b"debug") && !client.ask(shared, &words) {
            break;
        }
    }
    if *inputs >= INPUTS_MAX {
        *held = None;
    }
}

struct Client {
    session: Session,
    out: Out,
}

impl Client {
    fn new(shared: &Shared) -> Client {
        let handle = shared.clients.add("127.0.0.1:50000".to_owned(), "127.0.0.1:6379".to_owned(), Box::new(|| {}));
        Client { session: Session::new(handle), out: Out::new() }
    }

    /// Runs a request and checks its reply. False if the connection is to be closed.
    fn ask(&mut self, shared: &Shared, words: &[&[u8]]) -> bool {
        let began = Instant::now();
        let wants_reply = self.session.reply == ReplyMode::On;
        let outcome = loop {
            match run_request(shared, &mut self.session, words, &mut self.out) {
                Outcome::Busy => {
                    assert!(began.elapsed() < LATER, "busy for ever");
                    let _ = shared.db.wait_writable(Some(Duration::from_secs(1)));
                }
                outcome => break outcome,
            }
        };
        let stays = !matches!(outcome, Outcome::Close);
        if let Outcome::Later(mut later) = outcome {
            // A moment far ahead, so that time limits have passed.
            let ahead = Duration::from_secs(1_000_000_000);
            while !later.poll(shared, &mut self.session, &mut self.out, Instant::now() + ahead) {
                assert!(began.elapsed() < LATER, "the reply to {words:?} never came");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut rest = self.out.bytes();
        let mut count = 0;
        while !rest.is_empty() {
            let shown = || format!("{:?} answered by {:?}", lossy(words), String::from_utf8_lossy(self.out.bytes()));
            rest = reply(rest).unwrap_or_else(|| panic!("malformed: {}", shown()));
            count += 1;
        }
        let still_wants = self.session.reply == ReplyMode::On;
        assert!(!stays || !wants_reply || !still_wants || count == 1, "{count} replies to {:?}", lossy(words));
        self.out.truncate(0);
        stays
    }
}

fn lossy(words: &[&[u8]]) -> Vec<String> {
    words.iter().map(|word| String::from_utf8_lossy(&word[..word.len().min(100)]).into_owned()).collect()
}

/// Takes one whole reply off the front; `None` if there is none.
fn reply(mut bytes: &[u8]) -> Option<&[u8]> {
    let mut left = 1_u64;
    while left > 0 {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
        let (kind, line) = line.split_first()?;
        let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
        bytes = rest;
        left -= 1;
        match kind {
            b'+' | b'-' | b'(' | b'#' | b'_' | b',' => (!line.contains(&b'\n')).then_some(())?,
            b':' => drop(number()?),
            b'$' | b'=' if number()? >= 0 => {
                let length = number()? as usize;
                (bytes.get(length..length + 2)? == b"\r\n").then_some(())?;
                bytes = &bytes[length + 2..];
            }
            b'*' | b'~' | b'>' if number()? >= 0 => left += number()? as u64,
            b'%' => left += 2 * u64::try_from(number()?).ok()?,
            b'$' | b'*' if number()? == -1 => {}
            _ => return None,
        }
    }
    Some(bytes)
}
