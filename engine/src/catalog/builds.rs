//! The index builds of a collection that are running, and what writers and the builds report to each other.
//!
//! A build reads the collection at several moments, one after the other. Between two of them every write leaves a note of
//! the record that it changed: an entry under an id that the build owns, in the batch of the write. The notes between two
//! moments are a round. A writer looks up builds and round while it holds the latches of what it writes, and a build ends a
//! round while it holds all latches. So every write is either in the snapshot that ends a round or notes the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::error::Result;
use base::namespace::Namespace;
use base::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, RwLock};
use store::Family;
use store::handles::Storage;
use store::keys::{ID_BYTES, IndexId};
use store::snapshot::Snapshot;
use store::write::Batch;

use crate::catalog::indexes::Index;
use crate::progress::{IndexBuildPhase, IndexBuildProgress};

/// Length of a round in the key of a note.
const ROUND_BYTES: usize = 4;
/// The weight of a note in addition to its document: the work that does not depend on the document's length.
const NOTE_WEIGHT: u64 = 256;

/// The running builds of a collection.
#[derive(Default)]
pub(crate) struct Builds {
    /// The number of running builds. Writers look here first.
    running: AtomicUsize,
    list: RwLock<Vec<Arc<Build>>>,
    /// Wakes those that wait for the end of a build.
    ended: Condvar,
    waiting: Mutex<()>,
}

/// A running build.
pub(crate) struct Build {
    pub(crate) index: Index,
    /// The id of the notes.
    pub(crate) log: IndexId,
    round: AtomicU32,
    /// The weight of the notes of the round.
    noted: AtomicU64,
    /// The reason why it must end, as a byte; 0 while it may continue.
    end: AtomicU8,
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
}

/// The reasons why a build must end before it is done, the most final one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildEnd {
    /// The collection was dropped, or renamed.
    CollectionGone,
    /// The index is to be dropped.
    IndexDropped,
    /// Documents were removed as a range: what was read is out of date, and the build must begin again.
    RecordsRemoved,
}

impl BuildEnd {
    const ALL: [Self; 3] = [Self::CollectionGone, Self::IndexDropped, Self::RecordsRemoved];

    fn to_byte(self) -> u8 {
        match self {
            Self::CollectionGone => 1,
            Self::IndexDropped => 2,
            Self::RecordsRemoved => 3,
        }
    }
}

impl Builds {
    /// Adds a build if `admit` returns `true`, and makes the snapshot that it starts from. `admit` gets the builds that are
    /// running, and no other is added meanwhile.
    pub(crate) fn begin(
        &self,
        storage: Storage<'_>,
        build: Build,
        admit: impl FnOnce(&[Arc<Build>]) -> Result<bool>,
    ) -> Result<Option<(Arc<Build>, Arc<Snapshot>)>> {
        // The latches first: writers acquire the lock of the list while they hold latches.
        let _latched = storage.store.latches.lock_all();
        let mut list = self.list.write();
        if !admit(&list)? {
            return Ok(None);
        }
        let build = Arc::new(build);
        list.push(Arc::clone(&build));
        self.running.store(list.len(), Ordering::Release);
        Ok(Some((build, Snapshot::take(storage.database))))
    }

    /// Removes a build. The caller makes sure that no writer is between its look at the builds and its commit.
    pub(crate) fn remove(&self, build: &Arc<Build>) {
        let mut list = self.list.write();
        list.retain(|other| !Arc::ptr_eq(other, build));
        self.running.store(list.len(), Ordering::Release);
        drop(list);
        let _waiting = self.waiting.lock();
        self.ended.notify_all();
    }

    /// The running builds, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Build>> {
        self.list.read().clone()
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// Adds to the batch of a write that it changes a record. The caller holds the record's latch until the commit returns.
    /// `bytes` is the length of the document.
    #[inline]
    pub(crate) fn note(&self, batch: &mut Batch<'_>, record_key: &[u8], bytes: usize) {
        if !self.is_idle() {
            self.note_in_all(batch, record_key, bytes);
        }
    }

    #[cold]
    fn note_in_all(&self, batch: &mut Batch<'_>, record_key: &[u8], bytes: usize) {
        let encoded_id = record_key.get(ID_BYTES..).unwrap_or_default();
        for build in self.list.read().iter() {
            let round = build.round.load(Ordering::Acquire);
            batch.put(Family::Entries, &[&build.round_prefix(round)[..], encoded_id].concat(), &[]);
            build.noted.fetch_add(Build::weight(bytes), Ordering::AcqRel);
        }
    }

    /// Asks the builds of which `is_meant` says so to end.
    pub(crate) fn end(&self, end: BuildEnd, is_meant: impl Fn(&Index) -> bool) -> Vec<Arc<Build>> {
        let mut meant = self.list();
        meant.retain(|build| is_meant(&build.index));
        for build in &meant {
            // The most final reason stays: a build whose collection is gone must not begin again.
            let (mut old, new) = (build.end.load(Ordering::Acquire), end.to_byte());
            while (old == 0 || new < old)
                && let Err(newer) = build.end.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            {
                old = newer;
            }
        }
        meant
    }

    /// Waits for a moment, and less if a build ends meanwhile.
    pub(crate) fn wait(&self, build: &Arc<Build>, moment: Duration) {
        let mut waiting = self.waiting.lock();
        // Looked at under the lock, so that the end of the build is not missed.
        if self.has(build) {
            self.ended.wait_for(&mut waiting, moment);
        }
    }

    /// Whether the build is still running.
    pub(crate) fn has(&self, build: &Arc<Build>) -> bool {
        self.list.read().iter().any(|other| Arc::ptr_eq(other, build))
    }
}

impl Build {
    /// A build that has not begun. `log` is the id of its notes.
    pub(crate) fn new(index: Index, log: IndexId) -> Self {
        Self {
            index,
            log,
            round: AtomicU32::new(0),
            noted: AtomicU64::new(0),
            end: AtomicU8::new(0),
            phase: AtomicU8::new(0),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// Ends a round at this moment. Returns its number, and a snapshot that has all its notes and no later write.
    pub(crate) fn end_round(&self, storage: Storage<'_>) -> (u32, Arc<Snapshot>) {
        let _latched = storage.store.latches.lock_all();
        self.noted.store(0, Ordering::Release);
        (self.round.fetch_add(1, Ordering::AcqRel), Snapshot::take(storage.database))
    }

    /// The weight of a note of a document of `bytes` bytes.
    pub(crate) fn weight(bytes: usize) -> u64 {
        NOTE_WEIGHT + bytes as u64
    }

    /// The weight of what was noted since the round began: about the bytes of the documents.
    pub(crate) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// The keys of the notes of a round: the first, and the end.
    pub(crate) fn notes(&self, round: u32) -> (Vec<u8>, Option<Vec<u8>>) {
        let end =
            round.checked_add(1).map_or_else(|| self.log.end(), |next| self.round_prefix(next).to_vec());
        (self.round_prefix(round).to_vec(), Some(end))
    }

    /// The encoded `_id` in the key of a note.
    pub(crate) fn noted_id(note: &[u8]) -> &[u8] {
        note.get(ID_BYTES + ROUND_BYTES..).unwrap_or_default()
    }

    /// The reason why the build must end. Returns `None` while it may go on.
    pub(crate) fn ended(&self) -> Option<BuildEnd> {
        let end = self.end.load(Ordering::Acquire);
        BuildEnd::ALL.into_iter().find(|reason| reason.to_byte() == end)
    }

    /// Notes how far the build is.
    pub(crate) fn advance(&self, phase: IndexBuildPhase, done: u64, total: u64) {
        self.phase.store(phase as u8, Ordering::Release);
        self.done.store(done, Ordering::Release);
        self.total.store(total, Ordering::Release);
    }

    /// The progress of the build.
    pub(crate) fn progress(&self, namespace: &Namespace) -> IndexBuildProgress {
        let phase = self.phase.load(Ordering::Acquire);
        let phases = [IndexBuildPhase::Scanning, IndexBuildPhase::Storing, IndexBuildPhase::Following];
        let phase = phases.into_iter().find(|other| *other as u8 == phase);
        IndexBuildProgress {
            namespace: namespace.to_string(),
            index_name: self.index.name.clone(),
            phase: phase.unwrap_or(IndexBuildPhase::Scanning),
            done: self.done.load(Ordering::Acquire),
            total: self.total.load(Ordering::Acquire),
        }
    }

    fn round_prefix(&self, round: u32) -> [u8; ID_BYTES + ROUND_BYTES] {
        let mut prefix = [0; ID_BYTES + ROUND_BYTES];
        let bytes = self.log.prefix().into_iter().chain(round.to_be_bytes());
        prefix.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        prefix
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use index::spec::{IndexSpec, SpecOptions};

    use super::*;
    use crate::catalog::indexes::{EntryDetail, IndexUses};
    use crate::catalog::multikey::IndexArrays;
    use crate::catalog::settings::IndexSettings;
    use store::leaf_switch::LeafSwitch;

    fn build() -> Build {
        let keys = rawdoc! { "a": 1 };
        let options = SpecOptions {
            uniqueness: index::spec::Uniqueness::NotUnique,
            sparseness: index::spec::Sparseness::NotSparse,
        };
        let spec = IndexSpec::parse(&keys, options).expect("a definition");
        let arrays = Arc::new(IndexArrays::none(1));
        let (settings, uses) = (IndexSettings::default(), Arc::new(IndexUses::starting_now()));
        let name = "a_1".to_owned();
        let detail = EntryDetail::Whole;
        let given_keys = Arc::default();
        let leaves = Arc::new(LeafSwitch::off());
        Build::new(
            Index { id: IndexId(8), name, spec, detail, settings, arrays, uses, given_keys, leaves },
            IndexId(7),
        )
    }

    #[test]
    fn notes_of_a_round_lie_between_its_bounds() {
        let build = build();
        for round in [0, 1, 255, u32::MAX] {
            let (first, end) = build.notes(round);
            let highest = [&build.round_prefix(round)[..], &[0xff; 40]].concat();
            assert!(first <= build.round_prefix(round).to_vec() && Some(&highest) < end.as_ref(), "{round}");
            assert_eq!(Build::noted_id(&highest), [0xff; 40]);
        }
    }

    #[test]
    fn the_most_final_reason_to_end_stays() {
        let builds = Builds::default();
        let build = Arc::new(build());
        builds.list.write().push(Arc::clone(&build));
        assert_eq!(build.ended(), None);
        assert!(builds.end(BuildEnd::IndexDropped, |index| index.name == "b_1").is_empty());
        assert_eq!(builds.end(BuildEnd::RecordsRemoved, |_| true).len(), 1);
        for end in [BuildEnd::CollectionGone, BuildEnd::IndexDropped] {
            builds.end(end, |_| true);
            assert_eq!(build.ended(), Some(BuildEnd::CollectionGone));
        }
    }
}
