//! Errors of calls on a bucket of files: the kinds of MongoDB's driver, and those that only CairnDB has.
//!
//! The errors of a bucket are about its documents, which any client may have written. It is not corruption of the store.

use std::fmt;

use bson::Bson;

/// The reason of a failed call on a [`GridFsBucket`](struct.GridFsBucket.html).
///
/// ```
/// use cairndb::{Client, ErrorKind, GridFsErrorKind};
///
/// # fn main() -> cairndb::Result<()> {
/// let client = Client::in_memory()?;
/// let bucket = client.database("media").gridfs_bucket(None);
/// let error = bucket.delete(7.into()).run().expect_err("no such file exists");
/// assert!(matches!(error.kind(), ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridFsErrorKind {
    /// There is no file with this name or `_id`.
    #[error("no file has the {identifier}")]
    #[non_exhaustive]
    FileNotFound {
        /// The requested file.
        identifier: GridFsFileIdentifier,
    },
    /// There are files with this name, and fewer of them than the revision asks for.
    #[error("there is no revision {revision} of the file")]
    #[non_exhaustive]
    RevisionNotFound {
        /// The revision.
        revision: i32,
    },
    /// The document of a file says what no file can be. Its content cannot be read.
    #[error("the document of the file is not valid: {reason}")]
    #[non_exhaustive]
    InvalidFile {
        /// The field, its value and what is wrong with it.
        reason: String,
    },
    /// A chunk is missing. The chunks before it can be read.
    #[error("chunk {n} of the file is missing")]
    #[non_exhaustive]
    MissingChunk {
        /// Its number, from 0.
        n: u32,
    },
    /// A chunk is longer or shorter than the document of the file says.
    #[error("chunk {n} of the file has {actual_size} bytes and not {expected_size}")]
    #[non_exhaustive]
    WrongSizeChunk {
        /// The bytes that it has.
        actual_size: usize,
        /// The bytes that it must have.
        expected_size: u32,
        /// Its number, from 0.
        n: u32,
    },
    /// The fields of a chunk are not those of one.
    #[error("chunk {n} of the file is not valid: {reason}")]
    #[non_exhaustive]
    InvalidChunk {
        /// The number of the chunk that was expected, from 0.
        n: u32,
        /// The flaw.
        reason: String,
    },
    /// There are chunks after the one that ends the file.
    #[error("the file has chunk {extra} and must have no more than {expected_number} chunks")]
    #[non_exhaustive]
    ExtraChunk {
        /// The `n` of the first chunk that is too much.
        extra: i64,
        /// The number of chunks that the file must have.
        expected_number: u32,
    },
    /// The stream was closed or aborted, or a call on it has failed.
    #[error("the upload is closed")]
    UploadStreamClosed,
    /// An upload with this `_id` is running in this process, so there can be no second one, and nothing with this `_id` is
    /// removed.
    #[error("an upload with the _id {id} is running")]
    #[non_exhaustive]
    UploadRunning {
        /// The `_id`.
        id: Bson,
    },
}

/// Kinds as the engine makes them. Users cannot: fields may be added.
#[doc(hidden)]
impl GridFsErrorKind {
    pub fn file_not_found(identifier: GridFsFileIdentifier) -> Self {
        Self::FileNotFound { identifier }
    }

    pub fn revision_not_found(revision: i32) -> Self {
        Self::RevisionNotFound { revision }
    }

    pub fn invalid_file(reason: String) -> Self {
        Self::InvalidFile { reason }
    }

    pub fn missing_chunk(n: u32) -> Self {
        Self::MissingChunk { n }
    }

    pub fn wrong_size_chunk(actual_size: usize, expected_size: u32, n: u32) -> Self {
        Self::WrongSizeChunk { actual_size, expected_size, n }
    }

    pub fn invalid_chunk(n: u32, reason: String) -> Self {
        Self::InvalidChunk { n, reason }
    }

    pub fn extra_chunk(extra: i64, expected_number: u32) -> Self {
        Self::ExtraChunk { extra, expected_number }
    }

    pub fn upload_running(id: Bson) -> Self {
        Self::UploadRunning { id }
    }
}

/// A file as a call named it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridFsFileIdentifier {
    /// Its name, which several files may have.
    Filename(String),
    /// Its `_id`.
    Id(Bson),
}

impl fmt::Display for GridFsFileIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filename(name) => write!(f, "name {name:?}"),
            Self::Id(id) => write!(f, "_id {id}"),
        }
    }
}
