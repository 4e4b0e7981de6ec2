//! Who works on the chunks of a file: the uploads and removals of this process.
//!
//! Chunks without the document of a file are what a killed upload leaves, and also what a running upload has. Only this list
//! can tell the two apart. So each upload and removal of the API holds a claim on the file's `_id` from before the first
//! chunk until after the document of the file. Clients of a server have no claims: what they upload is told by its age.

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

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// As long as the caller takes to write the file.
    Upload,
    /// As long as some deletes take.
    Removal,
}

/// The claims of a client.
#[derive(Default)]
pub(crate) struct Uploads {
    claims: Mutex<HashMap<FileKey, (Purpose, Bson)>>,
    released: Condvar,
}

/// A claim. Dropping it releases the file.
pub(crate) struct Claim {
    uploads: Arc<Uploads>,
    key: FileKey,
}

impl Uploads {
    /// Claims a file. Waits for the end of a removal; fails if an upload has the file.
    pub(crate) fn claim(self: &Arc<Self>, key: FileKey, id: &Bson, purpose: Purpose) -> Result<Claim> {
        self.try_claim(key, id, purpose)?
            .ok_or_else(|| Error::from(GridFsErrorKind::upload_running(id.clone())))
    }

    /// Claims a file. Waits for the end of a removal; returns `None` if an upload has the file.
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
            match claims.get(&key) {
                None => break,
                // An upload lasts as long as its caller likes, so it is not waited for.
                Some((Purpose::Upload, _)) => return Ok(None),
                Some((Purpose::Removal, _)) => self.released.wait(&mut claims),
            }
        }
        // Under the same lock as the look at it: two callers cannot both find it free.
        claims.insert(key.clone(), (purpose, id.clone()));
        Ok(Some(Claim { uploads: Arc::clone(self), key }))
    }

    /// Whether an upload or a removal has the file.
    pub(crate) fn is_claimed(&self, key: &FileKey) -> bool {
        self.claims.lock().contains_key(key)
    }

    /// The `_id` of an upload to the bucket with these chunks, if one is running.
    pub(crate) fn any_to(&self, chunks: &Namespace) -> Result<Option<Bson>> {
        // As above: the lock is not for a forked child.
        fork::refuse_child()?;
        let claims = self.claims.lock();
        let mut uploads = claims.iter().filter(|(_, (purpose, _))| *purpose == Purpose::Upload);
        Ok(uploads.find(|(key, _)| key.chunks == *chunks).map(|(_, (_, id))| id.clone()))
    }

    /// All files that have a claim now.
    pub(crate) fn claimed(&self) -> HashSet<FileKey> {
        self.claims.lock().keys().cloned().collect()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A forked child has a copy of the list, and its lock may be held for ever.
        if !fork::is_child() {
            self.uploads.claims.lock().remove(&self.key);
            // All: they wait for different files.
            self.uploads.released.notify_all();
        }
    }
}
