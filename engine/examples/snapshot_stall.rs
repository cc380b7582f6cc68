//! What a snapshot costs writers: open-loop durable puts over a filled store, windows without and with a checkpoint in turns.
//! `snapshot_stall DIRECTORY fill|run [KEYS] [VALUE_BYTES] [PUTS_A_SECOND] [WINDOW_SECONDS] [PAIRS]`; a rate of 0 means 60 % of the maximum.
//! Latency counts from the moment a put was due until it is on stable storage; a stall is the longest call of `put`.

use hdrhistogram::Histogram;
use logd_engine::prng::Prng;
use logd_engine::{Db, DurabilityLevel, Keyspace, Options, Ticket};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) / 256.0
}

fn key(index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&Prng::new(index).next_u64().to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

fn fill(db: &Db, space: Keyspace, keys: u64, value: &[u8]) -> Result<(), Failure> {
    for index in 0..keys {
        db.put(space, &key(index), value, None, Some(DurabilityLevel::Written))?;
    }
    Ok(db.checkpoint()?)
}

fn maximum(db: &Db, space: Keyspace, keys: u64, value: &[u8], span: Duration) -> Result<f64, Failure> {
    let (start, mut flying, mut count, mut prng) = (Instant::now(), VecDeque::new(), 0_u64, Prng::new(5));
    while start.elapsed() < span {
        flying.push_back(db.put(space, &key(prng.below(keys)), value, None, None)?);
        count += 1;
        if flying.len() >= 512 {
            let oldest: Ticket = flying.pop_front().ok_or("512 are in flight")?;
            db.wait(oldest, None)?;
        }
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

struct Window {
    latency_us: Histogram<u64>,
    /// Longest latency of each quarter of a second, in microseconds.
    longest_us: Vec<u64>,
    stall: Duration,
    count: u64,
    span: Duration,
}

/// Puts at a fixed rate for a while; a second thread waits for the tickets in their order.
fn window(db: &Db, space: Keyspace, keys: u64, value: &[u8], rate: f64, span: Duration) -> Result<Window, Failure> {
    let (sender, receiver) = mpsc::channel::<(Instant, Ticket)>();
    let (start, mut stall, mut count) = (Instant::now(), Duration::ZERO, 0_u64);
    let mut prng = Prng::new(rate as u64 ^ 77);
    let waiting = db.clone();
    let waiter = std::thread::spawn(move || {
        let mut latency_us =
            Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).expect("the bounds are constants in order");
        let mut longest_us = vec![0; 4 * span.as_secs() as usize + 40];
        for (due, ticket) in receiver {
            waiting.wait(ticket, None).expect("the disk works");
            let us = due.elapsed().as_micros() as u64;
            latency_us.saturating_record(us);
            let quarter = (due - start).as_millis() as usize / 250;
            longest_us[quarter] = longest_us[quarter].max(us);
        }
        (latency_us, longest_us)
    });
    while start.elapsed() < span {
        let due = start + Duration::from_secs_f64(count as f64 / rate);
        let now = Instant::now();
        if now < due {
            std::thread::sleep((due - now).max(Duration::from_micros(200)));
            continue;
        }
        let before = Instant::now();
        let ticket = db.put(space, &key(prng.below(keys)), value, None, None)?;
        stall = stall.max(before.elapsed());
        sender.send((due, ticket))?;
        count += 1;
    }
    drop(sender);
    let (latency_us, longest_us) = waiter.join().map_err(|_| "the waiting thread panicked")?;
    Ok(Window { latency_us, longest_us, stall, count, span: start.elapsed() })
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let directory = arguments.get(1).cloned().unwrap_or_else(|| "target/snapshot-stall".to_owned());
    let (keys, value) = (number(3, 1_000_000), vec![7_u8; number(4, 1000) as usize]);
    let span = Duration::from_secs(number(6, 20));
    let options = Options { checkpoint_log_bytes: 64 << 30, snapshots_kept: 1, ..Options::default() };
    let db = Db::open(&directory, options)?;
    let space = db.keyspace("stall", Default::default())?;
    if arguments.get(2).is_some_and(|word| word == "fill") {
        fill(&db, space, keys, &value)?;
        return Ok(db.close()?);
    }
    let most = if number(5, 0) == 0 { maximum(&db, space, keys, &value, Duration::from_secs(4))? } else { 0.0 };
    let rate = if number(5, 0) == 0 { most * 0.6 } else { number(5, 0) as f64 };
    println!("{} records; maximum {most:.0}/s, offered {rate:.0}/s", db.len(space));
    println!("window      done/s    p50 us    p99 us  p99.9 us    max us  put max us  RSS MiB  peak MiB  snapshot");
    for _ in 0..number(7, 2) {
        for with in [false, true] {
            let resident = resident_mib();
            let (stop, peak) = (AtomicBool::new(false), AtomicU64::new(0));
            let taken = db.stats().snapshots.rows.len();
            if with {
                db.start_checkpoint()?;
            }
            let seen = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        peak.fetch_max(resident_mib() as u64, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                    }
                });
                let seen = window(&db, space, keys, &value, rate, span);
                stop.store(true, Ordering::Relaxed);
                seen
            })?;
            while db.stats().snapshots.running {
                std::thread::sleep(Duration::from_millis(50));
            }
            let rows = db.stats().snapshots.rows;
            let words = rows.get(taken..).and_then(<[_]>::last).map_or(String::new(), |row| {
                format!("{} MiB in {} ms {:?}", row.bytes >> 20, row.duration_millis, row.error)
            });
            let latency = &seen.latency_us;
            println!(
                "{:<8} {:>9.0} {:>9} {:>9} {:>9} {:>9} {:>11} {resident:>8.0} {:>9}  {words}",
                if with { "snapshot" } else { "plain" },
                seen.count as f64 / seen.span.as_secs_f64(),
                latency.value_at_quantile(0.5),
                latency.value_at_quantile(0.99),
                latency.value_at_quantile(0.999),
                latency.max(),
                seen.stall.as_micros(),
                peak.load(Ordering::Relaxed),
            );
            let slow = seen.longest_us.iter().enumerate().filter(|(_, us)| **us > 10_000);
            let slow: Vec<String> =
                slow.map(|(at, us)| format!("{:.2} s: {} ms", at as f64 / 4.0, us / 1000)).collect();
            println!("         {}", slow.join(", "));
        }
    }
    Ok(db.close()?)
}
