//! Keeps the shape of the code: sizes, heads, import direction, seams, unsafe, words.
//! Each rule names the file and line that breaks it. Exceptions carry a reason and their list only shrinks.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines a file may have.
const FILE_LINES_MAX: usize = 500;

/// Files that may be longer, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// The only files that may hold unsafe code (docs/ARCHITECTURE.md section 3). The last two are no product: a counting allocator for
/// the damage tests, and LMDB for comparisons, which maps a file and is compiled only with the feature `peers` of logd-bench.
const UNSAFE_FILES: &[&str] = &[
    "engine/src/disk/uring.rs",
    "engine/src/disk/buffer.rs",
    "engine/src/index/node.rs",
    "engine/src/index/edit.rs",
    "engine/tests/damage/allocation.rs",
    "bench/src/target/peers/lmdb.rs",
];

/// Words of the outside world that the engine may only use in the files behind its seams.
const SEAM_WORDS: &[(&str, &[&str])] = &[
    ("Instant::now", &[]),
    ("SystemTime", &[]),
    ("clock_gettime", &["engine/src/clock/os.rs", "engine/src/log/blocked.rs"]),
    ("std::thread", &["engine/src/db/threads.rs", "engine/src/disk/uring.rs"]),
    ("std::fs", &["engine/src/disk/os.rs", "engine/src/disk/files.rs"]),
    (
        "rustix::fs",
        &[
            "engine/src/disk/os.rs",
            "engine/src/disk/files.rs",
            "engine/src/disk/medium.rs",
            "engine/src/disk/names.rs",
            "engine/src/disk/syscall.rs",
            "engine/src/disk/uring.rs",
        ],
    ),
    ("getrandom", &["engine/src/db/open.rs"]),
    ("std::env", &[]),
    ("println!", &[]),
];

/// Ranks of the engine's modules: a module imports lower ranks only.
const RANKS: &[(u8, &[&str])] = &[
    (0, &["units", "limits", "durability", "prng", "mark", "canary"]),
    (1, &["error", "clock"]),
    (2, &["options", "disk", "index"]),
    (3, &["digest"]),
    (4, &["format"]),
    (5, &["log", "snapshot", "manifest", "loss"]),
    (6, &["checkpoint", "recovery"]),
    (7, &["core", "verify"]),
    (8, &["maintenance"]),
    (9, &["db"]),
];

/// Words that say two things or nothing (docs/GLOSSARY.md); in names of modules, types and functions.
const BANNED_IN_NAMES: &[&str] = &["manager", "helper", "utils", "flush", "persist"];

/// Files whose subject is another program's word: Redis has commands and fields of these names.
const BANNED_WORDS_EXEMPT: &[&str] = &["logd/src/", "bench/src/"];

struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Lines of product code with their number: up to the first test module, comments left out.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let product = self
            .text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]" && line.trim() != "#[cfg(all(test, feature = \"sim\"))]");
        product.enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn is_test(&self) -> bool {
        let name = self.name.as_str();
        let places = ["/tests/", "/examples/", "test_", "/testing.rs", "_tests.rs"];
        name.starts_with("tests/")
            || name.ends_with("/tests.rs")
            || name.ends_with("/conformance.rs")
            || places.iter().any(|place| name.contains(place))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for package in ["engine", "logd", "tools", "bench", "tests"] {
        collect(&root().join(package), &mut sources);
    }
    assert!(sources.len() > 40, "the walk found the sources");
    sources
}

fn collect(directory: &Path, sources: &mut Vec<Source>) {
    for found in fs::read_dir(directory).expect("a readable tree") {
        let path = found.expect("a readable name").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, sources);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            sources.push(Source { name, text: fs::read_to_string(&path).expect("UTF-8") });
        }
    }
}

fn report(rule: &str, broken: Vec<String>) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn no_file_is_longer_than_its_limit() {
    let long = sources()
        .into_iter()
        .filter(|source| !LONG_FILES.iter().any(|(name, _)| *name == source.name))
        .map(|source| (source.text.lines().count(), source.name))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX);
    report("split these files", long.map(|(lines, name)| format!("{name}: {lines} lines")).collect());
}

#[test]
fn every_file_opens_with_its_duty() {
    let bare = sources().into_iter().filter(|source| !source.text.starts_with("//! "));
    report("these files do not say what they are for", bare.map(|source| source.name).collect());
}

#[test]
fn product_files_say_what_they_guarantee_or_where_to_read_on() {
    let silent = sources().into_iter().filter(|source| {
        let head: String = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
        source.name.contains("engine/src")
            && !source.is_test()
            && !head.contains("Guarantees")
            && !head.contains("Next")
    });
    report("these heads name neither guarantees nor the next file", silent.map(|source| source.name).collect());
}

#[test]
fn unsafe_stays_in_its_files_and_says_why() {
    let mut broken = Vec::new();
    for source in sources() {
        let allowed = UNSAFE_FILES.contains(&source.name.as_str());
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in source
            .code()
            .filter(|(_, line)| line.contains(concat!("unsafe", " {")) || line.contains(concat!("unsafe", " impl")))
        {
            let reason = lines[..number].iter().rev().take(12).any(|above| above.contains("SAFETY"));
            if !allowed || !reason {
                broken.push(format!("{}:{number}: {}", source.name, line.trim()));
            }
        }
    }
    report("unsafe outside its files or without a SAFETY reason", broken);
}

#[test]
fn the_engine_reaches_the_world_through_its_seams_only() {
    let mut broken = Vec::new();
    for source in sources().into_iter().filter(|source| source.name.starts_with("engine/src") && !source.is_test()) {
        for (word, allowed) in SEAM_WORDS {
            if allowed.contains(&source.name.as_str()) {
                continue;
            }
            let hits = source.code().filter(|(_, line)| line.contains(word));
            broken.extend(hits.map(|(number, line)| format!("{}:{number}: {}", source.name, line.trim())));
        }
    }
    report("thread, clock, randomness or files outside the seams", broken);
}

#[test]
fn imports_point_down() {
    let rank_of = |module: &str| RANKS.iter().find(|(_, modules)| modules.contains(&module)).map(|(rank, _)| *rank);
    let mut broken = Vec::new();
    for source in sources().into_iter().filter(|source| source.name.starts_with("engine/src/")) {
        let path = source.name.trim_start_matches("engine/src/");
        let own = path.split(['/', '.']).next().expect("a first part");
        if own == "lib" || source.is_test() {
            continue;
        }
        let Some(own_rank) = rank_of(own) else {
            broken.push(format!("{}: module {own} has no rank", source.name));
            continue;
        };
        for (number, line) in source.code() {
            for used in line.split("crate::").skip(1) {
                let module: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if module == own {
                    continue;
                }
                if rank_of(&module).is_some_and(|rank| rank >= own_rank) {
                    broken.push(format!("{}:{number}: {own} uses {module}", source.name));
                }
            }
        }
    }
    report("imports that point up or sideways", broken);
}

#[test]
fn nothing_is_left_undone_in_product_code() {
    let words = ["todo!(", "unimplemented!(", "FIXME", "XXX", ".unwrap()", "STAND-IN", "PLACEHOLDER", "dbg!("];
    let mut broken = Vec::new();
    for source in sources().into_iter().filter(|source| !source.is_test() && !source.name.starts_with("tests/")) {
        let hits = source
            .text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]" && line.trim() != "#[cfg(all(test, feature = \"sim\"))]")
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("///") && words.iter().any(|word| line.contains(word)));
        broken.extend(hits.map(|(at, line)| format!("{}:{}: {}", source.name, at + 1, line.trim())));
    }
    report("unfinished or panicking places", broken);
}

#[test]
fn names_use_the_words_of_the_glossary() {
    let mut broken = Vec::new();
    for source in
        sources().into_iter().filter(|source| !BANNED_WORDS_EXEMPT.iter().any(|exempt| source.name.starts_with(exempt)))
    {
        let path = source.name.to_lowercase();
        broken.extend(BANNED_IN_NAMES.iter().filter(|word| path.contains(*word)).map(|word| format!("{path}: {word}")));
        for (number, line) in source.code() {
            let declares = ["fn ", "struct ", "enum ", "trait ", "mod "].iter().find_map(|kind| line.split_once(kind));
            let Some((_, rest)) = declares else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let lower = name.to_lowercase();
            if BANNED_IN_NAMES.iter().any(|word| lower.contains(word)) {
                broken.push(format!("{}:{number}: {name}", source.name));
            }
        }
    }
    report("names with banned words", broken);
}

#[test]
fn a_golden_check_is_asserted() {
    let mut broken = Vec::new();
    for source in sources() {
        let bare = source
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim_start().starts_with("matches!(") && line.trim_end().ends_with(");"));
        broken.extend(bare.map(|(at, line)| format!("{}:{}: {}", source.name, at + 1, line.trim())));
    }
    report("a matches! whose result nobody looks at", broken);
}

#[test]
fn the_documents_that_the_readme_names_are_there() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    let names = readme.split(['(', ')']).filter(|part| part.starts_with("docs/") || part.starts_with("fixtures/"));
    let missing: Vec<_> = names
        .filter(|name| !root().join(name.split('#').next().expect("a path")).exists())
        .map(str::to_owned)
        .collect();
    report("README names files that are not there", missing);
}
