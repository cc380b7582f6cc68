//! Numbers that stand for places in a SCAN: clients send numbers back, our places are a shard and the last key told.
//! Guarantees: bounded in number and bytes; the newest places stay, so a cursor may be used again and by anyone; two
//! places never share a number.
//! Must not know: what is scanned.
//! Next: scan.rs.
//!
//! A number has 53 bits, not 64: clients in JavaScript keep it in a double. It is drawn from a hash of the place, so that
//! a request that is run again gets the number it had; a number that is taken by another place yields to the next free.

use logd_engine::ScanPosition;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

const NUMBER_MAX: u64 = (1 << 53) - 1;
const PLACES_MAX: usize = 65_536;
/// Keys may be long, so their bytes are bounded too.
const KEY_BYTES_MAX: usize = 16 << 20;

/// The places of all clients.
#[derive(Debug)]
pub struct Cursors {
    table: Mutex<Table>,
    places_max: usize,
    key_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    places: HashMap<u64, Place>,
    /// Number by age.
    ages: BTreeMap<u64, u64>,
    age_next: u64,
    key_bytes: usize,
}

#[derive(Debug)]
struct Place {
    database: usize,
    position: ScanPosition,
    age: u64,
}

impl Default for Cursors {
    fn default() -> Cursors {
        Cursors::new()
    }
}

impl Cursors {
    /// An empty table.
    pub fn new() -> Cursors {
        Cursors { table: Mutex::default(), places_max: PLACES_MAX, key_bytes_max: KEY_BYTES_MAX }
    }

    /// The number for a place, from 1 on.
    pub fn number(&self, database: usize, position: ScanPosition) -> u64 {
        let mut hasher = DefaultHasher::new();
        (database, &position).hash(&mut hasher);
        self.number_from(hasher.finish(), database, position)
    }

    /// The place behind a number that was given out for this database. `None` if it was not, or too long ago.
    pub fn place(&self, database: usize, number: u64) -> Option<ScanPosition> {
        let table = self.table.lock();
        let place = table.places.get(&number).filter(|place| place.database == database)?;
        Some(place.position.clone())
    }

    fn number_from(&self, hash: u64, database: usize, position: ScanPosition) -> u64 {
        let mut table = self.table.lock();
        let mut number = hash & NUMBER_MAX;
        while number == 0 || table.is_other(number, database, &position) {
            number = (number + 1) & NUMBER_MAX;
        }
        table.forget(number);
        table.remember(number, database, position);
        while table.ages.len() > self.places_max || (table.key_bytes > self.key_bytes_max && table.ages.len() > 1) {
            table.forget_oldest();
        }
        number
    }
}

impl Table {
    fn is_other(&self, number: u64, database: usize, position: &ScanPosition) -> bool {
        self.places.get(&number).is_some_and(|place| place.database != database || place.position != *position)
    }

    fn remember(&mut self, number: u64, database: usize, position: ScanPosition) {
        let age = self.age_next;
        self.age_next += 1;
        self.key_bytes += key_bytes(&position);
        self.ages.insert(age, number);
        self.places.insert(number, Place { database, position, age });
    }

    fn forget(&mut self, number: u64) {
        if let Some(place) = self.places.remove(&number) {
            self.ages.remove(&place.age);
            self.key_bytes -= key_bytes(&place.position);
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.ages.first_key_value().map(|(_, number)| *number);
        if let Some(number) = oldest {
            self.forget(number);
        }
    }
}

fn key_bytes(position: &ScanPosition) -> usize {
    position.after.as_ref().map_or(0, |key| key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(key: &str) -> ScanPosition {
        ScanPosition { shard: 1, after: Some(key.as_bytes().into()) }
    }

    #[test]
    fn a_number_leads_back_to_its_place_as_often_as_asked_but_in_its_database_only() {
        let cursors = Cursors::new();
        let number = cursors.number(2, position("a"));
        assert!(number > 0);
        assert!(number <= NUMBER_MAX);
        assert_eq!(cursors.place(2, number), Some(position("a")));
        assert_eq!(cursors.place(2, number), Some(position("a")));
        assert_eq!(cursors.place(3, number), None);
        assert_eq!(cursors.number(2, position("a")), number);
    }

    #[test]
    fn the_oldest_places_are_forgotten_first_and_a_renewed_one_is_not_old() {
        let cursors = Cursors { places_max: 2, ..Cursors::new() };
        let first = cursors.number(0, position("a"));
        let second = cursors.number(0, position("b"));
        cursors.number(0, position("a"));
        let third = cursors.number(0, position("c"));
        assert_eq!(cursors.place(0, second), None);
        assert_eq!(cursors.place(0, first), Some(position("a")));
        assert_eq!(cursors.place(0, third), Some(position("c")));
    }

    #[test]
    fn long_keys_are_bounded_by_their_bytes_and_the_newest_stays() {
        let cursors = Cursors { key_bytes_max: 10, ..Cursors::new() };
        let first = cursors.number(0, position("123456"));
        let second = cursors.number(0, position("much longer than the bound"));
        assert_eq!(cursors.place(0, first), None);
        assert!(cursors.place(0, second).is_some());
        assert_eq!(cursors.table.lock().key_bytes, 26);
    }

    #[test]
    fn places_with_the_same_hash_get_numbers_of_their_own() {
        let cursors = Cursors::new();
        assert_eq!(cursors.number_from(NUMBER_MAX, 0, position("a")), NUMBER_MAX);
        assert_eq!(cursors.number_from(NUMBER_MAX, 0, position("b")), 1);
        assert_eq!(cursors.number_from(0, 0, position("c")), 2);
        assert_eq!(cursors.place(0, 1), Some(position("b")));
    }
}
