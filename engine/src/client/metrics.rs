//! `Client::metrics`: what the client has done, and how its store is. `Client::folder_stats`: what its folder has.

use base::error::Result;
use base::metrics::report::{Metrics, ScrubMetrics};
use store::folder_files;

use crate::client::handle::Client;
use crate::progress::ScrubStatus;
use crate::results::FolderStats;

impl Client {
    /// Returns what the client has done since it was opened, and how its store is now. It costs some microseconds, and holds
    /// no one up.
    ///
    /// Calls are counted when they end, and those of cursors when the cursor is at its end or dropped. With
    /// [`ClientBuilder::metrics`](crate::ClientBuilder::metrics) off, operations, documents and searches are not counted.
    ///
    /// Fails if the client is closed.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::in_memory()?;
    /// let people = client.database("app").collection::<Document>("people");
    /// for id in 0..3 {
    ///     people.insert_one(doc! { "_id": id }).run()?;
    /// }
    /// let metrics = client.metrics()?;
    /// let inserts = &metrics.operations["insert_one"];
    /// assert_eq!((inserts.times.count, inserts.failed), (3, 0));
    ///
    /// // As text, for example for a log.
    /// println!("{}", cairndb::bson::serialize_to_document(&metrics)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> Result<Metrics> {
        let shared = &self.shared;
        let database = shared.store.enter()?;
        // First what was done, then how things are: a call that ends in between is missed, never half counted.
        let mut metrics = shared.recorder.report();
        shared.store.measure(&database, &mut metrics);
        let (replays, bytes) = shared.tokens.measured();
        metrics.tokens.replays = replays;
        metrics.tokens.bytes = bytes;
        metrics.change_log = self.shared.catalog.log.metrics();
        // The status is kept without a scrub too, and all of it is zero then.
        if shared.scrub.lock().is_some() {
            let ScrubStatus { passes, bytes, files, finished_at, findings, findings_omitted } =
                &*shared.engine().scrub.lock();
            let findings = findings.len() as u64 + findings_omitted;
            let scrub = metrics.scrub.insert(ScrubMetrics::default());
            scrub.passes = *passes;
            scrub.bytes_read = *bytes;
            scrub.files = *files;
            scrub.findings = findings;
            scrub.finished_at = *finished_at;
        }
        Ok(metrics)
    }

    /// The bytes that operations and open cursors hold together for what they compute, sort and group: at most 1 GiB, beside the
    /// memory budget of the store. They are counted in grants of a mebibyte and more.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert_eq!(client.operation_bytes(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation_bytes(&self) -> u64 {
        self.shared.operation_bytes()
    }

    /// Returns what the store's folder has: its files by kind, the version of its format, and whether it had been closed in
    /// order when this client opened it. `None` for a store in memory.
    ///
    /// Names and lengths of the files are read, and nothing else. The call fails if the client is closed, or the folder cannot
    /// be read.
    ///
    /// ```
    /// # use cairndb::{Client, FileKind};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// Client::open(&path)?.close()?;
    /// let client = Client::open(&path)?;
    /// let stats = client.folder_stats()?.expect("the store is not in memory");
    /// assert!(stats.was_closed_in_order);
    /// assert!(stats.files.iter().any(|files| files.kind == FileKind::Logs));
    /// # Ok(())
    /// # }
    /// ```
    pub fn folder_stats(&self) -> Result<Option<FolderStats>> {
        let shared = &self.shared;
        // Without it a closed client would describe a folder that is another client's by now.
        let _in_use = shared.store.enter()?;
        if shared.options.mode.is_in_memory() {
            return Ok(None);
        }
        let path = shared.options.path.clone();
        let (format, files) = folder_files::look(&path)?;
        let was_closed_in_order = shared.catalog.was_closed_in_order;
        Ok(Some(FolderStats { path, format, was_closed_in_order, files }))
    }
}
