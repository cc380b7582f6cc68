//! How long opening takes: `load_speed DIRECTORY make-snapshot|make-log|open [RECORDS] [VALUE_BYTES]`.
//! `make-snapshot` leaves everything in a snapshot, `make-log` everything in the log; then `open`, as often as wanted.

use logd_engine::prng::Prng;
use logd_engine::{Db, DurabilityLevel, Options};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let directory = arguments.get(1).cloned().unwrap_or_else(|| "target/load-speed".to_owned());
    let what = arguments.get(2).map_or("open", String::as_str);
    let (count, value) = (number(3, 1_000_000), vec![7_u8; number(4, 1000) as usize]);
    let options = Options { checkpoint_log_bytes: 64 << 30, checkpoint_bytes_per_second: 0, ..Options::default() };
    let start = Instant::now();
    let db = Db::open(&directory, options)?;
    let opened = start.elapsed();
    let space = db.keyspace("things", Default::default())?;
    if what.starts_with("make") {
        for index in 0..count {
            let key = format!("{:016x}", Prng::new(index).next_u64());
            db.put(space, key.as_bytes(), &value, None, Some(DurabilityLevel::Accepted))?;
        }
        if what == "make-snapshot" {
            db.checkpoint()?;
        }
        println!("made {} records in {:.2?}", db.len(space), start.elapsed());
        return Ok(db.close()?);
    }
    println!("opened {} records in {:.0} ms: {}", db.len(space), opened.as_secs_f64() * 1e3, db.stats().recovery.words);
    Ok(db.close()?)
}
