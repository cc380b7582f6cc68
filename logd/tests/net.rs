//! The server over real sockets: pipelines, splits, limits, slow clients, stops.
//! Each test starts the built daemon on a port of the system's choice and ends it by its own process id.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for the slowest machine; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Daemon {
    process: Child,
    address: String,
    directory: TempDir,
    stderr: Option<BufReader<ChildStderr>>,
}

impl Daemon {
    fn start(flags: &[&str]) -> Daemon {
        Daemon::start_in(tempfile::tempdir().unwrap(), flags)
    }

    fn start_in(directory: TempDir, flags: &[&str]) -> Daemon {
        let mut process = Command::new(env!("CARGO_BIN_EXE_logd"))
            .args(["--listen", "127.0.0.1:0", "--dir"])
            .arg(directory.path().join("data"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = process.stderr.take().map(BufReader::new);
        let mut ready = String::new();
        // The pipe is closed here after one line: printing to nobody must not end the daemon.
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let listening = ready.strip_prefix("logd ready: listening on ");
        let Some(listening) = listening else { panic!("no ready line but {ready:?}, {}", rest(stderr)) };
        let address = listening.split([',', ' ']).next().unwrap().to_owned();
        Daemon { process, address, directory, stderr }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it and gives its exit code and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        let code = self.process.wait().unwrap().code();
        (code, rest(self.stderr.take()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn rest(stderr: Option<BufReader<ChildStderr>>) -> String {
    let mut text = String::new();
    stderr.unwrap().read_to_string(&mut text).unwrap();
    text
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn expect(stream: &mut impl Read, wanted: &[u8]) {
    let mut found = vec![0; wanted.len()];
    stream.read_exact(&mut found).unwrap();
    assert!(found == wanted, "{:?}", String::from_utf8_lossy(&found[..found.len().min(200)]));
}

fn ask(stream: &mut (impl Read + Write), bytes: &[u8], wanted: &[u8]) {
    stream.write_all(bytes).unwrap();
    expect(stream, wanted);
}

/// All that comes until the server closes. A reset counts as closed.
fn until_closed(stream: &mut impl Read) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn ten_thousand_pipelined_requests_are_answered_in_order() {
    let daemon = Daemon::start(&[]);
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for index in 0..10_000 {
        let text = index.to_string();
        if index % 10 == 0 {
            requests.extend(request(&[b"SET", b"key", text.as_bytes()]));
            replies.extend_from_slice(b"+OK\r\n");
        } else if index % 10 == 1 {
            requests.extend(request(&[b"GET", b"key"]));
            let before = (index - 1).to_string();
            replies.extend(format!("${}\r\n{before}\r\n", before.len()).bytes());
        } else {
            requests.extend(request(&[b"ECHO", text.as_bytes()]));
            replies.extend(format!("${}\r\n{text}\r\n", text.len()).bytes());
        }
    }
    let mut stream = daemon.connect();
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(&requests).unwrap());
    expect(&mut stream, &replies);
    sending.join().unwrap();
    assert_eq!(daemon.stop().0, Some(0));
}

#[test]
fn requests_may_be_split_at_every_byte() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    stream.set_nodelay(true).unwrap();
    let mut bytes = request(&[b"ECHO", b"one\r\ntwo"]);
    bytes.extend_from_slice(b"PING\r\n\r\necho 'a b'\n");
    let replies = b"$8\r\none\r\ntwo\r\n+PONG\r\n$3\r\na b\r\n";
    for split in 0..bytes.len() {
        stream.write_all(&bytes[..split]).unwrap();
        stream.write_all(&bytes[split..]).unwrap();
        expect(&mut stream, replies);
    }
    for byte in &bytes {
        stream.write_all(&[*byte]).unwrap();
    }
    expect(&mut stream, replies);
}

#[test]
fn requests_of_many_sizes_survive_the_buffer_edges() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    for edge in [4096_usize, 16384, 65536, 131_072, 3_000_000] {
        for bytes in edge - 40..edge + 3 {
            let value = vec![b'v'; bytes];
            let reply = [format!("${bytes}\r\n").as_bytes(), &value, b"\r\n"].concat();
            ask(&mut stream, &request(&[b"ECHO", &value]), &reply);
            if edge > 1_000_000 && bytes > edge - 37 {
                break;
            }
        }
    }
}

#[test]
fn protocol_errors_are_answered_once_and_end_the_connection() {
    let daemon = Daemon::start(&[]);
    let long = vec![b'a'; 200_000];
    let cases: [(&[u8], &str); 6] = [
        (b"*2147483647\r\n", "invalid multibulk length"),
        (b"*2\r\n:1\r\nPING\r\n", "expected '$', got ':'"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"SET \"a\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
    ];
    for (bytes, text) in cases {
        let mut stream = daemon.connect();
        ask(&mut stream, b"PING\r\n", b"+PONG\r\n");
        // The server may close before it has all of the long one.
        let _ = stream.write_all(bytes);
        let found = until_closed(&mut stream);
        assert!(
            found == format!("-ERR Protocol error: {text}\r\n") || (bytes.len() > 65536 && found.is_empty()),
            "{found}"
        );
    }
    ask(&mut daemon.connect(), b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn announced_bytes_are_not_reserved() {
    let daemon = Daemon::start(&[]);
    let streams: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(b"*1048576\r\n$536870912\r\nabc").unwrap();
            stream
        })
        .collect();
    ask(&mut daemon.connect(), b"PING\r\n", b"+PONG\r\n");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 200 << 10, "{kib} KiB for {} headers", streams.len());
}

#[test]
fn unfinished_input_of_all_clients_is_bounded() {
    let daemon = Daemon::start(&["--input-limit", "4M"]);
    let mut greedy: Vec<TcpStream> = (0..10).map(|_| daemon.connect()).collect();
    let piece = vec![b'x'; 1 << 20];
    let mut refused = 0;
    for stream in &mut greedy {
        let is_sent = stream.write_all(b"*1\r\n$100000000\r\n").is_ok() && stream.write_all(&piece).is_ok();
        // Those that were let in hang, so only the others may be read from.
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut buffer = [0; 5];
        match stream.read(&mut buffer) {
            Ok(bytes) => {
                assert!(bytes == 0 || buffer.starts_with(b"-ERR"), "{buffer:?}");
                refused += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => assert!(is_sent),
            Err(_) => refused += 1,
        }
    }
    assert!((4..=9).contains(&refused), "{refused} refused");
    ask(&mut daemon.connect(), b"PING\r\n", b"+PONG\r\n");
    drop(greedy);
    let (code, said) = daemon.stop();
    assert_eq!(code, Some(0));
    assert!(said.contains("input-limit"), "{said}");
}

#[test]
fn a_client_that_does_not_read_delays_no_other_and_is_closed_at_its_limit() {
    let daemon = Daemon::start(&["--threads", "1", "--client-output-limit", "8M"]);
    let value = vec![b'v'; 3 << 20];
    let mut slow = daemon.connect();
    ask(&mut slow, &request(&[b"SET", b"big", &value]), b"+OK\r\n");
    let gets = request(&[b"GET", b"big"]).repeat(20);
    slow.write_all(&gets).unwrap();
    let mut other = daemon.connect();
    for _ in 0..100 {
        ask(&mut other, b"PING\r\n", b"+PONG\r\n");
    }
    // Served again as it reads: all of it comes.
    let reply = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    for _ in 0..20 {
        expect(&mut slow, &reply);
    }
    let huge = vec![b'v'; 40 << 20];
    slow.write_all(&request(&[b"ECHO", &huge])).unwrap();
    assert!(until_closed(&mut slow).len() < huge.len());
    ask(&mut other, b"PING\r\n", b"+PONG\r\n");
    let (code, said) = daemon.stop();
    assert_eq!(code, Some(0));
    assert!(said.contains("client-output-limit"), "{said}");
}

#[test]
fn clients_above_the_limit_are_told_and_closed() {
    let daemon = Daemon::start(&["--maxclients", "3"]);
    let mut let_in: Vec<TcpStream> = (0..3).map(|_| daemon.connect()).collect();
    for stream in &mut let_in {
        ask(stream, b"PING\r\n", b"+PONG\r\n");
    }
    assert_eq!(until_closed(&mut daemon.connect()), "-ERR max number of clients reached\r\n");
    ask(&mut let_in[0], b"QUIT\r\n", b"+OK\r\n");
    assert_eq!(until_closed(&mut let_in[0]), "");
    // The place is free once the server has let go of the connection, which it had before it closed it or soon after.
    let is_served = (0..500).any(|_| {
        let mut stream = daemon.connect();
        let mut buffer = [0; 7];
        let is_pong =
            stream.write_all(b"PING\r\n").is_ok() && stream.read(&mut buffer).is_ok() && &buffer == b"+PONG\r\n";
        std::thread::sleep(Duration::from_millis(if is_pong { 0 } else { 10 }));
        is_pong
    });
    assert!(is_served);
}

#[test]
fn what_was_sent_before_the_client_closed_its_side_is_answered() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    stream.write_all(&[request(&[b"SET", b"a", b"1"]).repeat(3000), b"PING\r\n".to_vec()].concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let replies = until_closed(&mut stream);
    assert_eq!(replies.len(), 3000 * 5 + 7);
    assert!(replies.ends_with("+PONG\r\n"));
}

#[test]
fn a_unix_socket_serves_and_only_a_stale_one_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("logd.sock");
    let flags = ["--unix", path.to_str().unwrap()];
    let first = Daemon::start(&flags);
    let serve = |path: &Path| {
        let mut stream = UnixStream::connect(path).unwrap();
        ask(&mut stream, b"PING\r\n", b"+PONG\r\n");
    };
    serve(&path);
    let other_directory = tempfile::tempdir().unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_logd"))
        .args(["--listen", "127.0.0.1:0", "--unix", flags[1], "--dir"])
        .arg(other_directory.path().join("data"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another process listens"));
    first.signal(Signal::KILL);
    drop(first);
    assert!(path.exists());
    let third = Daemon::start(&flags);
    serve(&path);
    assert_eq!(third.stop().0, Some(0));
    assert!(!path.exists());
}

#[test]
fn a_stop_under_load_with_unread_clients_loses_no_acknowledged_write() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let mut unread = daemon.connect();
    let value = vec![b'v'; 4 << 20];
    ask(&mut unread, &request(&[b"SET", b"big", &value]), b"+OK\r\n");
    unread.write_all(&request(&[b"GET", b"big"]).repeat(10)).unwrap();
    let (sender, begun) = std::sync::mpsc::channel();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (mut stream, begun) = (daemon.connect(), sender.clone());
            std::thread::spawn(move || {
                let mut acknowledged = 0_u64;
                loop {
                    let text = (acknowledged + 1).to_string();
                    let bytes = request(&[b"SET", format!("writer{writer}").as_bytes(), text.as_bytes()]);
                    let mut reply = [0; 5];
                    if stream.write_all(&bytes).is_err() || stream.read_exact(&mut reply).is_err() {
                        return acknowledged;
                    }
                    assert_eq!(&reply, b"+OK\r\n");
                    acknowledged += 1;
                    if acknowledged == 20 {
                        begun.send(()).unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in 0..4 {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    let mut daemon = daemon;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.process.wait().unwrap().code(), Some(0));
    let acknowledged: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let directory = std::mem::replace(&mut daemon.directory, tempfile::tempdir().unwrap());
    let again = Daemon::start_in(directory, &[]);
    for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
        let mut stream = again.connect();
        stream.write_all(&request(&[b"GET", format!("writer{writer}").as_bytes()])).unwrap();
        stream.write_all(&request(&[b"QUIT"])).unwrap();
        let reply = until_closed(&mut stream);
        let found: u64 = reply.lines().nth(1).unwrap().parse().unwrap();
        assert!(found == acknowledged || found == acknowledged + 1, "{found} after {acknowledged} acknowledged");
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_an_error_on_one_line() {
    let daemon = Daemon::start(&[]);
    let second = Command::new(env!("CARGO_BIN_EXE_logd"))
        .args(["--listen", "127.0.0.1:0", "--dir"])
        .arg(daemon.directory.path().join("data"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("logd: failed to open "), "{said}");
    assert!(second.stdout.is_empty());
}
