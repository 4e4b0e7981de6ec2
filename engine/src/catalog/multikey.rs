//! Arrays in the documents of an index, and shortened keys: the announcements to readers, and the state of the
//! catalog on disk.
//!
//! A reader makes its snapshot first and asks after that. A writer that adds an array where none was
//! announces it to readers before its commit, and writes it into the catalog in the same batch as the
//! document. So no reader sees a document whose arrays it does not know of, and after a crash the catalog
//! knows the arrays of every document. An announcement is never undone: if the commit fails, readers know
//! of more arrays than there are, which costs them time and nothing else.

use std::sync::atomic::Ordering;

use base::sync::AtomicU64;
use index::multikey::ArrayComponents;

/// The arrays of one index, field by field.
#[derive(Debug)]
pub(crate) struct IndexArrays {
    fields: Box<[FieldArrays]>,
}

/// The arrays at one field of an index.
#[derive(Debug)]
struct FieldArrays {
    /// For readers: at least the arrays of every visible document.
    announced: AtomicU64,
    /// For writers: what the catalog entry contains in every commit from now on.
    committed: AtomicU64,
}

impl IndexArrays {
    /// The arrays in the catalog entry of an index.
    pub(crate) fn of(fields: impl IntoIterator<Item = ArrayComponents>) -> Self {
        let of_field = |arrays: ArrayComponents| FieldArrays {
            announced: AtomicU64::new(arrays.bits()),
            committed: AtomicU64::new(arrays.bits()),
        };
        Self { fields: fields.into_iter().map(of_field).collect() }
    }

    /// The arrays of an index over `fields` fields without documents.
    pub(crate) fn none(fields: usize) -> Self {
        Self::of(std::iter::repeat_n(ArrayComponents::NONE, fields))
    }

    /// The arrays that were announced to readers, field by field. A reader asks after it made its snapshot.
    pub(crate) fn announced(&self) -> Vec<ArrayComponents> {
        let announced =
            |field: &FieldArrays| ArrayComponents::from_bits(field.announced.load(Ordering::Acquire));
        self.fields.iter().map(announced).collect()
    }

    /// Whether `found` has arrays that the catalog entry does not contain. Fields beyond the end of `found`
    /// have none.
    pub(crate) fn misses(&self, found: &[ArrayComponents]) -> bool {
        self.fields.iter().zip(found).any(|(field, found)| {
            // By `committed` and not `announced`: another writer may have announced the array, and its commit
            // may still fail.
            !ArrayComponents::from_bits(field.committed.load(Ordering::Acquire)).covers(*found)
        })
    }

    /// Announces arrays to readers. The caller commits after that.
    pub(crate) fn announce(&self, found: &[ArrayComponents]) {
        for (field, found) in self.fields.iter().zip(found) {
            // Joined with what is there: writers of other documents announce at the same time.
            field.announced.fetch_or(found.bits(), Ordering::AcqRel);
        }
    }

    /// Lets writers rely on the catalog entry. The caller has committed it.
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
    fn readers_know_of_arrays_before_writers_rely_on_the_entry() {
        let arrays = IndexArrays::none(2);
        arrays.announce(&first());
        assert!(arrays.announced() == first() && arrays.misses(&first()));
        arrays.confirm(&first());
        assert!(!arrays.misses(&first()));
    }

    #[test]
    fn what_was_announced_stays() {
        let arrays = IndexArrays::of(first());
        arrays.announce(&[ArrayComponents::from_bits(2), ArrayComponents::from_bits(4)]);
        assert_eq!(arrays.announced(), [3, 4].map(ArrayComponents::from_bits));
        assert!(arrays.misses(&[ArrayComponents::from_bits(2)]) && !arrays.misses(&first()));
    }
}
