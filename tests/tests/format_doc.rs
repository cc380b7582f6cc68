//! Goal: docs/FORMAT.md cannot drift from the engine, in either direction, and what the documents link to is there.
//! Method: the tables of the document against the `FIELDS` constants, the case letters against the code that uses them.

use logd_engine::format::{Field, batch, command, loss, manifest, segment, snapshot, snapshot_block};
use logd_engine::log::{CASES, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every table of the engine by the name that headings give it.
const TABLES: &[(&str, &[Field])] = &[
    ("segment::FIELDS", segment::FIELDS),
    ("batch::FIELDS", batch::FIELDS),
    ("command::FRAME_FIELDS", command::FRAME_FIELDS),
    ("command::PUT_FIELDS", command::PUT_FIELDS),
    ("command::PUT_EXPIRY_FIELDS", command::PUT_EXPIRY_FIELDS),
    ("command::DELETE_FIELDS", command::DELETE_FIELDS),
    ("command::EXPIRE_FIELDS", command::EXPIRE_FIELDS),
    ("command::CLEAR_FIELDS", command::CLEAR_FIELDS),
    ("command::KEYSPACE_FIELDS", command::KEYSPACE_FIELDS),
    ("command::PROCEDURE_FIELDS", command::PROCEDURE_FIELDS),
    ("command::CALL_FIELDS", command::CALL_FIELDS),
    ("snapshot::HEADER_FIELDS", snapshot::HEADER_FIELDS),
    ("snapshot::METADATA_FIELDS", snapshot::METADATA_FIELDS),
    ("snapshot::KEYSPACE_FIELDS", snapshot::KEYSPACE_FIELDS),
    ("snapshot::PROCEDURE_FIELDS", snapshot::PROCEDURE_FIELDS),
    ("snapshot::PLACE_FIELDS", snapshot::PLACE_FIELDS),
    ("snapshot::TRAILER_FIELDS", snapshot::TRAILER_FIELDS),
    ("snapshot_block::BLOCK_FIELDS", snapshot_block::BLOCK_FIELDS),
    ("snapshot_block::RECORD_FIELDS", snapshot_block::RECORD_FIELDS),
    ("snapshot_block::RECORD_EXPIRY_FIELDS", snapshot_block::RECORD_EXPIRY_FIELDS),
    ("loss::FIELDS", loss::FIELDS),
    ("manifest::SLOT_FIELDS", manifest::SLOT_FIELDS),
    ("manifest::BODY_FIELDS", manifest::BODY_FIELDS),
    ("manifest::REFERENCE_FIELDS", manifest::REFERENCE_FIELDS),
];

/// Tables whose structures have room between fields, since an archive aligns them.
const ARCHIVED: &[&str] = &["snapshot::KEYSPACE_FIELDS", "snapshot::PROCEDURE_FIELDS", "manifest::BODY_FIELDS"];

/// Documents whose links and paths are checked.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/DURABILITY.md",
    "docs/FORMAT.md",
    "docs/TESTING.md",
    "fixtures/README.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inner.split(" | ").map(str::to_owned).collect())
}

/// Rows of the tables whose first column has this title, without head and rule.
fn rows<'a>(lines: impl Iterator<Item = &'a str>, title: &str) -> Vec<Vec<String>> {
    let (mut rows, mut inside) = (Vec::new(), false);
    for line in lines {
        match cells(line) {
            Some(row) if row[0] == title => inside = true,
            Some(row) if inside => rows.push(row),
            None if !line.starts_with("|---") => inside = false,
            _ => {}
        }
    }
    rows
}

/// The tables of the document: name of the constant and rows.
fn documented() -> BTreeMap<String, Vec<Vec<String>>> {
    let document = text("docs/FORMAT.md");
    let mut tables = BTreeMap::new();
    for section in document.split("\n#") {
        let heading = section.lines().next().expect("a section has a heading");
        let Some((_, constant)) = heading.split_once("(`") else { continue };
        let constant = constant.strip_suffix("`)").unwrap_or_else(|| panic!("the end of: {heading}"));
        let before = tables.insert(constant.to_owned(), rows(section.lines(), "offset"));
        assert_eq!(before, None, "{constant} stands in the document once");
    }
    tables
}

/// What the document must show of a field: offset, width, name.
fn shown(fields: &[Field]) -> Vec<[String; 3]> {
    let mut variable = String::new();
    let row = |field: &Field| {
        let offset = format!("{}{variable}", field.offset);
        let length = format!("{}_bytes", field.name);
        let has_length = fields.iter().any(|other| other.name == length);
        let bytes = match field.bytes {
            0 if has_length => {
                variable.push_str(&format!(" + {length}"));
                length
            }
            0 => "rest".to_owned(),
            bytes => bytes.to_string(),
        };
        [offset, bytes, field.name.to_owned()]
    };
    fields.iter().map(row).collect()
}

#[test]
fn every_table_of_the_engine_stands_in_the_document_and_no_other() {
    let documented = documented();
    for (name, fields) in TABLES {
        let rows = documented.get(*name).unwrap_or_else(|| panic!("docs/FORMAT.md has no heading with (`{name}`)"));
        let found: Vec<[String; 3]> = rows.iter().map(|row| [0, 1, 2].map(|column| row[column].clone())).collect();
        assert_eq!(found, shown(fields), "{name}");
        assert!(rows.iter().all(|row| row.len() == 5), "{name}: offset, bytes, field, type, allowed values");
    }
    let known: BTreeSet<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    let shown: BTreeSet<&str> = documented.keys().map(String::as_str).collect();
    assert_eq!(shown, known, "the document shows what the engine has");
}

#[test]
fn every_table_in_the_source_is_compared() {
    let mut declared = BTreeSet::new();
    for (name, source) in sources("engine/src/format") {
        let module = Path::new(&name).file_stem().expect("a file").to_string_lossy().into_owned();
        let constants = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(": &[Field]"));
        declared.extend(constants.map(|(constant, _)| format!("{module}::{constant}")));
    }
    let compared: BTreeSet<String> = TABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(declared, compared);
}

#[test]
fn fields_follow_each_other_without_gap_or_overlap() {
    for (name, fields) in TABLES {
        for pair in fields.windows(2) {
            let end = pair[0].offset + pair[0].bytes;
            let gap = pair[1].offset.checked_sub(end);
            let gap = gap.unwrap_or_else(|| panic!("{name}: {} overlaps {}", pair[0].name, pair[1].name));
            assert!(gap == 0 || ARCHIVED.contains(name), "{name}: {gap} bytes before {}", pair[1].name);
        }
    }
}

#[test]
fn types_are_as_wide_as_their_fields() {
    for (name, rows) in documented() {
        for row in rows {
            let width = match row[3].as_str() {
                "u8" => "1",
                "u16" => "2",
                "u32" => "4",
                "u64" | "list" | "string" => "8",
                "u128" => "16",
                "optional" => "32",
                "bytes" | "text" => continue,
                other => panic!("{name}: {} has the unknown type {other}", row[2]),
            };
            assert_eq!(row[1], width, "{name}: {}", row[2]);
        }
    }
}

/// Product code below a directory: file name and text up to the first test module.
fn sources(directory: &str) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for found in fs::read_dir(root().join(directory)).expect("a directory") {
        let path = found.expect("a readable name").path();
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        if path.is_dir() {
            sources.extend(self::sources(&name));
        } else if name.ends_with(".rs") && !name.contains("test") {
            let whole = text(&name);
            sources.push((name, whole.split("#[cfg(test)]").next().unwrap_or("").to_owned()));
        }
    }
    sources
}

/// The only letter between quotes on a line, if there is one.
fn letter(line: &str) -> Option<char> {
    let at = line.match_indices('\'').map(|(at, _)| at).find(|at| line[at + 1..].chars().nth(1) == Some('\''))?;
    line[at + 1..].chars().next().filter(char::is_ascii_alphabetic)
}

#[test]
fn the_cases_of_the_logs_end_are_those_of_the_engine() {
    let document = text("docs/FORMAT.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Cases of the log's end"));
    let rows = rows(section.expect("the section").lines(), "case");
    let documented: Vec<_> = rows.iter().map(|row| (row[0].as_str(), row[1].as_str(), row[2].as_str())).collect();
    let letters: Vec<String> = CASES.iter().map(|case| case.letter.to_string()).collect();
    let known = CASES.iter().zip(&letters).map(|(case, letter)| {
        let verdict = match case.verdict {
            Verdict::CleanEnd => "clean end",
            Verdict::TornTail => "torn tail",
            Verdict::Corruption => "corruption",
        };
        (letter.as_str(), case.condition, verdict)
    });
    let known: Vec<_> = known.collect();
    assert_eq!(documented[..known.len()], known[..], "letter, condition and verdict");
    let tail = text("engine/src/log/tail.rs");
    let constants: Vec<String> = tail
        .lines()
        .filter(|line| line.starts_with("pub const CASE_"))
        .filter_map(|line| letter(line).map(String::from))
        .collect();
    let rest: Vec<&str> = documented[known.len()..].iter().map(|row| row.0).collect();
    assert_eq!(rest, constants, "the cases of segments");
    assert!(documented[known.len()..].iter().all(|row| row.2 == "corruption"));
}

#[test]
fn the_cases_of_other_damage_are_those_of_the_engine() {
    let makers = ["case: '", "damaged(", "check_crc(", "check_equal(", "check_zero(", "check_magic(", "corrupt("];
    let mut used = BTreeSet::new();
    for (_, source) in sources("engine/src") {
        let lines = source.lines().filter(|line| makers.iter().any(|maker| line.contains(maker)));
        used.extend(lines.filter_map(letter).filter(char::is_ascii_lowercase));
    }
    let document = text("docs/FORMAT.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Cases of other damage"));
    let rows = rows(section.expect("the section").lines(), "case");
    let documented: BTreeSet<char> = rows.iter().filter_map(|row| row[0].chars().next()).collect();
    assert_eq!(documented.len(), rows.len(), "each letter stands there once");
    assert_eq!(documented, used, "documented, used");
}

#[test]
fn the_example_stands_in_the_golden_file() {
    let document = text("docs/FORMAT.md");
    let example = document.split("```hex\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    assert!(example.lines().count() > 10, "a whole batch");
    let golden = text("fixtures/format/v1/segment.hex");
    assert!(golden.contains(example), "the example is a part of fixtures/format/v1/segment.hex");
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    for name in DOCUMENTS {
        let (whole, base) = (text(name), root().join(name));
        let links = whole.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { base.clone() } else { base.parent().expect("a directory").join(path) };
            assert!(target.exists(), "{name}: {link}");
            if !place.is_empty() {
                let there = fs::read_to_string(&target).expect("a document");
                let mut headings = there.lines().filter(|line| line.starts_with('#'));
                assert!(headings.any(|heading| anchor(heading) == place), "{name}: {link}");
            }
        }
    }
}

#[test]
fn files_that_the_documents_name_are_there() {
    let tops = ["engine/", "logd/", "tools/", "bench/", "tests/", "fixtures/", "docs/"];
    for name in DOCUMENTS {
        let whole = text(name);
        let quoted = whole.split('`').skip(1).step_by(2).filter(|part| tops.iter().any(|top| part.starts_with(top)));
        for path in quoted.filter(|path| !path.contains(['*', '<', ' '])) {
            assert!(root().join(path).exists(), "{name} names {path}");
        }
    }
}
