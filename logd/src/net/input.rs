//! The input buffer of a connection: bytes that were received and not yet used up.
//! Guarantees: grows with what has arrived, by a quarter at a time; a connection without unfinished requests holds no memory,
//! for the loop lends it a buffer for the time of its turn.
//! Must not know: the protocol.
//! Next: connection.rs.

/// Length of the buffer that a loop lends.
pub const LENT_BYTES: usize = 64 << 10;
/// An unfinished request up to this length gets a buffer of its own size.
const SMALL_BYTES: usize = 16 << 10;
/// Most that a buffer grows by at a time.
const GROWTH_BYTES_MAX: usize = 16 << 20;

/// Received bytes.
#[derive(Debug, Default)]
pub struct Input {
    /// Initialised all over, so that reading needs no zeroing: used up, then pending, then free.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Bytes that are pending.
    pub fn pending(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Uses up the first pending bytes.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "input: no more is used up than was received");
    }

    /// Forgets everything pending.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Room to read into; from `spare` where there is no buffer. Makes room where there is none.
    pub fn space(&mut self, spare: &mut Vec<u8>) -> &mut [u8] {
        if self.is_empty() {
            self.clear();
        }
        if self.bytes.len() < LENT_BYTES && spare.len() == LENT_BYTES {
            let own = std::mem::replace(&mut self.bytes, std::mem::take(spare));
            let pending = self.end - self.start;
            self.bytes[..pending].copy_from_slice(&own[self.start..self.end]);
            (self.start, self.end) = (0, pending);
        }
        if self.bytes.len() - self.end < SMALL_BYTES && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < SMALL_BYTES {
            let growth = (self.bytes.len() / 4).clamp(LENT_BYTES, GROWTH_BYTES_MAX);
            let grown = self.bytes.len() + growth;
            self.bytes.reserve_exact(growth);
            self.bytes.resize(grown, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Says how much of the room was filled.
    pub fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.bytes.len(), "input: reading stays in its room");
    }

    /// After a turn: gives the lent buffer back and keeps no more than what is pending needs.
    pub fn settle(&mut self, spare: &mut Vec<u8>) {
        let pending = self.end - self.start;
        if self.bytes.len() > SMALL_BYTES && pending <= SMALL_BYTES {
            let own = self.bytes[self.start..self.end].to_vec();
            let used = std::mem::replace(&mut self.bytes, own);
            (self.start, self.end) = (0, pending);
            if used.len() == LENT_BYTES {
                *spare = used;
            }
        } else if pending == 0 {
            *self = Input::default();
        } else if self.bytes.len() > 4 * (pending + LENT_BYTES) {
            self.bytes = self.bytes[self.start..self.end].to_vec();
            (self.start, self.end) = (0, pending);
        }
    }

    /// Memory held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(input: &mut Input, spare: &mut Vec<u8>, bytes: &[u8]) {
        for piece in bytes.chunks(10_000) {
            input.space(spare)[..piece.len()].copy_from_slice(piece);
            input.filled(piece.len());
            input.settle(spare);
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut input, mut spare) = (Input::default(), vec![0; LENT_BYTES]);
        let bytes: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
        receive(&mut input, &mut spare, &bytes);
        assert_eq!(input.pending(), bytes);
        input.consume(299_990);
        input.settle(&mut spare);
        assert_eq!(input.held_bytes(), 10);
        assert_eq!(input.pending(), &bytes[299_990..]);
        receive(&mut input, &mut spare, b"more");
        assert_eq!(input.pending(), [&bytes[299_990..], b"more"].concat());
    }

    #[test]
    fn an_idle_connection_holds_nothing_and_the_loan_comes_back() {
        let (mut input, mut spare) = (Input::default(), vec![0; LENT_BYTES]);
        input.space(&mut spare);
        assert!(spare.is_empty());
        input.filled(100);
        input.consume(100);
        input.settle(&mut spare);
        assert_eq!((input.held_bytes(), spare.len()), (0, LENT_BYTES));
    }

    #[test]
    fn memory_stays_near_what_has_arrived() {
        let (mut input, mut spare) = (Input::default(), vec![0; LENT_BYTES]);
        receive(&mut input, &mut spare, &vec![1; 4 << 20]);
        assert!(input.held_bytes() <= 5 * (4 << 20) / 4 + 2 * LENT_BYTES);
    }
}
