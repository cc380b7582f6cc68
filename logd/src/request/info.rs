//! INFO and LOGD.STATS: all numbers, in Redis' sections and fields, and in one section of our own.
//! Guarantees: fields that tools read are there under Redis' names; what does not exist here is told as 0, not left out.
//! Must not know: how numbers are counted.
//! Next: config.rs.

use super::connection::REDIS_VERSION;
use super::durability::{last_saved_seconds, level_in_force};
use super::table::{Call, ServerSpec};
use super::{Failure, Words};
use crate::executor::Outcome;
use crate::resp::Out;
use crate::shared::Shared;
use logd_engine::Stats;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const FLAGS: &[&str] = &["loading", "stale"];

/// The rows of this file.
pub const SPECS: &[ServerSpec] = &[
    ServerSpec::new("info", -1, FLAGS, "server", info, "Tells numbers about the server."),
    ServerSpec::new("logd.stats", 1, FLAGS, "logd", logd_stats, "Tells all numbers of the store."),
];

type Section = fn(&Call<'_>, &Stats, &mut String);

/// Name, whether it is told without being asked for, and what writes it.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _, _| {}),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Latencystats", false, latencystats),
    ("Cluster", true, |_, _, text| line(text, "cluster_enabled", 0)),
    ("Keyspace", true, keyspace),
    ("Logd", true, logd),
];

fn info(call: &mut Call<'_>, words: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let wanted: Vec<String> =
        words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let asks = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let takes_all = asks("all") || asks("everything");
    let takes_default = wanted.is_empty() || asks("default");
    let stats = call.shared.db.stats();
    let mut text = String::new();
    for (name, is_default, write) in SECTIONS {
        if takes_all || (takes_default && *is_default) || asks(&name.to_ascii_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            write(call, &stats, &mut text);
        }
    }
    out.verbatim(&text);
    Ok(Outcome::WRITTEN)
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn lines(text: &mut String, numbers: &[(&str, u64)]) {
    numbers.iter().for_each(|(name, number)| line(text, name, number));
}

fn server(call: &Call<'_>, _: &Stats, text: &mut String) {
    let shared = call.shared;
    let uptime = shared.started.elapsed().as_secs();
    line(text, "redis_version", REDIS_VERSION);
    lines(text, &[("redis_git_sha1", 0), ("redis_git_dirty", 0)]);
    line(text, "redis_mode", "standalone");
    line(text, "server_name", "logd");
    line(text, "logd_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(text, "arch_bits", usize::BITS);
    line(text, "multiplexing_api", "epoll");
    line(text, "process_id", std::process::id());
    line(text, "run_id", format_args!("{:032x}{:08x}", shared.started_millis, std::process::id()));
    line(text, "tcp_port", shared.settings.listen.first().map_or(0, |address| address.port()));
    line(text, "server_time_usec", shared.db.time().wall().0 * 1000);
    lines(text, &[("uptime_in_seconds", uptime), ("uptime_in_days", uptime / 86_400)]);
    lines(text, &[("hz", 10), ("configured_hz", 10), ("lru_clock", 0)]);
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    line(text, "executable", program);
    let config_file = shared.settings.config_file.as_ref();
    line(text, "config_file", config_file.map_or(String::new(), |path| path.display().to_string()));
    line(text, "io_threads_active", u8::from(shared.settings.threads > 1));
}

fn clients(call: &Call<'_>, _: &Stats, text: &mut String) {
    lines(
        text,
        &[
            ("connected_clients", call.shared.clients.len() as u64),
            ("cluster_connections", 0),
            ("maxclients", call.shared.settings.clients_max as u64),
            ("client_recent_max_input_buffer", 0),
            ("client_recent_max_output_buffer", 0),
            ("blocked_clients", call.shared.clients.blocked_count()),
            ("tracking_clients", 0),
            ("clients_in_timeout_table", 0),
        ],
    );
}

/// Bytes this process holds in memory, by the kernel; 0 where it does not say.
pub fn memory_used() -> u64 {
    let pages: Option<u64> = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse().ok()));
    let used = pages.unwrap_or(0) * rustix::param::page_size() as u64;
    PEAK.fetch_max(used, Ordering::Relaxed);
    used
}

static PEAK: AtomicU64 = AtomicU64::new(0);

/// The most that was seen of it.
pub fn memory_used_peak() -> u64 {
    memory_used().max(PEAK.load(Ordering::Relaxed))
}

fn memory(call: &Call<'_>, stats: &Stats, text: &mut String) {
    let (used, peak) = (memory_used(), memory_used_peak());
    line(text, "used_memory", used);
    line(text, "used_memory_human", human(used));
    line(text, "used_memory_rss", used);
    line(text, "used_memory_rss_human", human(used));
    line(text, "used_memory_peak", peak);
    line(text, "used_memory_peak_human", human(peak));
    line(text, "used_memory_dataset", stats.index.bytes);
    lines(text, &[("used_memory_overhead", used.saturating_sub(stats.index.bytes)), ("used_memory_lua", 0)]);
    lines(text, &[("used_memory_scripts", 0), ("number_of_cached_scripts", 0)]);
    let bytes_max = call.shared.gate.memory_bytes_max();
    line(text, "maxmemory", bytes_max);
    line(text, "maxmemory_human", human(bytes_max));
    line(text, "maxmemory_policy", "noeviction");
    line(text, "mem_fragmentation_ratio", "1.00");
    line(text, "mem_allocator", "libc");
    lines(text, &[("mem_aof_buffer", stats.log.outstanding_bytes), ("active_defrag_running", 0)]);
    lines(text, &[("lazyfree_pending_objects", 0), ("lazyfreed_objects", 0)]);
}

fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2}G", bytes as f64 / 1_073_741_824.0),
    }
}

fn persistence(call: &Call<'_>, stats: &Stats, text: &mut String) {
    let last = stats.snapshots.rows.last();
    let is_good = last.is_none_or(|row| row.error.is_none());
    let took = last.map_or(-1, |row| (row.duration_millis / 1000) as i64);
    let status = |is_good: bool| if is_good { "ok" } else { "err" };
    let running = u64::from(stats.snapshots.running);
    lines(text, &[("loading", 0), ("async_loading", 0), ("current_cow_peak", 0), ("current_cow_size", 0)]);
    lines(text, &[("loading_eta_seconds", 0)]);
    line(text, "rdb_changes_since_last_save", stats.snapshots.commands_since);
    line(text, "rdb_bgsave_in_progress", running);
    line(text, "rdb_last_save_time", last_saved_seconds(call.shared, stats));
    line(text, "rdb_last_bgsave_status", status(is_good));
    line(text, "rdb_last_bgsave_time_sec", took);
    line(text, "rdb_current_bgsave_time_sec", if stats.snapshots.running { 0 } else { -1 });
    line(text, "rdb_saves", stats.snapshots.rows.len());
    lines(text, &[("rdb_last_cow_size", 0), ("rdb_last_load_keys_expired", 0)]);
    line(text, "rdb_last_load_keys_loaded", 0);
    line(text, "aof_enabled", 1);
    line(text, "aof_rewrite_in_progress", running);
    line(text, "aof_rewrite_scheduled", 0);
    line(text, "aof_last_rewrite_time_sec", took);
    line(text, "aof_current_rewrite_time_sec", if stats.snapshots.running { 0 } else { -1 });
    line(text, "aof_last_bgrewrite_status", status(is_good));
    line(text, "aof_rewrites", stats.snapshots.rows.len());
    // A full disk refuses writes too, until there is space again; a log that is only busy does not.
    let is_writable = call.shared.db.wait_writable(Some(Duration::ZERO)).is_ok();
    line(text, "aof_last_write_status", status(is_writable && !stats.space.is_low));
    line(text, "aof_last_cow_size", 0);
    line(text, "aof_current_size", stats.log.bytes);
    line(text, "aof_base_size", last.map_or(0, |row| row.bytes));
    line(text, "aof_pending_rewrite", 0);
    line(text, "aof_buffer_length", stats.log.outstanding_bytes);
    line(text, "aof_pending_bio_fsync", u8::from(stats.log.watermarks.synced < stats.log.watermarks.assigned));
    line(text, "aof_delayed_fsync", 0);
    let loss = &stats.loss;
    lines(
        text,
        &[
            ("logd_loss_unacknowledged", loss.is_unacknowledged().into()),
            ("logd_loss_salvages", loss.salvage_count),
            ("logd_loss_commands", loss.commands),
            ("logd_loss_first_lsn", loss.first_lsn.0),
            ("logd_loss_last_lsn", loss.last_lsn.0),
            ("logd_loss_bytes", loss.bytes),
            ("logd_loss_files", loss.files),
            ("logd_read_only", stats.read_only.is_some().into()),
            ("logd_disk_full", stats.space.is_low.into()),
            ("logd_disk_full_count", stats.space.low_count),
            ("logd_disk_free_bytes", stats.space.free_bytes),
            ("logd_disk_reserve_bytes", stats.space.reserve_bytes),
            ("logd_disk_full_refused", stats.space.refused_count),
        ],
    );
    line(text, "logd_on_corruption", call.shared.db.options().on_corruption.word());
}

fn stats(call: &Call<'_>, stats: &Stats, text: &mut String) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &call.shared.counters;
    lines(
        text,
        &[
            ("total_connections_received", read(&counters.connections_received)),
            ("total_commands_processed", read(&counters.commands)),
            ("instantaneous_ops_per_sec", 0),
            ("total_net_input_bytes", read(&counters.net_input_bytes)),
            ("total_net_output_bytes", read(&counters.net_output_bytes)),
            ("rejected_connections", read(&counters.connections_rejected)),
            ("sync_full", 0),
            ("sync_partial_ok", 0),
            ("sync_partial_err", 0),
            ("expired_keys", stats.counters.expired),
            ("evicted_keys", 0),
            ("evicted_clients", 0),
            ("keyspace_hits", read(&counters.lookups.hits)),
            ("keyspace_misses", read(&counters.lookups.misses)),
            ("pubsub_channels", 0),
            ("pubsub_patterns", 0),
            ("latest_fork_usec", 0),
            ("total_forks", 0),
            ("migrate_cached_sockets", 0),
            ("slave_expires_tracked_keys", 0),
            ("total_error_replies", read(&counters.error_replies)),
            ("client_output_buffer_limit_disconnections", read(&counters.clients_over_output_limit)),
            ("exec_conflicts", read(&counters.exec_conflicts)),
        ],
    );
}

fn replication(_: &Call<'_>, stats: &Stats, text: &mut String) {
    line(text, "role", "master");
    lines(text, &[("connected_slaves", 0)]);
    line(text, "master_failover_state", "no-failover");
    line(text, "master_replid", format_args!("{:040}", 0));
    lines(text, &[("master_repl_offset", stats.log.watermarks.assigned.0), ("repl_backlog_active", 0)]);
}

fn cpu(_: &Call<'_>, _: &Stats, text: &mut String) {
    // Fields 14 and 15 of stat, counted after the name in brackets, which may hold blanks. 100 ticks a second on Linux.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let seconds = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    line(text, "used_cpu_sys", format_args!("{:.6}", seconds(12)));
    line(text, "used_cpu_user", format_args!("{:.6}", seconds(11)));
    line(text, "used_cpu_sys_children", "0.000000");
    line(text, "used_cpu_user_children", "0.000000");
}

fn commandstats(call: &Call<'_>, _: &Stats, text: &mut String) {
    for (number, counters) in call.shared.command_counters.iter().enumerate() {
        let count = counters.now();
        if count.calls + count.rejected == 0 {
            continue;
        }
        let per_call = if count.calls == 0 { 0.0 } else { count.micros as f64 / count.calls as f64 };
        let _ = write!(
            text,
            "cmdstat_{}:calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}\r\n",
            call.shared.table.number_name(number),
            count.calls,
            count.micros,
            count.rejected,
            count.failed,
        );
    }
}

fn latencystats(call: &Call<'_>, _: &Stats, text: &mut String) {
    let asked = call.shared.config.kept("latency-tracking-info-percentiles");
    let percents: Vec<f64> = asked.split(' ').filter_map(|percent| percent.parse().ok()).collect();
    for (number, counters) in call.shared.command_counters.iter().enumerate() {
        let values: Vec<_> =
            percents.iter().filter_map(|percent| Some((percent, counters.percentile(*percent)?))).collect();
        if values.is_empty() {
            continue;
        }
        let values: Vec<String> = values.iter().map(|(percent, micros)| format!("p{percent}={micros:.3}")).collect();
        let name = call.shared.table.number_name(number);
        line(text, &format!("latency_percentiles_usec_{name}"), values.join(","));
    }
}

fn errorstats(call: &Call<'_>, _: &Stats, text: &mut String) {
    for (class, count) in call.shared.errors() {
        let _ = write!(text, "errorstat_{class}:count={count}\r\n");
    }
}

fn keyspace(call: &Call<'_>, _: &Stats, text: &mut String) {
    for (number, keyspace) in call.shared.databases.iter().enumerate() {
        let keys = call.shared.db.len(*keyspace);
        if keys > 0 {
            let expires = call.shared.db.expiring_len(*keyspace);
            line(text, &format!("db{number}"), format_args!("keys={keys},expires={expires},avg_ttl=0"));
        }
    }
}

/// A number or a text of the store.
enum Value {
    Number(u64),
    Text(String),
}

fn logd(call: &Call<'_>, stats: &Stats, text: &mut String) {
    for (name, value) in rows(call, stats) {
        match value {
            Value::Number(number) => line(text, name, number),
            Value::Text(words) => line(text, name, words.replace(['\r', '\n'], " ")),
        }
    }
    for (at, row) in stats.snapshots.rows.iter().enumerate() {
        let _ = write!(
            text,
            "snapshot_{at}:kind={},lsn={},start={},duration={},bytes={},records={},result={}\r\n",
            row.kind,
            row.lsn,
            row.start_millis,
            row.duration_millis,
            row.bytes,
            row.records,
            row.error.as_deref().unwrap_or("success"),
        );
    }
}

fn rows(call: &Call<'_>, stats: &Stats) -> Vec<(&'static str, Value)> {
    let Shared { db, .. } = call.shared;
    let numbers = [
        ("commands", stats.counters.commands),
        ("user_bytes", stats.counters.user_bytes),
        ("transactions_aborted", stats.counters.aborted),
        ("records_expired", stats.counters.expired),
        ("procedure_calls", stats.counters.calls),
        ("log_bytes", stats.log.tally.batch_bytes),
        ("log_batches", stats.log.tally.batch_count),
        ("log_syncs", stats.log.tally.sync_count),
        ("outstanding_commands", stats.log.outstanding_commands),
        ("outstanding_bytes", stats.log.outstanding_bytes),
        ("segments_in_use", stats.log.segments_in_use),
        ("segments_bytes", stats.log.bytes),
        ("sync_ns_p50", stats.log.tally.sync_ns_p50),
        ("sync_ns_p99", stats.log.tally.sync_ns_p99),
        ("sync_ns_max", stats.log.tally.sync_ns_max),
        ("lsn_assigned", stats.log.watermarks.assigned.0),
        ("lsn_written", stats.log.watermarks.written.0),
        ("lsn_synced", stats.log.watermarks.synced.0),
        ("commands_since_snapshot", stats.snapshots.commands_since),
        ("snapshot_bytes", stats.snapshots.bytes_written),
        ("checkpoint_running", stats.snapshots.running.into()),
        ("records", stats.index.records),
        ("index_bytes", stats.index.bytes),
        ("recovery_cut_bytes", stats.recovery.cut_bytes),
        ("recovery_ns", stats.recovery.ns),
        ("lag_millis", db.options().lag_millis),
        ("lag_bytes", db.options().lag_bytes),
        ("shards", db.options().shards as u64),
        ("disk_direct", stats.disk.direct.into()),
    ];
    let texts = [
        ("durability", level_in_force(call.shared, call.session).word().to_owned()),
        ("durability_default", db.options().durability.word().to_owned()),
        ("disk_backend", stats.disk.backend.to_owned()),
        ("disk_file_system", stats.disk.file_system.clone()),
        ("disk_notes", stats.disk.notes.join("; ")),
        ("recovery", stats.recovery.words.clone()),
        ("failure", stats.failure.clone().unwrap_or_default()),
    ];
    let numbers = numbers.into_iter().map(|(name, number)| (name, Value::Number(number)));
    numbers.chain(texts.into_iter().map(|(name, text)| (name, Value::Text(text)))).collect()
}

fn logd_stats(call: &mut Call<'_>, _: &Words<'_>, out: &mut Out) -> Result<Outcome, Failure> {
    let stats = call.shared.db.stats();
    let rows = rows(call, &stats);
    out.map(rows.len() + 1);
    for (name, value) in rows {
        out.bulk(name.as_bytes());
        match value {
            Value::Number(number) => out.integer(number as i64),
            Value::Text(text) => out.bulk(text.as_bytes()),
        }
    }
    out.bulk(b"snapshots");
    out.array(stats.snapshots.rows.len());
    for row in &stats.snapshots.rows {
        out.map(7);
        out.bulk(b"kind");
        out.bulk(row.kind.as_bytes());
        for (name, number) in [
            ("lsn", row.lsn.0),
            ("start_millis", row.start_millis),
            ("duration_millis", row.duration_millis),
            ("bytes", row.bytes),
            ("records", row.records),
        ] {
            out.bulk(name.as_bytes());
            out.integer(number as i64);
        }
        out.bulk(b"error");
        out.bulk(row.error.as_deref().unwrap_or("").as_bytes());
    }
    Ok(Outcome::WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::human;
    use crate::testing::Daemon;

    #[test]
    fn the_fields_that_tools_read_are_there() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        client.play(&daemon, "SET a 1 => +OK\nSET b 1 EX 100 => +OK\nGET a => $1 1");
        let told = format!("{} ", client.ask(&daemon, "INFO"));
        let fields = "redis_version:7.2.4 redis_mode:standalone server_name:logd loading:0 maxmemory_policy:noeviction \
            role:master connected_slaves:0 connected_clients:1 keyspace_hits:1 db0:keys=2,expires=1,avg_ttl=0 \
            aof_enabled:1 rdb_bgsave_in_progress:0 rdb_last_bgsave_status:ok aof_last_write_status:ok \
            aof_last_bgrewrite_status:ok async_loading:0 loading_eta_seconds:0 aof_rewrite_in_progress:0 \
            aof_delayed_fsync:0 durability:synced";
        for field in fields.split_whitespace() {
            assert!(told.contains(&format!(" {field} ")), "{field} in {told}");
        }
        let names = "logd_version rdb_changes_since_last_save rdb_last_save_time rdb_last_bgsave_time_sec \
            rdb_last_cow_size aof_last_rewrite_time_sec aof_current_size aof_base_size aof_buffer_length \
            aof_pending_bio_fsync used_memory used_cpu_sys total_commands_processed lsn_synced sync_ns_p99";
        for name in names.split_whitespace() {
            assert!(told.contains(&format!(" {name}:")), "{name} in {told}");
        }
        assert!(!told.contains("# Commandstats"));
    }

    #[test]
    fn sections_are_chosen_by_name() {
        let daemon = Daemon::new();
        let mut client = daemon.client();
        for all in ["ALL", "everything"] {
            let told = client.ask(&daemon, &format!("INFO {all}"));
            assert!(told.contains("# Latencystats") && told.contains("# Logd"), "{told}");
        }
        let told = client.ask(&daemon, "INFO replication keyspace");
        assert!(told.contains("# Replication") && told.contains("# Keyspace") && !told.contains("# Server"), "{told}");
        client.play(&daemon, "INFO nosuch => $0");
        assert!(client.ask(&daemon, "LOGD.STATS").contains("$12 lsn_assigned :"));
    }

    #[test]
    fn bytes_are_shown_for_people() {
        assert_eq!([human(5), human(1536), human(3 << 20)], ["5B", "1.50K", "3.00M"]);
    }
}
