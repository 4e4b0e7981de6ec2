//! CairnDB: an embedded document store. BSON documents on RocksDB, with MongoDB's data model and the API of
//! its Rust driver.
//!
//! An application links it, opens a folder, and has collections with unique `_id`s, `ObjectId`s made by the
//! engine, and secondary indexes. It is not a server and not a cluster: one process has a folder open at a time.
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
//! Start at [`Client`]; every verb of [`Collection`] returns an action with one setter for each option, done by
//! `run()`. Errors are [`Error`], with MongoDB's codes.

#![deny(unsafe_code)]

mod audit;
mod auto_increment;
mod catalog;
mod client;
mod code_names;
mod codes;
mod collection;
mod command;
mod cursor;
mod database;
mod document;
mod error;
mod execute;
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

pub use sequence::attributes::Contract;
pub use sequence::auto_increment::{Generated, OnTruncate};
pub use sequence::error::SequenceError;

pub use crate::auto_increment::{
    AutoIncrement, AutoIncrementBuilder, SequenceOptions, SequenceOptionsBuilder,
};
pub use crate::client::{Client, ClientBuilder, DurabilityTicket, ObjectIdLayout};
pub use crate::collection::{AutoIncrementField, Collection};
pub use crate::command::{GENERIC_COMMAND_FIELDS, has_command};
pub use crate::cursor::Cursor;
pub use crate::database::Database;
pub use crate::error::{
    BulkWriteError, CommandError, Error, ErrorKind, IndexedWriteError, InsertManyError, Result, WriteError,
    WriteFailure,
};
pub use crate::generated::GeneratedValues;
pub use crate::namespace::{Namespace, SystemCollection};
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
    SequenceGap, SequenceSnapshot, SummaryBulkWriteResult, TruncateResult, UpdateResult,
    VerboseBulkWriteResult, VerifyReport,
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
