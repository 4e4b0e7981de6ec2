//! What each kind of error and each common code means: when it comes, what is true of the store then, and what to do. The
//! page `errors` of the guide is printed from these tables.
//!
//! The kinds are matched by name, so that a new one does not build without its line.

use query::code::Code;

use crate::error::ErrorKind;

/// What an error means.
///
/// ```
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// let client = Client::open(&path)?;
/// let error = Client::open(&path).expect_err("it is open");
/// assert_eq!(error.kind().meaning().name, "AlreadyOpen");
/// assert!(error.kind().meaning().remedy.contains("socket"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorMeaning {
    /// The name of the kind.
    pub name: &'static str,
    /// When it comes.
    pub when: &'static str,
    /// What is true of the store then.
    pub store: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// What one of MongoDB's codes means here.
///
/// ```
/// let duplicate = cairndb::CodeMeaning::ALL.iter().find(|meaning| meaning.code == 11000).expect("it is common");
/// assert_eq!(duplicate.name(), "DuplicateKey");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeMeaning {
    /// The number.
    pub code: i32,
    /// When it comes.
    pub when: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl CodeMeaning {
    /// The codes that programs meet, ascending. Others are about single operators, whose message says what is wrong.
    pub const ALL: &'static [Self] = &[
        code(
            Code::BAD_VALUE,
            "a value that the option or operator does not take; what a sequence refuses",
            "read the message; it names both. `sequoia_code()` tells more of a sequence",
        ),
        code(Code::FAILED_TO_PARSE, "a filter, update or command that cannot be read", "correct it"),
        code(
            Code::UNAUTHORIZED,
            "a client of `cairn serve` has not logged in, or may not do it",
            "log in, or ask for the role",
        ),
        code(Code::TYPE_MISMATCH, "a field or option of the wrong type", "correct it"),
        code(
            Code::AUTHENTICATION_FAILED,
            "a wrong password, or no such user",
            "check both; the server does not say which it was",
        ),
        code(
            Code::NAMESPACE_NOT_FOUND,
            "there is no such collection",
            "check the name; the first insert makes a collection",
        ),
        code(Code::INDEX_NOT_FOUND, "there is no such index", "list them"),
        code(
            Code::CURSOR_NOT_FOUND,
            "the server has closed the cursor, after ten minutes or at its end",
            "ask again",
        ),
        code(
            Code::NAMESPACE_EXISTS,
            "the name is taken, with other options",
            "use what is there, or drop it",
        ),
        code(
            Code::MAX_TIME_MS_EXPIRED,
            "the time limit of the call is over",
            "allow more, or make the search cheaper: `explain`",
        ),
        code(Code::COMMAND_NOT_FOUND, "no such command", "check the name"),
        code(Code::IMMUTABLE_FIELD, "an update would change the `_id`", "delete and insert"),
        code(Code::CANNOT_CREATE_INDEX, "an index that is not possible", "read the message"),
        code(Code::INVALID_NAMESPACE, "a name that is not allowed", "choose another one"),
        code(
            Code::INDEX_OPTIONS_CONFLICT,
            "an index of that name, or on these fields, is there with other options",
            "drop it first",
        ),
        code(Code::OPERATION_FAILED, "a copy did not verify, among others", "read the message"),
        code(
            Code::DOCUMENT_VALIDATION_FAILURE,
            "the validator of the collection refuses the document",
            "the details say which rule it breaks",
        ),
        code(
            Code::EXCEEDED_MEMORY_LIMIT,
            "a group or an expression needs more memory than it may have",
            "make it smaller",
        ),
        code(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "a write or an index on a view", "do it to the collection"),
        code(Code::CURSOR_KILLED, "the cursor was ended", "ask again, if it was not meant"),
        code(Code::NOT_IMPLEMENTED, "MongoDB has it, and CairnDB has not", "see the page of compatibility"),
        code(
            Code::QUERY_EXCEEDED_MEMORY_LIMIT,
            "a sort needs more memory, and temporary files are not allowed",
            "allow them, or make an index in that order",
        ),
        code(
            Code::BSON_OBJECT_TOO_LARGE,
            "a document of more than 16 MiB",
            "split it, or put it into a bucket of files",
        ),
        code(
            Code::DUPLICATE_KEY,
            "another document has the `_id`, or the values of a unique index",
            "the details say which; `is_duplicate_key()`",
        ),
        code(Code::INTERRUPTED, "the call was cancelled", "nothing, if it was meant"),
        code(
            Code::OUT_OF_DISK_SPACE,
            "the disk is full, or the quota reached",
            "make room; writes succeed again without opening anew",
        ),
        code(Code::IDL_UNKNOWN_FIELD, "a command has a field that it does not know", "correct its name"),
    ];

    /// MongoDB's name of the code.
    ///
    /// ```
    /// assert_eq!(cairndb::CodeMeaning::ALL[0].name(), "BadValue");
    /// ```
    pub fn name(&self) -> std::borrow::Cow<'static, str> {
        Code::of(self.code).name()
    }
}

const fn code(code: Code, when: &'static str, remedy: &'static str) -> CodeMeaning {
    CodeMeaning { code: code.number(), when, remedy }
}

/// Makes the match over the kinds, and the list of all.
macro_rules! meanings {
    ($($kind:ident: $when:literal, $store:literal, $remedy:literal;)+) => {
        impl ErrorMeaning {
            /// Every kind, in the order of the enum.
            pub const ALL: &'static [Self] = &[
                $(Self { name: stringify!($kind), when: $when, store: $store, remedy: $remedy },)+
            ];
        }

        impl ErrorKind {
            /// What the error means: when it comes, what is true of the store then, and what to do.
            ///
            /// ```
            /// # use cairndb::Client;
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// let client = Client::builder().create_if_missing(false);
            /// let error = client.open(folder.path().join("absent")).expect_err("it is not there");
            /// assert_eq!(error.kind().meaning().name, "NotFound");
            /// # Ok(())
            /// # }
            /// ```
            pub fn meaning(&self) -> &'static ErrorMeaning {
                match self {
                    $(Self::$kind { .. } => {
                        &ErrorMeaning { name: stringify!($kind), when: $when, store: $store, remedy: $remedy }
                    })+
                }
            }
        }
    };
}

meanings! {
    InvalidArgument: "an argument or option that the call cannot accept",
        "nothing was changed", "correct the call";
    Command: "a command, search or pipeline was refused, with one of MongoDB's codes",
        "nothing was changed", "by the code, below";
    Sequence: "a sequence, or a field that numbers itself, refused the call",
        "no document was stored; values that the call had taken are not given again", "by `sequoia_code()`: exhausted (-325) needs other attributes";
    Write: "one write was refused",
        "nothing was changed", "by the code, below; `is_duplicate_key()` is the usual one";
    InsertMany: "some documents of an `insert_many` were refused",
        "the others are stored; an ordered call ended at the first", "the error names each by its position: mend and insert those";
    BulkWrite: "some writes of a `bulk_write` were refused",
        "the others are done; an ordered call ended at the first", "the error names each by its position";
    GridFs: "a file of a bucket is not there, or its documents are not those of a file",
        "nothing was changed", "read the message";
    Bson: "a value cannot be turned into BSON, or a document into the type of the collection",
        "nothing was changed", "read as `Document`, or change the type";
    Io: "the system refused an operation outside of a commit",
        "nothing was changed", "read the message: a permission, a path, a limit of open files";
    NoSpace: "the disk is full, or the quota reached",
        "reads go on. `during_commit`: the write may or may not be there after the next open; else it is not", "make room; writes succeed again without opening anew";
    CommitUnknown: "a commit met an I/O error",
        "the write may or may not be there, whole or not at all; reads go on, writes are refused", "open the store again, look whether it is there, and look at the disk";
    Poisoned: "a write after a failed commit or sync",
        "writes are refused, reads go on", "open the store again";
    Damaged: "a write after damage was met",
        "writes are refused, what is intact can be read", "restore a backup, or `cairn salvage`";
    Corruption: "stored bytes are not what was written",
        "what is intact can be read", "`cairn verify` says how much is damaged; restore a backup, or `cairn salvage`";
    DamagedFile: "opening found a damaged file",
        "the folder is as it was", "restore a backup, or `cairn salvage`";
    DataLoss: "opening found that synced writes are missing",
        "the folder is as it was, unless RocksDB lost them while it opened", "restore a backup, or accept the loss by opening without the witness";
    ReadOnly: "a write on a client that was opened for reading",
        "nothing was changed", "open without `read_only`";
    Closed: "a call after `close`",
        "nothing was changed", "open again, or keep the client longer";
    Forked: "a call in a forked child",
        "nothing was changed; the parent goes on", "open after forking, in one process";
    CursorsOpen: "`close` while cursors are open",
        "everything is synced; the folder stays locked until they are dropped", "drop the cursors before";
    AlreadyOpen: "the folder is open in another client or process",
        "nothing was changed", "use that one, open with `read_only`, or reach the process by its socket";
    NotADatabase: "a folder that CairnDB did not make",
        "the folder is as it was", "check the path";
    NotFound: "there is no store at the path, and none was to be made",
        "nothing was made", "check the path";
    UnsupportedFormat: "the folder was written by another version",
        "the folder is as it was", "use the version that the message asks for";
    UnsupportedProcessor: "RocksDB was compiled for other processors",
        "nothing was opened", "build RocksDB with `cairndb-rocksdb --portable`";
    Storage: "the storage failed in a way that has no kind of its own",
        "not known beyond the message", "look at the disk, and open again";
}
