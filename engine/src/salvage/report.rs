//! The report of a salvage: what was copied, and what was not.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::results::VerifyReport;

/// The report of [`salvage`](crate::salvage).
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let (damaged, new) = (folder.path().join("db"), folder.path().join("new"));
/// # let client = Client::open(&damaged)?;
/// # client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
/// # client.close()?;
/// let report = cairndb::salvage(&damaged, &new).run()?;
/// for lost in &report.unreadable {
///     println!("{} bytes at {} of {}: {}", lost.bytes, lost.offset, lost.file.display(), lost.reason);
/// }
/// // Nothing was damaged here.
/// assert!(report.is_complete());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The new folder, which can be opened as a database.
    pub path: PathBuf,
    /// The copied and rejected documents of each collection.
    pub collections: Vec<SalvagedCollection>,
    /// The bytes of files that could not be read: the first [`SalvageReport::LISTED_MAX`].
    pub unreadable: Vec<UnreadableBytes>,
    /// The number of further stretches of bytes that could not be read.
    pub unreadable_omitted: u64,
    /// The writes that are in no log any more. Documents that they changed are older than they were, those that they inserted are
    /// missing, and those that they deleted are back, unless a later write or a table has them.
    pub lost_writes: Vec<LostWrites>,
    /// The number of sequences.
    pub sequences: u64,
    /// Decisions, and other facts that have to be known: sentences.
    pub notes: Vec<String>,
    /// The report of verifying the new folder.
    pub verified: VerifyReport,
}

/// The salvaged part of one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SalvagedCollection {
    /// The database, a dot, and the collection.
    pub namespace: String,
    /// Whether the name was made up, because the collection's entry in the catalog is lost. It ends with the collection's
    /// number.
    pub is_renamed: bool,
    /// The number of documents that were copied.
    pub documents: u64,
    /// The size of these documents in bytes.
    pub document_bytes: u64,
    /// The number of these documents that may be older versions, because a newer one may have been in bytes that
    /// cannot be read. Writes that are lost from logs are not among them: see [`SalvageReport::lost_writes`].
    pub may_be_old: u64,
    /// The number of documents that were rejected.
    pub refused: u64,
    /// The first [`SalvageReport::LISTED_MAX`] of these.
    pub refusals: Vec<Refusal>,
    /// The indexes that were built again.
    pub indexes: Vec<String>,
    /// The indexes that could not be built, with the reason: a unique one over documents that have the same key, say.
    pub lost_indexes: Vec<LostIndex>,
}

/// A document that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The stored key in hexadecimal.
    pub key: String,
    /// The reason why the document was rejected.
    pub reason: String,
}

/// An index that was not built again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LostIndex {
    /// The name of the index.
    pub name: String,
    /// The reason why the index could not be built.
    pub reason: String,
}

/// A stretch of bytes of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnreadableBytes {
    /// The file.
    pub file: PathBuf,
    /// The offset of the bytes.
    pub offset: u64,
    /// The number of bytes. 0 if that is not known, and of a file that is missing.
    pub bytes: u64,
    /// The problem.
    pub reason: String,
    /// The owner of the keys in them: a collection, several, or a column family. `None` if that is not known.
    pub place: Option<String>,
    /// The number of keys of the whole file that could not be read, if that is known. It is reported at the first damage
    /// of the file. Keys are documents, deleted documents and older versions.
    pub keys: Option<u64>,
}

/// Writes that are lost, by RocksDB's sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LostWrites {
    /// The first one.
    pub from: u64,
    /// The last one.
    pub to: u64,
}

impl SalvageReport {
    /// The largest number of things of one kind that a report lists.
    pub const LISTED_MAX: usize = 100;

    /// Whether nothing was found damaged, missing or doubtful.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (whole, new) = (folder.path().join("db"), folder.path().join("new"));
    /// Client::open(&whole)?.close()?;
    /// assert!(cairndb::salvage(&whole, &new).run()?.is_complete());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_complete(&self) -> bool {
        let is_whole = |collection: &SalvagedCollection| {
            !collection.is_renamed
                && collection.may_be_old == 0
                && collection.refused == 0
                && collection.lost_indexes.is_empty()
        };
        self.unreadable.is_empty()
            && self.lost_writes.is_empty()
            && self.notes.is_empty()
            && self.collections.iter().all(is_whole)
    }
}
