//! `logctl completions` and `logctl man`: made from the definitions of the flags, so that they cannot differ from them.
//! Guarantees: the pages of logctl with all its commands, and of logd.
//! Must not know: what the flags do.
//! Next: mod.rs and logd's args.rs have the definitions.

use super::{EXIT_OK, ToolError};
use crate::fresh::failed;
use crate::render::Output;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::PathBuf;

const EXAMPLES_COMPLETIONS: &str = "Examples:
  logctl completions bash > /etc/bash_completion.d/logctl
  logctl completions zsh > /usr/share/zsh/site-functions/_logctl
  logctl completions fish --program logd > ~/.config/fish/completions/logd.fish";

const EXAMPLES_MAN: &str = "Examples:
  logctl man /usr/share/man/man1      logctl.1, logctl-verify.1 and so on, logd.1
  logctl man . && man ./logctl.1";

/// Flags of `completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES_COMPLETIONS)]
pub struct CompletionArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
    /// The program.
    #[arg(long, value_enum, default_value = "logctl")]
    program: Program,
}

/// Flags of `man`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES_MAN)]
pub struct ManArguments {
    /// Directory to write the pages to.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Programs whose flags are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    /// This tool
    Logctl,
    /// The daemon
    Logd,
}

impl Program {
    fn command(self) -> Command {
        match self {
            Program::Logctl => super::Arguments::command(),
            Program::Logd => logd::args::Args::command(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    files: Vec<String>,
}

/// Runs `completions`.
pub fn completions(arguments: &CompletionArguments) -> Result<u8, ToolError> {
    let mut command = arguments.program.command();
    let name = command.get_name().to_owned();
    let mut bytes = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut bytes);
    match io::Write::write_all(&mut io::stdout(), &bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(ToolError::Io(format!("failed to write the completions: {error}")))
        }
        _ => Ok(EXIT_OK),
    }
}

/// Runs `man`.
pub fn man(arguments: &ManArguments, output: &Output) -> Result<u8, ToolError> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory).map_err(|error| failed("make", directory, &error))?;
    for program in [Program::Logctl, Program::Logd] {
        let command = program.command();
        clap_mangen::generate_to(command, directory).map_err(|error| failed("write to", directory, &error))?;
    }
    let listed = fs::read_dir(directory).map_err(|error| failed("list", directory, &error))?;
    let mut files: Vec<String> = listed
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".1"))
        .collect();
    files.sort();
    output.result(&Report { command: "man", files }, |report| report.files.join("\n") + "\n");
    Ok(EXIT_OK)
}
