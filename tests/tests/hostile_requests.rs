//! Requests that broke other servers: big headers, odd lengths, nesting, splits, inline oddities, arithmetic at its edges.
//! The daemon answers as Redis does or closes with an error; it never ends, nor reserves what has not arrived.

use logd_tests::client::{Client, Reply};
use logd_tests::daemon::Daemon;
use tempfile::TempDir;

struct Fixture {
    daemon: Daemon,
    _directory: TempDir,
}

fn start(flags: &[&str]) -> Fixture {
    let directory = tempfile::tempdir().expect("a scratch directory");
    Fixture { daemon: Daemon::start(&directory.path().join("data"), flags), _directory: directory }
}

/// Bytes that a process holds in memory.
fn memory_bytes(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.process())).expect("it lives");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

fn check_alive(daemon: &Daemon) {
    let mut client = daemon.client();
    assert_eq!(client.call(&["PING"]).expect("it lives"), Reply::Simple("PONG".to_owned()));
}

/// Sends bytes on a connection of their own and gives all that comes back, with line ends as blanks.
fn answer_to(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut client = daemon.client();
    client.raw(bytes).and_then(|()| client.raw(b"QUIT\r\n")).unwrap_or_default();
    client.until_closed().replace("\r\n", " ").trim().to_owned()
}

#[test]
fn announced_lengths_cost_no_memory_before_the_bytes_arrive() {
    let it = start(&[]);
    let before = memory_bytes(&it.daemon);
    let headers: [&[u8]; 6] = [
        b"*2147483647\r\n",
        b"*1\r\n$536870912\r\n",
        b"*9223372036854775807\r\n",
        b"*1048576\r\n$3\r\nSET\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870911\r\n",
        b"*1\r\n$18446744073709551615\r\n",
    ];
    let mut clients: Vec<Client> = (0..100).map(|_| it.daemon.client()).collect();
    for (client, header) in clients.iter_mut().zip(headers.iter().cycle()) {
        client.raw(header).expect("it takes what there is");
    }
    check_alive(&it.daemon);
    let grown = memory_bytes(&it.daemon).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for a few headers");
    drop(clients);
    check_alive(&it.daemon);
}

#[test]
fn unfinished_requests_of_many_clients_stay_below_one_bound() {
    let it = start(&["--input-limit", "16M"]);
    let before = memory_bytes(&it.daemon);
    let part = vec![b'x'; 1 << 20];
    let mut clients: Vec<Client> = (0..40).map(|_| it.daemon.client()).collect();
    for client in &mut clients {
        let sent = client.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10485760\r\n");
        // Some are closed meanwhile: that is what the bound is for.
        let _ = sent.and_then(|()| client.raw(&part)).and_then(|()| client.raw(&part));
    }
    check_alive(&it.daemon);
    let grown = memory_bytes(&it.daemon).saturating_sub(before);
    assert!(grown < 80 << 20, "{grown} bytes of unfinished requests");
}

#[test]
fn a_large_request_split_at_the_edges_of_buffers_is_the_same_request() {
    let it = start(&[]);
    let mut words = vec![b"MSET".to_vec()];
    for number in 0..100 {
        words.push(format!("key{number}").into_bytes());
        words.push(vec![b'a' + (number % 26) as u8; 640]);
    }
    let mut packet = format!("*{}\r\n", words.len()).into_bytes();
    for word in &words {
        packet.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        packet.extend_from_slice(word);
        packet.extend_from_slice(b"\r\n");
    }
    let edges = [4096, 8192, 16_384, 32_768, 65_536, packet.len()];
    let mut client = it.daemon.client();
    for at in edges.iter().flat_map(|edge| edge - 2..=edge + 2).chain((0..packet.len()).step_by(997)) {
        let at = at.min(packet.len());
        client.raw(&packet[..at]).expect("it takes them");
        // The daemon reads the first part on its own: another client's turn lies between.
        check_alive(&it.daemon);
        client.raw(&packet[at..]).expect("it takes them");
        assert_eq!(client.receive().expect("an answer"), Reply::Simple("OK".to_owned()), "split at {at}");
    }
    assert_eq!(client.number(&["DBSIZE"]), 100);
    assert_eq!(client.get("key99"), Some("v".repeat(640)));
}

#[test]
fn inline_requests_of_every_shape_are_answered_or_refused() {
    let it = start(&[]);
    for (bytes, wanted) in [
        (&b"PING\n"[..], "+PONG +OK"),
        (b"PING\r\n", "+PONG +OK"),
        (b"\r\n\n\r\nPING\r\n", "+PONG +OK"),
        (b"  PING  \r\n", "+PONG +OK"),
        (b"SET k \"a b\"\r\nGET k\r\n", "+OK $3 a b +OK"),
        (b"PING\r\n*1\r\n$4\r\nPING\r\nPING\n", "+PONG +PONG +PONG +OK"),
    ] {
        assert_eq!(answer_to(&it.daemon, bytes), wanted, "{}", bytes.escape_ascii());
    }
    for bytes in [&b"SET k \"open\r\n"[..], b"SET k 'open\r\n", b"GET \"a\"b\r\n"] {
        let answer = answer_to(&it.daemon, bytes);
        assert!(answer.starts_with("-ERR Protocol error"), "{}: {answer}", bytes.escape_ascii());
    }
    assert_eq!(answer_to(&it.daemon, b"\0\r\n"), "+OK", "a line that begins with NUL is empty, as in Redis");
    let endless = answer_to(&it.daemon, &vec![b'a'; 1 << 20]);
    assert!(endless.is_empty() || endless.starts_with("-ERR Protocol error"), "{endless}");
    check_alive(&it.daemon);
}

#[test]
fn nesting_wrong_types_and_odd_lengths_end_the_connection_and_nothing_else() {
    let it = start(&[]);
    let nested = b"*1\r\n".repeat(100_000);
    for bytes in [
        &nested[..],
        b"*2\r\n:1\r\n",
        b"*1\r\n$-5\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$ 3\r\nabc\r\n",
        b"*1\r\n$x\r\n",
        b"*x\r\n",
        b"*1\r\n+OK\r\n",
        b"*1\r\n$99999999999999999999\r\n",
        b"*99999999999999999999\r\n",
    ] {
        let answer = answer_to(&it.daemon, bytes);
        let shown = bytes[..bytes.len().min(30)].escape_ascii();
        assert!(answer.is_empty() || answer.starts_with("-ERR Protocol error"), "{shown}: {answer}");
    }
    for bytes in [&b"*0\r\n"[..], b"*-1\r\n"] {
        assert_eq!(answer_to(&it.daemon, bytes), "+OK", "an empty request is no request");
    }
    check_alive(&it.daemon);
}

#[test]
fn commands_of_transactions_in_odd_places_are_answered() {
    let it = start(&[]);
    let mut client = it.daemon.client();
    client.done(&["WATCH", "k"]);
    client.done(&["MULTI"]);
    client.call(&["SET", "k", "v"]).expect("queued");
    assert!(matches!(client.call(&["EXEC"]), Ok(Reply::Array(Some(_)))), "a watched key of one's own stops nothing");
    client.done(&["MULTI"]);
    for words in [&["SCRIPT", "LOAD", "return 42"][..], &["WATCH", "k"], &["MULTI"], &["NOSUCH"], &["SHUTDOWN", "WHAT"]]
    {
        client.call(words).expect("an answer, be it an error");
    }
    assert!(client.refused(&["EXEC"]).starts_with("EXECABORT"));
    for words in [&["EXEC"][..], &["DISCARD"]] {
        assert!(client.refused(words).contains("without MULTI"));
    }
    check_alive(&it.daemon);
}

#[test]
fn arithmetic_at_its_edges_is_refused_whole_and_leaves_the_log_alone() {
    let it = start(&[]);
    let mut client = it.daemon.client();
    for (key, value) in [
        ("max", "9223372036854775807"),
        ("min", "-9223372036854775808"),
        ("blank", " 1"),
        ("plus", "+1"),
        ("zero", "01"),
        ("real", "1.0"),
        ("empty", ""),
        ("text", "hello"),
    ] {
        client.done(&["SET", key, value]);
    }
    let before = client.info("lsn_assigned");
    for words in [
        &["INCR", "max"][..],
        &["INCRBY", "max", "9223372036854775807"],
        &["DECR", "min"],
        &["DECRBY", "max", "-9223372036854775808"],
        &["INCRBY", "max", "9223372036854775808"],
        &["INCR", "blank"],
        &["INCR", "plus"],
        &["INCR", "zero"],
        &["INCR", "real"],
        &["INCR", "empty"],
        &["INCRBYFLOAT", "max", "nan"],
        &["INCRBYFLOAT", "text", "1"],
        &["SETRANGE", "text", "536870911", "xx"],
        &["SETRANGE", "text", "4294967295", "x"],
        &["SETRANGE", "text", "9223372036854775807", "x"],
        &["SETRANGE", "text", "-1", "x"],
        &["EXPIRE", "text", "18446744073709561"],
        &["EXPIRE", "text", "9223372036854775807"],
        &["PEXPIRE", "text", "9223372036854775807"],
        &["EXPIRE", "text", "-9223372036854775808"],
        &["SET", "text", "v", "PX", "0"],
        &["SET", "text", "v", "EX", "-1"],
        &["SET", "text", "v", "EX", "9223372036854775807"],
        &["SETBIT", "text", "4294967296", "1"],
        &["SETBIT", "text", "-1", "1"],
        &["GETEX", "text", "EX", "0"],
    ] {
        let error = client.refused(words);
        assert!(error.starts_with("ERR"), "{words:?}: {error}");
    }
    assert_eq!(client.info("lsn_assigned"), before, "a refused command is not in the log");
    assert_eq!(client.get("max").as_deref(), Some("9223372036854775807"));
    assert_eq!(client.get("text").as_deref(), Some("hello"));
    assert_eq!(client.number(&["TTL", "text"]), -1);
    for (words, wanted) in [
        (["GETRANGE", "text", "-3", "-1"], "llo"),
        (["GETRANGE", "text", "-100", "1"], "he"),
        (["GETRANGE", "text", "3", "-100"], ""),
        (["GETRANGE", "text", "0", "9223372036854775807"], "hello"),
        (["GETRANGE", "text", "-9223372036854775808", "0"], "h"),
    ] {
        assert_eq!(client.call(&words).expect("an answer").text(), wanted, "{words:?}");
    }
    assert_eq!(client.number(&["EXPIRE", "text", "-1"]), 1, "a moment in the past deletes");
    assert_eq!(client.get("text"), None);
}
