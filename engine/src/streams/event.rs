//! The events of a change stream, as callers get them. The names are those of MongoDB's driver.

use bson::{DateTime, Document, Timestamp, Uuid};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::streams::token::ResumeToken;

/// An event of a change stream. `T` is the type of the collection's documents.
///
/// Which fields an event has depends on [`operation_type`](Self::operation_type): inserts and replacements have the full document, updates
/// what they have changed, and deletes nothing but the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// The token of the event: a stream that resumes after it shows the next one first.
    #[serde(rename = "_id")]
    pub id: ResumeToken,
    /// The kind of change.
    pub operation_type: OperationType,
    /// The collection. Of a database that was dropped only its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<ChangeNamespace>,
    /// The new name of a collection that was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ChangeNamespace>,
    /// The UUID of the collection, if the stream [shows more events](crate::action::Watch::show_expanded_events).
    #[serde(default, rename = "collectionUUID", skip_serializing_if = "Option::is_none")]
    pub collection_uuid: Option<Uuid>,
    /// Whether a `collection` or a `view` was created, or a view was changed or dropped, if the stream shows more events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_type: Option<String>,
    /// The change of a collection, an index or a view as it was declared, if the stream shows more events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_description: Option<Document>,
    /// The declaration before such a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_before_change: Option<Document>,
    /// The session of a transaction that a driver has committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsid: Option<Document>,
    /// The number of that transaction in its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn_number: Option<i64>,
    /// The `_id` of the document, as `{ _id }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_key: Option<Document>,
    /// The changes of an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_description: Option<UpdateDescription>,
    /// The time of the commit, in the order of all commits. Events of one commit have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_time: Option<Timestamp>,
    /// When the write was made, by the clock of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<DateTime>,
    /// The document: of an insert or a replacement as it was stored, of an update if the stream asks for it.
    #[serde(
        default = "Option::default",
        skip_serializing_if = "Option::is_none",
        bound(deserialize = "T: Deserialize<'de>")
    )]
    pub full_document: Option<T>,
    /// The document before the change, if the stream asks for it and the collection keeps it.
    #[serde(
        default = "Option::default",
        skip_serializing_if = "Option::is_none",
        bound(deserialize = "T: Deserialize<'de>")
    )]
    pub full_document_before_change: Option<T>,
}

/// The kind of a change of a document, a collection or a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationType {
    /// A document is new.
    Insert,
    /// Fields of a document were changed.
    Update,
    /// A document has another one in its place.
    Replace,
    /// A document was removed.
    Delete,
    /// A collection was dropped.
    Drop,
    /// A collection has another name.
    Rename,
    /// A database was dropped.
    DropDatabase,
    /// The stream is at its end: what it watches was dropped or renamed.
    Invalidate,
    /// Another one, by its name: `truncate`, when all documents of a collection were removed in one step.
    Other(String),
}

/// The name of a collection, or of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeNamespace {
    /// The name of the database.
    pub db: String,
    /// The name of the collection. `None` for a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coll: Option<String>,
}

/// The changes of an update. Applied to the document before it, this gives the document after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateDescription {
    /// Paths with their new values.
    pub updated_fields: Document,
    /// The paths of fields that are gone.
    pub removed_fields: Vec<String>,
    /// Arrays that have become shorter.
    #[serde(default)]
    pub truncated_arrays: Option<Vec<TruncatedArray>>,
    /// The parts of paths that can be read in two ways, because a name has a dot in it or is a number. Present if there are any, and
    /// the stream [asks](crate::action::Watch::show_expanded_events) for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disambiguated_paths: Option<Document>,
}

/// An array that an update has made shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatedArray {
    /// The path of the array.
    pub field: String,
    /// How many elements it has left.
    pub new_size: i32,
}

/// Whether a stream shows the documents of updates, which the log has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentType {
    /// The document is looked up when the event is read. It may have later changes than the event describes, or be gone.
    UpdateLookup,
    /// The document as the update has left it, if the collection keeps it, else nothing.
    WhenAvailable,
    /// The document as the update has left it. The stream fails with code 47 if it is not kept.
    Required,
}

/// Whether a stream shows documents as they were before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentBeforeChangeType {
    /// The document, if the collection keeps it, else nothing.
    WhenAvailable,
    /// The document. The stream fails with code 47 if it is not kept.
    Required,
    /// No document.
    Off,
}

impl OperationType {
    fn name(&self) -> &str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Drop => "drop",
            Self::Rename => "rename",
            Self::DropDatabase => "dropDatabase",
            Self::Invalidate => "invalidate",
            Self::Other(name) => name,
        }
    }
}

impl Serialize for OperationType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for OperationType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = [
            Self::Insert,
            Self::Update,
            Self::Replace,
            Self::Delete,
            Self::Drop,
            Self::Rename,
            Self::DropDatabase,
            Self::Invalidate,
        ];
        Ok(known.into_iter().find(|known| known.name() == name).unwrap_or(Self::Other(name)))
    }
}
