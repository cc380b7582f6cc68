//! The commands: their flags, and what they may fail with.
//! Guarantees: exit codes are those of `EXIT_CODES`; a wrong command line is never taken for a verdict about a store.
//! Must not know: how a command does its work.
//! Next: one file for each command.

mod backup;
mod check;
mod digest;
mod dump;
mod effect_text;
mod export;
mod generate;
mod health;
mod import;
mod repair;
mod replay;
mod restore;
mod stats;
mod verify;

pub use export::database_of;

use crate::daemon::DaemonError;
use crate::directory;
use crate::exchange::input::InputError;
use crate::place::Place;
use crate::render::Output;
use crate::store::Store;
use logd_engine::Error;
use logd_engine::error::Refused;
use std::path::Path;

/// Exit code of success, and of a sound store.
pub const EXIT_OK: u8 = 0;
/// Exit code of `verify` for a torn tail, and of `replay --check` for another digest.
pub const EXIT_DIFFERENT: u8 = 1;
/// Exit code for damage.
pub const EXIT_CORRUPT: u8 = 2;
/// Exit code where there is no store.
pub const EXIT_NOT_A_STORE: u8 = 3;
/// Exit code where something could not be done.
pub const EXIT_FAILED: u8 = 4;
/// Exit code of a wrong command line.
pub const EXIT_USAGE: u8 = 64;

const EXIT_CODES: &str = "Exit codes, of all commands:
  0   success; verify: sound; health: ok
  1   done, but something differs or is missing: a torn tail, another digest, a loss in repair --dry-run, left out on import or
      export, health: warn
  2   damaged: a store, a backup or a file that is read; health: bad
  3   not a store
  4   failed, or refused without harm
  64  wrong command line
Nothing is written to what is looked at (`repair` writes to another directory); a running daemon may keep its store open meanwhile.
Long work shows its progress on standard error. docs/OPERATIONS.md has the ways of backup and rescue step by step.";

/// Looks at logd stores, at rest or running; backs up, restores, replays, imports and exports.
#[derive(clap::Parser, Debug)]
#[command(name = "logctl", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Print JSON, with a schema number.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Check every checksum and every relation between the files of a store.
    Verify(verify::Arguments),
    /// Show what is in the manifest, the snapshots and the log.
    Dump(dump::Arguments),
    /// Save what is whole of a damaged store into a new directory.
    Repair(repair::Arguments),
    /// Rebuild the state in memory, up to an LSN or a moment.
    Replay(replay::Arguments),
    /// Print the digest of a state: the same for a directory, a daemon and a replay.
    Digest(digest::Arguments),
    /// Print counters of a daemon, or what the files of a directory tell.
    Stats(stats::Arguments),
    /// Tell in one look whether all is well with a daemon or a directory.
    Health(health::Arguments),
    /// Copy a store while it is in use, to a directory or a stream; again into the same directory: what is new.
    Backup(backup::Arguments),
    /// Make a store of a backup, as of its end or of any point within it.
    Restore(restore::Arguments),
    /// Take over the data of a Redis or Valkey server from its RDB or AOF files.
    Import(import::Arguments),
    /// Give all data as RESP commands, as JSON lines or as an RDB file.
    Export(export::Arguments),
    /// Print completions for a shell.
    Completions(generate::CompletionArguments),
    /// Write the manual pages of logctl and logd.
    Man(generate::ManArguments),
}

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The engine's readers refused.
    #[error("failed to read the store: {0}")]
    Engine(#[from] Error),
    /// A daemon could not be asked.
    #[error("{0}")]
    Daemon(#[from] DaemonError),
    /// There is no store.
    #[error("{place} is not a store: no manifest, log or snapshot is in it")]
    NotAStore {
        /// Where.
        place: String,
    },
    /// A command in the log could not be applied.
    #[error("failed to replay LSN {lsn}, {place}: {reason}")]
    Replay {
        /// Its LSN.
        lsn: u64,
        /// Where it stands.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of another store is damaged.
    #[error("failed to read {0}")]
    Input(#[from] InputError),
    /// A backup or export is damaged.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The store changed faster than it was copied.
    #[error("the store retired files while they were copied: {0}; run it again")]
    Overtaken(String),
    /// A file of our own cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// Some of it has no place in a logd store.
    #[error("{0}")]
    Unsupported(String),
    /// It cannot be done as asked.
    #[error("{0}")]
    Usage(String),
}

impl From<Refused> for ToolError {
    fn from(refused: Refused) -> ToolError {
        ToolError::Engine(refused.into())
    }
}

impl ToolError {
    /// The exit code that goes with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            ToolError::Engine(Error::Corrupt(_))
            | ToolError::Replay { .. }
            | ToolError::Input(_)
            | ToolError::Damaged(_) => EXIT_CORRUPT,
            ToolError::NotAStore { .. } => EXIT_NOT_A_STORE,
            ToolError::Usage(_) => EXIT_USAGE,
            ToolError::Engine(_)
            | ToolError::Daemon(_)
            | ToolError::Io(_)
            | ToolError::Overtaken(_)
            | ToolError::Unsupported(_) => EXIT_FAILED,
        }
    }
}

/// Runs a command. Gives the exit code.
pub fn run(command: &Command, output: &Output) -> Result<u8, ToolError> {
    match command {
        Command::Verify(arguments) => verify::run(arguments, output),
        Command::Dump(arguments) => dump::run(arguments, output),
        Command::Repair(arguments) => repair::run(arguments, output),
        Command::Replay(arguments) => replay::run(arguments, output),
        Command::Digest(arguments) => digest::run(arguments, output),
        Command::Stats(arguments) => stats::run(arguments, output),
        Command::Backup(arguments) => backup::run(arguments, output),
        Command::Restore(arguments) => restore::run(arguments, output),
        Command::Import(arguments) => import::run(arguments, output),
        Command::Export(arguments) => export::run(arguments, output),
        Command::Health(arguments) => health::run(arguments, output),
        Command::Completions(arguments) => generate::completions(arguments),
        Command::Man(arguments) => generate::man(arguments, output),
    }
}

/// Opens the store in a directory for reading, and says so if it is in use.
fn open(path: &Path, output: &Output) -> Result<Box<dyn Store>, ToolError> {
    let store = directory::open(path)?;
    if let Some(process) = store.holder() {
        output.note(&format!(
            "process {process} has this store open; what is read may be older than what it has, and its end may move"
        ));
    }
    Ok(store)
}

/// The directory of a place, for commands that read files.
fn directory_of(place: &Place) -> Result<&Path, ToolError> {
    match place {
        Place::Directory(path) => Ok(path),
        _ => Err(ToolError::Usage("this command reads a directory, not a daemon".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::corrupt;
    use clap::{CommandFactory, Parser};

    #[test]
    fn exit_codes_tell_damage_from_absence_and_misuse() {
        assert_eq!(ToolError::Engine(corrupt("log/1").into()).exit_code(), 2);
        assert_eq!(ToolError::NotAStore { place: "x".to_owned() }.exit_code(), 3);
        assert_eq!(ToolError::Engine(Refused::Closed.into()).exit_code(), 4);
        assert_eq!(ToolError::Usage(String::new()).exit_code(), 64);
    }

    #[test]
    fn every_command_shows_examples_in_its_help() {
        for command in Arguments::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn json_may_stand_before_or_behind_the_command() {
        assert!(Arguments::try_parse_from(["logctl", "--json", "verify", "d"]).unwrap().json);
        assert!(Arguments::try_parse_from(["logctl", "verify", "d", "--json"]).unwrap().json);
        assert!(Arguments::try_parse_from(["logctl", "replay", "d", "--to-lsn", "1", "--to-time", "2"]).is_err());
        assert!(Arguments::try_parse_from(["logctl", "repair", "d"]).is_err(), "it never works in place");
    }
}
