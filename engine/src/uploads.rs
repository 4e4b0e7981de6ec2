//! The work on the chunks of a file: the uploads and removals of this process.
//!
//! Chunks without the document of a file are what a killed upload leaves, and also what a running upload has. Only this list
//! can distinguish the two. So each upload and removal of the API holds a claim on the file's `_id` from before the first
//! chunk until after the document of the file. Clients of a server have no claims: what they upload is known by its age.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::error::{Error, Result};
use base::gridfs_error::GridFsErrorKind;
use base::namespace::Namespace;
use base::sync::{Condvar, Mutex};
use bson::Bson;
use store::fork;

/// A file of a bucket: the namespace of its chunks, and its `_id` as bytes, which are equal for equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub(crate) chunks: Namespace,
    pub(crate) id: Vec<u8>,
}

/// The purpose of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// As long as the caller needs to write the file.
    Upload,
    /// As long as some deletes last.
    Removal,
}

/// The claims of a client.
#[derive(Default)]
pub(crate) struct Uploads {
    claims: Mutex<Claims>,
    released: Condvar,
}

#[derive(Default)]
struct Claims {
    files: HashMap<FileKey, (Purpose, Bson)>,
    /// The chunks of buckets that are being dropped.
    buckets: HashSet<Namespace>,
}

/// A claim. Dropping it releases the file.
pub(crate) struct Claim {
    uploads: Arc<Uploads>,
    key: FileKey,
}

/// A claim on all files of a bucket, those that there may be among them. Dropping it releases them.
pub(crate) struct BucketClaim {
    uploads: Arc<Uploads>,
    chunks: Namespace,
}

/// The claims of one moment.
pub(crate) struct Claimed {
    files: HashSet<FileKey>,
    buckets: HashSet<Namespace>,
}

impl Uploads {
    /// Claims a file. Waits for the end of a removal, also of the whole bucket; fails if an upload has the file.
    pub(crate) fn claim(self: &Arc<Self>, key: FileKey, id: &Bson, purpose: Purpose) -> Result<Claim> {
        self.try_claim(key, id, purpose)?
            .ok_or_else(|| Error::from(GridFsErrorKind::upload_running(id.clone())))
    }

    /// Claims a file. Waits for the end of a removal, also of the whole bucket; returns `None` if an upload has the file.
    pub(crate) fn try_claim(
        self: &Arc<Self>,
        key: FileKey,
        id: &Bson,
        purpose: Purpose,
    ) -> Result<Option<Claim>> {
        // In a forked child a thread that is not there may hold the lock.
        fork::refuse_child()?;
        let mut claims = self.claims.lock();
        loop {
            match claims.files.get(&key) {
                // As short as a removal, and what is written before its end would be lost in part.
                _ if claims.buckets.contains(&key.chunks) => self.released.wait(&mut claims),
                None => break,
                // An upload lasts as long as its caller likes, so it is not waited for.
                Some((Purpose::Upload, _)) => return Ok(None),
                Some((Purpose::Removal, _)) => self.released.wait(&mut claims),
            }
        }
        // Under the same lock as the look at it: two callers cannot both find it free.
        claims.files.insert(key.clone(), (purpose, id.clone()));
        Ok(Some(Claim { uploads: Arc::clone(self), key }))
    }

    /// Claims the bucket with these chunks, for its removal. Waits for the end of another one; fails if an upload to it is
    /// running. Until the claim is dropped none begins.
    pub(crate) fn claim_bucket(self: &Arc<Self>, chunks: &Namespace) -> Result<BucketClaim> {
        // As above: the lock is not for a forked child.
        fork::refuse_child()?;
        let mut claims = self.claims.lock();
        while claims.buckets.contains(chunks) {
            self.released.wait(&mut claims);
        }
        let mut files = claims.files.iter().filter(|(key, _)| key.chunks == *chunks);
        // The removal of a file may go on: it removes nothing but what goes anyway.
        if let Some((_, (_, id))) = files.find(|(_, (purpose, _))| *purpose == Purpose::Upload) {
            return Err(Error::from(GridFsErrorKind::upload_running(id.clone())));
        }
        // Under the same lock as the look at the uploads: none can begin between the two.
        claims.buckets.insert(chunks.clone());
        Ok(BucketClaim { uploads: Arc::clone(self), chunks: chunks.clone() })
    }

    /// Whether an upload or a removal has the file.
    pub(crate) fn is_claimed(&self, key: &FileKey) -> bool {
        let claims = self.claims.lock();
        claims.files.contains_key(key) || claims.buckets.contains(&key.chunks)
    }

    /// The present claims.
    pub(crate) fn claimed(&self) -> Claimed {
        let claims = self.claims.lock();
        Claimed { files: claims.files.keys().cloned().collect(), buckets: claims.buckets.clone() }
    }
}

impl Claimed {
    /// Whether an upload or a removal had the file.
    pub(crate) fn has(&self, key: &FileKey) -> bool {
        self.files.contains(key) || self.buckets.contains(&key.chunks)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A forked child has a copy of the list, and its lock may be held for ever.
        if !fork::is_child() {
            self.uploads.claims.lock().files.remove(&self.key);
            // All: they wait for different files.
            self.uploads.released.notify_all();
        }
    }
}

impl Drop for BucketClaim {
    fn drop(&mut self) {
        // As above.
        if !fork::is_child() {
            self.uploads.claims.lock().buckets.remove(&self.chunks);
            self.uploads.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn key(chunks: &Namespace, id: u8) -> FileKey {
        FileKey { chunks: chunks.clone(), id: vec![id] }
    }

    #[test]
    fn no_file_is_claimed_while_its_bucket_is() {
        let uploads = Arc::new(Uploads::default());
        let chunks = Namespace::parse("media", "fs.chunks").expect("a name");
        let others = Namespace::parse("media", "others.chunks").expect("a name");
        let upload = uploads.claim(key(&chunks, 1), &Bson::Int32(1), Purpose::Upload).expect("free");
        assert!(uploads.claim_bucket(&chunks).is_err(), "an upload is running");
        drop(upload);
        // A removal of a file removes nothing but what goes anyway.
        let removal = uploads.claim(key(&chunks, 1), &Bson::Int32(1), Purpose::Removal).expect("free");
        let bucket = uploads.claim_bucket(&chunks).expect("no upload is running");
        drop(removal);
        assert!(uploads.is_claimed(&key(&chunks, 2)) && uploads.claimed().has(&key(&chunks, 2)));
        assert!(!uploads.is_claimed(&key(&others, 2)) && !uploads.claimed().has(&key(&others, 2)));
        drop(uploads.claim(key(&others, 2), &Bson::Int32(2), Purpose::Upload).expect("another bucket"));
        let is_released = AtomicBool::new(false);
        thread::scope(|scope| {
            let (uploads, chunks, is_released) = (&uploads, &chunks, &is_released);
            let waiting: Vec<_> = [Purpose::Upload, Purpose::Removal]
                .into_iter()
                .zip(2..)
                .map(|(purpose, id)| {
                    scope.spawn(move || {
                        let claim = uploads.claim(key(chunks, id), &Bson::Int32(0), purpose).expect("free");
                        assert!(is_released.load(Ordering::Acquire), "{purpose:?} did not wait");
                        drop(claim);
                    })
                })
                .collect();
            for _ in 0..1000 {
                thread::yield_now();
            }
            is_released.store(true, Ordering::Release);
            drop(bucket);
            for waiting in waiting {
                waiting.join().expect("it waited");
            }
        });
        assert!(!uploads.is_claimed(&key(&chunks, 2)));
    }
}
