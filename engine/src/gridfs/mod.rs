//! Buckets of files: MongoDB's `GridFS` over the verbs of two collections, one of documents and one of chunks.
//!
//! `bucket` is the struct `GridFsBucket`, `file` and `chunk` are the forms of the two kinds of documents, and each verb or
//! family of verbs has a file. A bucket stores nothing by other ways than the verbs of `Collection`, so every driver reads what it
//! writes. The invariant: the document of a file is written after all its chunks, and removed before them.

mod bucket;
mod chunk;
mod delete;
mod download;
mod file;
mod find;
mod orphans;
mod rename;
mod upload;

pub use self::bucket::GridFsBucket;
pub use self::delete::{Delete, DeleteByName, Drop};
pub use self::download::{GridFsDownloadStream, OpenDownloadStream, OpenDownloadStreamByName};
pub use self::file::FilesCollectionDocument;
pub use self::find::{Find, FindOne};
pub use self::orphans::{FindOrphans, OrphanedUpload, OrphanedUploads, RemoveOrphans, RemoveOrphansResult};
pub use self::rename::{Rename, RenameByName};
pub use self::upload::{GridFsUploadStream, OpenUploadStream};
