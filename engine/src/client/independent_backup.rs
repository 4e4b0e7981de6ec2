//! `independent_backup`: a verified copy that shares no file with the database, or the next of several generations of copies.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::error::{Error, Result};
use base::sync::AtomicBool;
use serde::{Deserialize, Serialize};
use store::generations::Generations;
use store::partial_copy::{CopiedFiles, CopyCalls, EarlierTables, PartialCopy};

use crate::client::copy::{is_in, lies_within};
use crate::client::handle::Client;
use crate::progress::{BackupPhase, BackupProgress, VerifyProgress};
use crate::results::{Finding, VerifyReport};
use crate::shared::Engine;

type Callback<'a> = dyn FnMut(&BackupProgress) + Send + 'a;

impl Client {
    /// Copies the database, as it is now, to the new folder `path`, and verifies the copy. Unlike the copy of
    /// [`backup`](Self::backup), it shares no file with the database, so that damage of the one is none of the other, and
    /// `path` may be on another disk. Writes go on meanwhile.
    ///
    /// With [`generations`](IndependentBackup::generations) `path` holds several copies, each a folder named by the time in
    /// UTC, of which the oldest goes when a new one is complete. What did not change is linked between them.
    ///
    /// While a copy is made, its folder has `.partial` after its name, and it gets its name once it was verified. If it does
    /// not verify the call fails, the folder stays as it is, without the marker that allows it to be opened, until the next
    /// backup to the same place, and no older copy is removed. To restore a copy, open it, or copy it first.
    ///
    /// A recipe: [a nightly backup](crate::guide::data#a-nightly-backup-that-is-verified).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let report = client.independent_backup(folder.path().join("copy")).run()?;
    /// assert_eq!((report.verified.documents, report.bytes_linked), (1, 0));
    ///
    /// let copy = Client::open(&report.path)?;
    /// let people = copy.database("app").collection::<Document>("people");
    /// assert_eq!(people.count_documents(doc! { "name": "Ada" }).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn independent_backup(&self, path: impl AsRef<Path>) -> IndependentBackup<'_> {
        IndependentBackup {
            client: self,
            path: path.as_ref().to_owned(),
            generations: None,
            max_time: None,
            progress: None,
        }
    }
}

/// The action that [`Client::independent_backup`] returns. [`run`](Self::run) executes it.
#[must_use = "the copy is made by run()"]
pub struct IndependentBackup<'a> {
    client: &'a Client,
    path: PathBuf,
    generations: Option<usize>,
    max_time: Option<Duration>,
    progress: Option<Box<Callback<'a>>>,
}

/// The report of [`Client::independent_backup`].
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let report = client.independent_backup(folder.path().join("copy")).run()?;
/// println!("{} of {} bytes were written", report.bytes - report.bytes_linked, report.bytes);
/// assert!(report.verified.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct IndependentBackupReport {
    /// The new folder, which can be opened as a database.
    pub path: PathBuf,
    /// The size of the files that were copied or linked, in bytes.
    pub bytes: u64,
    /// The bytes among them that an earlier generation had already, so that they were not written again.
    pub bytes_linked: u64,
    /// The number of linked table files.
    pub files_linked: u64,
    /// The generations that were removed, the oldest first.
    pub removed: Vec<PathBuf>,
    /// Older generations that stay all the same, the oldest first: a process has them open for writing, or they were opened for
    /// writing since they were made, or hold files that no backup has put there. The log says which.
    #[serde(default)]
    pub kept: Vec<PathBuf>,
    /// The report of verifying the copy.
    pub verified: VerifyReport,
}

impl<'a> IndependentBackup<'a> {
    /// Makes the folder one of generations: the copy is a new folder in it, and after it was verified all but the newest
    /// `keep` are removed. The folder must hold such copies of this store, or be empty or absent, and the database must not lie
    /// in it.
    ///
    /// A generation that a process has open for writing, or that was opened for writing since it was made, is not removed:
    /// [`kept`](IndependentBackupReport::kept) names it.
    ///
    /// A table file that the newest generation has already, with the same name, length and hash, is linked and not written
    /// again. All files of the database and of the new copy are read, which is the check that both are whole.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let backups = folder.path().join("backups");
    /// # client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let first = client.independent_backup(&backups).generations(2).run()?;
    /// let second = client.independent_backup(&backups).generations(2).run()?;
    /// assert!(second.bytes_linked > 0 && second.removed.is_empty());
    ///
    /// let third = client.independent_backup(&backups).generations(2).run()?;
    /// assert_eq!(third.removed, [first.path]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn generations(self, keep: usize) -> Self {
        Self { generations: Some(keep), ..self }
    }

    /// The time limit of the call. When it is over the call fails with code 50 (`MaxTimeMSExpired`), and leaves no copy.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let copy = folder.path().join("copy");
    /// assert!(client.independent_backup(&copy).max_time(Duration::from_nanos(1)).run().is_err());
    /// assert!(!copy.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// A function that receives the progress of the backup. It is called on the thread of [`run`](Self::run).
    ///
    /// The example of [`BackupProgress`] keeps what was reported last.
    pub fn progress(self, tell: impl FnMut(&BackupProgress) + Send + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Makes the copy, and returns what became of it.
    ///
    /// [`close`](Client::close) ends a backup that is running. One is made at a time.
    pub fn run(self) -> Result<IndependentBackupReport> {
        let engine = self.client.shared.engine();
        let _turn = Turn::take(engine)?;
        self.refuse_place()?;
        match self.generations {
            None => {
                let partial = PartialCopy::begin(&self.path)?;
                let path = self.path.clone();
                let (report, _) = self.make(partial, &EarlierTables::default(), path)?;
                Ok(report)
            }
            Some(keep) => {
                let store = self.client.shared.store.enter()?.id();
                let generations = Generations::claim(&self.path, store)?;
                let (path, earlier) = (generations.next()?, generations.tables());
                let partial = PartialCopy::begin(&path)?;
                let made = self.make(partial, &earlier, path.clone());
                if let Err(failure) = &made
                    && let Err(error) = failure.forget_damaged(&generations, earlier)
                {
                    tracing::warn!(%error, "the next backup may link damaged files once more");
                }
                let (mut report, copied) = made?;
                generations.note(&path, &copied.tables)?;
                let older = generations.remove_older(keep)?;
                (report.removed, report.kept) = (older.removed, older.kept);
                Ok(report)
            }
        }
    }

    fn refuse_place(&self) -> Result<()> {
        let options = &self.client.shared.options;
        let path = self.path.display();
        if self.generations == Some(0) {
            return Err(Error::invalid_argument("a backup keeps at least 1 generation, not 0"));
        }
        // Such a copy would be lost together with the folder that it is to save.
        if !options.mode.is_in_memory() && lies_within(&self.path, &options.path) {
            return Err(Error::invalid_argument(format!(
                "the backup folder {path} lies in the database, and would go with it"
            )));
        }
        // Old generations are removed there, and the database may have the name of one.
        if self.generations.is_some() && !options.mode.is_in_memory() && is_in(&options.path, &self.path) {
            return Err(Error::invalid_argument(format!(
                "the database {} lies in the backup folder {path}: choose a folder for backups alone",
                options.path.display()
            )));
        }
        Ok(())
    }

    /// Fills, verifies and publishes a copy.
    fn make(
        self,
        partial: PartialCopy,
        earlier: &EarlierTables,
        path: PathBuf,
    ) -> std::result::Result<(IndependentBackupReport, CopiedFiles), Failure> {
        let Self { client, max_time, mut progress, .. } = self;
        let Client { shared, caller } = client;
        let operation = shared.operation(caller, max_time);
        let look = || {
            operation.look()?;
            shared.store.refuse_closing()
        };
        let mut tell = |phase, done, total| {
            if let Some(tell) = &mut progress {
                tell(&BackupProgress { phase, done, total });
            }
        };
        look()?;
        let copied = {
            let database = shared.store.enter()?;
            if !shared.options.mode.is_read_only() {
                // Into tables, which the next copy may share. On a full disk the logs have it, as far as they could be written.
                let written = shared.store.sync(&database).and_then(|()| shared.store.flush(&database));
                written.or_else(|error| if error.is_no_space() { Ok(()) } else { Err(error) })?;
            }
            let mut tell_copied = |done, total| tell(BackupPhase::Copying, done, total);
            let calls = CopyCalls { look: &look, tell: &mut tell_copied };
            partial.fill(&database, &shared.options, earlier, calls)?
        };
        let mut tell_verified =
            |at: &VerifyProgress| tell(BackupPhase::Verifying(at.phase), at.done, at.total);
        let verified = match client.verify_copy(partial.path(), &look, Some(Box::new(&mut tell_verified))) {
            Ok(verified) if verified.is_clean() => verified,
            Ok(VerifyReport { findings, .. }) => {
                return Err(Failure::Unverified { at: partial.keep(), findings });
            }
            // It does not even open.
            Err(error) if error.is_corruption() => {
                return Err(Failure::Unreadable { at: partial.keep(), error });
            }
            Err(error) => return Err(error.into()),
        };
        // Entered again: if the client was closed meanwhile, the copy goes.
        partial.publish(&*shared.store.enter()?)?;
        let CopiedFiles { bytes, bytes_linked, files_linked, .. } = copied;
        let report = IndependentBackupReport {
            path,
            bytes,
            bytes_linked,
            files_linked,
            removed: Vec::new(),
            kept: Vec::new(),
            verified,
        };
        Ok((report, copied))
    }
}

/// The reason why there is no copy.
enum Failure {
    /// It does not verify.
    Unverified {
        at: PathBuf,
        findings: Vec<Finding>,
    },
    /// It is so damaged that it cannot be opened.
    Unreadable {
        at: PathBuf,
        error: Error,
    },
    Other(Error),
}

impl Failure {
    /// Removes damaged tables from the list, so that the next backup writes them again and does not link them once more.
    fn forget_damaged(&self, generations: &Generations, mut earlier: EarlierTables) -> Result<()> {
        let before = earlier.tables.len();
        match self {
            Self::Unverified { findings, .. } => {
                for finding in findings {
                    let name = finding.file.as_ref().and_then(|file| file.file_name()?.to_str());
                    name.map(|name| earlier.tables.remove(name));
                }
            }
            // It is not known which file keeps it from being opened.
            Self::Unreadable { .. } => earlier.tables.clear(),
            Self::Other(_) => {}
        }
        if earlier.tables.len() < before {
            generations.note(&earlier.folder, &earlier.tables)
        } else {
            Ok(())
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let (at, what) = match failure {
            Failure::Unverified { at, findings } => {
                // A finding about a file has its name, and consequences of it may come before.
                let of_file = findings.iter().find(|finding| finding.file.is_some());
                let first = of_file.or(findings.first());
                let file = first.and_then(|finding| finding.file.as_ref()?.file_name());
                let file = file.map(|file| format!("{}: ", file.to_string_lossy())).unwrap_or_default();
                (at, format!("{file}{}", first.map(|finding| finding.problem.as_str()).unwrap_or_default()))
            }
            Failure::Unreadable { at, error } => (at, error.to_string()),
            Failure::Other(error) => return error,
        };
        let at = at.display();
        Self::corruption("backup", &[], format!("the copy does not verify and stays as {at}: {what}"))
    }
}

/// The only backup of its kind that the client makes.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(engine: &'a Engine) -> Result<Self> {
        if engine.is_backing_up.swap(true, Ordering::AcqRel) {
            return Err(Error::invalid_argument("another backup of this database is running"));
        }
        Ok(Self(&engine.is_backing_up))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bson::{Document, doc};
    use tempfile::TempDir;

    use super::*;
    use crate::client::ClientBuilder;
    use crate::collection::Collection;
    use base::error::ErrorKind;

    struct Fixture {
        client: Client,
        folder: TempDir,
    }

    fn small() -> ClientBuilder {
        Client::builder().memory_budget(16 << 20)
    }

    fn things(client: &Client) -> Collection<Document> {
        client.database("test").collection("things")
    }

    fn filled() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let client = small().open(folder.path().join("db")).expect("made");
        things(&client).insert_many((0..20).map(|id| doc! { "_id": id })).run().expect("stored");
        Fixture { client, folder }
    }

    fn back_up(fixture: &Fixture, keep: usize) -> Result<IndependentBackupReport> {
        fixture.client.independent_backup(fixture.folder.path().join("backups")).generations(keep).run()
    }

    fn open_copy(path: &Path) -> Client {
        small().read_only(true).open(path).expect("a copy")
    }

    #[track_caller]
    fn verify_clean(client: &Client) {
        let report = client.verify().expect("verified");
        assert!(report.is_clean(), "{report:?}");
    }

    fn count(client: &Client) -> u64 {
        things(client).count_documents(doc! {}).run().expect("counted")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("listed");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
        let mut names: Vec<_> = entries.map(|entry| name(entry.expect("listed"))).collect();
        names.sort();
        names
    }

    fn generations(folder: &Path) -> Vec<String> {
        let mut names = names(folder);
        names.retain(|name| !name.starts_with("CAIRNDB"));
        names
    }

    /// A folder was made beside the store, which is forbidden where its parent belongs to another user, and one that was there
    /// was removed for its name.
    #[test]
    fn nothing_is_made_beside_the_store_or_in_it() {
        let fixture = filled();
        let folder = fixture.folder.path();
        let mine = folder.join("db.backing-up");
        fs::create_dir(&mine).expect("done");
        fs::write(mine.join("notes.txt"), b"mine").expect("done");
        let (beside, in_store) = (names(folder), names(&folder.join("db")).len());
        let place = tempfile::tempdir().expect("a folder");
        let mut copies = 0;
        let backup = fixture.client.independent_backup(place.path().join("copy"));
        let look = |_: &BackupProgress| {
            copies += 1;
            assert_eq!(names(folder), beside);
            let made = names(&folder.join("db")).into_iter().filter(|name| name.starts_with("CAIRNDB."));
            assert_eq!(made.collect::<Vec<_>>(), ["CAIRNDB.witness"]);
        };
        backup.progress(look).run().expect("done");
        assert!(copies > 2 && in_store > 3);
        assert_eq!(names(&mine), ["notes.txt"]);
    }

    /// A reader copies beside a writer, which deletes files that the copy needs, and beside none, where it makes no file.
    #[test]
    fn a_reader_copies_beside_a_writer_and_on_its_own() {
        let fixture = filled();
        let store = fixture.folder.path().join("db");
        let copy = |name: &str| {
            let reader = open_copy(&store);
            let mut seen = Vec::new();
            let look = |at: &BackupProgress| {
                if at.phase == BackupPhase::Copying && at.done == 0 {
                    seen = names(&store);
                    seen.retain(|name| name.starts_with("CAIRNDB.backup-"));
                }
            };
            let report = reader
                .independent_backup(fixture.folder.path().join(name))
                .progress(look)
                .run()
                .expect("done");
            assert_eq!(count(&open_copy(&report.path)), 20);
            seen
        };
        assert_eq!(copy("beside").len(), 1);
        assert!(names(&store).iter().all(|name| !name.starts_with("CAIRNDB.backup-")));
        fixture.client.close().expect("closed");
        assert_eq!(copy("alone"), Vec::<String>::new());
    }

    /// A copy is one state, whatever is written, flushed and compacted while it is made.
    #[test]
    fn a_copy_is_a_state_that_was_there() {
        let fixture = filled();
        let others = fixture.client.database("test").collection::<Document>("others");
        let backup = fixture.client.independent_backup(fixture.folder.path().join("copy"));
        let mut written = 0;
        let write = |at: &BackupProgress| {
            if at.phase != BackupPhase::Copying {
                return;
            }
            for _ in 0..50 {
                others.insert_one(doc! { "_id": written, "text": "x".repeat(1000) }).run().expect("stored");
                written += 1;
            }
            fixture.client.compact().run().expect("compacted");
        };
        let report = backup.progress(write).run().expect("done");
        assert!(written >= 100);
        // Those that were written before the files were listed, in their order.
        let copy = open_copy(&report.path);
        let others = copy.database("test").collection::<Document>("others");
        let ids = others.find(doc! {}).sort(doc! { "_id": 1 }).run().expect("found");
        let ids = ids.map(|found| found.expect("read").get_i32("_id").expect("a number"));
        assert!(ids.enumerate().all(|(at, id)| usize::try_from(id) == Ok(at)));
        assert_eq!(count(&copy), 20);
        verify_clean(&fixture.client);
    }

    /// A generation that a process had open was removed under it, with the writes that it had acknowledged.
    #[test]
    fn a_generation_that_is_open_or_was_written_to_is_not_removed() {
        let fixture = filled();
        let first = back_up(&fixture, 1).expect("done").path;
        let opened = small().open(&first).expect("done");
        things(&opened).insert_one(doc! { "_id": "acknowledged" }).run().expect("done");
        let report = back_up(&fixture, 1).expect("done");
        assert_eq!((report.removed, report.kept), (vec![], vec![first.clone()]));
        verify_clean(&opened);
        opened.close().expect("done");
        // A generation that is no longer as it was made is somebody's data.
        let second = report.path;
        fs::write(second.join("notes.txt"), b"mine").expect("done");
        let report = back_up(&fixture, 1).expect("done");
        assert_eq!((report.removed, report.kept), (vec![], vec![first.clone(), second.clone()]));
        assert_eq!(count(&open_copy(&first)), 21);
        // One that was only read goes, and so does one that holds nothing else any more.
        verify_clean(&open_copy(&report.path));
        fs::remove_file(second.join("notes.txt")).expect("done");
        let last = back_up(&fixture, 1).expect("done");
        assert_eq!((last.removed, last.kept), (vec![second, report.path], vec![first]));
    }

    /// The next backup treated every folder whose name began like that of a generation as the remains of a killed one.
    #[test]
    fn folders_among_generations_that_no_backup_made_stay() {
        let fixture = filled();
        let backups = fixture.folder.path().join("backups");
        back_up(&fixture, 2).expect("done");
        let mine = [
            "2025-11-25T13-22-48Z.partial",
            "2025-11-25T13-22-48Z.removed",
            "2025-11-25T13-22-49Z.partial-mine",
        ];
        for name in mine {
            fs::create_dir(backups.join(name)).expect("done");
            fs::write(backups.join(name).join("notes.txt"), b"mine").expect("done");
        }
        // A store that was opened, and what a kill has left of one that was being removed.
        let store = backups.join("2025-11-25T13-22-50Z.partial");
        fixture.client.independent_backup(&store).run().expect("done");
        fs::write(store.join("CAIRNDB.copying"), b"").expect("done");
        small().open(&store).expect("done").close().expect("done");
        let removed = backups.join("2025-11-25T13-22-51Z.removed");
        fs::create_dir(&removed).expect("done");
        fs::write(removed.join("CAIRNDB.copying"), b"").expect("done");
        fs::write(removed.join("000007.sst"), b"half").expect("done");
        // What a kill has left while the marker was written: a killed backup in some hundred.
        let cut = [("52", ""), ("53", "CairnDB form")];
        let cut =
            cut.map(|(second, text)| (backups.join(format!("2025-11-25T13-22-{second}Z.partial")), text));
        for (path, text) in &cut {
            fs::create_dir(path).expect("done");
            fs::write(path.join("CAIRNDB.copying"), b"").expect("done");
            fs::write(path.join("CURRENT"), b"MANIFEST-000001").expect("done");
            fs::write(path.join("CAIRNDB"), text).expect("done");
        }
        back_up(&fixture, 2).expect("done");
        for name in mine {
            assert_eq!(names(&backups.join(name)), ["notes.txt"]);
        }
        assert!(store.exists() && !removed.exists());
        assert!(cut.iter().all(|(path, _)| !path.exists()));
    }

    /// The store itself went, with its name of a generation, when its folder was the folder of its backups.
    #[test]
    fn a_store_in_the_folder_of_its_backups_is_refused() {
        let fixture = filled();
        let backups = fixture.folder.path().join("backups");
        let first = back_up(&fixture, 1).expect("done").path;
        let restored = small().open(&first).expect("done");
        let error = restored.independent_backup(&backups).generations(1).run().expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains("lies in the backup folder"), "{error}");
        assert_eq!(generations(&backups).len(), 1);
        verify_clean(&restored);
    }
}
