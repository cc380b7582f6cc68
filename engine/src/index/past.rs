//! Reading a tree as it was at a past moment while it goes on being changed in place.
//! Guarantees: exact, whatever is changed and in whatever order, as long as every change is noted before it is made; what is
//! kept is the old records of keys that were changed and not yet passed by the reader, nothing else.
//! Must not know: who reads, locks, the log.
//! Next: core/cut.rs holds one for every tree that a snapshot is made of.

use super::{Entry, Range, Tree, View};
use crate::canary::{Canary, planted};
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

const NOTHING: Entry<'static> = Entry { value: &[], expiry_millis: 0 };

/// What has to be kept of a tree so that a reader, who goes through it from the lowest key up, finds it as it was when this
/// was made.
#[derive(Default)]
pub struct Past {
    /// The reader is through with keys up to here: they are changed without a trace.
    passed: Option<Box<[u8]>>,
    /// Old records of keys that were changed since.
    kept: Tree,
    /// Keys that were not there.
    born: Tree,
    /// The tree itself, once it was cleared: nothing that comes later concerns the reader.
    whole: Option<Tree>,
}

impl Past {
    /// The present is the moment that will be read.
    pub fn new() -> Past {
        Past::default()
    }

    /// A key of `now`, the tree, is going to be changed.
    pub fn note(&mut self, now: &Tree, key: &[u8]) {
        let is_passed = self.passed.as_deref().is_some_and(|passed| key <= passed);
        if is_passed || self.whole.is_some() || self.kept.get(key).is_some() || self.born.get(key).is_some() {
            return;
        }
        match now.get(key) {
            Some(entry) => self.kept.insert(key, entry),
            None => self.born.insert(key, NOTHING),
        };
    }

    /// All of `now`, the tree, is going to be replaced.
    pub fn note_all(&mut self, now: &Tree) {
        if planted(Canary::ClearNotKept) && self.passed.is_some() {
            return;
        }
        self.whole.get_or_insert_with(|| now.clone());
    }

    /// The reader is through with everything up to a key. Forgets what was kept for it, not more than about `count_max` records
    /// at once; false if there is more, and it has to be called again.
    pub fn pass(&mut self, key: &[u8], count_max: usize) -> bool {
        if self.passed.as_deref() != Some(key) {
            self.passed = Some(key.into());
        }
        forget(&mut self.kept, key, count_max) && forget(&mut self.born, key, count_max)
    }

    /// The tree behind what was passed, as it was; O(1). `now` is the tree as it is.
    pub fn view(&self, now: &Tree) -> PastView {
        let now = self.whole.as_ref().unwrap_or(now);
        PastView { now: now.view(), kept: self.kept.view(), born: self.born.view() }
    }

    /// Bytes that are held for the reader alone.
    pub fn bytes(&self) -> usize {
        self.kept.bytes() + self.born.bytes() + self.whole.as_ref().map_or(0, Tree::bytes)
    }

    /// What is left when the reader is done with it: to be dropped where the time is not missed.
    pub fn into_trees(self) -> impl Iterator<Item = Tree> {
        [Some(self.kept), Some(self.born), self.whole].into_iter().flatten()
    }
}

fn forget(tree: &mut Tree, up_to: &[u8], count_max: usize) -> bool {
    for _ in 0..count_max {
        let Some(key) = tree.first().map(|(key, _)| key).filter(|key| *key <= up_to).map(Box::<[u8]>::from) else {
            return true;
        };
        tree.remove(&key);
    }
    false
}

/// A tree as it was, from where its reader stands on. While it is held, changes of the tree copy what they touch: be short.
#[derive(Clone, Default)]
pub struct PastView {
    now: View,
    kept: View,
    born: View,
}

impl PastView {
    /// A view of a tree that was frozen as a whole.
    pub fn of(view: View) -> PastView {
        PastView { now: view, ..PastView::default() }
    }

    /// Records behind a key, in order.
    pub fn behind<'a>(&'a self, after: Option<&[u8]>) -> PastRange<'a> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = |view: &'a View| view.range(from, Bound::Unbounded).peekable();
        PastRange { now: range(&self.now), kept: range(&self.kept), born: range(&self.born) }
    }
}

/// Walks a tree as it was.
pub struct PastRange<'a> {
    now: Peekable<Range<'a>>,
    kept: Peekable<Range<'a>>,
    born: Peekable<Range<'a>>,
}

impl<'a> Iterator for PastRange<'a> {
    type Item = (&'a [u8], Entry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((key, _)) = self.now.peek().copied() else { return self.kept.next() };
            match self.kept.peek().map_or(Ordering::Greater, |(kept, _)| (*kept).cmp(key)) {
                Ordering::Less => return self.kept.next(),
                Ordering::Equal => {
                    self.now.next();
                    return self.kept.next();
                }
                Ordering::Greater => {}
            }
            while self.born.next_if(|(born, _)| *born < key).is_some() {}
            let record = self.now.next();
            if self.born.next_if(|(born, _)| *born == key).is_none() {
                return record;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

    fn random_key(prng: &mut Prng) -> Vec<u8> {
        (prng.below(2000) as u32).to_be_bytes()[1..].repeat(1 + prng.below(2) as usize)
    }

    /// One change of the tree: mostly of single keys, now and then everything at once, as undoing does too.
    fn change(prng: &mut Prng, tree: &mut Tree, past: &mut Past) {
        let key = random_key(prng);
        match prng.below(1000) {
            0 => {
                past.note_all(tree);
                let cleared = std::mem::take(tree);
                if prng.one_in(2) {
                    past.note_all(tree);
                    *tree = cleared;
                }
            }
            1..300 => {
                past.note(tree, &key);
                tree.remove(&key);
            }
            300..400 => {
                past.note(tree, &key);
                tree.set_expiry(&key, prng.below(9));
            }
            _ => {
                past.note(tree, &key);
                let value = vec![prng.below(256) as u8; [3, 40, 700][prng.below(3) as usize]];
                tree.insert(&key, Entry { value: &value, expiry_millis: prng.below(3) });
            }
        }
    }

    fn filled(prng: &mut Prng, count: u64) -> (Tree, Model) {
        let mut tree = Tree::new();
        for _ in 0..count {
            let key = random_key(prng);
            tree.insert(&key, Entry { value: &key, expiry_millis: prng.below(2) });
        }
        let all = tree.range(Bound::Unbounded, Bound::Unbounded);
        let model = all.map(|(key, entry)| (key.to_vec(), (entry.value.to_vec(), entry.expiry_millis))).collect();
        (tree, model)
    }

    #[test]
    fn a_reader_finds_the_tree_as_it_was_whatever_is_changed_meanwhile() {
        let (rounds, count) = if cfg!(miri) { (3, 60) } else { (300, 1500) };
        for seed in 0..rounds {
            let mut prng = Prng::new(seed);
            let (mut tree, model) = filled(&mut prng, count);
            let (mut past, mut found, mut after) = (Past::new(), Model::new(), None::<Vec<u8>>);
            loop {
                for _ in 0..prng.below(60) {
                    change(&mut prng, &mut tree, &mut past);
                }
                if let Some(after) = &after {
                    while !past.pass(after, 7) {}
                }
                let view = past.view(&tree);
                // The tree changes under the very look too.
                for _ in 0..prng.below(5) {
                    change(&mut prng, &mut tree, &mut past);
                }
                let before = found.len();
                for (key, entry) in view.behind(after.as_deref()).take(1 + prng.below(200) as usize) {
                    found.insert(key.to_vec(), (entry.value.to_vec(), entry.expiry_millis));
                }
                if found.len() == before {
                    break;
                }
                after = found.keys().next_back().cloned();
            }
            assert!(found == model, "seed {seed}");
        }
    }

    #[test]
    fn what_was_passed_is_kept_no_longer_and_what_is_changed_behind_the_reader_leaves_no_trace() {
        let mut prng = Prng::new(1);
        let (mut tree, _) = filled(&mut prng, 500);
        let mut past = Past::new();
        for _ in 0..200 {
            let key = random_key(&mut prng);
            past.note(&tree, &key);
            tree.insert(&key, NOTHING);
        }
        assert!(past.bytes() > 0);
        let last = [0xff; 8];
        assert!(!past.pass(&last, 10), "bounded at once");
        while !past.pass(&last, 10) {}
        assert_eq!(past.bytes(), 0);
        past.note(&tree, &random_key(&mut prng));
        assert_eq!(past.bytes(), 0);
    }
}
