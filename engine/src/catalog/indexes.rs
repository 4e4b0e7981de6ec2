//! The secondary indexes of a collection, as writers and the planner use them.

use std::sync::Arc;

use bson::{Document, RawBsonRef, RawDocumentBuf};
use index::order::compare;
use index::spec::IndexSpec;

use crate::catalog::multikey::IndexArrays;
use crate::storage::keys::IndexId;

/// The name of the index on `_id` that every collection has.
pub(crate) const ID_INDEX_NAME: &str = "_id_";

/// Whether two key patterns are those of one index: the same fields in the same order, with directions that are equal as
/// numbers. The equality of `Document` ignores the order, and tells 1 from 1.0.
pub(crate) fn are_same_keys(one: &Document, other: &Document) -> bool {
    let raw = |keys: &Document| RawDocumentBuf::try_from(keys).ok();
    raw(one)
        .zip(raw(other))
        .is_some_and(|(one, other)| compare(RawBsonRef::Document(&one), RawBsonRef::Document(&other)).is_eq())
}

/// A secondary index. The `_id` index has no entries, because records are stored under their `_id`, and is
/// not one of these.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) spec: IndexSpec,
    /// Shared by all lists that contain the index.
    pub(crate) arrays: Arc<IndexArrays>,
}

impl Index {
    /// The fields of the index as in MongoDB's error details: `{field: 1, other: -1}`.
    pub(crate) fn key_pattern(&self) -> Document {
        // A spec is made of these bytes, which were parsed then.
        Document::try_from(self.spec.keys()).expect("a spec's keys were read once already")
    }
}
