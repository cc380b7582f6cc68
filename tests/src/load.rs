//! Writers that know what must be there afterwards.
//! Guarantees: the state after any number of a writer's operations can be computed again, so a hole or a foreign value shows.
//! Must not know: how the daemon stores anything.
//! Next: tests/tests/daemon_kill.rs.

use crate::client::{Client, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Keys of one writer.
const KEYS: u64 = 16;

/// What a writer did until its connection broke.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Its number.
    pub writer: u64,
    /// Operations sent.
    pub sent: u64,
    /// Operations acknowledged.
    pub acknowledged: u64,
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

/// Starts a writer that pipelines until told to stop or cut off. `from`: operations it had done before.
pub fn start_writer(port: u16, writer: u64, from: u64, stop: Arc<AtomicBool>) -> JoinHandle<Done> {
    std::thread::spawn(move || {
        let mut done = Done { writer, sent: from, acknowledged: from };
        let Ok(mut client) = Client::connect(port) else { return done };
        while !stop.load(Ordering::Relaxed) {
            let count = 1 + done.sent % 16;
            let requests: Vec<_> = (1..=count).map(|step| operation(writer, done.sent + step)).collect();
            done.sent += count;
            if client.send(&requests).is_err() {
                return done;
            }
            for _ in 0..count {
                match client.receive() {
                    Ok(Reply::Error(text)) => panic!("writer {writer} got an error: {text}"),
                    Ok(_) => done.acknowledged += 1,
                    Err(_) => return done,
                }
            }
        }
        done
    })
}

/// Checks a restarted daemon against what a writer was told. Gives the number of operations that survived.
/// Panics if an acknowledged one is missing, or if no prefix of the operations gives what is there.
pub fn check_writer(client: &mut Client, done: Done) -> u64 {
    let mut found = BTreeMap::new();
    for at in 0..KEYS {
        let key = format!("w{}:{at}", done.writer);
        if let Reply::Bulk(Some(value)) = client.call(&["GET", &key]).expect("a running daemon answers") {
            found.insert(key.into_bytes(), value);
        }
    }
    let mut model = BTreeMap::new();
    let mut best = (model == found).then_some(0);
    for number in 1..=done.sent {
        model_step(&mut model, &operation(done.writer, number));
        if model == found {
            best = Some(number);
        }
    }
    let survived =
        best.unwrap_or_else(|| panic!("no prefix of writer {}'s operations gives what is there", done.writer));
    assert!(
        survived >= done.acknowledged,
        "writer {}: {} acknowledged, {survived} there",
        done.writer,
        done.acknowledged
    );
    survived
}
