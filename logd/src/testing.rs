//! Runs requests as a connection would, on a store of its own, for tests.
//! Must not know: what is tested.
//! Next: request/multi.rs.

use crate::executor::{Later, Outcome, run};
use crate::resp::Out;
use crate::session::Session;
use crate::settings::Settings;
use crate::shared::Shared;
use logd_engine::{Db, Ticket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A daemon without sockets.
pub struct Daemon {
    pub shared: Shared,
    _directory: tempfile::TempDir,
}

/// A connection to it.
pub struct Client {
    pub session: Session,
    pub out: Out,
    pub ticket: Ticket,
    pub is_closed: bool,
    pub later: Option<Box<dyn Later>>,
}

impl Daemon {
    pub fn new() -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let builder = Db::builder(directory.path());
        let db = crate::voter::procedures().into_iter().fold(builder, |builder, one| builder.register(one));
        let shared = Shared::new(db.open().unwrap(), Settings::default()).unwrap();
        Daemon { shared, _directory: directory }
    }

    pub fn client(&self) -> Client {
        let peer = format!("127.0.0.1:{}", 50_000 + self.shared.clients.len());
        let handle = self.shared.clients.add(peer, "127.0.0.1:6379".to_owned(), Box::new(|| {}));
        let session = Session::new(Arc::clone(&handle));
        Client { session, out: Out::new(), ticket: Ticket::NOTHING, is_closed: false, later: None }
    }
}

impl Client {
    /// Runs a request of words between blanks; `""` is an empty word. The reply with line ends as blanks.
    pub fn ask(&mut self, daemon: &Daemon, request: &str) -> String {
        let words: Vec<&[u8]> =
            request.split(' ').map(|word| if word == "\"\"" { b"" } else { word.as_bytes() }).collect();
        self.ask_words(daemon, &words)
    }

    pub fn ask_words(&mut self, daemon: &Daemon, words: &[&[u8]]) -> String {
        self.start(daemon, words);
        let began = Instant::now();
        while let Some(mut later) = self.later.take() {
            let now = Instant::now();
            if !later.poll(&daemon.shared, &mut self.session, &mut self.out, now) {
                assert!(now - began < Duration::from_secs(60), "the reply never came");
                std::thread::sleep(Duration::from_millis(1));
                self.later = Some(later);
            }
        }
        self.take()
    }

    /// Runs a request and does not wait for a later reply.
    pub fn start(&mut self, daemon: &Daemon, words: &[&[u8]]) {
        let outcome = loop {
            match run(&daemon.shared, &mut self.session, words, &mut self.out) {
                Outcome::Busy => daemon.shared.db.wait_writable(None).unwrap(),
                outcome => break outcome,
            }
        };
        match outcome {
            Outcome::Done(ticket) => self.ticket = ticket,
            Outcome::Busy => unreachable!("it was waited for"),
            Outcome::Close => self.is_closed = true,
            Outcome::Later(later) => self.later = Some(later),
        }
    }

    pub fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(self.out.bytes()).trim_end().replace("\r\n", " ");
        self.out.truncate(0);
        text
    }

    /// Asks and compares, one `request => reply` a line.
    pub fn play(&mut self, daemon: &Daemon, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (request, wanted) = line.split_once(" => ").unwrap_or_else(|| panic!("no reply in {line}"));
            assert_eq!(self.ask(daemon, request), wanted.trim_matches('~'), "{request}");
        }
    }
}
