//! Options of a bucket of files and of its verbs.

use std::time::Duration;

use bson::Document;
use store::options::WriteConcern;

use crate::options::declare::options;

/// Options of [`Database::gridfs_bucket`](crate::Database::gridfs_bucket).
///
/// ```
/// use cairndb::{Client, GridFsBucketOptions, WriteConcern};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let options = GridFsBucketOptions::builder()
///     .bucket_name("photos".to_owned())
///     .chunk_size_bytes(1 << 20)
///     .write_concern(WriteConcern::journaled())
///     .build();
/// let photos = client.database("media").gridfs_bucket(options);
/// assert!(photos.find_one(Default::default()).run()?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GridFsBucketOptions {
    /// The name of the bucket, which the names of its two collections begin with. The default is `fs`.
    pub bucket_name: Option<String>,
    /// The number of bytes of a file in a chunk. The default is 261,120, which is 255 KiB.
    pub chunk_size_bytes: Option<u32>,
    /// The write concern of the bucket: it decides when the writes are acknowledged. The default is as the client was
    /// opened.
    pub write_concern: Option<WriteConcern>,
}

impl GridFsBucketOptions {
    /// Starts a set of options.
    ///
    /// ```
    /// # use cairndb::GridFsBucketOptions;
    /// let options = GridFsBucketOptions::builder().bucket_name("photos".to_owned()).build();
    /// assert_eq!(options.bucket_name.as_deref(), Some("photos"));
    /// ```
    pub fn builder() -> GridFsBucketOptionsBuilder {
        GridFsBucketOptionsBuilder { options: Self::default() }
    }
}

/// Builds [`GridFsBucketOptions`].
///
/// ```
/// # use cairndb::GridFsBucketOptions;
/// let options = GridFsBucketOptions::builder().chunk_size_bytes(1 << 20).build();
/// assert_eq!(options.chunk_size_bytes, Some(1_048_576));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct GridFsBucketOptionsBuilder {
    options: GridFsBucketOptions,
}

impl GridFsBucketOptionsBuilder {
    /// The name of the bucket, which the names of its two collections begin with. The default is `fs`.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use cairndb::{Client, GridFsBucketOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let media = client.database("media");
    /// let photos = media.gridfs_bucket(GridFsBucketOptions::builder().bucket_name("photos".to_owned()).build());
    /// let mut upload = photos.open_upload_stream("a.jpg").run()?;
    /// upload.write_all(b"a picture")?;
    /// upload.close()?;
    /// assert_eq!(media.list_collection_names().run()?, ["photos.chunks", "photos.files"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bucket_name(mut self, name: impl Into<Option<String>>) -> Self {
        self.options.bucket_name = name.into();
        self
    }

    /// Sets the number of bytes of a file in a chunk. The default is 261,120, which is 255 KiB.
    ///
    /// ```
    /// # use cairndb::{Client, GridFsBucketOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let options = GridFsBucketOptions::builder().chunk_size_bytes(1 << 20).build();
    /// let bucket = client.database("media").gridfs_bucket(options);
    /// bucket.open_upload_stream("empty").run()?.close()?;
    /// let file = bucket.find_one(Default::default()).run()?.expect("uploaded above");
    /// assert_eq!(file.chunk_size_bytes, 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn chunk_size_bytes(mut self, bytes: impl Into<Option<u32>>) -> Self {
        self.options.chunk_size_bytes = bytes.into();
        self
    }

    /// Sets the write concern of the bucket: it decides when the writes are acknowledged. The default is as the
    /// client was opened.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use cairndb::{Client, GridFsBucketOptions, WriteConcern};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let options = GridFsBucketOptions::builder().write_concern(WriteConcern::journaled()).build();
    /// let mut upload = client.database("media").gridfs_bucket(options).open_upload_stream("letter").run()?;
    /// upload.write_all(b"Dear Ada")?;
    /// // Returns when the file is on stable storage.
    /// upload.close()?;
    /// assert_eq!(client.durable_seq(), client.written_seq()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_concern(mut self, concern: impl Into<Option<WriteConcern>>) -> Self {
        self.options.write_concern = concern.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> GridFsBucketOptions {
        self.options
    }
}

/// Options of [`GridFsBucket::open_upload_stream`](crate::GridFsBucket::open_upload_stream), to set with `with_options`.
///
/// ```
/// # use cairndb::{Client, GridFsUploadOptions, bson::doc};
/// # fn main() -> cairndb::Result<()> {
/// # let client = Client::in_memory()?;
/// let mut options = GridFsUploadOptions::default();
/// options.metadata = Some(doc! { "author": "Ada" });
/// client.database("media").gridfs_bucket(None).open_upload_stream("notes").with_options(options).run()?.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GridFsUploadOptions {
    /// The number of bytes of the file in a chunk. The default is that of the bucket.
    pub chunk_size_bytes: Option<u32>,
    /// The `metadata` of the file's document.
    pub metadata: Option<Document>,
}

/// Options of [`GridFsBucket::open_download_stream_by_name`](crate::GridFsBucket::open_download_stream_by_name), to set with
/// `with_options`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GridFsDownloadByNameOptions {
    /// Which of the files with the name: 0 is the oldest, 1 the second, -1 the newest and -2 the one before it. The default is
    /// -1.
    pub revision: Option<i32>,
}

options!(
    /// Options of [`GridFsBucket::find`](crate::GridFsBucket::find), to set with `with_options`.
    GridFsFindOptions, files_option, {
        /// Whether a sort that needs more memory than it may have goes on in temporary files. It does if nothing is said.
        allow_disk_use: bool,
        /// Accepted and without effect: documents are read one by one, so there are no batches.
        batch_size: u32,
        /// The largest number of files to return. With 0 there is no limit. Of a negative number the sign is ignored.
        limit: i64,
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
        max_time: Duration,
        /// The number of files to skip.
        skip: u64,
        /// The order of the files: field paths with 1 (ascending) or -1 (descending).
        sort: Document,
    }
);

options!(
    /// Options of [`GridFsBucket::find_one`](crate::GridFsBucket::find_one), to set with `with_options`.
    GridFsFindOneOptions, file_option, {
        /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
        max_time: Duration,
        /// The number of files to skip.
        skip: u64,
        /// The order of the files, which decides which of them is chosen.
        sort: Document,
    }
);
