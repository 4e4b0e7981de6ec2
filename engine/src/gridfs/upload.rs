//! Uploads: `open_upload_stream`, and the stream that writes chunks.
//!
//! The stream holds a batch of chunks, so that each commit has many of them, and never more than that. The document of the file
//! comes last. An upload that ends otherwise removes what it wrote, and nothing else: a file that already has its `_id` stays.

use std::io;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};

use base::error::{Error, Result};
use base::gridfs_error::GridFsErrorKind;
use store::fork;

use crate::document::draft::Drafts;
use crate::document::validate::validate_insert;
use crate::gridfs::bucket::GridFsBucket;
use crate::gridfs::chunk::OpenChunk;
use crate::gridfs::file::FilesCollectionDocument;
use crate::one_line::OneLine;
use crate::options::GridFsUploadOptions;
use crate::uploads::{Claim, Purpose};

/// The number of bytes of chunks that are stored in one commit: many chunks, and little memory for each of many
/// streams.
const BATCH_BYTES: usize = 4 << 20;
/// The largest document.
const DOCUMENT_BYTES_MAX: u64 = index::validate::DOCUMENT_BYTES_MAX as u64;

impl GridFsBucket {
    /// Opens a stream that writes a new file. Several files can have the same name; the newest of them is what is read by the
    /// name.
    ///
    /// The file is there when [`close`](GridFsUploadStream::close) has returned. Dropping the stream without it removes what was
    /// written.
    ///
    /// ```
    /// use std::io::Write;
    /// use cairndb::{Client, bson::doc};
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("notes.txt").metadata(doc! { "author": "Ada" }).run()?;
    /// upload.write_all(b"some notes")?;
    /// upload.close()?;
    /// assert_eq!(bucket.find(doc! { "metadata.author": "Ada" }).run()?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_upload_stream(&self, filename: impl AsRef<str>) -> OpenUploadStream<'_> {
        let (filename, options) = (filename.as_ref().to_owned(), GridFsUploadOptions::default());
        OpenUploadStream { bucket: self, filename, id: None, options }
    }

    /// Opens a stream that writes a new file with this `_id`: [`open_upload_stream`](Self::open_upload_stream) with
    /// [`id`](OpenUploadStream::id).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream_with_id("logo".into(), "logo.svg").run()?.close()?;
    /// assert!(bucket.open_download_stream("logo".into()).run().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_upload_stream_with_id(&self, id: Bson, filename: impl AsRef<str>) -> OpenUploadStream<'_> {
        self.open_upload_stream(filename).id(id)
    }
}

/// The action that [`GridFsBucket::open_upload_stream`] returns. [`run`](Self::run) executes it.
#[must_use = "the stream is opened by run()"]
pub struct OpenUploadStream<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    id: Option<Bson>,
    options: GridFsUploadOptions,
}

impl OpenUploadStream<'_> {
    /// Sets all options at once.
    ///
    /// ```
    /// # use cairndb::{Client, GridFsUploadOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let mut options = GridFsUploadOptions::default();
    /// options.chunk_size_bytes = Some(1 << 20);
    /// client.database("media").gridfs_bucket(None).open_upload_stream("a").with_options(options).run()?.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_options(mut self, options: impl Into<Option<GridFsUploadOptions>>) -> Self {
        self.options = options.into().unwrap_or_default();
        self
    }

    /// The `_id` of the file. Without it an `ObjectId` is made. If another file has it, the upload fails with code 11000 and the
    /// other file stays as it is.
    ///
    /// ```
    /// # use cairndb::{Client, bson::Bson};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("logo.svg").id("logo".into()).run()?.close()?;
    /// let again = bucket.open_upload_stream("logo.png").id("logo".into()).run()?.close();
    /// assert!(again.is_err_and(|error| error.is_duplicate_key()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: Bson) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the number of bytes of the file in a chunk. The default is that of the bucket. A chunk must fit into a
    /// document, so the largest number is some bytes less than 16 MiB.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let media = client.database("media");
    /// let mut upload = media.gridfs_bucket(None).open_upload_stream("digits").chunk_size_bytes(4).run()?;
    /// upload.write_all(b"0123456789")?;
    /// upload.close()?;
    /// assert_eq!(media.collection::<Document>("fs.chunks").count_documents(doc! {}).run()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn chunk_size_bytes(mut self, bytes: u32) -> Self {
        self.options.chunk_size_bytes = Some(bytes);
        self
    }

    /// Sets the `metadata` of the file's document.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("a").metadata(doc! { "type": "text/plain" }).run()?.close()?;
    /// assert!(bucket.find_one(doc! { "metadata.type": "text/plain" }).run()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(mut self, metadata: Document) -> Self {
        self.options.metadata = Some(metadata);
        self
    }

    /// Opens the stream. Nothing is written yet.
    ///
    /// Fails if an upload with the same `_id` is running, or with options that no file can have.
    pub fn run(self) -> Result<GridFsUploadStream> {
        let shared = &self.bucket.parts.shared;
        let new_id = || ObjectId::from_bytes(shared.generator.generate().bytes());
        let id = self.id.unwrap_or_else(|| new_id().into());
        let chunk_size = self.options.chunk_size_bytes.unwrap_or_else(|| self.bucket.chunk_size_bytes());
        // Here, and not with the first chunk: a caller that writes for an hour learns at once that it is in vain.
        check_chunks(&id, chunk_size)?;
        let file = FilesCollectionDocument {
            id,
            length: 0,
            chunk_size_bytes: chunk_size,
            upload_date: DateTime::now(),
            filename: Some(self.filename),
            metadata: self.options.metadata,
        };
        let document = bson::serialize_to_vec(&file.stored())?;
        validate_insert(&document).map_err(Error::write)?;
        Ok(GridFsUploadStream {
            claim: Some(self.bucket.claim(&file.id, Purpose::Upload)?),
            bucket: self.bucket.clone(),
            file,
            state: State::Open,
            chunk: None,
            batch: Batch::default(),
            next: 0,
            ids: None,
        })
    }
}

/// Rejects what could not be stored, before anything is.
fn check_chunks(id: &Bson, chunk_size: u32) -> Result<()> {
    if chunk_size == 0 {
        return Err(Error::invalid_argument("chunk_size_bytes is 0, and a chunk must have a byte"));
    }
    let bytes = OpenChunk::new(ObjectId::from_bytes([0; 12]), id, 0)?.bytes_with(chunk_size);
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "chunk_size_bytes is {chunk_size}: documents of chunks would have {bytes} bytes, and {DOCUMENT_BYTES_MAX} is the most"
        )));
    }
    Ok(())
}

/// A stream that writes a file. It comes from [`GridFsBucket::open_upload_stream`].
///
/// [`write`](io::Write::write) gathers some megabytes of chunks and then stores them; [`flush`](io::Write::flush) stores those that
/// are full. [`close`](Self::close) makes the file. If a write fails, the stream accepts no more.
///
/// Dropping a stream that was not closed aborts the upload: it removes the chunks. If the process dies meanwhile they stay as
/// orphans, which [`Client::verify`](crate::Client::verify) names and [`GridFsBucket::remove_orphans`] removes.
///
/// ```
/// use std::io::Write;
/// use cairndb::{Client, bson::doc};
///
/// # fn main() -> cairndb::Result<()> {
/// # let client = Client::in_memory()?;
/// let bucket = client.database("media").gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("lines").run()?;
/// for line in 0..3 {
///     writeln!(upload, "line {line}")?;
/// }
/// upload.close()?;
/// assert_eq!(bucket.find_one(doc! {}).run()?.map(|file| file.length), Some(21));
/// # Ok(())
/// # }
/// ```
pub struct GridFsUploadStream {
    bucket: GridFsBucket,
    /// The document of the file. Its length is that of the full chunks.
    file: FilesCollectionDocument,
    state: State,
    /// The chunk that is being filled. `None` if the last one is full.
    chunk: Option<OpenChunk>,
    batch: Batch,
    /// The number of the next chunk.
    next: u32,
    /// The lowest and the highest `_id` of chunks that were given to the store.
    ids: Option<(ObjectId, ObjectId)>,
    /// Released once nothing of the upload can change any more.
    claim: Option<Claim>,
}

enum State {
    Open,
    /// The document of the file is being written.
    Ending,
    /// A write has failed. Only the removal of the chunks is left.
    Failed,
    Closed,
}

/// Full chunks that are not stored yet.
#[derive(Default)]
struct Batch {
    drafts: Drafts,
    bytes: usize,
    ids: Option<(ObjectId, ObjectId)>,
}

impl GridFsUploadStream {
    /// Returns the `_id` of the file.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("empty").run()?;
    /// upload.close()?;
    /// assert!(bucket.open_download_stream(upload.id().clone()).run().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> &Bson {
        &self.file.id
    }

    /// Ends the upload: stores what is left and then the document of the file. From then on the file is there.
    ///
    /// If it fails there is no file, and dropping the stream removes the chunks. Only if the outcome of the commit is unknown
    /// ([`Error::is_commit_unknown`]) they stay, because the file may be there after the next open.
    pub fn close(&mut self) -> Result<()> {
        self.refuse_closed()?;
        match self.finish() {
            // The file is there, and from now on another call may remove it.
            Ok(()) => {
                self.state = State::Closed;
                self.claim = None;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Gives the upload up: removes the chunks that were stored. Fails if the upload was closed or aborted before, and if the
    /// chunks cannot be removed: then they are orphans, which [`GridFsBucket::remove_orphans`] can remove later.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let media = client.database("media");
    /// let mut upload = media.gridfs_bucket(None).open_upload_stream("large").run()?;
    /// upload.write_all(&[0; 1_000_000])?;
    /// upload.abort()?;
    /// assert_eq!(media.collection::<Document>("fs.chunks").count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(&mut self) -> Result<()> {
        if matches!(self.state, State::Ending | State::Closed) {
            return Err(Error::from(GridFsErrorKind::UploadStreamClosed));
        }
        self.state = State::Closed;
        // The claim goes last: until the chunks are gone no other upload can have the `_id`.
        let removed = self.remove_chunks();
        self.claim = None;
        removed
    }

    fn refuse_closed(&self) -> Result<()> {
        match &self.state {
            State::Open => Ok(()),
            State::Ending | State::Failed | State::Closed => {
                Err(Error::from(GridFsErrorKind::UploadStreamClosed))
            }
        }
    }

    /// Notes that the upload cannot be ended any more. Returns the error.
    fn fail(&mut self, error: Error) -> Error {
        self.state = match self.state {
            // The document of the file may be there after the next open, so its chunks must be, too.
            State::Ending if error.is_commit_unknown() => State::Closed,
            State::Open | State::Ending | State::Failed | State::Closed => State::Failed,
        };
        if matches!(self.state, State::Closed) {
            self.claim = None;
        }
        // Its memory is of no use any more.
        (self.chunk, self.batch) = (None, Batch::default());
        error
    }

    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        let chunk_size = self.file.chunk_size_bytes as usize;
        while !data.is_empty() {
            let chunk = match &mut self.chunk {
                Some(chunk) => chunk,
                empty => empty.insert(open_chunk(&self.bucket, &self.file.id, self.next)?),
            };
            let (taken, rest) = data.split_at(data.len().min(chunk_size - chunk.len()));
            chunk.extend(taken);
            data = rest;
            if chunk.len() == chunk_size {
                self.end_chunk();
            }
            // After each chunk, so that a single call with much data holds no more than a batch either.
            if self.batch.bytes >= BATCH_BYTES {
                self.store()?;
            }
        }
        Ok(())
    }

    /// Moves the current chunk, if there is one, to the batch.
    fn end_chunk(&mut self) {
        // A file whose length is a multiple of the size of chunks has none at its end, and never an empty one.
        let Some(chunk) = self.chunk.take() else { return };
        // Counted here, so that both always say what is in full chunks.
        self.file.length += chunk.len() as u64;
        self.next += 1;
        self.batch.ids = Some(spanned(self.batch.ids, chunk.id));
        let document = chunk.finish();
        self.batch.bytes += document.len();
        self.batch.drafts.push_bytes(&document);
    }

    /// Stores the full chunks.
    fn store(&mut self) -> Result<()> {
        // Removed, whatever comes: chunks that could not be stored are not tried again.
        let Batch { drafts, ids, .. } = std::mem::take(&mut self.batch);
        let Some((lowest, highest)) = ids else { return Ok(()) };
        if self.ids.is_none() {
            self.bucket.ensure_indexes()?;
        }
        // Before the commit: if it fails half-way, what it did must be found for removal.
        self.ids = Some(spanned(Some(spanned(self.ids, lowest)), highest));
        let mut insert = self.bucket.parts.chunks.handle.insert_drafts(drafts);
        if let Some(concern) = self.bucket.write_concern() {
            insert = insert.write_concern(concern.clone());
        }
        insert.run()?;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.end_chunk();
        self.store()?;
        if self.ids.is_none() {
            // A file without content has no chunk that would have made the indexes.
            self.bucket.ensure_indexes()?;
        }
        // The moment at which the upload ends, not the one at which it began.
        self.file.upload_date = DateTime::now();
        self.state = State::Ending;
        // The last write of all. If it is on stable storage then so are the chunks, whose commits came before it.
        let mut insert = self.bucket.parts.files.insert_one(self.file.stored());
        if let Some(concern) = self.bucket.write_concern() {
            insert = insert.write_concern(concern.clone());
        }
        insert.run()?;
        Ok(())
    }

    /// Removes the chunks of this upload that may be stored.
    fn remove_chunks(&self) -> Result<()> {
        // Nothing was given to the store: there may be no collection, and none is to be made.
        let Some((lowest, highest)) = self.ids else { return Ok(()) };
        // By their own ids too: if a file has the same `_id`, its chunks are older and must stay.
        let own = doc! {
            "files_id": { "$eq": self.file.id.clone() },
            "_id": { "$gte": lowest, "$lte": highest },
        };
        let mut delete = self.bucket.parts.abandoned.delete_many(own);
        if let Some(concern) = self.bucket.write_concern() {
            delete = delete.write_concern(concern.clone());
        }
        delete.run()?;
        Ok(())
    }
}

impl io::Write for GridFsUploadStream {
    /// Accepts all of `data`. Stores chunks when there are some megabytes of them.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.refuse_closed()?;
        match self.append(data) {
            Ok(()) => Ok(data.len()),
            Err(error) => Err(self.fail(error).into()),
        }
    }

    /// Stores the chunks that are full. The last one may grow, so it is stored by [`close`](GridFsUploadStream::close).
    fn flush(&mut self) -> io::Result<()> {
        self.refuse_closed()?;
        self.store().map_err(|error| self.fail(error).into())
    }
}

impl Drop for GridFsUploadStream {
    fn drop(&mut self) {
        // After a panic while the document was written the file may be there. A forked child leaves everything to its parent.
        if matches!(self.state, State::Ending | State::Closed) || fork::is_child() {
            return;
        }
        if let Err(error) = self.remove_chunks() {
            // A destructor cannot return the error.
            tracing::warn!(error = %OneLine(error), id = %OneLine(&self.file.id), "the chunks of an upload that was given up could not be removed");
        }
    }
}

impl std::fmt::Debug for GridFsUploadStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GridFsUploadStream").field("id", &self.file.id).finish_non_exhaustive()
    }
}

/// Begins the chunk `n`.
fn open_chunk(bucket: &GridFsBucket, id: &Bson, n: u32) -> Result<OpenChunk> {
    let n = i32::try_from(n).map_err(|_| {
        Error::invalid_argument(
            "the file needs more than 2147483648 chunks: a larger chunk_size_bytes is needed",
        )
    })?;
    OpenChunk::new(ObjectId::from_bytes(bucket.parts.shared.generator.generate().bytes()), id, n)
}

/// The span of ids with one more.
fn spanned(span: Option<(ObjectId, ObjectId)>, id: ObjectId) -> (ObjectId, ObjectId) {
    span.map_or((id, id), |(lowest, highest)| (lowest.min(id), highest.max(id)))
}
