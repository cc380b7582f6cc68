//! Memory of the whole process by shape of records, put one by one in random order, and after a load from a snapshot.
//! `memory_per_record DIRECTORY [RECORDS] [VALUE_BYTES | counter]`; one shape a process. 16-byte keys.

use logd_engine::prng::Prng;
use logd_engine::{Db, DurabilityLevel, Options};
use std::time::Instant;

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let directory = arguments.get(1).cloned().unwrap_or_else(|| "target/memory-per-record".to_owned());
    let count: u64 = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let value_bytes: Option<usize> = arguments.get(3).map_or(Some(100), |text| text.parse().ok());
    let before = resident_bytes();
    let db = Db::open(&directory, Options::default())?;
    let space = db.keyspace("things", Default::default())?;
    let loaded = db.len(space) as u64;
    let start = Instant::now();
    for index in loaded..count {
        let mut prng = Prng::new(index);
        let key = format!("{:016x}", prng.next_u64());
        let counter = prng.below(100_000).to_string();
        let value = value_bytes.map_or_else(|| counter.into_bytes(), |bytes| vec![index as u8; bytes]);
        db.put(space, key.as_bytes(), &value, None, Some(DurabilityLevel::Accepted))?;
    }
    let rate = (count - loaded) as f64 / start.elapsed().as_secs_f64();
    let state = if loaded == 0 { "put" } else { "loaded" };
    let resident = resident_bytes();
    println!(
        "{count} {state}, value {}: process {:.1} B a record ({:.1} above the empty process), index counts {:.1}; {rate:.0} puts/s",
        arguments.get(3).map_or("100", String::as_str),
        resident / count as f64,
        (resident - before) / count as f64,
        db.stats().index.bytes as f64 / count as f64,
    );
    if loaded == 0 {
        db.checkpoint()?;
    }
    Ok(db.close()?)
}
