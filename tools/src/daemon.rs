//! Asks a running daemon, in RESP, one request at a time.
//! Guarantees: a reply is bounded in length and depth before it is believed, and every wait in time.
//! Must not know: what the replies mean.
//! Next: command/digest.rs, command/stats.rs.

use crate::place::Place;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A digest walks the whole state, so that a daemon may take a while to answer.
const REPLY_LIMIT: Duration = Duration::from_secs(600);
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The longest string a Redis server gives.
const BULK_BYTES_MAX: usize = 512 << 20;
const ITEMS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 8;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
    /// A number.
    Integer(i64),
    /// Nothing.
    Null,
    /// Several; a map is keys and values in turn.
    Array(Vec<Reply>),
}

impl Reply {
    /// The number, also if it came as text.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            Reply::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The bytes of a text, or of what is none.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Reply::Text(text) => Some(text.into_bytes()),
            Reply::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Why a daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No connection.
    #[error("failed to reach {place}: {source}")]
    Reach {
        /// Where.
        place: String,
        /// The system's words.
        source: io::Error,
    },
    /// The connection broke.
    #[error("failed to ask the daemon: {0}")]
    Io(#[from] io::Error),
    /// It refused.
    #[error("the daemon refused {command}: {reply}")]
    Refused {
        /// What was asked.
        command: String,
        /// Its words.
        reply: String,
    },
    /// It answered with something else.
    #[error("the daemon answered {command} with something else than expected: {reply}")]
    Unexpected {
        /// What was asked.
        command: String,
        /// What came.
        reply: String,
    },
    /// It does not speak RESP.
    #[error("what answers there does not speak RESP: {0}")]
    Protocol(&'static str),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A connection.
pub struct Daemon {
    stream: BufReader<Box<dyn Stream>>,
}

impl Daemon {
    /// Connects. Panics if the place is a directory.
    pub fn connect(place: &Place) -> Result<Daemon, DaemonError> {
        let stream = match place {
            Place::Directory(_) => panic!("a directory is read, not asked"),
            Place::Tcp(host) => connect_tcp(host),
            Place::Unix(path) => connect_unix(path),
        };
        let stream = stream.map_err(|source| DaemonError::Reach { place: place.to_string(), source })?;
        Ok(Daemon { stream: BufReader::new(stream) })
    }

    /// Sends a command and waits for its reply. An error reply is an error.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply, DaemonError> {
        let mut request = Vec::new();
        encode(words, &mut request);
        self.send(&request)?;
        self.receive()?.map_err(|reply| DaemonError::Refused { command: words.join(" "), reply })
    }

    /// Sends requests made by `encode`, without waiting.
    pub fn send(&mut self, requests: &[u8]) -> Result<(), DaemonError> {
        Ok(self.stream.get_mut().write_all(requests)?)
    }

    /// Waits for the next reply; the inner error is an error reply.
    pub fn receive(&mut self) -> Result<Result<Reply, String>, DaemonError> {
        read_reply(&mut self.stream, 0)
    }
}

fn connect_tcp(host: &str) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    Ok(Box::new(stream))
}

fn connect_unix(path: &std::path::Path) -> io::Result<Box<dyn Stream>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    Ok(Box::new(stream))
}

/// Adds a request.
pub fn encode<W: AsRef<[u8]>>(words: &[W], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Reads one reply; the inner error is an error reply. Errors within an array count as text.
fn read_reply(stream: &mut impl BufRead, depth: usize) -> Result<Result<Reply, String>, DaemonError> {
    let line = read_line(stream)?;
    let Some((kind, rest)) = line.split_at_checked(1) else { return Err(DaemonError::Protocol("an empty line")) };
    Ok(Ok(match kind {
        "-" => return Ok(Err(rest.to_owned())),
        "+" | "," | "(" | "#" => Reply::Text(rest.to_owned()),
        ":" => Reply::Integer(rest.parse().map_err(|_| DaemonError::Protocol("a number that is none"))?),
        "_" => Reply::Null,
        "$" | "=" => read_bulk(stream, rest)?,
        "*" | "~" | ">" => read_array(stream, rest, 1, depth)?,
        "%" => read_array(stream, rest, 2, depth)?,
        _ => return Err(DaemonError::Protocol("an unknown kind of reply")),
    }))
}

fn read_line(stream: &mut impl BufRead) -> Result<String, DaemonError> {
    let mut line = Vec::new();
    stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else {
        if line.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        return Err(DaemonError::Protocol("a line without an end"));
    };
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn length(text: &str, max: usize) -> Result<Option<usize>, DaemonError> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(length) if length >= 0 && length as u64 <= max as u64 => Ok(Some(length as usize)),
        _ => Err(DaemonError::Protocol("a length out of bounds")),
    }
}

fn read_bulk(stream: &mut impl BufRead, text: &str) -> Result<Reply, DaemonError> {
    let Some(bytes) = length(text, BULK_BYTES_MAX)? else { return Ok(Reply::Null) };
    let mut body = Vec::new();
    stream.by_ref().take(bytes as u64 + 2).read_to_end(&mut body)?;
    if body.len() != bytes + 2 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    if !body.ends_with(b"\r\n") {
        return Err(DaemonError::Protocol("a string without an end"));
    }
    body.truncate(bytes);
    Ok(String::from_utf8(body).map_or_else(|bytes| Reply::Bytes(bytes.into_bytes()), Reply::Text))
}

fn read_array(stream: &mut impl BufRead, text: &str, each: usize, depth: usize) -> Result<Reply, DaemonError> {
    let Some(count) = length(text, ITEMS_MAX)? else { return Ok(Reply::Null) };
    if depth == DEPTH_MAX {
        return Err(DaemonError::Protocol("a reply nested too deep"));
    }
    let mut items = Vec::new();
    for _ in 0..count * each {
        items.push(read_reply(stream, depth + 1)?.unwrap_or_else(Reply::Text));
    }
    Ok(Reply::Array(items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn read(bytes: &[u8]) -> Result<Result<Reply, String>, DaemonError> {
        read_reply(&mut io::Cursor::new(bytes), 0)
    }

    #[test]
    fn replies_of_both_versions_are_read() {
        let array = read(b"*3\r\n:42\r\n$4\r\nbeef\r\n*0\r\n").unwrap().unwrap();
        let expected = vec![Reply::Integer(42), Reply::Text("beef".to_owned()), Reply::Array(Vec::new())];
        assert_eq!(array, Reply::Array(expected));
        let map = read(b"%1\r\n+a\r\n_\r\n").unwrap().unwrap();
        assert_eq!(map, Reply::Array(vec![Reply::Text("a".to_owned()), Reply::Null]));
        assert_eq!(read(b"-ERR unknown command\r\n").unwrap(), Err("ERR unknown command".to_owned()));
    }

    #[test]
    fn broken_replies_are_errors_and_not_panics() {
        let deep = "*1\r\n".repeat(50);
        for bytes in
            ["", "\r\n", "?\r\n", ":x\r\n", "$99999999999\r\n", "$3\r\nab", "$1\r\nabc", "*2\r\n:1\r\n", "+x", &deep]
        {
            assert!(read(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_daemon_is_asked_over_a_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place::Tcp(listener.local_addr().unwrap().to_string());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 21];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"*2\r\n:9\r\n+00ff\r\n-ERR no\r\n").unwrap();
            request.to_vec()
        });
        let mut daemon = Daemon::connect(&place).unwrap();
        let reply = daemon.ask(&["LOGD.DIGEST"]).unwrap();
        assert_eq!(reply, Reply::Array(vec![Reply::Integer(9), Reply::Text("00ff".to_owned())]));
        assert_eq!(server.join().unwrap(), b"*1\r\n$11\r\nLOGD.DIGEST\r\n"[..21]);
    }
}
