//! The meaning of each kind of error and of each common code: the cause, the state of the store, and the remedy. The
//! page `errors` of the guide is printed from these tables.
//!
//! The kinds are matched by name, so that a new one does not build without its line.

use query::code::Code;

use crate::error::ErrorKind;

/// The meaning of an error.
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
    /// The cause.
    pub when: &'static str,
    /// The state of the store after the error.
    pub store: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// The meaning of one of MongoDB's codes in CairnDB.
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
    /// The cause.
    pub when: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl CodeMeaning {
    /// All codes that have a name and are raised here, ascending. Those without a name are about single operators, whose message
    /// says what is wrong.
    pub const ALL: &'static [Self] = &[
        code(
            Code::INTERNAL_ERROR,
            "stored bytes, a temporary file or a step of the engine failed in a way that no other code says",
            "read the message, and look at the disk",
        ),
        code(
            Code::BAD_VALUE,
            "a value that the option, the operator or the sequence does not allow",
            "read the message; it names both. Of a sequence, `sequoia_code()` is SequoiaDB's number",
        ),
        code(Code::GRAPH_CONTAINS_CYCLE, "a view would lead to itself", "choose another source"),
        code(Code::FAILED_TO_PARSE, "a filter, update or command that cannot be read", "correct it"),
        code(Code::USER_NOT_FOUND, "`updateUser` of a user who is not there", "correct the name"),
        code(
            Code::UNAUTHORIZED,
            "a client of `cairn serve` has not logged in, or may not do it",
            "log in, or ask for the role",
        ),
        code(Code::TYPE_MISMATCH, "a field or option of the wrong type", "correct it"),
        code(Code::OVERFLOW, "a document or expression has more levels than are allowed", "nest it less"),
        code(Code::INVALID_LENGTH, "a command has too many statements, or too few", "split it"),
        code(Code::PROTOCOL_ERROR, "a login whose messages do not follow each other", "use a driver"),
        code(
            Code::AUTHENTICATION_FAILED,
            "a wrong password, or no such user",
            "check both; the server does not say which it was",
        ),
        code(
            Code::ILLEGAL_OPERATION,
            "something that is never allowed there: a change of what belongs to the server, a command in the wrong place",
            "read the message",
        ),
        code(Code::INVALID_BSON, "bytes that are not a BSON document", "send a document"),
        code(
            Code::ALREADY_INITIALIZED,
            "`replSetInitiate` of a server that is a replica set",
            "nothing is to be done",
        ),
        code(
            Code::LOCK_TIMEOUT,
            "a transaction has waited long for the turn of an ordered or gapless sequence",
            "try the whole transaction again; `and_run` does",
        ),
        code(
            Code::NAMESPACE_NOT_FOUND,
            "there is no such collection",
            "check the name; the first insert makes a collection",
        ),
        code(Code::INDEX_NOT_FOUND, "there is no such index", "list them"),
        code(
            Code::PATH_NOT_VIABLE,
            "an update names a field below a value that has no fields",
            "look at the document that the message names",
        ),
        code(
            Code::CANNOT_BACKFILL_ARRAY,
            "an update would extend an array too far",
            "write a position near its end",
        ),
        code(
            Code::CONFLICTING_UPDATE_OPERATORS,
            "two operators of an update change one field, or one within the other",
            "name it once",
        ),
        code(
            Code::CURSOR_NOT_FOUND,
            "the server has closed the cursor, after ten minutes or at its end",
            "ask again",
        ),
        code(
            Code::NO_MATCHING_DOCUMENT,
            "a change stream requires documents that are not kept",
            "ask for them where they are available",
        ),
        code(Code::NAMESPACE_EXISTS, "the name exists with other options", "use what is there, or drop it"),
        code(
            Code::MAX_TIME_MS_EXPIRED,
            "the time limit of the call is over",
            "allow more, or make the search cheaper: `explain`",
        ),
        code(
            Code::DOLLAR_PREFIXED_FIELD_NAME,
            "a name that begins with a dollar sign where it is not allowed",
            "choose another name, or `$setField`",
        ),
        code(
            Code::INVALID_ID_FIELD,
            "an `_id` that is an array, a pattern or undefined",
            "choose another value",
        ),
        code(
            Code::NOT_SINGLE_VALUE_FIELD,
            "an upsert whose filter gives a field two values",
            "put the value into the update",
        ),
        code(Code::EMPTY_FIELD_NAME, "a path with an empty part", "correct it"),
        code(Code::COMMAND_NOT_FOUND, "no such command", "check the name"),
        code(Code::IMMUTABLE_FIELD, "an update would change the `_id`", "delete and insert"),
        code(Code::CANNOT_CREATE_INDEX, "an index that is not possible", "read the message"),
        code(
            Code::INVALID_OPTIONS,
            "options that do not go together, or that the thing cannot have; a token or a number that another call had",
            "read the message",
        ),
        code(Code::INVALID_NAMESPACE, "a name that is not allowed", "choose another one"),
        code(
            Code::NO_REPLICATION_ENABLED,
            "a command about a replica set",
            "there is none without `--replica-set`",
        ),
        code(
            Code::UNKNOWN_REPL_WRITE_CONCERN,
            "a write concern that names servers by a tag",
            "ask for `majority`; of a commit it is the error of its write concern, and the commit was made",
        ),
        code(
            Code::INDEX_OPTIONS_CONFLICT,
            "an index of that name, or on these fields, is there with other options",
            "drop it first",
        ),
        code(
            Code::INDEX_KEY_SPECS_CONFLICT,
            "an index of that name is there on other fields",
            "choose another name",
        ),
        code(Code::SHUTDOWN_IN_PROGRESS, "the server is stopping", "ask the next one"),
        code(Code::OPERATION_FAILED, "a copy did not verify, among others", "read the message"),
        code(
            Code::UNSATISFIABLE_WRITE_CONCERN,
            "a write concern that asks for more servers than there are",
            "ask for `majority`; of a commit it is the error of its write concern, and the commit was made",
        ),
        code(
            Code::NOT_EXACT_VALUE_FIELD,
            "an upsert whose filter uses a field as a part and as a whole",
            "put the value into the update",
        ),
        code(
            Code::WRITE_CONFLICT,
            "a transaction met what was written since it began, or what another one is about to write",
            "try the whole transaction again; `and_run` does",
        ),
        code(
            Code::CONFLICTING_OPERATION_IN_PROGRESS,
            "a transaction was started with the number of the one before",
            "start it with a higher number, as drivers do",
        ),
        code(
            Code::DOCUMENT_VALIDATION_FAILURE,
            "the document fails the collection's validator",
            "the details say which rule it breaks",
        ),
        code(
            Code::NOT_A_REPLICA_SET,
            "a read concern or a transaction that only a replica set has",
            "leave it out",
        ),
        code(Code::COMMAND_FAILED, "the collection that `$out` replaces was changed meanwhile", "repeat it"),
        code(
            Code::CAPPED_POSITION_LOST,
            "a tailable cursor was overtaken: what it would read next is gone",
            "ask again, and read faster or keep more",
        ),
        code(
            Code::EXCEEDED_MEMORY_LIMIT,
            "a group, an expression or the result of a live query needs more memory than it may have, or the tokens that are remembered as many bytes",
            "make it smaller; of tokens, raise `token_bytes_max`, or wait until older ones are forgotten",
        ),
        code(
            Code::INCOMPATIBLE_COLLATION_VERSION,
            "an index was built by other rules of languages than this program has",
            "use the program that built it, or build the index again with it",
        ),
        code(
            Code::VIEW_DEPTH_LIMIT_EXCEEDED,
            "more than twenty views, one over another",
            "make it of the views below",
        ),
        code(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "a write or an index on a view", "do it to the collection"),
        code(
            Code::OPTION_NOT_SUPPORTED_ON_VIEW,
            "a view cannot have the option, or is read by another collation than its own",
            "leave it out",
        ),
        code(Code::INVALID_PIPELINE_OPERATOR, "an operator that expressions do not have", "check its name"),
        code(
            Code::CANNOT_INDEX_PARALLEL_ARRAYS,
            "a document with arrays in two fields of one index",
            "index one of them",
        ),
        code(
            Code::QUERY_PLAN_KILLED,
            "the collection or index of a cursor went away or was renamed",
            "ask again",
        ),
        code(Code::AMBIGUOUS_INDEX_KEY_PATTERN, "several indexes have these fields", "name the index"),
        code(
            Code::CLIENT_METADATA_CANNOT_BE_MUTATED,
            "a second hello of a connection names another client",
            "name it once",
        ),
        code(
            Code::CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            "the client's metadata has more than 512 bytes",
            "send less",
        ),
        code(
            Code::VIEW_PIPELINE_MAX_SIZE_EXCEEDED,
            "the pipelines of views over views have more than 16 MiB",
            "make them smaller",
        ),
        code(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            "an option that the index cannot have",
            "leave it out",
        ),
        code(
            Code::QUERY_FEATURE_NOT_ALLOWED,
            "an operator that is not allowed there, as `$expr` in an upsert",
            "write it otherwise",
        ),
        code(
            Code::TRANSACTION_TOO_OLD,
            "a write or a transaction with a lower number than the last one of its session, or a token that is older than those that are remembered",
            "nothing: drivers count up by themselves; with a token, look whether its write was done",
        ),
        code(
            Code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            "more than twenty pipelines, one within another",
            "nest them less",
        ),
        code(Code::CURSOR_KILLED, "the cursor was ended", "ask again, if it was not meant"),
        code(Code::NOT_IMPLEMENTED, "MongoDB has it, and CairnDB has not", "see the page of compatibility"),
        code(
            Code::SNAPSHOT_TOO_OLD,
            "the state that was to be read is not kept any more",
            "try the whole transaction again",
        ),
        code(
            Code::CONVERSION_FAILURE,
            "a value that cannot become one of the other type",
            "give `onError`, or filter before",
        ),
        code(
            Code::SNAPSHOT_UNAVAILABLE,
            "a collection, an index or a validator was changed since the transaction began",
            "try the whole transaction again; `and_run` does",
        ),
        code(
            Code::NO_SUCH_TRANSACTION,
            "the transaction was aborted, by an error or by the end of its time, or never began",
            "try the whole transaction again",
        ),
        code(
            Code::TRANSACTION_COMMITTED,
            "a call of a transaction that was committed",
            "start another one, with another token",
        ),
        code(
            Code::TRANSACTION_TOO_LARGE,
            "a transaction has written more than it may keep in memory",
            "write less in one",
        ),
        code(
            Code::INVALID_RESUME_TOKEN,
            "a resume token of another store, of the end of a stream, or none at all",
            "open a new stream; read what it follows first",
        ),
        code(
            Code::TOO_MANY_LOGICAL_SESSIONS,
            "as many transactions are open as there may be",
            "end some, or wait until their time is over",
        ),
        code(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "a call that no transaction can have: it changes collections, or counts without looking",
            "do it outside of the transaction",
        ),
        code(
            Code::FAIL_POINT_SET_FAILED,
            "a fail point that does not exist, or with options it does not have",
            "read the message",
        ),
        code(
            Code::PREPARED_TRANSACTION_IN_PROGRESS,
            "a fault for test suites: no transaction is prepared",
            "try the whole transaction again",
        ),
        code(
            Code::INDEX_BUILD_ABORTED,
            "the index was dropped, or its collection, while it was built",
            "build it again, if it was not meant",
        ),
        code(Code::CLIENT_DISCONNECT, "the client of the call is gone", "nothing"),
        code(
            Code::CHANGE_STREAM_FATAL_ERROR,
            "the pipeline of a change stream has changed the resume token of an event",
            "leave `_id` as it is",
        ),
        code(
            Code::CHANGE_STREAM_HISTORY_LOST,
            "events that a change stream had not read are forgotten, or were never logged",
            "read what it follows again, and open a new stream",
        ),
        code(
            Code::TRANSACTION_EXCEEDED_LIFETIME,
            "the time of a transaction was over during a statement",
            "try the whole transaction again, with less in it",
        ),
        code(
            Code::NO_QUERY_EXECUTION_PLANS,
            "a hint with which the search cannot be done",
            "leave it out, or name another index",
        ),
        code(
            Code::QUERY_EXCEEDED_MEMORY_LIMIT,
            "a sort, a group or a join needs more memory, and temporary files are not allowed",
            "allow them, or make an index in that order",
        ),
        code(Code::API_VERSION_ERROR, "a version of the API that is not 1", "ask for 1"),
        code(
            Code::API_STRICT_ERROR,
            "a command that is not in version 1 of the API",
            "do not ask for strictness",
        ),
        code(Code::MECHANISM_UNAVAILABLE, "a way to log in that is not offered", "use SCRAM-SHA-256"),
        code(Code::UNSUPPORTED_OP_QUERY_COMMAND, "a driver of before 2016", "use a newer one"),
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
        code(
            Code::INTERRUPTED_AT_SHUTDOWN,
            "the store was closed, or the server stopped, during the call",
            "ask again when it is open",
        ),
        code(Code::INTERRUPTED, "the call was cancelled", "nothing, if it was meant"),
        code(Code::CURSOR_IN_USE, "two calls for one cursor at a time", "one after the other"),
        code(Code::BACKGROUND_OPERATION_IN_PROGRESS, "an index is being built", "wait for it, or end it"),
        code(
            Code::MERGE_STAGE_NO_MATCHING_DOCUMENT,
            "`$merge` with `whenNotMatched: \"fail\"` met a new document",
            "choose `insert` or `discard`",
        ),
        code(Code::DATABASE_DIFFER_CASE, "a database exists whose name differs only in case", "use its name"),
        code(
            Code::OUT_OF_DISK_SPACE,
            "the disk is full, or the quota reached",
            "free some space; writes then succeed without opening again",
        ),
        code(
            Code::KEY_TOO_LONG,
            "the keys of two different long values in a unique index, or of two long `_id`s, are the same",
            "change the value: only SHA-256 distinguishes such values",
        ),
        code(Code::IDL_DUPLICATE_FIELD, "a command has a field twice", "send it once"),
        code(Code::IDL_FAILED_TO_PARSE, "a command lacks a field, or has it twice", "correct it"),
        code(Code::IDL_UNKNOWN_FIELD, "a command has a field that it does not know", "correct its name"),
    ];

    /// MongoDB's name of the code.
    ///
    /// ```
    /// assert_eq!(cairndb::CodeMeaning::ALL[0].name(), "InternalError");
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
            /// The meaning of the error: its cause, the state of the store, and the remedy.
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
    Command: "a command, search or pipeline failed, with one of MongoDB's codes",
        "nothing was changed", "by the code, below";
    Sequence: "a sequence, or an auto-increment field, rejected the call",
        "no document was stored; values that the call had reserved are not used again", "by `sequoia_code()`: exhausted (-325) needs other attributes";
    Write: "one write failed",
        "nothing was changed", "by the code, below; `is_duplicate_key()` is the usual one";
    InsertMany: "some documents of an `insert_many` were rejected",
        "the others are stored; an ordered call ended at the first", "the error names each by its position: correct and insert those";
    BulkWrite: "some writes of a `bulk_write` failed",
        "the others are done; an ordered call ended at the first", "the error names each by its position";
    GridFs: "a file of a bucket is not there, or its documents are not those of a file",
        "nothing was changed", "read the message";
    Transaction: "a session has no transaction, or has one already",
        "nothing was changed", "start one, or end it first";
    ExactlyOnce: "the token of `exactly_once` belongs to another call, is too old, is beyond the limit of remembered tokens, or its transaction is committed already",
        "nothing was changed by this call", "by the code, below: 72, 225, 146, 256";
    Custom: "an error of the caller's own, made by `Error::custom`",
        "as the caller says", "`get_custom` returns the value";
    Bson: "a value cannot be turned into BSON, or a document into the type of the collection",
        "nothing was changed", "read as `Document`, or change the type";
    Io: "an I/O error outside of a commit",
        "nothing was changed", "read the message: a permission, a path, a limit of open files";
    NoSpace: "the disk is full, or the quota reached",
        "reads continue. `during_commit`: the write may or may not be there after the next open; else it is not", "free some space; writes then succeed without opening again";
    CommitUnknown: "a commit met an I/O error",
        "the write may or may not be there, whole or not at all; reads continue, writes fail", "open the store again, look whether it is there, and look at the disk";
    Poisoned: "a write after a failed commit or sync",
        "writes fail, reads continue", "open the store again";
    Damaged: "a write after damage was met",
        "writes fail, what is intact can be read", "restore a backup, or `cairn salvage`";
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
        "nothing was changed; the parent continues", "open after forking, in one process";
    CursorsOpen: "`close` while cursors are open",
        "everything is synced; the folder stays locked until they are dropped", "drop the cursors before";
    AlreadyOpen: "the folder is open in another client or process",
        "nothing was changed", "use that one, open with `read_only`, or reach the process by its socket";
    NotADatabase: "a folder that CairnDB did not make",
        "the folder is as it was", "check the path";
    NotFound: "there is no store at the path, and none was to be created",
        "nothing was made", "check the path";
    UnsupportedFormat: "the folder was written by another version",
        "the folder is as it was", "use the version that the message asks for";
    NotUpgraded: "the folder has an older format, and `upgrade(false)` was set",
        "the folder is as it was", "open it with `read_only`, or let it be upgraded";
    UnsupportedProcessor: "RocksDB was compiled for other processors",
        "nothing was opened", "build RocksDB with `cairndb-rocksdb --portable`";
    Storage: "the storage failed in a way that has no kind of its own",
        "not known beyond the message", "look at the disk, and open again";
}
