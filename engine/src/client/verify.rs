//! `verify`: proving that a database is whole, and what the scrub has found.

use std::time::Duration;

use base::error::Result;
use store::pace::Pace;

use crate::audit::{self, Callback, Watch};
use crate::client::handle::Client;
use crate::command::repeated;
use crate::progress::{ScrubStatus, VerifyProgress};
use crate::results::VerifyReport;

impl Client {
    /// Verifies the whole database. Writes can go on meanwhile.
    ///
    /// On one snapshot: that every document has its index entries and every entry its document, and that counters and
    /// sequences are right. And of every file: that the checksums of all its blocks and records are right, also of those
    /// that no document is read from any more. [`verification`](Self::verification) does the same with options.
    ///
    /// Chunks of files whose upload was killed are listed apart: see [`VerifyReport::orphans`].
    ///
    /// The report lists what is wrong. If documents or entries cannot be read for damage, that is a finding too, and files are
    /// read all the same. An `Err` means that the storage could not be read for another reason.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # client.database("app").collection::<Document>("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let report = client.verify()?;
    /// assert!(report.is_clean());
    /// assert_eq!(report.documents, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verification().run()
    }

    /// Verifies the whole database, as [`verify`](Self::verify) does, with options: how fast it reads, how long it may last,
    /// and who learns how far it is.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let report = client
    ///     .verification()
    ///     .bytes_per_second(20 << 20)
    ///     .progress(|at| println!("{}: {} of {}", at.phase, at.done, at.total))
    ///     .run()?;
    /// assert!(report.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verification(&self) -> Verification<'_> {
        Verification { client: self, max_time: None, bytes_per_second: None, progress: None }
    }

    /// Returns what the scrub has done so far. All is zero without one: see [`ClientBuilder::scrub`](crate::ClientBuilder::scrub).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert_eq!(client.scrub_status().passes, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scrub_status(&self) -> ScrubStatus {
        self.shared.engine().scrub.lock().clone()
    }
}

/// The action that [`Client::verification`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// assert!(client.verification().max_time(Duration::from_secs(60)).run()?.is_clean());
/// # Ok(())
/// # }
/// ```
#[must_use = "the database is verified by run()"]
pub struct Verification<'a> {
    client: &'a Client,
    max_time: Option<Duration>,
    bytes_per_second: Option<u64>,
    progress: Option<Box<Callback<'a>>>,
}

impl<'a> Verification<'a> {
    /// The time limit of the call. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.verification().max_time(std::time::Duration::from_secs(60)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Sets the limit of bytes that are read in a second, so that the disk is left to others. Without it the disk and
    /// the processor decide. Documents and entries are counted as they are in memory, files as they are on disk.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.verification().bytes_per_second(10 << 20).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes_per_second(self, bytes: u64) -> Self {
        Self { bytes_per_second: Some(bytes), ..self }
    }

    /// A function that receives the progress of the verification: at the beginning and the end of each of its phases, and in between
    /// about ten times a second. It is called on the thread of [`run`](Self::run).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let mut phases = Vec::new();
    /// client.verification().progress(|at| phases.push(at.phase.to_string())).run()?;
    /// assert_eq!(phases.first().map(String::as_str), Some("reading documents"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(self, tell: impl FnMut(&VerifyProgress) + Send + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Verifies the database, and returns what was found.
    ///
    /// [`close`](Client::close) ends a verification that is running.
    pub fn run(self) -> Result<VerifyReport> {
        let Client { shared, caller } = self.client;
        let operation = shared.operation(caller, self.max_time);
        let look = || {
            operation.look()?;
            shared.store.refuse_closing()
        };
        // Shortened to the life of `look`, which the watch keeps too.
        let tell = self.progress.map(|tell| tell as Box<Callback<'_>>);
        let mut watch = Watch::new(Pace::new(self.bytes_per_second, &look), &operation, tell);
        // The database is given back before files are read, which may last hours.
        let audited = audit::verify(shared, &*shared.store.enter()?, &mut watch, repeated::damage);
        let mut report = audited.or_else(audit::damage_as_finding)?;
        audit::verify_files(shared, &mut report, &mut watch)?;
        Ok(report)
    }
}
