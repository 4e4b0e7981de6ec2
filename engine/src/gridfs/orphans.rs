//! Orphans: chunks of files that have no document. `find_orphans` lists them, `remove_orphans` removes them.
//!
//! A running upload has such chunks too. Those of this process have a claim, which is asked after the chunks were seen and before
//! the document of the file is looked for: so a file whose upload ends meanwhile is seen as one. What a driver uploads over a
//! server has no claim, and a document may come for it at any time. Only its age protects it, whatever locks were held here.

use std::time::Duration;

use base::error::Result;
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};

use crate::cursor::Cursor;
use crate::gridfs::bucket::{GridFsBucket, chunks_of};
use crate::orphans::FILES_ID;
use crate::uploads::{FileKey, Purpose};

impl GridFsBucket {
    /// Finds chunks of files that have no document: what killed uploads left. Uploads of this process are left out. One that a
    /// driver is making over a server looks like a killed one; [`older_than`](FindOrphans::older_than) leaves out the young.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// for orphan in client.database("media").gridfs_bucket(None).find_orphans().run()? {
    ///     let orphan = orphan?;
    ///     println!("{}: {} chunks, the last of {:?}", orphan.id, orphan.chunks, orphan.newest);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_orphans(&self) -> FindOrphans<'_> {
        FindOrphans { bucket: self, older_than: Duration::ZERO }
    }

    /// Removes what [`find_orphans`](Self::find_orphans) finds, if its newest chunk is older than `older_than`.
    ///
    /// Uploads of this process are never touched, and with [`Duration::ZERO`] all other orphans go. Where drivers upload over a
    /// server, choose a time in which every upload stores a chunk or ends, such as a day: the age of a chunk is known by its
    /// `_id`, which the driver has made by its own clock. Chunks whose `_id` is no `ObjectId` have no age, and only go with
    /// [`Duration::ZERO`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, bson::{Binary, Document, doc, spec::BinarySubtype}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let media = client.database("media");
    /// let data = Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 100] };
    /// // A chunk of a file that was never there.
    /// media.collection::<Document>("fs.chunks").insert_one(doc! { "files_id": 7, "n": 0, "data": data }).run()?;
    ///
    /// let bucket = media.gridfs_bucket(None);
    /// assert_eq!(bucket.remove_orphans(Duration::from_secs(24 * 3600)).run()?.chunks, 0);
    /// assert_eq!(bucket.remove_orphans(Duration::ZERO).run()?.chunks, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_orphans(&self, older_than: Duration) -> RemoveOrphans<'_> {
        RemoveOrphans { bucket: self, older_than }
    }

    /// Removes the chunks of an upload, if they are orphans still. Returns how many they were.
    fn remove_orphan(&self, id: &Bson, older_than: Duration) -> Result<u64> {
        // From here on no upload of this process can begin with the `_id`; one that has begun keeps its chunks.
        let Some(_claim) = self.parts.shared.uploads.try_claim(self.key_of(id)?, id, Purpose::Removal)?
        else {
            return Ok(0);
        };
        if self.has_file(id)? {
            return Ok(0);
        }
        // Once more, as it is now: the cursor that found it shows what was there when the search began.
        let mut newest = None;
        for chunk in self.parts.chunks.find(chunks_of(id)).projection(doc! { "_id": 1 }).run()? {
            newest = newest.max(made_at(chunk?.get_object_id("_id").ok()));
        }
        // A driver has gone on since.
        if !is_old(newest, older_than) {
            return Ok(0);
        }
        self.delete_chunks(chunks_of(id))
    }
}

/// The action that [`GridFsBucket::find_orphans`] returns. [`run`](Self::run) executes it.
#[must_use = "the search is done by run()"]
pub struct FindOrphans<'a> {
    bucket: &'a GridFsBucket,
    older_than: Duration,
}

/// The action that [`GridFsBucket::remove_orphans`] returns. [`run`](Self::run) executes it.
#[must_use = "the orphans are removed by run()"]
pub struct RemoveOrphans<'a> {
    bucket: &'a GridFsBucket,
    older_than: Duration,
}

impl FindOrphans<'_> {
    /// Sets the age that the newest chunk of an upload must have. See
    /// [`remove_orphans`](GridFsBucket::remove_orphans).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let client = Client::in_memory()?;
    /// let bucket = client.database("media").gridfs_bucket(None);
    /// assert_eq!(bucket.find_orphans().older_than(Duration::from_secs(3600)).run()?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Starts the search. All chunks are looked at by their index, without their data.
    pub fn run(self) -> Result<OrphanedUploads> {
        let Self { bucket, older_than } = self;
        let fields = doc! { "_id": 1, "files_id": 1, "n": 1 };
        // These fields are in the index and the `_id` is in its entries, so no data are read.
        let by_file = bucket.parts.chunks.clone_with_type::<Document>();
        let chunks = by_file.find(doc! {}).sort(doc! { "files_id": 1, "n": 1 }).projection(fields).run()?;
        Ok(OrphanedUploads { bucket: bucket.clone(), chunks, pending: None, older_than })
    }
}

impl RemoveOrphans<'_> {
    /// Removes the orphans, one upload after the other.
    pub fn run(self) -> Result<RemoveOrphansResult> {
        let Self { bucket, older_than } = self;
        let mut removed = RemoveOrphansResult::default();
        // One after the other, so that any number of them uses no memory.
        for orphan in bucket.find_orphans().older_than(older_than).run()? {
            // 0 if it is an orphan no more.
            let chunks = bucket.remove_orphan(&orphan?.id, older_than)?;
            removed.uploads += u64::from(chunks > 0);
            removed.chunks += chunks;
        }
        Ok(removed)
    }
}

/// The result of [`GridFsBucket::remove_orphans`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveOrphansResult {
    /// The number of uploads whose chunks were removed.
    pub uploads: u64,
    /// The number of chunks.
    pub chunks: u64,
}

/// Chunks of a file that has no document, as [`GridFsBucket::find_orphans`] finds them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OrphanedUpload {
    /// The `_id` that the file was to get.
    pub id: Bson,
    /// The number of its chunks.
    pub chunks: u64,
    /// The time of the newest of them, by its `_id`. `None` if no `_id` of them is an `ObjectId`.
    pub newest: Option<DateTime>,
}

/// The orphans of a bucket, one after the other: the result of [`GridFsBucket::find_orphans`].
///
/// It shows the chunks as they were when it was opened, and leaves out files that were made since. It keeps the folder open until
/// it is dropped, as a [`Cursor`] does.
pub struct OrphanedUploads {
    bucket: GridFsBucket,
    /// All chunks, those of a file next to each other.
    chunks: Cursor<Document>,
    /// The file whose chunks are being counted.
    pending: Option<(FileKey, OrphanedUpload)>,
    older_than: Duration,
}

impl OrphanedUploads {
    /// The chunks of the next file, whether it has a document or not.
    fn next_file(&mut self) -> Result<Option<(FileKey, OrphanedUpload)>> {
        while let Some(chunk) = self.chunks.next().transpose()? {
            // A chunk without the field belongs to the file null, as the index has it.
            let newest = made_at(chunk.get_object_id("_id").ok());
            let id = chunk.get(FILES_ID).cloned().unwrap_or(Bson::Null);
            let key = self.bucket.key_of(&id)?;
            if let Some((counted, file)) = &mut self.pending
                && *counted == key
            {
                file.chunks += 1;
                file.newest = file.newest.max(newest);
                continue;
            }
            let next = Some((key, OrphanedUpload { id, chunks: 1, newest }));
            if let Some(file) = std::mem::replace(&mut self.pending, next) {
                return Ok(Some(file));
            }
        }
        Ok(self.pending.take())
    }

    fn next_orphan(&mut self) -> Result<Option<OrphanedUpload>> {
        while let Some((key, file)) = self.next_file()? {
            // In this order, as the header says.
            let is_claimed = || self.bucket.parts.shared.uploads.is_claimed(&key);
            let is_orphan = is_old(file.newest, self.older_than)
                && !is_claimed()
                && !self.bucket.has_file(&file.id)?
                // A removal may have begun since, and has removed the document.
                && !is_claimed()
                // A removal may have ended since the search began.
                && self.bucket.has_chunks(&file.id)?;
            if is_orphan {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

impl Iterator for OrphanedUploads {
    type Item = Result<OrphanedUpload>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_orphan().transpose()
    }
}

impl std::fmt::Debug for OrphanedUploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrphanedUploads").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// The time of an `_id`.
fn made_at(id: Option<ObjectId>) -> Option<DateTime> {
    id.map(|id| id.timestamp())
}

/// Whether chunks whose newest was made then are old enough.
fn is_old(newest: Option<DateTime>, older_than: Duration) -> bool {
    let age_min = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    // Zero means all, also those whose age is not known.
    age_min == 0
        || newest.is_some_and(|made| {
            DateTime::now().timestamp_millis().saturating_sub(made.timestamp_millis()) > age_min
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_old_is_old() {
        let hour = Duration::from_secs(3600);
        let ago =
            |seconds: i64| Some(DateTime::from_millis(DateTime::now().timestamp_millis() - seconds * 1000));
        assert!(is_old(ago(3700), hour));
        assert!(!is_old(ago(3500), hour));
        assert!(!is_old(ago(-3700), hour), "a clock that is ahead");
        assert!(!is_old(None, hour));
        assert!(is_old(None, Duration::ZERO) && is_old(ago(-60), Duration::ZERO));
        assert!(!is_old(Some(DateTime::MIN), Duration::MAX));
    }
}
