//! The parts of an index's entries: the fields, and the `_id` of the document.

use index::key::{Direction, LongKeys};
use index::spec::IndexSpec;
use store::keys::ID_BYTES;

/// The fields of an index as they follow each other in its keys, and the place of the `_id`: after the fields of a plain entry, and
/// at the start of the value of a unique one.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryShape {
    fields: usize,
    /// A bit for each field that is in descending order. An index has 32 fields at most.
    descending: u32,
    pub(super) is_unique: bool,
    pub(super) long_keys: LongKeys,
}

impl EntryShape {
    pub(super) fn of(spec: &IndexSpec) -> Self {
        let mut descending = 0;
        for (at, field) in (0..u32::BITS).zip(spec.fields()) {
            descending |= u32::from(field.direction == Direction::Descending) << at;
        }
        let (is_unique, long_keys) = (spec.is_unique(), spec.long_keys());
        Self { fields: spec.fields().len(), descending, is_unique, long_keys }
    }

    /// The length of a key up to the end of its first `fields` fields. Returns `None` if the bytes are not a key of the index.
    pub(super) fn prefix_bytes(self, key: &[u8], fields: usize) -> Option<usize> {
        let (mut bytes, mut descending) = (ID_BYTES, self.descending);
        for _ in 0..fields {
            let direction = if descending & 1 == 1 { Direction::Descending } else { Direction::Ascending };
            bytes += self.long_keys.skip(key.get(bytes..)?, direction).ok()?;
            descending >>= 1;
        }
        Some(bytes)
    }

    /// Where the `_id` ends in the value of a unique entry, and where it begins in the key of any other one. It is 0 if the bytes are
    /// not an entry of the index.
    pub(super) fn edge(self, key: &[u8], value: &[u8]) -> usize {
        let edge = if self.is_unique {
            self.long_keys.skip(value, Direction::Ascending).ok()
        } else {
            self.prefix_bytes(key, self.fields)
        };
        edge.unwrap_or_default()
    }
}
