//! SLOWLOG and LATENCY: which requests took long.
//! Guarantees: bounded; what took less than the threshold costs one comparison.
//! Must not know: what is slow about it.
//! Next: procedure.rs.

use super::table::{Call, ServerSpec, SubSpec, container};
use super::{Failure, Words};
use crate::clients::ClientHandle;
use crate::executor::Outcome;
use crate::number::parse_i64;
use crate::resp::Out;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Words and bytes of a word kept of a slow request, as in Redis.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;
const SAMPLES_MAX: usize = 160;
const SLOW_COUNT_DEFAULT: i64 = 10;

const FLAGS: &[&str] = &["admin", "loading", "stale"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("slowlog", -2, FLAGS, "server", container, "Tells of slow requests.").with(SLOWLOG),
    ServerSpec::new("latency", -2, FLAGS, "server", container, "Tells of latencies.").with(LATENCY),
];

const SLOWLOG: &[SubSpec] = &[
    SubSpec::new("get", -2, slowlog_get),
    SubSpec::new("len", 2, slowlog_len),
    SubSpec::new("reset", 2, slowlog_reset),
    SubSpec::new("help", 2, slowlog_help),
];

const LATENCY: &[SubSpec] = &[
    SubSpec::new("latest", 2, latest),
    SubSpec::new("history", 3, history),
    SubSpec::new("reset", -2, latency_reset),
    SubSpec::new("histogram", -2, histogram),
    SubSpec::new("doctor", 2, doctor),
    SubSpec::new("help", 2, latency_help),
];

struct Slow {
    id: i64,
    wall_seconds: u64,
    micros: i64,
    words: Vec<Vec<u8>>,
    peer: String,
    name: Vec<u8>,
}

/// The slow requests, newest first.
pub struct SlowLog {
    /// In microseconds; negative: none is slow.
    pub threshold_micros: AtomicI64,
    /// Most that are kept.
    pub count_max: AtomicI64,
    kept: Mutex<(i64, VecDeque<Slow>)>,
}

impl Default for SlowLog {
    fn default() -> SlowLog {
        SlowLog { threshold_micros: AtomicI64::new(10_000), count_max: AtomicI64::new(128), kept: Mutex::default() }
    }
}

impl SlowLog {
    /// Whether a time is worth keeping.
    pub fn is_slow(&self, took: Duration) -> bool {
        let threshold = self.threshold_micros.load(Ordering::Relaxed);
        threshold >= 0 && took.as_micros() as i64 >= threshold
    }

    /// Keeps a request if it was slow.
    pub fn note(&self, words: &Words<'_>, took: Duration, wall_seconds: u64, client: &ClientHandle) {
        if !self.is_slow(took) {
            return;
        }
        let mut kept = self.kept.lock();
        let id = kept.0;
        kept.0 += 1;
        kept.1.push_front(Slow {
            id,
            wall_seconds,
            micros: took.as_micros() as i64,
            words: short_words(words),
            peer: client.peer.clone(),
            name: client.names.lock().name.clone(),
        });
        let count_max = usize::try_from(self.count_max.load(Ordering::Relaxed)).unwrap_or(0);
        kept.1.truncate(count_max);
    }
}

fn short_words(words: &Words<'_>) -> Vec<Vec<u8>> {
    let count = if words.len() > WORDS_MAX { WORDS_MAX - 1 } else { words.len() };
    let short = |word: &&[u8]| match word.len().checked_sub(WORD_BYTES_MAX) {
        None | Some(0) => word.to_vec(),
        Some(more) => [&word[..WORD_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    };
    let mut kept: Vec<_> = words[..count].iter().map(short).collect();
    if words.len() > WORDS_MAX {
        kept.push(format!("... ({} more arguments)", words.len() - count).into_bytes());
    }
    kept
}

fn slowlog_get(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let count = match words.get(2) {
        None => SLOW_COUNT_DEFAULT,
        Some(word) => {
            let count = parse_i64(word).filter(|count| *count >= -1);
            count.ok_or_else(|| Failure::reply("ERR count should be greater than or equal to -1"))?
        }
    };
    let kept = call.shared.slow_log.kept.lock();
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(kept.1.len());
    out.array(count);
    for slow in kept.1.iter().take(count) {
        out.array(6);
        out.integer(slow.id);
        out.integer(slow.wall_seconds as i64);
        out.integer(slow.micros);
        out.array(slow.words.len());
        slow.words.iter().for_each(|word| out.bulk(word));
        out.bulk(slow.peer.as_bytes());
        out.bulk(&slow.name);
    }
    Ok(Outcome::WRITTEN)
}

fn slowlog_len(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    out.integer(call.shared.slow_log.kept.lock().1.len() as i64);
    Ok(Outcome::WRITTEN)
}

fn slowlog_reset(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.shared.slow_log.kept.lock().1.clear();
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn slowlog_help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("SLOWLOG", SLOWLOG, out);
    Ok(Outcome::WRITTEN)
}

#[derive(Default)]
struct Event {
    samples: VecDeque<(u64, u64)>,
    millis_max: u64,
}

/// Latency events: requests that took longer than a threshold, a sample a second.
#[derive(Default)]
pub struct LatencyEvents {
    /// In milliseconds; 0: none is noted.
    pub threshold_millis: AtomicI64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl LatencyEvents {
    /// Whether a time is worth noting.
    pub fn is_slow(&self, took: Duration) -> bool {
        let threshold = self.threshold_millis.load(Ordering::Relaxed);
        threshold > 0 && took.as_millis() as i64 >= threshold
    }

    /// Notes an event if it was slow.
    pub fn note(&self, name: &'static str, took: Duration, wall_seconds: u64) {
        if !self.is_slow(took) {
            return;
        }
        let millis = took.as_millis() as u64;
        let mut events = self.events.lock();
        let event = events.entry(name).or_default();
        event.millis_max = event.millis_max.max(millis);
        match event.samples.back_mut() {
            Some(last) if last.0 == wall_seconds => last.1 = last.1.max(millis),
            _ => event.samples.push_back((wall_seconds, millis)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }
}

fn latest(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let events = call.shared.latency_events.events.lock();
    out.array(events.len());
    for (name, event) in events.iter() {
        let (seconds, millis) = event.samples.back().copied().unwrap_or_default();
        out.array(4);
        out.bulk(name.as_bytes());
        [seconds, millis, event.millis_max].iter().for_each(|number| out.integer(*number as i64));
    }
    Ok(Outcome::WRITTEN)
}

fn history(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let events = call.shared.latency_events.events.lock();
    let event = std::str::from_utf8(words[2]).ok().and_then(|name| events.get(name));
    let Some(event) = event else {
        out.array(0);
        return Ok(Outcome::WRITTEN);
    };
    out.array(event.samples.len());
    for (seconds, millis) in &event.samples {
        out.array(2);
        out.integer(*seconds as i64);
        out.integer(*millis as i64);
    }
    Ok(Outcome::WRITTEN)
}

fn latency_reset(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let mut events = call.shared.latency_events.events.lock();
    let before = events.len();
    match &words[2..] {
        [] => events.clear(),
        names => events.retain(|name, _| !names.contains(&name.as_bytes())),
    }
    out.integer((before - events.len()) as i64);
    Ok(Outcome::WRITTEN)
}

fn histogram(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let table = &call.shared.table;
    let wanted = |name: &str| {
        let command = name.split('|').next().unwrap_or(name);
        words.len() == 2
            || words[2..]
                .iter()
                .any(|word| word.eq_ignore_ascii_case(name.as_bytes()) || word.eq_ignore_ascii_case(command.as_bytes()))
    };
    let rows: Vec<_> = (0..table.numbers())
        .filter(|number| wanted(table.number_name(*number)))
        .map(|number| (number, call.shared.command_counters[number].cumulative()))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    out.map(rows.len());
    for (number, rows) in rows {
        out.bulk(table.number_name(number).as_bytes());
        out.map(2);
        out.bulk(b"calls");
        out.integer(call.shared.command_counters[number].now().calls as i64);
        out.bulk(b"histogram_usec");
        out.map(rows.len());
        for (micros, count) in rows {
            out.integer(micros as i64);
            out.integer(count as i64);
        }
    }
    Ok(Outcome::WRITTEN)
}

fn doctor(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let stats = call.shared.db.stats();
    let threshold = call.shared.latency_events.threshold_millis.load(Ordering::Relaxed);
    out.verbatim(&format!(
        "Threshold {threshold} ms (0: nothing is noted; CONFIG SET latency-monitor-threshold). Syncs of the log took {} us \
         (median), {} us (99 %), {} us (longest).",
        stats.log.tally.sync_ns_p50 / 1000,
        stats.log.tally.sync_ns_p99 / 1000,
        stats.log.tally.sync_ns_max / 1000,
    ));
    Ok(Outcome::WRITTEN)
}

fn latency_help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("LATENCY", LATENCY, out);
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::short_words;
    use crate::testing::Daemon;

    #[test]
    fn slow_requests_are_kept_newest_first_and_bounded() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "SLOWLOG LEN => :0
             CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2 => +OK
             CLIENT SETNAME me => +OK
             DEL a => :0
             APPEND a 1 => :1
             CONFIG SET slowlog-log-slower-than -1 => +OK
             SLOWLOG LEN => :2",
        );
        let told = client.ask(&daemon, "SLOWLOG GET");
        assert!(told.starts_with("*2 *6 :"), "{told}");
        assert!(told.contains("*3 $6 APPEND $1 a $1 1 $15 127.0.0.1:50000 $2 me"), "{told}");
        assert!(client.ask(&daemon, "SLOWLOG GET 1").starts_with("*1 "));
        client.play(
            &daemon,
            "SLOWLOG GET -2 => -ERR count should be greater than or equal to -1
             SLOWLOG RESET => +OK
             SLOWLOG GET -1 => *0",
        );
    }

    #[test]
    fn words_are_cut_as_redis_cuts_them() {
        let long = [b'x'; 130];
        let words: Vec<&[u8]> = std::iter::repeat_n(&long[..], 40).collect();
        let short = short_words(&words);
        assert_eq!(short.len(), 32);
        assert!(short[0].ends_with(b"x... (2 more bytes)"));
        assert_eq!(short[31], b"... (9 more arguments)");
    }

    #[test]
    fn latencies_are_told_by_event_and_as_histogram() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(&daemon, "LATENCY LATEST => *0\nLATENCY HISTORY command => *0\nLATENCY RESET => :0\nDEL a => :0");
        daemon.shared.latency_events.threshold_millis.store(10, std::sync::atomic::Ordering::Relaxed);
        let note =
            |millis, at| daemon.shared.latency_events.note("command", std::time::Duration::from_millis(millis), at);
        [(30, 100), (20, 100), (12, 101), (5, 102)].iter().for_each(|(millis, at)| note(*millis, *at));
        client.play(
            &daemon,
            "LATENCY LATEST => *1 *4 $7 command :101 :12 :30
             LATENCY HISTORY command => *2 *2 :100 :30 *2 :101 :12
             LATENCY RESET other => :0
             LATENCY RESET command => :1",
        );
        let told = client.ask(&daemon, "LATENCY HISTOGRAM del nosuch");
        assert!(told.starts_with("*2 $3 del *4 $5 calls :1 $14 histogram_usec *2 :"), "{told}");
    }
}
