//! VoltDB's Voter: viewers call in and vote for a contestant, a few times at most.
//! Guarantees: V1 a vote counts for its phone, its contestant and its state in one step, or not at all; V2 the order of
//! checks and the codes are VoltDB's; V3 a rejected call changes nothing and is not logged.
//! Must not know: who calls.
//! Next: area_codes.rs.
//!
//! All records are in keyspace "voter". Keys begin with their kind; numbers in keys are big-endian, counts little-endian:
//! `n` number of contestants · `c` number (4 bytes): name · `p` phone (8): votes · `t` number (4): votes ·
//! `s` number (4), state (2): votes.

pub use super::area_codes::{AREA_CODES, STATE_UNKNOWN, state_of};
use super::reply::{Reply, decode_arguments, refused};
use logd_engine::{Context, Error, Procedure};

/// The vote was counted.
pub const ACCEPTED: i64 = 0;
/// There is no such contestant.
pub const INVALID_CONTESTANT: i64 = 1;
/// This phone has voted often enough.
pub const OVER_LIMIT: i64 = 2;
/// Procedures that change nothing.
pub const READERS: &[&str] = &["voter_results", "voter_states"];

/// Names of the first contestants.
pub const NAMES: [&str; 12] = [
    "Ada Sorensen",
    "Boris Lindqvist",
    "Carla Okafor",
    "Dmitri Alvarez",
    "Elif Novak",
    "Farid Jensen",
    "Greta Moreau",
    "Hana Castillo",
    "Ivo Petrov",
    "Jutta Mbeki",
    "Kemal Rossi",
    "Lena Takahashi",
];

const KEYSPACE: &str = "voter";
const LIMIT_DEFAULT: u64 = 2;
const PHONES_PER_AREA: u64 = 10_000_000;
const CONTESTANTS_MAX: u64 = 1000;
const KEY_COUNT: &[u8] = b"n";

/// The procedures of Voter.
///
/// `voter_init COUNT [NAME,NAME,…]`: the number of contestants there are; does nothing if there are some.
/// `vote PHONE CONTESTANT [LIMIT]`: 0, 1 or 2. `voter_results`: rows of name, number, votes; most votes first.
/// `voter_states`: rows of number, state, votes, where there are votes.
pub fn procedures() -> Vec<Procedure> {
    vec![
        Procedure::new("voter_init", 1, &[KEYSPACE], init),
        Procedure::new("vote", 1, &[KEYSPACE], vote).touching(touch_vote),
        Procedure::new("voter_results", 1, &[KEYSPACE], results),
        Procedure::new("voter_states", 1, &[KEYSPACE], states),
    ]
}

/// A call of `vote`.
struct Vote {
    phone: u64,
    contestant: u32,
    limit: u64,
}

fn key_of_name(number: u32) -> [u8; 5] {
    key(b'c', number)
}

fn key_of_votes(number: u32) -> [u8; 5] {
    key(b't', number)
}

fn key(kind: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind, a, b, c, d]
}

fn key_of_phone(phone: u64) -> [u8; 9] {
    let mut key = [b'p'; 9];
    key[1..].copy_from_slice(&phone.to_be_bytes());
    key
}

fn key_of_state(number: u32, state: &str) -> [u8; 7] {
    let mut key = [b's'; 7];
    key[1..5].copy_from_slice(&number.to_be_bytes());
    key[5..].copy_from_slice(state.as_bytes());
    key
}

impl Vote {
    fn parse(arguments: &[u8]) -> Result<Vote, Error> {
        let words = decode_arguments(arguments)?;
        let (phone, contestant, limit) = match words.as_slice() {
            [phone, contestant] => (phone, contestant, LIMIT_DEFAULT),
            [phone, contestant, limit] => (phone, contestant, number(limit, "limit")?),
            _ => return Err(refused("ERR vote takes PHONE CONTESTANT [LIMIT]")),
        };
        // A number beyond 32 bits is as little a contestant as 4294967295 is.
        let contestant = u32::try_from(number(contestant, "contestant")?).unwrap_or(u32::MAX);
        Ok(Vote { phone: number(phone, "phone number")?, contestant, limit })
    }

    fn state(&self) -> &'static str {
        state_of(self.phone / PHONES_PER_AREA)
    }
}

fn number(word: &[u8], name: &str) -> Result<u64, Error> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = if is_number { std::str::from_utf8(word).ok() } else { None };
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| refused(format!("ERR {name} is not an integer or out of range")))
}

/// Arguments that cannot be read touch nothing: the call refuses them before it looks at a record.
fn touch_vote(arguments: &[u8], touch: &mut dyn FnMut(&str, &[u8])) {
    if let Ok(vote) = Vote::parse(arguments) {
        touch(KEYSPACE, &key_of_name(vote.contestant));
        touch(KEYSPACE, &key_of_phone(vote.phone));
        touch(KEYSPACE, &key_of_votes(vote.contestant));
        touch(KEYSPACE, &key_of_state(vote.contestant, vote.state()));
    }
}

fn vote(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    let vote = Vote::parse(arguments)?;
    let keyspace = context.keyspace(0);
    if context.get(keyspace, &key_of_name(vote.contestant)).is_none() {
        return Ok(Reply::of_integer(INVALID_CONTESTANT));
    }
    if count(context, &key_of_phone(vote.phone)) >= vote.limit {
        return Ok(Reply::of_integer(OVER_LIMIT));
    }
    add_one(context, &key_of_phone(vote.phone))?;
    add_one(context, &key_of_votes(vote.contestant))?;
    add_one(context, &key_of_state(vote.contestant, vote.state()))?;
    Ok(Reply::of_integer(ACCEPTED))
}

fn count(context: &Context<'_, '_>, key: &[u8]) -> u64 {
    let record = context.get(context.keyspace(0), key);
    record.and_then(|record| record.value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn add_one(context: &mut Context<'_, '_>, key: &[u8]) -> Result<(), Error> {
    let votes = count(context, key) + 1;
    context.put(context.keyspace(0), key, &votes.to_le_bytes(), None)
}

fn init(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    let words = decode_arguments(arguments)?;
    let (wanted, names): (_, &[u8]) = match words.as_slice() {
        [wanted] => (*wanted, b""),
        [wanted, names] => (*wanted, names),
        _ => return Err(refused("ERR voter_init takes COUNT [NAME,NAME,...]")),
    };
    let wanted = number(wanted, "count")?;
    if !(1..=CONTESTANTS_MAX).contains(&wanted) {
        return Err(refused("ERR count must be from 1 to 1000"));
    }
    let there = count(context, KEY_COUNT);
    if there > 0 {
        return Ok(Reply::of_integer(there as i64));
    }
    let mut given = names.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    for number in 1..=wanted as u32 {
        let name = given.next().map_or_else(|| name_of(number).into_bytes(), <[u8]>::to_vec);
        context.put(context.keyspace(0), &key_of_name(number), &name, None)?;
    }
    context.put(context.keyspace(0), KEY_COUNT, &wanted.to_le_bytes(), None)?;
    Ok(Reply::of_integer(wanted as i64))
}

/// The name of a contestant that was given none.
pub fn name_of(number: u32) -> String {
    let known = number.checked_sub(1).and_then(|place| NAMES.get(place as usize));
    known.map_or_else(|| format!("Contestant {number}"), |name| (*name).to_owned())
}

fn contestants(context: &Context<'_, '_>) -> std::ops::RangeInclusive<u32> {
    1..=count(context, KEY_COUNT).min(CONTESTANTS_MAX) as u32
}

fn check_none(name: &str, arguments: &[u8]) -> Result<(), Error> {
    if arguments.is_empty() { Ok(()) } else { Err(refused(format!("ERR {name} takes no arguments"))) }
}

fn results(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    check_none("voter_results", arguments)?;
    let row = |number: u32| {
        let name = context.get(context.keyspace(0), &key_of_name(number));
        let name = name.map_or_else(Vec::new, |record| record.value.to_vec());
        (std::cmp::Reverse(count(context, &key_of_votes(number))), number, name)
    };
    let mut rows: Vec<_> = contestants(context).map(row).collect();
    rows.sort();
    let mut reply = Reply::new();
    reply.array(rows.len());
    for (std::cmp::Reverse(votes), number, name) in rows {
        reply.array(3);
        reply.bulk(&name);
        reply.integer(number.into());
        reply.integer(votes as i64);
    }
    Ok(reply.finish())
}

fn states(context: &mut Context<'_, '_>, arguments: &[u8]) -> Result<Vec<u8>, Error> {
    check_none("voter_states", arguments)?;
    let mut states: Vec<&str> = AREA_CODES.iter().map(|(_, state)| *state).collect();
    states.push(STATE_UNKNOWN);
    states.sort_unstable();
    states.dedup();
    let mut rows = Vec::new();
    for number in contestants(context) {
        for state in &states {
            let votes = count(context, &key_of_state(number, state));
            if votes > 0 {
                rows.push((number, *state, votes));
            }
        }
    }
    let mut reply = Reply::new();
    reply.array(rows.len());
    for (number, state, votes) in rows {
        reply.array(3);
        reply.integer(number.into());
        reply.bulk(state.as_bytes());
        reply.integer(votes as i64);
    }
    Ok(reply.finish())
}

#[cfg(test)]
mod tests {
    use super::super::reply::encode_arguments;
    use super::*;
    use logd_engine::{Db, Ticket};

    fn open() -> (tempfile::TempDir, Db) {
        let directory = tempfile::tempdir().unwrap();
        let builder = Db::builder(directory.path());
        let db = procedures().into_iter().fold(builder, |builder, one| builder.register(one)).open().unwrap();
        (directory, db)
    }

    fn call(db: &Db, name: &str, words: &[&str]) -> Result<(String, Ticket), Error> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let (reply, ticket) = db.call(name, &encode_arguments(&words), None)?;
        Ok((String::from_utf8(reply).unwrap().replace("\r\n", " "), ticket))
    }

    fn ask(db: &Db, name: &str, words: &[&str]) -> String {
        call(db, name, words).unwrap().0
    }

    #[test]
    fn init_makes_the_contestants_once_and_then_tells_how_many_there_are() {
        let (_directory, db) = open();
        assert_eq!(ask(&db, "voter_init", &["2", "Ann,Bob,Cy"]), ":2 ");
        assert_eq!(ask(&db, "voter_init", &["3", "Ann,Bob,Cy"]), ":2 ");
        assert_eq!(ask(&db, "voter_results", &[]), "*2 *3 $3 Ann :1 :0 *3 $3 Bob :2 :0 ");
        assert_eq!(ask(&db, "voter_states", &[]), "*0 ");
    }

    #[test]
    fn checks_come_in_the_order_of_voltdb_and_rejected_calls_are_not_logged() {
        let (_directory, db) = open();
        ask(&db, "voter_init", &["3", "Ann,Bob,Cy"]);
        assert_eq!(ask(&db, "vote", &["3050000001", "2"]), ":0 ");
        assert_eq!(ask(&db, "vote", &["3050000001", "3", "2"]), ":0 ");
        assert_eq!(call(&db, "vote", &["3050000001", "2"]).unwrap(), (":2 ".to_owned(), Ticket::NOTHING));
        // Both checks would fail: the contestant's comes first.
        assert_eq!(call(&db, "vote", &["3050000001", "999"]).unwrap(), (":1 ".to_owned(), Ticket::NOTHING));
        assert_eq!(ask(&db, "vote", &["3050000001", "2", "3"]), ":0 ");
    }

    #[test]
    fn votes_are_counted_by_contestant_and_state_and_ordered_by_votes_then_number() {
        let (_directory, db) = open();
        ask(&db, "voter_init", &["3", "Ann,Bob,Cy"]);
        for (phone, contestant) in [("3050000001", "3"), ("9070000001", "3"), ("1", "1"), ("2120000001", "2")] {
            assert_eq!(ask(&db, "vote", &[phone, contestant]), ":0 ");
        }
        assert_eq!(ask(&db, "voter_results", &[]), "*3 *3 $2 Cy :3 :2 *3 $3 Ann :1 :1 *3 $3 Bob :2 :1 ");
        let states = "*4 *3 :1 $2 XX :1 *3 :2 $2 NY :1 *3 :3 $2 AK :1 *3 :3 $2 FL :1 ";
        assert_eq!(ask(&db, "voter_states", &[]), states);
    }

    #[test]
    fn arguments_that_cannot_be_read_are_refused_and_change_nothing() {
        let (_directory, db) = open();
        for (name, words) in [
            ("vote", &["1"][..]),
            ("vote", &["x", "1"]),
            ("vote", &["1", "-1"]),
            ("vote", &["1", "1", ""]),
            ("vote", &["1", "1", "1", "1"]),
            ("voter_init", &["0", "a"]),
            ("voter_init", &["x"]),
            ("voter_init", &["1", "a", "b"]),
            ("voter_results", &["1"]),
        ] {
            let error = call(&db, name, words).unwrap_err();
            assert!(error.to_string().starts_with("ERR "), "{error}");
        }
        assert!(db.call("vote", &[9, 0, 0, 0], None).is_err());
    }
}
