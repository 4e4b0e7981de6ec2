//! What a caller can ask of the client and of each verb.
//!
//! Names are those of MongoDB's Rust driver. An option that has no meaning for an embedded store is
//! absent rather than ignored; a value that cannot be honored is refused when the call runs.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// When a write counts as done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// How many nodes must acknowledge. There is one, so only `Nodes(1)` and `Majority` can be met.
    pub w: Option<Acknowledgment>,
    /// Accepted for compatibility; there is nothing to wait for on one node.
    pub w_timeout: Option<Duration>,
    /// `true`: the call returns after the write is on stable storage. `false`: it returns after the write
    /// reached the operating system, and is synced in the background. Absent: as the client was opened.
    pub journal: Option<bool>,
}

impl WriteConcern {
    /// Returns after the write is on stable storage.
    pub fn journaled() -> Self {
        Self { journal: Some(true), ..Self::default() }
    }

    /// Returns after the write reached the operating system: it survives the death of the process, and
    /// is synced in the background.
    pub fn buffered() -> Self {
        Self { journal: Some(false), ..Self::default() }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        match &self.w {
            None | Some(Acknowledgment::Nodes(1) | Acknowledgment::Majority) => Ok(()),
            Some(Acknowledgment::Nodes(0)) => Err(Error::invalid_argument(
                "write concern w: 0 is not offered, because every write of an embedded store is acknowledged",
            )),
            Some(Acknowledgment::Nodes(nodes)) => Err(Error::command(
                100,
                "UnsatisfiableWriteConcern",
                format!("write concern w: {nodes} cannot be met by one node"),
            )),
            Some(Acknowledgment::Custom(tag)) => Err(Error::command(
                79,
                "UnknownReplWriteConcern",
                format!("no write concern mode named '{tag}' was found"),
            )),
        }
    }
}

/// The nodes that a write concern asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// A number of nodes.
    Nodes(u32),
    /// A majority, which is the one node.
    Majority,
    /// A tag; there are none, so it is refused.
    Custom(String),
}

/// The durability of writes that do not name their own write concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A call returns once its write reached the operating system, which survives the death of the
    /// process; a background sync follows within the interval (at most one second), which bounds what a
    /// power failure can take.
    Buffered {
        /// The longest time a write stays unsynced.
        sync_interval: Duration,
    },
    /// A call returns once its write is on stable storage.
    Journaled,
}

impl Durability {
    pub(crate) const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(1);
}

impl Default for Durability {
    fn default() -> Self {
        Self::Buffered { sync_interval: Duration::from_millis(100) }
    }
}

/// How stored blocks are compressed. It applies to files written from now on; old ones stay readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are.
    None,
    /// LZ4 on every level but the last, Zstandard on the last: fast writes, small files at rest.
    #[default]
    Lz4ThenZstd,
    /// LZ4 on every level.
    Lz4,
    /// Zstandard on every level.
    Zstd,
}

/// Options of `insert_one`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InsertOneOptions {
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
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
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `delete_one` and `delete_many`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
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
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// When the write counts as done.
    pub write_concern: Option<WriteConcern>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
}

/// Options of `find` and `find_one`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FindOptions {
    /// Accepted: documents are read one by one, so there are no batches to size.
    pub batch_size: Option<u32>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// At most this many documents; 0 is no limit; a negative number is taken without its sign.
    pub limit: Option<i64>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Skip this many matching documents first.
    pub skip: Option<u64>,
}

/// Options of `count_documents`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CountOptions {
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// The index to use, by keys or by name.
    pub hint: Option<Hint>,
    /// Count at most this many; it must be positive.
    pub limit: Option<u64>,
    /// Give up with code 50 after this long.
    pub max_time: Option<Duration>,
    /// Skip this many matching documents first.
    pub skip: Option<u64>,
}

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
