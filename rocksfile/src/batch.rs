//! Write batches: the number of the first change, the changes, and the notes among them.
//!
//! A record of a write-ahead log is one batch. It may join several batches that were written together.

use crate::table::ChangeKind;
use crate::varint::{self, Input};

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
                if let Item::Note(note) = item(&mut input)? {
                    return Some(note);
                }
            }
        })
    }

    /// The changes in the batch, each with its number. The iterator ends at the first change of an unknown
    /// kind, so there are fewer than [`Batch::count`] then.
    ///
    /// ```
    /// use cairndb_rocksfile::batch::{Batch, Change};
    /// use cairndb_rocksfile::table::ChangeKind;
    ///
    /// // Number 7, one change: in family 2 the key `k` gets the value `v`.
    /// let batch = Batch::parse(b"\x07\0\0\0\0\0\0\0\x01\0\0\0\x05\x02\x01k\x01v").expect("a batch");
    /// let change = Change { sequence: 7, family: 2, kind: ChangeKind::Value, key: b"k", value: b"v" };
    /// assert_eq!(batch.changes().collect::<Vec<_>>(), [change]);
    /// ```
    pub fn changes(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let (mut input, mut sequence) = (self.changes, self.sequence);
        std::iter::from_fn(move || {
            loop {
                if let Item::Change(change) = item(&mut input)? {
                    let numbered = Change { sequence, ..change };
                    sequence += 1;
                    return Some(numbered);
                }
            }
        })
    }
}

/// A change in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The number of the change.
    pub sequence: u64,
    /// The number of the column family.
    pub family: u32,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The key, or the first of the deleted keys.
    pub key: &'a [u8],
    /// The value, or the end of the deleted keys, which is not deleted.
    pub value: &'a [u8],
}

/// Builds a write batch.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    /// The header, without the count, and the changes.
    bytes: Vec<u8>,
    count: u32,
    /// A key, a value or the number of changes does not fit the format.
    is_too_large: bool,
}

impl BatchBuilder {
    /// An empty batch with room for `bytes` bytes of changes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(HEADER_BYTES + bytes);
        buffer.resize(HEADER_BYTES, 0);
        Self { bytes: buffer, count: 0, is_too_large: false }
    }

    /// Adds a change: `key` gets `value`.
    #[inline]
    pub fn put(&mut self, family: u32, key: &[u8], value: &[u8]) {
        self.change(FAMILY_VALUE, family);
        self.slice(key);
        self.slice(value);
    }

    /// Adds a change: `key` is deleted.
    pub fn delete(&mut self, family: u32, key: &[u8]) {
        self.change(FAMILY_DELETION, family);
        self.slice(key);
    }

    /// Adds a change: all keys from `start` (included) to `end` (excluded) are deleted.
    pub fn delete_range(&mut self, family: u32, start: &[u8], end: &[u8]) {
        self.change(FAMILY_RANGE_DELETION, family);
        self.slice(start);
        self.slice(end);
    }

    /// Adds a note, which is in the log only and changes no data.
    pub fn note(&mut self, note: &[u8]) {
        self.bytes.push(NOTE);
        self.slice(note);
    }

    /// The number of changes in the batch. Notes are not counted.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The size of the batch in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the batch. RocksDB gives it a number when it is written. Returns `None` if a key or a value has
    /// 4 GiB or more, or there are as many changes: the format has no room for that.
    pub fn bytes(&mut self) -> Option<&[u8]> {
        if let Some((_, count)) = self.bytes.get_mut(..HEADER_BYTES)?.split_last_chunk_mut() {
            *count = self.count.to_le_bytes();
        }
        (!self.is_too_large).then_some(&self.bytes)
    }

    #[inline]
    fn change(&mut self, kind: u8, family: u32) {
        let count = self.count.checked_add(1);
        self.is_too_large |= count.is_none();
        self.count = count.unwrap_or(u32::MAX);
        self.bytes.push(kind);
        varint::push(&mut self.bytes, family);
    }

    #[inline]
    fn slice(&mut self, slice: &[u8]) {
        let length = u32::try_from(slice.len());
        self.is_too_large |= length.is_err();
        varint::push(&mut self.bytes, length.unwrap_or(0));
        self.bytes.extend_from_slice(slice);
    }
}

enum Item<'a> {
    Note(&'a [u8]),
    Nothing,
    Change(Change<'a>),
}

/// Reads the next item of a batch. Returns `None` at its end, and for kinds that databases of this library do
/// not have.
fn item<'a>(input: &mut Input<'a>) -> Option<Item<'a>> {
    let kind = input.byte()?;
    let (has_family, kind) = match kind {
        NOTE => return input.slice().map(Item::Note),
        NOTHING => return Some(Item::Nothing),
        DELETION | SINGLE_DELETION => (false, ChangeKind::Deletion),
        FAMILY_DELETION | FAMILY_SINGLE_DELETION => (true, ChangeKind::Deletion),
        VALUE => (false, ChangeKind::Value),
        FAMILY_VALUE => (true, ChangeKind::Value),
        RANGE_DELETION => (false, ChangeKind::RangeDeletion),
        FAMILY_RANGE_DELETION => (true, ChangeKind::RangeDeletion),
        MERGE => (false, ChangeKind::Other(MERGE)),
        FAMILY_MERGE => (true, ChangeKind::Other(MERGE)),
        // Its length is unknown, so the walk ends.
        _ => return None,
    };
    let family = if has_family { input.varint32()? } else { 0 };
    let key = input.slice()?;
    let value = if kind == ChangeKind::Deletion { &[] } else { input.slice()? };
    Some(Item::Change(Change { sequence: 0, family, kind, key, value }))
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
    fn changes_are_numbered_one_after_the_other() {
        let bytes = batch(
            7,
            3,
            &[
                FAMILY_VALUE,
                1,
                1,
                b'k',
                1,
                b'v',
                NOTE,
                1,
                9,
                DELETION,
                1,
                b'k',
                FAMILY_RANGE_DELETION,
                2,
                1,
                b'a',
                1,
                b'b',
            ],
        );
        let read = Batch::parse(&bytes).expect("a batch");
        let change = |sequence, family, kind, key, value| Change { sequence, family, kind, key, value };
        let expected = [
            change(7, 1, ChangeKind::Value, b"k".as_slice(), b"v".as_slice()),
            change(8, 0, ChangeKind::Deletion, b"k", b""),
            change(9, 2, ChangeKind::RangeDeletion, b"a", b"b"),
        ];
        assert_eq!(read.changes().collect::<Vec<_>>(), expected);
        assert_eq!(Batch::parse(&bytes[..20]).expect("a batch").changes().count(), 1);
    }

    #[test]
    fn what_is_not_read_ends_the_notes() {
        check(&[NOTE, 1, 9, 99, NOTE, 1, 9], &[&[9]]);
        check(&[NOTE, 1, 9, NOTE, 9, 1], &[&[9]]);
        check(&[FAMILY_VALUE, 1, 5], &[]);
    }

    #[test]
    fn what_is_built_is_read() {
        let long = vec![7; 300];
        let mut builder = BatchBuilder::with_capacity(0);
        builder.put(1, b"", &long);
        builder.note(b"n");
        builder.delete(2, b"d");
        builder.delete_range(300, b"a", b"b");
        assert_eq!((builder.count(), builder.size()), (3, builder.clone().bytes().expect("small").len()));
        let bytes = builder.bytes().expect("small");
        let read = Batch::parse(bytes).expect("a batch");
        let change = |sequence, family, kind, key, value| Change { sequence, family, kind, key, value };
        let expected = [
            change(0, 1, ChangeKind::Value, b"".as_slice(), long.as_slice()),
            change(1, 2, ChangeKind::Deletion, b"d", b""),
            change(2, 300, ChangeKind::RangeDeletion, b"a", b"b"),
        ];
        assert_eq!(read.changes().collect::<Vec<_>>(), expected);
        assert_eq!(read.notes().collect::<Vec<_>>(), [b"n"]);
        assert_eq!(read.count, 3);
    }

    #[test]
    fn what_nothing_can_be_numbered_is_refused() {
        assert!(Batch::parse(&batch(SEQUENCE_MAX, 1, &[])).is_some());
        assert!(Batch::parse(&batch(SEQUENCE_MAX, 2, &[])).is_none());
        assert!(Batch::parse(&batch(u64::MAX, 1, &[])).is_none());
        assert!(Batch::parse(&[0; HEADER_BYTES - 1]).is_none());
    }
}
