//! The form of long `_id`s in the keys of a collection's records, and whether any of them was shortened.
//!
//! The first never changes: a collection that was made under format version 4 keeps whole keys, in its records and in all of its
//! indexes. The second is announced and stored as the arrays of an index are: see `catalog::multikey`.

use std::sync::Arc;

use bson::RawBsonRef;
use index::key::{Direction, LongKeys};
use index::multikey::ArrayComponents;
use store::keys::CollectionId;

use crate::catalog::multikey::IndexArrays;
use crate::options::PlantedFault;

/// The form of the keys of a collection's records.
#[derive(Clone, Debug)]
pub(crate) struct RecordKeys {
    pub(crate) long_keys: LongKeys,
    /// Those of the `_id` as the one field of an index. Shared by all definitions of the collection.
    pub(crate) marks: Arc<IndexArrays>,
}

impl RecordKeys {
    /// The keys of a new collection.
    pub(crate) fn new(fault: PlantedFault) -> Self {
        let long_keys =
            if fault == PlantedFault::DigestsCollide { LongKeys::Colliding } else { LongKeys::Shortened };
        Self { long_keys, marks: Arc::new(IndexArrays::none(1)) }
    }

    /// Those of a stored collection, of which `_id`s were shortened or not.
    pub(crate) fn stored(long_keys: LongKeys, has_shortened: bool) -> Self {
        let marks = if has_shortened { ArrayComponents::SHORTENED } else { ArrayComponents::NONE };
        Self { long_keys, marks: Arc::new(IndexArrays::of([marks])) }
    }

    /// The same keys in a store with a fault.
    pub(crate) fn with_fault(self, fault: PlantedFault) -> Self {
        match self.long_keys {
            LongKeys::Shortened => Self { long_keys: Self::new(fault).long_keys, ..self },
            LongKeys::Whole | LongKeys::Colliding => self,
        }
    }

    /// The knowledge of readers about the `_id`s. A reader asks after it made its snapshot.
    pub(crate) fn announced(&self) -> ArrayComponents {
        self.marks.announced().first().copied().unwrap_or_default()
    }

    /// Whether an encoded `_id` is shortened.
    #[inline]
    pub(crate) fn is_shortened(&self, encoded_id: &[u8]) -> bool {
        self.long_keys.is_shortened(encoded_id.len())
    }
}

/// Collection id and encoded `_id`, appended to an empty buffer.
#[inline]
pub(crate) fn write_record_key(
    key: &mut Vec<u8>,
    collection: CollectionId,
    long_keys: LongKeys,
    id: RawBsonRef<'_>,
) {
    key.clear();
    key.extend_from_slice(&collection.prefix());
    long_keys.encode(id, Direction::Ascending, key);
}
