//! Goal: a full disk is a state and no end: reads and deletes go on, and the same process takes writes again once there is room.
//! Method: the simulated disk with little room, with crashes in between; a 16 MiB ext4 image with the daemon, for root.

use logd_engine::clock::OsClock;
use logd_engine::disk::{SimOptions, SimStorage};
use logd_engine::error::Full;
use logd_engine::prng::Prng;
use logd_engine::{Db, Error, Keyspace, Options};
use logd_tests::client::{Client, Reply};
use logd_tests::daemon::Daemon;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALUE: [u8; 2000] = [b'v'; 2000];
const PATIENCE: Duration = Duration::from_secs(60);

fn open(storage: &SimStorage) -> Db {
    let options = Options { segment_bytes: 1 << 20, shards: 2, ..Options::default() };
    Db::builder("simulated")
        .options(options)
        .storage(Arc::new(storage.clone()), Arc::new(OsClock))
        .open()
        .expect("it opens")
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Puts records until the disk has been full for a while, and gives the number that were acknowledged.
fn fill(db: &Db, things: Keyspace, from: u32) -> u32 {
    let (mut next, mut refused_since) = (from, None::<Instant>);
    loop {
        match db.put(things, &key(next), &VALUE, None, None) {
            Ok(ticket) => {
                db.wait(ticket, None).expect("a working disk");
                (next, refused_since) = (next + 1, None);
            }
            Err(Error::Full(Full::Disk)) => {
                // What a checkpoint can free, it frees within a few seconds.
                if refused_since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(4) {
                    return next;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn delete(db: &Db, things: Keyspace, number: u32) {
    let deleted = db.delete(things, &key(number), None);
    let stats = || (db.stats().space, db.stats().log, db.stats().snapshots);
    let (was_there, ticket) =
        deleted.unwrap_or_else(|error| panic!("deletes go on: {error}, record {number}, {:?}", stats()));
    assert!(was_there);
    db.wait(ticket, None).expect("a working disk");
}

fn put_again(db: &Db, things: Keyspace, number: u32) {
    let begun = Instant::now();
    loop {
        match db.put(things, &key(number), &VALUE, None, None) {
            Ok(ticket) => return db.wait(ticket, None).expect("a working disk"),
            Err(Error::Full(Full::Disk)) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < PATIENCE, "no write was taken again: {:?}", db.stats().space);
    }
}

#[test]
fn a_full_disk_takes_deletes_and_reads_and_then_writes_again_and_loses_nothing_in_a_crash() {
    let storage = SimStorage::new(SimOptions { capacity_bytes: 16 << 20, ..SimOptions::default() });
    let db = open(&storage);
    let things = db.keyspace("things", Default::default()).expect("room");
    let count = fill(&db, things, 0);
    assert!(count > 1000, "{count} records of 2000 bytes fit into 16 MiB");
    let space = db.stats().space;
    assert!(space.is_low && space.low_count > 0 && space.refused_count > 0, "{space:?}");
    assert!((0..count).all(|number| db.get(things, &key(number)).is_some()), "reads go on");
    (0..count / 2).for_each(|number| delete(&db, things, number));
    put_again(&db, things, count);
    assert!(!db.stats().space.is_low);
    let mut prng = Prng::new(7);
    let left = storage.crash(&mut prng);
    drop(db);
    let db = open(&left);
    let things = db.find_keyspace("things").expect("it was synced");
    for number in 0..=count {
        assert_eq!(db.get(things, &key(number)).is_some(), number >= count / 2, "record {number} of {count}");
    }
}

#[test]
fn a_crash_while_the_disk_is_full_loses_nothing_and_the_next_start_goes_on() {
    let mut storage = SimStorage::new(SimOptions { capacity_bytes: 12 << 20, ..SimOptions::default() });
    let mut prng = Prng::new(3);
    let (mut count, mut gone) = (0, 0);
    for _ in 0..3 {
        let db = open(&storage);
        let things = db.keyspace("things", Default::default()).expect("room");
        for number in 0..count {
            assert_eq!(db.get(things, &key(number)).is_some(), number >= gone, "record {number} of {count}");
        }
        count = fill(&db, things, count);
        let deleted = gone + (count - gone) / 4;
        (gone..deleted).for_each(|number| delete(&db, things, number));
        gone = deleted;
        let left = storage.crash(&mut prng);
        drop(db);
        storage = left;
    }
}

#[test]
fn room_that_others_took_and_gave_back_is_used_again() {
    let storage = SimStorage::new(SimOptions { capacity_bytes: 64 << 20, ..SimOptions::default() });
    let db = open(&storage);
    let things = db.keyspace("things", Default::default()).expect("room");
    (0..500).for_each(|number| put_again(&db, things, number));
    storage.set_capacity(1 << 20);
    let count = fill(&db, things, 500);
    assert!(count < 3000, "{count}");
    delete(&db, things, 0);
    storage.set_capacity(64 << 20);
    put_again(&db, things, count);
}

fn run(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
}

/// A mounted 16 MiB file system; unmounted when dropped.
struct Image {
    directory: tempfile::TempDir,
}

impl Image {
    /// `None` where this user may not mount.
    fn new() -> Option<Image> {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let (file, mount) = (directory.path().join("image"), directory.path().join("mount"));
        let (file, mount) = (file.to_str().expect("ASCII"), mount.to_str().expect("ASCII"));
        let is_mounted = run("truncate", &["-s", "16M", file])
            && run("mkfs.ext4", &["-q", "-F", "-m", "0", file])
            && run("mkdir", &[mount])
            && run("mount", &["-o", "loop", file, mount]);
        is_mounted.then_some(Image { directory })
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("mount")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        run("umount", &[self.path().to_str().expect("ASCII")]);
    }
}

fn is_full(reply: &Reply) -> bool {
    match reply {
        Reply::Error(text) => {
            assert!(text.starts_with("DISKFULL"), "{text}");
            true
        }
        _ => false,
    }
}

fn call(client: &mut Client, words: &[&str]) -> Reply {
    client.call(words).expect("an answer")
}

fn fill_daemon(client: &mut Client, from: u32) -> u32 {
    let value = "v".repeat(2000);
    let (mut next, mut refused_since) = (from, None::<Instant>);
    loop {
        if !is_full(&call(client, &["SET", &format!("k{next}"), &value])) {
            (next, refused_since) = (next + 1, None);
            continue;
        }
        if refused_since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(4) {
            return next;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn set_again(client: &mut Client) {
    let (begun, value) = (Instant::now(), "v".repeat(2000));
    while is_full(&call(client, &["SET", "again", &value])) {
        assert!(begun.elapsed() < PATIENCE, "no write was taken again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "mounts an image: run as root with --ignored"]
fn the_daemon_on_a_16_mib_image_takes_writes_again_after_deletes_and_after_others_made_room() {
    let Some(image) = Image::new() else {
        eprintln!("this user may not mount; nothing was tested");
        return;
    };
    let daemon = Daemon::start(&image.path().join("data"), &[]);
    let mut client = daemon.client();
    let count = fill_daemon(&mut client, 0);
    assert!(count > 1000, "{count}");
    assert_eq!(call(&mut client, &["GET", "k0"]), Reply::Bulk(Some("v".repeat(2000).into_bytes())));
    for number in 0..count / 2 {
        assert_eq!(call(&mut client, &["DEL", &format!("k{number}")]), Reply::Integer(1), "DEL goes on");
    }
    set_again(&mut client);
    fill_daemon(&mut client, count);
    assert_eq!(call(&mut client, &["FLUSHALL"]), Reply::Simple("OK".to_owned()));
    set_again(&mut client);
    let foreign = image.path().join("foreign");
    fill_with_zeros(&foreign);
    let others = fill_daemon(&mut client, 0);
    assert_eq!(call(&mut client, &["DEL", "again"]), Reply::Integer(1), "DEL goes on after {others}");
    std::fs::remove_file(&foreign).expect("ours");
    set_again(&mut client);
    let Reply::Integer(records) = call(&mut client, &["DBSIZE"]) else { panic!("a number was expected") };
    drop(client);
    daemon.kill();
    let daemon = Daemon::start(&image.path().join("data"), &[]);
    assert_eq!(call(&mut daemon.client(), &["DBSIZE"]), Reply::Integer(records));
    daemon.stop();
}

fn fill_with_zeros(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).expect("a name");
    while file.write_all(&[0; 64 << 10]).is_ok() {}
    let _ = file.sync_all();
}
