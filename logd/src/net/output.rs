//! The output buffer of a connection, and how far of it may be sent.
//! Guarantees: no byte at or after a reply whose write is not yet durable is given out; after a failure of the log such replies are
//! replaced by an error, each by one.
//! Must not know: sockets, requests.
//! Next: connection.rs.

use crate::resp::Out;
use logd_engine::{Db, Ticket};
use std::collections::VecDeque;

/// Sent bytes before the rest is moved to the front.
const SENT_BYTES_KEPT: usize = 256 << 10;
/// Largest buffer that is kept for the next turn.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// A reply that waits for its write. Places count from the first byte ever put out.
#[derive(Debug)]
struct Mark {
    start: u64,
    end: u64,
    ticket: Ticket,
}

/// Replies on their way out.
#[derive(Debug, Default)]
pub struct Output {
    /// Where replies are written.
    pub out: Out,
    /// Place of the buffer's first byte.
    base: u64,
    /// Bytes at the buffer's front that were sent already.
    sent: usize,
    marks: VecDeque<Mark>,
}

impl Output {
    /// Makes the reply that begins at `start` of the buffer wait for its write.
    pub fn hold(&mut self, start: usize, ticket: Ticket) {
        let end = self.out.len();
        if start < end {
            self.marks.push_back(Mark { start: self.base + start as u64, end: self.base + end as u64, ticket });
        }
    }

    /// Lets replies go whose writes are durable now.
    pub fn release(&mut self, db: &Db) {
        self.release_where(|ticket| db.is_durable(ticket));
        if !self.marks.is_empty()
            && let Some(failed) = db.failure()
        {
            // What became durable just before the failure is still told so.
            self.release_where(|ticket| db.is_durable(ticket));
            self.replace_held(&format!("IOERR failed to {failed}; writes are refused until restart"));
        }
    }

    fn release_where(&mut self, is_durable: impl Fn(Ticket) -> bool) {
        while self.marks.front().is_some_and(|mark| is_durable(mark.ticket)) {
            self.marks.pop_front();
        }
    }

    fn replace_held(&mut self, error: &str) {
        let Some(first) = self.marks.front() else { return };
        let origin = first.start;
        let kept = self.index(origin);
        let held = self.out.bytes_mut().split_off(kept);
        let within = |place: u64| usize::try_from(place - origin).expect("marks lie in the buffer");
        let mut copied = 0;
        for mark in std::mem::take(&mut self.marks) {
            self.out.raw(&held[copied..within(mark.start)]);
            self.out.error(error);
            copied = within(mark.end);
        }
        self.out.raw(&held[copied..]);
    }

    /// What may be sent.
    pub fn sendable(&self) -> &[u8] {
        let end = self.marks.front().map_or(self.out.len(), |mark| self.index(mark.start));
        &self.out.bytes()[self.sent..end]
    }

    /// Says that the first bytes of `sendable` were sent.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.out.len() || self.sent >= SENT_BYTES_KEPT.max(self.out.len() / 2) {
            self.out.bytes_mut().drain(..self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
    }

    /// Bytes that were not sent, held ones included.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether replies wait for their writes.
    pub fn is_holding(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Before a turn: takes the loop's buffer where there is none.
    pub fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.out.bytes().is_empty() && self.out.bytes_mut().capacity() == 0 {
            *self.out.bytes_mut() = std::mem::take(spare);
        }
    }

    /// After a turn: gives the buffer back if everything was sent.
    pub fn settle(&mut self, spare: &mut Vec<u8>) {
        if self.out.is_empty() {
            let buffer = std::mem::take(self.out.bytes_mut());
            if buffer.capacity() <= BUFFER_BYTES_KEPT && buffer.capacity() > spare.capacity() {
                *spare = buffer;
            }
            self.marks.shrink_to(64);
        }
    }

    fn index(&self, place: u64) -> usize {
        usize::try_from(place - self.base).expect("marks lie in the buffer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logd_engine::DurabilityLevel;
    use logd_engine::units::Lsn;

    fn reply(output: &mut Output, text: &str, lsn: u64) {
        let start = output.out.len();
        output.out.simple(text);
        if lsn > 0 {
            output.hold(start, Ticket { lsn: Lsn(lsn), level: DurabilityLevel::Synced });
        }
    }

    #[test]
    fn nothing_behind_a_held_reply_goes_out() {
        let mut output = Output::default();
        reply(&mut output, "a", 0);
        reply(&mut output, "b", 5);
        reply(&mut output, "c", 0);
        reply(&mut output, "d", 6);
        assert_eq!(output.sendable(), b"+a\r\n");
        output.advance(4);
        assert_eq!(output.sendable(), b"");
        output.release_where(|ticket| ticket.lsn <= Lsn(5));
        assert_eq!(output.sendable(), b"+b\r\n+c\r\n");
        output.advance(3);
        output.release_where(|_| true);
        assert_eq!(output.sendable(), b"\n+c\r\n+d\r\n");
        output.advance(9);
        assert_eq!((output.unsent_bytes(), output.is_holding()), (0, false));
        reply(&mut output, "e", 9);
        assert_eq!(output.sendable(), b"");
    }

    #[test]
    fn a_failure_replaces_held_replies_and_no_others() {
        let mut output = Output::default();
        reply(&mut output, "a", 0);
        output.advance(4);
        reply(&mut output, "a", 0);
        output.advance(2);
        reply(&mut output, "b", 5);
        reply(&mut output, "c", 0);
        reply(&mut output, "d", 6);
        output.replace_held("IOERR x");
        assert_eq!(output.sendable(), b"\r\n-IOERR x\r\n+c\r\n-IOERR x\r\n");
    }
}
