//! The error type of the public API.
//!
//! `Error` is one word wide and opaque: callers branch on `kind()`, `code()` and the predicates. Three
//! families are never mixed: the caller's mistake (`InvalidArgument`, `Command`, `Sequence`, `Write`, `InsertMany`,
//! `BulkWrite`, `GridFs`, `Transaction`, `ExactlyOnce`, `Custom`, `Bson`), the environment (`Io`, `NoSpace`, `CommitUnknown`, `Poisoned`, `AlreadyOpen`, ...), and
//! corruption (`Corruption`, `Damaged`, `DamagedFile`, `DataLoss`). Numbers and names of codes are MongoDB's.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bson::{Document, doc};
use query::code::Code;
use sequence::error::SequenceError;

use crate::gridfs_error::GridFsErrorKind;
use crate::insert_error::InsertManyError;
use crate::namespace::Namespace;
use crate::once_error::ExactlyOnceError;
use crate::write_error::{BulkWriteError, Refusal, WriteError, WriteFailure};

/// Codes of errors that end a whole command, whatever part of it they met.
const ENDS_COMMAND: [Code; 5] = [
    Code::MAX_TIME_MS_EXPIRED,
    Code::CURSOR_KILLED,
    Code::CLIENT_DISCONNECT,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED,
];

/// The label of an error after which a transaction may be tried again from its beginning. Nothing of it was stored.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";
/// The label of an error after which a change stream cannot be resumed: what it had not read is forgotten, or was never logged.
pub const NON_RESUMABLE_CHANGE_STREAM_ERROR: &str = "NonResumableChangeStreamError";
/// The label of an error after which it is not known whether a transaction was committed. The commit may be tried again.
pub const UNKNOWN_TRANSACTION_COMMIT_RESULT: &str = "UnknownTransactionCommitResult";

/// The result of every fallible call.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a call, with its collection. It is cheap to move: one word.
///
/// ```
/// use cairndb::{Client, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let users = client.database("app").collection::<Document>("users");
/// users.insert_one(doc! { "_id": 7 }).run()?;
/// let error = users.insert_one(doc! { "_id": 7 }).run().expect_err("7 is taken");
/// assert!(error.is_duplicate_key());
/// assert_eq!(error.code(), Some(11000));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    report: Box<Report>,
}

impl Error {
    /// The kind of failure, for `match`.
    ///
    /// ```
    /// use cairndb::{Client, ErrorKind};
    ///
    /// let error = Client::builder().create_if_missing(false).open("no/such/folder").expect_err("nothing is there");
    /// assert!(matches!(error.kind(), ErrorKind::NotFound { path } if path.ends_with("folder")));
    /// ```
    pub fn kind(&self) -> &ErrorKind {
        &self.report.kind
    }

    /// MongoDB's error code: 11000 for a duplicate key, 26 for a missing namespace, 14031 for a full disk. Returns `None` for
    /// failures that MongoDB has no code for, such as other ones of the file system.
    ///
    /// ```
    /// use cairndb::{Client, bson::doc};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let error = client.database("app").run_command(doc! { "fly": 1 }).run().expect_err("unknown");
    /// assert_eq!(error.code(), Some(59));
    /// # Ok(())
    /// # }
    /// ```
    pub fn code(&self) -> Option<i32> {
        match self.kind() {
            ErrorKind::Command(error) => Some(error.code),
            ErrorKind::Sequence(error) => Some(error.code()),
            ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
            ErrorKind::InsertMany(error) => {
                error.write_errors.as_ref().and_then(|errors| errors.first()).map(|error| error.code)
            }
            ErrorKind::BulkWrite(error) => error.first().map(|error| error.code),
            ErrorKind::NoSpace { .. } => Some(Code::OUT_OF_DISK_SPACE.number()),
            ErrorKind::ExactlyOnce(refusal) => Some(refusal.code().number()),
            ErrorKind::InvalidArgument { .. }
            | ErrorKind::Transaction { .. }
            | ErrorKind::Custom(_)
            | ErrorKind::GridFs(_)
            | ErrorKind::Bson(_)
            | ErrorKind::Io { .. }
            | ErrorKind::CommitUnknown { .. }
            | ErrorKind::Poisoned { .. }
            | ErrorKind::Damaged { .. }
            | ErrorKind::Corruption { .. }
            | ErrorKind::DamagedFile { .. }
            | ErrorKind::DataLoss { .. }
            | ErrorKind::ReadOnly
            | ErrorKind::Closed
            | ErrorKind::Forked
            | ErrorKind::CursorsOpen { .. }
            | ErrorKind::AlreadyOpen { .. }
            | ErrorKind::NotADatabase { .. }
            | ErrorKind::NotFound { .. }
            | ErrorKind::UnsupportedFormat { .. }
            | ErrorKind::NotUpgraded { .. }
            | ErrorKind::UnsupportedProcessor { .. }
            | ErrorKind::Storage { .. } => None,
        }
    }

    /// SequoiaDB's code of an error of a sequence: -325 when no value is left. `None` for others. Its name is in [`ErrorKind::Sequence`].
    ///
    /// ```
    /// use cairndb::Client;
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let error = client.database("app").sequence("orders").next_value().run().expect_err("no such sequence exists");
    /// assert_eq!((error.sequoia_code(), error.code()), (Some(-324), Some(2)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequoia_code(&self) -> Option<i32> {
        if let ErrorKind::Sequence(error) = self.kind() { Some(error.sequoia_code()) } else { None }
    }

    /// The collection that the failed call worked on. Returns `None` if it worked on none.
    ///
    /// ```
    /// use cairndb::{Client, bson::doc};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let error = client.database("app").run_command(doc! { "collStats": "users" }).run().expect_err("missing");
    /// assert_eq!(error.namespace().map(ToString::to_string).as_deref(), Some("app.users"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(&self) -> Option<&Namespace> {
        self.report.namespace.as_ref()
    }

    /// Whether a unique key, the `_id` included, was there already (code 11000). Of several rejected writes, whether all were rejected for
    /// this. A recipe: [an operation that may be repeated](guide/recipes/index.html#an-operation-that-may-be-repeated).
    pub fn is_duplicate_key(&self) -> bool {
        if let ErrorKind::InsertMany(InsertManyError { write_errors: Some(errors), .. }) = self.kind() {
            return !errors.is_empty() && errors.iter().all(|error| Code::DUPLICATE_KEY == error.code);
        }
        if let ErrorKind::BulkWrite(BulkWriteError { write_errors, .. }) = self.kind() {
            return !write_errors.is_empty()
                && write_errors.values().all(|error| Code::DUPLICATE_KEY == error.code);
        }
        self.code().is_some_and(|code| Code::DUPLICATE_KEY == code)
    }

    /// Whether a commit met an I/O error, so that its outcome is unknown: after the next open the write is there as a whole
    /// or not at all. This holds for [`ErrorKind::CommitUnknown`], and for [`ErrorKind::NoSpace`] in a commit.
    pub fn is_commit_unknown(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::CommitUnknown { .. } | ErrorKind::NoSpace { during_commit: true, .. }
        )
    }

    /// Whether stored bytes are not what was written.
    pub fn is_corruption(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Corruption { .. }
                | ErrorKind::Damaged { .. }
                | ErrorKind::DamagedFile { .. }
                | ErrorKind::DataLoss { .. }
        )
    }

    /// Whether the disk does not give what was stored on it.
    #[doc(hidden)]
    pub fn is_unreadable(&self) -> bool {
        // RocksDB passes the system's words on, and not its number.
        matches!(self.kind(), ErrorKind::Io { error, .. } if error.to_string().contains("Input/output error"))
    }

    /// Whether the disk is full. No acknowledged write is lost, and reads go on.
    ///
    /// Writes succeed again some seconds after there is space for one memtable: a quarter of the [memory
    /// budget](struct.ClientBuilder.html#method.memory_budget), at most 64 MiB. With less space they do when the folder is opened again.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind(), ErrorKind::NoSpace { .. })
    }

    /// Whether the folder is open in another client, in this process or another.
    pub fn is_already_open(&self) -> bool {
        matches!(self.kind(), ErrorKind::AlreadyOpen { .. })
    }

    /// MongoDB's labels, which say how to react: [`TRANSIENT_TRANSACTION_ERROR`] if the whole transaction may be
    /// tried again, [`UNKNOWN_TRANSACTION_COMMIT_RESULT`] if its commit may.
    pub fn labels(&self) -> &[&'static str] {
        &self.report.labels
    }

    /// Whether the error has a label.
    ///
    /// ```
    /// # use cairndb::{Client, TRANSIENT_TRANSACTION_ERROR, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let stock = client.database("shop").collection::<Document>("stock");
    /// stock.insert_one(doc! { "_id": "pen", "left": 3 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// stock.find_one(doc! { "_id": "pen" }).session(&mut session).run()?;
    /// // Another writer comes first.
    /// let take = doc! { "$inc": { "left": -1 } };
    /// stock.update_one(doc! { "_id": "pen" }, take.clone()).run()?;
    /// let error = stock.update_one(doc! { "_id": "pen" }, take).session(&mut session).run().expect_err("it was written since");
    /// assert!(error.is_write_conflict() && error.contains_label(TRANSIENT_TRANSACTION_ERROR));
    /// # Ok(())
    /// # }
    /// ```
    pub fn contains_label(&self, label: impl AsRef<str>) -> bool {
        self.report.labels.contains(&label.as_ref())
    }

    /// Whether a transaction met what another one wrote, or is about to write (code 112). Nothing of it is stored, and it may be
    /// tried again from its beginning.
    pub fn is_write_conflict(&self) -> bool {
        self.code().is_some_and(|code| Code::WRITE_CONFLICT == code)
    }

    /// An error of the caller's own, for functions that CairnDB calls, such as those of `and_run`.
    ///
    /// ```
    /// let error = cairndb::Error::custom("the order is closed");
    /// assert_eq!(error.get_custom::<&str>(), Some(&"the order is closed"));
    /// ```
    pub fn custom(value: impl Any + Send + Sync) -> Self {
        Self::new(ErrorKind::Custom(Arc::new(value)))
    }

    /// The value that [`custom`](Self::custom) was called with, if it has this type.
    pub fn get_custom<T: 'static>(&self) -> Option<&T> {
        if let ErrorKind::Custom(value) = self.kind() { value.downcast_ref() } else { None }
    }

    /// The same error with a label.
    #[doc(hidden)]
    pub fn with_label(mut self, label: &'static str) -> Self {
        if !self.report.labels.contains(&label) {
            self.report.labels.push(label);
        }
        self
    }

    #[doc(hidden)]
    pub fn new(kind: ErrorKind) -> Self {
        Self { report: Box::new(Report { kind, namespace: None, labels: Vec::new() }) }
    }

    #[doc(hidden)]
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument { message: message.into() })
    }

    #[doc(hidden)]
    pub fn command(code: Code, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Command(CommandError {
            code: code.number(),
            code_name: code.name().into_owned(),
            message: message.into(),
            details: None,
        }))
    }

    /// The same rejection as one of a single write, if it is one of a command.
    #[doc(hidden)]
    pub fn into_write(mut self) -> Self {
        // Running out of time, or being cancelled, fails the whole command: it is not a fault of the single write.
        if self.code().is_some_and(|code| ENDS_COMMAND.contains(&Code::of(code))) {
            return self;
        }
        if let ErrorKind::Command(CommandError { code, code_name, message, details }) = self.report.kind {
            let error = WriteError { code, code_name: Some(code_name), message, details };
            self.report.kind = ErrorKind::Write(WriteFailure::WriteError(error));
        }
        self
    }

    /// The rejection of a write. Returns the error itself if it is not a rejection.
    #[doc(hidden)]
    pub fn into_refusal(self) -> std::result::Result<WriteError, Self> {
        // SequoiaDB's code goes into the details: `code` is MongoDB's, as for every rejected write.
        if let ErrorKind::Sequence(error) = self.kind() {
            let code_name = Some(error.code_name().to_owned());
            return Ok(WriteError {
                code: error.code(),
                code_name,
                message: error.to_string(),
                details: Some(doc! {
                    "sequoiaCode": error.sequoia_code(),
                    "sequoiaName": error.sequoia_name(),
                }),
            });
        }
        let error = self.into_write();
        if let ErrorKind::Write(WriteFailure::WriteError(refusal)) = error.report.kind {
            Ok(refusal)
        } else {
            Err(error)
        }
    }

    /// The same rejection as one of a command, if it is one of a single write.
    #[doc(hidden)]
    pub fn into_command(mut self) -> Self {
        if let ErrorKind::Write(WriteFailure::WriteError(error)) = self.report.kind {
            let WriteError { code, code_name, message, details } = error;
            let code_name = code_name.unwrap_or_default();
            self.report.kind = ErrorKind::Command(CommandError { code, code_name, message, details });
        }
        self
    }

    #[expect(clippy::boxed_local, reason = "it is the argument of map_err, which is given a box")]
    #[doc(hidden)]
    pub fn write(refusal: Refusal) -> Self {
        Self::new(ErrorKind::Write(WriteFailure::WriteError(*refusal)))
    }

    /// `operation` follows the word "cannot".
    #[doc(hidden)]
    pub fn io(operation: &'static str, path: Option<&Path>, error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::StorageFull {
            let message = format!("cannot {operation}{}: {error}", shown(path));
            return Self::new(ErrorKind::NoSpace { message, during_commit: false });
        }
        Self::new(ErrorKind::Io { operation, path: path.map(Path::to_owned), error: Arc::new(error) })
    }

    #[doc(hidden)]
    pub fn corruption(family: &'static str, key: &[u8], reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption { family, key: key.to_vec(), reason: reason.into() })
    }

    #[doc(hidden)]
    pub fn in_namespace(mut self, namespace: &Namespace) -> Self {
        // The first one stays: it was set where the failure happened.
        self.report.namespace.get_or_insert_with(|| namespace.clone());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.kind.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.report.kind)
            .field("namespace", &self.report.namespace)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let ErrorKind::Bson(error) = self.kind() {
            return Some(error.as_ref());
        }
        // The file system's error is not a source: the text has its words already, and a source is not repeated.
        None
    }
}

/// For functions of callers that also do I/O of their own. CairnDB's errors of this kind name the operation and the path. An
/// error that a stream of a file has wrapped is unwrapped.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(own) => return own,
            Err(error) => error,
        };
        Self::io("finish an operation of the file system", None, error)
    }
}

/// For streams of files, which fail as `std::io` has it. The error is inside: `downcast` of the other returns it.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

fn shown(path: Option<&Path>) -> String {
    path.map(|path| format!(" {}", path.display())).unwrap_or_default()
}

impl From<SequenceError> for Error {
    fn from(error: SequenceError) -> Self {
        // No mistake of the caller, and opening the store again mends it: the family of the environment.
        if error == SequenceError::InDoubt {
            return Self::new(ErrorKind::Poisoned { cause: error.to_string() });
        }
        Self::new(ErrorKind::Sequence(error))
    }
}

impl From<GridFsErrorKind> for Error {
    fn from(kind: GridFsErrorKind) -> Self {
        Self::new(ErrorKind::GridFs(kind))
    }
}

impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Self::new(ErrorKind::Bson(Arc::new(error)))
    }
}

/// The kinds of failure. New kinds may be added.
///
/// ```
/// use cairndb::{Client, ErrorKind};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// client.clone().close()?;
/// let error = client.list_database_names().run().expect_err("it is closed");
/// assert!(matches!(error.kind(), ErrorKind::Closed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or option that the call cannot accept. Nothing was changed.
    #[error("{message}")]
    InvalidArgument {
        /// The argument, its value and the reason.
        message: String,
    },
    /// A command failed with one of MongoDB's codes. Nothing was changed.
    #[error("{0}")]
    Command(CommandError),
    /// A sequence or an auto-increment field rejected the call. The error has the codes and names of MongoDB and of
    /// SequoiaDB. No document was stored; values that the call had drawn are not given out again.
    #[error("{0}")]
    Sequence(SequenceError),
    /// A single write was rejected. Nothing was changed.
    #[error("{0}")]
    Write(WriteFailure),
    /// Some documents of an `insert_many` were rejected; the others are stored.
    #[error("{0}")]
    InsertMany(InsertManyError),
    /// Some writes of a `bulk_write` were rejected; the others are done.
    #[error("{0}")]
    BulkWrite(BulkWriteError),
    /// A call on a bucket of files failed: no such file exists, or its documents are not those of a file.
    #[error("{0}")]
    GridFs(GridFsErrorKind),
    /// A session cannot do what it was asked to: it has no transaction, or has one already. Nothing was changed.
    #[error("{message}")]
    Transaction {
        /// The reason, in the words of MongoDB's driver.
        message: String,
    },
    /// The token of a call that is to happen exactly once was rejected, or has happened. Nothing was changed.
    #[error("{0}")]
    ExactlyOnce(ExactlyOnceError),
    /// An error of the caller's own: see [`Error::custom`].
    #[error("an error of the caller's own")]
    Custom(Arc<dyn Any + Send + Sync>),
    /// A value could not be turned into BSON or back.
    #[error("the value cannot be converted to or from BSON")]
    Bson(Arc<bson::error::Error>),
    /// The operating system rejected an operation outside of a commit.
    #[error("cannot {operation}{}: {error}", shown(path.as_deref()))]
    Io {
        /// The failed operation, in words that follow "cannot".
        operation: &'static str,
        /// The file or folder, unless the system's message names it.
        path: Option<PathBuf>,
        /// The error of the operating system.
        error: Arc<std::io::Error>,
    },
    /// The disk is full. Reads go on, and writes succeed again once there is space; [`Error::is_no_space`] says how much.
    #[error("no space left on the device: {message}")]
    NoSpace {
        /// The message of the storage.
        message: String,
        /// Whether a commit failed: then the write may or may not be there after the next open.
        during_commit: bool,
    },
    /// A commit met an I/O error: the write may or may not be there after the next open, whole or not at
    /// all. The database rejects writes until it is opened again.
    #[error("the outcome of the commit is unknown until the database is opened again: {message}")]
    CommitUnknown {
        /// The message of the storage.
        message: String,
    },
    /// An earlier commit or sync failed. Writes are rejected until the database is opened again; reads go on. If the commit
    /// found no space, only writes that draw a number from the same gapless sequence are rejected.
    #[error("writes fail until the database is opened again, because an earlier write failed: {cause}")]
    Poisoned {
        /// The failure that poisoned it.
        cause: String,
    },
    /// Corruption was met: writes are rejected, intact parts can be read.
    #[error("writes fail because the database is damaged: {cause}")]
    Damaged {
        /// The corruption that was met.
        cause: String,
    },
    /// Stored bytes are not what was written.
    #[error("corruption in {family}{}: {reason}", AtKey(key))]
    Corruption {
        /// The column family.
        family: &'static str,
        /// The key whose value is bad; empty when the storage could not say.
        key: Vec<u8>,
        /// The flaw.
        reason: String,
    },
    /// A file of the database is not what was written. It was found before anything was changed: the folder is as it was.
    #[error(
        "{} is damaged at byte {offset}: {reason}; nothing was changed, restore a backup or keep the folder for salvage",
        path.display()
    )]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// The position of the damage in it; for a missing part, where it should begin.
        offset: u64,
        /// The flaw.
        reason: String,
    },
    /// Writes that were on stable storage are missing.
    ///
    /// It is found before anything is changed. The one exception is a RocksDB that opens with fewer writes than its files had a
    /// moment before: what it did read from logs may be in tables by then.
    #[error(
        "{} lost the synced writes {from} to {to}; restore a backup, or open without the witness to accept the loss",
        path.display()
    )]
    DataLoss {
        /// The folder.
        path: PathBuf,
        /// The first write that is lost, by number.
        from: u64,
        /// The newest write that is known to have been on stable storage.
        to: u64,
    },
    /// A write on a client that was opened read-only.
    #[error("the database was opened read-only")]
    ReadOnly,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// This process was forked from the one that opened the database. The database stays the parent's: nothing is read,
    /// written or closed here. A child may open databases if its parent had opened none before the fork.
    #[error(
        "this process is a fork of the one that opened the database, which stays the parent's: open it after \
         forking, in one process"
    )]
    Forked,
    /// `close` wrote and synced everything, but cursors keep the folder open until they are dropped.
    #[error("everything is synced, but {cursors} open cursors keep the folder locked until they are dropped")]
    CursorsOpen {
        /// The number of open cursors.
        cursors: usize,
    },
    /// The folder is open in another client, here or in another process.
    #[error("the database {} is already open", path.display())]
    AlreadyOpen {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not one that CairnDB made, so it is left alone.
    #[error("{} is not a CairnDB database: {reason}", path.display())]
    NotADatabase {
        /// The folder.
        path: PathBuf,
        /// The reason of the rejection.
        reason: String,
    },
    /// There is no database at the path and creation was not asked for.
    #[error("there is no database at {}", path.display())]
    NotFound {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written in a format that this version does not know.
    #[error("{} has format {found}, this version of CairnDB reads formats {oldest} to {supported}", path.display())]
    UnsupportedFormat {
        /// The folder.
        path: PathBuf,
        /// The format named by the folder.
        found: String,
        /// The oldest format that this version reads.
        oldest: u32,
        /// The newest format that this version reads, and the one that it writes.
        supported: u32,
    },
    /// The folder has an older format, and `upgrade(false)` rules out that opening it for writing upgrades it.
    #[error("{} has format {found}, and upgrade(false) rules out a newer one: open it with read_only", path.display())]
    NotUpgraded {
        /// The folder.
        path: PathBuf,
        /// The format named by the folder.
        found: u32,
    },
    /// The linked RocksDB was compiled for processors that have more than this one.
    #[error(
        "this processor lacks {lacks}, which the linked RocksDB was compiled to use: build RocksDB with \
         `cairndb-rocksdb --portable` and link that"
    )]
    UnsupportedProcessor {
        /// The instructions, in the words of Rust's `target_feature`.
        lacks: String,
    },
    /// The storage failed in a way that has no kind of its own.
    #[error("the storage failed: {message}")]
    Storage {
        /// Its message.
        message: String,
    },
}

/// A failed command: MongoDB's code, its name, and a text.
///
/// ```
/// use cairndb::{Client, ErrorKind, bson::doc};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let error = client.database("app").run_command(doc! { "fly": 1 }).run().expect_err("unknown");
/// let ErrorKind::Command(failed) = error.kind() else { panic!("{error}") };
/// assert_eq!((failed.code, failed.code_name.as_str()), (59, "CommandNotFound"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message} ({code_name}, code {code})")]
#[non_exhaustive]
pub struct CommandError {
    /// MongoDB's code.
    pub code: i32,
    /// MongoDB's name of the code.
    pub code_name: String,
    /// The message, in one sentence.
    pub message: String,
    /// For code 11000: `{keyPattern: {..}, keyValue: {..}}`.
    pub details: Option<Document>,
}

#[derive(Clone)]
struct Report {
    kind: ErrorKind,
    namespace: Option<Namespace>,
    labels: Vec<&'static str>,
}

/// The key at which something is wrong, if it is known.
struct AtKey<'a>(&'a [u8]);

impl fmt::Display for AtKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str(" at key ")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corruption_names_its_key_if_there_is_one() {
        let told = |key: &[u8]| Error::corruption("records", key, "cut short").to_string();
        assert_eq!(told(&[10, 255]), "corruption in records at key 0aff: cut short");
        assert_eq!(told(&[]), "corruption in records: cut short");
    }

    #[test]
    fn error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn duplicate_key_is_told_by_its_code() {
        let error = Error::write(WriteError::boxed(Code::DUPLICATE_KEY, "taken"));
        assert!(error.is_duplicate_key());
        assert!(!Error::command(Code::NAMESPACE_NOT_FOUND, "ns not found").is_duplicate_key());
    }

    #[test]
    fn sequences_name_codes_as_the_table_does() {
        let wrong_type = SequenceError::OptionType {
            option: "Increment",
            expected: "a whole number",
            found: "string".to_owned(),
        };
        for (error, code) in [(wrong_type, Code::TYPE_MISMATCH), (SequenceError::NeverUsed, Code::BAD_VALUE)]
        {
            assert_eq!((error.code(), error.code_name()), (code.number(), &*code.name()));
        }
    }

    #[test]
    fn a_number_brings_its_name() {
        let command = Error::command(Code::NAMESPACE_NOT_FOUND, "ns not found");
        assert_eq!(command.to_string(), "ns not found (NamespaceNotFound, code 26)");
        assert_eq!(
            WriteError::boxed(Code::IMMUTABLE_FIELD, "altered").code_name.as_deref(),
            Some("ImmutableField")
        );
    }

    #[test]
    fn only_commit_failures_have_an_unknown_outcome() {
        let no_space = |during_commit| {
            Error::new(ErrorKind::NoSpace { message: "device full".to_owned(), during_commit })
        };
        assert!(no_space(true).is_commit_unknown());
        assert!(!no_space(false).is_commit_unknown());
        assert!(Error::new(ErrorKind::CommitUnknown { message: "EIO".to_owned() }).is_commit_unknown());
        assert!(!Error::new(ErrorKind::ReadOnly).is_commit_unknown());
    }
}
