//! Writes the golden files of the format that are not there yet: `cargo run -p logd-tests --example golden_files`.
//! Guarantees: a file that is there stays as it is. Golden files are made once and never again: see fixtures/README.md.
//! Must not know: more of the format than the tables of the engine say, so that every comment comes from them.
//! Next: tests/golden.rs reads what this wrote.

use logd_engine::format::{batch, command, manifest, segment, snapshot, snapshot_block};
use logd_engine::limits::BLOCK_BYTES;
use logd_tests::golden;
use logd_tests::hex::Annotated;
use std::fs::OpenOptions;
use std::io::Write;

fn main() -> std::io::Result<()> {
    let (snapshot, written) = golden::encode_snapshot();
    println!("snapshot: {written:?} digest {}", written.digest);
    write("segment.hex", &segment_text(&golden::encode_segment()))?;
    write("snapshot.hex", &snapshot_text(&snapshot))?;
    write("manifest.hex", &manifest_text(&golden::encode_manifest()))
}

fn write(name: &str, text: &str) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(golden::directory().join(name)) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            println!("{name} is there and stays as it is");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn segment_text(bytes: &[u8]) -> String {
    let mut text = Annotated::new(bytes);
    text.table("segment ", 0, segment::FIELDS, BLOCK_BYTES);
    let mut at = BLOCK_BYTES;
    for number in 1..=golden::batch_headers().len() {
        let title = format!("batch {number} ");
        let (payload, places) = text.table(&title, at, batch::FIELDS, bytes.len());
        let mut lsn = text.number(places["first_lsn"]);
        let end = payload + text.number(places["payload_bytes"]) as usize;
        let mut frame = payload;
        while frame < end {
            frame = name_frame(&mut text, &format!("LSN {lsn} "), frame, end);
            lsn += 1;
        }
        at = end.next_multiple_of(BLOCK_BYTES);
    }
    text.render("log/00000000000000000003.seg, format version 1: fixtures/README.md")
}

fn name_frame(text: &mut Annotated<'_>, title: &str, at: usize, end: usize) -> usize {
    let (_, places) = text.table(title, at, command::FRAME_FIELDS, end);
    let (mut at, end) =
        (at + command::FRAME_HEADER_BYTES, places["body"].0 + text.number(places["body_bytes"]) as usize);
    if text.number(places["kind"]) == 2 {
        return text.table(&format!("{title}call "), at, command::CALL_FIELDS, end).0;
    }
    while at < end {
        let (name, fields) = match text.number((at, 1)) {
            1 => ("put", command::PUT_FIELDS),
            2 => ("put+expiry", command::PUT_EXPIRY_FIELDS),
            3 => ("delete", command::DELETE_FIELDS),
            4 => ("expire", command::EXPIRE_FIELDS),
            5 => ("clear", command::CLEAR_FIELDS),
            6 => ("keyspace", command::KEYSPACE_FIELDS),
            _ => ("procedure", command::PROCEDURE_FIELDS),
        };
        at = text.table(&format!("{title}{name} "), at, fields, end).0;
    }
    end
}

fn snapshot_text(bytes: &[u8]) -> String {
    let mut text = Annotated::new(bytes);
    let (metadata, places) = text.table("head ", 0, snapshot::HEADER_FIELDS, BLOCK_BYTES);
    let end = metadata + text.number(places["metadata_bytes"]) as usize;
    let (_, root) = text.table("metadata ", end - 16, snapshot::METADATA_FIELDS, end);
    for (name, fields, step) in
        [("keyspaces", snapshot::KEYSPACE_FIELDS, 16), ("procedures", snapshot::PROCEDURE_FIELDS, 20)]
    {
        for at in elements(&text, root[name].0, step) {
            let (_, places) = text.table(&format!("{name} "), at, fields, end);
            name_text(&mut text, places["name"].0);
        }
    }
    let trailer = bytes.len() - BLOCK_BYTES;
    let (_, places) = text.table("trailer ", trailer, snapshot::TRAILER_FIELDS, bytes.len());
    let index = text.number(places["index_offset"]) as usize;
    for number in 0..text.number(places["block_count"]) as usize {
        let at = index + number * snapshot::PLACE_BYTES;
        let (_, place) = text.table(&format!("index {number} "), at, snapshot::PLACE_FIELDS, trailer);
        let block = text.number(place["offset"]) as usize;
        name_block(&mut text, number, block);
    }
    text.render("snapshot/00000000000000000005.snap, format version 1: fixtures/README.md")
}

fn name_block(text: &mut Annotated<'_>, number: usize, at: usize) {
    let title = format!("block {number} ");
    let (mut at, places) = text.table(&title, at, snapshot_block::BLOCK_FIELDS, at);
    let end = at + text.number(places["payload_bytes"]) as usize;
    while at < end {
        let has_expiry = text.number((at + 2, 1)) == 1;
        let fields = if has_expiry { snapshot_block::RECORD_EXPIRY_FIELDS } else { snapshot_block::RECORD_FIELDS };
        at = text.table(&format!("{title}record "), at, fields, end).0;
    }
}

fn manifest_text(bytes: &[u8]) -> String {
    let mut text = Annotated::new(bytes);
    for slot in 0..2 {
        let (start, title) = (slot * manifest::SLOT_BYTES, format!("slot {slot} "));
        let (_, places) = text.table(&title, start, manifest::SLOT_FIELDS, start + manifest::SLOT_BYTES);
        let end = places["body"].0 + text.number(places["body_bytes"]) as usize;
        let root = end - manifest::BODY_ROOT_BYTES;
        let (_, places) = text.table(&title, root, manifest::BODY_FIELDS, end);
        for at in elements(&text, places["snapshots"].0, 48) {
            text.table(&format!("{title}snapshots "), at, manifest::REFERENCE_FIELDS, end);
        }
    }
    text.render("manifest, format version 1: fixtures/README.md")
}

/// Places of the elements of an archived list.
fn elements(text: &Annotated<'_>, list: usize, step: usize) -> Vec<usize> {
    let first = relative(text, list, list);
    (0..text.number((list + 4, 4)) as usize).map(|number| first + number * step).collect()
}

/// Names the bytes of an archived text that is too long to stand in its own field.
fn name_text(text: &mut Annotated<'_>, at: usize) {
    let length = text.number((at, 4)) as usize;
    if length & 0xc0 == 0x80 {
        let first = relative(text, at, at + 4);
        text.name(first, (length & 0x3f) | ((length & !0xff) >> 2), "name, as its field says");
    }
}

/// Where a relative place leads: counted from `base`.
fn relative(text: &Annotated<'_>, base: usize, at: usize) -> usize {
    base.checked_add_signed(text.number((at, 4)) as u32 as i32 as isize).expect("a place in the file")
}
