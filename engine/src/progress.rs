//! The progress of long work, as its callers see it: index builds, verifications and the scrub.

use std::fmt;

use bson::DateTime;
use serde::{Deserialize, Serialize};

use crate::results::Finding;

/// A part of an index build.
///
/// ```
/// use cairndb::IndexBuildPhase;
///
/// assert_eq!(IndexBuildPhase::Scanning.to_string(), "scanning collection");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexBuildPhase {
    /// Documents are read, and their keys are sorted.
    #[default]
    Scanning,
    /// Sorted keys are stored.
    Storing,
    /// Documents that were written since the build began are read again.
    Following,
}

impl fmt::Display for IndexBuildPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // MongoDB's words, which its tools look for.
        f.write_str(match self {
            Self::Scanning => "scanning collection",
            Self::Storing => "inserting keys from external sorter into index",
            Self::Following => "draining writes received during build",
        })
    }
}

/// The progress of an index build.
///
/// ```
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// let by_name = IndexModel::builder().keys(doc! { "name": 1 }).build();
/// let mut last = None;
/// people.create_index(by_name).progress(|progress| last = Some(progress.clone())).run()?;
/// assert_eq!(last.map(|progress| progress.index_name), Some("name_1".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexBuildProgress {
    /// The database, a dot, and the collection.
    pub namespace: String,
    /// The name of the index.
    pub index_name: String,
    /// The present phase.
    pub phase: IndexBuildPhase,
    /// The part of the phase that is done: documents, or keys while they are stored.
    pub done: u64,
    /// The size of the phase when it began. 0 if that is not known: the number of documents of a collection is
    /// counted when it is first asked for.
    pub total: u64,
}

/// A part of a verification.
///
/// ```
/// use cairndb::VerifyPhase;
///
/// assert_eq!(VerifyPhase::Files.to_string(), "reading files");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyPhase {
    /// Documents are read and compared with their keys and entries.
    #[default]
    Documents,
    /// Entries of indexes are counted and compared with their documents.
    Entries,
    /// The checksums of files are read.
    Files,
}

impl fmt::Display for VerifyPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Documents => "reading documents",
            Self::Entries => "reading index entries",
            Self::Files => "reading files",
        })
    }
}

/// The progress of a verification.
///
/// ```
/// # use cairndb::{Client, VerifyPhase};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let mut last = None;
/// client.verification().progress(|progress| last = Some(progress.clone())).run()?;
/// assert_eq!(last.map(|progress| progress.phase), Some(VerifyPhase::Files));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// The present phase.
    pub phase: VerifyPhase,
    /// The collection whose documents or entries are being read: the database, a dot, and the collection. Empty while files are
    /// read.
    pub namespace: String,
    /// The part of the phase that is done: documents, entries, or bytes of files.
    pub done: u64,
    /// The size of the phase when it began. 0 if that is not known: the number of documents of a collection is
    /// counted when it is first asked for.
    pub total: u64,
}

/// A part of a backup.
///
/// ```
/// use cairndb::{BackupPhase, VerifyPhase};
///
/// assert_eq!(BackupPhase::Copying.to_string(), "copying files");
/// assert_eq!(BackupPhase::Verifying(VerifyPhase::Files).to_string(), "reading files");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackupPhase {
    /// Files are copied, or read to see whether they are linked.
    #[default]
    Copying,
    /// The copy is verified.
    Verifying(VerifyPhase),
}

impl fmt::Display for BackupPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copying => f.write_str("copying files"),
            Self::Verifying(phase) => phase.fmt(f),
        }
    }
}

/// The progress of a backup.
///
/// ```
/// # use cairndb::{BackupPhase, Client, VerifyPhase};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let mut last = None;
/// client.independent_backup(folder.path().join("copy")).progress(|progress| last = Some(*progress)).run()?;
/// assert_eq!(last.map(|progress| progress.phase), Some(BackupPhase::Verifying(VerifyPhase::Files)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// The present phase.
    pub phase: BackupPhase,
    /// The part of the phase that is done: bytes of files, documents, or entries.
    pub done: u64,
    /// The size of the phase when it began. 0 if that is not known.
    pub total: u64,
}

/// The state of the scrub since the database was opened: see [`ClientBuilder::scrub`](crate::ClientBuilder::scrub).
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::builder().scrub(8 << 20).open(folder.path().join("db"))?;
/// let status = client.scrub_status();
/// println!("{} bytes read, {} findings", status.bytes, status.findings.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScrubStatus {
    /// The number of complete passes over all files.
    pub passes: u64,
    /// The number of bytes that were read in all passes, the running one included.
    pub bytes: u64,
    /// The number of files that the last complete pass has read: tables, logs and the MANIFEST.
    pub files: u64,
    /// The end of the last complete pass.
    pub finished_at: Option<DateTime>,
    /// The findings of the last complete pass, or of the running one, once it has one.
    pub findings: Vec<Finding>,
    /// The number of further findings.
    pub findings_omitted: u64,
}
