//! Downloads: `open_download_stream`, and the stream that reads chunks.
//!
//! Chunks are read by a cursor, one at a time, and each is compared with what the document of the file says. So a damaged file
//! is an error where it is damaged, and no length makes the stream hold more than one chunk.

use std::io::{self, SeekFrom};

use base::error::{Error, Result};
use base::gridfs_error::{GridFsErrorKind, GridFsFileIdentifier};
use bson::{Bson, RawDocumentBuf, doc};

use crate::cursor::Cursor;
use crate::gridfs::bucket::{GridFsBucket, by_id};
use crate::gridfs::chunk::StoredChunk;
use crate::gridfs::file::FilesCollectionDocument;
use crate::options::GridFsDownloadByNameOptions;

impl GridFsBucket {
    /// Opens a stream that reads the file with this `_id`.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// # use cairndb::Client;
    ///
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
    /// upload.write_all(b"some notes")?;
    /// upload.close()?;
    ///
    /// let mut notes = String::new();
    /// bucket.open_download_stream(upload.id().clone()).run()?.read_to_string(&mut notes)?;
    /// assert_eq!(notes, "some notes");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_download_stream(&self, id: Bson) -> OpenDownloadStream<'_> {
        OpenDownloadStream { bucket: self, id }
    }

    /// Opens a stream that reads the newest file with this name, or another [`revision`](OpenDownloadStreamByName::revision).
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// for text in ["first", "second"] {
    ///     let mut upload = bucket.open_upload_stream("notes.txt").run()?;
    ///     upload.write_all(text.as_bytes())?;
    ///     upload.close()?;
    /// }
    /// let mut newest = String::new();
    /// bucket.open_download_stream_by_name("notes.txt").run()?.read_to_string(&mut newest)?;
    /// assert_eq!(newest, "second");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_download_stream_by_name(&self, filename: impl Into<String>) -> OpenDownloadStreamByName<'_> {
        let (filename, options) = (filename.into(), GridFsDownloadByNameOptions::default());
        OpenDownloadStreamByName { bucket: self, filename, options }
    }
}

/// The action that [`GridFsBucket::open_download_stream`] returns. [`run`](Self::run) executes it.
#[must_use = "the stream is opened by run()"]
pub struct OpenDownloadStream<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
}

/// The action that [`GridFsBucket::open_download_stream_by_name`] returns. [`run`](Self::run) executes it.
#[must_use = "the stream is opened by run()"]
pub struct OpenDownloadStreamByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    options: GridFsDownloadByNameOptions,
}

impl OpenDownloadStream<'_> {
    /// Opens the stream. Fails with [`GridFsErrorKind::FileNotFound`] if no such file exists.
    pub fn run(self) -> Result<GridFsDownloadStream> {
        match self.bucket.parts.files.find_one(by_id(&self.id)).run()? {
            Some(document) => {
                Ok(GridFsDownloadStream::new(self.bucket, FilesCollectionDocument::parse(document)?))
            }
            None => Err(file_not_found(GridFsFileIdentifier::Id(self.id))),
        }
    }
}

impl OpenDownloadStreamByName<'_> {
    /// Sets all options at once.
    ///
    /// ```
    /// # use cairndb::{Client, GridFsDownloadByNameOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("a").run()?.close()?;
    /// let mut options = GridFsDownloadByNameOptions::default();
    /// options.revision = Some(0);
    /// bucket.open_download_stream_by_name("a").with_options(options).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_options(mut self, options: impl Into<Option<GridFsDownloadByNameOptions>>) -> Self {
        self.options = options.into().unwrap_or_default();
        self
    }

    /// Which of the files with the name: 0 is the oldest, 1 the second, -1 the newest and -2 the one before it. The default is
    /// -1.
    ///
    /// ```
    /// # use cairndb::{Client, ErrorKind, GridFsErrorKind};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("a").run()?.close()?;
    /// bucket.open_download_stream_by_name("a").revision(0).run()?;
    /// let error = bucket.open_download_stream_by_name("a").revision(1).run().expect_err("there is one");
    /// assert!(matches!(error.kind(), ErrorKind::GridFs(GridFsErrorKind::RevisionNotFound { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn revision(mut self, revision: i32) -> Self {
        self.options.revision = Some(revision);
        self
    }

    /// Opens the stream. Fails with [`GridFsErrorKind::FileNotFound`] if no file has the name, and with
    /// [`GridFsErrorKind::RevisionNotFound`] if too few have it.
    pub fn run(self) -> Result<GridFsDownloadStream> {
        let revision = self.options.revision.unwrap_or(-1);
        // -1 is the first from the end. In 64 bits, because the lowest revision has no opposite in 32.
        let (direction, skip) =
            if revision >= 0 { (1, i64::from(revision)) } else { (-1, -(i64::from(revision) + 1)) };
        // The index of files has this order from either end.
        let named = || self.bucket.parts.files.find_one(doc! { "filename": &self.filename });
        let found = named().sort(doc! { "uploadDate": direction }).skip(skip.unsigned_abs()).run()?;
        if let Some(document) = found {
            return Ok(GridFsDownloadStream::new(self.bucket, FilesCollectionDocument::parse(document)?));
        }
        if named().run()?.is_some() {
            return Err(Error::from(GridFsErrorKind::revision_not_found(revision)));
        }
        Err(file_not_found(GridFsFileIdentifier::Filename(self.filename)))
    }
}

pub(super) fn file_not_found(identifier: GridFsFileIdentifier) -> Error {
    Error::from(GridFsErrorKind::file_not_found(identifier))
}

/// A stream that reads a file. It comes from [`GridFsBucket::open_download_stream`].
///
/// It holds one chunk, and reads on by a cursor: once it has read a chunk it goes on with the chunks of that moment, whatever
/// is deleted meanwhile, until a [`seek`](io::Seek::seek) to another chunk. Like a [`Cursor`] it keeps the folder open until it is
/// dropped. A chunk that is missing, or has another size than the file says, is an error; its
/// [`GridFsErrorKind`] is in the [`io::Error`], and `?` turns that into an [`Error`].
///
/// ```
/// use std::io::{Read, Seek, SeekFrom, Write};
/// # use cairndb::Client;
///
/// # fn main() -> cairndb::Result<()> {
/// # let client = Client::in_memory()?;
/// let bucket = client.database("media").gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("digits").chunk_size_bytes(4).run()?;
/// upload.write_all(b"0123456789")?;
/// upload.close()?;
///
/// let mut download = bucket.open_download_stream_by_name("digits").run()?;
/// download.seek(SeekFrom::Start(5))?;
/// let mut three = [0; 3];
/// download.read_exact(&mut three)?;
/// assert_eq!(&three, b"567");
/// assert_eq!(download.file().length, 10);
/// # Ok(())
/// # }
/// ```
pub struct GridFsDownloadStream {
    bucket: GridFsBucket,
    file: FilesCollectionDocument,
    position: u64,
    /// The chunk that was read last, with its number.
    chunk: Option<(u32, StoredChunk)>,
    /// The chunks after it.
    rest: Option<Rest>,
}

/// The chunks of a file from a number on.
struct Rest {
    next: u32,
    cursor: Cursor<RawDocumentBuf>,
}

impl GridFsDownloadStream {
    fn new(bucket: &GridFsBucket, file: FilesCollectionDocument) -> Self {
        Self { bucket: bucket.clone(), file, position: 0, chunk: None, rest: None }
    }

    /// Returns what is known of the file.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("empty").run()?.close()?;
    /// assert_eq!(bucket.open_download_stream_by_name("empty").run()?.file().length, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn file(&self) -> &FilesCollectionDocument {
        &self.file
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // A file without content has no chunks to look for.
        if buffer.is_empty() || self.position >= self.file.length {
            return Ok(0);
        }
        let size = u64::from(self.file.chunk_size_bytes);
        // Both fit: a file has at most 2^31 chunks, which `parse` has checked.
        let n = u32::try_from(self.position / size).unwrap_or(u32::MAX);
        let offset = usize::try_from(self.position % size).unwrap_or(usize::MAX);
        let data = self.chunk(n)?.data().get(offset..).unwrap_or_default();
        let count = data.len().min(buffer.len());
        let (Some(to), Some(from)) = (buffer.get_mut(..count), data.get(..count)) else { return Ok(0) };
        to.copy_from_slice(from);
        self.position += count as u64;
        Ok(count)
    }

    /// The chunk `n`, which the file must have.
    fn chunk(&mut self, n: u32) -> Result<&StoredChunk> {
        let read = match self.chunk.take() {
            Some((current, chunk)) if current == n => chunk,
            // Let go first, so that never two chunks are held.
            _ => self.read_chunk(n)?,
        };
        Ok(&self.chunk.insert((n, read)).1)
    }

    fn read_chunk(&mut self, n: u32) -> Result<StoredChunk> {
        // A caller that reads on needs the next chunk, and that is where the cursor is.
        let mut cursor = match self.rest.take() {
            Some(rest) if rest.next == n => rest.cursor,
            _ => self.open_cursor(n)?,
        };
        let document = cursor.next().transpose()?;
        let chunk = match document.map(|document| StoredChunk::of(document, n)).transpose()? {
            Some(chunk) if chunk.n == i64::from(n) => chunk,
            // A chunk that is there twice, where no index prevents it.
            Some(chunk) if chunk.n < i64::from(n) => {
                let reason = format!("chunk {} is there more than once", chunk.n);
                return Err(Error::from(GridFsErrorKind::invalid_chunk(n, reason)));
            }
            _ => return Err(Error::from(GridFsErrorKind::missing_chunk(n))),
        };
        // Before the bytes are used: a longer or shorter chunk would move all that follow.
        let (actual_size, expected_size) = (chunk.data().len(), self.file.chunk_bytes(n));
        if actual_size as u64 != u64::from(expected_size) {
            return Err(Error::from(GridFsErrorKind::wrong_size_chunk(actual_size, expected_size, n)));
        }
        let expected_number = self.file.chunks();
        if n + 1 < expected_number {
            self.rest = Some(Rest { next: n + 1, cursor });
        } else if let Some(extra) = cursor.next().transpose()? {
            let extra = StoredChunk::of(extra, n + 1)?.n;
            return Err(Error::from(GridFsErrorKind::extra_chunk(extra, expected_number)));
        }
        Ok(chunk)
    }

    fn open_cursor(&self, n: u32) -> Result<Cursor<RawDocumentBuf>> {
        let from = doc! { "files_id": { "$eq": self.file.id.clone() }, "n": { "$gte": i64::from(n) } };
        self.bucket.parts.chunks.find(from).sort(doc! { "n": 1 }).run()
    }
}

impl io::Read for GridFsDownloadStream {
    /// Reads up to the end of the current chunk.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_some(buffer)?)
    }
}

impl io::Seek for GridFsDownloadStream {
    /// Moves to a position, which may be after the end: nothing is read there. Reads nothing by itself.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        // A position is only noted: the chunk there is read when somebody asks for its bytes.
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.file.length.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| {
            let text = "the position is before the start of the file, or is not a 64-bit number";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Ok(self.position)
    }
}

impl std::fmt::Debug for GridFsDownloadStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GridFsDownloadStream").field("file", &self.file).finish_non_exhaustive()
    }
}
