//! The verbs of a collection: `handle` is the struct `Collection`, and each verb or family of verbs has a file.
//!
//! A verb gets its required arguments and returns an action. Every option is a setter of the action, and `run` executes
//! it. A verb holds no storage logic: it resolves the collection, calls the layers below and shapes the result.

#[macro_use]
mod setters;

mod aggregate;
pub(crate) mod answers;
mod auto_increment;
pub(crate) mod bulk_write;
pub(crate) mod by_database;
mod capped;
mod change;
mod compact;
mod count;
pub(crate) mod definition;
mod delete;
mod distinct;
mod drop;
pub(crate) mod exactly_once;
mod explain;
mod find;
mod find_and_modify;
mod handle;
pub(crate) mod indexes;
mod insert_many;
mod insert_one;
mod inspect;
mod live;
mod look_up;
mod merge;
pub(crate) mod modify;
pub(crate) mod modify_index;
pub(crate) mod one_sync;
mod others;
mod out;
mod rename;
mod replace;
mod scope;
mod size;
mod sources;
mod stats;
mod truncate;
mod update;
mod view_reads;
mod watch;
mod within;
mod write_results;

pub use self::aggregate::{Aggregate, SessionAggregate};
pub(crate) use self::aggregate::{ExplainedPipeline, PipelineWork};
pub use self::auto_increment::{
    AlterAutoIncrement, AutoIncrementField, CreateAutoIncrement, DropAutoIncrement, ListAutoIncrements,
};
pub use self::bulk_write::BulkWrite;
pub use self::capped::{CloneAsCapped, ConvertToCapped};
pub use self::count::{CountDocuments, EstimatedDocumentCount};
pub use self::delete::Delete;
pub use self::distinct::Distinct;
pub use self::drop::DropCollection;
pub use self::find::{Find, FindOne, SessionFind};
pub use self::find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};
pub use self::handle::Collection;
pub use self::indexes::{CreateIndex, CreateIndexes, DropIndex, ListIndexNames, ListIndexes};
pub use self::insert_many::InsertMany;
pub use self::insert_one::InsertOne;
pub use self::inspect::{DocumentInspection, EntryInspection, EntryState, IndexInspection, InspectDocument};
pub(crate) use self::modify::Modified;
pub use self::modify_index::ModifyIndex;
pub use self::rename::RenameCollection;
pub use self::replace::ReplaceOne;
pub(crate) use self::size::Size;
pub use self::stats::{CollectionStats, IndexSize, Stats};
pub use self::truncate::TruncateCollection;
pub use self::update::Update;
pub(crate) use self::view_reads::AsPipeline;
