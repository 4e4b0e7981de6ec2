//! Orphans: chunks of files that have no document. They are distinguished from findings, because nothing is damaged.
//!
//! Chunks are looked at while the records are read anyway. Those of one file mostly follow each other, so each file is looked up
//! about once, and the list is bounded whatever the chunks say.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base::error::Result;
use bson::oid::ObjectId;
use bson::{Bson, DateTime, RawBsonRef, RawDocument};
use index::key::LongKeys;
use store::Family;
use store::keys::CollectionId;

use crate::audit::{Audited, Subject};
use crate::document::print::print_value;
use crate::orphans::{FILES_ID, NUMBER, OrphanedChunks, are_keys, files_of};
use crate::results::VerifyReport;
use crate::uploads::FileKey;
use crate::write::prepare::record_key_of;

/// From how many bytes on a file is listed by a hash of its `_id`, which may be nearly as large as a document.
const KEY_BYTES_MAX: usize = 1024;
/// The number of characters of an `_id` that are shown.
const SHOWN_MAX: usize = 200;

/// The orphans that were met so far.
#[derive(Default)]
pub(super) struct Orphans {
    /// The collections with chunks, each with that of its files if there is one. Filled as they are met.
    buckets: HashMap<u32, Bucket>,
    /// The file of the last chunk, and whether it has no document.
    last: Option<(FileKey, bool)>,
    listed: HashMap<FileKey, OrphanedChunks>,
    omitted: u64,
}

/// The content of a collection of a bucket.
#[derive(Clone, Copy)]
enum Bucket {
    /// Chunks of the files in this collection.
    Files(CollectionId),
    /// Chunks, and there is no collection of their files.
    NoFiles,
    /// Other documents.
    NoChunks,
}

impl Orphans {
    /// Looks at a valid document.
    pub(super) fn see(&mut self, subject: &Subject, audited: &Audited, document: &RawDocument) -> Result<()> {
        let bucket = self.bucket(subject, audited);
        if matches!(bucket, Bucket::NoChunks) {
            return Ok(());
        }
        let Ok(id) = document.get(FILES_ID) else { return Ok(()) };
        let id = id.unwrap_or(RawBsonRef::Null);
        let key = FileKey {
            chunks: audited.namespace.clone(),
            id: record_key_of(CollectionId(0), LongKeys::Whole, id),
        };
        let is_uploading = subject.uploading.has(&key);
        let key = shortened(key);
        let is_orphan = match &self.last {
            Some((last, is_orphan)) if *last == key => *is_orphan,
            _ => {
                let has_file = match bucket {
                    Bucket::Files(files) => {
                        let audited = subject.collections.get(&files.0);
                        let long_keys = audited.map_or(LongKeys::Whole, |files| files.record_keys.long_keys);
                        let key = record_key_of(files, long_keys, id);
                        subject.snapshot.get(Family::Records, &key)?.is_some()
                    }
                    Bucket::NoFiles | Bucket::NoChunks => false,
                };
                let is_orphan = !has_file && !is_uploading;
                // A file is counted once for each row of its chunks, where the list is full.
                if is_orphan
                    && !self.listed.contains_key(&key)
                    && self.listed.len() >= VerifyReport::FINDINGS_MAX
                {
                    self.omitted += 1;
                }
                self.last = Some((key.clone(), is_orphan));
                is_orphan
            }
        };
        if is_orphan {
            self.add(&key, id, document);
        }
        Ok(())
    }

    fn add(&mut self, key: &FileKey, id: RawBsonRef<'_>, document: &RawDocument) {
        // Checked for each chunk, because a file that is not listed stays so.
        if !self.listed.contains_key(key) && self.listed.len() >= VerifyReport::FINDINGS_MAX {
            return;
        }
        let place = || key.chunks.to_string();
        let orphans = self.listed.entry(key.clone()).or_insert_with(|| OrphanedChunks {
            place: place(),
            files_id: shown(id),
            chunks: 0,
            bytes: 0,
            newest: None,
        });
        orphans.chunks += 1;
        orphans.bytes += document.as_bytes().len() as u64;
        orphans.newest = orphans.newest.max(made_at(document.get_object_id("_id").ok()));
    }

    /// The content of the audited collection: chunks, if it has the name and the index that every bucket has.
    fn bucket(&mut self, subject: &Subject, audited: &Audited) -> Bucket {
        // Nearly all collections end here.
        let Some(files) = files_of(&audited.namespace) else { return Bucket::NoChunks };
        *self.buckets.entry(audited.id.0).or_insert_with(|| {
            if !audited.indexes.iter().any(|index| are_keys(&index.key_pattern(), [FILES_ID, NUMBER])) {
                return Bucket::NoChunks;
            }
            let found = subject.collections.values().find(|other| other.namespace == files);
            found.map_or(Bucket::NoFiles, |files| Bucket::Files(files.id))
        })
    }

    pub(super) fn report_into(self, report: &mut VerifyReport) {
        // Sorted, so that two reports of the same store are the same.
        let mut listed: Vec<OrphanedChunks> = self.listed.into_values().collect();
        listed.sort_by(|one, other| (&one.place, &one.files_id).cmp(&(&other.place, &other.files_id)));
        (report.orphans, report.orphans_omitted) = (listed, self.omitted);
    }
}

/// The key with a hash in place of a long `_id`. Should two of a report have the same, they are counted as one upload.
fn shortened(mut key: FileKey) -> FileKey {
    if key.id.len() > KEY_BYTES_MAX {
        let mut hasher = DefaultHasher::new();
        key.id.hash(&mut hasher);
        key.id.truncate(KEY_BYTES_MAX);
        key.id.extend(hasher.finish().to_le_bytes());
        key.id.shrink_to_fit();
    }
    key
}

fn made_at(id: Option<ObjectId>) -> Option<DateTime> {
    id.map(|id| id.timestamp())
}

/// An `_id` in a report. It may be any value, and nearly as large as a document.
fn shown(id: RawBsonRef<'_>) -> String {
    let mut text = Bson::try_from(id).map(|id| print_value(&id)).unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}
