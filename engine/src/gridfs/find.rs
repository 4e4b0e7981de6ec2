//! `find` and `find_one`: the documents of files.

use std::time::Duration;

use base::error::Result;
use bson::Document;

use crate::cursor::Cursor;
use crate::gridfs::bucket::GridFsBucket;
use crate::gridfs::file::FilesCollectionDocument;
use crate::options::declare::setters;
use crate::options::gridfs::{file_option, files_option};
use crate::options::{FindOptions, GridFsFindOneOptions, GridFsFindOptions};

impl GridFsBucket {
    /// Finds the files that match the filter. An empty filter matches all.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// for (name, text) in [("short", "x"), ("long", "xxxxx")] {
    ///     let mut upload = bucket.open_upload_stream(name).run()?;
    ///     upload.write_all(text.as_bytes())?;
    ///     upload.close()?;
    /// }
    /// for file in bucket.find(doc! { "length": { "$gt": 2 } }).run()? {
    ///     assert_eq!(file?.filename.as_deref(), Some("long"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn find(&self, filter: Document) -> Find<'_> {
        Find { bucket: self, filter, options: GridFsFindOptions::default() }
    }

    /// Finds one file that matches the filter: the first in the sort order, or any if no sort is given.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("a").run()?.close()?;
    /// let file = bucket.find_one(doc! { "filename": "a" }).run()?.expect("uploaded above");
    /// assert_eq!(file.length, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one(&self, filter: Document) -> FindOne<'_> {
        FindOne { bucket: self, filter, options: GridFsFindOneOptions::default() }
    }
}

/// The action that [`GridFsBucket::find`] returns. [`run`](Self::run) executes it.
#[must_use = "the search is done by run()"]
pub struct Find<'a> {
    bucket: &'a GridFsBucket,
    filter: Document,
    options: GridFsFindOptions,
}

/// The action that [`GridFsBucket::find_one`] returns. [`run`](Self::run) executes it.
#[must_use = "the search is done by run()"]
pub struct FindOne<'a> {
    bucket: &'a GridFsBucket,
    filter: Document,
    options: GridFsFindOneOptions,
}

setters!(Find<'a>, GridFsFindOptions, files_option);

setters!(FindOne<'a>, GridFsFindOneOptions, file_option);

impl Find<'_> {
    /// Opens a cursor over the files. A document that no file can have is an error of the cursor, which then goes on.
    pub fn run(self) -> Result<Cursor<FilesCollectionDocument>> {
        // Decoded by the cursor, so a document that is not a file is an error of its own and not the end of the search.
        let files = self.bucket.parts.files.clone_with_type::<FilesCollectionDocument>();
        // Every option by name: a new one cannot be forgotten here.
        let GridFsFindOptions { allow_disk_use, batch_size, limit, max_time, skip, sort } = self.options;
        let mut options = FindOptions::default();
        (options.batch_size, options.limit, options.max_time) = (batch_size, limit, max_time);
        (options.allow_disk_use, options.skip, options.sort) = (allow_disk_use, skip, sort);
        let find = files.find(self.filter);
        find.with_options(options).run()
    }
}

impl FindOne<'_> {
    /// Reads the document of the file. Returns `None` if none matches.
    pub fn run(self) -> Result<Option<FilesCollectionDocument>> {
        // Every option by name, as above.
        let GridFsFindOneOptions { max_time, skip, sort } = self.options;
        let mut options = FindOptions::default();
        (options.max_time, options.skip, options.sort) = (max_time, skip, sort);
        // As a plain document first: the error of one that is not a file then has the kind of a bucket.
        let found = self.bucket.parts.files.find_one(self.filter).with_options(options).run()?;
        found.map(FilesCollectionDocument::parse).transpose()
    }
}
