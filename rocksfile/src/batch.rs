//! The head of a write batch: what it is numbered, how many changes it holds, and the note in front of them.
//!
//! A record of a write-ahead log is one batch, or several that were written together and joined to one.

use crate::varint::Input;

/// The number of the first change and how many there are, before the changes themselves.
pub const HEADER_BYTES: usize = 12;
/// As many bytes from the front of a batch as [`Head::parse`] looks at, if its note has at most 64 bytes.
pub const HEAD_BYTES: usize = HEADER_BYTES + 6 + NOTE_BYTES_MAX;
/// The largest number that a change can have.
pub const SEQUENCE_MAX: u64 = (1 << 56) - 1;

const NOTE_BYTES_MAX: usize = 64;
/// The tag of a note: bytes that stand in the log and are no change.
const LOG_DATA: u8 = 3;

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The number of the first change. A batch without changes has the number of the next one.
    pub sequence: u64,
    /// How many changes it holds.
    pub count: u32,
    /// The note before the first change; `None` if the batch begins with a change, or the note is longer than 64 bytes.
    pub note: Option<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// Reads a head from the front of a batch, which needs no more than [`HEAD_BYTES`] of it. `None` if it is too short to
    /// have a head, or numbered as nothing can be.
    pub fn parse(front: &'a [u8]) -> Option<Self> {
        let mut input = Input::new(front);
        let (sequence, count) = (input.fixed64()?, input.fixed32()?);
        if sequence.checked_add(u64::from(count))? > SEQUENCE_MAX + 1 {
            return None;
        }
        let note = (input.byte() == Some(LOG_DATA))
            .then(|| input.slice())
            .flatten()
            .filter(|note| note.len() <= NOTE_BYTES_MAX);
        Some(Self { sequence, count, note })
    }

    /// The number of the change after this batch.
    pub fn next_sequence(&self) -> u64 {
        self.sequence + u64::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64, count: u32, rest: &[u8]) -> Vec<u8> {
        [sequence.to_le_bytes().as_slice(), &count.to_le_bytes(), rest].concat()
    }

    #[test]
    fn a_head_is_numbers_and_the_first_note() {
        let bytes = batch(7, 2, &[LOG_DATA, 3, 1, 2, 3, 5, 9]);
        let head = Head::parse(&bytes).expect("a head");
        assert_eq!(head, Head { sequence: 7, count: 2, note: Some(&[1, 2, 3]) });
        assert_eq!(head.next_sequence(), 9);
    }

    #[test]
    fn a_batch_that_begins_with_a_change_has_no_note() {
        for rest in [[].as_slice(), &[5, 3, 1, 2, 3], &[LOG_DATA], &[LOG_DATA, 9, 1]] {
            assert_eq!(Head::parse(&batch(7, 0, rest)), Some(Head { sequence: 7, count: 0, note: None }));
        }
    }

    #[test]
    fn what_nothing_can_be_numbered_is_refused() {
        assert!(Head::parse(&batch(SEQUENCE_MAX, 1, &[])).is_some());
        assert_eq!(Head::parse(&batch(SEQUENCE_MAX, 2, &[])), None);
        assert_eq!(Head::parse(&batch(u64::MAX, 1, &[])), None);
        assert_eq!(Head::parse(&[0; HEADER_BYTES - 1]), None);
    }
}
