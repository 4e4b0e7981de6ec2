//! Options of the verbs that write.

use std::time::Duration;

use bson::{Bson, Document};

use crate::options::durability::WriteConcern;
use crate::options::indexes::Hint;
use crate::options::reads::Collation;

/// Options of `insert_one`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InsertOneOptions {
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `insert_many`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InsertManyOptions {
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// `true` (the default): stop at the first refused document. `false`: try all.
    pub ordered: Option<bool>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `delete_one` and `delete_many`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `replace_one`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplaceOptions {
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Insert the replacement when nothing matches.
    pub upsert: Option<bool>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Which of several matching documents comes first.
    pub sort: Option<Document>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `update_one` and `update_many`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// Which elements `$[name]` stands for.
    pub array_filters: Option<Vec<Document>>,
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Insert a document when nothing matches.
    pub upsert: Option<bool>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Which of several matching documents comes first.
    pub sort: Option<Document>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `find_one_and_update`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOneAndUpdateOptions {
    /// Which elements `$[name]` stands for.
    pub array_filters: Option<Vec<Document>>,
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Which fields are shown, and which are computed.
    pub projection: Option<Document>,
    /// The document as it was before, the default, or as it is afterwards.
    pub return_document: Option<ReturnDocument>,
    /// Which of several matching documents comes first.
    pub sort: Option<Document>,
    /// Insert a document when nothing matches.
    pub upsert: Option<bool>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `find_one_and_replace`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOneAndReplaceOptions {
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Which fields are shown, and which are computed.
    pub projection: Option<Document>,
    /// The document as it was before, the default, or as it is afterwards.
    pub return_document: Option<ReturnDocument>,
    /// Which of several matching documents comes first.
    pub sort: Option<Document>,
    /// Insert a document when nothing matches.
    pub upsert: Option<bool>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `find_one_and_delete`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOneAndDeleteOptions {
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Which fields are shown, and which are computed.
    pub projection: Option<Document>,
    /// Which of several matching documents comes first.
    pub sort: Option<Document>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// How texts compare; only the simple collation is there.
    pub collation: Option<Collation>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// What an update does: operators such as `{$set: {..}}`, or a pipeline of stages.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// Operators.
    Document(Document),
    /// Stages, each of which makes a new document of the one before.
    Pipeline(Vec<Document>),
}

impl From<Document> for UpdateModifications {
    fn from(update: Document) -> Self {
        Self::Document(update)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(stages: Vec<Document>) -> Self {
        Self::Pipeline(stages)
    }
}

/// Which state of a document a `find_one_and_…` gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReturnDocument {
    /// As it was.
    #[default]
    Before,
    /// As it is now.
    After,
}
