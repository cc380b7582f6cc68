//! What the daemon was told by flags and files, resolved: plain data that both halves of it read.
//! Guarantees: every field has a value; nothing here changes while the daemon runs.
//! Must not know: flags, files, CONFIG.
//! Next: shared.rs.

use logd_engine::DurabilityLevel;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Unix socket to listen on.
    pub unix: Option<PathBuf>,
    /// Threads that serve connections.
    pub threads: usize,
    /// Most connections at a time.
    pub clients_max: usize,
    /// Level of writes.
    pub durability: DurabilityLevel,
    /// Longest time that a write may stay unsynced, in milliseconds.
    pub lag_millis: u64,
    /// Disk backend asked for: "auto", "io_uring", "syscall".
    pub io: String,
    /// Most bytes of replies that may wait for a client.
    pub output_bytes_max: usize,
    /// Most bytes of a request.
    pub input_bytes_max: usize,
    /// The configuration file, if there is one.
    pub config_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dir: PathBuf::from("."),
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6379))],
            unix: None,
            threads: 1,
            clients_max: 10_000,
            durability: DurabilityLevel::Synced,
            lag_millis: 1000,
            io: "auto".to_owned(),
            output_bytes_max: 256 << 20,
            input_bytes_max: 1 << 30,
            config_file: None,
        }
    }
}
