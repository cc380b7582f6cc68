//! One request to an ordered key-value store, as small as a number: keys and values are made from it where they are needed.
//! Guarantees: the same operation means the same key and the same bytes on every target.
//! Must not know: how requests are chosen, and what carries them out.
//! Next: mixed.rs chooses; target/store.rs carries out.

use logd_engine::prng::Prng;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read one record.
    Read,
    /// Write one record, new or not.
    Put,
    /// Read one record, then write it.
    Modify,
    /// Write one record that was not there.
    Insert,
    /// Read `count` records on from a key.
    Scan,
    /// Remove `count` records on from a key, at once.
    Take,
}

impl Kind {
    /// All, in the order of their numbers.
    pub const ALL: [Kind; 6] = [Kind::Read, Kind::Put, Kind::Modify, Kind::Insert, Kind::Scan, Kind::Take];

    /// Its word in reports.
    pub fn word(self) -> &'static str {
        ["read", "write", "read-modify-write", "insert", "scan", "remove"][self as usize]
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        !matches!(self, Kind::Read | Kind::Scan)
    }
}

/// How record numbers become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// Scattered over the key space.
    Hashed,
    /// In the order of the numbers.
    Counted,
}

impl KeyOrder {
    /// The key of a record.
    pub fn key(self, number: u64) -> Key {
        let number = match self {
            KeyOrder::Hashed => Prng::new(number).next_u64(),
            KeyOrder::Counted => number,
        };
        let mut key = [0; KEY_BYTES];
        for (at, digit) in key.iter_mut().enumerate() {
            let nibble = (number >> (4 * (KEY_BYTES - 1 - at))) & 0xf;
            *digit = b"0123456789abcdef"[nibble as usize];
        }
        key
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub kind: Kind,
    /// How numbers become keys.
    pub order: KeyOrder,
    /// Number of the record, or of the first one.
    pub number: u64,
    /// Records of a scan or removal; 1 otherwise.
    pub count: u32,
    /// Bytes of the value written; of a read, the bytes expected.
    pub bytes: u32,
    /// From what the value is made.
    pub fill: u64,
}

impl Operation {
    /// The key, or the first one.
    pub fn key(&self) -> Key {
        self.order.key(self.number)
    }

    /// All keys of a scan or removal over counted keys.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        (0..u64::from(self.count)).map(|step| self.order.key(self.number + step))
    }

    /// Puts the value into a buffer: bytes that do not compress.
    pub fn value(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        let mut prng = Prng::new(self.fill ^ self.number.rotate_left(32));
        while buffer.len() < self.bytes as usize {
            buffer.extend_from_slice(&prng.next_u64().to_le_bytes());
        }
        buffer.truncate(self.bytes as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: Operation =
        Operation { kind: Kind::Put, order: KeyOrder::Counted, number: 255, count: 1, bytes: 13, fill: 1 };

    #[test]
    fn counted_keys_sort_as_their_numbers() {
        let keys: Vec<Key> = Operation { count: 300, number: 0, ..PUT }.keys().collect();
        assert!(keys.is_sorted());
        assert_eq!(&PUT.key(), b"00000000000000ff");
    }

    #[test]
    fn hashed_keys_differ_and_stay_the_same() {
        let mut keys: Vec<Key> = (0..1000).map(|number| KeyOrder::Hashed.key(number)).collect();
        assert_eq!(keys[7], KeyOrder::Hashed.key(7));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn a_value_has_its_length_and_depends_on_fill_and_record() {
        let value = |operation: Operation| {
            let mut buffer = Vec::new();
            operation.value(&mut buffer);
            buffer
        };
        assert_eq!(value(PUT).len(), 13);
        assert_eq!(value(PUT), value(PUT));
        assert_ne!(value(PUT), value(Operation { fill: 2, ..PUT }));
        assert_ne!(value(PUT), value(Operation { number: 3, ..PUT }));
    }
}
