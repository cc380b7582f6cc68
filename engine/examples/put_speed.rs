//! Durable puts and their rate, by number of tickets in flight: a first look, not a benchmark.
use logd_engine::{Db, Options};
use std::collections::VecDeque;
use std::time::Instant;

fn main() -> Result<(), logd_engine::Error> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target/put-speed".to_owned());
    let db = Db::open(&directory, Options::default())?;
    println!("{}; {:?}", db.stats().recovery.words, db.stats().disk);
    let things = db.keyspace("things", Default::default())?;
    for depth in [1usize, 64, 512] {
        let begun = Instant::now();
        let mut flying = VecDeque::new();
        let mut count = 0u64;
        while begun.elapsed().as_secs_f64() < 2.0 {
            flying.push_back(db.put(things, &(count % 1_000_000).to_be_bytes(), &[7; 100], None, None)?);
            count += 1;
            if flying.len() >= depth {
                let ticket = flying.pop_front().expect("not empty");
                db.wait(ticket, None)?;
            }
        }
        println!("{depth} in flight: {:.0} durable puts/s", count as f64 / begun.elapsed().as_secs_f64());
    }
    let begun = Instant::now();
    db.close()?;
    println!("closed in {:?}", begun.elapsed());
    let begun = Instant::now();
    let db = Db::open(&directory, Options::default())?;
    println!(
        "{} in {:?}; {} records, digest {}",
        db.stats().recovery.words,
        begun.elapsed(),
        db.len(db.find_keyspace("things")?),
        db.digest().1
    );
    Ok(())
}
