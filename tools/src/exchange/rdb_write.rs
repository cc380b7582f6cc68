//! Writes an RDB file that Redis 7.0 and later, and Valkey, load.
//! Guarantees: version 10, strings only, with the checksum.
//! Must not know: where the records come from.
//! Next: rdb_read.rs reads it back.

use super::Record;
use super::input::crc_digest;
use crc::{Digest, Table};
use std::io::{self, Write};

/// A file in the middle of being written.
pub struct RdbWriter<W> {
    write: W,
    digest: Digest<'static, u64, Table<16>>,
    database: Option<u64>,
    buffer: Vec<u8>,
}

impl<W: Write> RdbWriter<W> {
    /// Writes the head.
    pub fn new(write: W) -> io::Result<RdbWriter<W>> {
        let mut writer = RdbWriter { write, digest: crc_digest(), database: None, buffer: b"REDIS0010".to_vec() };
        for (name, value) in [("redis-ver", "7.0.15"), ("redis-bits", "64")] {
            writer.buffer.push(0xfa);
            writer.string(name.as_bytes());
            writer.string(value.as_bytes());
        }
        writer.send()?;
        Ok(writer)
    }

    /// Adds a record. A key may come once only.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        if self.database != Some(record.database) {
            self.database = Some(record.database);
            self.buffer.push(0xfe);
            self.length(record.database);
        }
        if record.expiry_millis != 0 {
            self.buffer.push(0xfc);
            self.buffer.extend_from_slice(&record.expiry_millis.to_le_bytes());
        }
        self.buffer.push(0);
        self.string(&record.key);
        self.string(&record.value);
        self.send()
    }

    /// Writes the end with the checksum.
    pub fn finish(mut self) -> io::Result<W> {
        self.buffer.push(0xff);
        self.send()?;
        let sum = self.digest.finalize();
        self.write.write_all(&sum.to_le_bytes())?;
        Ok(self.write)
    }

    fn string(&mut self, bytes: &[u8]) {
        self.length(bytes.len() as u64);
        self.buffer.extend_from_slice(bytes);
    }

    fn length(&mut self, length: u64) {
        match length {
            0..64 => self.buffer.push(length as u8),
            64..16_384 => self.buffer.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]),
            _ if length <= u64::from(u32::MAX) => {
                self.buffer.push(0x80);
                self.buffer.extend_from_slice(&(length as u32).to_be_bytes());
            }
            _ => {
                self.buffer.push(0x81);
                self.buffer.extend_from_slice(&length.to_be_bytes());
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.digest.update(&self.buffer);
        self.write.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::input::Input;
    use crate::exchange::rdb_read::{Item, RdbReader};

    #[test]
    fn what_is_written_is_read_back_with_its_checksum() {
        let lengths = [0, 1, 63, 64, 16_383, 16_384, 100_000];
        let records: Vec<Record> = lengths
            .iter()
            .map(|&bytes| Record {
                database: bytes as u64 % 3,
                key: format!("key {bytes}").into_bytes(),
                value: vec![bytes as u8; bytes],
                expiry_millis: bytes as u64 * 7,
            })
            .collect();
        let mut writer = RdbWriter::new(Vec::new()).unwrap();
        records.iter().for_each(|record| writer.record(record).unwrap());
        let file = writer.finish().unwrap();
        let mut input = Input::new(&file[..], "test.rdb");
        let mut reader = RdbReader::new(&mut input).unwrap();
        for record in records {
            assert_eq!(reader.next().unwrap(), Some(Item::Record(record)));
        }
        assert_eq!(reader.next().unwrap(), None);
    }
}
