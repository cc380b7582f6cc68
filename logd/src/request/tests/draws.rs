//! Random requests: words drawn from small sets of awkward ones, so that keys meet and most requests are almost right.
//! Guarantees: a seed stands for one sequence.
//! Must not know: who is asked.
//! Next: differential.rs.

use super::super::dump_payload::encode;

const KEYS: &[&str] = &["a", "b", "c", "d", ""];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-2",
    "5",
    "10",
    "-5",
    "100",
    "1000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775807",
    "18446744073709551615",
    "9223372036854775",
    "-9223372036854775",
    "9223372036854776",
    "4611686018427387904",
    "536870912",
    "4294967296",
    "2147483648",
    "-2147483649",
    "01",
    "+1",
    "-0",
    " 1",
    "1 ",
    "",
    "1.0",
    "abc",
    "16",
    "15",
    "33177117420",
    "33177117420123",
    "1.5",
    "-0.25",
    "10.5",
    ".5",
    "1e2",
];
/// None that ends within the run: the two servers' clocks differ.
const SPANS: &[&str] = &[
    "33177117420",
    "3317711742",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "9223372036854775",
    "-9223372036854775",
    "9223372036854776",
    "-9223372036854776",
    "01",
    "+1",
    "",
    "abc",
    "1.5",
];
const VALUES: &[&str] =
    &["", "x", "hello", "hello world", "7", "-3", "1.5", "9223372036854775807", "ohmytext", "mynewtext"];
const SET_OPTIONS: &[&str] =
    &["NX", "xx", "GET", "KEEPTTL", "EX", "px", "EXAT", "PXAT", "PERSIST", "-1", "33177117420", "0"];
const EXPIRE_OPTIONS: &[&str] = &["NX", "XX", "gt", "LT", "WHAT"];
/// The same span again is later or not by the millisecond: absolute moments have GT and LT to themselves.
const RELATIVE_OPTIONS: &[&str] = &["NX", "xx", "WHAT"];
const COPY_OPTIONS: &[&str] = &["REPLACE", "DB", "1", "0", "16", "x"];
const LCS_OPTIONS: &[&str] = &["LEN", "IDX", "MINMATCHLEN", "WITHMATCHLEN", "2", "-1", "x"];
const BIT_OPTIONS: &[&str] = &["BIT", "BYTE", "x"];
const BIT_STEPS: &[&str] = &[
    "GET",
    "SET",
    "INCRBY",
    "OVERFLOW",
    "WRAP",
    "SAT",
    "FAIL",
    "u8",
    "i8",
    "u63",
    "i64",
    "u64",
    "u1",
    "i0",
    "0",
    "#1",
    "#3",
    "5",
    "100",
    "-1",
    "255",
    "9223372036854775807",
    "x",
];
const RESTORE_OPTIONS: &[&str] = &["REPLACE", "ABSTTL", "IDLETIME", "FREQ", "1", "-1", "256", "x"];
const PLACES: &[&str] = &["0", "7", "8", "9", "100", "-1", "#1", "x"];
/// These stand for dumped values; the last one is damaged.
pub const PAYLOADS: &[&str] = &["PAYLOAD hello", "PAYLOAD 7", "PAYLOAD", "PAYLOAD-"];
const ANY: &[&str] = &["a", "b", "0", "1", "-1", "x", "", "GET", "100"];

/// A command and the sets its words are drawn from; the last set may be drawn from several times.
const COMMANDS: &[(&str, &[&[&str]])] = &[
    ("GET", &[KEYS]),
    ("SET", &[KEYS, VALUES]),
    ("SET", &[KEYS, VALUES, SET_OPTIONS]),
    ("SET", &[KEYS, NUMBERS, SET_OPTIONS]),
    ("SETNX", &[KEYS, VALUES]),
    ("SETEX", &[KEYS, SPANS, VALUES]),
    ("PSETEX", &[KEYS, SPANS, VALUES]),
    ("GETSET", &[KEYS, VALUES]),
    ("GETDEL", &[KEYS]),
    ("GETEX", &[KEYS, SET_OPTIONS]),
    ("GETEX", &[KEYS, SET_OPTIONS, SPANS]),
    ("MGET", &[KEYS]),
    ("MSET", &[KEYS]),
    ("MSETNX", &[KEYS]),
    ("APPEND", &[KEYS, VALUES]),
    ("STRLEN", &[KEYS]),
    ("GETRANGE", &[KEYS, NUMBERS, NUMBERS]),
    ("SETRANGE", &[KEYS, NUMBERS, VALUES]),
    ("INCR", &[KEYS]),
    ("DECR", &[KEYS]),
    ("INCRBY", &[KEYS, NUMBERS]),
    ("DECRBY", &[KEYS, NUMBERS]),
    ("INCRBYFLOAT", &[KEYS, NUMBERS]),
    ("LCS", &[KEYS, KEYS, LCS_OPTIONS]),
    ("DEL", &[KEYS]),
    ("EXISTS", &[KEYS]),
    ("TYPE", &[KEYS]),
    ("RENAME", &[KEYS, KEYS]),
    ("RENAMENX", &[KEYS, KEYS]),
    ("COPY", &[KEYS, KEYS, COPY_OPTIONS]),
    ("MOVE", &[KEYS, NUMBERS]),
    ("EXPIRE", &[KEYS, SPANS]),
    ("PEXPIRE", &[KEYS, SPANS]),
    ("EXPIRE", &[KEYS, SPANS, RELATIVE_OPTIONS]),
    ("PEXPIRE", &[KEYS, SPANS, RELATIVE_OPTIONS]),
    ("EXPIREAT", &[KEYS, SPANS, EXPIRE_OPTIONS]),
    ("PEXPIREAT", &[KEYS, SPANS, EXPIRE_OPTIONS]),
    ("TTL", &[KEYS]),
    ("PTTL", &[KEYS]),
    ("EXPIRETIME", &[KEYS]),
    ("PEXPIRETIME", &[KEYS]),
    ("PERSIST", &[KEYS]),
    ("GETBIT", &[KEYS, NUMBERS]),
    ("SETBIT", &[KEYS, &["0", "7", "8", "100", "-1", "x", "4294967296"], NUMBERS]),
    ("BITCOUNT", &[KEYS, NUMBERS, NUMBERS, BIT_OPTIONS]),
    ("BITCOUNT", &[KEYS, NUMBERS, NUMBERS]),
    ("BITPOS", &[KEYS, &["0", "1", "2", "x"], NUMBERS, NUMBERS, BIT_OPTIONS]),
    ("BITPOS", &[KEYS, &["0", "1"], &["0", "1", "-1", "-2", "5"]]),
    ("BITPOS", &[KEYS, &["0", "1"], &["0", "1", "-1", "9", "-2"], &["0", "1", "-1", "9", "-2"], BIT_OPTIONS]),
    ("BITPOS", &[KEYS, &["0", "1"]]),
    ("BITOP", &[&["AND", "or", "XOR", "NOT", "DIFF"], KEYS, KEYS]),
    ("BITFIELD", &[KEYS, BIT_STEPS, BIT_STEPS, BIT_STEPS]),
    ("BITFIELD", &[KEYS, &["GET"], &["u8", "i5", "i64"], PLACES]),
    ("BITFIELD", &[KEYS, &["SET"], &["u8", "i5", "i64", "u63"], PLACES, NUMBERS]),
    (
        "BITFIELD",
        &[KEYS, &["OVERFLOW"], &["SAT", "FAIL", "WRAP"], &["INCRBY"], &["u8", "i5", "i64", "u63"], PLACES, NUMBERS],
    ),
    ("BITFIELD_RO", &[KEYS, &["GET"], &["u8", "i5"], PLACES]),
    ("BITFIELD_RO", &[KEYS, BIT_STEPS, BIT_STEPS, BIT_STEPS]),
    ("DUMP", &[KEYS]),
    ("RESTORE", &[KEYS, &["33177117420", "0", "-1", "abc", ""], PAYLOADS]),
    ("RESTORE", &[KEYS, &["0", "33177117420123"], PAYLOADS, RESTORE_OPTIONS]),
    ("UNLINK", &[KEYS]),
    ("TOUCH", &[KEYS]),
    ("SUBSTR", &[KEYS, NUMBERS, NUMBERS]),
    ("MSET", &[KEYS, VALUES, KEYS, VALUES]),
    ("MSETNX", &[KEYS, VALUES]),
    ("DBSIZE", &[ANY]),
    ("FLUSHDB", &[&["SYNC", "async", "x"]]),
    ("FLUSHALL", &[&["SYNC", "async", "x"]]),
    ("SWAPDB", &[&["0", "1", "x", "16"], &["0", "1", "x", "-1"]]),
    ("OBJECT", &[&["REFCOUNT", "IDLETIME", "FREQ", "x"], &["none"]]),
    ("SCAN", &[&["0", "x"], &["COUNT"], &["1000", "0", "x"], &["MATCH", "TYPE"], &["*", "string", "a", "list"]]),
    ("MULTI", &[]),
    ("MULTI", &[]),
    ("MULTI", &[]),
    ("EXEC", &[]),
    ("EXEC", &[]),
    ("EXEC", &[]),
    ("DISCARD", &[]),
    ("WATCH", &[KEYS]),
    ("UNWATCH", &[]),
    ("PING", &[ANY]),
    ("ECHO", &[ANY]),
    ("NOSUCH", &[ANY, ANY]),
    ("CLIENT", &[&["GETNAME", "nosuch", "SETNAME", "getname"], ANY]),
    ("CLIENT", &[&["REPLY"], &["maybe"]]),
    ("CLIENT", &[&["NO-EVICT"], &["on", "off", "x"]]),
    ("CLIENT", &[&["KILL"], &["ID", "TYPE", "x", "ADDR"], &["x", "-1", "1000000", "pubsub", "1.2.3.4:5"]]),
    ("CONFIG", &[&["GET", "SET", "nosuch"], &["nosuch", "lfu-log-factor", "hz"], &["nosuch", "100", "x"]]),
    ("COMMAND", &[&["GETKEYS"], &["GET", "MSET", "PING", "SET", "nosuch", "BITOP"], ANY, ANY]),
    ("HELLO", &[&["4", "x", "1", "0"]]),
    ("HELLO", &[&["3"], &["SETNAME", "x", "AUTH"], ANY]),
    ("AUTH", &[&["default", "other"], ANY]),
    ("SELECT", &[&["0", "1"]]),
    ("SELECT", &[&["x", "-1", "16", "1.0"]]),
    ("TYPE", &[KEYS]),
    ("WAIT", &[&["0", "x", "-1"], &["0", "x", "-1"]]),
    ("KEYS", &[&["*", "a*", "[a-", "[^b", "?", "a", "\\a"]]),
];

/// Random numbers from a seed.
pub struct Draws(pub u64);

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % count
    }

    /// The next request.
    pub fn request(&mut self) -> Vec<Vec<u8>> {
        let (name, sets) = COMMANDS[self.below(COMMANDS.len())];
        let mut words = vec![name];
        for set in sets {
            words.push(set[self.below(set.len())]);
        }
        let last = sets.last().copied().unwrap_or(ANY);
        let is_fixed = matches!(name, "SELECT" | "HELLO" | "FLUSHALL" | "MULTI" | "EXEC" | "DISCARD" | "WAIT");
        let more = if is_fixed { 0 } else { self.below(4).saturating_sub(1) };
        words.extend((0..more).map(|_| last[self.below(last.len())]));
        if self.below(40) == 0 && words.len() > 2 && !matches!(name, "HELLO" | "COMMAND") {
            let left = 1 + self.below(words.len() - 1);
            words.truncate(left);
        }
        if name == "CLIENT" && words.len() > 2 && words[1].eq_ignore_ascii_case("setname") {
            words.truncate(3);
        }
        words.into_iter().map(bytes_of).collect()
    }
}

/// A word as it is sent.
fn bytes_of(word: &str) -> Vec<u8> {
    match word.strip_prefix("PAYLOAD") {
        Some("-") => {
            let mut payload = encode(b"damaged");
            payload[3] ^= 1;
            payload
        }
        Some(value) => encode(value.trim_start().as_bytes()),
        None => word.as_bytes().to_vec(),
    }
}
