//! An embedded document database in Rust: MongoDB's data model and API inside your process, in one folder. BSON
//! documents on RocksDB, with indexes, aggregation, multi-document transactions, and auto-increment fields as in
//! SequoiaDB.
//!
//! ```
//! use cairndb::{Client, bson::{Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("library");
//! let client = Client::open(&path)?;
//! let books = client.database("library").collection::<Document>("books");
//! let id = books.insert_one(doc! { "title": "Kim", "year": 1901 }).run()?.inserted_id;
//!
//! let book = books.find_one(doc! { "year": { "$lt": 1950 } }).run()?.expect("inserted above");
//! assert_eq!(book.get("_id"), Some(&id));
//! client.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! - **Durable.** An acknowledged write survives the death of the process, a journaled one a power failure. Opening
//!   detects damaged and missing files.
//! - **Correct under concurrency.** Unique indexes hold in every race; transactions are snapshot-isolated or
//!   serializable; a write with a token happens exactly once.
//! - **Numbered.** Sequences are fast, ordered or gapless, and never issue a value twice.
//! - **Familiar.** Queries, updates and pipelines mean what MongoDB documents. MongoDB's shells and drivers work with a
//!   folder through `cairn serve`, and `cairn migrate` moves it to a cluster and back.
//! - **Tested in the open.** Each [promise](https://github.com/cairndb/cairndb/blob/main/docs/promises.md) names the
//!   test, fuzz target or benchmark that shows it.
//!
//! Operations a second, documents of 200 bytes, two cores, no wait for a sync
//! ([all figures](https://github.com/cairndb/cairndb/blob/main/docs/benchmarks.md)):
//!
#![doc = include_str!("../linked/performance.svg")]
//!
//! | to … | start at |
//! |---|---|
//! | open a folder, set options | [`Client::open`], [`Client::builder`] |
//! | insert | [`insert_one`](Collection::insert_one), [`insert_many`](Collection::insert_many), [`bulk_write`](Client::bulk_write) |
//! | read | [`find`](Collection::find), [`find_one`](Collection::find_one), [`aggregate`](Collection::aggregate), [`count_documents`](Collection::count_documents), [`distinct`](Collection::distinct) |
//! | change | [`update_one`](Collection::update_one), [`replace_one`](Collection::replace_one), [`find_one_and_update`](Collection::find_one_and_update) |
//! | remove | [`delete_one`](Collection::delete_one), [`delete_many`](Collection::delete_many), [`truncate`](Collection::truncate), [`drop`](Collection::drop) |
//! | index | [`create_index`](Collection::create_index) |
//! | learn what was changed | [`watch`](Collection::watch) |
//! | store files of any size | [`gridfs_bucket`](Database::gridfs_bucket) |
//! | number documents | [`create_auto_increment`](Collection::create_auto_increment), [`create_sequence`](Database::create_sequence) |
//! | run a command of MongoDB | [`run_command`](Database::run_command) |
//! | copy, check | [`backup`](Client::backup), [`independent_backup`](Client::independent_backup), [`verify`](Client::verify); [`salvage()`] of a damaged folder |
//! | make smaller after deletes | [`compact`](Client::compact) |
//! | find out why a number is missing, or what is stored of a document | [`trace`](AutoIncrementField::trace), [`inspect_document`](Collection::inspect_document) |
//!
//! **Where to go:** the [guide] goes through it page by page, from the [first half hour](guide::first_half_hour) over
//! [opening](guide::opening), [documents](guide::documents), [queries](guide::queries), [indexes](guide::indexes),
//! [transactions](guide::transactions), [exactly once](guide::exactly_once), [change streams](guide::change_streams),
//! [live queries](guide::live_queries), [capped collections](guide::capped), [numbering](guide::numbering),
//! [durability](guide::durability) and [threads](guide::threads) to [production](guide::production) and [data in and out](guide::data). The
//! [recipes](guide::recipes) are programs to copy from; [coming from](guide::coming_from) MongoDB, `SQLite` or `PoloDB` says
//! what is called what, and the [comparison](guide::comparison) which store does what better. [Errors](guide::errors),
//! [limits](guide::limits) and [questions](guide::questions) are for looking up.
//!
//! Every verb gets its required arguments and returns an action. An action has one method for each option, and `run()`
//! executes it.
//!
//! # Opening and closing
//!
//! [`Client::open`] opens the database in a folder. A missing or empty folder becomes a new database; a folder with other
//! files is refused and left as it is. A folder is open in one process at a time: for a second one
//! [`Error::is_already_open`] is true. Another process can read meanwhile, with [`read_only`](ClientBuilder::read_only).
//!
//! [`Client::builder`] has the options: memory budget, durability, compression, reading only. [`Client::close`] waits for
//! running calls, syncs and reports errors. Dropping the last handle closes the folder too, but can only log errors.
//!
//! ```
//! use cairndb::Client;
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("db");
//! let client = Client::builder().memory_budget(64 << 20).open(&path)?;
//! assert!(Client::open(&path).is_err_and(|error| error.is_already_open()));
//! client.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Durability
//!
//! By default a write returns when the operating system has it, and is synced in the background within a tenth of a
//! second. So the death of the process loses nothing, and a power failure loses at most the last tenth of a second.
//! [`Durability`] changes the default of a client, and [`WriteConcern`] that of one call:
//!
//! ```
//! use cairndb::{Client, WriteConcern, bson::{Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("bank");
//! let client = Client::open(&path)?;
//! let payments = client.database("bank").collection::<Document>("payments");
//! // Returns after the sync.
//! payments.insert_one(doc! { "amount": 12 }).write_concern(WriteConcern::journaled()).run()?;
//! // Many fast writes, and one wait for all of them.
//! for amount in 0..100 {
//!     payments.insert_one(doc! { "amount": amount }).run()?;
//! }
//! client.durability_ticket()?.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Threads and cloning
//!
//! [`Client`], [`Database`], [`Collection`] and [`Sequence`] are handles. They are cheap to clone, and any number of threads
//! can use them at the same time. A call blocks its thread until it is done. In an asynchronous program run it where
//! blocking is allowed, for example with Tokio's `spawn_blocking`.
//!
//! A [`Cursor`] owns all that it needs, and can be sent to another thread. It shows the collection as it was when the cursor
//! was opened, whatever is written later.
//!
//! ```
//! use cairndb::{Client, bson::{Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let pages = client.database("site").collection::<Document>("pages");
//! let threads = [(); 4].map(|()| {
//!     let pages = pages.clone();
//!     std::thread::spawn(move || {
//!         pages.update_one(doc! { "_id": "home" }, doc! { "$inc": { "visits": 1 } }).upsert(true).run()
//!     })
//! });
//! for thread in threads {
//!     thread.join().expect("no panic")?;
//! }
//! assert_eq!(pages.find_one(doc! {}).run()?, Some(doc! { "_id": "home", "visits": 4 }));
//! # Ok(())
//! # }
//! ```
//!
//! # Typed and raw documents
//!
//! `T` in `Collection<T>` is the type of the documents: any serde type, [`bson::Document`] for documents without a schema,
//! or [`bson::RawDocumentBuf`] for raw bytes, which is the fastest. [`Collection::clone_with_type`] changes the type of a
//! handle.
//!
//! ```
//! use cairndb::{Client, bson::doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct City {
//!     #[serde(rename = "_id")]
//!     name: String,
//!     people: i64,
//! }
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let cities = client.database("world").collection::<City>("cities");
//! cities.insert_one(City { name: "Lima".to_owned(), people: 10_000_000 }).run()?;
//! let lima = cities.find_one(doc! { "_id": "Lima" }).run()?;
//! assert_eq!(lima.map(|city| city.people), Some(10_000_000));
//! # Ok(())
//! # }
//! ```
//!
//! # Indexes
//!
//! [`Collection::create_index`] creates an index. From then on every write keeps it up to date, and searches, sorts and the
//! start of a pipeline use it. A unique index refuses a second document with the same values.
//!
//! ```
//! use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let users = client.database("app").collection::<Document>("users");
//! let unique = IndexOptions::builder().unique(true).build();
//! users.create_index(IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build()).run()?;
//! users.insert_one(doc! { "email": "ada@example.org" }).run()?;
//! let again = users.insert_one(doc! { "email": "ada@example.org" }).run();
//! assert!(again.is_err_and(|error| error.is_duplicate_key()));
//! # Ok(())
//! # }
//! ```
//!
//! # Sequences
//!
//! An auto-increment field is numbered by the engine: [`Database::create_collection`] with an [`AutoIncrement`] creates one.
//! Its values come from a [`Sequence`]. The [`Contract`] says what they promise:
//!
//! | contract | promise | cost |
//! |---|---|---|
//! | [`Fast`](Contract::Fast) | each value once, also after a crash | one atomic operation |
//! | [`Ordered`](Contract::Ordered) | and: who sees number n has seen every smaller one, or will never see it | writers take turns |
//! | [`Gapless`](Contract::Gapless) | and: no number is missing among the documents that survive | writers take turns, and each writes its number |
//!
//! ```
//! use cairndb::{AutoIncrement, Client, bson::{Bson, Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let shop = client.database("shop");
//! let number = AutoIncrement::builder().field("number").build();
//! shop.create_collection("orders").auto_increment(number).run()?;
//! let orders = shop.collection::<Document>("orders");
//! orders.insert_one(doc! { "item": "pen" }).run()?;
//! orders.insert_one(doc! { "item": "ink" }).run()?;
//! let ink = orders.find_one(doc! { "item": "ink" }).run()?.expect("inserted above");
//! assert_eq!(ink.get("number"), Some(&Bson::Int64(2)));
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! What is larger than a document, or is read and written as a stream, goes into a [`GridFsBucket`]. It is MongoDB's `GridFS`:
//! files are cut into chunks, and every driver reads them over `cairn serve`. The streams are [`std::io::Write`],
//! [`Read`](std::io::Read) and [`Seek`](std::io::Seek).
//!
//! ```
//! use std::io::{Read, Seek, SeekFrom, Write};
//! use cairndb::Client;
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let bucket = client.database("media").gridfs_bucket(None);
//! let mut upload = bucket.open_upload_stream("song.flac").run()?;
//! upload.write_all(b"la la la")?;
//! // Without this the upload is aborted: there is no half file.
//! upload.close()?;
//!
//! let mut download = bucket.open_download_stream_by_name("song.flac").run()?;
//! download.seek(SeekFrom::End(-2))?;
//! let mut end = String::new();
//! download.read_to_string(&mut end)?;
//! assert_eq!(end, "la");
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Every call that can fail returns an [`Error`]. Predicates such as [`Error::is_duplicate_key`] answer what programs ask
//! most, [`Error::code`] is MongoDB's number, and [`Error::kind`] is for `match`:
//!
//! ```
//! use cairndb::{Client, ErrorKind, WriteFailure, bson::{Document, doc}};
//!
//! # fn main() -> cairndb::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let client = Client::open(folder.path().join("db"))?;
//! let users = client.database("app").collection::<Document>("users");
//! users.insert_one(doc! { "_id": 7 }).run()?;
//! let error = users.insert_one(doc! { "_id": 7 }).run().expect_err("7 is taken");
//! match error.kind() {
//!     ErrorKind::Write(WriteFailure::WriteError(refused)) => assert_eq!(refused.code, 11000),
//!     ErrorKind::NoSpace { .. } => println!("writes succeed again when the disk has space"),
//!     ErrorKind::Damaged { .. } => println!("reads go on, writes are refused"),
//!     other => panic!("not expected: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A call that is refused changes nothing. If a commit fails, its outcome is unknown until the database is opened again:
//! then [`Error::is_commit_unknown`] is true.
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | a document | 16 MiB, 180 levels |
//! | indexes of a collection | 64 |
//! | memory of a sort or a pipeline stage | 100 MiB; sorts, groups and joins go on in temporary files |
//! | processes that write to a folder | 1 |
//! | a transaction | 60 seconds, 64 MiB of what it writes |
//!
//! Indexes on text and geometry are not supported: a call that asks for one is an error.
//!
//! # What it is not
//!
//! It is not a server, but the crate `cairndb-server` and the tool `cairn` serve a folder to MongoDB's shells and drivers. It
//! is not a cluster: nothing is replicated. A program that outgrows one machine changes the line that opens the database,
//! and goes on with MongoDB.

#![deny(unsafe_code)]

mod arguments;
mod audit;
mod auto_increment;
mod catalog;
mod changes;
mod client;
mod collection;
mod command;
mod compaction;
mod cursor;
mod database;
mod document;
mod execute;
mod expiry;
#[cfg(test)]
mod fixture;
mod gridfs;
#[cfg(any(doc, doctest))]
pub mod guide;
mod live;
mod metrics;
mod one_line;
mod options;
mod orphans;
mod outcomes;
mod periodic;
mod plan;
mod progress;
mod repeated;
mod results;
mod salvage;
mod scrub;
mod sequences;
mod session;
mod shared;
#[cfg(test)]
mod stored_example;
mod streams;
mod tail;
mod tickets;
mod transaction;
mod uploads;
mod write;

pub use bson;
pub use query::operation::{CancellationToken, Interruption, WakeOnCancel};

pub use sequence::attributes::Contract;
pub use sequence::auto_increment::{Generated, OnTruncate};
pub use sequence::error::SequenceError;

#[doc(inline)]
pub use base::error::{
    CommandError, Error, ErrorKind, NON_RESUMABLE_CHANGE_STREAM_ERROR, Result, TRANSIENT_TRANSACTION_ERROR,
    UNKNOWN_TRANSACTION_COMMIT_RESULT,
};
#[doc(inline)]
pub use base::error_meaning::{CodeMeaning, ErrorMeaning};
#[doc(inline)]
pub use base::generated::GeneratedValues;
#[doc(inline)]
pub use base::gridfs_error::{GridFsErrorKind, GridFsFileIdentifier};
#[doc(inline)]
pub use base::insert_error::{IndexedWriteError, InsertManyError};
#[doc(inline)]
pub use base::metrics::report::{
    Bucket, ChangeLogMetrics, CursorMetrics, DocumentMetrics, Metrics, OperationMetrics, QuotaMetrics,
    ScrubMetrics, SearchMetrics, SequenceMetrics, StorageMetrics, StoreState, Times, TokenMetrics,
    WaitMetrics,
};
#[doc(inline)]
pub use base::namespace::{Namespace, SystemCollection};
#[doc(inline)]
pub use base::once_error::ExactlyOnceError;
pub use base::results::{
    DeleteResult, InsertManyResult, InsertOneResult, PartialBulkWriteResult, SummaryBulkWriteResult,
    UpdateResult, VerboseBulkWriteResult,
};
pub use base::write_error::{BulkWriteError, WriteError, WriteFailure};
#[doc(inline)]
pub use store::folder_files::{FileKind, FilesOfKind};
#[doc(inline)]
pub use store::format::{FORMAT_VERSION, ROCKSDB_VERSION};
#[doc(hidden)]
#[cfg(any(test, feature = "planted-faults"))]
pub use store::options::PlantedFault;
#[doc(inline)]
pub use store::options::{Acknowledgment, Compression, Durability, WriteConcern};
#[doc(inline)]
pub use store::recovery::{RecoveryReport, TornEnd};

pub use crate::arguments::GENERIC_COMMAND_FIELDS;
pub use crate::arguments::unsupported::{
    UNSUPPORTED_COMMANDS, UNSUPPORTED_OPTIONS, UnsupportedCommands, UnsupportedOption, UnsupportedOptions,
};
pub use crate::auto_increment::{
    AutoIncrement, AutoIncrementBuilder, SequenceOptions, SequenceOptionsBuilder,
};
pub use crate::client::{Client, ClientBuilder, IndependentBackupReport, ObjectIdLayout, Versions};
pub use crate::collection::{
    AutoIncrementField, Collection, CollectionStats, DocumentInspection, EntryInspection, EntryState,
    IndexInspection, IndexSize,
};
pub use crate::command::{CommandRules, command_names, command_rules};
pub use crate::compaction::{CompactionProgress, CompactionReport};
pub use crate::cursor::{Cursor, WaitingCursor};
pub use crate::database::Database;
pub use crate::gridfs::{
    FilesCollectionDocument, GridFsBucket, GridFsDownloadStream, GridFsUploadStream, OrphanedUpload,
    OrphanedUploads, RemoveOrphansResult,
};
pub use crate::live::{LiveChange, LiveQuery};
#[cfg(feature = "opentelemetry")]
pub use crate::metrics::spans::OpentelemetryOptions;
pub use crate::options::{
    AggregateOptions, BulkWriteOptions, ChangeLogging, ChangeStreamPreAndPostImages, ClusteredIndex,
    Collation, CollationAlternate, CollationCaseFirst, CollationMaxVariable, CollationStrength, CountOptions,
    CursorType, DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder,
    DeleteOptions, DistinctOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
    FindOneAndUpdateOptions, FindOptions, GridFsBucketOptions, GridFsBucketOptionsBuilder,
    GridFsDownloadByNameOptions, GridFsFindOneOptions, GridFsFindOptions, GridFsUploadOptions, Hint,
    IndexModel, IndexModelBuilder, IndexOptions, IndexOptionsBuilder, InsertManyOptions, InsertOneModel,
    InsertOneModelBuilder, InsertOneOptions, ReplaceOneModel, ReplaceOneModelBuilder, ReplaceOptions,
    ReturnDocument, UpdateManyModel, UpdateManyModelBuilder, UpdateModifications, UpdateOneModel,
    UpdateOneModelBuilder, UpdateOptions, ValidationAction, ValidationLevel, WriteModel,
};
pub use crate::orphans::OrphanedChunks;
#[doc(hidden)]
pub use crate::outcomes::retryable::{NewestWrite, RetryableWrite};
pub use crate::outcomes::token::Token;
pub use crate::progress::{
    BackupPhase, BackupProgress, IndexBuildPhase, IndexBuildProgress, ScrubStatus, VerifyPhase,
    VerifyProgress,
};
pub use crate::results::{
    AutoIncrementSpecification, BackupReport, CreateIndexResult, CreateIndexesResult, DatabaseSpecification,
    FetchedValues, Finding, FolderStats, SequenceGap, SequenceSnapshot, TruncateResult, VerifyReport,
};
pub use crate::salvage::{
    LostIndex, LostWrites, Refusal, SalvageReport, SalvagedCollection, UnreadableBytes, salvage,
};
pub use crate::sequences::{Sequence, ValueTrace, ValueVerdict};
pub use crate::session::{ClientSession, ReadConcern, SessionCursor, SessionCursorIter, TransactionOptions};
pub use crate::streams::{
    ChangeNamespace, ChangeStream, ChangeStreamEvent, FullDocumentBeforeChangeType, FullDocumentType,
    OperationType, ResumeToken, StreamWaker, TruncatedArray, UpdateDescription,
};
pub use crate::tickets::DurabilityTicket;

/// The actions that verbs return. Their `run()` executes them.
pub mod action {
    /// The actions of a [`GridFsBucket`](crate::GridFsBucket).
    pub mod gridfs {
        pub use crate::gridfs::{
            Delete, DeleteByName, Drop, Find, FindOne, FindOrphans, OpenDownloadStream,
            OpenDownloadStreamByName, OpenUploadStream, RemoveOrphans, Rename, RenameByName,
        };
    }

    pub use sequence::attributes::Contract;
    pub use sequence::auto_increment::{Generated, OnTruncate};
    pub use sequence::error::SequenceError;

    pub use crate::auto_increment::{
        AutoIncrement, AutoIncrementBuilder, SequenceOptions, SequenceOptionsBuilder,
    };
    pub use crate::client::{
        ExpireDocuments, IndependentBackup, ListDatabaseNames, ListDatabases, Verification,
    };
    pub use crate::collection::{
        Aggregate, AlterAutoIncrement, BulkWrite, CloneAsCapped, ConvertToCapped, CountDocuments,
        CreateAutoIncrement, CreateIndex, CreateIndexes, Delete, Distinct, DropAutoIncrement, DropCollection,
        DropIndex, EstimatedDocumentCount, Find, FindOne, FindOneAndDelete, FindOneAndReplace,
        FindOneAndUpdate, InsertMany, InsertOne, InspectDocument, ListAutoIncrements, ListIndexNames,
        ListIndexes, ModifyIndex, RenameCollection, ReplaceOne, SessionAggregate, SessionFind, Stats,
        TruncateCollection, Update,
    };
    pub use crate::compaction::Compaction;
    pub use crate::database::{
        CreateCollection, CreateSequence, DropDatabase, DropSequence, ListCollectionNames, ListSequences,
        ModifyCollection, RenameSequence, RunCommand, RunCursorCommand, RunSessionCursorCommand,
        SnapshotSequences,
    };
    pub use crate::salvage::Salvage;
    pub use crate::sequences::{
        AlterSequence, CurrentValue, Fetch, ListGaps, NextValue, RestartSequence, SafeWatermark,
        SetCurrentValue, SnapshotSequence, TraceValue,
    };
    pub use crate::session::{
        AbortTransaction, CommitTransaction, StartSession, StartTransaction, StartTransactionOnce,
    };
    pub use crate::streams::Watch;
}

// Runs the examples of the package's README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Examples of what is re-exported from the crates below use this crate, which those do not depend on. Their files are modules
// here once more where documentation is tested, so that the examples run. Links in the folder `linked` lead to them: a package
// has the files themselves there.
#[cfg(doctest)]
#[path = "../linked/base/error.rs"]
mod error;
#[cfg(doctest)]
#[path = "../linked/base/error_meaning.rs"]
mod error_meaning;
#[cfg(doctest)]
#[path = "../linked/base/generated.rs"]
mod generated;
#[cfg(doctest)]
#[path = "../linked/base/gridfs_error.rs"]
mod gridfs_error;
#[cfg(doctest)]
#[path = "../linked/base/insert_error.rs"]
mod insert_error;
#[cfg(doctest)]
#[path = "../linked/base/metrics/report.rs"]
mod metrics_report;
#[cfg(doctest)]
#[path = "../linked/base/names.rs"]
mod names;
#[cfg(doctest)]
#[path = "../linked/base/namespace.rs"]
mod namespace;
#[cfg(doctest)]
#[path = "../linked/base/once_error.rs"]
mod once_error;
#[cfg(doctest)]
#[path = "../linked/store/format.rs"]
mod store_format;
#[cfg(doctest)]
#[path = "../linked/store/options.rs"]
mod store_options;
#[cfg(doctest)]
#[path = "../linked/store/recovery.rs"]
mod store_recovery;
#[cfg(doctest)]
#[path = "../linked/base/write_error.rs"]
mod write_error;
#[cfg(doctest)]
#[path = "../linked/base/results.rs"]
mod write_results;
