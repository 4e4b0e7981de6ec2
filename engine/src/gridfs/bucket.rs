//! The struct `GridFsBucket`: its two collections, and the indexes that they need.

use std::sync::Arc;

use base::error::Result;
use base::namespace::Namespace;
use bson::{Bson, Document, RawBson, RawDocumentBuf, doc};
use index::key::LongKeys;
use store::keys::CollectionId;

use crate::collection::Collection;
use crate::options::{GridFsBucketOptions, IndexModel, IndexOptions, WriteConcern};
use crate::orphans::{CHUNKS, FILES, FILES_ID, NUMBER, are_keys};
use crate::shared::{Caller, Shared};
use crate::uploads::{Claim, FileKey, Purpose};
use crate::write::prepare::record_key_of;

const NAME_DEFAULT: &str = "fs";
/// 255 KiB: with its other fields a chunk is a little smaller than 256 KiB.
const CHUNK_SIZE_DEFAULT: u32 = 255 * 1024;
/// The fields of the index of files, by which they are found by their names.
const FILES_KEYS: [&str; 2] = ["filename", "uploadDate"];
/// The fields of the index of chunks, by which they are found in their order.
const CHUNKS_KEYS: [&str; 2] = [FILES_ID, NUMBER];

/// A bucket of files: MongoDB's `GridFS`. A file can have any size, and is written and read as a stream.
///
/// A handle comes from [`Database::gridfs_bucket`](crate::Database::gridfs_bucket). It is cheap to clone and can be used from
/// many threads. The content of a file is cut into chunks, which are documents of the collection `fs.chunks`; a document of
/// `fs.files` describes it. Every driver of MongoDB reads and writes the same buckets over `cairn serve`.
///
/// An upload makes the two indexes of a bucket if there are no files yet. A file appears as a whole when its upload is closed.
/// [`FilesCollectionDocument`](crate::FilesCollectionDocument) is what is known of it.
///
/// ```
/// use std::io::{Read, Write};
/// use cairndb::{Client, bson::doc};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::open(folder.path().join("db"))?;
/// let bucket = client.database("media").gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
/// upload.write_all(b"some notes")?;
/// upload.close()?;
///
/// let mut notes = String::new();
/// bucket.open_download_stream_by_name("notes.txt").run()?.read_to_string(&mut notes)?;
/// assert_eq!(notes, "some notes");
/// bucket.delete_by_name("notes.txt").run()?;
/// assert!(bucket.find_one(doc! {}).run()?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct GridFsBucket {
    pub(super) parts: Arc<Parts>,
}

/// State shared by the clones of a bucket.
pub(super) struct Parts {
    pub(super) shared: Arc<Shared>,
    pub(super) options: GridFsBucketOptions,
    pub(super) files: Collection<Document>,
    pub(super) chunks: Collection<RawDocumentBuf>,
    /// The chunks for an upload that is given up, also for one whose caller was cancelled.
    pub(super) abandoned: Collection<RawDocumentBuf>,
}

impl GridFsBucket {
    pub(crate) fn new(shared: Arc<Shared>, caller: &Caller, db: &str, options: GridFsBucketOptions) -> Self {
        let name = options.bucket_name.as_deref().unwrap_or(NAME_DEFAULT);
        let (files, chunks) = (format!("{name}{FILES}"), format!("{name}{CHUNKS}"));
        // Names are not checked: as with collections, the first verb reports a bad one.
        // `_id`s are unique by their bytes. By the collation of a collection another file could be found, and deleted.
        let parts = Parts {
            files: Collection::new(Arc::clone(&shared), caller.clone(), db, &files).by_bytes(),
            chunks: Collection::new(Arc::clone(&shared), caller.clone(), db, &chunks).by_bytes(),
            abandoned: Collection::new(Arc::clone(&shared), Caller::default(), db, &chunks).by_bytes(),
            shared,
            options,
        };
        Self { parts: Arc::new(parts) }
    }

    /// Returns when the writes of the bucket are acknowledged. `None` means as the client was opened.
    ///
    /// ```
    /// # use cairndb::{Client, GridFsBucketOptions, WriteConcern};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let options = GridFsBucketOptions::builder().write_concern(WriteConcern::journaled()).build();
    /// let bucket = client.database("media").gridfs_bucket(options);
    /// assert_eq!(bucket.write_concern(), Some(&WriteConcern::journaled()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.parts.options.write_concern.as_ref()
    }

    pub(super) fn chunk_size_bytes(&self) -> u32 {
        self.parts.options.chunk_size_bytes.unwrap_or(CHUNK_SIZE_DEFAULT)
    }

    /// Makes the indexes if there are no files yet, as every driver does before it writes.
    ///
    /// A bucket with files is left as it is: to build an index over what may be terabytes is for its owner to decide.
    pub(super) fn ensure_indexes(&self) -> Result<()> {
        if self.parts.files.find_one(doc! {}).projection(doc! { "_id": 1 }).run()?.is_some() {
            return Ok(());
        }
        // Each is asked for first, because one of another client may have other options, and making it again is rejected.
        ensure_index(&self.parts.files, FILES_KEYS, IndexOptions::default())?;
        ensure_index(&self.parts.chunks, CHUNKS_KEYS, IndexOptions::builder().unique(true).build())
    }

    /// The key of a file among those that are uploaded and removed now.
    pub(super) fn key_of(&self, id: &Bson) -> Result<FileKey> {
        // As the store compares values of `_id`: 1 and 1.0 are the same file.
        let raw = RawBson::try_from(id.clone())?;
        Ok(FileKey { chunks: self.chunks_namespace(), id: comparable(&raw) })
    }

    pub(super) fn claim(&self, id: &Bson, purpose: Purpose) -> Result<Claim> {
        self.parts.shared.uploads.claim(self.key_of(id)?, id, purpose)
    }

    pub(super) fn chunks_namespace(&self) -> Namespace {
        self.parts.chunks.namespace()
    }

    /// Removes chunks, and returns how many they were.
    pub(super) fn delete_chunks(&self, filter: Document) -> Result<u64> {
        let mut delete = self.parts.chunks.delete_many(filter);
        if let Some(concern) = self.write_concern() {
            delete = delete.write_concern(concern.clone());
        }
        Ok(delete.run()?.deleted_count)
    }

    /// Whether there are chunks of the file with this `_id`.
    pub(super) fn has_chunks(&self, id: &Bson) -> Result<bool> {
        Ok(self.parts.chunks.find_one(chunks_of(id)).projection(doc! { "_id": 1 }).run()?.is_some())
    }

    /// Whether there is a file with this `_id`.
    pub(super) fn has_file(&self, id: &Bson) -> Result<bool> {
        // Without its fields, which may be many: whether it is there is all that is asked.
        Ok(self.parts.files.find_one(by_id(id)).projection(doc! { "_id": 1 }).run()?.is_some())
    }
}

impl std::fmt::Debug for GridFsBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GridFsBucket").field("chunks", &self.chunks_namespace()).finish_non_exhaustive()
    }
}

/// The filter of a file. With `$eq`, so that an `_id` with an operator in it, or a pattern, is a value and nothing else.
pub(super) fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id.clone() } }
}

/// The filter of the chunks of a file.
pub(super) fn chunks_of(id: &Bson) -> Document {
    doc! { "files_id": { "$eq": id.clone() } }
}

/// An `_id` as bytes. Equal values, as 1 and 1.0 are, have equal bytes.
pub(super) fn comparable(id: &RawBson) -> Vec<u8> {
    // Of no collection: only the part after its id is of interest, and that is the same in all.
    record_key_of(CollectionId(0), LongKeys::Whole, id.as_raw_bson_ref())
}

fn ensure_index<T>(collection: &Collection<T>, fields: [&str; 2], options: IndexOptions) -> Result<()> {
    // The list of a collection that does not exist is empty. Indexes of other clients may have other names and options.
    for index in collection.list_indexes().run()? {
        if are_keys(&index?.keys, fields) {
            return Ok(());
        }
    }
    let keys: Document = fields.into_iter().map(|field| (field.to_owned(), Bson::Int32(1))).collect();
    collection.create_index(IndexModel::builder().keys(keys).options(options).build()).run()?;
    Ok(())
}
