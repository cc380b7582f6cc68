//! Claims about transactions, views, procedures and expiry, each as a test. No log writer runs: nothing here waits.
use super::*;
use crate::clock::SimClock;
use crate::durability::DurabilityLevel;
use crate::error::{Error, Refused};
use crate::format::StoreId;
use crate::format::command::{Command, decode};
use crate::log::{ActiveSegment, LogOptions, LogPosition};
use crate::prng::Prng;
use crate::units::{Lsn, Millis, Nanos, SegmentId};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Fixture {
    core: Core,
    clock: SimClock,
    things: Keyspace,
}

fn fixture_with(procedures: Procedures) -> Fixture {
    let clock = SimClock::new(Millis(1_000_000));
    let time = EngineTime::start(Arc::new(clock.clone()), Millis(0));
    let options = Options { batch_bytes_max: 16 << 20, ..Options::default() };
    let state = Rebuild::new(&options, procedures.clone(), time.clone()).finish();
    let log = Log::new(&roomy_position(), LogOptions::new(&options, 64 << 20));
    let core = Core::build(state, CoreParts { log, time, procedures, options, seed: 7 });
    let things = core.keyspace("things", KeyspaceOptions::default()).expect("an empty log takes a keyspace");
    Fixture { core, clock, things }
}

/// A log that takes what a test appends without anybody writing it.
fn roomy_position() -> LogPosition {
    let active = ActiveSegment { segment: SegmentId(1), bytes: 1 << 30, first_lsn: Lsn(1), proven: 4096, end: 4096 };
    LogPosition {
        active: Some(active),
        goes_on: true,
        next_segment: SegmentId(2),
        ..LogPosition::fresh(StoreId::default())
    }
}

fn fixture() -> Fixture {
    fixture_with(Procedures::new())
}

impl Fixture {
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.core.get_with(self.things, key, |record| record.map(|record| record.value.to_vec()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Ticket {
        self.core.put(self.things, key, value, None, None).expect("the queue has room")
    }

    fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let view = self.core.view();
        let range = view.range(self.things, Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        range.map(|(key, record)| (key.to_vec(), record.value.to_vec())).collect()
    }
}

fn abort() -> Error {
    Refused::Aborted("enough".to_owned()).into()
}

#[test]
fn a_transaction_that_fails_leaves_no_trace() {
    let fixture = fixture();
    fixture.put(b"a", b"1");
    let before = fixture.core.log().watermarks().assigned;
    let result = fixture.core.write(Scope::All, None, |transaction| {
        transaction.put(fixture.things, b"a", b"2", Some(Millis(9_999_999)))?;
        transaction.put(fixture.things, b"b", b"3", None)?;
        transaction.delete(fixture.things, b"a");
        transaction.clear(fixture.things);
        Err::<(), _>(abort())
    });
    assert_eq!(result.map(|_| ()), Err(abort()));
    assert_eq!(fixture.all(), BTreeMap::from([(b"a".to_vec(), b"1".to_vec())]));
    assert_eq!(fixture.core.log().watermarks().assigned, before);
}

#[test]
fn a_transaction_that_panics_leaves_no_trace_and_no_lock() {
    let fixture = fixture();
    fixture.put(b"a", b"1");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = fixture.core.write(Scope::All, None, |transaction| {
            transaction.put(fixture.things, b"a", b"2", None)?;
            panic!("a user's fault");
            #[expect(unreachable_code, reason = "fixes the closure's type")]
            Ok(())
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(fixture.value(b"a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_key_outside_the_scope_is_a_panic_and_not_a_race() {
    let fixture = fixture();
    let outside: Vec<u8> = (0..=255u8)
        .map(|byte| vec![byte])
        .find(|key| fixture.core.shards.route(fixture.things, key) != fixture.core.shards.route(fixture.things, b"a"))
        .expect("256 keys spread over 16 shards");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        fixture.core.read(Scope::Key(fixture.things, b"a"), |read| read.get(fixture.things, &outside).is_some())
    }));
    assert!(panicked.is_err());
}

#[test]
fn without_effects_nothing_is_logged() {
    let fixture = fixture();
    let before = fixture.core.log().watermarks().assigned;
    let (existed, ticket) = fixture
        .core
        .write(Scope::All, None, |transaction| Ok(transaction.delete(fixture.things, b"nothing")))
        .expect("nothing to refuse");
    assert!(!existed);
    assert_eq!(ticket, Ticket::NOTHING);
    assert_eq!(fixture.core.log().watermarks().assigned, before);
}

#[test]
fn a_volatile_keyspace_is_not_logged_but_its_definition_is() {
    let fixture = fixture();
    let options = KeyspaceOptions { durability: Some(DurabilityLevel::Volatile), ..KeyspaceOptions::default() };
    let cache = fixture.core.keyspace("cache", options).expect("a free name");
    let before = fixture.core.log().watermarks().assigned;
    assert_eq!(fixture.core.put(cache, b"k", b"v", None, None), Ok(Ticket::NOTHING));
    assert_eq!(fixture.core.log().watermarks().assigned, before);
    let view = fixture.core.view();
    let mut seen = 0;
    view.visit_all(&mut |_, _, _| seen += 1);
    assert_eq!(seen, 0);
    assert!(view.get(cache, b"k").is_some());
}

#[test]
fn a_view_does_not_see_what_comes_after_it() {
    let fixture = fixture();
    for byte in 0..100u8 {
        fixture.put(&[byte], b"old");
    }
    let view = fixture.core.view();
    for byte in (0..100u8).step_by(2) {
        fixture.put(&[byte], b"new");
    }
    fixture.core.write(Scope::All, None, |t| Ok(t.delete(fixture.things, &[1]))).expect("room");
    let forward: Vec<_> = view.prefix(fixture.things, b"", Direction::Forward).map(|(key, _)| key[0]).collect();
    let backward: Vec<_> = view.prefix(fixture.things, b"", Direction::Backward).map(|(key, _)| key[0]).collect();
    assert_eq!(forward, (0..100).collect::<Vec<u8>>());
    assert_eq!(backward, (0..100).rev().collect::<Vec<u8>>());
    assert!(view.prefix(fixture.things, b"", Direction::Forward).all(|(_, record)| record.value == b"old"));
}

#[test]
fn a_volatile_record_put_by_a_transaction_is_removed_when_it_is_due() {
    let fixture = fixture();
    let options = KeyspaceOptions { durability: Some(DurabilityLevel::Volatile), ..KeyspaceOptions::default() };
    let scratch = fixture.core.keyspace("scratch", options).expect("room");
    let put = |transaction: &mut Transaction<'_>| transaction.put(scratch, b"k", b"v", Some(Millis(1_000_010)));
    fixture.core.write(Scope::Key(scratch, b"k"), None, put).expect("room");
    assert_eq!(fixture.core.expire_due(), 1_000_010, "the maintenance driver knows when to come");
    fixture.clock.advance(Nanos::from_millis(10));
    assert_eq!(fixture.core.expire_due(), u64::MAX);
    assert_eq!(fixture.core.shards.len(scratch), 0);
}

#[test]
fn a_due_record_is_invisible_at_once_and_removed_by_a_logged_command() {
    let fixture = fixture();
    let due = Millis(fixture.core.time().now().0 + 50);
    fixture.core.put(fixture.things, b"short", b"v", Some(due), None).expect("room");
    let later = fixture.core.expire_due();
    assert_eq!(later, due.0);
    fixture.clock.advance(Nanos::from_millis(50));
    assert_eq!(fixture.value(b"short"), None);
    let before = fixture.core.log().watermarks().assigned;
    assert_eq!(fixture.core.expire_due(), u64::MAX);
    assert_eq!(fixture.core.log().watermarks().assigned, before.next());
    assert_eq!(fixture.core.shards.len(fixture.things), 0);
}

#[test]
fn a_watch_notices_changes_deletes_expiries_and_clears_of_its_key_only() {
    type Change = fn(&mut Transaction<'_>, Keyspace);
    let changes: [(Change, bool); 5] = [
        (|t, k| t.put(k, b"w", b"2", None).expect("short"), true),
        (|t, k| assert!(t.delete(k, b"w")), true),
        (|t, k| assert!(t.set_expiry(k, b"w", Some(Millis(u64::MAX / 2)))), true),
        (|t, k| t.clear(k), true),
        (|t, k| t.put(k, b"other", b"2", None).expect("short"), false),
    ];
    for (number, (change, touched)) in changes.into_iter().enumerate() {
        let fixture = fixture();
        fixture.put(b"w", b"1");
        let watch = fixture.core.watch(fixture.things, b"w");
        let run = |t: &mut Transaction<'_>| {
            change(t, fixture.things);
            Ok(())
        };
        fixture.core.write(Scope::All, None, run).expect("room");
        assert_eq!(watch.is_touched(), touched, "change {number}");
    }
}

fn lottery(form: LogForm) -> Procedure {
    Procedure::new("lottery", 1, &["tickets"], |context, arguments| {
        let tickets = context.keyspace(0);
        let number = context.random() % 1000;
        let now = context.now();
        context.put(tickets, arguments, &number.to_le_bytes(), Some(Millis(now.0 + 1000)))?;
        if arguments == b"refuse" {
            return Err(abort());
        }
        Ok(number.to_le_bytes().to_vec())
    })
    .logged_as(form)
    .touching(|arguments, touch| touch("tickets", arguments))
}

#[test]
fn a_refused_call_changes_and_logs_nothing() {
    let mut procedures = Procedures::new();
    procedures.register(lottery(LogForm::Call));
    let fixture = fixture_with(procedures.clone());
    let active = fixture.core.activate(procedures.active("lottery").expect("registered")).expect("room");
    let before = fixture.core.log().watermarks().assigned;
    assert_eq!(fixture.core.call(&active, b"refuse", None).map(|_| ()), Err(abort()));
    assert_eq!(fixture.core.log().watermarks().assigned, before);
}

#[test]
fn scope_sets_named_by_a_procedure_are_enough_for_it() {
    let mut procedures = Procedures::new();
    procedures.register(lottery(LogForm::Effects));
    let fixture = fixture_with(procedures.clone());
    let active = fixture.core.activate(procedures.active("lottery").expect("registered")).expect("room");
    for player in 0..100u8 {
        fixture.core.call(&active, &[player], None).expect("its key is in its scope");
    }
}

/// Replays frames made by hand, as they stand in the log.
#[test]
fn a_replayed_call_does_the_same_and_a_changed_one_is_refused() {
    let mut procedures = Procedures::new();
    procedures.register(lottery(LogForm::Call));
    let time = EngineTime::start(Arc::new(SimClock::new(Millis(5))), Millis(0));
    let mut rebuild = Rebuild::new(&Options::default(), procedures, time);
    let frame = |build: &dyn Fn(&mut crate::format::command::FrameBuilder)| {
        let mut builder = crate::format::command::FrameBuilder::new();
        builder.start_effects();
        build(&mut builder);
        builder.finish().to_vec()
    };
    use crate::format::command::{Call, Effect, KeyspaceEffect};
    let keyspace = KeyspaceEffect { keyspace: 0, level: 0, routing: 0, prefix_bytes: 0, name: "tickets" };
    rebuild.apply(Lsn(1), &frame(&|b| b.push(Effect::Keyspace(keyspace)))).expect("a first keyspace");
    let definition = Effect::Procedure { procedure: 0, version: 1, form: 2, name: "lottery" };
    rebuild.apply(Lsn(2), &frame(&|b| b.push(definition))).expect("a first procedure");
    let number = Prng::new(4).next_u64() % 1000;
    let effects = frame(&|b| {
        let value = number.to_le_bytes();
        b.push(Effect::Put { keyspace: 0, key: b"me", value: &value, expiry_millis: 1_500 });
    });
    let call = Call {
        procedure: 0,
        version: 1,
        time_millis: 500,
        seed: 4,
        effects_crc: crc32fast::hash(&effects[8..]),
        arguments: b"me",
    };
    rebuild.apply(Lsn(3), &frame(&|b| b.replace_by_call(&call))).expect("the same code");
    let wrong = Call { effects_crc: call.effects_crc ^ 1, ..call };
    let diverged = rebuild.apply(Lsn(4), &frame(&|b| b.replace_by_call(&wrong)));
    assert_eq!(diverged, Err(Refused::Diverged { name: "lottery".to_owned(), lsn: 4 }.into()));
    let missing = Call { version: 2, ..call };
    assert!(rebuild.apply(Lsn(4), &frame(&|b| b.replace_by_call(&missing))).is_err());
    assert!(matches!(decode(&effects), Ok(Command::Effects(_))));
}

/// Random transactions against a plain map: what commits is applied wholly, what aborts not at all.
#[test]
fn random_transactions_agree_with_a_model() {
    let fixture = fixture();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut prng = Prng::new(11);
    for round in 0..2000u32 {
        let mut next = model.clone();
        let abort_it = prng.one_in(4);
        let steps: Vec<(u8, u64)> = (0..=prng.below(6)).map(|_| (prng.below(40) as u8, prng.below(20))).collect();
        let result = fixture.core.write(Scope::All, None, |transaction| {
            for &(key, action) in &steps {
                match action {
                    0 => {
                        transaction.clear(fixture.things);
                        next.clear();
                    }
                    1..8 => {
                        let existed = transaction.delete(fixture.things, &[key]);
                        assert_eq!(existed, next.remove(&vec![key]).is_some());
                    }
                    _ => {
                        transaction.put(fixture.things, &[key], &round.to_le_bytes(), None)?;
                        next.insert(vec![key], round.to_le_bytes().to_vec());
                    }
                }
            }
            if abort_it { Err(abort()) } else { Ok(()) }
        });
        if result.is_ok() {
            model = next;
        }
        assert_eq!(fixture.all(), model, "round {round}");
    }
}

#[test]
fn due_records_stay_while_active_expiry_is_off_and_are_never_told() {
    let fixture = fixture();
    fixture.core.put(fixture.things, b"k", b"v", Some(Millis(1_000_010)), None).expect("the queue has room");
    fixture.core.set_active_expiry(false);
    fixture.clock.advance(Nanos::from_millis(20));
    assert_eq!(fixture.core.expire_due(), u64::MAX);
    assert_eq!(fixture.core.shards.len(fixture.things), 1);
    assert_eq!(fixture.value(b"k"), None);
    fixture.core.set_active_expiry(true);
    fixture.core.expire_due();
    assert_eq!(fixture.core.shards.len(fixture.things), 0);
}

#[test]
fn a_disk_without_room_is_no_matter_for_records_that_are_not_logged() {
    let fixture = fixture();
    let volatile = KeyspaceOptions { durability: Some(DurabilityLevel::Volatile), ..KeyspaceOptions::default() };
    let scratch = fixture.core.keyspace("scratch", volatile).expect("the queue has room");
    fixture.put(b"k", b"v");
    fixture.core.log.reserve().set(0, 1, true);
    assert!(matches!(fixture.core.put(fixture.things, b"l", b"v", None, None), Err(Error::Full(_))));
    fixture.core.put(scratch, b"k", b"v", None, None).expect("it takes no room");
    let both = fixture.core.write(Scope::All, None, |transaction| {
        transaction.put(scratch, b"l", b"v", None)?;
        Ok(transaction.delete(fixture.things, b"k"))
    });
    assert!(both.expect("it only shrinks the log's state").0);
}
