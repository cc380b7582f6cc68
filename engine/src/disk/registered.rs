//! Which buffers a ring has registered with the kernel, under which numbers.
//! Guarantees: a number is used only with the very memory it stands for; the memory pinned is bounded.
//! Must not know: how registering is done; uring.rs does it.
//! Next: uring.rs.

use super::Buffer;
use super::buffer::Registered;
use std::sync::Arc;

/// Most bytes a ring keeps pinned; more would collide with the usual limit on locked memory.
const BYTES_MAX: usize = 8 << 20;

/// The ring's numbered slots for buffers.
pub(super) struct Slots {
    taken: Vec<Slot>,
    on: bool,
}

struct Slot {
    /// Shared with the buffer; ours is the only one left once the buffer is dropped.
    holder: Arc<()>,
    bytes: usize,
}

impl Slots {
    /// How many there are.
    pub(super) const COUNT: u32 = 8;

    pub(super) fn new(on: bool) -> Slots {
        Slots { taken: Vec::new(), on }
    }

    /// Picks a slot for a buffer of so many bytes, or none if it had better stay unregistered.
    pub(super) fn choose(&mut self, bytes: usize) -> Option<Registered> {
        if !self.on {
            return None;
        }
        let left = self.taken.iter().position(|slot| Arc::strong_count(&slot.holder) == 1);
        let index = left.unwrap_or(self.taken.len());
        let others = self.taken.iter().enumerate().filter(|(other, _)| *other != index);
        let pinned: usize = others.map(|(_, slot)| slot.bytes).sum();
        if index >= Slots::COUNT as usize || pinned + bytes > BYTES_MAX {
            return None;
        }
        let holder = Arc::new(());
        let slot = Slot { holder: Arc::clone(&holder), bytes };
        match self.taken.get_mut(index) {
            Some(taken) => *taken = slot,
            None => self.taken.push(slot),
        }
        Some(Registered { index: index as u16, holder })
    }

    /// The buffer's number, if it is registered with this ring.
    pub(super) fn index_of(&self, buffer: &Buffer) -> Option<u16> {
        let registered = buffer.registered()?;
        let slot = self.taken.get(usize::from(registered.index))?;
        Arc::ptr_eq(&slot.holder, &registered.holder).then_some(registered.index)
    }

    /// The kernel refused: no more tries. What is registered stays so.
    pub(super) fn give_up(&mut self) {
        self.on = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(slots: &mut Slots, bytes: usize) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes);
        if let Some(registered) = slots.choose(buffer.capacity()) {
            buffer.set_registered(registered);
        }
        buffer
    }

    fn index_of_next(slots: &mut Slots) -> Option<u16> {
        let buffer = registered(slots, 1);
        slots.index_of(&buffer)
    }

    #[test]
    fn a_number_is_used_again_once_its_buffer_is_gone() {
        let mut slots = Slots::new(true);
        let buffers: Vec<Buffer> = (0..Slots::COUNT).map(|_| registered(&mut slots, 1)).collect();
        assert_eq!(buffers.iter().filter_map(|buffer| slots.index_of(buffer)).count(), Slots::COUNT as usize);
        assert_eq!(index_of_next(&mut slots), None);
        drop(buffers);
        assert_eq!(index_of_next(&mut slots), Some(0));
    }

    #[test]
    fn a_buffer_of_another_ring_has_no_number_here() {
        let (mut ours, mut theirs) = (Slots::new(true), Slots::new(true));
        let _ours = registered(&mut ours, 1);
        let buffer = registered(&mut theirs, 1);
        assert_eq!(ours.index_of(&buffer), None);
    }

    #[test]
    fn pinned_memory_is_bounded() {
        let mut slots = Slots::new(true);
        let large = registered(&mut slots, BYTES_MAX);
        assert_eq!(slots.index_of(&large), Some(0));
        assert_eq!(index_of_next(&mut slots), None);
    }
}
