//! Rates and memory of the index beside std's ordered map: `index_speed tree|btree [KEYS] [VALUE_BYTES]`.
//! One structure a process, so that the resident memory is its own.

use logd_engine::index::{BulkBuilder, Entry, Tree};
use logd_engine::prng::Prng;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Instant;

type Std = BTreeMap<Box<[u8]>, Box<[u8]>>;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("the second number") * 4096
}

fn key(index: u64) -> [u8; 16] {
    let mut prng = Prng::new(index);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&prng.next_u64().to_be_bytes());
    key[8..].copy_from_slice(&prng.next_u64().to_be_bytes());
    key
}

fn rate(name: &str, count: u64, mut work: impl FnMut(u64) -> u64) {
    let start = Instant::now();
    let mut done = 0;
    for index in 0..count {
        done += work(index);
    }
    println!("{name:>8} {:>12.0}/s", done as f64 / start.elapsed().as_secs_f64());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, value_bytes) = (number(2, 1_000_000), number(3, 100) as usize);
    let value = vec![7_u8; value_bytes];
    let mut prng = Prng::new(1);
    let before = resident_bytes();
    let raw = count as usize * (16 + value_bytes);
    let overhead = |name: &str| {
        println!("{name:>8} {:>12.1} B", (resident_bytes() as f64 - before as f64 - raw as f64) / count as f64);
    };
    if arguments.get(1).is_some_and(|name| name == "btree") {
        let mut map = Std::new();
        let put = |map: &mut Std, index| map.insert(Box::from(&key(index)[..]), Box::from(&value[..])).map_or(1, |_| 1);
        rate("insert", count, |index| put(&mut map, index));
        overhead("overhead");
        rate("get", count, |_| map.get(&key(prng.below(count))[..]).map_or(0, |value| u64::from(value[0]) / 7));
        rate("scan", count / 20, |_| {
            let from = key(prng.below(count));
            let range = map.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded)).take(100);
            range.map(|(key, value)| u64::from(key[0] | value[0] > 0)).sum()
        });
        rate("update", count, |_| put(&mut map, prng.below(count)));
        overhead("overhead");
        return;
    }
    let mut tree = Tree::new();
    let entry = Entry { value: &value, expiry_millis: 0 };
    rate("insert", count, |index| u64::from(!tree.insert(&key(index), entry).existed));
    overhead("overhead");
    println!("{:>8} {:>12.1} B", "counted", (tree.bytes() as f64 - raw as f64) / count as f64);
    rate("get", count, |_| tree.get(&key(prng.below(count))).map_or(0, |entry| u64::from(entry.value[0]) / 7));
    rate("scan", count / 20, |_| {
        let from = key(prng.below(count));
        let range = tree.range(Bound::Included(&from), Bound::Unbounded).take(100);
        range.map(|(key, entry)| u64::from(key[0] | entry.value[0] > 0)).sum()
    });
    rate("update", count, |_| u64::from(tree.insert(&key(prng.below(count)), entry).existed));
    overhead("overhead");
    let view = tree.view();
    rate("20k held", 20_000, |_| u64::from(tree.insert(&key(prng.below(count)), entry).existed));
    drop(view);
    let start = Instant::now();
    let mut builder = BulkBuilder::new();
    let all = tree.range(Bound::Unbounded, Bound::Unbounded);
    assert!({ all }.all(|(key, entry)| builder.push(key, entry)), "a walk comes in order");
    println!("{:>8} {:>12.0}/s", "bulk", count as f64 / start.elapsed().as_secs_f64());
    let bulk = builder.finish();
    println!("{:>8} {:>12.1} B", "counted", (bulk.bytes() as f64 - raw as f64) / count as f64);
    rate("remove", count, |index| u64::from(tree.remove(&key(index)).existed));
}
