//! RESP over one socket, as a client: requests out, replies in, nothing blocking but `wait`.
//! Guarantees: W1 replies come in the order of their requests; W2 a length is bounded before it is believed; W3 half a reply
//! stays in the buffer until the rest is there.
//! Must not know: commands.
//! Next: resp.rs and watch.rs.

use crate::args::TargetAddress;
use crate::driver::Lost;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const READ_BYTES: usize = 64 << 10;
const REPLY_BYTES_MAX: usize = 512 << 20;
const REPLY_DEPTH_MAX: usize = 8;
/// Bytes that are sent at once rather than collected until the next wait.
const SEND_BYTES: usize = 16 << 10;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line without an error.
    Simple(String),
    /// An error.
    Error(String),
    /// A number.
    Integer(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// Several.
    Array(Vec<Reply>),
}

impl Reply {
    /// The number, also if it came as text.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            Reply::Bulk(_) | Reply::Simple(_) => self.text()?.parse().ok(),
            _ => None,
        }
    }

    /// The text.
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Simple(text) => Some(text.clone()),
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

/// What the front of a buffer holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A reply and its length in bytes.
    Whole(Reply, usize),
    /// The beginning of one.
    Partial,
    /// No reply.
    Broken,
}

/// Reads the reply at the front of a buffer.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut at = 0;
    match parse_at(bytes, &mut at, 0) {
        Ok(reply) => Parsed::Whole(reply, at),
        Err(Stop::Partial) => Parsed::Partial,
        Err(Stop::Broken) => Parsed::Broken,
    }
}

enum Stop {
    Partial,
    Broken,
}

fn parse_at(bytes: &[u8], at: &mut usize, depth: usize) -> Result<Reply, Stop> {
    let kind = *bytes.get(*at).ok_or(Stop::Partial)?;
    let line = line_at(bytes, *at + 1)?;
    *at += line.len() + 3;
    let text = std::str::from_utf8(line).map_err(|_| Stop::Broken)?;
    match kind {
        b'+' => Ok(Reply::Simple(text.to_owned())),
        b'-' => Ok(Reply::Error(text.to_owned())),
        b':' => text.parse().map(Reply::Integer).map_err(|_| Stop::Broken),
        b'_' => Ok(Reply::Null),
        b'$' => bulk_at(bytes, at, text),
        b'*' | b'~' | b'>' => array_at(bytes, at, text, depth),
        _ => Err(Stop::Broken),
    }
}

fn bulk_at(bytes: &[u8], at: &mut usize, text: &str) -> Result<Reply, Stop> {
    let Some(length) = length(text)? else { return Ok(Reply::Null) };
    let body = bytes.get(*at..*at + length + 2).ok_or(Stop::Partial)?;
    *at += length + 2;
    match body.split_at(length) {
        (body, b"\r\n") => Ok(Reply::Bulk(body.to_vec())),
        _ => Err(Stop::Broken),
    }
}

fn array_at(bytes: &[u8], at: &mut usize, text: &str, depth: usize) -> Result<Reply, Stop> {
    let Some(count) = length(text)? else { return Ok(Reply::Null) };
    if depth == REPLY_DEPTH_MAX {
        return Err(Stop::Broken);
    }
    let mut items = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        items.push(parse_at(bytes, at, depth + 1)?);
    }
    Ok(Reply::Array(items))
}

fn length(text: &str) -> Result<Option<usize>, Stop> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(length) if (0..=REPLY_BYTES_MAX as i64).contains(&length) => Ok(Some(length as usize)),
        _ => Err(Stop::Broken),
    }
}

fn line_at(bytes: &[u8], from: usize) -> Result<&[u8], Stop> {
    let rest = bytes.get(from..).unwrap_or(&[]);
    let end = rest.iter().position(|&byte| byte == b'\r').ok_or(Stop::Partial)?;
    match rest.get(end + 1) {
        Some(b'\n') => Ok(&rest[..end]),
        Some(_) => Err(Stop::Broken),
        None => Err(Stop::Partial),
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }
}

/// One connection.
pub struct Wire {
    socket: Socket,
    unsent: Vec<u8>,
    received: Vec<u8>,
    parsed_bytes: usize,
    scratch: Box<[u8]>,
    broken: Option<Lost>,
}

impl Wire {
    /// Connects.
    pub fn connect(address: &TargetAddress) -> io::Result<Wire> {
        let socket = match address {
            TargetAddress::Embedded => return Err(io::Error::from(ErrorKind::Unsupported)),
            TargetAddress::Tcp(host) => {
                let stream = TcpStream::connect(host)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Socket::Tcp(stream)
            }
            TargetAddress::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Socket::Unix(stream)
            }
        };
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Wire { socket, unsent: Vec::new(), received: Vec::new(), parsed_bytes: 0, scratch, broken: None })
    }

    /// Queues a request; a full queue is sent at once as far as the socket takes it.
    pub fn send(&mut self, words: &[&[u8]]) {
        encode(&mut self.unsent, words);
        if self.unsent.len() >= SEND_BYTES {
            self.send_unsent();
        }
    }

    /// Waits up to `limit` for bytes, unless there are some. Sends what is queued. An error comes only after all replies
    /// that arrived before it were taken.
    pub fn wait(&mut self, limit: Duration) -> Result<(), Lost> {
        self.send_unsent();
        if let Some(lost) = &self.broken {
            return Err(lost.clone());
        }
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !self.unsent.is_empty());
        let fd = self.socket.fd();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => self.broken = Some(Lost(error.to_string())),
        }
        self.send_unsent();
        self.receive();
        Ok(())
    }

    /// The next reply that is there.
    pub fn next(&mut self) -> Result<Option<Reply>, Lost> {
        match parse(&self.received[self.parsed_bytes..]) {
            Parsed::Whole(reply, bytes) => {
                self.parsed_bytes += bytes;
                Ok(Some(reply))
            }
            Parsed::Partial => {
                self.received.drain(..self.parsed_bytes);
                self.parsed_bytes = 0;
                Ok(None)
            }
            Parsed::Broken => Err(Lost("the server does not speak RESP".to_owned())),
        }
    }

    /// Sends one request and waits for its reply; nothing else may be outstanding.
    pub fn ask(&mut self, words: &[&[u8]], limit: Duration) -> Result<Reply, Lost> {
        self.send(words);
        let start = std::time::Instant::now();
        while start.elapsed() < limit {
            if let Some(reply) = self.next()? {
                return Ok(reply);
            }
            self.wait(Duration::from_millis(100))?;
        }
        Err(Lost(format!("no reply within {} s", limit.as_secs())))
    }

    fn send_unsent(&mut self) {
        let mut sent = 0;
        while sent < self.unsent.len() && self.broken.is_none() {
            match self.socket.write(&self.unsent[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What was answered before the server went is still to be read, so the reading side reports the end.
                Err(_) => sent = self.unsent.len(),
            }
        }
        self.unsent.drain(..sent);
    }

    fn receive(&mut self) {
        while self.broken.is_none() {
            match self.socket.read(&mut self.scratch) {
                Ok(0) => self.broken = Some(Lost("closed by the server".to_owned())),
                Ok(bytes) => self.received.extend_from_slice(&self.scratch[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.broken = Some(Lost(error.to_string())),
            }
        }
    }
}

/// Adds a request to a buffer.
pub fn encode(buffer: &mut Vec<u8>, words: &[&[u8]]) {
    write!(buffer, "*{}\r\n", words.len()).expect("a buffer takes everything");
    for word in words {
        write!(buffer, "${}\r\n", word.len()).expect("a buffer takes everything");
        buffer.extend_from_slice(word);
        buffer.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_parses() {
        let bytes = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\rb\r\n$-1\r\n*1\r\n_\r\n:9\r\n";
        let expected = Reply::Array(vec![
            Reply::Simple("OK".to_owned()),
            Reply::Error("ERR no".to_owned()),
            Reply::Integer(-7),
            Reply::Bulk(b"a\rb".to_vec()),
            Reply::Null,
            Reply::Array(vec![Reply::Null]),
        ]);
        assert_eq!(parse(bytes), Parsed::Whole(expected, bytes.len() - 4));
    }

    #[test]
    fn every_cut_of_a_reply_is_partial() {
        let bytes = b"*3\r\n+OK\r\n$3\r\nabc\r\n:12\r\n";
        assert!((0..bytes.len()).all(|cut| parse(&bytes[..cut]) == Parsed::Partial));
    }

    #[test]
    fn what_is_not_a_reply_is_broken() {
        for text in ["HTTP/1.1 400\r\n", "$9999999999\r\n", "$2\r\nabcd", ":x\r\n", "$-2\r\n"] {
            assert_eq!(parse(text.as_bytes()), Parsed::Broken, "{text:?}");
        }
        assert_eq!(parse("*1\r\n".repeat(20).as_bytes()), Parsed::Broken);
    }

    #[test]
    fn numbers_may_come_as_text() {
        assert_eq!(Reply::Bulk(b"42".to_vec()).integer(), Some(42));
        assert_eq!(Reply::Null.integer(), None);
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut buffer = Vec::new();
        encode(&mut buffer, &[b"GET", b"k"]);
        assert_eq!(buffer, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
