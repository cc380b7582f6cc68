//! Holds docs/KNOWN-FAULTS.md to the tree: each test named there exists, and no entry is without one or a reason.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The rows of the page's tables: their cells, with heads and rulers left out.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/KNOWN-FAULTS.md")).expect("the page");
    let rows =
        page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-") && !line.starts_with("| fault"));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks and looks like `file.rs::test`.
fn tests_named(cell: &str) -> Vec<(String, String)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once("::")).map(|(file, test)| (file.to_owned(), test.to_owned())).collect()
}

#[test]
fn each_test_that_the_page_names_is_there() {
    let mut missing = Vec::new();
    for (file, test) in rows().iter().flatten().flat_map(|cell| tests_named(cell)) {
        let text = fs::read_to_string(root().join(&file)).unwrap_or_default();
        let declaration = format!("fn {test}(");
        let at = text.find(&declaration);
        let is_test = at.is_some_and(|at| text[..at].trim_end().ends_with("#[test]"));
        if !is_test {
            missing.push(format!("{file}::{test}"));
        }
    }
    assert!(missing.is_empty(), "no such tests:\n  {}", missing.join("\n  "));
}

#[test]
fn each_row_names_a_test_or_says_why_not() {
    let rows = rows();
    assert!(rows.len() > 50, "the page has its {} rows", rows.len());
    for row in &rows {
        assert_eq!(row.len(), 3, "fault, source, where it is tried: {row:?}");
        let says = row[2].contains("::") || row[2].contains("not possible") || row[2].contains("Seen:");
        assert!(says, "no test and no reason: {row:?}");
    }
}
