//! The options of the client and of its verbs.
//!
//! The names are those of MongoDB's Rust driver. Options of the driver that only concern a network or a cluster are missing.
//! A value that is not supported is rejected when the call runs.

pub(crate) mod argument;
pub(crate) mod bulk;
mod collation;
pub(crate) mod declare;
pub(crate) mod gridfs;
mod images;
mod indexes;
pub(crate) mod reads;
mod validation;
pub(crate) mod writes;

pub use self::bulk::{
    BulkWriteOptions, DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder,
    InsertOneModel, InsertOneModelBuilder, ReplaceOneModel, ReplaceOneModelBuilder, UpdateManyModel,
    UpdateManyModelBuilder, UpdateOneModel, UpdateOneModelBuilder, WriteModel,
};
pub use self::collation::{
    Collation, CollationAlternate, CollationCaseFirst, CollationMaxVariable, CollationStrength,
};
pub use self::gridfs::{
    GridFsBucketOptions, GridFsBucketOptionsBuilder, GridFsDownloadByNameOptions, GridFsFindOneOptions,
    GridFsFindOptions, GridFsUploadOptions,
};
pub use self::images::{ChangeLogging, ChangeStreamPreAndPostImages};
pub use self::indexes::{
    ClusteredIndex, Hint, IndexModel, IndexModelBuilder, IndexOptions, IndexOptionsBuilder,
};
pub use self::reads::{AggregateOptions, CountOptions, CursorType, DistinctOptions, FindOptions};
pub use self::validation::{ValidationAction, ValidationLevel};
pub use self::writes::{
    DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions,
    InsertManyOptions, InsertOneOptions, ReplaceOptions, ReturnDocument, UpdateModifications, UpdateOptions,
};
pub(crate) use store::options::{Compression, Durability, PlantedFault, WriteConcern};
