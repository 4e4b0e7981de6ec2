//! `clusteredIndex`: that a collection was declared to be stored in the order of its `_id`s.
//!
//! Every collection is, so the declaration changes nothing but descriptions: it is stored to be shown again, with the name that
//! the index on `_id` was given. What a collection cannot be clustered by is rejected where it is declared.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use crate::catalog::indexes::ID_INDEX_NAME;

/// The name of the field, in catalog entries as in MongoDB's descriptions of collections.
pub(crate) const CLUSTERED_INDEX: &str = "clusteredIndex";
/// The field of a description of an index that says so.
pub(crate) const CLUSTERED: &str = "clustered";
/// The name of the index, in the catalog entry.
const NAME: &str = "name";

/// The declaration of a clustered collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clustered {
    /// The name of the index on `_id`.
    pub(crate) name: Arc<str>,
}

impl Clustered {
    /// A declaration with a name, or with that of every index on `_id`.
    pub(crate) fn named(name: Option<&str>) -> Self {
        Self { name: name.unwrap_or(ID_INDEX_NAME).into() }
    }

    /// The option of `create` that declares the same.
    pub(crate) fn describe(&self, description: &mut Document) {
        let index = doc! { "v": 2, "key": { "_id": 1 }, NAME: &*self.name, "unique": true };
        description.insert(CLUSTERED_INDEX, index);
    }

    /// The index on `_id` as a list of indexes describes it, without its version.
    pub(crate) fn describe_index(&self) -> Document {
        doc! { "key": { "_id": 1 }, NAME: &*self.name, "unique": true, CLUSTERED: true }
    }

    /// Its form in the catalog entry. All else is always the same.
    pub(crate) fn encode(&self) -> Document {
        doc! { NAME: &*self.name }
    }

    /// Reads what [`encode`](Self::encode) wrote. The error says what is wrong.
    pub(crate) fn decode(stored: &Bson) -> Result<Self, String> {
        // A field that is not known could mean a key of another kind.
        let name =
            stored.as_document().filter(|stored| stored.len() == 1).and_then(|stored| stored.get(NAME));
        let name = name.and_then(Bson::as_str);
        let name = name.ok_or_else(|| format!("{CLUSTERED_INDEX} is not a document with a name"))?;
        Ok(Self { name: name.into() })
    }
}
