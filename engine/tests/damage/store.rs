//! Small stores to be damaged: a log of several segments, two snapshots, a manifest.
//! Method: written by the engine with a kill between the segments; then the unused end of each segment is cut off and its header
//! says so, since zeros by the megabyte would only cost time.

use logd_engine::clock::SimClock;
use logd_engine::digest::Digest;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::error::Error;
use logd_engine::format::StoreId;
use logd_engine::format::manifest::{SLOT_BYTES, decode};
use logd_engine::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use logd_engine::limits::BLOCK_BYTES;
use logd_engine::units::Millis;
use logd_engine::{Db, Keyspace, Options, Scope};
use std::sync::Arc;

/// Files with their bytes.
pub type Image = Vec<(String, Vec<u8>)>;

/// A wall clock far from zero and from the end of time.
const WALL: Millis = Millis(1_700_000_000_000);

/// A whole store.
pub struct Store {
    pub image: Image,
    pub id: StoreId,
    /// Digest of all of it.
    pub full: Digest,
    /// Digests before each batch of the last segment. If the store was killed, nothing proves that the last batch was synced, and
    /// a file that ends early proves nothing of what it held.
    pub before: Vec<Digest>,
    pub stopped_cleanly: bool,
}

impl Store {
    /// Names of the segments, oldest first.
    pub fn segments(&self) -> Vec<&str> {
        self.image.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with(".seg")).collect()
    }

    pub fn last_segment(&self) -> &str {
        self.segments().last().expect("a store with a log")
    }

    pub fn snapshots(&self) -> Vec<&str> {
        self.image.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with(".snap")).collect()
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        let file = self.image.iter().find(|(known, _)| known == name);
        &file.unwrap_or_else(|| panic!("no {name}")).1
    }

    /// The image with one file changed.
    pub fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Image {
        let mut image = self.image.clone();
        let file = image.iter_mut().find(|(known, _)| known == name);
        change(&mut file.unwrap_or_else(|| panic!("no {name}")).1);
        image
    }

    /// The image without some files.
    pub fn without(&self, goes: impl Fn(&str) -> bool) -> Image {
        self.image.iter().filter(|(name, _)| !goes(name)).cloned().collect()
    }
}

pub fn medium(image: &Image) -> SimStorage {
    let storage = SimStorage::new(SimOptions::default());
    image.iter().for_each(|(name, bytes)| storage.put(name, bytes));
    storage
}

pub fn image_of(storage: &SimStorage) -> Image {
    storage.names().into_iter().map(|name| (name.clone(), storage.contents(&name).expect("listed"))).collect()
}

pub fn open(storage: &SimStorage) -> Result<Db, Error> {
    // Small buffers, so that what damage makes the engine allocate is seen beside what it always does.
    let options = Options {
        shards: 3,
        load_threads: 1,
        batch_bytes_max: 128 << 10,
        batches_in_flight_max: 1,
        ..Options::default()
    };
    let options = Options { segment_bytes: 1 << 20, ..options };
    let clock = Arc::new(SimClock::new(WALL));
    Db::builder("").options(options).storage(Arc::new(storage.clone()), clock).open()
}

fn fill(db: &Db, things: Keyspace, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let key = number.to_be_bytes();
        let expiry = (number % 3 == 0).then_some(Millis(WALL.0 * 2 + u64::from(number)));
        let bytes = [10, 100, 1500][number as usize % 3];
        let ticket = db.put(things, &key, &vec![number as u8 | 1; bytes], expiry, None).expect("room");
        db.wait(ticket, None).expect("a working disk");
    }
    let (_, ticket) = db.delete(things, &1_u32.to_be_bytes(), None).expect("room");
    db.wait(ticket, None).expect("a working disk");
}

fn open_things(storage: &SimStorage) -> (Db, Keyspace) {
    let db = open(storage).expect("a sound store");
    let things = db.keyspace("things", Default::default()).expect("room");
    (db, things)
}

/// A store of three segments and two snapshots. `last_count`: records of 4000 bytes in its last batch.
pub fn build(stopped_cleanly: bool, last_count: u32) -> Store {
    let mut storage = SimStorage::new(SimOptions::default());
    for round in 0..2 {
        let (db, things) = open_things(&storage);
        fill(&db, things, 20 * round..20 * round + 6);
        db.checkpoint().expect("a working disk");
        fill(&db, things, 20 * round + 6..20 * round + 9);
        storage = storage.kill();
    }
    let (db, things) = open_things(&storage);
    let mut before = vec![db.digest().1];
    for number in 50..53 {
        fill(&db, things, number..number + 1);
        before.push(db.digest().1);
    }
    let last = |transaction: &mut logd_engine::Transaction<'_>| {
        (0..last_count).try_for_each(|number| transaction.put(things, &[9, number as u8], &[7; 4000], None))
    };
    let ((), ticket) = db.transact(Scope::All, None, last).expect("room");
    db.wait(ticket, None).expect("a working disk");
    let full = db.digest().1;
    if stopped_cleanly {
        db.close().expect("a working disk");
    } else {
        await_proof(&storage);
        storage = storage.kill();
    }
    let (image, id) = shortened(image_of(&storage));
    let store = Store { image, id, full, before, stopped_cleanly };
    assert_eq!((store.segments().len(), store.snapshots().len()), (3, 2));
    store
}

/// Waits until the manifest names the last segment: the maintenance thread notes it soon after its first sync.
fn await_proof(storage: &SimStorage) {
    for _ in 0..2000 {
        let manifest = storage.contents("manifest").expect("a manifest");
        let newest =
            [&manifest[..SLOT_BYTES], &manifest[SLOT_BYTES..]].into_iter().filter_map(|slot| decode(slot).ok());
        if newest.map(|(manifest, _)| manifest.segment_proof.0).max() == Some(3) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the manifest never names the last segment");
}

fn shortened(image: Image) -> (Image, StoreId) {
    let manifest = image.iter().find(|(name, _)| name == "manifest").expect("a manifest");
    let id = StoreId(decode(&manifest.1[..SLOT_BYTES]).expect("sound").0.store_id.to_le_bytes());
    let short = image.into_iter().filter_map(|(name, mut bytes)| {
        if name.ends_with(".seg") {
            let mut header = SegmentHeader::decode(id, &bytes).ok()?;
            let end = bytes.iter().rposition(|byte| *byte != 0)?.next_multiple_of(BLOCK_BYTES) + 2 * BLOCK_BYTES;
            bytes.truncate(end);
            header.segment_bytes = end as u64;
            header.encode(id, &mut bytes[..SEGMENT_HEADER_BYTES]);
        }
        Some((name, bytes))
    });
    (short.filter(|(name, _)| name != "LOCK").collect(), id)
}
