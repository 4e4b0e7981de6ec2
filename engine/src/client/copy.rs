//! Copying a database, and the report of the last recovery: `backup` and `recovery_report`.

use std::path::Path;

use base::error::{Error, Result};
use query::operation::OperationContext;
use sequence::object_id::Layout;
use store::pace::Pace;
use store::{OpenMode, StoreOptions, copy};

use crate::audit::{self, Callback, Watch};
use crate::client::handle::Client;
use crate::command::repeated;
use crate::metrics::recorder::RecorderOptions;
use crate::results::{BackupReport, RecoveryReport, VerifyReport};
use crate::shared::Shared;
use crate::transaction::registry::Limits;

impl Client {
    /// Copies the database, as it is now, to the new folder `path`, and verifies the copy. The folder must not exist, and
    /// must not be inside the database's own. Writes can go on meanwhile.
    ///
    /// Where the file system allows, table files are hard links, so a copy uses little space and time; damage of such a file
    /// is damage of both. [`independent_backup`](Self::independent_backup) shares no files. Only the owner can
    /// read the files of the copy, and the linked files of the database. If the copy does not verify the call fails. The
    /// copy is then left for inspection, without the marker file that allows it to be opened.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let report = client.backup(folder.path().join("copy"))?;
    /// assert_eq!(report.verified.documents, 1);
    ///
    /// let copy = Client::open(folder.path().join("copy"))?;
    /// let people = copy.database("app").collection::<Document>("people");
    /// assert_eq!(people.count_documents(doc! { "name": "Ada" }).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackupReport> {
        let path = path.as_ref();
        // Asked before the copy is made: the move at its end would fail late, or replace an empty folder.
        if path.exists() {
            return Err(Error::invalid_argument(format!(
                "the backup folder {} exists already",
                path.display()
            )));
        }
        // Such a copy would be lost together with the folder that it is to save.
        if !self.shared.options.mode.is_in_memory() && lies_within(path, &self.shared.options.path) {
            return Err(Error::invalid_argument(format!(
                "the backup folder {} lies in the database, and would go with it",
                path.display()
            )));
        }
        let database = self.shared.store.enter()?;
        // The checkpoint has the log's file as it is on disk, so what was written must be there first.
        // A store that is opened for reading has written nothing, and would reject the sync.
        if !self.shared.options.mode.is_read_only() {
            self.shared.store.sync(&database)?;
        }
        // Copying a store in memory is slow, too, and then `close` ends it.
        copy::make(&database, path, &self.shared.options, &|| self.shared.store.refuse_closing())?;
        // Verifying is slow. `close` must not wait for it.
        drop(database);
        // It ends with the database that is copied: no other thread can close the copy.
        let verified = self.verify_copy(path, &|| self.shared.store.refuse_closing(), None)?;
        if let Some(first) = verified.findings.first() {
            return Err(Error::corruption(
                "backup",
                &[],
                format!("the copy does not verify: {}", first.problem),
            ));
        }
        // The marker comes last, so that a copy that was not verified cannot be opened.
        // Entered again: if the client was closed meanwhile, the copy stays without its marker.
        copy::publish(&*self.shared.store.enter()?, path)?;
        Ok(BackupReport { path: path.to_owned(), bytes: folder_bytes(path)?, verified })
    }

    /// Opens the copy beside this client and verifies it. `look` says whether to go on.
    pub(super) fn verify_copy(
        &self,
        path: &Path,
        look: &dyn Fn() -> Result<()>,
        tell: Option<Box<Callback<'_>>>,
    ) -> Result<VerifyReport> {
        let options = StoreOptions {
            path: path.to_owned(),
            mode: OpenMode::ReadOnlyCopy,
            ..self.shared.options.clone()
        };
        // Any layout will do, because no `ObjectId` is made for a copy that is only read.
        let copy =
            Shared::open(options, Layout::MachineProcess, None, RecorderOptions::OFF, Limits::default())?;
        // No other writes to the copy, so nothing is waited for that would look at an operation.
        let operation = OperationContext::unlimited();
        let mut watch = Watch::new(Pace::new(None, look), &operation, tell);
        let audited = audit::verify(&copy, &*copy.store.enter()?, &mut watch, repeated::damage);
        let mut report = audited.or_else(audit::damage_as_finding)?;
        audit::verify_files(&copy, &mut report, &mut watch)?;
        Ok(report)
    }

    /// Returns what opening found at the end of the logs: how much was replayed, and what a crash had cut short.
    ///
    /// Only writes that had not been synced are ever left out. If synced writes are missing, or files are damaged in another
    /// way, opening fails.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = cairndb::Client::open(folder.path().join("db"))?;
    /// assert!(client.recovery_report().is_clean());
    /// for torn in &client.recovery_report().torn {
    ///     println!("{}: {} bytes left out, {}", torn.file.display(), torn.bytes, torn.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery_report(&self) -> &RecoveryReport {
        self.shared.store.recovery_report()
    }
}

/// Whether `path`, which does not exist yet, would be inside `folder`.
pub(super) fn lies_within(path: &Path, folder: &Path) -> bool {
    // Only the parent can be resolved: the path itself is not there. A relative path of one part is in the current folder.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    whole(parent).zip(whole(folder)).is_some_and(|(parent, folder)| parent.starts_with(folder))
}

/// Whether `path`, which exists, is in `folder`, or is that folder.
pub(super) fn is_in(path: &Path, folder: &Path) -> bool {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    whole(path).zip(whole(folder)).is_some_and(|(path, folder)| path.starts_with(folder))
}

/// The sizes of all files in the folder.
fn folder_bytes(path: &Path) -> Result<u64> {
    let sum = || {
        let mut bytes = 0;
        for entry in std::fs::read_dir(path)? {
            // Hard links count in full: this is what the copy contains, not what it costs.
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    };
    sum().map_err(|error| Error::io("read the sizes of the files in", Some(path), error))
}
