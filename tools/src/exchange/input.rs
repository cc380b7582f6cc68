//! Reads a file from front to back, knows where it is, and sums up what it read.
//! Guarantees: an error names file and byte; memory is taken only for bytes that are there.
//! Must not know: what the bytes mean.
//! Next: rdb_read.rs, aof.rs.

use crc::{CRC_64_REDIS, Crc, Digest, Table};
use std::io::{self, BufRead, Read};

/// The checksum of RDB files (Jones' polynomial).
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Begins such a checksum.
pub fn crc_digest() -> Digest<'static, u64, Table<16>> {
    CRC.digest()
}

/// What is wrong with a file that is read.
#[derive(Debug, thiserror::Error)]
#[error("{file} at byte {offset}: {reason}")]
pub struct InputError {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
    /// Whether the file merely ends too early.
    pub is_short: bool,
}

/// A file being read.
pub struct Input<R> {
    read: R,
    file: String,
    offset: u64,
    digest: Option<Digest<'static, u64, Table<16>>>,
}

impl<R: BufRead> Input<R> {
    /// Begins at the front.
    pub fn new(read: R, file: impl Into<String>) -> Input<R> {
        Input { read, file: file.into(), offset: 0, digest: None }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// An error at the present place.
    pub fn wrong(&self, reason: impl Into<String>) -> InputError {
        InputError { file: self.file.clone(), offset: self.offset, reason: reason.into(), is_short: false }
    }

    fn failed(&self, error: &io::Error) -> InputError {
        let is_short = error.kind() == io::ErrorKind::UnexpectedEof;
        let reason = if is_short { "the file ends here, too early".to_owned() } else { error.to_string() };
        InputError { is_short, ..self.wrong(reason) }
    }

    /// Begins to sum up.
    pub fn start_digest(&mut self) {
        self.digest = Some(crc_digest());
    }

    /// Ends the sum.
    pub fn take_digest(&mut self) -> u64 {
        self.digest.take().map_or(0, |digest| digest.finalize())
    }

    fn took(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
    }

    /// What comes next, without taking it; empty at the end.
    pub fn peek(&mut self) -> Result<&[u8], InputError> {
        // An interrupted read is tried again, as everywhere in the standard library.
        while let Err(error) = self.read.fill_buf() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(self.failed(&error));
            }
        }
        Ok(self.read.fill_buf().unwrap_or_default())
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, InputError> {
        Ok(self.array::<1>()?[0])
    }

    /// A few bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], InputError> {
        let mut bytes = [0; N];
        self.read.read_exact(&mut bytes).map_err(|error| self.failed(&error))?;
        self.took(&bytes);
        Ok(bytes)
    }

    /// Many bytes: memory grows with what is there, not with what a length claims.
    pub fn bytes(&mut self, count: u64) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        let read = self.read.by_ref().take(count).read_to_end(&mut bytes).map_err(|error| self.failed(&error))?;
        self.took(&bytes);
        if (read as u64) < count {
            return Err(self.failed(&io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    /// Passes over bytes.
    pub fn skip(&mut self, mut count: u64) -> Result<(), InputError> {
        while count > 0 {
            let piece = count.min(1 << 16);
            self.bytes(piece)?;
            count -= piece;
        }
        Ok(())
    }

    /// A line of at most so many bytes, without its end.
    pub fn line(&mut self, bytes_max: u64) -> Result<Vec<u8>, InputError> {
        let mut line = Vec::new();
        self.read.by_ref().take(bytes_max).read_until(b'\n', &mut line).map_err(|error| self.failed(&error))?;
        self.took(&line);
        if line.pop() != Some(b'\n') {
            let is_long = line.len() as u64 + 1 >= bytes_max;
            let end = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(if is_long { self.wrong("a line without an end") } else { self.failed(&end) });
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }
}
