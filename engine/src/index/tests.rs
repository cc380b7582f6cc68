//! The tree against std's ordered map: random operations by seed, views held meanwhile, the structure checked inside.
//! Guarantees: under Miri the same tests run with fewer rounds.
//! Must not know: anything the product could not rely on, except where nodes are counted.
//! Next: nothing; this is a leaf.

use super::edit::{KEY_INLINE_BYTES_MAX, VALUE_INLINE_BYTES_MAX};
use super::node::Node;
use super::search::head_of;
use super::{BulkBuilder, Entry, Previous, Range, Tree, View};
use crate::prng::Prng;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn rounds(full: u64) -> u64 {
    if cfg!(miri) { full / 200 + 40 } else { full }
}

/// How keys and values of a run look.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Few short keys, so that everything happens to the same ones; the empty key among them.
    Short,
    /// Long shared prefixes, zeros at the end.
    Prefixed,
    /// Sixteen random bytes.
    Random,
    /// Keys and values on both sides of the inline bounds.
    Large,
}
const SHAPES: [Shape; 4] = [Shape::Short, Shape::Prefixed, Shape::Random, Shape::Large];

fn key(prng: &mut Prng, shape: Shape) -> Vec<u8> {
    match shape {
        Shape::Short => (0..prng.below(4)).map(|_| prng.below(9) as u8).collect(),
        Shape::Prefixed => {
            let mut key = format!("site/{:04}/dev/{}", prng.below(4), prng.below(200)).into_bytes();
            key.extend(std::iter::repeat_n(0, prng.below(6) as usize));
            key
        }
        Shape::Random => {
            let number = prng.below(3000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [number.to_be_bytes(), number.to_le_bytes()].concat()
        }
        Shape::Large => {
            let length = [1, 100, KEY_INLINE_BYTES_MAX, KEY_INLINE_BYTES_MAX + 1, 3000][prng.below(5) as usize];
            let mut key = vec![7; length];
            key.extend((prng.below(60) as u16).to_be_bytes());
            key
        }
    }
}

fn value(prng: &mut Prng, shape: Shape) -> Vec<u8> {
    let bound = match shape {
        Shape::Large => 2 * VALUE_INLINE_BYTES_MAX as u64,
        _ if prng.one_in(3) => 120,
        _ => 2,
    };
    let length = if prng.one_in(2) { bound } else { prng.below(bound) };
    vec![prng.next_u64() as u8; length as usize]
}

fn expiry(prng: &mut Prng) -> u64 {
    if prng.one_in(3) { prng.next_u64() | 1 } else { 0 }
}

fn previous(old: Option<(Vec<u8>, u64)>) -> Previous {
    old.map_or(Previous::default(), |(value, expiry_millis)| Previous {
        existed: true,
        expiry_millis,
        value_bytes: value.len(),
    })
}

fn assert_same(range: Range<'_>, model: &Model) {
    let mut expected = model.iter();
    for (key, entry) in range {
        let (model_key, (value, expiry_millis)) = expected.next().expect("the model has as many");
        assert_eq!((key, entry.value, entry.expiry_millis), (&model_key[..], &value[..], *expiry_millis));
    }
    assert_eq!(expected.next(), None);
}

/// Checks what holds inside and counts the bytes.
fn audit(node: &Node, from: Option<&[u8]>, to: Option<&[u8]>) -> usize {
    let mut bytes = node.capacity();
    assert!(node.count() > 0 && node.used_bytes() <= node.capacity());
    let prefix = (node.first_key() < node.count()).then(|| &node.key(node.first_key())[..node.prefix_bytes()]);
    for index in 0..node.count() {
        let key = node.key(index);
        if key.len() > KEY_INLINE_BYTES_MAX {
            bytes += key.len() + 16;
        }
        if index >= node.first_key() {
            assert!(key.starts_with(prefix.expect("there is a key")));
            assert_eq!(node.slots()[index].head, head_of(key, node.prefix_bytes()));
            assert!(from.is_none_or(|from| from <= key) && to.is_none_or(|to| key < to));
            assert!(index == node.first_key() || node.key(index - 1) < key);
        }
        if node.level() == 0 {
            let value = node.entry(index).value;
            bytes += if value.len() > VALUE_INLINE_BYTES_MAX { value.len() + 16 } else { 0 };
        } else {
            assert_eq!(node.child(index).level() + 1, node.level());
            let from = if index == 0 { from } else { Some(key) };
            let to = if index + 1 < node.count() { Some(node.key(index + 1)) } else { to };
            bytes += audit(node.child(index), from, to);
        }
    }
    bytes
}

fn assert_sound(tree: &Tree, model: &Model) {
    assert_eq!(tree.len(), model.len());
    assert_eq!(tree.bytes(), tree.root().map_or(0, |root| audit(root, None, None)));
    assert_same(tree.range(ALL.0, ALL.1), model);
    assert_eq!(tree.first().map(|(key, _)| key), model.keys().next().map(Vec::as_slice));
    assert_eq!(tree.last().map(|(key, _)| key), model.keys().next_back().map(Vec::as_slice));
}

/// One random operation on both.
fn step(prng: &mut Prng, shape: Shape, removes_in_ten: u64, tree: &mut Tree, model: &mut Model) {
    let key = key(prng, shape);
    let expected = model.get(&key).map(|(value, expiry_millis)| Entry { value, expiry_millis: *expiry_millis });
    assert_eq!(tree.get(&key), expected);
    let choice = prng.below(10);
    if choice < removes_in_ten {
        assert_eq!(tree.remove(&key), previous(model.remove(&key)));
    } else if choice == 9 {
        let expiry_millis = expiry(prng);
        assert_eq!(tree.set_expiry(&key, expiry_millis), previous(model.get(&key).cloned()));
        if let Some(entry) = model.get_mut(&key) {
            entry.1 = expiry_millis;
        }
    } else {
        let (value, expiry_millis) = (value(prng, shape), expiry(prng));
        let entry = Entry { value: &value, expiry_millis };
        assert_eq!(tree.insert(&key, entry), previous(model.insert(key, (value.clone(), expiry_millis))));
    }
}

fn bound(prng: &mut Prng, shape: Shape) -> Bound<Vec<u8>> {
    match prng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(prng, shape)),
        _ => Bound::Excluded(key(prng, shape)),
    }
}

fn assert_range_agrees(prng: &mut Prng, shape: Shape, tree: &Tree, model: &Model) {
    let (from, to) = (bound(prng, shape), bound(prng, shape));
    let within = |key: &[u8]| {
        (match &from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        }) && (match &to {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        })
    };
    let expected: Vec<&[u8]> = model.keys().map(Vec::as_slice).filter(|key| within(key)).collect();
    let mut range = tree.range(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    let mut expected = expected.into_iter();
    loop {
        let (found, wanted) = match prng.one_in(2) {
            true => (range.next(), expected.next()),
            false => (range.next_back(), expected.next_back()),
        };
        assert_eq!(found.map(|(key, _)| key), wanted);
        if wanted.is_none() {
            break;
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none(), "an ended range stays ended");
}

#[test]
fn random_operations_agree_with_the_model_and_views_never_change() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let mut prng = Prng::new(seed as u64);
        let (mut tree, mut model) = (Tree::new(), Model::new());
        let mut views: Vec<(View, Model)> = Vec::new();
        let rounds = rounds(20_000);
        for round in 0..rounds {
            // Growing first, then shrinking, so that splits and joins both happen in bulk.
            let removes_in_ten = if round < rounds / 2 { 2 } else { 7 };
            step(&mut prng, shape, removes_in_ten, &mut tree, &mut model);
            if prng.one_in(rounds / 40) {
                views.push((tree.view(), model.clone()));
            }
            if views.len() > 5 {
                let (view, frozen) = views.swap_remove(prng.below(views.len() as u64) as usize);
                assert_eq!(view.len(), frozen.len());
                assert_same(view.range(ALL.0, ALL.1), &frozen);
            }
            if prng.one_in(rounds / 20) {
                assert_sound(&tree, &model);
                assert_range_agrees(&mut prng, shape, &tree, &model);
            }
        }
        for (view, frozen) in views.into_iter().rev() {
            assert_same(view.clone().range(ALL.0, ALL.1), &frozen);
            for (key, (value, _)) in &frozen {
                assert_eq!(view.get(key).map(|entry| entry.value), Some(&value[..]));
            }
        }
    }
}

#[test]
fn ranges_agree_for_all_kinds_of_bounds_from_both_ends() {
    for shape in SHAPES {
        let mut prng = Prng::new(99);
        let (mut tree, mut model) = (Tree::new(), Model::new());
        for _ in 0..rounds(2000) {
            step(&mut prng, shape, 1, &mut tree, &mut model);
        }
        for _ in 0..rounds(500) {
            assert_range_agrees(&mut prng, shape, &tree, &model);
        }
    }
}

#[test]
fn rising_and_falling_and_random_keys_come_and_go_without_a_rest() {
    let count = rounds(20_000);
    for order in 0..3 {
        let number = |index: u64| match order {
            0 => index,
            1 => count - index,
            _ => index.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let (mut tree, mut model) = (Tree::new(), Model::new());
        for index in 0..count {
            let (key, value) = (number(index).to_be_bytes(), index.to_le_bytes());
            tree.insert(&key, Entry { value: &value, expiry_millis: 0 });
            model.insert(key.to_vec(), (value.to_vec(), 0));
        }
        assert_sound(&tree, &model);
        let bytes_full = tree.bytes();
        let raw = model.len() * 16;
        assert!(order == 2 || bytes_full < raw * 2, "sequences fill their nodes: {bytes_full} for {raw}");
        let mut prng = Prng::new(order);
        while let Some(key) = tree.sample(prng.next_u64()).map(|(key, _)| key.to_vec()) {
            assert!(tree.remove(&key).existed);
            model.remove(&key);
            if model.len() as u64 == count / 16 {
                assert_sound(&tree, &model);
                assert!(cfg!(miri) || tree.bytes() < bytes_full / 4, "a thinned-out tree gives memory back");
            }
        }
        assert_eq!((tree.len(), tree.bytes(), model.len()), (0, 0, 0));
        assert!(tree.first().is_none() && tree.last().is_none());
    }
}

#[test]
fn a_bulk_built_tree_is_the_one_inserting_gives_and_can_be_changed() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let mut prng = Prng::new(seed as u64 + 50);
        let (mut inserted, mut model) = (Tree::new(), Model::new());
        for _ in 0..rounds(20_000) {
            step(&mut prng, shape, 0, &mut inserted, &mut model);
        }
        let mut builder = BulkBuilder::new();
        for (key, (value, expiry_millis)) in &model {
            let entry = Entry { value, expiry_millis: *expiry_millis };
            assert!(builder.push(key, entry));
            assert!(!builder.push(key, entry), "the same key again is not above the last");
        }
        let mut tree = builder.finish();
        assert_sound(&tree, &model);
        for _ in 0..rounds(10_000) {
            step(&mut prng, shape, 5, &mut tree, &mut model);
        }
        assert_sound(&tree, &model);
    }
    assert!(BulkBuilder::new().finish().is_empty());
}

#[test]
fn the_longest_keys_and_huge_values_are_kept_whole() {
    let mut tree = Tree::new();
    let mut model = Model::new();
    let (key_bytes, value_bytes) = if cfg!(miri) { (2000, 10_000) } else { (65_535, 20 << 20) };
    for last in 0..40_u8 {
        let mut key = vec![1; key_bytes];
        key[key_bytes - 1] = last;
        let value = vec![last; if last % 10 == 0 { value_bytes } else { 600 }];
        tree.insert(&key, Entry { value: &value, expiry_millis: 5 });
        model.insert(key, (value, 5));
    }
    assert_sound(&tree, &model);
    let view = tree.view();
    for key in model.keys() {
        tree.insert(key, Entry { value: &[], expiry_millis: 0 });
    }
    assert_same(view.range(ALL.0, ALL.1), &model);
    model.values_mut().for_each(|entry| *entry = (Vec::new(), 0));
    assert_sound(&tree, &model);
}

#[test]
fn random_insertion_stays_within_the_memory_budget() {
    let mut prng = Prng::new(3);
    for (value_bytes, overhead_bytes_max) in [(100, 30), (8, 25)] {
        let mut tree = Tree::new();
        let count = rounds(20_000) as usize;
        for _ in 0..count {
            let key = [prng.next_u64().to_be_bytes(), prng.next_u64().to_be_bytes()].concat();
            tree.insert(&key, Entry { value: &vec![1; value_bytes], expiry_millis: 0 });
        }
        let overhead = tree.bytes() / count - 16 - value_bytes;
        assert!(overhead <= overhead_bytes_max, "{overhead} bytes beside {value_bytes}");
    }
}

#[test]
fn a_cleared_tree_is_empty_and_hands_out_what_it_was() {
    let (mut tree, mut model) = (Tree::new(), Model::new());
    for index in 0..500_u16 {
        tree.insert(&index.to_be_bytes(), Entry { value: b"v", expiry_millis: 1 });
        model.insert(index.to_be_bytes().to_vec(), (b"v".to_vec(), 1));
    }
    let before = tree.clear();
    assert_eq!((tree.len(), tree.bytes()), (0, 0));
    assert_same(before.range(ALL.0, ALL.1), &model);
    tree.insert(b"", Entry { value: b"", expiry_millis: 0 });
    assert_eq!(tree.get(b""), Some(Entry { value: b"", expiry_millis: 0 }));
}

#[test]
fn a_view_read_on_another_thread_stays_as_it_was_while_the_tree_changes() {
    let count = rounds(4000);
    let mut tree = Tree::new();
    for round in 0..5_u64 {
        for index in 0..count {
            // Value and key agree within a round, one in four values out of line.
            let value = vec![round as u8; if index % 4 == 0 { 600 } else { 30 }];
            tree.insert(&index.to_be_bytes(), Entry { value: &value, expiry_millis: round });
        }
        let view = tree.view();
        let reader = std::thread::spawn(move || {
            for _ in 0..3 {
                let whole = view.range(ALL.0, ALL.1).all(|(_, entry)| {
                    entry.expiry_millis == round && entry.value.iter().all(|byte| u64::from(*byte) == round)
                });
                assert!(whole && view.range(ALL.0, ALL.1).count() as u64 == count);
            }
        });
        for index in 0..count {
            tree.remove(&(index * 7 % count).to_be_bytes());
            tree.insert(&(index * 3 % count).to_be_bytes(), Entry { value: &[99; 30], expiry_millis: 99 });
        }
        reader.join().expect("the reader saw one state");
    }
}
