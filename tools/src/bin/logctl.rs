//! logctl: looks at a store, at rest or running, and never changes it.
//! Next: command/mod.rs has the commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    logd_tools::main()
}
