//! The report on opening a folder: which ends of files were left out.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The report of [`Client::recovery_report`](struct.Client.html#method.recovery_report): what opening replayed from the logs, and what
/// it left out.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// // A new database has nothing to replay.
/// assert_eq!(client.recovery_report().log_bytes, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The number of bytes of logs that were replayed.
    pub log_bytes: u64,
    /// The ends of files that a crash cut short. They had not been synced.
    pub torn: Vec<TornEnd>,
}

impl RecoveryReport {
    /// Whether nothing was left out: the database was closed, or its process died between two writes.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert!(client.recovery_report().is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_clean(&self) -> bool {
        self.torn.is_empty()
    }
}

/// The end of a file that a crash cut short, and that opening left out.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// for torn in &client.recovery_report().torn {
///     println!("{}: {} bytes from {}: {}", torn.file.display(), torn.bytes, torn.offset, torn.reason);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TornEnd {
    /// The file.
    pub file: PathBuf,
    /// The position in bytes where the last whole write ends.
    pub offset: u64,
    /// The number of bytes after it.
    pub bytes: u64,
    /// The flaw.
    pub reason: String,
    /// The file with a copy of them, if the file had to be cut.
    pub set_aside: Option<PathBuf>,
}
