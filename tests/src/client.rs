//! A plain blocking RESP2 client, written apart from the daemon's own code so that both cannot share a mistake.
//! Guarantees: a short or malformed reply is an error, never a value.
//! Must not know: what the commands mean.
//! Next: daemon.rs.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+text`
    Simple(String),
    /// `-text`
    Error(String),
    /// `:number`
    Integer(i64),
    /// `$…`, or no value.
    Bulk(Option<Vec<u8>>),
    /// `*…`, or no array.
    Array(Option<Vec<Reply>>),
}

impl Reply {
    /// The text of a simple or bulk reply; panics on others.
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) => text.clone(),
            Reply::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("a text was expected, not {other:?}"),
        }
    }
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects; replies must come within ten seconds each.
    pub fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sends requests in one packet without waiting.
    pub fn send(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<()> {
        let mut packet = Vec::new();
        for request in requests {
            write!(packet, "*{}\r\n", request.len())?;
            for word in request {
                write!(packet, "${}\r\n", word.len())?;
                packet.extend_from_slice(word);
                packet.extend_from_slice(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&packet)
    }

    /// Sends one request and waits for its reply.
    pub fn call(&mut self, words: &[&str]) -> Result<Reply> {
        self.send(&[words.iter().map(|word| word.as_bytes().to_vec()).collect()])?;
        self.receive()
    }

    /// Sends a write and panics unless it is acknowledged with OK.
    pub fn done(&mut self, words: &[&str]) {
        let reply = self.call(words).expect("a running daemon answers");
        assert_eq!(reply, Reply::Simple("OK".to_owned()), "{}", words[..words.len().min(2)].join(" "));
    }

    /// Sends a request and gives the text of the error that must come.
    pub fn refused(&mut self, words: &[&str]) -> String {
        match self.call(words).expect("a running daemon answers") {
            Reply::Error(text) => text,
            other => panic!("{} must be refused, not answered {other:?}", words[..words.len().min(2)].join(" ")),
        }
    }

    /// The value of a key.
    pub fn get(&mut self, key: &str) -> Option<String> {
        match self.call(&["GET", key]).expect("a running daemon answers") {
            Reply::Bulk(value) => value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            other => panic!("GET {key} is answered {other:?}"),
        }
    }

    /// A number.
    pub fn number(&mut self, words: &[&str]) -> i64 {
        match self.call(words).expect("a running daemon answers") {
            Reply::Integer(number) => number,
            other => panic!("{} is answered {other:?}", words.join(" ")),
        }
    }

    /// A field of INFO; empty if it is not there.
    pub fn info(&mut self, field: &str) -> String {
        let text = self.call(&["INFO", "everything"]).expect("a running daemon answers").text();
        let line = text.lines().find_map(|line| line.strip_prefix(field).and_then(|rest| rest.strip_prefix(':')));
        line.unwrap_or_default().to_owned()
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// All that comes until the daemon closes. A reset counts as closed.
    pub fn until_closed(&mut self) -> String {
        let mut all = Vec::new();
        match self.stream.read_to_end(&mut all) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it does not close: {error}"),
            _ => String::from_utf8_lossy(&all).into_owned(),
        }
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| Error::from(ErrorKind::InvalidData))?;
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number(rest)?)),
            "$" => self.bulk(number(rest)?),
            "*" => self.array(number(rest)?),
            _ => Err(Error::new(ErrorKind::InvalidData, format!("reply {line:?}"))),
        }
    }

    fn bulk(&mut self, bytes: i64) -> Result<Reply> {
        if bytes < 0 {
            return Ok(Reply::Bulk(None));
        }
        let mut value = vec![0; bytes as usize + 2];
        self.stream.read_exact(&mut value)?;
        value.truncate(bytes as usize);
        Ok(Reply::Bulk(Some(value)))
    }

    fn array(&mut self, count: i64) -> Result<Reply> {
        if count < 0 {
            return Ok(Reply::Array(None));
        }
        (0..count).map(|_| self.receive()).collect::<Result<Vec<_>>>().map(|items| Reply::Array(Some(items)))
    }
}

fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|_| Error::new(ErrorKind::InvalidData, format!("number {text:?}")))
}
