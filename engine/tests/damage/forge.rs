//! Changes single fields of the structures and makes the checksums right again: what only bounds on values can find.

use super::store::{Image, Store};
use logd_engine::format::batch::{self, BATCH_HEADER_BYTES, decode_header};
use logd_engine::format::checksum::checksum;
use logd_engine::format::segment::SEGMENT_HEADER_BYTES;
use logd_engine::format::{Field, StoreId, manifest, segment, snapshot, snapshot_block};
use logd_engine::limits::BLOCK_BYTES;

/// Values that lengths, counts and places are set to.
const EXTREMES: [u64; 7] = [0, 1, 0x7fff_ffff, 0xffff_ffff, u64::MAX / 2, u64::MAX - 1, u64::MAX];

/// Makes the checksums of a file right again.
type Reseal = Box<dyn Fn(&mut [u8])>;

/// A structure in a file.
pub struct Place {
    pub file: String,
    pub what: &'static str,
    /// Its copies in the file, each at this byte.
    pub offsets: Vec<usize>,
    pub fields: &'static [Field],
    pub reseal: Reseal,
}

fn put_crc(bytes: &mut [u8], at: usize, crc: u32) {
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The checksum of a structure whose checksum field counts as zeros.
fn seal_bare(bytes: &mut [u8], at: usize) {
    put_crc(bytes, at, 0);
    let crc = crc32fast::hash(bytes);
    put_crc(bytes, at, crc);
}

/// The checksum of a structure of the log, which leaves its own field out.
fn seal_log(store: StoreId, bytes: &mut [u8], at: usize) {
    let crc = checksum(store, &[&bytes[..at], &bytes[at + 4..]]);
    put_crc(bytes, at, crc);
}

fn number(bytes: &[u8], fields: &[Field], name: &str) -> u64 {
    let field = fields.iter().find(|field| field.name == name).expect("a field of the table");
    let mut wide = [0; 8];
    wide[..field.bytes.min(8)].copy_from_slice(&bytes[field.offset..field.offset + field.bytes.min(8)]);
    u64::from_le_bytes(wide)
}

/// Every structure with a checksum in a store.
pub fn places(store: &Store) -> Vec<Place> {
    let mut places = vec![manifest_slot(store), manifest_body(store)];
    store.segments().iter().for_each(|name| in_segment(store, name, &mut places));
    store.snapshots().iter().for_each(|name| in_snapshot(store, name, &mut places));
    places
}

fn reseal_manifest() -> Reseal {
    Box::new(|bytes| bytes.chunks_exact_mut(manifest::SLOT_BYTES).for_each(|slot| seal_bare(slot, 12)))
}

fn manifest_slot(_: &Store) -> Place {
    let (file, offsets) = ("manifest".to_owned(), vec![0, manifest::SLOT_BYTES]);
    Place { file, what: "manifest slot", offsets, fields: manifest::SLOT_FIELDS, reseal: reseal_manifest() }
}

/// The root of the archived body, which stands at its end.
fn manifest_body(store: &Store) -> Place {
    let bytes = store.bytes("manifest");
    let root = |slot: usize| {
        let body_bytes = number(&bytes[slot..], manifest::SLOT_FIELDS, "body_bytes") as usize;
        slot + 32 + body_bytes - manifest::BODY_ROOT_BYTES
    };
    let (file, offsets) = ("manifest".to_owned(), vec![root(0), root(manifest::SLOT_BYTES)]);
    Place { file, what: "manifest body", offsets, fields: manifest::BODY_FIELDS, reseal: reseal_manifest() }
}

fn in_segment(store: &Store, name: &str, places: &mut Vec<Place>) {
    let id = store.id;
    let last = segment::FIELDS.last().expect("fields");
    let header_bytes = last.offset + last.bytes;
    places.push(Place {
        file: name.to_owned(),
        what: "segment header",
        offsets: vec![0],
        fields: segment::FIELDS,
        reseal: Box::new(move |bytes| seal_log(id, &mut bytes[..header_bytes], 12)),
    });
    let bytes = store.bytes(name);
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(Ok(header)) = bytes.get(at..).map(|rest| decode_header(id, rest, rest.len() as u64)) {
        places.push(Place {
            file: name.to_owned(),
            what: "batch header",
            offsets: vec![at],
            fields: batch::FIELDS,
            reseal: Box::new(move |bytes| seal_log(id, &mut bytes[at..at + BATCH_HEADER_BYTES], 8)),
        });
        at += header.padded_bytes() as usize;
    }
}

fn in_snapshot(store: &Store, name: &str, places: &mut Vec<Place>) {
    let bytes = store.bytes(name);
    let trailer_at = bytes.len() - BLOCK_BYTES;
    let trailer = &bytes[trailer_at..];
    let index_at = number(trailer, snapshot::TRAILER_FIELDS, "index_offset") as usize;
    let rows = number(trailer, snapshot::TRAILER_FIELDS, "block_count") as usize;
    let rows_end = index_at + rows * snapshot::PLACE_BYTES;
    let place = |what, at, fields, reseal| Place { file: name.to_owned(), what, offsets: vec![at], fields, reseal };
    let head: Reseal = Box::new(|bytes| seal_bare(&mut bytes[..snapshot::HEADER_BYTES], 12));
    places.push(place("snapshot header", 0, snapshot::HEADER_FIELDS, head));
    let end: Reseal = Box::new(move |bytes| seal_bare(&mut bytes[trailer_at..trailer_at + 80], 12));
    places.push(place("snapshot trailer", trailer_at, snapshot::TRAILER_FIELDS, end));
    for row in 0..rows {
        let row_at = index_at + row * snapshot::PLACE_BYTES;
        let reseal: Reseal = Box::new(move |bytes| {
            let crc = crc32fast::hash(&bytes[index_at..rows_end]);
            put_crc(bytes, trailer_at + 48, crc);
            seal_bare(&mut bytes[trailer_at..trailer_at + 80], 12);
        });
        places.push(place("snapshot index row", row_at, snapshot::PLACE_FIELDS, reseal));
        let block_at = number(&bytes[row_at..], snapshot::PLACE_FIELDS, "offset") as usize;
        let reseal: Reseal =
            Box::new(move |bytes| seal_bare(&mut bytes[block_at..block_at + snapshot_block::BLOCK_HEADER_BYTES], 4));
        places.push(place("snapshot block header", block_at, snapshot_block::BLOCK_FIELDS, reseal));
    }
}

/// The store with a field of a structure set, in all copies of it. `None` if that changes nothing.
pub fn forged(store: &Store, place: &Place, field: &Field, value: u64) -> Option<Image> {
    let width = field.bytes.min(8);
    let image = store.with(&place.file, |bytes| {
        for offset in &place.offsets {
            let at = offset + field.offset;
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        (place.reseal)(bytes);
    });
    (image != store.image).then_some(image)
}

/// Calls back for every field and extreme value, and those beside the true one.
pub fn for_each(store: &Store, place: &Place, visit: &mut dyn FnMut(&Field, u64, &Image)) {
    for field in place.fields.iter().filter(|field| field.bytes > 0) {
        let true_value = number(&store.bytes(&place.file)[place.offsets[0]..], place.fields, field.name);
        let beside =
            [1, 51, 4096].into_iter().flat_map(|step| [true_value.wrapping_add(step), true_value.wrapping_sub(step)]);
        for value in EXTREMES.into_iter().chain(beside) {
            if let Some(image) = forged(store, place, field, value) {
                visit(field, value, &image);
            }
        }
    }
}
