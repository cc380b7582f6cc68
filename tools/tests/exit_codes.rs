//! The tool as a program: exit codes and help, as scripts rely on them.

use std::process::{Command, Output};

fn logctl(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_logctl")).args(words).output().expect("logctl starts")
}

#[test]
fn an_empty_directory_is_not_a_store() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let output = logctl(&["verify", &directory.path().to_string_lossy()]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(directory.path().read_dir().expect("readable").count(), 0, "nothing was made there");
}

#[test]
fn every_command_has_help_with_examples() {
    for command in [
        "verify",
        "dump",
        "replay",
        "digest",
        "stats",
        "import",
        "export",
        "backup",
        "restore",
        "health",
        "completions",
        "man",
    ] {
        let output = logctl(&[command, "--help"]);
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(text.contains("example"), "{command} has no example");
    }
}

#[test]
fn a_wrong_command_line_is_not_taken_for_damage() {
    assert_eq!(logctl(&["verify"]).status.code(), Some(64));
}
