//! The secondary indexes of a collection, as writers and the planner use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{DateTime, Document, RawBsonRef, RawDocumentBuf, doc};
use index::key::Direction;
use index::order::compare;
use index::spec::IndexSpec;
use store::keys::IndexId;
use store::leaf_switch::LeafSwitch;

use crate::catalog::given_keys::GivenKeys;
use crate::catalog::multikey::IndexArrays;
use crate::catalog::settings::{IndexSettings, WILDCARD_PROJECTION, describe_collation};

/// The name of the index on `_id` that every collection has.
pub(crate) const ID_INDEX_NAME: &str = "_id_";

/// Whether two key patterns are those of one index: the same fields in the same order, with directions that are equal as
/// numbers. The equality of `Document` ignores the order, and distinguishes 1 from 1.0.
pub(crate) fn are_same_keys(one: &Document, other: &Document) -> bool {
    let raw = |keys: &Document| RawDocumentBuf::try_from(keys).ok();
    raw(one)
        .zip(raw(other))
        .is_some_and(|(one, other)| compare(RawBsonRef::Document(&one), RawBsonRef::Document(&other)).is_eq())
}

/// The values that the entries of an index restore besides those of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryDetail {
    /// Nothing. The index was made under format version 3.
    Fields,
    /// The exact `_id`, and the order in which the document has the fields.
    Whole,
}

/// A secondary index. The `_id` index has no entries, because records are stored under their `_id`, and is
/// not one of these.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) spec: IndexSpec,
    pub(crate) detail: EntryDetail,
    pub(crate) settings: IndexSettings,
    /// Shared by all lists that contain the index.
    pub(crate) arrays: Arc<IndexArrays>,
    /// Shared in the same way.
    pub(crate) uses: Arc<IndexUses>,
    /// Its keys, if it is a unique one. Shared in the same way.
    pub(crate) given_keys: Arc<GivenKeys>,
    /// Whether leaves of it are kept in memory. Shared in the same way.
    pub(crate) leaves: Arc<LeafSwitch>,
}

impl Index {
    /// The direction of the field `name`, if the index is one on this field alone that searches may use and that
    /// has an entry for each of its values, by the bytes of texts.
    fn whole_on(&self, name: &str) -> Option<Direction> {
        let [field] = self.spec.fields() else { return None };
        let is_whole =
            self.settings.partial.is_none() && !self.settings.hidden && self.spec.wildcard().is_none();
        let is_whole = is_whole && self.spec.collation().is_simple();
        (is_whole && field.path.as_str() == name).then_some(field.direction)
    }
}

/// The index on a field and nothing else that has an entry for each of its values, and its direction. A unique one if there are several:
/// at most one entry is better than any number.
pub(crate) fn whole_on<'i>(indexes: &'i [Index], field: &str) -> Option<(&'i Index, Direction)> {
    let on_field = indexes.iter().filter_map(|index| Some((index, index.whole_on(field)?)));
    on_field.max_by_key(|(index, _)| index.spec.is_unique())
}

/// The number of times that an index was read.
#[derive(Debug)]
pub(crate) struct IndexUses {
    scans: AtomicU64,
    /// The begin of the counting: the index was created or loaded then.
    pub(crate) since: DateTime,
}

impl IndexUses {
    pub(crate) fn starting_now() -> Self {
        Self { scans: AtomicU64::new(0), since: DateTime::now() }
    }

    /// Counts a scan.
    pub(crate) fn note(&self) {
        // A number for people to look at: it orders nothing.
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of scans until now.
    pub(crate) fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }
}

impl Index {
    /// The fields of the index as in MongoDB's error details: `{field: 1, other: -1}`.
    pub(crate) fn key_pattern(&self) -> Document {
        // A spec is made of these bytes, which were parsed then.
        Document::try_from(self.spec.keys()).expect("a spec's keys were read once already")
    }

    /// The declaration of the index in MongoDB's names, without those options that are not set.
    pub(crate) fn describe(&self) -> Document {
        let mut description = doc! { "key": self.key_pattern(), "name": &self.name };
        if self.spec.is_unique() {
            description.insert("unique", true);
        }
        if self.spec.is_sparse() {
            description.insert("sparse", true);
        }
        self.describe_settings(&mut description);
        description
    }

    /// Adds what is optional in the description of an index, in MongoDB's names.
    pub(crate) fn describe_settings(&self, description: &mut Document) {
        self.settings.describe(description);
        if let Some(projection) = self.spec.wildcard_projection() {
            // It was parsed with the spec, so it is well-formed.
            let projection = Document::try_from(projection).unwrap_or_default();
            description.insert(WILDCARD_PROJECTION, projection);
        }
        describe_collation(self.spec.collation(), description);
    }
}
