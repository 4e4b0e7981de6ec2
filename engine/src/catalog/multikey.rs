//! Where the documents of an index have arrays: what readers are told, and what the disk knows.
//!
//! A reader takes its snapshot first and asks then. A writer tells readers before it commits a document with an array
//! where none was, and commits what it told with that document, in one batch. So no reader sees a document that it was
//! not told of, and no crash leaves one that the catalog does not know of. What was told is never taken back: if the
//! commit fails, readers know of more arrays than there are, which costs them time and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

use index::multikey::ArrayComponents;

/// The arrays of one index, field by field.
#[derive(Debug)]
pub(crate) struct IndexArrays {
    fields: Box<[FieldArrays]>,
}

#[derive(Debug)]
struct FieldArrays {
    /// For readers: at least what any visible document has.
    announced: AtomicU64,
    /// For writers: what the catalog entry has in every commit from now on.
    committed: AtomicU64,
}

impl IndexArrays {
    /// What the catalog entry of an index says.
    pub(crate) fn of(fields: impl IntoIterator<Item = ArrayComponents>) -> Self {
        let of_field = |arrays: ArrayComponents| FieldArrays {
            announced: AtomicU64::new(arrays.bits()),
            committed: AtomicU64::new(arrays.bits()),
        };
        Self { fields: fields.into_iter().map(of_field).collect() }
    }

    /// An index of so many fields without documents.
    pub(crate) fn none(fields: usize) -> Self {
        Self::of(std::iter::repeat_n(ArrayComponents::NONE, fields))
    }

    /// What readers are told, field by field. To be asked after the snapshot was taken.
    pub(crate) fn announced(&self) -> Vec<ArrayComponents> {
        let announced =
            |field: &FieldArrays| ArrayComponents::from_bits(field.announced.load(Ordering::Acquire));
        self.fields.iter().map(announced).collect()
    }

    /// Whether a document has arrays that the catalog entry does not know of; it has none at fields beyond `found`.
    pub(crate) fn misses(&self, found: &[ArrayComponents]) -> bool {
        self.fields.iter().zip(found).any(|(field, found)| {
            !ArrayComponents::from_bits(field.committed.load(Ordering::Acquire)).covers(*found)
        })
    }

    /// Tells readers. To be called before the commit.
    pub(crate) fn announce(&self, found: &[ArrayComponents]) {
        for (field, found) in self.fields.iter().zip(found) {
            field.announced.fetch_or(found.bits(), Ordering::AcqRel);
        }
    }

    /// Lets writers rely on the catalog entry. To be called after the commit.
    pub(crate) fn confirm(&self, found: &[ArrayComponents]) {
        for (field, found) in self.fields.iter().zip(found) {
            field.committed.fetch_or(found.bits(), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> [ArrayComponents; 2] {
        [ArrayComponents::from_bits(1), ArrayComponents::NONE]
    }

    #[test]
    fn readers_are_told_before_writers_may_rely_on_it() {
        let arrays = IndexArrays::none(2);
        arrays.announce(&first());
        assert!(arrays.announced() == first() && arrays.misses(&first()));
        arrays.confirm(&first());
        assert!(!arrays.misses(&first()));
    }

    #[test]
    fn what_was_told_stays() {
        let arrays = IndexArrays::of(first());
        arrays.announce(&[ArrayComponents::from_bits(2), ArrayComponents::from_bits(4)]);
        assert_eq!(arrays.announced(), [3, 4].map(ArrayComponents::from_bits));
        assert!(arrays.misses(&[ArrayComponents::from_bits(2)]) && !arrays.misses(&first()));
    }
}
