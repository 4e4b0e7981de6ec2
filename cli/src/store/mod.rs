//! A store as the tool's commands see it: a folder, or a server behind a socket or a URI.
//!
//! Every command is written once, over [`Store`], in database commands; so what works on a folder works on a
//! server. Nothing above this module may name a kind of store.

#[cfg(feature = "remote")]
mod ahead;
pub(crate) mod folder;
mod place;
#[cfg(feature = "remote")]
mod refused;
#[cfg(feature = "remote")]
pub(crate) mod remote;
#[cfg(feature = "remote")]
mod server;
#[cfg(feature = "shell")]
pub(crate) mod session;
#[cfg(feature = "remote")]
mod tail;
#[cfg(feature = "shell")]
mod transactions;
#[cfg(feature = "remote")]
mod waiting;

use std::path::{Path, PathBuf};
use std::time::Duration;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf};
use cairndb::{BackupProgress, CancellationToken, Client, FolderStats};

use crate::failure::Failure;
use crate::password;
use crate::signals::Signals;
use crate::store::place::{Place, lacks_marker};
pub(crate) use crate::store::place::{refuse_absent_server, uri};

/// A store that runs database commands, from any number of threads.
pub(crate) trait Store: Send + Sync {
    /// Runs a command on a database and returns its reply.
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure>;

    /// Makes durable what was written, for all of the store.
    fn sync(&self) -> Result<(), Failure>;

    /// Runs a command whose result is a cursor, and returns its documents.
    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure>;

    /// Starts a session, for transactions.
    #[cfg(feature = "shell")]
    fn start_session(&self) -> Result<Box<dyn StoreSession>, Failure>;

    /// From now on commands and cursors end when this token is cancelled, where they can.
    #[cfg(feature = "shell")]
    fn use_token(&mut self, token: &CancellationToken);

    /// Whether no other process can write to the store meanwhile.
    fn is_alone(&self) -> bool;

    /// Whether everything that is read is of one moment, and not of the moment of each command.
    fn is_of_one_moment(&self) -> bool;

    /// The documents of the users who may log in, for which there is no command.
    fn users(&self) -> Result<Box<dyn Documents>, Failure>;

    /// The facts of the store's folder. `None` through a connection, which shows no files.
    fn folder(&self) -> Result<Option<FolderFacts>, Failure>;

    /// Gives the room of what was deleted back to the disk: in a collection, or in all of them. A signal ends it early.
    fn compact(
        &self,
        namespace: Option<(&str, &str)>,
        signals: &Signals,
        tell: &mut Telling<'_>,
    ) -> Result<CompactedBytes, Failure>;

    /// Makes a verified copy that shares no file with the store. A signal ends it, and nothing of it is left then.
    fn back_up(
        &self,
        wish: BackupWish<'_>,
        signals: &Signals,
        tell: &mut TellingBackup<'_>,
    ) -> Result<BackedUp, Failure>;

    /// Adds a user as [`users`](Self::users) gives it. The code of the failure says that it is about this user alone.
    fn add_user(&self, user: &RawDocument, if_there: UserThere) -> Result<(), Failure>;
}

/// A session of a store. Dropping it aborts its transaction.
#[cfg(feature = "shell")]
pub(crate) trait StoreSession {
    /// Its id, as commands have it in `lsid`.
    fn id(&self) -> Document;

    /// Starts a transaction, with `readConcern`, `writeConcern` and `maxCommitTimeMS` as commands have them.
    fn begin(&mut self, options: &Document) -> Result<(), Failure>;

    fn commit(&mut self) -> Result<(), Failure>;

    fn abort(&mut self) -> Result<(), Failure>;

    /// Runs a command in the session and returns its reply.
    fn run(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure>;

    /// Opens a cursor in the session and returns its number.
    fn open(&mut self, database: &str, command: RawDocumentBuf) -> Result<u32, Failure>;

    /// The next document of a cursor. Returns `None` at its end.
    fn next(&mut self, cursor: u32) -> Result<Option<RawDocumentBuf>, Failure>;
}

/// Learns how much of long work is done, and of how much if that is known.
pub(crate) type Telling<'a> = dyn FnMut(u64, Option<u64>) + Send + 'a;

/// Receives the progress of a backup.
pub(crate) type TellingBackup<'a> = dyn FnMut(&BackupProgress) + Send + 'a;

/// A backup as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackupWish<'a> {
    /// A path, or, through a connection, a name.
    pub(crate) target: &'a Path,
    /// The number of generations that the target keeps, if it is a folder of them.
    pub(crate) generations: Option<u32>,
}

/// A backup that was made.
#[derive(Debug, Default)]
pub(crate) struct BackedUp {
    /// The folder of the copy: its path, or, through a connection, its name.
    pub(crate) folder: String,
    /// The generations that were removed.
    pub(crate) removed: Vec<String>,
    /// Older generations that stay, because they are in use or were written to.
    pub(crate) kept: Vec<String>,
    pub(crate) bytes: u64,
    pub(crate) bytes_linked: u64,
    pub(crate) files_linked: u64,
    pub(crate) collections: u64,
    pub(crate) documents: u64,
    pub(crate) indexes: u64,
    pub(crate) entries: u64,
    pub(crate) sequences: u64,
    pub(crate) files: u64,
}

/// The bytes of table files before a compaction and after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactedBytes {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A store's folder, and who has it open besides.
#[derive(Debug)]
pub(crate) struct FolderFacts {
    pub(crate) stats: FolderStats,
    /// The process that has the folder open for writing, where the system shows it.
    pub(crate) holder: Option<u32>,
}

/// The treatment of a user who exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserThere {
    Replace,
    Refuse,
}

/// The raw documents of a cursor. At most one batch of them is in memory.
pub(crate) trait Documents {
    /// Goes to the next document. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Failure>;

    /// The current document, after [`advance`](Self::advance) returned `true`.
    fn current(&self) -> &RawDocument;

    /// Goes to the next document. A cursor that follows a collection waits at most `time` for one.
    fn advance_within(&mut self, _time: Duration) -> Result<bool, Failure> {
        self.advance()
    }

    /// Whether another document may come after the last one that there is now.
    fn is_following(&self) -> bool {
        false
    }

    /// Of a change stream, the token after which another one goes on.
    fn resume_token(&self) -> Option<RawDocumentBuf> {
        None
    }
}

/// The way to a store.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access to the store")]
pub(crate) struct Access {
    /// Bytes for the store's cache, if it is a folder.
    #[cfg_attr(
        feature = "shell",
        doc = "For `shell` and `query` also the limit of a script's memory: 512 MiB if it is not given."
    )]
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<usize>,
    /// Read the password of the URI's user from the first line of this file; the environment variable
    /// `CAIRN_PASSWORD` holds it otherwise, or the terminal is asked.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl Access {
    /// For a server alone, with the file of its user's password.
    pub(crate) fn of_server(password_file: Option<PathBuf>) -> Self {
        Self { memory: None, password_file }
    }

    /// The same with another file of the password, if one is given.
    pub(crate) fn with_password_file(&self, file: Option<&Path>) -> Self {
        let file = file.map(Path::to_owned).or_else(|| self.password_file.clone());
        Self { memory: self.memory, password_file: file }
    }

    /// Rejects a file of a password that cannot be read, also where none is asked for.
    fn check(&self, signals: &Signals) -> Result<(), Failure> {
        self.password_file.as_deref().map_or(Ok(()), |file| password::given(Some(file), signals).map(drop))
    }
}

/// The database and the collection of `DB.COLLECTION`, split at the first dot.
pub(crate) fn namespace(name: &str) -> Result<(&str, &str), Failure> {
    let parts =
        name.split_once('.').filter(|(database, collection)| !database.is_empty() && !collection.is_empty());
    parts.ok_or_else(|| Failure::usage(format!("{name:?} is not a DB.COLLECTION")))
}

/// Opens a store for reading. `warn` gets what the user should know.
pub(crate) fn open_for_reading(
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    open(name, access, signals, warn, |path| {
        folder::Folder::open_for_reading(path, access.memory, &signals.token)
    })
}

/// The folder of a store, for a command that reads its files.
pub(crate) fn folder_alone(command: &str, name: &Path) -> Result<PathBuf, Failure> {
    match Place::of(name) {
        Place::Folder(path) => Ok(path),
        Place::Socket(_) | Place::Uri(_) => Err(Failure::usage(format!(
            "{command} reads the files of a store: give it the folder that the server has, and not the server"
        ))),
    }
}

/// Opens the folder of a store for reading, for a command that reads its files. The inner error says why it does not open.
pub(crate) fn open_folder_for_reading(
    command: &str,
    name: &Path,
    memory: Option<usize>,
    token: &CancellationToken,
) -> Result<cairndb::Result<Client>, Failure> {
    Ok(folder::open_for_reading(&folder_alone(command, name)?, memory, token))
}

/// Opens a store that is a server. `option` is what names it.
pub(crate) fn open_server(
    option: &str,
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    match Place::of(name) {
        Place::Folder(path) => {
            // A server that has stopped, and no mistake in the command line.
            refuse_absent_server(&path)?;
            let message = format!("{option} needs a URI or a socket, and {} is neither", name.display());
            Err(Failure::usage(message))
        }
        place @ (Place::Socket(_) | Place::Uri(_)) => connect(&place, access, signals, warn),
    }
}

/// Whether a store is a folder, and no server.
pub(crate) fn is_folder(name: &Path) -> bool {
    matches!(Place::of(name), Place::Folder(_))
}

/// Rejects a store that a command would not make: for one that opens nothing, because it only looks what it would do.
pub(crate) fn check_place(name: &Path) -> Result<(), Failure> {
    match Place::of(name) {
        Place::Folder(path) => refuse_absent_server(&path),
        Place::Socket(_) | Place::Uri(_) => Ok(()),
    }
}

/// Whether a store is a folder that is not there.
pub(crate) fn is_absent(name: &Path) -> bool {
    matches!(Place::of(name), Place::Folder(path) if !path.exists())
}

/// Whether a store is a folder that is not there, or that has no store.
pub(crate) fn is_no_store(name: &Path) -> bool {
    matches!(Place::of(name), Place::Folder(path) if lacks_marker(&path))
}

/// A store in memory.
pub(crate) fn in_memory() -> Result<Box<dyn Store>, Failure> {
    Ok(Box::new(folder::Folder::in_memory()?))
}

/// Opens a store for writing; a folder that is absent is made.
pub(crate) fn open_for_writing(
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    open(name, access, signals, warn, |path| {
        folder::Folder::open_for_writing(path, access.memory, folder::Absent::IsMade)
    })
}

/// Opens a store to copy it. A folder is locked for this process alone, and opened for reading where it cannot be written to.
pub(crate) fn open_to_copy(
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    open(name, access, signals, warn, |path| {
        folder::Folder::open_to_copy(path, access.memory, &signals.token)
    })
}

/// Opens a store for work on what is there; a folder is locked for this process alone, and never made.
pub(crate) fn open_existing(
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    open(name, access, signals, warn, |path| {
        folder::Folder::open_for_writing(path, access.memory, folder::Absent::IsRefused)
    })
}

/// Opens a store: a folder by `folder`.
fn open(
    name: &Path,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
    folder: impl FnOnce(&Path) -> Result<folder::Folder, Failure>,
) -> Result<Box<dyn Store>, Failure> {
    match Place::of(name) {
        Place::Folder(path) => {
            refuse_absent_server(&path)?;
            // Before a folder is made: a wrong option leaves none.
            access.check(signals)?;
            Ok(Box::new(folder(&path)?))
        }
        place @ (Place::Socket(_) | Place::Uri(_)) => connect(&place, access, signals, warn),
    }
}

#[cfg(feature = "remote")]
fn connect(
    place: &Place,
    access: &Access,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    Ok(Box::new(match place {
        Place::Folder(path) | Place::Socket(path) => {
            access.check(signals)?;
            remote::Remote::over_socket(path, &signals.token)?
        }
        Place::Uri(uri) => remote::Remote::at(uri, access.password_file.as_deref(), signals, warn)?,
    }))
}

#[cfg(not(feature = "remote"))]
fn connect(_: &Place, _: &Access, _: &Signals, _: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, Failure> {
    Err(Failure::usage("this build of cairn opens folders only: it lacks the feature `remote`"))
}
