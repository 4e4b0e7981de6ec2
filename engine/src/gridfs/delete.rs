//! Removing: `delete`, `delete_by_name` and `drop`.
//!
//! The document of a file goes first: then no reader finds a file whose chunks are going.

use bson::{Bson, Document, doc};

use base::error::Result;
#[cfg(doc)]
use base::gridfs_error::GridFsErrorKind;
use base::gridfs_error::GridFsFileIdentifier;

use crate::gridfs::bucket::{GridFsBucket, by_id, chunks_of};
use crate::gridfs::download::file_not_found;
use crate::uploads::Purpose;

impl GridFsBucket {
    /// Removes a file.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is none with this `_id`; chunks without a file are removed all the
    /// same. Fails with [`GridFsErrorKind::UploadRunning`], and removes nothing, while an upload in this process has the `_id`.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// bucket.open_upload_stream("logo.svg").id("logo".into()).run()?.close()?;
    /// bucket.delete("logo".into()).run()?;
    /// assert!(bucket.delete("logo".into()).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&self, id: Bson) -> Delete<'_> {
        Delete { bucket: self, id }
    }

    /// Removes all files with this name, one after the other. Fails with [`GridFsErrorKind::FileNotFound`] if there is none.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// for _ in 0..2 {
    ///     bucket.open_upload_stream("logo.svg").run()?.close()?;
    /// }
    /// bucket.delete_by_name("logo.svg").run()?;
    /// assert_eq!(bucket.find(doc! {}).run()?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_by_name(&self, filename: impl Into<String>) -> DeleteByName<'_> {
        DeleteByName { bucket: self, filename: filename.into() }
    }

    /// Removes the bucket: both of its collections. Fails with [`GridFsErrorKind::UploadRunning`] while this process uploads to
    /// it. An upload that begins meanwhile waits until both are gone.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let media = client.database("media");
    /// media.gridfs_bucket(None).open_upload_stream("a").run()?.close()?;
    /// media.gridfs_bucket(None).drop().run()?;
    /// assert!(media.list_collection_names().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop(&self) -> Drop<'_> {
        Drop { bucket: self }
    }

    /// Removes the document of a file and then its chunks. Returns whether there was one.
    fn delete_file(&self, id: &Bson) -> Result<bool> {
        // Held to the end: no upload may begin to write chunks that would go with those of the file.
        let _claim = self.claim(id, Purpose::Removal)?;
        let mut delete = self.parts.files.delete_one(by_id(id));
        if let Some(concern) = self.write_concern() {
            delete = delete.write_concern(concern.clone());
        }
        let deleted = delete.run()?.deleted_count;
        // Without a file as well: what a killed upload left with this `_id` goes, as every driver does it.
        self.delete_chunks(chunks_of(id))?;
        Ok(deleted > 0)
    }
}

/// The action that [`GridFsBucket::delete`] returns. [`run`](Self::run) executes it.
#[must_use = "the file is removed by run()"]
pub struct Delete<'a> {
    bucket: &'a GridFsBucket,
    id: Bson,
}

/// The action that [`GridFsBucket::delete_by_name`] returns. [`run`](Self::run) executes it.
#[must_use = "the files are removed by run()"]
pub struct DeleteByName<'a> {
    bucket: &'a GridFsBucket,
    filename: String,
}

/// The action that [`GridFsBucket::drop`] returns. [`run`](Self::run) executes it.
#[must_use = "the bucket is dropped by run()"]
pub struct Drop<'a> {
    bucket: &'a GridFsBucket,
}

impl Delete<'_> {
    /// Removes the file.
    pub fn run(self) -> Result<()> {
        if self.bucket.delete_file(&self.id)? {
            return Ok(());
        }
        Err(file_not_found(GridFsFileIdentifier::Id(self.id)))
    }
}

impl DeleteByName<'_> {
    /// Removes the files that have the name now.
    pub fn run(self) -> Result<()> {
        let files = &self.bucket.parts.files;
        let named = files.find(doc! { "filename": &self.filename }).projection(doc! { "_id": 1 }).run()?;
        // One after the other as the cursor shows them, so that any number of revisions uses no memory.
        let mut found = false;
        for document in named {
            let document: Document = document?;
            let id = document.get("_id").cloned().unwrap_or(Bson::Null);
            found |= self.bucket.delete_file(&id)?;
        }
        if found {
            return Ok(());
        }
        Err(file_not_found(GridFsFileIdentifier::Filename(self.filename)))
    }
}

impl Drop<'_> {
    /// Drops both collections.
    pub fn run(self) -> Result<()> {
        let parts = &self.bucket.parts;
        // An upload that went on, or that began between the two drops, would make a file without its first chunks.
        let _claim = parts.shared.uploads.claim_bucket(&self.bucket.chunks_namespace())?;
        // In this order for the same reason as above: no file without chunks is seen.
        parts.files.drop().run()?;
        parts.chunks.drop().run()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::client::Client;
    use base::error::{Error, ErrorKind};
    use base::gridfs_error::GridFsErrorKind;

    fn content(length: usize) -> Vec<u8> {
        (0..=250).cycle().take(length).collect()
    }

    fn download(bucket: &GridFsBucket, id: Bson) -> Result<Vec<u8>> {
        let mut found = Vec::new();
        bucket.open_download_stream(id).run()?.read_to_end(&mut found).map_err(Error::from)?;
        Ok(found)
    }

    fn upload_in_parts(bucket: &GridFsBucket) {
        let mut upload = bucket.open_upload_stream("raced").chunk_size_bytes(100).run().expect("opened");
        for _ in 0..2 {
            upload.write_all(&content(250)).expect("written");
            upload.flush().expect("stored");
        }
        upload.close().expect("closed");
        // No upload runs for a moment, so that a drop can begin.
        bucket.find(doc! {}).run().expect("found").for_each(drop);
    }

    /// The drop looked once for uploads and then dropped two collections. An upload that began in between made a file whose first
    /// chunks went with the second drop.
    #[test]
    fn no_upload_loses_a_chunk_to_a_drop_of_the_bucket_beside_it() {
        let client = Client::in_memory().expect("a database in memory");
        let bucket = client.database("test").gridfs_bucket(None);
        let uploading = AtomicUsize::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..200).for_each(|_| upload_in_parts(&bucket));
                    uploading.fetch_sub(1, Ordering::Relaxed);
                });
            }
            while uploading.load(Ordering::Relaxed) > 0 {
                match bucket.drop().run() {
                    Ok(()) => {}
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::GridFs(GridFsErrorKind::UploadRunning { .. })),
                        "{error}"
                    ),
                }
                for file in bucket.find(doc! {}).run().expect("found") {
                    let id = file.expect("a file").id;
                    match download(&bucket, id.clone()) {
                        Ok(found) => assert_eq!(found.len(), 500),
                        // No other thread drops the bucket.
                        Err(error) => panic!("{id}: {error}"),
                    }
                }
            }
        });
        assert_eq!(bucket.find_orphans().run().expect("searched").count(), 0);
    }
}
