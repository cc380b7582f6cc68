//! logd: the daemon. Wiring only.
//! Next: args.rs, server.rs, shutdown.rs.

use clap::Parser;
use logd::args::{Args, Resolved};
use logd::notes::{note, say};
use logd::server::{self, Server};
use logd::shared::Shared;
use logd::shutdown::StopSignal;
use logd::voter;
use logd_engine::Db;
use logd_engine::db::Builder;
use logd_engine::log::SpaceNow;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&error);
            ExitCode::FAILURE
        }
    }
}

/// Errors are complete sentences for the user.
fn run(args: Args) -> Result<(), String> {
    let Resolved { mut settings, options, io } = args.resolve()?;
    let mut signal = StopSignal::new().map_err(|error| format!("failed to handle signals: {error}"))?;
    settings.clients_max = server::clients_max(settings.clients_max, settings.threads);
    let (dir, durability) = (settings.dir.display().to_string(), settings.durability);
    note(&format!("opening {dir}"));
    let builder = Db::builder(&settings.dir).options(options).io(io);
    let opened = voter::procedures().into_iter().fold(builder, Builder::register).open();
    let db = opened.map_err(|error| format!("failed to open {dir}: {error}"))?;
    db.on_space(|space| note(&space_words(&space)));
    let recovery = db.stats().recovery;
    note(&recovery.words);
    recovery.notes.iter().for_each(|text| note(text));
    let shared = Shared::new(db, settings).map_err(|error| format!("failed to open {dir}: {error}"))?;
    let shared = Arc::new(shared);
    shared.on_shutdown(signal.hook().map_err(|error| format!("failed to handle signals: {error}"))?);
    let server = Server::start(Arc::clone(&shared)).map_err(|error| error.to_string())?;
    say(&format!(
        "logd ready: listening on {}, dir {dir}, durability {}",
        server.names().join(", "),
        durability.word()
    ));
    signal.wait();
    note("stopping");
    server.stop().map_err(|error| format!("stopped, but failed to {error}"))?;
    note("stopped");
    Ok(())
}

/// One line for each change, so that a disk that stays full does not fill the log of the service as well.
fn space_words(space: &SpaceNow) -> String {
    let free = format!("{} bytes are free, {} are reserved", space.free_bytes, space.reserve_bytes);
    if space.is_low {
        format!("the disk is full ({free}): writes that grow the store are refused, deletes and reads go on")
    } else {
        format!("the disk has room again ({free}): all writes go on")
    }
}
