//! Servers that tests ask: ours as a whole connection, one that is named, or a redis-server of the test's own.
//! Guarantees: a server that was started ends with the test.
//! Must not know: what is asked.
//! Next: session.rs, differential.rs.

use crate::testing::{Client, Daemon};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whatever answers requests.
pub(super) trait Server {
    /// The reply, one line for each of its parts.
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<String>;
    /// Whether it is ours, so that what differs from Redis by intention is checked too.
    fn is_ours(&self) -> bool;
}

/// Our daemon with one client.
pub(super) struct Whole {
    daemon: Daemon,
    client: Client,
}

impl Whole {
    pub(super) fn new() -> Whole {
        let daemon = Daemon::new();
        let client = daemon.client();
        Whole { daemon, client }
    }
}

impl Server for Whole {
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<String> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.client.start(&self.daemon, &words);
        assert!(self.client.later.is_none(), "only what is answered at once is asked");
        let reply = read_reply(&mut self.client.out.bytes());
        self.client.out.truncate(0);
        reply
    }

    fn is_ours(&self) -> bool {
        true
    }
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A server behind a socket.
pub(super) struct Live {
    stream: BufReader<Box<dyn Stream>>,
    _own: Option<Own>,
}

/// A process that ends when this goes.
struct Own {
    process: Child,
    _directory: tempfile::TempDir,
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Live {
    /// The server that RESP_ADDRESS names, emptied.
    pub(super) fn named() -> Option<Live> {
        let address = std::env::var("RESP_ADDRESS").ok()?;
        Some(Live::over(Box::new(TcpStream::connect(address).unwrap()), None))
    }

    /// A redis-server of our own. `None` where there is none installed.
    pub(super) fn started() -> Option<Live> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let own = Own { process, _directory: directory };
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Some(Live::over(Box::new(stream), Some(own)));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server was started and takes no connection");
    }

    fn over(stream: Box<dyn Stream>, own: Option<Own>) -> Live {
        let mut server = Live { stream: BufReader::new(stream), _own: own };
        server.ask(&[b"FLUSHALL".to_vec()]);
        server.ask(&[b"SELECT".to_vec(), b"0".to_vec()]);
        server
    }
}

impl Server for Live {
    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
        read_reply(&mut self.stream)
    }

    fn is_ours(&self) -> bool {
        false
    }
}

/// Reads one reply and shows it a line a part: simple ones as they are, strings in quotes, null of protocol 2 as `_`.
pub(super) fn read_reply(input: &mut impl BufRead) -> Vec<String> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).unwrap();
    let line = String::from_utf8_lossy(&line);
    let line = line.strip_suffix("\r\n").expect("a reply line ends");
    let count = || line[1..].parse::<usize>().unwrap();
    match line.as_bytes()[0] {
        b'$' if line == "$-1" => vec!["_".to_owned()],
        b'*' if line == "*-1" => vec![line.to_owned()],
        b'$' | b'=' => {
            let mut bytes = vec![0; count() + 2];
            input.read_exact(&mut bytes).unwrap();
            bytes.truncate(bytes.len() - 2);
            vec![format!("\"{}\"", bytes.escape_ascii())]
        }
        b'*' | b'~' | b'%' => {
            let parts = if line.starts_with('%') { count() * 2 } else { count() };
            let parts = (0..parts).flat_map(|_| read_reply(input));
            std::iter::once(line.to_owned()).chain(parts).collect()
        }
        _ => vec![line.to_owned()],
    }
}
