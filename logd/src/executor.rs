//! STAND-IN for the other half's executor.rs.
use crate::request::Words;
use crate::resp::Out;
use crate::session::Session;
use crate::shared::Shared;
use logd_engine::error::{Error, Refused};
use logd_engine::{DurabilityLevel, Ticket};
use std::time::{Duration, Instant};

pub enum Outcome {
    Done(Ticket),
    Busy,
    Later(Box<dyn Later>),
    Close,
}
pub trait Later: Send {
    fn poll(&mut self, shared: &Shared, session: &mut Session, out: &mut Out, now: Instant) -> bool;
    fn deadline(&self) -> Option<Instant>;
}
struct Sleep(Instant);
impl Later for Sleep {
    fn poll(&mut self, _shared: &Shared, _session: &mut Session, out: &mut Out, now: Instant) -> bool {
        if now >= self.0 {
            out.simple("slept");
        }
        now >= self.0
    }
    fn deadline(&self) -> Option<Instant> {
        Some(self.0)
    }
}
pub fn run(shared: &Shared, session: &mut Session, words: &Words<'_>, out: &mut Out) -> Outcome {
    let name = words[0].to_ascii_uppercase();
    match (&name[..], &words[1..]) {
        (b"PING", []) => out.simple("PONG"),
        (b"ECHO", [text]) => out.bulk(text),
        (b"GET", [key]) => shared.db.get_with(shared.databases[0], key, |record| match record {
            Some(record) => out.bulk(record.value),
            None => out.null(),
        }),
        (b"SET" | b"SETFAST", [key, value]) => {
            let level = (name == b"SETFAST").then_some(DurabilityLevel::Accepted);
            match shared.db.try_put(shared.databases[0], key, value, None, level) {
                Ok(ticket) => {
                    out.ok();
                    return Outcome::Done(ticket);
                }
                Err(Error::Refused(Refused::Busy)) => return Outcome::Busy,
                Err(error) => out.error(&format!("ERR failed to {error}")),
            }
        }
        (b"SLEEP", [millis]) => {
            let millis = String::from_utf8_lossy(millis).parse().unwrap_or(0);
            return Outcome::Later(Box::new(Sleep(Instant::now() + Duration::from_millis(millis))));
        }
        (b"KILLALL", []) => {
            for client in shared.clients.all() {
                if client.id != session.client.id {
                    client.kill();
                }
            }
            out.ok();
        }
        (b"QUIT", []) => {
            out.ok();
            return Outcome::Close;
        }
        (b"SHUTDOWN", []) => {
            shared.want_shutdown();
            return Outcome::Close;
        }
        (b"CONFIG", _) => out.array(0),
        _ => out.error("ERR unknown command"),
    }
    Outcome::Done(Ticket::NOTHING)
}
