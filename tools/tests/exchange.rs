//! Import and export against a real redis-server: its own files are read, and ours are loaded by it.
//! Goal: equal content with expiries, both ways. Method: both sides are told as JSON lines and compared. Skipped without redis-server.

#![expect(clippy::unwrap_used, reason = "everything in this file is a test")]

mod redis;

use logd_engine::prng::Prng;
use logd_tools::daemon::Daemon;
use redis::{Redis, ask, content, logctl};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn now_millis() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Strings of all forms that a server tells apart: numbers, short, long, compressible, binary, large; some end.
fn fill(client: &mut Daemon, seed: u64) {
    let mut prng = Prng::new(seed);
    for number in 0..1500_u64 {
        if number % 500 == 0 {
            ask(client, &[b"SELECT", (number / 100).to_string().as_bytes()]);
        }
        let bytes = match prng.next_u64() % 8 {
            0 => (prng.next_u64() as i64 >> (prng.next_u64() % 64)).to_string().into_bytes(),
            1 => Vec::new(),
            2 => vec![b'a'; (prng.next_u64() % 40_000) as usize],
            3 => "pressure ".repeat((prng.next_u64() % 900) as usize).into_bytes(),
            _ => (0..prng.next_u64() % 300).map(|_| prng.next_u64() as u8).collect(),
        };
        let key = format!("key {}\u{0}{number}", prng.next_u64() % 1000);
        let end = (now_millis() + 1_000_000 + prng.next_u64() % 1_000_000_000).to_string();
        match prng.next_u64() % 3 {
            0 => ask(client, &[b"SET", key.as_bytes(), &bytes, b"PXAT", end.as_bytes()]),
            _ => ask(client, &[b"SET", key.as_bytes(), &bytes]),
        };
    }
    let large: Vec<u8> = (0..6_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    ask(client, &[b"SET", b"large", &large]);
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_rdb_file_comes_in_and_goes_out_with_equal_content() {
    let directory = tempfile::tempdir().unwrap();
    let Some(redis) = Redis::start(directory.path(), &[]) else { return };
    fill(&mut redis.client(), 1);
    ask(&mut redis.client(), &[b"SAVE"]);
    let expected = content(&redis.address());
    assert!(expected.len() > 1000);
    redis.stop();

    let store = directory.path().join("store");
    let (code, _, error) = logctl(&["import", text(&directory.path().join("dump.rdb")), "--into", text(&store)]);
    assert_eq!(code, 0, "{error}");
    assert!(content(text(&store)) == expected, "the store has another content");
    assert_eq!(logctl(&["verify", text(&store)]).0, 0);

    let second = directory.path().join("second");
    fs::create_dir(&second).unwrap();
    let file = second.join("dump.rdb");
    assert_eq!(logctl(&["export", text(&store), "--format", "rdb", "--output", text(&file)]).0, 0);
    let redis = Redis::start(&second, &[]).unwrap();
    assert!(content(&redis.address()) == expected, "redis-server loaded another content");
    redis.stop();
}

#[test]
fn commands_and_records_go_into_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let Some(redis) = Redis::start(directory.path(), &[]) else { return };
    fill(&mut redis.client(), 2);
    ask(&mut redis.client(), &[b"SAVE"]);
    let expected = content(&redis.address());
    ask(&mut redis.client(), &[b"FLUSHALL"]);
    let (code, _, error) = logctl(&["import", text(&directory.path().join("dump.rdb")), "--into", &redis.address()]);
    assert_eq!(code, 0, "{error}");
    assert!(content(&redis.address()) == expected, "the server has another content");
}

/// Changes of all kinds, a transaction, and a key that had an end which has passed and was taken away before that.
fn change(client: &mut Daemon) {
    for words in [
        "SELECT 2",
        "SET n 10",
        "INCRBY n 5",
        "APPEND text hello",
        "SETRANGE text 7 world",
        "SET gone 1",
        "DEL gone",
        "SET kept 1 PX 150",
        "PERSIST kept",
        "SET short 1 PX 100",
        "RENAME text renamed",
        "MULTI",
        "SET a 1",
        "MSET b 2 c 3",
        "EXPIRE a 100000",
        "EXEC",
        "GETEX b EX 5000",
        "SETBIT bits 100 1",
        "INCRBYFLOAT f 1.5",
        "SELECT 0",
        "SET plain v EX 9000",
        "COPY plain copied",
    ] {
        ask(client, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    std::thread::sleep(Duration::from_millis(250));
}

#[test]
fn an_append_only_directory_comes_in_with_base_and_increments() {
    for (preamble, rewrite) in [("yes", true), ("no", true), ("yes", false)] {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes"];
        let Some(redis) = Redis::start(directory.path(), &flags) else { return };
        let mut client = redis.client();
        fill(&mut client, 3);
        if rewrite {
            ask(&mut client, &[b"BGREWRITEAOF"]);
            while client.ask(&["INFO", "persistence"]).unwrap().text().unwrap().contains("rewrite_in_progress:1") {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        change(&mut client);
        let expected = content(&redis.address());
        redis.stop();
        let store = directory.path().join("store");
        let (code, _, error) = logctl(&["import", text(directory.path()), "--into", text(&store)]);
        assert_eq!(code, 0, "{error}");
        assert!(content(text(&store)) == expected, "preamble {preamble}: the store has another content");
    }
}

#[test]
fn a_cut_tail_and_an_open_transaction_are_left_out_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("appendonly.aof");
    let whole = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    let open = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n";
    for (tail, cut_bytes) in [("*3\r\n$3\r\nSE", 10), (open, open.len()), ("", 0)] {
        fs::write(&file, format!("{whole}{tail}")).unwrap();
        let store = directory.path().join(format!("store {cut_bytes}"));
        let (code, report, error) = logctl(&["import", text(&file), "--into", text(&store), "--json"]);
        assert_eq!(code, i32::from(cut_bytes > 0), "{error}");
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["cut_bytes"], cut_bytes);
        assert_eq!(content(text(&store)), [r#"{"db":0,"key":"a","value":"1"}"#]);
    }
    fs::write(&file, format!("{whole}rubbish")).unwrap();
    let store = directory.path().join("store");
    assert_eq!(logctl(&["import", text(&file), "--into", text(&store)]).0, 2);
    assert!(!store.exists(), "a failed import leaves no store");
}

#[test]
fn other_types_are_counted_and_refused_unless_left_out_knowingly() {
    let directory = tempfile::tempdir().unwrap();
    let Some(redis) = Redis::start(directory.path(), &["--appendonly", "yes"]) else { return };
    let mut client = redis.client();
    let long = "x".repeat(5000);
    for words in [
        "SET a 1",
        "RPUSH list a b c",
        &format!("RPUSH long {long} {long}"),
        "SADD set a b",
        "SADD numbers 1 2 3",
        "HSET hash f v",
        &format!("HSET wide f {long}"),
        "ZADD zset 1.5 m",
        &format!("ZADD tall 1 {long} inf b -inf c"),
        "XADD stream 1-1 f v",
        "XGROUP CREATE stream g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
        "SET z 26",
    ] {
        ask(&mut client, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    ask(&mut client, &[b"FUNCTION", b"LOAD", b"#!lua name=l\nredis.register_function('f', function() return 1 end)"]);
    ask(&mut client, &[b"SAVE"]);
    redis.stop();
    let (dump, store) = (directory.path().join("dump.rdb"), directory.path().join("store"));
    let (code, _, error) = logctl(&["import", text(&dump), "--into", text(&store)]);
    assert_eq!(code, 4);
    for counted in ["2 x hash", "2 x list", "2 x set", "2 x zset", "1 x stream", "1 x function library"] {
        assert!(error.contains(counted), "{counted}: {error}");
    }
    assert!(!store.exists(), "a refused import leaves no store");
    assert_eq!(logctl(&["import", text(&dump), "--into", text(&store), "--skip-unsupported"]).0, 1);
    assert_eq!(content(text(&store)).len(), 2);
    let (code, _, error) = logctl(&["import", text(directory.path()), "--into", text(&directory.path().join("b"))]);
    assert_eq!(code, 4);
    assert!(error.contains("3 x command RPUSH") || error.contains("2 x command RPUSH"), "{error}");
}
