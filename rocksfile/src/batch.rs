//! Write batches: the number of the first change, the count of changes, and the notes among them.
//!
//! A record of a write-ahead log is one batch. It may join several batches that were written together.

use crate::varint::Input;

/// The length of a batch's header: the number of the first change and the count of changes.
pub const HEADER_BYTES: usize = 12;
/// The largest number that a change can have.
pub const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// A write batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The number of the first change. A batch without changes has the number of the next one.
    pub sequence: u64,
    /// The number of changes in the batch.
    pub count: u32,
    changes: Input<'a>,
}

impl<'a> Batch<'a> {
    /// Parses the header of a batch. Returns `None` if there are too few bytes, or the numbers are beyond
    /// [`SEQUENCE_MAX`].
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut changes = Input::new(bytes);
        let (sequence, count) = (changes.fixed64()?, changes.fixed32()?);
        let next = sequence.checked_add(u64::from(count))?;
        (next <= SEQUENCE_MAX + 1).then_some(Self { sequence, count, changes })
    }

    /// The number of the change after this batch.
    pub fn next_sequence(&self) -> u64 {
        self.sequence + u64::from(self.count)
    }

    /// The notes in the batch: bytes that are in the log only and change no data. The iterator ends at the
    /// first change of an unknown kind.
    pub fn notes(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut input = self.changes;
        std::iter::from_fn(move || {
            loop {
                if let Change::Note(note) = change(&mut input)? {
                    return Some(note);
                }
            }
        })
    }
}

enum Change<'a> {
    Note(&'a [u8]),
    Other,
}

/// Reads the next change of a batch. Returns `None` at its end, and for kinds that databases of this library
/// do not have.
fn change<'a>(input: &mut Input<'a>) -> Option<Change<'a>> {
    let kind = input.byte()?;
    // Whether a column family, a key and a value follow. An unknown kind ends the walk, because its length is
    // unknown.
    let (family, key, value) = match kind {
        NOTE => return input.slice().map(Change::Note),
        NOTHING => (false, false, false),
        DELETION | SINGLE_DELETION => (false, true, false),
        VALUE | MERGE | RANGE_DELETION => (false, true, true),
        FAMILY_DELETION | FAMILY_SINGLE_DELETION => (true, true, false),
        FAMILY_VALUE | FAMILY_MERGE | FAMILY_RANGE_DELETION => (true, true, true),
        _ => return None,
    };
    if family {
        input.varint32()?;
    }
    if key {
        input.slice()?;
    }
    if value {
        input.slice()?;
    }
    Some(Change::Other)
}

const DELETION: u8 = 0;
const VALUE: u8 = 1;
const MERGE: u8 = 2;
const NOTE: u8 = 3;
const FAMILY_DELETION: u8 = 4;
const FAMILY_VALUE: u8 = 5;
const FAMILY_MERGE: u8 = 6;
const SINGLE_DELETION: u8 = 7;
const FAMILY_SINGLE_DELETION: u8 = 8;
const NOTHING: u8 = 13;
const FAMILY_RANGE_DELETION: u8 = 14;
const RANGE_DELETION: u8 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64, count: u32, rest: &[u8]) -> Vec<u8> {
        [sequence.to_le_bytes().as_slice(), &count.to_le_bytes(), rest].concat()
    }

    #[track_caller]
    fn check(changes: &[u8], notes: &[&[u8]]) {
        let bytes = batch(7, 2, changes);
        let read = Batch::parse(&bytes).expect("a batch");
        assert_eq!((read.sequence, read.count, read.next_sequence()), (7, 2, 9));
        assert_eq!(read.notes().collect::<Vec<_>>(), notes);
    }

    #[test]
    fn notes_are_found_among_changes() {
        check(&[], &[]);
        check(&[NOTE, 3, 1, 2, 3, FAMILY_VALUE, 1, 1, b'k', 0], &[&[1, 2, 3]]);
        check(&[VALUE, 1, b'k', 1, b'v', NOTE, 0, DELETION, 1, b'k', NOTE, 1, 9], &[&[], &[9]]);
        check(&[FAMILY_RANGE_DELETION, 1, 1, b'a', 1, b'b', NOTHING, NOTE, 1, 9], &[&[9]]);
    }

    #[test]
    fn what_is_not_read_ends_the_notes() {
        check(&[NOTE, 1, 9, 99, NOTE, 1, 9], &[&[9]]);
        check(&[NOTE, 1, 9, NOTE, 9, 1], &[&[9]]);
        check(&[FAMILY_VALUE, 1, 5], &[]);
    }

    #[test]
    fn what_nothing_can_be_numbered_is_refused() {
        assert!(Batch::parse(&batch(SEQUENCE_MAX, 1, &[])).is_some());
        assert!(Batch::parse(&batch(SEQUENCE_MAX, 2, &[])).is_none());
        assert!(Batch::parse(&batch(u64::MAX, 1, &[])).is_none());
        assert!(Batch::parse(&[0; HEADER_BYTES - 1]).is_none());
    }
}
