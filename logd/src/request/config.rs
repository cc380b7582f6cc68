//! CONFIG: the settings that clients read, and the few that can be changed while running.
//! Guarantees: a SET of several settings changes all or none; what has no effect here is accepted only if test suites and
//! tools set it, and is told back as it was set.
//! Must not know: flags and files; those are in `Settings` already.
//! Next: durability.rs.

use super::table::{Call, ServerSpec, SubSpec, container};
use super::{Failure, Words};
use crate::executor::Outcome;
use crate::glob;
use crate::number::parse_i64;
use crate::resp::Out;
use crate::settings::Settings;
use logd_engine::DurabilityLevel;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

const FLAGS: &[&str] = &["admin", "noscript", "loading", "stale"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] =
    &[ServerSpec::new("config", -2, FLAGS, "server", container, "Tells and changes settings.").with(SUBS)];

const SUBS: &[SubSpec] = &[
    SubSpec::new("get", -3, get),
    SubSpec::new("set", -4, set),
    SubSpec::new("resetstat", 2, resetstat),
    SubSpec::new("rewrite", 2, rewrite),
    SubSpec::new("help", 2, help),
];

/// Cannot be changed while running.
const FIXED: &[(&str, &str)] = &[
    ("appendonly", "yes"),
    ("databases", "16"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
    ("timeout", "0"),
    ("tcp-keepalive", "300"),
    ("notify-keyspace-events", ""),
    ("proto-max-bulk-len", "536870912"),
    ("io-threads", "1"),
    ("cluster-enabled", "no"),
    ("daemonize", "no"),
    ("supervised", "no"),
    ("dbfilename", ""),
    ("appendfilename", ""),
    ("appenddirname", "log"),
    ("requirepass", ""),
    ("masterauth", ""),
    ("protected-mode", "no"),
    ("logfile", ""),
    ("pidfile", ""),
    ("aof-use-rdb-preamble", "yes"),
    ("rdbchecksum", "yes"),
];

/// Numbers that are kept and told back: sizes at which Redis changes an encoding, and the like.
const NUMBERS: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "128"),
    ("hash-max-ziplist-value", "64"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("list-compress-depth", "0"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
    ("stream-node-max-bytes", "4096"),
    ("stream-node-max-entries", "100"),
    ("hll-sparse-max-bytes", "3000"),
    ("lfu-log-factor", "10"),
    ("lfu-decay-time", "1"),
    ("maxmemory-samples", "5"),
    ("hz", "10"),
    ("maxmemory", "0"),
    ("repl-ping-replica-period", "10"),
    ("repl-timeout", "60"),
    ("repl-backlog-size", "1048576"),
    ("repl-diskless-sync-delay", "5"),
    ("auto-aof-rewrite-percentage", "100"),
    ("auto-aof-rewrite-min-size", "67108864"),
    ("min-replicas-to-write", "0"),
    ("maxmemory-clients", "0"),
    ("busy-reply-threshold", "5000"),
    ("lua-time-limit", "5000"),
    ("active-expire-effort", "1"),
    ("slowlog-log-slower-than", "10000"),
    ("slowlog-max-len", "128"),
    ("latency-monitor-threshold", "0"),
];

/// Those among them that may have a unit.
const SIZES: &[&str] =
    &["maxmemory", "maxmemory-clients", "repl-backlog-size", "auto-aof-rewrite-min-size", "stream-node-max-bytes"];

/// Words that are kept and told back, with what they may be; nothing: anything.
const WORDS: &[(&str, &str, &[&str])] = &[
    ("appendfsync", "always", &["everysec", "always", "no"]),
    ("no-appendfsync-on-rewrite", "no", &["yes", "no"]),
    ("latency-tracking", "yes", &["yes", "no"]),
    ("latency-tracking-info-percentiles", "50 99 99.9", &[]),
    ("lazyfree-lazy-expire", "no", &["yes", "no"]),
    ("lazyfree-lazy-user-del", "no", &["yes", "no"]),
    ("lazyfree-lazy-user-flush", "no", &["yes", "no"]),
    ("activedefrag", "no", &["yes", "no"]),
    ("stop-writes-on-bgsave-error", "yes", &["yes", "no"]),
    ("rdbcompression", "yes", &["yes", "no"]),
    ("replica-lazy-flush", "no", &["yes", "no"]),
    ("lazyfree-lazy-eviction", "no", &["yes", "no"]),
    ("lazyfree-lazy-server-del", "no", &["yes", "no"]),
    ("activerehashing", "yes", &["yes", "no"]),
    ("dynamic-hz", "yes", &["yes", "no"]),
    ("repl-diskless-sync", "yes", &["yes", "no"]),
    ("close-on-oom", "yes", &["yes", "no"]),
    ("loglevel", "notice", &["debug", "verbose", "notice", "warning", "nothing"]),
    ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", &[]),
];

/// The settings as clients see them.
#[derive(Debug)]
pub struct Config {
    fixed: BTreeMap<&'static str, String>,
    kept: RwLock<BTreeMap<&'static str, String>>,
}

impl Config {
    /// The settings that a daemon starts with.
    pub fn new(settings: &Settings) -> Config {
        let mut fixed: BTreeMap<_, _> = FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let hosts: Vec<String> = settings.listen.iter().map(|address| address.ip().to_string()).collect();
        fixed.insert("dir", settings.dir.display().to_string());
        fixed.insert("port", settings.listen.first().map_or(0, |address| address.port()).to_string());
        fixed.insert("bind", hosts.join(" "));
        fixed.insert("unixsocket", settings.unix.as_ref().map_or(String::new(), |path| path.display().to_string()));
        fixed.insert("maxclients", settings.clients_max.to_string());
        fixed.insert("client-query-buffer-limit", settings.input_bytes_max.to_string());
        let numbers = NUMBERS.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let words = WORDS.iter().map(|(name, value, _)| (*name, (*value).to_owned()));
        Config { fixed, kept: RwLock::new(numbers.chain(words).collect()) }
    }

    /// A setting that can be changed.
    pub fn kept(&self, name: &str) -> String {
        self.kept.read().get(name).cloned().unwrap_or_default()
    }
}

/// The word for a level in Redis' terms.
pub fn fsync_word(level: DurabilityLevel) -> &'static str {
    if level == DurabilityLevel::Synced { "always" } else { "everysec" }
}

fn get(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let patterns: Vec<Vec<u8>> = words[2..].iter().map(|word| word.to_ascii_lowercase()).collect();
    let is_wanted = |name: &&str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let config = &call.shared.config;
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in config.fixed.iter().filter(|(name, _)| is_wanted(name)) {
        found.insert(name, value.clone());
    }
    for (name, value) in config.kept.read().iter().filter(|(name, _)| is_wanted(name)) {
        found.insert(name, value.clone());
    }
    if let Some(value) = found.get_mut("appendfsync")
        && call.shared.level().is_none()
    {
        *value = fsync_word(call.shared.db.options().durability).to_owned();
    }
    out.map(found.len());
    for (name, value) in found {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    Ok(Outcome::WRITTEN)
}

fn set(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let pairs = &words[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(super::errors::syntax());
    }
    // Names come before values, as in Redis.
    pairs.chunks_exact(2).try_for_each(|pair| check_name(call, pair[0]))?;
    let mut changes: Vec<(&'static str, String)> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (name, value) = check(call, pair[0], pair[1])?;
        if changes.iter().any(|(changed, _)| *changed == name) {
            return Err(failed(name, "duplicate parameter"));
        }
        changes.push((name, value));
    }
    for (name, value) in changes {
        apply(call, name, &value);
        call.shared.config.kept.write().insert(name, value);
    }
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn failed(name: &str, why: &str) -> Failure {
    Failure::Reply(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

fn check_name(call: &Call<'_>, name: &[u8]) -> Result<(), Failure> {
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    let config = &call.shared.config;
    if config.fixed.contains_key(lower.as_str()) || config.kept.read().contains_key(lower.as_str()) {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(Failure::Reply(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")))
}

fn check(call: &Call<'_>, name: &[u8], value: &[u8]) -> Result<(&'static str, String), Failure> {
    let asked = String::from_utf8_lossy(name).into_owned();
    let lower = asked.to_ascii_lowercase();
    let value = String::from_utf8_lossy(value).into_owned();
    if let Some(present) = call.shared.config.fixed.get(lower.as_str()) {
        // Setting what is so already does no harm, and tools do it.
        let found = call.shared.config.fixed.get_key_value(lower.as_str()).map(|(name, _)| *name);
        return match found {
            Some(name) if *present == value => Ok((name, value)),
            _ => Err(failed(&asked, "can't set immutable config")),
        };
    }
    if let Some((name, _)) = NUMBERS.iter().find(|(name, _)| *name == lower) {
        let number = if SIZES.contains(name) { bytes_of(&value) } else { parse_i64(value.as_bytes()) };
        return match number {
            Some(number) => Ok((name, number.to_string())),
            None if SIZES.contains(name) => Err(failed(&asked, "argument must be a memory value")),
            None => Err(failed(&asked, "argument couldn't be parsed into an integer")),
        };
    }
    if let Some((name, _, allowed)) = WORDS.iter().find(|(name, ..)| *name == lower) {
        let value = if allowed.is_empty() { value } else { value.to_ascii_lowercase() };
        if allowed.is_empty() || allowed.contains(&value.as_str()) {
            return Ok((name, value));
        }
        let why = match *allowed {
            ["yes", "no"] => "argument must be 'yes' or 'no'".to_owned(),
            _ => format!("argument(s) must be one of the following: {}", allowed.join(", ")),
        };
        return Err(failed(&asked, &why));
    }
    Err(Failure::Reply(format!("ERR Unknown option or number of arguments for CONFIG SET - '{asked}'")))
}

/// A size with a unit: k is 1000, kb is 1024.
fn bytes_of(text: &str) -> Option<i64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<i64>().ok()?.checked_mul(unit)
}

fn apply(call: &Call<'_>, name: &str, value: &str) {
    let number = || parse_i64(value.as_bytes()).unwrap_or(0);
    match name {
        "appendfsync" if value == "always" => call.shared.set_level(DurabilityLevel::Synced),
        "appendfsync" => call.shared.set_level(DurabilityLevel::Accepted),
        "maxmemory" => call.shared.gate.set_memory_bytes_max(number().unsigned_abs()),
        "slowlog-log-slower-than" => call.shared.slow_log.threshold_micros.store(number(), Ordering::Relaxed),
        "slowlog-max-len" => call.shared.slow_log.count_max.store(number(), Ordering::Relaxed),
        "latency-monitor-threshold" => {
            call.shared.latency_events.threshold_millis.store(number(), Ordering::Relaxed);
        }
        _ => {}
    }
}

fn resetstat(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    call.shared.reset_counts();
    out.ok();
    Ok(Outcome::WRITTEN)
}

fn rewrite(_: &mut Call<'_>, _: &Words<'_>, _: &mut Out) -> Result<Outcome, Failure> {
    Err(Failure::reply("ERR The server is running without a config file"))
}

fn help(_: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    super::client::write_help("CONFIG", SUBS, out);
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use crate::testing::Daemon;

    #[test]
    fn settings_are_found_by_pattern_and_changed_all_or_none() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(
            &daemon,
            "CONFIG GET save => *2 $4 save $0
             CONFIG GET appendonly => *2 $10 appendonly $3 yes
             CONFIG GET nosuch => *0
             CONFIG GET slowlog-* DATABASES => *6 $9 databases $2 16 $23 slowlog-log-slower-than $5 10000 $15 slowlog-max-len $3 128
             CONFIG SET hash-max-ziplist-entries 7 slowlog-max-len 3 => +OK
             CONFIG GET hash-max-ziplist-entries => *2 $24 hash-max-ziplist-entries $1 7
             CONFIG SET x 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'x'
             CONFIG SET slowlog-max-len 5 port 1 => -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config
             CONFIG GET slowlog-max-len => *2 $15 slowlog-max-len $1 3
             CONFIG SET hz x => -ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer
             CONFIG SET hz 1 hz 2 => -ERR CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter
             CONFIG SET maxmemory 0 => +OK
             CONFIG SET hz => -ERR wrong number of arguments for 'config|set' command
             CONFIG SET hz 1 x => -ERR syntax error
             CONFIG REWRITE => -ERR The server is running without a config file
             CONFIG RESETSTAT => +OK",
        );
        assert!(client.ask(&daemon, "CONFIG GET *").contains("$4 port $4 6379"));
    }
}
