//! `rename` and `rename_by_name`.

use base::error::Result;
use base::gridfs_error::GridFsFileIdentifier;
use bson::{Bson, Document, doc};

use crate::gridfs::bucket::{GridFsBucket, by_id};
use crate::gridfs::download::file_not_found;

impl GridFsBucket {
    /// Gives a file another name. Fails with [`GridFsErrorKind::FileNotFound`](crate::GridFsErrorKind::FileNotFound) if there is
    /// none with this `_id`.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("draft").id(1.into()).run()?.close()?;
    /// bucket.rename(1.into(), "final").run()?;
    /// assert!(bucket.open_download_stream_by_name("final").run().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, id: Bson, new_filename: impl Into<String>) -> Rename<'_> {
        Rename { bucket: self, id, new_filename: new_filename.into() }
    }

    /// Gives all files with a name another one. Fails with
    /// [`GridFsErrorKind::FileNotFound`](crate::GridFsErrorKind::FileNotFound) if there is none.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("draft").run()?.close()?;
    /// bucket.rename_by_name("draft", "final").run()?;
    /// assert!(bucket.open_download_stream_by_name("draft").run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename_by_name(
        &self,
        filename: impl Into<String>,
        new_filename: impl Into<String>,
    ) -> RenameByName<'_> {
        RenameByName { bucket: self, filename: filename.into(), new_filename: new_filename.into() }
    }

    /// Renames the files that match, and returns whether there were any.
    fn rename_all(&self, filter: Document, new_filename: &str) -> Result<bool> {
        // One command for all: by an `_id` there is one file at most.
        let mut update = self.parts.files.update_many(filter, doc! { "$set": { "filename": new_filename } });
        if let Some(concern) = self.write_concern() {
            update = update.write_concern(concern.clone());
        }
        // Matched and not modified: a file that has the name already is found, too.
        Ok(update.run()?.matched_count > 0)
    }
}

/// The action that [`GridFsBucket::rename`] returns. [`run`](Self::run) executes it.
#[must_use = "the file is renamed by run()"]
pub struct Rename<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
    new_filename: String,
}

/// The action that [`GridFsBucket::rename_by_name`] returns. [`run`](Self::run) executes it.
#[must_use = "the files are renamed by run()"]
pub struct RenameByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
    new_filename: String,
}

impl Rename<'_> {
    /// Renames the file.
    pub fn run(self) -> Result<()> {
        if self.bucket.rename_all(by_id(&self.id), &self.new_filename)? {
            return Ok(());
        }
        Err(file_not_found(GridFsFileIdentifier::Id(self.id)))
    }
}

impl RenameByName<'_> {
    /// Renames the files.
    pub fn run(self) -> Result<()> {
        if self.bucket.rename_all(doc! { "filename": &self.filename }, &self.new_filename)? {
            return Ok(());
        }
        Err(file_not_found(GridFsFileIdentifier::Filename(self.filename)))
    }
}
