//! Runs the kept inputs of the fuzz targets, and some made from them, on the stable compiler: the targets keep compiling, and what
//! was found once stays found.
//! Method: every file in `fixtures/fuzz/<target>`, whole, cut short, and with single bytes changed by a seed.

use logd_engine::prng::Prng;
use logd_tests::fuzz::TARGETS;
use std::fs;
use std::path::{Path, PathBuf};

/// Inputs made from each kept one.
const CHANGED: u64 = 40;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fuzz").join(target);
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a name").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

fn check(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{target} has inputs");
    for (path, bytes) in corpus {
        println!("{}", path.display());
        run(&bytes);
        let mut prng = Prng::new(bytes.len() as u64);
        for _ in 0..CHANGED {
            let mut changed = bytes.clone();
            changed.truncate(if prng.one_in(4) { prng.below(bytes.len() as u64 + 1) as usize } else { bytes.len() });
            for _ in 0..1 + prng.below(4) {
                if !changed.is_empty() {
                    let at = prng.below(changed.len() as u64) as usize;
                    changed[at] = prng.next_u64() as u8;
                }
            }
            run(&changed);
        }
    }
}

#[test]
fn log_segments_of_the_corpus_are_read_without_a_panic() {
    check("log_segment");
}

#[test]
fn snapshots_of_the_corpus_are_read_without_a_panic() {
    check("snapshot");
}

#[test]
fn manifests_of_the_corpus_are_read_without_a_panic() {
    check("manifest");
}

#[test]
fn requests_of_the_corpus_are_parsed_the_same_however_they_are_split() {
    check("resp");
}

#[test]
fn requests_of_the_corpus_get_one_well_formed_reply_each() {
    check("requests");
}

#[test]
fn the_corpus_stays_small() {
    let bytes = |target: &str| corpus(target).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    let total: usize = TARGETS.iter().map(|(name, _)| bytes(name)).sum();
    assert!(total < 200 << 10, "{total} bytes");
}
