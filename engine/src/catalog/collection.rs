//! A collection in memory: its number, its indexes and numbered fields behind a gate, what is known of its keys and its count.
//!
//! A writer holds the gate shared from before it looks at the indexes until its commit returned; whoever changes
//! them or retires the collection holds it exclusively. So no write can miss an index, and none can land
//! in a dropped collection.
//!
//! Readers hold no gate. What would take something from a snapshot of theirs (the end of the collection, the removal
//! of an index) is announced in [`Changes`] before its commit, so that a reader who looks there after its snapshot was
//! taken knows whether the snapshot can lack it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crossbeam::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::catalog::indexes::Index;
use crate::catalog::sequences::AutoFields;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::storage::keys::CollectionId;

pub(crate) struct CollectionState {
    pub(crate) id: CollectionId,
    pub(crate) namespace: Namespace,
    gate: ShardedLock<Definition>,
    /// The same indexes for readers, who never wait for a build.
    published: RwLock<Arc<[Index]>>,
    /// As [`Changes`] reads them.
    changes: AtomicU64,
    /// Held while arrays are written down that the catalog entry does not know of, until they are committed: each entry
    /// must have what those before it have.
    pub(crate) noting_arrays: Mutex<()>,
    pub(crate) key_bound: KeyBound,
    pub(crate) count: DocumentCount,
}

/// What writers keep to: the indexes, and the fields that number themselves.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) indexes: Arc<[Index]>,
    pub(crate) fields: Arc<AutoFields>,
}

/// What was announced to the readers of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changes(u64);

/// Whether a key can be in the collection without having been looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The key is beyond every key ever admitted: it cannot be there, nor on its way.
    Proven,
    /// Only a lookup can tell.
    Unproven,
}

/// The highest record key ever admitted. A key above it needs no uniqueness check.
///
/// The bound is raised before the write is committed and never lowered, so that it covers writes on their way,
/// and stays right when one of them fails.
#[derive(Default)]
pub(crate) struct KeyBound {
    /// Absent until the last stored key was read.
    highest: Mutex<Option<Vec<u8>>>,
}

/// The number of documents, once it is known.
///
/// Writers add to it while they hold the latches of what they wrote. So a thread that holds all latches finds counter and
/// store at one moment, without waiting for any operation to end.
#[derive(Default)]
pub(crate) struct DocumentCount {
    /// All of them if they are known, else how many came (or, below zero, went) since the collection was opened.
    documents: AtomicI64,
    known: AtomicBool,
    /// Held while it is set or made known, for a moment.
    settling: Mutex<()>,
    /// Held by a reader who counts, for as long as that takes: one count is enough for all who ask.
    counting: Mutex<()>,
}

/// Where a counter stood at the moment of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterMark(i64);

impl CollectionState {
    pub(crate) fn new(id: CollectionId, namespace: Namespace, definition: Definition) -> Self {
        Self {
            id,
            namespace,
            published: RwLock::new(Arc::clone(&definition.indexes)),
            gate: ShardedLock::new(definition),
            changes: AtomicU64::new(0),
            noting_arrays: Mutex::new(()),
            key_bound: KeyBound::default(),
            count: DocumentCount::default(),
        }
    }

    /// Shared use for one write; `None` if the collection was dropped or renamed.
    #[inline]
    pub(crate) fn enter(&self) -> Option<ShardedLockReadGuard<'_, Definition>> {
        let guard = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        (!self.is_retired()).then_some(guard)
    }

    /// Exclusive use: no write is under way while the guard lives.
    pub(crate) fn enter_alone(&self) -> ShardedLockWriteGuard<'_, Definition> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The indexes as they are now, for reading.
    pub(crate) fn indexes(&self) -> Arc<[Index]> {
        Arc::clone(&self.published.read())
    }

    /// The definition as it is now, for reading. It waits for a change that is under way.
    pub(crate) fn definition(&self) -> Definition {
        self.gate.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a built index, for writers and readers. The caller holds the gate exclusively, and has committed it.
    pub(crate) fn add_index(&self, held: &mut Definition, index: Index) {
        held.indexes = held.indexes.iter().cloned().chain([index]).collect();
        *self.published.write() = Arc::clone(&held.indexes);
    }

    /// Takes indexes from readers and, by `commit`, from the disk: only those of `kept` stay. If the commit fails, all
    /// of them stay. The caller holds the gate exclusively.
    pub(crate) fn withdraw_indexes(
        &self,
        held: &mut Definition,
        kept: Vec<Index>,
        commit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let kept: Arc<[Index]> = kept.into();
        *self.published.write() = Arc::clone(&kept);
        // After the list and before the commit: a reader who finds the same number before it takes the list and after
        // it took a snapshot has no index whose entries the snapshot lacks.
        self.changes.fetch_add(Changes::WITHDRAWAL, Ordering::AcqRel);
        let committed = commit();
        match committed {
            Ok(()) => held.indexes = kept,
            Err(_) => *self.published.write() = Arc::clone(&held.indexes),
        }
        committed
    }

    /// What was announced until now.
    #[inline]
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.changes.load(Ordering::Acquire))
    }

    /// Dropped or renamed: a caller that holds this state must look the name up again.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.changes().0 & Changes::RETIRED != 0
    }

    /// Drops or renames the collection by `commit`, and retires this state of it if that succeeds. The caller holds the
    /// gate exclusively.
    pub(crate) fn end(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        self.changes.fetch_or(Changes::ENDING, Ordering::AcqRel);
        let committed = commit();
        match committed {
            Ok(()) => self.changes.fetch_or(Changes::RETIRED, Ordering::AcqRel),
            Err(_) => self.changes.fetch_and(!Changes::ENDING, Ordering::AcqRel),
        };
        committed
    }

    /// The same collection under another name. The old state must be retired under its gate.
    pub(crate) fn renamed(&self, namespace: Namespace, definition: &Definition) -> Self {
        Self {
            id: self.id,
            namespace,
            gate: ShardedLock::new(definition.clone()),
            published: RwLock::new(Arc::clone(&definition.indexes)),
            changes: AtomicU64::new(0),
            noting_arrays: Mutex::new(()),
            key_bound: KeyBound { highest: Mutex::new(self.key_bound.highest.lock().clone()) },
            count: self.count.moved(),
        }
    }
}

impl Changes {
    /// The collection is being dropped or renamed, or was. A later snapshot may lack it.
    const ENDING: u64 = 1;
    /// That was done.
    const RETIRED: u64 = 2;
    /// Added for each time that indexes were taken away.
    const WITHDRAWAL: u64 = 4;

    /// Whether a snapshot that was taken before can lack the collection.
    #[inline]
    pub(crate) fn is_ending(self) -> bool {
        self.0 & Self::ENDING != 0
    }

    /// Whether indexes were taken away since `earlier`.
    pub(crate) fn has_withdrawn_since(self, earlier: Self) -> bool {
        self.0 / Self::WITHDRAWAL != earlier.0 / Self::WITHDRAWAL
    }
}

impl Definition {
    /// A definition with indexes and no fields that number themselves.
    pub(crate) fn of_indexes(indexes: Vec<Index>) -> Self {
        Self { indexes: indexes.into(), fields: Arc::default() }
    }

    /// The same indexes with other fields.
    pub(crate) fn with_fields(&self, fields: AutoFields) -> Self {
        Self { indexes: Arc::clone(&self.indexes), fields: Arc::new(fields) }
    }
}

impl KeyBound {
    /// Forgets the bound, which the next key reads again. To be called while no write is under way.
    pub(crate) fn forget(&self) {
        *self.highest.lock() = None;
    }

    /// Admits `key`, which the caller has latched. `last_stored` reads the last stored key, on first use.
    pub(crate) fn raise(
        &self,
        key: &[u8],
        last_stored: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Absence> {
        let mut highest = self.highest.lock();
        let bound = match highest.as_mut() {
            Some(bound) => bound,
            None => highest.insert(last_stored()?.unwrap_or_default()),
        };
        if key <= bound.as_slice() {
            return Ok(Absence::Unproven);
        }
        bound.clear();
        bound.extend_from_slice(key);
        Ok(Absence::Proven)
    }

    /// Admits a whole batch at once if its keys, which ascend, are all beyond the bound: then all are proven absent.
    ///
    /// Only with a bound that was read already; else, and if any key is not beyond it, nothing changes.
    pub(crate) fn raise_over(&self, first: &[u8], last: &[u8]) -> bool {
        let mut highest = self.highest.lock();
        let Some(bound) = highest.as_mut().filter(|bound| first > bound.as_slice()) else { return false };
        bound.clear();
        bound.extend_from_slice(last);
        true
    }
}

impl DocumentCount {
    pub(crate) fn known(&self) -> Option<u64> {
        self.known
            .load(Ordering::Acquire)
            .then(|| self.documents.load(Ordering::Acquire).max(0).cast_unsigned())
    }

    /// To be called while no write to the collection is under way.
    pub(crate) fn set(&self, documents: u64) {
        let _settling = self.settling.lock();
        self.documents.store(documents.cast_signed(), Ordering::Release);
        self.known.store(true, Ordering::Release);
    }

    /// Keeps the counter from being set, which may go with a commit that holds no latch, until the guard is dropped.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.settling.lock()
    }

    /// Empties the counter with what it counts, by `commit`. To be called while no write is under way. A count that is
    /// going on counts for nothing then.
    pub(crate) fn clear(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let _settling = self.settling.lock();
        commit()?;
        self.documents.store(0, Ordering::Release);
        self.known.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits for a count that is going on, and lets no other begin until the guard is dropped.
    pub(crate) fn begin_counting(&self) -> impl Drop + '_ {
        self.counting.lock()
    }

    /// To be called with all latches held, beside the taking of a snapshot.
    pub(crate) fn mark(&self) -> CounterMark {
        CounterMark(self.documents.load(Ordering::Acquire))
    }

    /// Makes the number known: `stored` documents are in the snapshot of the mark, and what was written since is added.
    /// A number that came to be known meanwhile stays.
    pub(crate) fn settle(&self, stored: u64, mark: CounterMark) {
        let _settling = self.settling.lock();
        if !self.known.load(Ordering::Acquire) {
            self.documents.fetch_add(stored.cast_signed() - mark.0, Ordering::AcqRel);
            self.known.store(true, Ordering::Release);
        }
    }

    /// A copy of the counter, for the collection under another name. To be called while no write to it is under way.
    fn moved(&self) -> Self {
        let _settling = self.settling.lock();
        Self {
            documents: AtomicI64::new(self.documents.load(Ordering::Acquire)),
            known: AtomicBool::new(self.known.load(Ordering::Acquire)),
            ..Self::default()
        }
    }

    /// To be called with the latches held of what was written.
    #[inline]
    pub(crate) fn add(&self, change: i64) {
        self.documents.fetch_add(change, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_beyond_every_admitted_one_are_proven_absent() {
        let bound = KeyBound::default();
        let raise = |key: &[u8]| bound.raise(key, || Ok(Some(vec![5]))).expect("admitted");
        assert_eq!(raise(&[5]), Absence::Unproven);
        assert_eq!(raise(&[5, 0]), Absence::Proven);
        assert_eq!(raise(&[5, 0]), Absence::Unproven);
        assert_eq!(raise(&[9]), Absence::Proven);
        assert_eq!(raise(&[7]), Absence::Unproven);
    }

    #[test]
    fn a_batch_beyond_the_bound_is_admitted_as_a_whole_or_not_at_all() {
        let bound = KeyBound::default();
        assert!(!bound.raise_over(&[6], &[9]), "the bound is not known yet");
        let raise = |key: &[u8]| bound.raise(key, || Ok(Some(vec![5]))).expect("admitted");
        assert_eq!(raise(&[6]), Absence::Proven);
        assert!(!bound.raise_over(&[6], &[9]));
        assert_eq!(raise(&[7]), Absence::Proven);
        assert!(bound.raise_over(&[8], &[20]));
        assert_eq!(raise(&[15]), Absence::Unproven);
        assert_eq!(raise(&[21]), Absence::Proven);
    }

    #[test]
    fn a_failed_read_of_the_last_key_admits_nothing() {
        let bound = KeyBound::default();
        let failed = bound.raise(&[9], || Err(crate::error::Error::invalid_argument("unreadable")));
        assert!(failed.is_err());
        assert_eq!(bound.raise(&[9], || Ok(Some(vec![9]))).expect("admitted"), Absence::Unproven);
    }

    #[test]
    fn what_is_written_during_a_count_is_added_to_it() {
        let count = DocumentCount::default();
        count.add(7);
        let mark = count.mark();
        count.add(-2);
        count.settle(100, mark);
        assert_eq!(count.known(), Some(98));
        assert_eq!(count.moved().known(), Some(98));
    }

    #[test]
    fn a_count_that_was_overtaken_counts_for_nothing() {
        let count = DocumentCount::default();
        let mark = count.mark();
        count.clear(|| Ok(())).expect("cleared");
        count.add(1);
        count.settle(100, mark);
        assert_eq!(count.known(), Some(1));
    }

    #[test]
    fn a_count_is_unknown_until_it_is_set() {
        let count = DocumentCount::default();
        count.add(3);
        assert_eq!(count.known(), None);
        count.set(10);
        count.add(-1);
        assert_eq!(count.known(), Some(9));
    }
}
