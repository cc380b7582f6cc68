//! Tests of the request parser: splits, limits and error texts.

use super::*;

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Request(Vec<Vec<u8>>),
    Error(String),
}

/// Feeds the pieces one after the other, as a connection does.
fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let (mut parser, mut input, mut seen) = (Parser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match parser.next(&mut input) {
                Step::More => break,
                Step::Nothing(bytes) => drop(input.drain(..bytes)),
                Step::Error(text) => {
                    seen.push(Seen::Error(text));
                    return seen;
                }
                Step::Request(bytes) => {
                    assert_eq!(parser.next(&mut input), Step::Request(bytes), "asked again it is the same request");
                    seen.push(Seen::Request(parser.words().map(|word| input[word].to_vec()).collect()));
                    parser.finish();
                    input.drain(..bytes);
                }
            }
        }
    }
    seen
}

fn request(words: &[&[u8]]) -> Seen {
    Seen::Request(words.iter().map(|word| word.to_vec()).collect())
}

fn error_of(bytes: &[u8]) -> String {
    match parse([bytes]).pop() {
        Some(Seen::Error(text)) => text,
        other => panic!("{other:?} for {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)])),
    }
}

const MIXED: &[u8] =
    b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nb\n\r\nPING\r\n\r\n*0\r\n*-1\r\nSET \"a\\x41\\n\" 'it\\'s' \"\"\nPING\n\
    *3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n$1\r\n*1\r\n$4\r\nPING\r\n";

fn mixed() -> Vec<Seen> {
    vec![
        request(&[b"ECHO", b"a\r\nb\n"]),
        request(&[b"PING"]),
        request(&[b"SET", b"aA\n", b"it's", b""]),
        request(&[b"PING"]),
        request(&[b"SET", b"", b"$1"]),
        request(&[b"PING"]),
    ]
}

#[test]
fn a_mixed_stream_gives_the_same_requests_for_every_split() {
    assert_eq!(parse([MIXED]), mixed());
    for first in 0..=MIXED.len() {
        for second in first..=MIXED.len() {
            let pieces = [&MIXED[..first], &MIXED[first..second], &MIXED[second..]];
            assert_eq!(parse(pieces), mixed(), "split at {first} and {second}");
        }
    }
    assert_eq!(parse(MIXED.chunks(1)), mixed());
}

#[test]
fn errors_have_the_words_of_redis() {
    assert_eq!(error_of(b"*9223372036854775807\r\n"), "invalid multibulk length");
    assert_eq!(error_of(b"*1048577\r\n"), "invalid multibulk length");
    assert_eq!(error_of(b"*abc\r\n"), "invalid multibulk length");
    assert_eq!(error_of(b"*03\r\n"), "invalid multibulk length");
    assert_eq!(error_of(b"*\r\n"), "invalid multibulk length");
    assert_eq!(error_of(b"*2\r\n:1\r\n"), "expected '$', got ':'");
    assert_eq!(error_of(b"*1\r\n*1\r\n"), "expected '$', got '*'");
    for length in ["-1", "-5", "+3", "03", " 3", "", "536870913", "99999999999999999999"] {
        assert_eq!(error_of(format!("*1\r\n${length}\r\n").as_bytes()), "invalid bulk length", "${length}");
    }
    for line in ["\"abc\r\n", "'abc\r\n", "\"a\"b\r\n", "\"abc\\\r\n", "a\"b\"c\n"] {
        assert_eq!(error_of(line.as_bytes()), "unbalanced quotes in request", "{line:?}");
    }
}

#[test]
fn lines_are_limited_to_64_kib_with_and_without_their_end() {
    let long = vec![b'7'; LINE_BYTES_MAX + 1];
    assert_eq!(error_of(&long), "too big inline request");
    assert_eq!(error_of(&[&long[..], b"\n"].concat()), "too big inline request");
    assert_eq!(error_of(&[b"*", &long[..]].concat()), "too big mbulk count string");
    assert_eq!(error_of(&[b"*1\r\n$", &long[..]].concat()), "too big bulk count string");
    let fits = [&long[1..], b"\n"].concat();
    assert_eq!(parse([&fits[..]]), [request(&[&long[1..]])]);
}

#[test]
fn a_header_reserves_nothing() {
    let mut parser = Parser::default();
    let mut input = b"*1048576\r\n$536870912\r\n".to_vec();
    assert_eq!(parser.next(&mut input), Step::More);
    assert!(parser.words.capacity() < 16);
}

#[test]
fn words_may_not_add_up_beyond_the_limit() {
    let word = BULK_BYTES_MAX as usize;
    assert!(fits(64, word));
    assert!(fits(REQUEST_BYTES_MAX - word - 2, word));
    assert!(!fits(REQUEST_BYTES_MAX - word - 1, word));
}

#[test]
fn inline_quoting_follows_redis() {
    assert_eq!(parse([&b"  a\tb\x0bc  \"x y\" \r\n"[..]]), [request(&[b"a", b"b\x0bc", b"x y"])]);
    assert_eq!(parse([&b"\"\\xZZ\\t\\q\\\"\" 'a\\n'\n"[..]]), [request(&[b"xZZ\tq\"", b"a\\n"])]);
    assert_eq!(parse([&b"foo\"bar\"\n"[..]]), [request(&[b"foobar"])]);
    assert_eq!(parse([&b"PING\0 rest \"\n\0\nPING\n"[..]]), [request(&[b"PING"]), request(&[b"PING"])]);
}

#[test]
fn a_big_request_in_small_pieces_is_found_whole() {
    let mut stream = b"*200\r\n".to_vec();
    for index in 0..200 {
        stream.extend_from_slice(format!("$300\r\n{index:0300}\r\n").as_bytes());
    }
    for pieces in [1, 7, 4095, 4096, 16384] {
        let seen = parse(stream.chunks(pieces));
        let [Seen::Request(words)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(words.len(), 200);
        assert_eq!(words[199], format!("{:0300}", 199).as_bytes());
    }
}
