//! One node of the tree: a slotted page in one reference-counted allocation. Raw memory is touched here and in edit.rs only.
//! Guarantees: a node that can be reached from two places is never changed; it goes, with what it alone holds, when the
//! last reference goes.
//! Must not know: how nodes form a tree, and when they are split or merged.
//! Next: edit.rs, search.rs.
//!
//! ```text
//! header 16 | slots, 8 each, in key order | free | cells, downwards from the end
//! leaf cell    key area | value word 2 | [expiry 8] | value area
//! inner cell   key area, padded to 8 | child 8
//! area         the bytes themselves, or the fat pointer of an Arc<[u8]> that holds them
//! ```
//!
//! Keys stand whole in their cells, so that a scan can lend them out. A slot holds four bytes of its key, taken behind
//! the prefix that all keys of the node share, and most comparisons end there. The first key of an inner node is empty
//! and stands for "below everything".
#![expect(unsafe_code, reason = "one allocation a node; sound by the layout above, tested under Miri against BTreeMap")]

use super::Entry;
use super::edit::NodeMut;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes before the first slot.
pub(super) const HEADER_BYTES: usize = size_of::<Header>();
/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
/// Bytes of a child pointer in an inner cell, on any machine.
pub(super) const CHILD_BYTES: usize = 8;
/// Bytes of an area whose content is out of line.
pub(super) const POINTER_BYTES: usize = size_of::<*const [u8]>();
/// Bytes of a value word.
pub(super) const WORD_BYTES: usize = 2;
/// Bytes of an expiry.
pub(super) const EXPIRY_BYTES: usize = 8;
/// Set in a key or value word whose content is out of line.
pub(super) const OUT: u16 = 0x8000;
/// Set in a value word that is followed by an expiry.
pub(super) const EXPIRES: u16 = 0x4000;

const CAPACITY_MAX: usize = 0xfff8;
const ALIGN: usize = 8;
const REFS_MAX: u32 = i32::MAX as u32;

const _: () = assert!(HEADER_BYTES == 16 && SLOT_BYTES == 8 && size_of::<Node>() <= CHILD_BYTES, "the layout above");

/// What a node says about itself.
#[repr(C, align(8))]
pub(super) struct Header {
    refs: AtomicU32,
    pub(super) count: u16,
    level: u8,
    /// Whether any area may be out of line.
    pub(super) has_out: bool,
    pub(super) prefix_bytes: u16,
    capacity: u16,
    /// Where the lowest cell begins.
    pub(super) cells_start: u16,
    /// Bytes among the cells that belong to none any more.
    pub(super) dead_bytes: u16,
}

/// Where a key is, and enough of it to rule out most others.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The four bytes behind the prefix of the node, padded with zeros, as a number.
    pub(super) head: u32,
    /// Length of the key, or `OUT`.
    pub(super) key_word: u16,
    /// Where its cell begins.
    pub(super) cell: u16,
}

/// A counted reference to a node.
#[repr(transparent)]
pub(super) struct Node {
    base: NonNull<u8>,
}

// SAFETY: the count is atomic, and everything else changes only while the count says that nobody else can see it.
unsafe impl Send for Node {}
// SAFETY: as above: through `&Node` there are reads and atomic counting only.
unsafe impl Sync for Node {}

/// Where the parts of a leaf cell behind the key are, counted from the start of the node.
pub(super) struct ValuePlace {
    slot: Slot,
    pub(super) word: u16,
    pub(super) word_at: usize,
    pub(super) value_at: usize,
}

/// Bytes an area takes that belongs to a key or value word.
#[inline]
pub(super) fn area_bytes(word: u16) -> usize {
    if word & OUT == 0 { usize::from(word & !EXPIRES) } else { POINTER_BYTES }
}

/// A hint: it touches nothing, and any address will do.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: part of the base instruction set, and without effect on the program.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGN).expect("capacities are bounded by CAPACITY_MAX")
}

impl Node {
    /// An empty node; level 0 is a leaf.
    pub(super) fn new(level: u8, capacity: usize) -> Node {
        assert!(capacity.is_multiple_of(ALIGN) && (HEADER_BYTES..=CAPACITY_MAX).contains(&capacity), "{capacity}");
        // SAFETY: the size is not zero.
        let base = unsafe { alloc(layout(capacity)) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout(capacity)));
        let refs = AtomicU32::new(1);
        let capacity = capacity as u16;
        let header = Header {
            refs,
            count: 0,
            level,
            has_out: false,
            prefix_bytes: 0,
            capacity,
            cells_start: capacity,
            dead_bytes: 0,
        };
        // SAFETY: fresh, aligned, and at least a header long.
        unsafe { base.cast::<Header>().write(header) };
        Node { base }
    }

    /// The smallest sensible capacity for so many used bytes: few sizes, which fill glibc's chunks without a rest.
    pub(super) fn capacity_for(used_bytes: usize) -> usize {
        (used_bytes + 8).next_multiple_of(64).max(128) - 8
    }

    /// The start of the allocation, valid for `capacity` bytes.
    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: `new` wrote it; while others may see the node only the atomic in it changes.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Height above the leaves.
    #[inline]
    pub(super) fn level(&self) -> u8 {
        self.header().level
    }

    /// Number of slots.
    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.header().count)
    }

    /// Bytes of the allocation.
    pub(super) fn capacity(&self) -> usize {
        usize::from(self.header().capacity)
    }

    /// Length of the prefix that all keys share.
    #[inline]
    pub(super) fn prefix_bytes(&self) -> usize {
        usize::from(self.header().prefix_bytes)
    }

    /// The first slot with a key: inner nodes have none in slot 0.
    #[inline]
    pub(super) fn first_key(&self) -> usize {
        usize::from(self.level() > 0)
    }

    /// Where the slots end.
    pub(super) fn slots_end(&self) -> usize {
        HEADER_BYTES + self.count() * SLOT_BYTES
    }

    /// Bytes that the content needs.
    pub(super) fn used_bytes(&self) -> usize {
        let header = self.header();
        self.slots_end() + usize::from(header.capacity - header.cells_start - header.dead_bytes)
    }

    /// All slots in key order.
    #[inline]
    pub(super) fn slots(&self) -> &[Slot] {
        // SAFETY: the first `count` slots behind the header are always written, and aligned since the header is 16 bytes.
        unsafe { std::slice::from_raw_parts(self.base().add(HEADER_BYTES).cast::<Slot>(), self.count()) }
    }

    /// The key of a slot.
    #[inline]
    pub(super) fn key(&self, index: usize) -> &[u8] {
        let slot = self.slots()[index];
        // SAFETY: the cell of a slot begins with the key area that its word describes.
        unsafe { self.area(usize::from(slot.cell), slot.key_word) }
    }

    /// Lends out an area.
    ///
    /// # Safety
    /// An area described by `word` must begin at `at`.
    #[inline]
    unsafe fn area(&self, at: usize, word: u16) -> &[u8] {
        // SAFETY: the caller vouches for the area, and what it names lives as long as the node is not changed.
        unsafe {
            let at = self.base().add(at);
            if word & OUT == 0 {
                std::slice::from_raw_parts(at, usize::from(word & !EXPIRES))
            } else {
                &*at.cast::<*const [u8]>().read_unaligned()
            }
        }
    }

    /// Where value and expiry of a slot are.
    #[inline]
    pub(super) fn value_place(&self, index: usize) -> ValuePlace {
        assert!(self.level() == 0, "inner nodes hold no values");
        let slot = self.slots()[index];
        let word_at = usize::from(slot.cell) + area_bytes(slot.key_word);
        // SAFETY: in a leaf the value word follows the key area.
        let word = unsafe { self.base().add(word_at).cast::<u16>().read_unaligned() };
        let value_at = word_at + WORD_BYTES + if word & EXPIRES == 0 { 0 } else { EXPIRY_BYTES };
        ValuePlace { slot, word, word_at, value_at }
    }

    /// What stands behind a key of a leaf.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Entry<'_> {
        self.record(index).1
    }

    /// Key and entry of a slot of a leaf.
    #[inline]
    pub(super) fn record(&self, index: usize) -> (&[u8], Entry<'_>) {
        let place = self.value_place(index);
        let mut expiry_millis = 0;
        // SAFETY: the word says whether an expiry follows it, and what area comes then.
        unsafe {
            if place.word & EXPIRES != 0 {
                expiry_millis = self.base().add(place.word_at + WORD_BYTES).cast::<u64>().read_unaligned();
            }
            let key = self.area(usize::from(place.slot.cell), place.slot.key_word);
            (key, Entry { value: self.area(place.value_at, place.word), expiry_millis })
        }
    }

    /// Asks the processor to fetch header and slots.
    #[inline]
    pub(super) fn prefetch_slots(&self) {
        for line in 0..5 {
            prefetch(self.base().wrapping_add(line * 64));
        }
    }

    /// Asks the processor to fetch the cell of a slot, if there is such a slot.
    #[inline]
    pub(super) fn prefetch_cell(&self, index: usize) {
        if let Some(slot) = self.slots().get(index) {
            prefetch(self.base().wrapping_add(usize::from(slot.cell)));
        }
    }

    /// Where the child pointer of a slot is.
    #[inline]
    pub(super) fn child_place(&self, index: usize) -> *mut Node {
        assert!(self.level() > 0, "leaves have no children");
        let slot = self.slots()[index];
        let at = usize::from(slot.cell) + area_bytes(slot.key_word).next_multiple_of(CHILD_BYTES);
        // SAFETY: inside the cell, so inside the allocation.
        unsafe { self.base().add(at).cast::<Node>() }
    }

    /// A child of an inner node.
    #[inline]
    pub(super) fn child(&self, index: usize) -> &Node {
        // SAFETY: a child is there, aligned as inner cells are whole multiples of 8; `&self` keeps it in place.
        unsafe { &*self.child_place(index) }
    }

    /// Bytes of the cell of a slot.
    pub(super) fn cell_bytes(&self, index: usize) -> usize {
        let slot = self.slots()[index];
        if self.level() > 0 {
            return area_bytes(slot.key_word).next_multiple_of(CHILD_BYTES) + CHILD_BYTES;
        }
        let place = self.value_place(index);
        place.value_at - usize::from(slot.cell) + area_bytes(place.word)
    }

    /// Whether anyone else may see it.
    pub(super) fn is_shared(&self) -> bool {
        self.header().refs.load(Ordering::Acquire) != 1
    }

    /// Access for changing it, after copying it if anyone else can see it. `bytes` is the account of the tree.
    pub(super) fn unique<'a>(&'a mut self, bytes: &'a mut usize) -> NodeMut<'a> {
        // Acquire: what a view on another thread read from here comes before what is written from now on.
        if self.is_shared() {
            *self = self.duplicate(self.capacity());
        }
        NodeMut::new(self, bytes)
    }

    /// A copy that shares children and out-of-line bytes.
    fn duplicate(&self, capacity: usize) -> Node {
        let copy = self.copy_bits(capacity);
        let header = copy.header();
        for index in 0..if header.level > 0 || header.has_out { copy.count() } else { 0 } {
            if header.level > 0 {
                std::mem::forget(copy.child(index).clone());
            }
            copy.for_each_out(index, |bytes| {
                // SAFETY: it came from `Arc::into_raw` and the original still holds it.
                unsafe { Arc::increment_strong_count(bytes) }
            });
        }
        copy
    }

    /// A copy bit by bit; original and copy must not both be dropped as owners.
    pub(super) fn copy_bits(&self, capacity: usize) -> Node {
        let header = self.header();
        let copy = Node::new(header.level, capacity);
        let cells_bytes = usize::from(header.capacity - header.cells_start);
        let cells_start = capacity - cells_bytes;
        assert!(self.slots_end() <= cells_start, "the copy has room for all");
        let moved = (capacity as u16).wrapping_sub(header.capacity);
        // SAFETY: both ranges are inside both allocations, which are distinct; nobody else knows the copy yet.
        unsafe {
            let target = copy.base();
            ptr::copy_nonoverlapping(
                self.base().add(usize::from(header.cells_start)),
                target.add(cells_start),
                cells_bytes,
            );
            let slots = target.add(HEADER_BYTES).cast::<Slot>();
            for (index, slot) in self.slots().iter().enumerate() {
                slots.add(index).write(Slot { cell: slot.cell.wrapping_add(moved), ..*slot });
            }
            let target = &mut *target.cast::<Header>();
            target.count = header.count;
            target.has_out = header.has_out;
            target.prefix_bytes = header.prefix_bytes;
            target.cells_start = cells_start as u16;
            target.dead_bytes = header.dead_bytes;
        }
        copy
    }

    /// Visits the out-of-line bytes of a slot.
    fn for_each_out(&self, index: usize, mut visit: impl FnMut(*const [u8])) {
        let slot = self.slots()[index];
        let mut visit_area = |at: usize, word: u16| {
            if word & OUT != 0 {
                // SAFETY: the word says that a pointer begins there.
                visit(unsafe { self.base().add(at).cast::<*const [u8]>().read_unaligned() });
            }
        };
        visit_area(usize::from(slot.cell), slot.key_word);
        if self.level() == 0 {
            let place = self.value_place(index);
            visit_area(place.value_at, place.word);
        }
    }

    /// Frees the allocation only.
    ///
    /// # Safety
    /// This must be the last reference, and children and out-of-line bytes must have been moved elsewhere or released.
    pub(super) unsafe fn free_shell(self) {
        let node = ManuallyDrop::new(self);
        // SAFETY: allocated by `new` with this layout; the caller vouches that nobody uses it.
        unsafe { dealloc(node.base(), layout(node.capacity())) };
    }
}

impl Clone for Node {
    fn clone(&self) -> Node {
        // Relaxed: whoever clones already holds a reference, as with `Arc`.
        if self.header().refs.fetch_add(1, Ordering::Relaxed) > REFS_MAX {
            std::process::abort();
        }
        Node { base: self.base }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.header().refs.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire: what others did through their references comes before the memory goes.
        fence(Ordering::Acquire);
        let header = self.header();
        for index in 0..if header.level > 0 || header.has_out { self.count() } else { 0 } {
            if header.level > 0 {
                // SAFETY: the child is owned by this node, which ends here. The recursion is as deep as the tree.
                unsafe { ptr::drop_in_place(self.child_place(index)) };
            }
            // SAFETY: it came from `Arc::into_raw`, and this node owned one count of it.
            self.for_each_out(index, |bytes| unsafe { drop(Arc::from_raw(bytes)) });
        }
        // SAFETY: allocated by `new` with this layout, and this was the last reference.
        unsafe { dealloc(self.base(), layout(self.capacity())) };
    }
}
