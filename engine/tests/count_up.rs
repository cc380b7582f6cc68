//! Goal: whichever disk operation fails, a store loses nothing that it acknowledged and acknowledges nothing afterwards.
//! Method: standard scripts in which the first, second, third … operation of any kind fails, once or from there on, until a script
//! ends without having met its fault. After each the store is opened on the healthy medium, as a kill and as a power cut leave it.
//! `LOGD_COUNT_UP=all` tries each operation in all manners (docs/TESTING.md). Every wait has a limit, and a run that takes longer than its own is a hang (KNOWN-FAULTS 13).

#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use logd_engine::clock::OsClock;
use logd_engine::disk::{DiskErrorKind, SimFault, SimOperation, SimOptions, SimStorage};
use logd_engine::error::{Error, Refused};
use logd_engine::prng::Prng;
use logd_engine::recovery::LogFiles;
use logd_engine::verify::{Verdict, verify};
use logd_engine::{Batch, Db, DurabilityLevel, Keyspace, Options, Scope};
use std::io::Write;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use DurabilityLevel::{Accepted, Synced, Written};

const WAIT: Duration = Duration::from_secs(20);
const RUN: Duration = Duration::from_secs(60);
/// Operations of a script that never meets its fault.
const OPERATIONS_MAX: u64 = 2000;

/// Whole files, as a healthy medium holds them.
type Image = Vec<(String, Vec<u8>)>;

type Script = fn(&mut Run) -> Result<(), Error>;

/// One life of a store on a simulated medium.
struct Run {
    storage: SimStorage,
    db: Option<(Db, Keyspace)>,
    acknowledged: Vec<(u64, usize, DurabilityLevel)>,
}

fn options() -> Options {
    Options { segment_bytes: 1 << 20, shards: 3, load_threads: 1, snapshots_kept: 1, ..Options::default() }
}

fn open(storage: &SimStorage) -> Result<Db, Error> {
    Db::builder("").options(options()).storage(Arc::new(storage.clone()), Arc::new(OsClock)).open()
}

fn value(key: u64, bytes: usize) -> Vec<u8> {
    key.to_be_bytes().iter().copied().cycle().take(bytes).collect()
}

impl Run {
    fn on(image: &Image) -> Run {
        let storage = SimStorage::new(SimOptions::default());
        image.iter().for_each(|(name, bytes)| storage.put(name, bytes));
        Run { storage, db: None, acknowledged: Vec::new() }
    }

    fn open(&mut self) -> Result<(), Error> {
        let db = open(&self.storage)?;
        let keyspace = db.keyspace("things", Default::default())?;
        self.db = Some((db, keyspace));
        Ok(())
    }

    fn put(&mut self, key: u64, bytes: usize, level: DurabilityLevel) -> Result<(), Error> {
        let (db, keyspace) = self.db.as_ref().unwrap();
        let ticket = db.put(*keyspace, &key.to_be_bytes(), &value(key, bytes), None, Some(level))?;
        let waited = db.wait(ticket, Some(WAIT));
        assert_ne!(waited, Err(Refused::TimedOut.into()), "an answer for key {key} at level {}", level.word());
        waited?;
        self.acknowledged.push((key, bytes, level));
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.db.as_ref().unwrap().0.checkpoint()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.db.take().unwrap().0.close()
    }

    /// A latched store answers every write with the failure, and its watermarks stand still.
    fn check_latched(&self) {
        let Some((db, keyspace)) = &self.db else { return };
        if db.failure().is_none() {
            return;
        }
        let before = db.watermarks();
        for level in [Accepted, Written, Synced] {
            let put = db.put(*keyspace, b"after the failure", b"", None, Some(level));
            assert!(matches!(put, Err(Error::Failed(_))), "{put:?}");
        }
        assert_eq!(db.watermarks(), before, "nothing moves after a failure");
        assert!(db.checkpoint().is_err(), "no checkpoint of a store that has failed");
    }
}

fn made_fresh(run: &mut Run) -> Result<(), Error> {
    run.open()?;
    run.put(1, 10, Synced)?;
    run.close()
}

fn written_at_each_level(run: &mut Run) -> Result<(), Error> {
    run.open()?;
    for key in 0..9 {
        run.put(key, 100, [Accepted, Written, Synced][key as usize % 3])?;
    }
    let (db, keyspace) = run.db.clone().unwrap();
    let mut batch = Batch::new();
    (20..25_u64).for_each(|key| {
        batch.put(keyspace, &key.to_be_bytes(), &value(key, 9), None);
    });
    let ticket = db.apply(&batch, Some(Synced))?;
    db.wait(ticket, Some(WAIT))?;
    run.acknowledged.extend((20..25).map(|key| (key, 9, Synced)));
    let moved = |transaction: &mut logd_engine::Transaction<'_>| {
        (30..33_u64).try_for_each(|key| transaction.put(keyspace, &key.to_be_bytes(), &value(key, 9), None))
    };
    let ((), ticket) = db.transact(Scope::All, Some(Written), moved)?;
    db.wait(ticket, Some(WAIT))?;
    run.acknowledged.extend((30..33).map(|key| (key, 9, Written)));
    run.close()
}

fn over_several_segments(run: &mut Run) -> Result<(), Error> {
    run.open()?;
    for key in 0..11 {
        run.put(key, 230_000, [Synced, Written][key as usize % 2])?;
    }
    run.close()
}

fn with_checkpoints(run: &mut Run) -> Result<(), Error> {
    run.open()?;
    for round in 0..3 {
        for key in 0..5 {
            run.put(10 * round + key, 230_000, Synced)?;
        }
        run.checkpoint()?;
    }
    run.put(100, 10, Written)?;
    run.close()
}

fn opened_again(run: &mut Run) -> Result<(), Error> {
    run.open()?;
    run.put(200, 10, Synced)?;
    run.close()?;
    run.open()?;
    run.put(201, 10, Synced)?;
    run.close()
}

fn image_of(storage: &SimStorage) -> Image {
    storage.names().into_iter().map(|name| (name.clone(), storage.contents(&name).unwrap())).collect()
}

/// What a script leaves, and the writes in it that must stay.
fn prepared(script: Script) -> (Image, Vec<(u64, usize, DurabilityLevel)>) {
    let mut run = Run::on(&Image::new());
    script(&mut run).unwrap();
    (image_of(&run.storage), run.acknowledged)
}

/// A store that lost power: a snapshot, log behind it, and a torn tail.
fn after_a_crash() -> (Image, Vec<(u64, usize, DurabilityLevel)>) {
    let mut run = Run::on(&Image::new());
    run.open().unwrap();
    (0..3).for_each(|key| run.put(key, 9000, Synced).unwrap());
    run.checkpoint().unwrap();
    (3..6).for_each(|key| run.put(key, 9000, Synced).unwrap());
    let storage = run.storage.crash(&mut Prng::new(1));
    let segment = "log/00000000000000000001.seg";
    let (mut bytes, end) =
        (storage.contents(segment).unwrap(), |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0));
    // A part of a batch behind the last one, which took three blocks: its first block once more, and zeros.
    let from = end(&bytes).unwrap().next_multiple_of(4096);
    bytes.copy_within(from - 3 * 4096..from - 2 * 4096, from);
    storage.put(segment, &bytes);
    (image_of(&storage), run.acknowledged)
}

fn check_reopened(storage: &SimStorage, expected: &[(u64, usize)], at: &str) {
    let before = verify(storage, &LogFiles, &mut |_| {}).unwrap();
    match before {
        Verdict::Sound | Verdict::TornTailOnly => {}
        Verdict::NotAStore(_) if expected.is_empty() => {}
        other => panic!("{at}: {other:?}"),
    }
    let db = open(storage).unwrap_or_else(|error| panic!("{at}: it does not start: {error}"));
    let things = db.keyspace("things", Default::default()).unwrap();
    for (key, bytes) in expected {
        let found = db.get(things, &key.to_be_bytes());
        assert!(found == Some(value(*key, *bytes)), "{at}: acknowledged key {key} is lost");
    }
    let ticket = db.put(things, b"afterwards", b"1", None, None).unwrap();
    db.wait(ticket, Some(WAIT)).unwrap_or_else(|error| panic!("{at}: it does not go on: {error}"));
    db.close().unwrap();
    drop(db);
    assert_eq!(verify(storage, &LogFiles, &mut |_| {}).unwrap(), Verdict::Sound, "{at}");
}

/// Runs a script with one fault. True if the fault was met.
fn attempt(
    image: &Image,
    base: &[(u64, usize, DurabilityLevel)],
    script: Script,
    fault: SimFault,
    crash: bool,
) -> bool {
    let at = format!("{fault:?}, crash {crash}");
    let mut run = Run::on(image);
    run.storage.fail(fault);
    let result = script(&mut run);
    let struck = run.storage.faults_struck() > 0;
    assert!(struck || result.is_ok(), "{at}: {result:?} without a fault");
    run.check_latched();
    let storage = if crash { run.storage.crash(&mut Prng::new(7)) } else { run.storage.kill() };
    drop(run.db);
    let must_stay = |level| level == Synced || (level == Written && !crash);
    let kept = run.acknowledged.iter().filter(|(_, _, level)| must_stay(*level)).chain(base);
    let expected: Vec<_> = kept.map(|(key, bytes, _)| (*key, *bytes)).collect();
    check_reopened(&storage, &expected, &at);
    struck
}

/// The same on a thread of its own, so that a hang is seen.
fn attempt_in_time(
    image: &Image,
    base: &[(u64, usize, DurabilityLevel)],
    script: Script,
    fault: &SimFault,
    crash: bool,
) -> bool {
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel();
        let worker = scope.spawn(move || {
            let struck = attempt(image, base, script, fault.clone(), crash);
            let _ = done.send(());
            struck
        });
        if wait.recv_timeout(RUN) == Err(mpsc::RecvTimeoutError::Timeout) {
            // A scope would wait for the thread that hangs.
            let _ = writeln!(std::io::stderr(), "hangs: {fault:?}, crash {crash}");
            std::process::abort();
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How a fault strikes: what with, whether also all later ones fail, and whether power is lost afterwards or only the process.
fn manners() -> Vec<(DiskErrorKind, bool, bool)> {
    let kinds = [DiskErrorKind::Io("Input/output error".to_owned()), DiskErrorKind::Full];
    let ends = [(false, false), (true, true), (true, false), (false, true)];
    ends.iter().flat_map(|(lasting, crash)| kinds.iter().map(|kind| (kind.clone(), *lasting, *crash))).collect()
}

/// `LOGD_COUNT_UP=all` fails each operation in every manner; without it each in two, which change from one to the next.
fn count_up((image, base): (Image, Vec<(u64, usize, DurabilityLevel)>), script: Script) {
    let (manners, all) = (manners(), std::env::var("LOGD_COUNT_UP").is_ok_and(|wish| wish == "all"));
    let is_met = |skip: u64| {
        let turn = 2 * skip as usize % manners.len();
        let chosen = if all { &manners[..] } else { &manners[turn..turn + 2] };
        let met = chosen.iter().filter(|(kind, lasting, crash)| {
            let fault = SimFault { operation: SimOperation::Any, skip, lasting: *lasting, kind: kind.clone() };
            attempt_in_time(&image, &base, script, &fault, *crash)
        });
        met.count() > 0
    };
    let operations = (0..OPERATIONS_MAX).find(|skip| !is_met(*skip)).expect("a script ends");
    assert!(operations > 10, "the script met {operations} operations only");
}

#[test]
fn a_failure_while_a_store_is_made_costs_nothing() {
    count_up((Image::new(), Vec::new()), made_fresh);
}

#[test]
fn a_failure_while_commands_are_written_at_each_level_costs_nothing_acknowledged() {
    count_up((Image::new(), Vec::new()), written_at_each_level);
}

#[test]
fn a_failure_around_a_segment_switch_costs_nothing_acknowledged() {
    count_up((Image::new(), Vec::new()), over_several_segments);
}

#[test]
fn a_failure_in_a_checkpoint_costs_nothing_acknowledged() {
    count_up((Image::new(), Vec::new()), with_checkpoints);
}

#[test]
fn a_failure_in_recovery_after_a_crash_costs_nothing_and_the_next_start_succeeds() {
    count_up(after_a_crash(), opened_again);
}

#[test]
fn a_failure_in_opening_or_closing_a_cleanly_stopped_store_costs_nothing() {
    count_up(prepared(with_checkpoints), opened_again);
}
