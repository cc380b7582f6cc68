//! Random requests to our daemon and to a live server of the same protocol: the replies must be the same.
//! Goal: combinations of options, edges of numbers and order of errors that nobody thought of writing down.
//! Method: both are asked the same, in protocol 2 and in protocol 3; after a difference both are emptied.
//! Next: draws.rs has the requests, session.rs those that were written down.

use super::draws::Draws;
use super::live::{Live, Server, Whole};

/// In each protocol; DIFFERENTIAL_REQUESTS asks for more, SEED for others.
const REQUESTS: usize = 15_000;
/// Of one command; more are not told.
const FAULTS_MAX: usize = 3;

/// What 7.2 answers otherwise than the 7.0 that is mostly installed, or we by intention.
fn is_allowed(request: &[Vec<u8>], ours: &[String], theirs: &[String]) -> bool {
    let name = request[0].to_ascii_uppercase();
    let is_told = |reply: &[String]| reply[0].starts_with('"');
    match name.as_slice() {
        // Theirs may be compressed and of another version.
        b"DUMP" => is_told(ours) == is_told(theirs),
        _ => false,
    }
}

/// Whether two lines say the same: moments that are told from now may differ by what passed between the two servers.
fn is_same_line(ours: &str, theirs: &str) -> bool {
    let number = |line: &str| line.strip_prefix(':').and_then(|number| number.parse::<i64>().ok());
    match (number(ours), number(theirs)) {
        (Some(ours), Some(theirs)) => ours == theirs || (ours > 1_000_000 && ours.abs_diff(theirs) < 5000),
        _ => ours == theirs,
    }
}

/// Whether two lines are decimals that differ after the 17th digit only: number.rs tells why.
fn is_close_line(ours: &str, theirs: &str) -> bool {
    let number = |line: &str| line.trim_matches('"').parse::<f64>().ok().filter(|_| line.starts_with('"'));
    match (number(ours), number(theirs)) {
        (Some(our), Some(their)) => (our - their).abs() <= our.abs() * 1e-15,
        _ => false,
    }
}

#[derive(PartialEq)]
enum Verdict {
    Same,
    Close,
    Other,
}

fn compare(request: &[Vec<u8>], ours: &[String], theirs: &[String]) -> Verdict {
    // Theirs queues it inside MULTI, ours refuses it.
    if request[0] == b"HELLO" && ours != theirs {
        return Verdict::Close;
    }
    let all = |ours: &[String], theirs: &[String], fits: &dyn Fn(&str, &str) -> bool| {
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| fits(ours, theirs))
    };
    if all(ours, theirs, &is_same_line) || is_allowed(request, ours, theirs) {
        return Verdict::Same;
    }
    // KEYS and SCAN tell keys in any order, inside EXEC too.
    let (mut our_lines, mut their_lines) = (ours.to_vec(), theirs.to_vec());
    our_lines.sort();
    their_lines.sort();
    let is_unordered = matches!(request[0].as_slice(), b"KEYS" | b"SCAN" | b"EXEC");
    if is_unordered && all(&our_lines, &their_lines, &is_same_line) {
        return Verdict::Same;
    }
    let is_close = |ours: &str, theirs: &str| is_same_line(ours, theirs) || is_close_line(ours, theirs);
    if all(ours, theirs, &is_close) { Verdict::Close } else { Verdict::Other }
}

fn empty(servers: [&mut dyn Server; 2]) {
    for server in servers {
        for request in ["DISCARD", "UNWATCH", "SELECT 0", "FLUSHALL"] {
            server.ask(&request.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |number| number.parse().unwrap())
}

/// `DIFFERENTIAL_REQUESTS=1000000 SEED=7 cargo test --release -p logd random_requests` for long; RESP_ADDRESS names another
/// server, whose data are then removed.
#[test]
fn random_requests_are_answered_as_by_a_live_server() {
    let Some(mut theirs) = Live::named().or_else(Live::started) else {
        eprintln!("skipped: no redis-server is installed");
        return;
    };
    let mut draws = Draws(setting("SEED", 1) as u64);
    let mut ours = Whole::new();
    let mut faults: Vec<String> = Vec::new();
    for protocol in ["2", "3"] {
        let hello = [b"HELLO".to_vec(), protocol.as_bytes().to_vec()];
        ours.ask(&hello);
        theirs.ask(&hello);
        for number in 0..setting("DIFFERENTIAL_REQUESTS", REQUESTS) {
            let request = draws.request();
            let (our, their) = (ours.ask(&request), theirs.ask(&request));
            if request[0] == b"HELLO" {
                ours.ask(&hello);
                theirs.ask(&hello);
            }
            let verdict = compare(&request, &our, &their);
            if verdict == Verdict::Other {
                let words: Vec<_> = request.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect();
                let (our, their) = (&our[..our.len().min(20)], &their[..their.len().min(20)]);
                let of_command = format!(": {} ", words[0]);
                if faults.iter().filter(|fault| fault.contains(&of_command)).count() < FAULTS_MAX {
                    faults
                        .push(format!("{protocol}/{number}: {} \n  ours {our:?}\n  theirs {their:?}", words.join(" ")));
                }
            }
            // The states may differ from here on.
            if verdict != Verdict::Same {
                empty([&mut ours, &mut theirs]);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
