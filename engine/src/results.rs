//! What the verbs return: the result structs of MongoDB's Rust driver, and the reports of `verify` and
//! `backup`, which are CairnDB's own and machine-readable through serde.

use std::collections::HashMap;
use std::path::PathBuf;

use bson::Bson;
use serde::{Deserialize, Serialize};

/// What `insert_one` stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The document's `_id`: its own, or the `ObjectId` that was made for it.
    pub inserted_id: Bson,
}

/// What `insert_many` stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The documents' `_id`s by position in the call.
    pub inserted_ids: HashMap<usize, Bson>,
}

/// What a delete removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeleteResult {
    /// How many documents are gone.
    pub deleted_count: u64,
}

/// What a replacement changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UpdateResult {
    /// How many documents matched.
    pub matched_count: u64,
    /// How many of them differ from before.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted_id: Option<Bson>,
}

/// What `create_index` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CreateIndexResult {
    /// The name of the index, given or made from its keys.
    pub index_name: String,
}

/// What `create_indexes` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CreateIndexesResult {
    /// The names in the order of the call.
    pub index_names: Vec<String>,
}

/// What [`Client::verify`](crate::Client::verify) proved on one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Collections looked at.
    pub collections: u64,
    /// Documents read, decoded and matched against their key.
    pub documents: u64,
    /// Bytes of those documents.
    pub document_bytes: u64,
    /// Secondary indexes looked at.
    pub indexes: u64,
    /// Index entries matched against their documents, in both directions.
    pub entries: u64,
    /// Every disagreement, at most [`VerifyReport::FINDINGS_MAX`] of them.
    pub findings: Vec<Finding>,
    /// Disagreements beyond those listed.
    pub findings_omitted: u64,
}

impl VerifyReport {
    /// How many findings a report lists one by one.
    pub const FINDINGS_MAX: usize = 1000;

    /// Nothing disagrees.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.findings_omitted == 0
    }
}

/// One disagreement that `verify` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// `database.collection`, or the column family where no collection owns the key.
    pub place: String,
    /// The index concerned, if one is.
    pub index: Option<String>,
    /// The stored key in hexadecimal.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

/// What [`Client::backup`](crate::Client::backup) made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The new folder: a database of its own.
    pub path: PathBuf,
    /// Bytes of all files in it.
    pub bytes: u64,
    /// What verifying the copy found.
    pub verified: VerifyReport,
}
