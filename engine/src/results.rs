//! The results of operations: the result structs of MongoDB's Rust driver, and CairnDB's own reports on a database
//! and on sequences. Programs can read the reports by serde.
//!
//! Results that errors contain are in `base`, and what opening a folder reports is in `store`.

use std::path::PathBuf;

use bson::Bson;
use bson::oid::ObjectId;
use sequence::run::Run;
use serde::{Deserialize, Serialize};
use store::folder_files::FilesOfKind;

pub(crate) use base::results::{
    DeleteResult, InsertManyResult, InsertOneResult, PartialBulkWriteResult, SummaryBulkWriteResult,
    UpdateResult, VerboseBulkWriteResult,
};
pub(crate) use store::recovery::RecoveryReport;

use crate::orphans::OrphanedChunks;

/// A database, as [`Client::list_databases`](crate::Client::list_databases) describes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// for database in client.list_databases().run()? {
///     println!("{}: {} bytes", database.name, database.size_on_disk);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DatabaseSpecification {
    /// The name of the database.
    pub name: String,
    /// About how many bytes its documents use in table files. Recent writes, which are only in the log, do not count.
    pub size_on_disk: u64,
    /// Whether the database has no collection. It is always `false`, because only databases with collections are listed.
    pub empty: bool,
}

/// The result of [`create_index`](crate::Collection::create_index).
///
/// ```
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let by_name = IndexModel::builder().keys(doc! { "name": 1 }).build();
/// assert_eq!(people.create_index(by_name).run()?.index_name, "name_1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CreateIndexResult {
    /// The name of the index: the given one, or the one made from its keys.
    pub index_name: String,
}

/// The result of [`create_indexes`](crate::Collection::create_indexes).
///
/// ```
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let by_name = IndexModel::builder().keys(doc! { "name": 1 }).build();
/// assert_eq!(people.create_indexes([by_name]).run()?.index_names, ["name_1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CreateIndexesResult {
    /// The names of the indexes, in the order of the call.
    pub index_names: Vec<String>,
}

/// The report of [`Client::verify`](crate::Client::verify): what was verified on one snapshot, and what is wrong.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// let report = client.verify()?;
/// assert_eq!((report.collections, report.documents, report.findings.len()), (1, 1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of collections.
    pub collections: u64,
    /// The number of documents. Each was read, decoded and compared with its key.
    pub documents: u64,
    /// The size of the documents in bytes.
    pub document_bytes: u64,
    /// The number of indexes, without those on `_id`.
    pub indexes: u64,
    /// The number of sequences. Their stored state and gaps were checked.
    pub sequences: u64,
    /// The number of index entries. Each has its document, and each document its entries.
    pub entries: u64,
    /// The number of files whose checksums were read: tables, logs and the MANIFEST.
    #[serde(default)]
    pub files: u64,
    /// The size of the tables and logs among them in bytes.
    #[serde(default)]
    pub file_bytes: u64,
    /// The first [`VerifyReport::FINDINGS_MAX`] findings.
    pub findings: Vec<Finding>,
    /// The number of further findings.
    pub findings_omitted: u64,
    /// Chunks that uploads of files left when they were killed: the first [`VerifyReport::FINDINGS_MAX`] uploads. They are no
    /// damage, so the report is clean with them.
    #[serde(default)]
    pub orphans: Vec<OrphanedChunks>,
    /// The number of further uploads, or more if their chunks lie among those of others.
    #[serde(default)]
    pub orphans_omitted: u64,
}

impl VerifyReport {
    /// The largest number of findings that a report lists.
    ///
    /// ```
    /// # use cairndb::{Client, VerifyReport, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert!(client.verify()?.findings.len() <= VerifyReport::FINDINGS_MAX);
    /// # Ok(())
    /// # }
    /// ```
    pub const FINDINGS_MAX: usize = 1000;

    /// Whether nothing is wrong.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert!(client.verify()?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.findings_omitted == 0
    }
}

/// The files in a store's folder, as [`Client::folder_stats`](crate::Client::folder_stats) reports them. As BSON or
/// JSON the fields have the names of MongoDB's style.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let stats = client.folder_stats()?.expect("the store is not in memory");
/// for files in &stats.files {
///     println!("{:?}: {} files of {} bytes", files.kind, files.files, files.bytes);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FolderStats {
    /// The folder, as it was named when it was opened.
    pub path: PathBuf,
    /// The version of its format.
    pub format: u32,
    /// Whether the last write before this client opened the folder was that of a close in order. It is `false` after a
    /// crash, while another process writes, and in a new folder.
    pub was_closed_in_order: bool,
    /// Its files by their kind. Kinds that have no files are absent.
    pub files: Vec<FilesOfKind>,
}

/// One thing that is wrong, as [`Client::verify`](crate::Client::verify) found it.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// for finding in client.verify()?.findings {
///     println!("{}, key {}: {}", finding.place, finding.key, finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The namespace, `database.collection`. The column family, if no collection owns the key. `files`, if a damaged file is of
    /// none, and `database`, if damage has kept documents from being read.
    pub place: String,
    /// The name of the index, if the finding is about one.
    pub index: Option<String>,
    /// The stored key in hexadecimal.
    pub key: String,
    /// The problem.
    pub problem: String,
    /// The damaged file, if the finding is about one. `place`, `index` and `key` then say what depends on the damaged bytes, as
    /// far as that can be reported: the key is not below the damaged ones, or empty.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// The begin of the damage: the offset of the damaged block or record in the file.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// The report of [`Client::backup`](crate::Client::backup).
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let report = client.backup(folder.path().join("copy"))?;
/// assert!(report.verified.is_clean());
/// assert!(report.bytes > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The new folder, which can be opened as a database.
    pub path: PathBuf,
    /// The size of all its files in bytes.
    pub bytes: u64,
    /// The report of verifying the copy.
    pub verified: VerifyReport,
}

/// Attributes and state of a sequence at one moment, with the names of SequoiaDB.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let shop = client.database("shop");
/// shop.create_sequence("tickets").start_value(100).run()?;
/// shop.sequence("tickets").fetch(3).run()?;
/// let snapshot = shop.sequence("tickets").snapshot().run()?;
/// assert_eq!((snapshot.start_value, snapshot.last_used), (100, Some(102)));
/// # Ok(())
/// # }
/// ```
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own in SequoiaDB's snapshot")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct SequenceSnapshot {
    /// An `ObjectId` that was generated when the sequence was created.
    #[serde(rename = "_id")]
    pub object_id: ObjectId,
    /// Whether it belongs to an auto-increment field.
    pub internal: bool,
    /// The number of the sequence. It is never used again for another sequence.
    #[serde(rename = "ID")]
    pub id: i64,
    /// The number of the collection with its auto-increment field, or 0.
    #[serde(rename = "CLUniqueID")]
    pub collection_id: i64,
    /// The name.
    pub name: String,
    /// The number of times that its attributes or name were changed, or its collection was truncated.
    pub version: i64,
    /// The last value of the durable reserve. The start value while `initial` is `true`.
    pub current_value: i64,
    /// The first value.
    pub start_value: i64,
    /// The smallest value.
    pub min_value: i64,
    /// The largest value.
    pub max_value: i64,
    /// The difference between a value and the next.
    pub increment: i32,
    /// The number of values that one durable write reserves.
    pub cache_size: i32,
    /// The number of values that an acquirer gets from the reserve at once.
    pub acquire_size: i32,
    /// Whether it starts again when all values are used.
    pub cycled: bool,
    /// The number of times that it has started again.
    pub cycled_count: i32,
    /// Whether no value has been acquired yet.
    pub initial: bool,
    /// Its promise about the order of its values: `fast`, `ordered` or `gapless`.
    pub contract: String,
    /// The last value that was handed out or skipped. After a crash it is the end of the reserve.
    pub last_used: Option<i64>,
    /// The value up to which all values count as used if the database is closed now, by any acquirer: a copy of the
    /// sequence has to start after it. `None` if no value was used yet.
    pub used_up_to: Option<i64>,
    /// The number of values until it ends or starts again, at most 2^63 - 1.
    pub remaining: i64,
    /// Whether no value is left.
    pub exhausted: bool,
    /// The number of durable writes that reserved values.
    pub reservations: i64,
    /// The number of values that are lost, by the ledger of gaps, at most 2^63 - 1.
    pub lost: i64,
}

/// Values of a sequence that will never be handed out, with the cause: an entry of its ledger of gaps.
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let number = AutoIncrement::builder().field("number").build();
/// people.create_auto_increment(number).run()?;
/// // A document with a value of its own makes the sequence continue after it.
/// people.insert_one(doc! { "number": 5 }).run()?;
/// let gaps = people.auto_increment("number").gaps()?;
/// assert_eq!((gaps[0].first, gaps[0].cause.as_str()), (1, "explicitValue"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SequenceGap {
    /// The first value.
    pub first: i64,
    /// The last value.
    pub last: i64,
    /// The difference between a value and the next.
    pub increment: i64,
    /// The number of values. After a crash these are all values that can be lost; documents may have some of them.
    pub count: u64,
    /// The cause: `crash`, `alter`, `explicitValue`, `restart`, `conflict`, `acquirerClosed` or `aborted`.
    pub cause: String,
    /// The time at which it was written to the ledger. `None` if it is in memory only, until the next write of the
    /// sequence.
    pub at: Option<bson::DateTime>,
}

impl SequenceGap {
    /// Whether `value` is one of the values.
    pub(crate) fn contains(&self, value: i64) -> bool {
        Run::checked(self.first, self.increment, self.count).is_some_and(|run| run.contains(value))
    }
}

/// Consecutive values of a sequence: the result of [`Sequence::fetch`](crate::Sequence::fetch).
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let shop = client.database("shop");
/// shop.create_sequence("tickets").increment(10).run()?;
/// let fetched = shop.sequence("tickets").fetch(3).run()?;
/// assert_eq!((fetched.next_value, fetched.return_num, fetched.increment), (1, 3, 10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct FetchedValues {
    /// The first value.
    pub next_value: i64,
    /// The number of values.
    pub return_num: i32,
    /// The difference between a value and the next.
    pub increment: i32,
}

impl FetchedValues {
    /// Returns the values in their order.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_sequence("tickets").run()?;
    /// let fetched = shop.sequence("tickets").fetch(3).run()?;
    /// assert_eq!(fetched.values().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn values(&self) -> impl Iterator<Item = i64> + use<> {
        let Self { next_value, return_num, increment } = *self;
        // Every value of a fetch is in the range of its sequence, so nothing wraps.
        (0..i64::from(return_num))
            .map(move |position| next_value.wrapping_add(i64::from(increment) * position))
    }
}

/// An auto-increment field, as [`auto_increments`](crate::Collection::auto_increments) lists it.
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let number = AutoIncrement::builder().field("number").build();
/// people.create_auto_increment(number).run()?;
/// let fields = people.auto_increments().run()?;
/// assert_eq!((fields[0].field.as_str(), fields[0].generated.as_str()), ("number", "default"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct AutoIncrementSpecification {
    /// The name of its sequence.
    pub sequence_name: String,
    /// The dotted path of the field.
    pub field: String,
    /// The treatment of a value that the document has: the name of a [`Generated`](crate::Generated).
    pub generated: String,
    /// Whether a null in the document counts as no value.
    pub generate_on_null: bool,
    /// The effect of [`truncate`](crate::Collection::truncate) on the sequence: `restart` or `continue`.
    pub on_truncate: String,
    /// The number of the sequence.
    #[serde(rename = "SequenceID")]
    pub sequence_id: i64,
}

/// The result of [`truncate`](crate::Collection::truncate).
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// assert_eq!(people.truncate().run()?.deleted_count, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TruncateResult {
    /// The number of removed documents.
    pub deleted_count: u64,
}

/// A number of documents as MongoDB's replies have it: an int32, or an int64 if it is larger.
pub(crate) fn number(count: u64) -> Bson {
    i32::try_from(count).map_or_else(|_| Bson::Int64(count.cast_signed()), Bson::Int32)
}
