//! What the verbs return: the result structs of MongoDB's Rust driver, and the reports of `verify` and
//! `backup` and of sequences, which are CairnDB's own and machine-readable through serde.

use std::collections::HashMap;
use std::path::PathBuf;

use bson::Bson;
use bson::oid::ObjectId;
use serde::{Deserialize, Serialize};

use crate::generated::GeneratedValues;

/// A database in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DatabaseSpecification {
    /// The database's name.
    pub name: String,
    /// About how many bytes of table files hold its documents. What only the log and memory hold is not in it.
    pub size_on_disk: u64,
    /// Whether it has no collection; such a one is never listed.
    pub empty: bool,
}

/// What `insert_one` stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The document's `_id`: its own, or the `ObjectId` that was made for it.
    pub inserted_id: Bson,
    /// The values that were generated for auto-increment fields.
    pub generated: GeneratedValues,
    /// The first of them, by the name of the field; absent if none was generated.
    pub last_generate_id: Option<i64>,
}

/// What `insert_many` stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The documents' `_id`s by position in the call.
    pub inserted_ids: HashMap<usize, Bson>,
    /// The values that were generated for auto-increment fields, by position in the call. Documents for which none
    /// was generated are left out.
    pub generated: HashMap<usize, GeneratedValues>,
    /// The first value of the first document for which one was generated, by the name of the field.
    pub last_generate_id: Option<i64>,
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

/// How many documents a `bulk_write` concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SummaryBulkWriteResult {
    /// Inserted by inserts.
    pub inserted_count: i64,
    /// Inserted by upserts.
    pub upserted_count: i64,
    /// Matched by updates and replacements.
    pub matched_count: i64,
    /// Different from before.
    pub modified_count: i64,
    /// Gone.
    pub deleted_count: i64,
}

/// What a `bulk_write` did, write by write.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VerboseBulkWriteResult {
    /// The sums.
    pub summary: SummaryBulkWriteResult,
    /// Inserts by position in the call.
    pub insert_results: HashMap<usize, InsertOneResult>,
    /// Updates and replacements by position in the call.
    pub update_results: HashMap<usize, UpdateResult>,
    /// Deletes by position in the call.
    pub delete_results: HashMap<usize, DeleteResult>,
}

/// What a `bulk_write` did although some of its writes were refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum PartialBulkWriteResult {
    /// The sums.
    Summary(SummaryBulkWriteResult),
    /// Write by write.
    Verbose(VerboseBulkWriteResult),
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
    /// Sequences looked at, with their marks and gaps.
    pub sequences: u64,
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

/// What opening found at the end of the logs, and left out: see [`Client::recovery_report`](crate::Client::recovery_report).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Bytes of logs that were read and replayed.
    pub log_bytes: u64,
    /// Ends of files that a crash cut short. What they held had not been synced.
    pub torn: Vec<TornEnd>,
}

impl RecoveryReport {
    /// Nothing was left out: the database was closed in order, or its process died between two writes.
    pub fn is_clean(&self) -> bool {
        self.torn.is_empty()
    }
}

/// The end of a file that was left out when the database was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TornEnd {
    /// The file.
    pub file: PathBuf,
    /// Where in it the last whole write ends.
    pub offset: u64,
    /// How many bytes follow.
    pub bytes: u64,
    /// What is wrong with them.
    pub reason: String,
    /// Where a copy of them is, if the file had to be cut.
    pub set_aside: Option<PathBuf>,
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

/// A sequence at one moment, with SequoiaDB's words.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own in SequoiaDB's snapshot")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct SequenceSnapshot {
    /// Made when the sequence was created.
    #[serde(rename = "_id")]
    pub object_id: ObjectId,
    /// Whether it stands behind an auto-increment field.
    pub internal: bool,
    /// The sequence's number, never used twice.
    #[serde(rename = "ID")]
    pub id: i64,
    /// The collection of its auto-increment field; 0 if there is none.
    #[serde(rename = "CLUniqueID")]
    pub collection_id: i64,
    /// Its name.
    pub name: String,
    /// How often attributes or name were changed, or the collection truncated.
    pub version: i64,
    /// The end of the durable reserve. While `initial`, the value to start with.
    pub current_value: i64,
    /// The first value.
    pub start_value: i64,
    /// The least value.
    pub min_value: i64,
    /// The greatest value.
    pub max_value: i64,
    /// Distance from one value to the next.
    pub increment: i32,
    /// How many values one durable write reserves.
    pub cache_size: i32,
    /// How many values an acquirer takes from the reserve at once.
    pub acquire_size: i32,
    /// Whether it starts over when its values are used up.
    pub cycled: bool,
    /// How often it has started over.
    pub cycled_count: i32,
    /// Whether no value was taken yet.
    pub initial: bool,
    /// What it promises: `fast`, `ordered` or `gapless`.
    pub contract: String,
    /// The last value that was handed out or skipped, as far as it is known: after a crash the end of the reserve.
    pub last_used: Option<i64>,
    /// How many values are left before it ends or starts over; at most 2^63 - 1 is shown.
    pub remaining: i64,
    /// Whether none is left.
    pub exhausted: bool,
    /// How many durable writes it took.
    pub reservations: i64,
    /// How many values are lost, as the ledger of gaps lists them; at most 2^63 - 1 is shown.
    pub lost: i64,
}

/// Values of a sequence that nobody will get: an entry of its ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SequenceGap {
    /// The first value.
    pub first: i64,
    /// The last value.
    pub last: i64,
    /// Distance from one to the next.
    pub increment: i64,
    /// How many there are. After a crash these are all that may have been lost; documents may have some of them.
    pub count: u64,
    /// Why: `crash`, `alter`, `explicitValue`, `restart`, `conflict` or `acquirerClosed`.
    pub cause: String,
    /// When it was listed; absent for one that the next write will list.
    pub at: Option<bson::DateTime>,
}

/// Consecutive values that [`Sequence::fetch`](crate::Sequence::fetch) took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct FetchedValues {
    /// The first one.
    pub next_value: i64,
    /// How many there are.
    pub return_num: i32,
    /// Distance from one to the next.
    pub increment: i32,
}

impl FetchedValues {
    /// All of them in their order.
    pub fn values(&self) -> impl Iterator<Item = i64> + use<> {
        let Self { next_value, return_num, increment } = *self;
        (0..i64::from(return_num))
            .map(move |position| next_value.wrapping_add(i64::from(increment) * position))
    }
}

/// An auto-increment field of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct AutoIncrementSpecification {
    /// The name of the sequence behind it.
    pub sequence_name: String,
    /// The field's dotted path.
    pub field: String,
    /// What an insert does with a value that the document brings.
    pub generated: String,
    /// Whether an explicit null counts as no value.
    pub generate_on_null: bool,
    /// What truncating the collection does: `restart` or `continue`.
    pub on_truncate: String,
    /// The sequence's number.
    #[serde(rename = "SequenceID")]
    pub sequence_id: i64,
}

/// What `truncate` removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TruncateResult {
    /// How many documents are gone.
    pub deleted_count: u64,
}

/// A number of documents, as replies give it.
pub(crate) fn number(count: u64) -> Bson {
    i32::try_from(count).map_or_else(|_| Bson::Int64(count.cast_signed()), Bson::Int32)
}
