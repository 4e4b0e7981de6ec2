//! Which index: to use one, and to define one.

use bson::Document;
use serde::{Deserialize, Serialize};

/// Names an index.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hint {
    /// By its key pattern, such as `{_id: 1}`.
    Keys(Document),
    /// By its name, such as `_id_`.
    Name(String),
}

/// A definition for `create_index`.
///
/// ```
/// use cairndb::{IndexModel, IndexOptions, bson::doc};
///
/// let by_email = IndexModel::builder()
///     .keys(doc! { "email": 1 })
///     .options(IndexOptions::builder().unique(true).build())
///     .build();
/// assert_eq!(by_email.keys, doc! { "email": 1 });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexModel {
    /// Field paths with 1 (ascending) or -1 (descending), in the order of the key.
    #[serde(rename = "key")]
    pub keys: Document,
    /// Everything else.
    #[serde(flatten)]
    pub options: Option<IndexOptions>,
}

impl IndexModel {
    /// Starts a definition.
    pub fn builder() -> IndexModelBuilder {
        IndexModelBuilder { model: Self::default() }
    }
}

/// Builds an [`IndexModel`].
#[derive(Clone, Debug)]
#[must_use]
pub struct IndexModelBuilder {
    model: IndexModel,
}

impl IndexModelBuilder {
    /// Field paths with 1 (ascending) or -1 (descending), in the order of the key.
    pub fn keys(mut self, keys: Document) -> Self {
        self.model.keys = keys;
        self
    }

    /// Everything else.
    pub fn options(mut self, options: impl Into<Option<IndexOptions>>) -> Self {
        self.model.options = options.into();
        self
    }

    /// The definition.
    pub fn build(self) -> IndexModel {
        self.model
    }
}

/// Options of an index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The index's name; `field_1_other_-1` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Refuse two documents with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// Leave out documents that have none of the fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<bool>,
}

impl IndexOptions {
    /// Starts a set of options.
    pub fn builder() -> IndexOptionsBuilder {
        IndexOptionsBuilder { options: Self::default() }
    }
}

/// Builds [`IndexOptions`].
#[derive(Clone, Debug)]
#[must_use]
pub struct IndexOptionsBuilder {
    options: IndexOptions,
}

impl IndexOptionsBuilder {
    /// The index's name.
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Refuse two documents with the same key.
    pub fn unique(mut self, unique: impl Into<Option<bool>>) -> Self {
        self.options.unique = unique.into();
        self
    }

    /// Leave out documents that have none of the fields.
    pub fn sparse(mut self, sparse: impl Into<Option<bool>>) -> Self {
        self.options.sparse = sparse.into();
        self
    }

    /// The options.
    pub fn build(self) -> IndexOptions {
        self.options
    }
}
