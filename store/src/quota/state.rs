//! The state of a quota: credits of writes, running writes, and deleted keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use base::sync::{AtomicBool, AtomicU64, Mutex};
use crossbeam::channel::Sender;
use rocksfile::batch::Batch;
use rocksfile::table::ChangeKind;

use crate::keys::ID_BYTES;
use crate::quota::gate::Gate;

/// The limit of known spans of deleted keys. More are one span for each family.
const SPANS_MAX: usize = 1024;

/// The last rejection of a put.
pub(super) struct Refused {
    pub(super) at: Instant,
    /// The bytes that it asked for. Less may still have room.
    pub(super) bytes: u64,
    /// The number of times that space had been freed by then: deleted keys reclaimed, or a temporary file dropped.
    pub(super) reclaimed: u64,
}

/// The quota of an open database.
pub(crate) struct Quota {
    pub(super) limit: u64,
    pub(super) memtable: u64,
    /// The size that compactions and deletes may give the folder: the quota, or more if the folder had more when it
    /// was opened.
    pub(super) most: u64,
    /// The bytes that may still be charged before the folder is measured again.
    pub(super) puts: AtomicU64,
    /// The bytes that may still be charged for deletes.
    pub(super) deletes: AtomicU64,
    /// Held from a measurement of the folder until what follows from it for the credits is noted.
    pub(super) measuring: Mutex<()>,
    /// The gate at which compactions wait before they begin.
    pub(super) gate: Arc<Gate>,
    /// The charge of writes that have not returned.
    pub(super) pending: AtomicU64,
    pub(super) is_full: AtomicBool,
    /// Whether compactions are paused or about to be.
    pub(super) is_paused: AtomicBool,
    /// Whether nothing can be compacted, because a cursor keeps the tables that would be replaced, and too little room is left for
    /// both.
    pub(super) is_pinned: AtomicBool,
    /// Whether the last reclaiming left something, because a reader keeps it.
    pub(super) is_kept: AtomicBool,
    /// The put that was rejected last. Held by the put that measures.
    pub(super) refused: Mutex<Option<Refused>>,
    /// Held by the delete that measures.
    pub(super) deleting: Mutex<()>,
    /// The deleted keys that have yet to be compacted away.
    pub deleted: Deleted,
}

/// A write that was charged and has not returned. Its bytes are not in any file yet, as far as is known.
pub(crate) struct Charged<'a> {
    pending: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Charged<'a> {
    pub(super) fn new(pending: &'a AtomicU64, bytes: u64) -> Self {
        pending.fetch_add(bytes, Ordering::AcqRel);
        Self { pending, bytes }
    }
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        self.pending.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The first and the last deleted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: Vec<u8>,
    pub(super) last: Vec<u8>,
}

impl Span {
    fn add(&mut self, first: &[u8], last: &[u8]) {
        if first < self.first.as_slice() {
            self.first = first.to_vec();
        }
        if last > self.last.as_slice() {
            self.last = last.to_vec();
        }
    }
}

/// The spans by family and by collection or index.
pub(super) type Spans = BTreeMap<(u32, Vec<u8>), Span>;

/// The keys that were deleted since the last reclaiming.
#[derive(Default)]
pub(crate) struct Deleted {
    pub(super) spans: Mutex<Spans>,
    /// Wakes the thread. Absent until it runs, and after it has ended.
    pub(super) wake: Mutex<Option<Sender<()>>>,
    /// The number of requests to reclaim.
    pub(super) asked: AtomicU64,
    /// Up to which of these it is done.
    pub(super) done: AtomicU64,
}

impl Deleted {
    /// Notes what a batch in RocksDB's format has deleted, after it was written.
    pub(crate) fn note(&self, batch: &[u8]) {
        let mut spans = self.spans.lock();
        for change in Batch::parse(batch).into_iter().flat_map(|batch| batch.changes()) {
            let last = match change.kind {
                ChangeKind::Deletion => change.key,
                ChangeKind::RangeDeletion => change.value,
                ChangeKind::Value | ChangeKind::Other(_) => continue,
            };
            let whose = change.key.get(..ID_BYTES).unwrap_or(change.key);
            // With too many spans it is one for all collections.
            let whose = if spans.len() < SPANS_MAX { whose } else { &[] };
            let new = || Span { first: change.key.to_vec(), last: last.to_vec() };
            spans.entry((change.family, whose.to_vec())).or_insert_with(new).add(change.key, last);
        }
    }

    /// Notes spans again that were not reclaimed.
    pub(super) fn put_back(&self, spans: Spans) {
        let mut noted = self.spans.lock();
        for (whose, Span { first, last }) in spans {
            let new = || Span { first: first.clone(), last: last.clone() };
            noted.entry(whose).or_insert_with(new).add(&first, &last);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.lock().is_empty()
    }

    /// The number of times that it was reclaimed.
    pub(super) fn reclaimed(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    pub(super) fn is_reclaiming(&self) -> bool {
        self.done.load(Ordering::Acquire) != self.asked.load(Ordering::Acquire)
    }

    /// Lets the thread reclaim what was deleted. Returns `false` if that is nothing.
    pub(super) fn reclaim(&self) -> bool {
        let wake = self.wake.lock();
        let Some(wake) = wake.as_ref().filter(|_| !self.is_empty()) else { return false };
        self.asked.fetch_add(1, Ordering::AcqRel);
        // No error: a full channel means that the thread has yet to begin.
        let _ = wake.try_send(());
        true
    }
}
