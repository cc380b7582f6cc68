//! Changing one node that nobody else can see.
//! Guarantees: slots stay in key order, cells whole; every byte allocated or freed is booked on the account of the tree.
//! Must not know: how nodes form a tree, and when they are split or merged.
//! Next: insert.rs, remove.rs.
#![expect(unsafe_code, reason = "writes cells in place; see node.rs for the layout")]

use super::node::{
    CHILD_BYTES, EXPIRES, EXPIRY_BYTES, HEADER_BYTES, Header, Node, OUT, POINTER_BYTES, SLOT_BYTES, Slot, WORD_BYTES,
    area_bytes,
};
use super::search::{common_prefix_bytes, head_of};
use super::{Entry, Previous};
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::Arc;

/// Longest key that stands in its cell.
pub(super) const KEY_INLINE_BYTES_MAX: usize = 512;
/// Longest value that stands in its cell: copying a leaf copies a pointer to any longer one.
pub(super) const VALUE_INLINE_BYTES_MAX: usize = 512;
/// What an allocation out of line takes besides its bytes: two counters.
const OUT_OVERHEAD_BYTES: usize = 2 * size_of::<usize>();

/// The only access to a node, with the account of its tree.
pub(super) struct NodeMut<'a> {
    node: &'a mut Node,
    bytes: &'a mut usize,
}

impl Deref for NodeMut<'_> {
    type Target = Node;
    fn deref(&self) -> &Node {
        self.node
    }
}

/// Key or value on its way into a cell.
#[derive(Clone, Copy)]
enum Part<'a> {
    Inline(&'a [u8]),
    /// From `Arc::into_raw`; whoever writes it hands the count over to the cell.
    Out(*const [u8]),
}

impl<'a> Part<'a> {
    fn new(bytes: &'a [u8], inline_bytes_max: usize, account: &mut usize) -> Part<'a> {
        if bytes.len() <= inline_bytes_max {
            return Part::Inline(bytes);
        }
        *account += bytes.len() + OUT_OVERHEAD_BYTES;
        Part::Out(Arc::into_raw(Arc::<[u8]>::from(bytes)))
    }

    fn word(self) -> u16 {
        match self {
            Part::Inline(bytes) => bytes.len() as u16,
            Part::Out(_) => OUT,
        }
    }

    /// # Safety
    /// `at` must be valid for writing the area of `word`.
    unsafe fn write(self, at: *mut u8) {
        // SAFETY: the caller vouches for the room; a cell being written is never where the bytes come from.
        unsafe {
            match self {
                Part::Inline(bytes) => ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()),
                Part::Out(pointer) => at.cast::<*const [u8]>().write_unaligned(pointer),
            }
        }
    }
}

impl<'a> NodeMut<'a> {
    /// To be called by `Node::unique` only, which has seen to it that the reference is the only one.
    pub(super) fn new(node: &'a mut Node, bytes: &'a mut usize) -> NodeMut<'a> {
        NodeMut { node, bytes }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: there, aligned, and nobody else sees the node.
        unsafe { &mut *self.node.base().cast::<Header>() }
    }

    fn slots_mut(&mut self) -> &mut [Slot] {
        // SAFETY: as `Node::slots`, and nobody else sees the node.
        unsafe { std::slice::from_raw_parts_mut(self.base().add(HEADER_BYTES).cast::<Slot>(), self.count()) }
    }

    /// The account of the tree.
    pub(super) fn account(&mut self) -> &mut usize {
        self.bytes
    }

    /// Goes down to a child for good.
    pub(super) fn into_child(self, index: usize) -> (&'a mut Node, &'a mut usize) {
        // SAFETY: as in `child_mut`; the borrow of this node lasts as long as that of the child.
        (unsafe { &mut *self.node.child_place(index) }, self.bytes)
    }

    /// A child with the account, for going down.
    pub(super) fn child_mut(&mut self, index: usize) -> (&mut Node, &mut usize) {
        // SAFETY: a child is there and aligned; the node is ours alone, and stays as it is while the child is borrowed.
        (unsafe { &mut *self.node.child_place(index) }, self.bytes)
    }

    /// Adds a key to a leaf, at the place that `place` gave.
    pub(super) fn insert_record(&mut self, index: usize, key: &[u8], entry: Entry<'_>) {
        assert!(self.level() == 0 && index <= self.count(), "the place is one of this leaf");
        let key_part = Part::new(key, KEY_INLINE_BYTES_MAX, self.bytes);
        let value = Part::new(entry.value, VALUE_INLINE_BYTES_MAX, self.bytes);
        let key_bytes = area_bytes(key_part.word());
        let cell = self.take_cell(key_bytes + tail_bytes(entry.expiry_millis, value), 1);
        // SAFETY: `take_cell` gave exactly the bytes of these parts.
        unsafe {
            key_part.write(self.base().add(cell));
            self.write_tail(cell + key_bytes, entry.expiry_millis, value);
        }
        self.open_slot(index, key, Slot { head: 0, key_word: key_part.word(), cell: cell as u16 });
    }

    /// Adds a child to an inner node. The first one's key counts as below everything.
    pub(super) fn insert_child(&mut self, index: usize, key: &[u8], child: Node) {
        assert!(self.level() > 0 && index <= self.count(), "the place is one of this inner node");
        assert_eq!(index == 0, self.count() == 0, "only the first child comes first");
        let key = if index == 0 { &[][..] } else { key };
        let part = Part::new(key, KEY_INLINE_BYTES_MAX, self.bytes);
        let key_bytes = area_bytes(part.word()).next_multiple_of(CHILD_BYTES);
        let cell = self.take_cell(key_bytes + CHILD_BYTES, 1);
        // SAFETY: `take_cell` gave room for both, aligned since all sizes in an inner node are multiples of 8.
        unsafe {
            part.write(self.base().add(cell));
            self.base().add(cell + key_bytes).cast::<Node>().write(child);
        }
        self.open_slot(index, key, Slot { head: 0, key_word: part.word(), cell: cell as u16 });
    }

    /// Sets what stands behind a key of a leaf.
    pub(super) fn replace(&mut self, index: usize, entry: Entry<'_>) -> Previous {
        let old = previous(self.entry(index));
        let place = self.value_place(index);
        if old.value_bytes == entry.value.len()
            && (old.expiry_millis == 0) == (entry.expiry_millis == 0)
            && self.overwrite(index, entry)
        {
            return old;
        }
        let out = (place.word & OUT != 0).then(|| self.pointer_at(place.value_at));
        let value = Part::new(entry.value, VALUE_INLINE_BYTES_MAX, self.bytes);
        self.rewrite(index, entry.expiry_millis, value);
        if let Some(pointer) = out {
            self.release_out(pointer);
        }
        self.shrink();
        old
    }

    /// Overwrites value and expiry of the same shape. False if the value is out of line and a view holds it too.
    fn overwrite(&mut self, index: usize, entry: Entry<'_>) -> bool {
        let place = self.value_place(index);
        // SAFETY: the cell has an area of this length there, which is ours alone; `entry` is not borrowed from this tree,
        // as that is borrowed mutably.
        unsafe {
            if place.word & OUT == 0 {
                Part::Inline(entry.value).write(self.base().add(place.value_at));
            } else {
                let mut value = std::mem::ManuallyDrop::new(Arc::from_raw(self.pointer_at(place.value_at)));
                match Arc::get_mut(&mut value) {
                    Some(bytes) => bytes.copy_from_slice(entry.value),
                    None => return false,
                }
            }
            if place.word & EXPIRES != 0 {
                self.base().add(place.word_at + WORD_BYTES).cast::<u64>().write_unaligned(entry.expiry_millis);
            }
        }
        true
    }

    /// Sets the expiry of a key of a leaf; 0 for none.
    pub(super) fn set_expiry(&mut self, index: usize, expiry_millis: u64) -> Previous {
        let old = previous(self.entry(index));
        let place = self.value_place(index);
        if expiry_millis == old.expiry_millis {
        } else if expiry_millis != 0 && old.expiry_millis != 0 {
            // SAFETY: the word says that an expiry follows it.
            unsafe { self.base().add(place.word_at + WORD_BYTES).cast::<u64>().write_unaligned(expiry_millis) };
        } else if place.word & OUT != 0 {
            self.rewrite(index, expiry_millis, Part::Out(self.pointer_at(place.value_at)));
        } else {
            let value = self.entry(index).value.to_vec();
            self.rewrite(index, expiry_millis, Part::Inline(&value));
        }
        old
    }

    /// Writes everything behind the key anew, in place if it fits. What was there is not released.
    fn rewrite(&mut self, index: usize, expiry_millis: u64, value: Part<'_>) {
        let key_bytes = area_bytes(self.slots()[index].key_word);
        let old_bytes = self.cell_bytes(index);
        let new_bytes = key_bytes + tail_bytes(expiry_millis, value);
        let cell = if new_bytes <= old_bytes {
            self.header_mut().dead_bytes += (old_bytes - new_bytes) as u16;
            usize::from(self.slots()[index].cell)
        } else {
            let cell = self.take_cell(new_bytes, 0);
            let old_cell = usize::from(self.slots()[index].cell);
            // SAFETY: two cells of this node, which do not overlap as the new one came from free room.
            unsafe { ptr::copy_nonoverlapping(self.base().add(old_cell), self.base().add(cell), key_bytes) };
            self.slots_mut()[index].cell = cell as u16;
            self.header_mut().dead_bytes += old_bytes as u16;
            cell
        };
        // SAFETY: the cell has `new_bytes`.
        unsafe { self.write_tail(cell + key_bytes, expiry_millis, value) };
    }

    /// # Safety
    /// There must be room for `tail_bytes` at `at`.
    unsafe fn write_tail(&mut self, at: usize, expiry_millis: u64, value: Part<'_>) {
        let mut word = value.word();
        // SAFETY: the caller vouches for the room.
        unsafe {
            let mut at = self.base().add(at);
            let word_at = at.cast::<u16>();
            at = at.add(WORD_BYTES);
            if expiry_millis != 0 {
                word |= EXPIRES;
                at.cast::<u64>().write_unaligned(expiry_millis);
                at = at.add(EXPIRY_BYTES);
            }
            word_at.write_unaligned(word);
            value.write(at);
        }
        if word & OUT != 0 {
            self.header_mut().has_out = true;
        }
    }

    /// Removes a key from a leaf.
    pub(super) fn remove_record(&mut self, index: usize) -> Previous {
        let old = previous(self.entry(index));
        let place = self.value_place(index);
        if place.word & OUT != 0 {
            self.release_out(self.pointer_at(place.value_at));
        }
        self.close_slot(index);
        self.shrink();
        old
    }

    /// Takes a child out of an inner node. Its bytes stay on the account.
    pub(super) fn take_child(&mut self, index: usize) -> Node {
        // SAFETY: a child is there, and the slot that says so goes.
        let child = unsafe { self.node.child_place(index).read() };
        self.close_slot(index);
        if index == 0 && self.count() > 0 {
            self.drop_first_key();
        }
        self.shrink();
        child
    }

    /// Moves the slots from `middle` on to a new node.
    pub(super) fn split_off(&mut self, middle: usize) -> Node {
        assert!(0 < middle && middle < self.count(), "both sides get something");
        let mut right = self.gather(middle..self.count());
        *self.bytes += right.capacity();
        if right.level() > 0 {
            NodeMut::new(&mut right, self.bytes).drop_first_key();
        }
        let left = self.gather(0..middle);
        self.become_shell_of(left);
        right
    }

    /// Moves everything from the right neighbour in; `separator` is the key the neighbour had in the parent.
    pub(super) fn append(&mut self, separator: &[u8], mut right: Node) {
        right.unique(self.bytes);
        assert_eq!(self.level(), right.level(), "neighbours are on one level");
        let key_bytes = separator.len().min(KEY_INLINE_BYTES_MAX).next_multiple_of(CHILD_BYTES);
        let wanted = self.used_bytes() + right.used_bytes() + key_bytes + SLOT_BYTES;
        let first = right.first_key();
        // SAFETY: a child is there; its bits in the node are forgotten, as that ends as a shell.
        let child = (first > 0).then(|| unsafe { right.child_place(0).read() });
        *self.bytes -= right.capacity();
        self.rebuild(Node::capacity_for(wanted));
        if let Some(child) = child {
            self.insert_child(self.count(), separator, child);
        }
        for index in first..right.count() {
            self.adopt(&right, index);
        }
        self.refresh_heads();
        // SAFETY: `unique` made it ours alone, and every cell has been moved.
        unsafe { right.free_shell() };
    }

    /// Gives back what the content does not need.
    pub(super) fn fit(&mut self) {
        let capacity = Node::capacity_for(self.used_bytes());
        if capacity < self.capacity() {
            self.rebuild(capacity);
        }
    }

    fn shrink(&mut self) {
        let used = self.used_bytes();
        if used * 2 < self.capacity() && self.capacity() > 256 {
            self.rebuild(Node::capacity_for(used + used / 8));
        }
    }

    /// The first key of an inner node stands for "below everything", so its bytes go.
    fn drop_first_key(&mut self) {
        let slot = self.slots()[0];
        let key_bytes = area_bytes(slot.key_word).next_multiple_of(CHILD_BYTES);
        if slot.key_word & OUT != 0 {
            self.release_out(self.pointer_at(usize::from(slot.cell)));
        }
        self.slots_mut()[0] = Slot { head: 0, key_word: 0, cell: slot.cell + key_bytes as u16 };
        self.header_mut().dead_bytes += key_bytes as u16;
    }

    fn pointer_at(&self, at: usize) -> *const [u8] {
        debug_assert!(at + POINTER_BYTES <= self.capacity());
        // SAFETY: callers have seen `OUT` in the word that belongs to this place.
        unsafe { self.base().add(at).cast::<*const [u8]>().read_unaligned() }
    }

    fn release_out(&mut self, pointer: *const [u8]) {
        *self.bytes -= pointer.len() + OUT_OVERHEAD_BYTES;
        // SAFETY: from `Arc::into_raw`; the cell that held this count is gone or has been overwritten.
        drop(unsafe { Arc::from_raw(pointer) });
    }

    /// Room for a cell and `slots` more slots, the node growing if it must.
    fn take_cell(&mut self, cell_bytes: usize, slots: usize) -> usize {
        let wanted = cell_bytes + slots * SLOT_BYTES;
        let free = usize::from(self.header().cells_start) - self.slots_end();
        if free < wanted {
            self.grow(wanted);
        }
        let header = self.header_mut();
        header.cells_start -= cell_bytes as u16;
        usize::from(header.cells_start)
    }

    fn grow(&mut self, wanted: usize) {
        let (used, dead) = (self.used_bytes(), usize::from(self.header().dead_bytes));
        if dead * 8 > used {
            return self.rebuild(Node::capacity_for(used + wanted + used / 8));
        }
        let larger = self.node.copy_bits(Node::capacity_for(used + dead + wanted + used / 8));
        self.become_shell_of(larger);
    }

    fn rebuild(&mut self, capacity: usize) {
        let fresh = self.gather_into(0..self.count(), capacity);
        self.become_shell_of(fresh);
    }

    /// Puts a node that took over the content in the place of this one.
    fn become_shell_of(&mut self, fresh: Node) {
        *self.bytes += fresh.capacity();
        *self.bytes -= self.capacity();
        let shell = std::mem::replace(self.node, fresh);
        // SAFETY: the node was ours alone, and its content now belongs to `fresh` (and to what was split off).
        unsafe { shell.free_shell() };
    }

    fn gather(&self, range: Range<usize>) -> Node {
        let cells: usize = range.clone().map(|index| self.cell_bytes(index) + SLOT_BYTES).sum();
        self.gather_into(range, Node::capacity_for(cells + size_of::<Header>()))
    }

    /// A new node with the bits of some cells, packed.
    fn gather_into(&self, range: Range<usize>, capacity: usize) -> Node {
        let mut node = Node::new(self.level(), capacity);
        let mut unbooked = 0;
        let mut target = NodeMut::new(&mut node, &mut unbooked);
        for index in range {
            target.adopt(self.node, index);
        }
        target.refresh_heads();
        debug_assert_eq!(unbooked, 0, "the capacity was enough");
        node
    }

    /// Appends the bits of a cell of another node; heads are left to `refresh_heads`.
    fn adopt(&mut self, source: &Node, index: usize) {
        let (slot, bytes) = (source.slots()[index], source.cell_bytes(index));
        let cell = self.take_cell(bytes, 1);
        let count = self.count();
        let slots_end = self.slots_end();
        let slot_new = Slot { cell: cell as u16, ..slot };
        // SAFETY: both cells have `bytes`, in distinct nodes; `take_cell` left room for the slot.
        unsafe {
            ptr::copy_nonoverlapping(source.base().add(usize::from(slot.cell)), self.base().add(cell), bytes);
            self.base().add(slots_end).cast::<Slot>().write(slot_new);
        }
        let header = self.header_mut();
        header.count = count as u16 + 1;
        header.has_out |= source.header().has_out;
    }

    fn open_slot(&mut self, index: usize, key: &[u8], slot: Slot) {
        let mut slot = slot;
        if index >= self.first_key() {
            self.admit_to_prefix(key);
            slot.head = head_of(key, self.prefix_bytes());
        }
        let slots_end = self.slots_end();
        let behind = self.count() - index;
        // SAFETY: `take_cell` left room for one more slot behind the last.
        unsafe {
            let place = self.base().add(slots_end).cast::<Slot>().sub(behind);
            ptr::copy(place, place.add(1), behind);
            place.write(slot);
        }
        let header = self.header_mut();
        header.count += 1;
        header.has_out |= slot.key_word & OUT != 0;
    }

    fn close_slot(&mut self, index: usize) {
        let (slot, bytes) = (self.slots()[index], self.cell_bytes(index));
        if slot.key_word & OUT != 0 {
            self.release_out(self.pointer_at(usize::from(slot.cell)));
        }
        self.slots_mut().copy_within(index + 1.., index);
        let header = self.header_mut();
        header.count -= 1;
        header.dead_bytes += bytes as u16;
    }

    /// Shortens the prefix to what it has in common with one more key.
    fn admit_to_prefix(&mut self, key: &[u8]) {
        let first = self.first_key();
        if first >= self.count() {
            self.header_mut().prefix_bytes = key.len().min(usize::from(u16::MAX)) as u16;
            return;
        }
        let prefix_bytes = self.prefix_bytes();
        let common = common_prefix_bytes(&self.key(first)[..prefix_bytes], key);
        if common < prefix_bytes {
            self.set_prefix(common);
        }
    }

    fn refresh_heads(&mut self) {
        let (first, count) = (self.first_key(), self.count());
        if first < count {
            self.set_prefix(common_prefix_bytes(self.key(first), self.key(count - 1)));
        }
    }

    fn set_prefix(&mut self, prefix_bytes: usize) {
        self.header_mut().prefix_bytes = prefix_bytes as u16;
        for index in self.first_key()..self.count() {
            let head = head_of(self.key(index), prefix_bytes);
            self.slots_mut()[index].head = head;
        }
    }
}

/// Bytes of a leaf cell behind the key.
fn tail_bytes(expiry_millis: u64, value: Part<'_>) -> usize {
    WORD_BYTES + if expiry_millis == 0 { 0 } else { EXPIRY_BYTES } + area_bytes(value.word())
}

fn previous(entry: Entry<'_>) -> Previous {
    Previous { existed: true, expiry_millis: entry.expiry_millis, value_bytes: entry.value.len() }
}
