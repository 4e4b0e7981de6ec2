//! A store in a folder, opened by the engine in this process.

use std::path::Path;
use std::time::Duration;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use cairndb::{
    CancellationToken, Client, ClientBuilder, Collection, CompactionProgress, CompactionReport, Cursor,
    ErrorKind, SystemCollection,
};
use cairndb_server::{UserError, Users};
use query::code::Code;

use crate::failure::{Exit, Failure};
use crate::signals::Signals;
#[cfg(feature = "shell")]
use crate::store::StoreSession;
use crate::store::place::{MARKER, refuse_absent_server};
#[cfg(feature = "shell")]
use crate::store::transactions::FolderSession;
use crate::store::{
    BackedUp, BackupWish, CompactedBytes, Documents, FolderFacts, Store, Telling, TellingBackup, UserThere,
};

/// The number of attempts to open: another process may replace files between two steps of one attempt.
const ATTEMPTS: u32 = 5;
/// The memory that a sort, a group or a join holds before it continues in temporary files. The tool says that it
/// uses little beside the store.
const STAGE_MEMORY: usize = 32 << 20;

/// The addition to the error that there is no store.
const MAKERS: &str = "; cairn import, restore, migrate --from, serve and user add make one";

/// The treatment of a folder that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    IsMade,
    IsRefused,
}

pub(super) struct Folder {
    pub(super) client: Client,
    /// Then nothing changes while it is read.
    is_read_only: bool,
}

impl Folder {
    /// Opens the folder as it is now.
    pub(super) fn open_for_reading(
        path: &Path,
        memory: Option<usize>,
        token: &CancellationToken,
    ) -> Result<Self, Failure> {
        let opened = open_for_reading(path, memory, token);
        Ok(Self { client: opened.map_err(|error| not_opened(path, error))?, is_read_only: true })
    }

    /// A store without a folder.
    pub(super) fn in_memory() -> Result<Self, Failure> {
        Ok(Self { client: Client::in_memory()?, is_read_only: false })
    }

    /// Opens the folder to copy it: for itself alone, or for reading where it cannot be written to.
    pub(super) fn open_to_copy(
        path: &Path,
        memory: Option<usize>,
        token: &CancellationToken,
    ) -> Result<Self, Failure> {
        match Self::builder(memory, Absent::IsRefused).open(path) {
            Err(error) if is_unwritable(&error) => Self::open_for_reading(path, memory, token),
            opened => Self::opened(path, opened),
        }
    }

    /// Opens the folder for itself alone; `absent` says what becomes of one that is not there. A signal does not end what is being written:
    /// a batch is whole.
    pub(super) fn open_for_writing(
        path: &Path,
        memory: Option<usize>,
        absent: Absent,
    ) -> Result<Self, Failure> {
        Self::opened(path, Self::builder(memory, absent).open(path))
    }

    fn builder(memory: Option<usize>, absent: Absent) -> ClientBuilder {
        // The tool comes to write, and not to remove what has expired.
        let builder = Client::builder()
            .ttl_interval(None)
            .create_if_missing(absent == Absent::IsMade)
            .stage_memory(STAGE_MEMORY);
        match memory {
            Some(bytes) => builder.memory_budget(bytes),
            None => builder,
        }
    }

    fn opened(path: &Path, opened: cairndb::Result<Client>) -> Result<Self, Failure> {
        let client = opened.map_err(|error| not_opened(path, error))?;
        Ok(Self { client, is_read_only: false })
    }
}

/// Whether a folder cannot be written to: its disk is full or read-only, or its files belong to another user.
fn is_unwritable(error: &cairndb::Error) -> bool {
    use std::io::ErrorKind as Io;
    let refused = [Io::PermissionDenied, Io::ReadOnlyFilesystem, Io::StorageFull, Io::QuotaExceeded];
    let is_refused = |error: &std::io::Error| refused.contains(&error.kind());
    error.is_no_space() || matches!(error.kind(), ErrorKind::Io { error, .. } if is_refused(error))
}

/// Opens a folder as it is now, also while another process has it open. It is never made.
pub(super) fn open_for_reading(
    path: &Path,
    memory: Option<usize>,
    token: &CancellationToken,
) -> cairndb::Result<Client> {
    let mut attempt = 1;
    loop {
        let mut builder = Client::builder()
            .read_only(true)
            .create_if_missing(false)
            .ttl_interval(None)
            .stage_memory(STAGE_MEMORY);
        if let Some(bytes) = memory {
            builder = builder.memory_budget(bytes);
        }
        match builder.open(path) {
            Ok(client) => return Ok(client.with_cancellation(token)),
            Err(error) if error.is_corruption() && attempt < ATTEMPTS => {
                std::thread::sleep(Duration::from_millis(20 << attempt));
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The error of a folder that was not opened: if another process has it open, with a way to reach the store all the
/// same, and if there is none, with the commands that create one.
pub(crate) fn not_opened(path: &Path, error: cairndb::Error) -> Failure {
    if error.is_already_open() {
        return elsewhere(path);
    }
    let is_absent = matches!(error.kind(), ErrorKind::NotFound { .. });
    let mut failure = Failure::from(error);
    if is_absent {
        failure.message.push_str(MAKERS);
    }
    failure
}

/// The alternatives to a folder that another process has open.
pub(crate) const WITH_SOCKET: &str =
    "; if that process serves it on a Unix socket, give the socket instead of the folder";

/// The error for a folder that another process has open, with a way to reach it all the same.
fn elsewhere(path: &Path) -> Failure {
    let name = path.display();
    let process = holder(path).map(|id| format!(" (pid {id})")).unwrap_or_default();
    Failure::new(Exit::Elsewhere, format!("{name} is open in another process{process}{WITH_SOCKET}"))
}

/// The process that holds the lock of the folder's marker, where the system shows it.
fn holder(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let inode = std::fs::metadata(path.join(MARKER)).ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF`, of all processes that this one may see.
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(5)?.rsplit(':').next()?.parse() == Ok(inode);
        words.get(4)?.parse().ok().filter(|_| is_it)
    })
}

impl Store for Folder {
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        Ok(self.client.database(database).run_raw_command(command).run()?)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(self.client.sync()?)
    }

    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure> {
        Ok(Box::new(self.client.database(database).run_raw_cursor_command(command).run()?))
    }

    #[cfg(feature = "shell")]
    fn start_session(&self) -> Result<Box<dyn StoreSession>, Failure> {
        Ok(Box::new(FolderSession::start(&self.client)?))
    }

    #[cfg(feature = "shell")]
    fn use_token(&mut self, token: &CancellationToken) {
        self.client = self.client.with_cancellation(token);
    }

    fn is_alone(&self) -> bool {
        !self.is_read_only
    }

    fn is_of_one_moment(&self) -> bool {
        self.is_read_only
    }

    fn users(&self) -> Result<Box<dyn Documents>, Failure> {
        let users: Collection<Document> = self.client.system_collection(SystemCollection::Users);
        Ok(Box::new(users.find(doc! {}).run()?))
    }

    fn folder(&self) -> Result<Option<FolderFacts>, Failure> {
        let stats = self.client.folder_stats()?;
        Ok(stats.map(|stats| FolderFacts { holder: holder(&stats.path), stats }))
    }

    fn compact(
        &self,
        namespace: Option<(&str, &str)>,
        signals: &Signals,
        tell: &mut Telling<'_>,
    ) -> Result<CompactedBytes, Failure> {
        let client = self.client.with_cancellation(&signals.token);
        let tell = |at: &CompactionProgress| tell(at.done, Some(at.total));
        let report = match namespace {
            None => client.compact().progress(tell).run()?,
            Some((database, collection)) => {
                client.database(database).collection::<Document>(collection).compact().progress(tell).run()?
            }
        };
        let CompactionReport { bytes_before: before, bytes_after: after, .. } = report;
        Ok(CompactedBytes { before, after })
    }

    fn back_up(
        &self,
        wish: BackupWish<'_>,
        signals: &Signals,
        tell: &mut TellingBackup<'_>,
    ) -> Result<BackedUp, Failure> {
        refuse_absent_server(wish.target)?;
        if wish.generations.is_some() && wish.target.exists() && !wish.target.is_dir() {
            let target = wish.target.display();
            return Err(Failure::usage(format!("{target} exists already, and is not a folder of backups")));
        }
        let client = self.client.with_cancellation(&signals.token);
        let mut backup = client.independent_backup(wish.target).progress(tell);
        if let Some(keep) = wish.generations {
            backup = backup.generations(keep as usize);
        }
        let report = backup.run().map_err(|error| {
            if error.is_corruption() {
                Failure::new(Exit::Different, error.to_string())
            } else if matches!(error.kind(), ErrorKind::InvalidArgument { .. }) {
                Failure::usage(error.to_string())
            } else {
                error.into()
            }
        })?;
        let verified = report.verified;
        Ok(BackedUp {
            folder: report.path.display().to_string(),
            removed: report.removed.iter().map(|path| path.display().to_string()).collect(),
            kept: report.kept.iter().map(|path| path.display().to_string()).collect(),
            bytes: report.bytes,
            bytes_linked: report.bytes_linked,
            files_linked: report.files_linked,
            collections: verified.collections,
            documents: verified.documents,
            indexes: verified.indexes,
            entries: verified.entries,
            sequences: verified.sequences,
            files: verified.files,
        })
    }

    fn add_user(&self, user: &RawDocument, if_there: UserThere) -> Result<(), Failure> {
        let user = Document::try_from(user).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let users = Users::of(&self.client);
        let added = match users.restore(&user) {
            Err(UserError::Exists(name)) if if_there == UserThere::Replace => {
                users.remove(&name).and_then(|()| users.restore(&user))
            }
            added => added,
        };
        added.map_err(|error| {
            if let UserError::Store(error) = error {
                return error.into();
            }
            // It is of this user, and not of the store.
            let code = Some(Code::BAD_VALUE.number());
            Failure { code, ..Failure::new(Exit::Failed, error.to_string()) }
        })
    }
}

impl Documents for Cursor<Document> {
    fn advance(&mut self) -> Result<bool, Failure> {
        Ok(Self::advance(self)?)
    }

    fn current(&self) -> &RawDocument {
        Self::current(self)
    }

    fn advance_within(&mut self, time: Duration) -> Result<bool, Failure> {
        Ok(Self::advance_within(self, time)?)
    }

    fn is_following(&self) -> bool {
        self.is_tailing()
    }

    fn resume_token(&self) -> Option<RawDocumentBuf> {
        Self::resume_token(self)
    }
}
