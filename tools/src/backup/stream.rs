//! A backup as a tar stream, for a pipe to another box.
//! Guarantees: snapshots and log are checked before they are sent, and it is made sure that no file was written anew while it was
//! sent; the catalogue comes last, so that a stream cut short is no backup.
//! Must not know: where the stream goes.
//! Next: restore.rs takes it apart.

use super::catalogue::{Catalogue, FILE};
use super::copy::{Done, check_snapshot};
use super::survey::{Survey, survey};
use crate::command::ToolError;
use crate::fresh::failed;
use crate::progress::Progress;
use logd_engine::Error;
use logd_engine::clock::{Clock, OsClock};
use logd_engine::disk::OsStorage;
use logd_engine::format::manifest::encode;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tar::{Builder, Header};

const FILE_MODE: u32 = 0o640;

/// Sends a whole backup.
pub fn run(source: &Path, write: impl Write) -> Result<Done, ToolError> {
    let Survey { mut new } = survey(source, &Catalogue::default())?;
    if new.segments.is_empty() {
        return Err(ToolError::Io(format!("{} has nothing to back up yet", source.display())));
    }
    let storage = OsStorage::read_only(source).map_err(Error::from)?;
    new.snapshots.iter().try_for_each(|snapshot| check_snapshot(&storage, snapshot))?;
    let bytes = new.segments.iter().map(|one| one.used_bytes).chain(new.snapshots.iter().map(|one| one.bytes)).sum();
    let mut progress = Progress::of("backup", "files", bytes);
    let mut builder = Builder::new(write);
    let manifest = new.manifest(&new.segments.iter().collect::<Vec<_>>(), &new.snapshots.iter().collect::<Vec<_>>())?;
    let mut slots = encode(&manifest, 1).to_vec();
    slots.extend_from_slice(&encode(&manifest, 2)[..]);
    append(&mut builder, "manifest", &slots)?;
    for snapshot in &mut new.snapshots {
        snapshot.crc = send(&mut builder, source, &snapshot.file, snapshot.bytes, snapshot.bytes, &mut progress)?;
    }
    for segment in &mut new.segments {
        segment.crc = send(&mut builder, source, &segment.file, segment.used_bytes, segment.bytes, &mut progress)?;
    }
    new.finished_millis = OsClock.wall().0;
    append(&mut builder, FILE, &new.bytes())?;
    let end = builder.into_inner().and_then(|mut write| write.flush());
    end.map_err(|error| failed("write", Path::new("the stream"), &error))?;
    let files = (new.snapshots.len() + new.segments.len()) as u64;
    Ok(Done { catalogue: new, files, bytes: progress.finish().bytes, linked: 0, retries: 0 })
}

fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(FILE_MODE);
    header.set_mtime(OsClock.wall().0 / 1000);
    header
}

fn append<W: Write>(builder: &mut Builder<W>, name: &str, bytes: &[u8]) -> Result<(), ToolError> {
    let appended = builder.append_data(&mut header(bytes.len() as u64), name, bytes);
    appended.map_err(|error| failed("send", Path::new(name), &error))
}

/// Sums up what is read through it.
struct Summing<R> {
    read: R,
    hasher: crc32fast::Hasher,
    progress_bytes: u64,
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.progress_bytes += read as u64;
        Ok(read)
    }
}

/// Sends the used bytes of a file and zeros behind them. Gives the CRC-32 of the former.
fn send<W: Write>(
    builder: &mut Builder<W>,
    source: &Path,
    name: &str,
    bytes: u64,
    bytes_total: u64,
    progress: &mut Progress,
) -> Result<u32, ToolError> {
    let path = source.join(name);
    let file = File::open(&path).map_err(|error| ToolError::Overtaken(format!("{}: {error}", path.display())))?;
    let inode = file.metadata().map_err(|error| failed("look at", &path, &error))?.ino();
    let mut summing = Summing { read: file.take(bytes), hasher: crc32fast::Hasher::new(), progress_bytes: 0 };
    let zeros = io::repeat(0).take(bytes_total - bytes);
    let appended = builder.append_data(&mut header(bytes_total), name, summing.by_ref().chain(zeros));
    appended.map_err(|error| failed("send", &path, &error))?;
    // A retired segment is renamed before it is written anew: while the name stands, so do the bytes.
    let is_still = fs::metadata(&path).is_ok_and(|metadata| metadata.ino() == inode);
    if !is_still || summing.progress_bytes != bytes {
        return Err(ToolError::Overtaken(format!("{} was retired while it was sent", path.display())));
    }
    progress.add(1, bytes);
    Ok(summing.hasher.finalize())
}
