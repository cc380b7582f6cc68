//! The configuration file: `key = value` lines with the names of the flags.
//! Guarantees: what a flag refuses, the file refuses, naming the line; an unknown key is an error, never ignored.
//! Must not know: what the keys mean; the flags' own parser reads the values.
//! Next: args.rs.

use crate::args::Args;
use clap::{CommandFactory, Parser};
use std::path::Path;

/// Flags that make no sense in a file.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// Reads a file. Errors name it and the line.
pub fn read(path: &Path) -> Result<Args, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    parse(&text).map_err(|(line, error)| format!("{} line {line}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Args, (usize, String)> {
    let command = Args::command();
    let mut flags = vec!["logd".to_owned()];
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at_line = |error: String| (index + 1, error);
        let (key, value) =
            line.split_once('=').ok_or_else(|| at_line(format!("{line:?} is not of the form key = value")))?;
        let (key, value) = (key.trim(), value.trim());
        let is_known = command.get_arguments().any(|argument| argument.get_long() == Some(key));
        if !is_known || NOT_IN_FILES.contains(&key) {
            return Err(at_line(format!("unknown key {key:?}")));
        }
        flags.push(format!("--{key}={value}"));
        // Parsed after each line, so that an error is that line's.
        Args::try_parse_from(&flags).map_err(|error| at_line(first_line(&error)))?;
    }
    Args::try_parse_from(&flags).map_err(|error| (0, first_line(&error)))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_set_what_flags_set() {
        let args =
            parse("# store\ndir = /data/logd\n\nlag-ms=20\nlisten = 127.0.0.1:1\nlisten = 127.0.0.1:2\n").unwrap();
        assert_eq!(args.dir.as_deref(), Some(Path::new("/data/logd")));
        assert_eq!((args.lag_ms, args.listen.len()), (Some(20), 2));
    }

    #[test]
    fn errors_name_the_line() {
        for text in [
            "dir = a\nlagms = 3\n",
            "dir = a\nconfig = b",
            "dir = a\nlag-ms = soon",
            "dir = a\nnonsense",
            "dir=a\ndir=b",
        ] {
            let (line, error) = parse(text).unwrap_err();
            assert_eq!(line, 2, "{error}");
        }
        assert_eq!(parse("lagms = 3").unwrap_err().1, "unknown key \"lagms\"");
    }

    #[test]
    fn flags_win_over_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logd.conf");
        std::fs::write(&path, "lag-ms = 20\nshards = 4\nport = 7001\n").unwrap();
        let line = ["logd", "--lag-ms", "30", "--config", path.to_str().unwrap()];
        let found = Args::try_parse_from(line).unwrap().resolve().unwrap();
        assert_eq!((found.options.lag_millis, found.options.shards), (30, 4));
        assert_eq!(found.settings.listen[0].port(), 7001);
    }
}
