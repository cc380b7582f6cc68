//! SQLite with a write-ahead log: one connection writes, readers have their own.
//! Guarantees: synced is `synchronous=FULL`, which syncs the log at every commit.
//! Must not know: callers.

use super::super::direct::{Change, Peer, PeerError};
use super::{CACHE_BYTES, failed, how};
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An open database.
pub struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    syncs: bool,
}

impl Sqlite {
    /// Opens or makes it.
    pub fn open(directory: &Path, syncs: bool) -> Result<Sqlite, PeerError> {
        let path = directory.join("records.sqlite");
        let writer = connect(&path, syncs)?;
        let table = "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
        writer.execute(table, []).map_err(failed)?;
        Ok(Sqlite { path, writer: Mutex::new(writer), readers: Mutex::new(Vec::new()), syncs })
    }

    /// Reads over a connection that no other thread uses meanwhile.
    fn read<R>(&self, body: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R, PeerError> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, self.syncs)?,
        };
        let read = body(&connection).map_err(failed);
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        read
    }
}

fn connect(path: &Path, syncs: bool) -> Result<Connection, PeerError> {
    let connection = Connection::open(path).map_err(failed)?;
    let synchronous = if syncs { "FULL" } else { "NORMAL" };
    let settings = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA busy_timeout=10000; PRAGMA mmap_size={CACHE_BYTES}; PRAGMA cache_size=-65536"
    );
    connection.execute_batch(&settings).map_err(failed)?;
    Ok(connection)
}

impl Peer for Sqlite {
    fn describe(&self) -> String {
        format!("SQLite {}, WAL, {}", rusqlite::version(), how(self.syncs, "synchronous=FULL"))
    }

    fn get(&self, key: &[u8]) -> Result<bool, PeerError> {
        let value: Option<Vec<u8>> = self.read(|connection| {
            let mut select = connection.prepare_cached("SELECT value FROM records WHERE key = ?1")?;
            select.query_row([key], |row| row.get(0)).optional()
        })?;
        Ok(std::hint::black_box(value).is_some())
    }

    fn scan(&self, from: &[u8], count: usize) -> Result<usize, PeerError> {
        self.read(|connection| {
            let text = "SELECT value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2";
            let mut select = connection.prepare_cached(text)?;
            let mut rows = select.query((from, count as i64))?;
            let mut visited = 0;
            while let Some(row) = rows.next()? {
                std::hint::black_box(row.get_ref(0)?);
                visited += 1;
            }
            Ok(visited)
        })
    }

    fn write(&self, changes: &[Change]) -> Result<(), PeerError> {
        let mut connection = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let write = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            {
                let mut insert =
                    transaction.prepare_cached("INSERT OR REPLACE INTO records (key, value) VALUES (?1, ?2)")?;
                let mut delete = transaction.prepare_cached("DELETE FROM records WHERE key = ?1")?;
                for Change { key, value } in changes {
                    match value {
                        Some(value) => insert.execute((key.as_slice(), value.as_slice()))?,
                        None => delete.execute([key.as_slice()])?,
                    };
                }
            }
            transaction.commit()
        };
        write(&mut connection).map_err(failed)
    }
}
