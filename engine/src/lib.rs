//! CairnDB: MongoDB's documents and API, inside your process, in one folder.
//!
//! BSON documents on RocksDB, with MongoDB's data model and the API of its Rust driver: collections with unique `_id`s,
//! `ObjectId`s made by the engine, fields that number themselves, indexes that are kept with every write, queries,
//! updates and aggregation that mean what they mean in MongoDB.
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
//! let book = books.find_one(doc! { "year": { "$lt": 1950 } }).run()?.expect("stored above");
//! assert_eq!(book.get("_id"), Some(&id));
//! client.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Start at [`Client`]. Every verb of a [`Collection`] takes what it needs as arguments and returns an action, which
//! has one setter for each option and is performed by `run()`.
//!
//! # Opening and closing
//!
//! [`Client::open`] makes the folder if it is missing and refuses one that holds anything else. One process has a folder
//! open at a time; a second one gets an error for which [`Error::is_already_open`] is true.
//! [`Client::builder`] has the options: memory budget, durability, compression, reading only.
//! [`Client::close`] waits for running operations and reports what went wrong; dropping the last handle does the
//! same and logs it. A process that is killed loses nothing that it acknowledged.
//!
//! # Durability
//!
//! A write returns once the operating system has it, and is synced in the background within a tenth of a second: the
//! death of the process loses nothing, a power failure at most that tenth. [`Durability`] changes the default for a
//! client, [`WriteConcern`] for one call:
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
//! # Threads
//!
//! [`Client`], [`Database`], [`Collection`] and [`Sequence`] are handles: cheap to clone, and used from any number of
//! threads. A call blocks its thread until it is done; an asynchronous program runs it where it may block, for example
//! by Tokio's `spawn_blocking`. A [`Cursor`] owns all it needs and shows the collection as it was when the cursor was
//! opened, whatever is written meanwhile.
//!
//! # Typed and raw documents
//!
//! `Collection<T>` takes and gives any serde type, [`bson::Document`] for documents without a schema, or
//! [`bson::RawDocumentBuf`] for bytes as they are, which is the fastest. [`Collection::clone_with_type`] changes the
//! type of a handle.
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
//! An index is made by [`Collection::create_index`] and kept with every write. A unique one refuses a second document
//! with the same values, whichever threads race for them.
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
//! A field of a collection can number itself: [`Database::create_collection`] with an [`AutoIncrement`]. The values come
//! from a [`Sequence`] that no crash makes repeat itself. [`Contract`] chooses between fast numbers, numbers in the order of commits, and
//! numbers without gaps.
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
//! let ink = orders.find_one(doc! { "item": "ink" }).run()?.expect("stored above");
//! assert_eq!(ink.get("number"), Some(&Bson::Int64(2)));
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Every fallible call gives an [`Error`]. What callers branch on has a predicate, [`Error::code`] is MongoDB's number,
//! and [`Error::kind`] is for `match`:
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
//!     other => panic!("not a refused write: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A refused call changes nothing. One that failed while it was committed says that its outcome is unknown
//! ([`Error::is_commit_unknown`]); the next open shows which it was.
//!
//! # Limits
//!
//! A document has at most 16 MiB and 180 levels, a collection at most 64 indexes. What MongoDB has and CairnDB has not
//! yet (transactions, change streams, stages that join collections) is refused by name, never ignored.
//!
//! # What it is not
//!
//! It is not a server, though `cairndb-server` and the tool `cairn` serve a folder to MongoDB's shells and drivers. It is
//! not a cluster: an application that outgrows one machine changes the line that opens the database and goes on with
//! MongoDB.

#![deny(unsafe_code)]

mod audit;
mod auto_increment;
mod catalog;
mod client;
mod codes;
mod collection;
mod command;
mod cursor;
mod database;
mod document;
mod error;
mod execute;
#[cfg(test)]
mod fixture;
mod generated;
mod namespace;
mod options;
mod plan;
mod results;
mod sequences;
mod shared;
mod storage;
mod write;

pub use bson;
pub use query::operation::{CancellationToken, Interruption};

pub use sequence::attributes::Contract;
pub use sequence::auto_increment::{Generated, OnTruncate};
pub use sequence::error::SequenceError;

pub use crate::auto_increment::{
    AutoIncrement, AutoIncrementBuilder, SequenceOptions, SequenceOptionsBuilder,
};
pub use crate::client::{Client, ClientBuilder, DurabilityTicket, ObjectIdLayout};
pub use crate::collection::{AutoIncrementField, Collection};
pub use crate::command::{
    GENERIC_COMMAND_FIELDS, UNSUPPORTED_COMMANDS, UNSUPPORTED_OPTIONS, UnsupportedCommands,
    UnsupportedOption, UnsupportedOptions, has_command,
};
pub use crate::cursor::Cursor;
pub use crate::database::Database;
pub use crate::error::{
    BulkWriteError, CommandError, Error, ErrorKind, IndexedWriteError, InsertManyError, Result, WriteError,
    WriteFailure,
};
pub use crate::generated::GeneratedValues;
pub use crate::namespace::{Namespace, SystemCollection};
#[doc(hidden)]
pub use crate::options::PlantedFault;
pub use crate::options::{
    Acknowledgment, AggregateOptions, BulkWriteOptions, Collation, Compression, CountOptions,
    DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder, DeleteOptions,
    DistinctOptions, Durability, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions,
    FindOptions, Hint, IndexModel, IndexModelBuilder, IndexOptions, IndexOptionsBuilder, InsertManyOptions,
    InsertOneModel, InsertOneModelBuilder, InsertOneOptions, ReplaceOneModel, ReplaceOneModelBuilder,
    ReplaceOptions, ReturnDocument, UpdateManyModel, UpdateManyModelBuilder, UpdateModifications,
    UpdateOneModel, UpdateOneModelBuilder, UpdateOptions, WriteConcern, WriteModel,
};
pub use crate::results::{
    AutoIncrementSpecification, BackupReport, CreateIndexResult, CreateIndexesResult, DatabaseSpecification,
    DeleteResult, FetchedValues, Finding, InsertManyResult, InsertOneResult, PartialBulkWriteResult,
    RecoveryReport, SequenceGap, SequenceSnapshot, SummaryBulkWriteResult, TornEnd, TruncateResult,
    UpdateResult, VerboseBulkWriteResult, VerifyReport,
};
pub use crate::sequences::Sequence;

/// The actions that verbs return; `run()` does them.
pub mod action {
    pub use sequence::attributes::Contract;
    pub use sequence::auto_increment::{Generated, OnTruncate};
    pub use sequence::error::SequenceError;

    pub use crate::auto_increment::{
        AutoIncrement, AutoIncrementBuilder, SequenceOptions, SequenceOptionsBuilder,
    };
    pub use crate::client::{ListDatabaseNames, ListDatabases};
    pub use crate::collection::{
        Aggregate, AlterAutoIncrement, BulkWrite, CountDocuments, CreateAutoIncrement, CreateIndex,
        CreateIndexes, Delete, Distinct, DropAutoIncrement, DropCollection, DropIndex,
        EstimatedDocumentCount, Find, FindOne, FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate,
        InsertMany, InsertOne, ListAutoIncrements, ListIndexNames, ListIndexes, RenameCollection, ReplaceOne,
        TruncateCollection, Update,
    };
    pub use crate::database::{
        CreateCollection, CreateSequence, DropDatabase, DropSequence, ListCollectionNames, ListSequences,
        RenameSequence, RunCommand, RunCursorCommand, SnapshotSequences,
    };
    pub use crate::sequences::{
        AlterSequence, CurrentValue, Fetch, ListGaps, NextValue, RestartSequence, SafeWatermark,
        SetCurrentValue, SnapshotSequence,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
