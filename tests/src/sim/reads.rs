//! Reads of every kind, compared with the model.
//! Guarantees: R1 a read gives what the model holds and nothing else, so no byte is served that was never written; R2 a due
//! record is not served; R3 a view is what it was when it was taken.
//! Must not know: how the store finds records.
//! Next: lives.rs compares whole states after a crash.

use super::model::{Bytes, Rec, SPACES, State};
use super::run::{HeldView, Run};
use super::{Checked, broken};
use logd_engine::core::StateView;
use logd_engine::core::{Direction, ScanPosition};
use logd_engine::units::Millis;
use logd_engine::{Keyspace, Scope};
use std::collections::BTreeMap;
use std::ops::Bound;

type Seen = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn live_of(state: &State, space: usize, now: Millis) -> Seen {
    let live = state.spaces[space].iter().filter(|(_, record)| !record.is_due(now));
    live.map(|(key, record)| (key.to_vec(), (record.value.to_vec(), record.expiry))).collect()
}

/// Says the first difference between what was seen and what is right.
fn compare(rule: &'static str, place: &str, seen: &Seen, right: &Seen) -> Checked {
    if seen == right {
        return Ok(());
    }
    let keys = seen.keys().chain(right.keys());
    let key = keys.into_iter().find(|key| seen.get(*key) != right.get(*key)).expect("they differ somewhere");
    let words = |found: Option<&(Vec<u8>, u64)>| match found {
        Some((value, expiry)) => format!("{} bytes {:02x?} until {expiry}", value.len(), &value[..value.len().min(8)]),
        None => "nothing".to_owned(),
    };
    let name = key.escape_ascii();
    broken(rule, format!("{place}: {name} is {}, should be {}", words(seen.get(key)), words(right.get(key))))
}

impl Run {
    /// One record.
    pub fn get(&mut self, space: usize) -> Checked {
        let key = self.draw_key(space);
        self.check_keys(&[(space, key)])
    }

    /// Some records, one by one.
    pub fn check_keys(&mut self, keys: &[(usize, Bytes)]) -> Checked {
        let now = self.opened().db().time().now();
        for (space, key) in keys {
            let handle = self.handle(*space);
            let look = |record: Option<logd_engine::Record<'_>>| {
                record.map(|record| Rec { value: record.value.into(), expiry: record.expiry.map_or(0, |end| end.0) })
            };
            let found = self.opened().db().get_with(handle, key, look);
            if found.as_ref() != self.model.now.live(*space, key, now) {
                let right = self.model.now.raw(*space, key);
                return broken("read", format!("get {} at {now:?}: {found:?}, not {right:?}", key.escape_ascii()));
            }
        }
        Ok(())
    }

    /// Reads of several shards at one moment.
    pub fn read_transaction(&mut self) -> Checked {
        let spaces: Vec<usize> = (0..SPACES.len()).filter(|space| self.keyspaces[*space].is_some()).collect();
        let keys: Vec<(usize, Bytes)> = spaces.iter().map(|space| (*space, self.draw_key(*space))).collect();
        let named: Vec<(Keyspace, &[u8])> = keys.iter().map(|(space, key)| (self.handle(*space), &key[..])).collect();
        let found = self.store.as_ref().expect("open").db().read(Scope::Keys(&named), |transaction| {
            let now = transaction.now();
            let get =
                |(handle, key): &(Keyspace, &[u8])| transaction.get(*handle, key).map(|record| record.value.to_vec());
            (now, named.iter().map(get).collect::<Vec<_>>())
        });
        let right =
            |(space, key): &(usize, Bytes)| self.model.now.live(*space, key, found.0).map(|rec| rec.value.to_vec());
        if found.1 != keys.iter().map(right).collect::<Vec<_>>() {
            return broken("read", "a read over several shards saw something else");
        }
        Ok(())
    }

    /// All of a keyspace, by all ways there are.
    pub fn check_space(&mut self, space: usize) -> Checked {
        let Some(handle) = self.keyspaces[space] else { return Ok(()) };
        let steps = 1 + self.client.below(40) as usize;
        let random = self.client.next_u64();
        let store = self.store.as_ref().expect("the store is open");
        let db = store.db();
        let now = db.time().now();
        let right = live_of(&self.model.now, space, now);
        let mut seen = Seen::new();
        let (mut position, mut twice) = (Some(ScanPosition::default()), false);
        while let Some(from) = position {
            position = db.visit(handle, &from, steps, |key, record| {
                let found = (record.value.to_vec(), record.expiry.map_or(0, |end| end.0));
                twice |= seen.insert(key.to_vec(), found).is_some();
            });
        }
        if twice {
            return broken("read", "a walk visited a record twice");
        }
        compare("read", SPACES[space].name, &seen, &right)?;
        let held = &self.model.now.spaces[space];
        if db.len(handle) != held.len() {
            return broken("read", format!("len is {}, should be {}", db.len(handle), held.len()));
        }
        let expiring = held.values().filter(|record| record.expiry != 0).count();
        if db.expiring_len(handle) != expiring {
            return broken("expiry", format!("{} records will end, should be {expiring}", db.expiring_len(handle)));
        }
        match db.sample(handle, random) {
            None if held.is_empty() => Ok(()),
            Some(key) if held.contains_key(&key[..]) => Ok(()),
            other => broken("read", format!("sample gave {other:?}")),
        }
    }

    /// Everything there is.
    pub fn check_everything(&mut self) -> Checked {
        (0..SPACES.len()).try_for_each(|space| self.check_space(space))?;
        self.check_digest()
    }

    /// The digest of the running store.
    pub fn check_digest(&mut self) -> Checked {
        let (lsn, digest) = self.opened().db().digest();
        let right = self.model.now.digest;
        if digest.0 != right {
            return broken("digest", format!("{digest} at LSN {lsn}, should be {right:032x}"));
        }
        Ok(())
    }

    /// One of the views that are held; it is let go of now and then.
    pub fn check_a_view(&mut self) -> Checked {
        if self.views.is_empty() {
            return Ok(());
        }
        let place = self.order.below(self.views.len() as u64) as usize;
        check_view(&self.views[place])?;
        if self.order.one_in(2) {
            self.views.swap_remove(place);
        }
        Ok(())
    }

    /// A second opening must be refused.
    pub fn check_lock(&mut self) -> Checked {
        if self.storage.is_dead() || self.is_faulty || self.is_stuck {
            return Ok(());
        }
        match self.builder().open_stepped(1) {
            Err(logd_engine::Error::Refused(logd_engine::error::Refused::InUse { .. })) => Ok(()),
            Err(_) if self.storage.is_dead() => Ok(()),
            Err(error) => broken("lock", format!("a second opening got {error}")),
            Ok(_) => broken("lock", "the store could be opened twice"),
        }
    }
}

/// Compares a view with what the model held when it was taken.
pub fn check_view(held: &HeldView) -> Checked {
    let HeldView { view, state, keyspaces } = held;
    compare_raw("view", view, state)?;
    if view.digest().0 != state.digest {
        return broken("view", "the digest of a view has changed");
    }
    for (space, handle) in
        keyspaces.iter().enumerate().filter_map(|(space, handle)| handle.map(|handle| (space, handle)))
    {
        let right = live_of(state, space, view.time);
        for direction in [Direction::Forward, Direction::Backward] {
            let range = view.range(handle, Bound::Unbounded, Bound::Unbounded, direction);
            let seen: Vec<Vec<u8>> = range.map(|(key, _)| key.to_vec()).collect();
            let mut keys: Vec<Vec<u8>> = right.keys().cloned().collect();
            if direction == Direction::Backward {
                keys.reverse();
            }
            if seen != keys {
                return broken("view", format!("a range of {} has other keys", SPACES[space].name));
            }
        }
        for (key, (value, _)) in &right {
            if view.get(handle, key).map(|record| record.value) != Some(&value[..]) {
                return broken("view", format!("{} is another in the view", key.escape_ascii()));
            }
        }
    }
    Ok(())
}

/// Compares every logged record of a view, due or not, with a state.
pub fn compare_raw(rule: &'static str, view: &StateView, state: &State) -> Checked {
    let mut seen = vec![Seen::new(); SPACES.len()];
    let mut unknown = None;
    view.visit_all(&mut |number, key, entry| {
        let name = view.catalog.keyspaces.get(usize::from(number)).map(|definition| definition.name.as_str());
        match SPACES.iter().position(|space| Some(space.name) == name) {
            Some(space) => drop(seen[space].insert(key.to_vec(), (entry.value.to_vec(), entry.expiry_millis))),
            None => unknown = Some(number),
        }
    });
    if let Some(number) = unknown {
        return broken(rule, format!("records of a keyspace with number {number}, which nobody made"));
    }
    for (space, definition) in SPACES.iter().enumerate().filter(|(_, definition)| !definition.volatile) {
        compare(rule, definition.name, &seen[space], &live_of(state, space, Millis(0)))?;
    }
    Ok(())
}
