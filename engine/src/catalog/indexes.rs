//! The secondary indexes of a collection, as writers and the planner see them.

use std::sync::Arc;

use bson::Document;
use index::spec::IndexSpec;

use crate::catalog::multikey::IndexArrays;
use crate::storage::keys::IndexId;

/// The name of the index on `_id` that every collection has.
pub(crate) const ID_INDEX_NAME: &str = "_id_";

/// One secondary index. The clustered `_id` index has no entries and is not one of these.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) spec: IndexSpec,
    /// Shared by all lists that the index is in.
    pub(crate) arrays: Arc<IndexArrays>,
}

impl Index {
    /// `{field: 1, other: -1}` as in MongoDB's error details.
    pub(crate) fn key_pattern(&self) -> Document {
        Document::try_from(self.spec.keys()).expect("a spec's keys were read once already")
    }
}
