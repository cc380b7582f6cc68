//! Writers that know what must be there afterwards.
//! Guarantees: the state after any number of a writer's operations can be computed again, so a hole or a foreign value shows.
//! Must not know: how the daemon stores anything.
//! Next: round.rs.

use crate::client::{Client, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// Keys of one writer.
const KEYS: u64 = 16;

/// What a writer did until its connection broke, or until a write was refused.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its number.
    pub writer: u64,
    /// Operations that were there before.
    pub from: u64,
    /// Operations sent.
    pub sent: u64,
    /// Operations acknowledged before the first error.
    pub acknowledged: u64,
    /// The first error.
    pub error: Option<String>,
    /// Writes acknowledged after it.
    pub acknowledged_after_error: u64,
    /// When each operation from `from` on was sent.
    sent_at: Vec<Instant>,
    /// When each acknowledgement came.
    acknowledged_at: Vec<Instant>,
}

/// How many operations of a writer are there: several numbers may give the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survived {
    /// The fewest.
    pub least: u64,
    /// The most.
    pub most: u64,
}

/// Operation `number` (from 1) of a writer: sets one of its keys, deletes one, or sets two at once.
fn operation(writer: u64, number: u64) -> Vec<Vec<u8>> {
    let key = |at: u64| format!("w{writer}:{}", at % KEYS).into_bytes();
    let value = format!("{writer}.{number}.{}", "x".repeat((number * 37 % 300) as usize)).into_bytes();
    let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    match number % 5 {
        0 => vec![b"DEL".to_vec(), key(at)],
        1 => vec![b"MSET".to_vec(), key(at), value.clone(), key(at + 1), value],
        _ => vec![b"SET".to_vec(), key(at), value],
    }
}

fn model_step(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, operation: &[Vec<u8>]) {
    match operation[0].as_slice() {
        b"DEL" => drop(model.remove(&operation[1])),
        _ => operation[1..].chunks(2).for_each(|pair| drop(model.insert(pair[0].clone(), pair[1].clone()))),
    }
}

/// Starts a writer that pipelines until told to stop, cut off or refused. `from`: operations it had done before.
pub fn start_writer(port: u16, writer: u64, from: u64, stop: Arc<AtomicBool>) -> JoinHandle<Done> {
    std::thread::spawn(move || {
        let (sent_at, acknowledged_at) = (Vec::new(), Vec::new());
        let (sent, acknowledged, error, acknowledged_after_error) = (from, from, None, 0);
        let mut done =
            Done { writer, from, sent, acknowledged, error, acknowledged_after_error, sent_at, acknowledged_at };
        let Ok(mut client) = Client::connect(port) else { return done };
        while !stop.load(Ordering::Relaxed) && done.error.is_none() {
            if pipeline(&mut client, &mut done).is_err() {
                break;
            }
        }
        done
    })
}

fn pipeline(client: &mut Client, done: &mut Done) -> std::io::Result<()> {
    let count = 1 + done.sent % 16;
    let requests: Vec<_> = (1..=count).map(|step| operation(done.writer, done.sent + step)).collect();
    done.sent += count;
    done.sent_at.extend((0..count).map(|_| Instant::now()));
    client.send(&requests)?;
    for _ in 0..count {
        match client.receive()? {
            Reply::Error(text) => drop(done.error.get_or_insert(text)),
            // To delete what is not there is no write and may be answered at any time.
            reply if done.error.is_some() => {
                done.acknowledged_after_error += u64::from(reply != Reply::Integer(0));
            }
            _ => {
                done.acknowledged += 1;
                done.acknowledged_at.push(Instant::now());
            }
        }
    }
    Ok(())
}

/// Checks a restarted daemon against what a writer was told. Tells how many operations survived.
/// Panics if no prefix of the operations gives what is there.
pub fn survived(client: &mut Client, done: &Done) -> Survived {
    let mut found = BTreeMap::new();
    for at in 0..KEYS {
        let key = format!("w{}:{at}", done.writer);
        if let Reply::Bulk(Some(value)) = client.call(&["GET", &key]).expect("a running daemon answers") {
            found.insert(key.into_bytes(), value);
        }
    }
    let mut model = BTreeMap::new();
    let mut best = (model == found).then_some(Survived { least: 0, most: 0 });
    for number in 1..=done.sent {
        model_step(&mut model, &operation(done.writer, number));
        if model == found {
            // A key set and deleted again leads back to an earlier state, so that the matches need not be neighbours.
            let least = best.map_or(number, |best| best.least);
            best = Some(Survived { least, most: number });
        }
    }
    best.unwrap_or_else(|| panic!("no prefix of writer {}'s operations gives what is there", done.writer))
}

/// As `survived`; panics also if an acknowledged operation is missing.
pub fn check_writer(client: &mut Client, done: &Done) -> u64 {
    let most = survived(client, done).most;
    let (writer, acknowledged) = (done.writer, done.acknowledged);
    assert!(most >= acknowledged, "writer {writer}: {acknowledged} acknowledged, {most} there");
    most
}

/// Panics if an operation survived that was sent after another writer's lost one had been acknowledged: a hole between writers.
pub fn check_order(all: &[(Done, Survived)]) {
    for (later, there) in all {
        let new = usize::try_from(there.least.saturating_sub(later.from)).expect("it fits memory");
        let Some(sent) = new.checked_sub(1).map(|last| later.sent_at[last]) else { continue };
        for (earlier, kept) in all {
            let before = earlier.acknowledged_at.iter().take_while(|at| **at < sent).count() as u64;
            assert!(
                earlier.from + before <= kept.most,
                "operation {} of writer {} survived, {} acknowledged ones before it of writer {} did not",
                there.least,
                later.writer,
                earlier.from + before - kept.most,
                earlier.writer
            );
        }
    }
}
