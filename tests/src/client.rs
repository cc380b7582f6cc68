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
