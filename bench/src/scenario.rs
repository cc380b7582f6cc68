//! Scenario files: a question, and the command line that answers it.
//! Guarantees: a file that is not understood is refused, with its line.
//! Must not know: what the command does.
//! Next: main.rs runs it; bench/scenarios/ has the files.

/// A scenario.
#[derive(Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it answers.
    pub question: String,
    /// The words of the command line, without the program's name.
    pub words: Vec<String>,
}

/// Reads a file: two strings in TOML's plainest form, comments and empty lines.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let (mut question, mut command) = (None, None);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let quoted = |value: &str| {
            value
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
                .filter(|text| !text.contains(['"', '\\']))
                .map(str::to_owned)
        };
        match pair.map(|(name, value)| (name, quoted(value))) {
            Some(("question", Some(text))) => question = Some(text),
            Some(("command", Some(text))) => command = Some(text),
            _ => return Err(format!("line {number} is neither question = \"...\" nor command = \"...\"")),
        }
    }
    let question = question.ok_or("the file asks no question")?;
    let command = command.ok_or("the file has no command")?;
    Ok(Scenario { question, words: command.split_whitespace().map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn every_scenario_asks_a_question_and_has_a_command_that_parses() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut count = 0;
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let scenario = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert!(scenario.question.ends_with('?'), "{path:?}");
            let words = ["logbench".to_owned()].into_iter().chain(scenario.words);
            let parsed = Arguments::try_parse_from(words).map(|arguments| arguments.command);
            assert!(parsed.is_ok_and(|command| !matches!(command, Command::Scenario(_))), "{path:?}");
            count += 1;
        }
        assert!(count >= 5);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        assert!(parse("question = \"a?\"\n").is_err());
        assert!(parse("question = \"a?\"\ncommand = kv\n").unwrap_err().contains("line 2"));
        let scenario = parse("# x\nquestion = \"a?\"\n\ncommand = \"kv --letter a\"\n").unwrap();
        assert_eq!(scenario.words, ["kv", "--letter", "a"]);
    }
}
