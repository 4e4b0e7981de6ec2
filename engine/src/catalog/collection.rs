//! A collection in memory: its id, its indexes and auto-increment fields behind a gate, the record keys that it was
//! given, and its counter of documents.
//!
//! A writer holds the gate shared, from before it looks at the indexes until its commit returns. A change of
//! the indexes or the fields, a drop and a rename hold it exclusively. So no write misses an index, and no
//! write lands in a dropped collection.
//!
//! Readers hold no gate. A change that would remove something from their snapshots (the end of the collection,
//! the removal of an index) is announced in [`Changes`] before its commit. A reader looks there after it took
//! its snapshot, and knows whether the snapshot may lack something.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::error::Result;
use base::lock_order::{self, Place};
use base::namespace::Namespace;
use base::sync::{self, AtomicBool, AtomicI64, AtomicU64, Mutex, MutexGuard, RwLock};
use index::collation::Collation;
use query::operation::{Interruption, OperationContext};
use store::Database;
use store::keys::CollectionId;

use crate::catalog::builds::{BuildEnd, Builds};
use crate::catalog::capped::{Capped, InsertionOrder};
use crate::catalog::clustered::Clustered;
use crate::catalog::gate::{Alone, Gate, Shared};
use crate::catalog::given_keys::GivenKeys;
use crate::catalog::indexes::Index;
use crate::catalog::multikey::IndexArrays;
use crate::catalog::record_keys::RecordKeys;
use crate::catalog::sequences::AutoFields;
use crate::catalog::validation::Validation;
use crate::changes::log::ChangeLog;
use crate::options::PlantedFault;

pub(crate) struct CollectionState {
    pub(crate) id: CollectionId,
    pub(crate) namespace: Namespace,
    /// The collation of operations that do not name one. It never changes.
    pub(crate) collation: Collation,
    /// The form of its records' keys. It never changes.
    pub(crate) record_keys: RecordKeys,
    gate: Gate<Definition>,
    /// The definition for readers, which never wait for the gate.
    published: RwLock<Definition>,
    /// The bits of [`Changes`].
    changes: AtomicU64,
    /// A sequence number not below that of the last change of what the collection is, or of a removal of its records as a range.
    since: AtomicU64,
    /// A sequence number not below that of the last write of a document, while transactions are in use.
    newest: AtomicU64,
    /// Held while the catalog entry is written with new arrays, until the commit: each entry must contain the
    /// arrays of the entries before it.
    pub(crate) noting_arrays: Mutex<()>,
    pub(crate) given_keys: Arc<GivenKeys>,
    pub(crate) count: DocumentCount,
    /// The indexes that are being built. They are in neither list above.
    pub(crate) builds: Builds,
    /// Set if the collection is capped: when it is made, or once, when it is converted.
    order: OnceLock<Arc<InsertionOrder>>,
}

/// The definition of a collection for writers: its indexes, its auto-increment fields, and the rules for its
/// documents.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) indexes: Arc<[Index]>,
    pub(crate) fields: Arc<AutoFields>,
    /// Absent if nothing of it was ever set.
    pub(crate) validation: Option<Arc<Validation>>,
    /// Absent if the collection is not capped.
    pub(crate) capped: Option<Capped>,
    /// The collation of operations and new indexes that do not name one.
    pub(crate) collation: Collation,
    /// Present if the collection was declared to be clustered.
    pub(crate) clustered: Option<Clustered>,
    pub(crate) record_keys: RecordKeys,
    /// The log of its changes. Absent if they are not.
    pub(crate) log: Option<Arc<ChangeLog>>,
    /// Whether the log has its documents as they were before and after their changes.
    pub(crate) keeps_images: bool,
}

/// The announcements to the readers of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changes(u64);

/// The number of documents, once it is known.
///
/// Writers change it while they hold the latches of what they write. So a thread that holds all latches sees
/// the counter and the store at the same moment, and no operation has to end first.
#[derive(Default)]
pub(crate) struct DocumentCount {
    /// The number of documents if it is known, else the documents added minus those removed since the
    /// collection was opened.
    documents: AtomicI64,
    known: AtomicBool,
    /// Held for a moment, while the counter is set or becomes known.
    settling: Mutex<()>,
    /// Held by a reader that counts, for as long as that lasts: one count is enough for all that ask.
    counting: Mutex<()>,
}

/// The value of a counter at the moment of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterMark(i64);

impl CollectionState {
    pub(crate) fn new(id: CollectionId, namespace: Namespace, definition: Definition) -> Self {
        let order = definition.capped.map(|capped| Arc::new(InsertionOrder::new(capped.order)));
        Self {
            order: once(order),
            id,
            namespace,
            collation: definition.collation.clone(),
            record_keys: definition.record_keys.clone(),
            published: RwLock::new(definition.clone()),
            gate: Gate::new(definition),
            changes: AtomicU64::new(0),
            since: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            noting_arrays: Mutex::new(()),
            given_keys: Arc::default(),
            count: DocumentCount::default(),
            builds: Builds::default(),
        }
    }

    /// Enters the collection for one write. Returns `None` if it was dropped or renamed.
    #[inline]
    pub(crate) fn enter(
        &self,
        operation: &OperationContext,
    ) -> std::result::Result<Option<Shared<'_, Definition>>, Interruption> {
        let guard = self.gate.enter(operation)?;
        Ok((!self.is_retired()).then_some(guard))
    }

    /// Enters the collection alone: no write runs while the guard exists.
    pub(crate) fn enter_alone(
        &self,
        operation: &OperationContext,
    ) -> std::result::Result<Alone<'_, Definition>, Interruption> {
        self.gate.enter_alone(operation)
    }

    /// Whether somebody waits to enter the collection alone. A write to many documents leaves it then, between two of them.
    #[inline]
    pub(crate) fn is_wanted_alone(&self) -> bool {
        self.gate.is_wanted_alone()
    }

    /// The insertion order. Returns `None` if the collection is not capped.
    #[inline]
    pub(crate) fn order(&self) -> Option<&Arc<InsertionOrder>> {
        self.order.get()
    }

    /// Makes the collection a capped one for readers and writers. The caller holds the gate exclusively and has committed the
    /// order and the entry.
    pub(crate) fn become_capped(&self, database: &Database, held: &mut Definition, capped: Capped) {
        // It is in the order of its inserts from now on.
        self.publish(database, held, held.with_capped(Some(capped)).with_clustered(None));
        // A collection is converted once: later conversions change its limits.
        let _ = self.order.set(Arc::new(InsertionOrder::new(capped.order)));
    }

    /// The current indexes, for readers.
    pub(crate) fn indexes(&self) -> Arc<[Index]> {
        Arc::clone(&self.published.read().indexes)
    }

    /// The current indexes that searches may use.
    pub(crate) fn visible_indexes(&self) -> Arc<[Index]> {
        let indexes = self.indexes();
        // Nearly no collection has hidden indexes, and then the list is shared.
        if indexes.iter().all(|index| !index.settings.hidden) {
            return indexes;
        }
        indexes.iter().filter(|index| !index.settings.hidden).cloned().collect()
    }

    /// A copy of the current definition, for readers. It waits for no change.
    pub(crate) fn definition(&self) -> Definition {
        self.published.read().clone()
    }

    /// Notes a change that was committed. Transactions on an earlier state must not read or write by what is published after this.
    pub(crate) fn note_change(&self, database: &Database) {
        self.since.fetch_max(database.latest_sequence(), Ordering::AcqRel);
    }

    /// Notes that documents were written, up to a sequence number. The caller holds their latches.
    pub(crate) fn note_write(&self, sequence: u64) {
        // The latches order it: who compares it holds all of them.
        self.newest.fetch_max(sequence, Ordering::Relaxed);
    }

    /// A sequence number not below that of the last write of a document. The caller holds all latches, and transactions are in use.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// Whether the collection is what it was at a sequence number. To be asked after its definition was looked up.
    pub(crate) fn is_as_of(&self, sequence: u64) -> bool {
        // A change that is announced may be committed already.
        self.since.load(Ordering::Acquire) <= sequence && !self.changes().is_ending()
    }

    /// Enters the collection for one write if nothing is waited for. Returns `None` if it is, or the collection was dropped or renamed.
    pub(crate) fn try_enter(&self) -> Option<Shared<'_, Definition>> {
        self.gate.try_to_enter().filter(|_| !self.is_retired())
    }

    /// Replaces the definition for writers and readers. The caller holds the gate exclusively and has committed the change.
    pub(crate) fn publish(&self, database: &Database, held: &mut Definition, changed: Definition) {
        // First, so that who reads the new definition and looks then knows that it is new.
        self.note_change(database);
        *self.published.write() = changed.clone();
        *held = changed;
    }

    /// Adds a built index for writers and readers. The caller holds the gate exclusively and has committed
    /// the index.
    pub(crate) fn add_index(&self, database: &Database, held: &mut Definition, index: Index) {
        let indexes = held.indexes.iter().cloned().chain([index]).collect();
        self.publish(database, held, held.with_indexes(indexes));
    }

    /// Adds an index to a collection that is not in the catalog yet, and has no documents.
    pub(crate) fn add_first_index(&self, index: Index, operation: &OperationContext) -> Result<()> {
        let mut held = self.gate.enter_alone(operation)?;
        let indexes = held.indexes.iter().cloned().chain([index]).collect();
        *held = held.with_indexes(indexes);
        // No change is noted: the collection is as its transaction has made it.
        *self.published.write() = held.clone();
        Ok(())
    }

    /// Removes indexes from readers and, by `commit`, from the disk: only those of `kept` stay. If the commit
    /// fails, all of them stay. The caller holds the gate exclusively.
    pub(crate) fn withdraw_indexes(
        &self,
        database: &Database,
        held: &mut Definition,
        kept: Vec<Index>,
        commit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let kept = held.with_indexes(kept);
        *self.published.write() = kept.clone();
        // After the list and before the commit: a reader who finds the same number before it reads the list
        // and after it took a snapshot has no index whose entries the snapshot lacks.
        self.changes.fetch_add(Changes::WITHDRAWAL, Ordering::AcqRel);
        let committed = commit();
        self.note_change(database);
        match committed {
            Ok(()) => *held = kept,
            Err(_) => *self.published.write() = held.clone(),
        }
        committed
    }

    /// The announcements until now.
    #[inline]
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.changes.load(Ordering::Acquire))
    }

    /// Whether the collection was dropped or renamed. A caller that holds this state must look the name up
    /// again.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.changes().0 & Changes::RETIRED != 0
    }

    /// Drops or renames the collection by `commit`, and retires this state if the commit succeeds. The caller
    /// holds the gate exclusively.
    pub(crate) fn end(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        // Announced before the commit, so that no reader finds the collection empty without knowing why.
        self.changes.fetch_or(Changes::ENDING, Ordering::AcqRel);
        let committed = commit();
        match committed {
            Ok(()) => {
                self.changes.fetch_or(Changes::RETIRED, Ordering::AcqRel);
                // After that: a build that begins now and is not asked to end here sees that the state is retired.
                self.builds.end(BuildEnd::CollectionGone, |_| true);
                // Readers that wait for documents learn that there will be none.
                if let Some(order) = self.order() {
                    order.wake();
                }
            }
            Err(_) => {
                self.changes.fetch_and(!Changes::ENDING, Ordering::AcqRel);
            }
        }
        committed
    }

    /// Forgets which keys the collection and its indexes were given. The caller makes sure that no write runs.
    pub(crate) fn forget_keys(&self, definition: &Definition) {
        self.given_keys.forget();
        definition.indexes.iter().for_each(|index| index.given_keys.forget());
    }

    /// The state of the collection under another name. The caller retires the old state under its gate.
    pub(crate) fn renamed(&self, namespace: Namespace, definition: &Definition) -> Self {
        Self {
            id: self.id,
            namespace,
            collation: self.collation.clone(),
            record_keys: self.record_keys.clone(),
            gate: Gate::new(definition.clone()),
            published: RwLock::new(definition.clone()),
            // Nothing is announced yet to those that look up the new name.
            changes: AtomicU64::new(0),
            since: AtomicU64::new(self.since.load(Ordering::Acquire)),
            newest: AtomicU64::new(self.newest()),
            noting_arrays: Mutex::new(()),
            given_keys: Arc::clone(&self.given_keys),
            count: self.count.moved(),
            builds: Builds::default(),
            order: once(self.order().cloned()),
        }
    }
}

/// A cell with a value, or an empty one.
fn once<T>(value: Option<T>) -> OnceLock<T> {
    value.map_or_else(OnceLock::new, OnceLock::from)
}

impl Changes {
    /// The collection is being dropped or renamed, or was. A later snapshot may lack it.
    const ENDING: u64 = 1;
    /// The collection was dropped or renamed.
    const RETIRED: u64 = 2;
    /// Added each time that indexes are removed.
    const WITHDRAWAL: u64 = 4;

    /// Whether a snapshot taken before can lack the collection.
    #[inline]
    pub(crate) fn is_ending(self) -> bool {
        self.0 & Self::ENDING != 0
    }

    /// Whether indexes were removed since `earlier`.
    pub(crate) fn has_withdrawn_since(self, earlier: Self) -> bool {
        // The division drops the two flags below the count.
        self.0 / Self::WITHDRAWAL != earlier.0 / Self::WITHDRAWAL
    }
}

impl Definition {
    /// A definition with indexes and without auto-increment fields.
    pub(crate) fn of_indexes(indexes: Vec<Index>) -> Self {
        Self {
            indexes: indexes.into(),
            fields: Arc::default(),
            validation: None,
            capped: None,
            collation: Collation::simple(),
            clustered: None,
            record_keys: RecordKeys::new(PlantedFault::None),
            log: None,
            keeps_images: false,
        }
    }

    /// Whether documents are written by the same rules: the same indexes, fields and checks, as far as one is a copy of the other.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let checks = |definition: &Self| definition.validation.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.indexes, &other.indexes)
            && Arc::ptr_eq(&self.fields, &other.fields)
            && checks(self) == checks(other)
            && self.capped == other.capped
            && self.log.is_some() == other.log.is_some()
            && self.keeps_images == other.keeps_images
    }

    /// The known arrays and shortened keys of an index by its position, or of the `_id`s.
    pub(crate) fn marks_of(&self, index: Option<usize>) -> Option<&IndexArrays> {
        match index {
            Some(position) => self.indexes.get(position).map(|index| &*index.arrays),
            None => Some(&self.record_keys.marks),
        }
    }

    /// The same definition with other indexes.
    pub(crate) fn with_indexes(&self, indexes: Vec<Index>) -> Self {
        Self { indexes: indexes.into(), ..self.clone() }
    }

    /// The same definition with other auto-increment fields.
    pub(crate) fn with_fields(&self, fields: AutoFields) -> Self {
        Self { fields: Arc::new(fields), ..self.clone() }
    }

    /// The same definition with another collation.
    pub(crate) fn with_collation(&self, collation: Collation) -> Self {
        Self { collation, ..self.clone() }
    }

    /// The same definition with records that are keyed in another way.
    pub(crate) fn with_record_keys(&self, record_keys: RecordKeys) -> Self {
        Self { record_keys, ..self.clone() }
    }

    /// The same definition with or without a log of changes.
    pub(crate) fn with_log(&self, log: Option<Arc<ChangeLog>>) -> Self {
        Self { log, ..self.clone() }
    }

    /// The same definition, whose log has documents as they were before and after their changes, or not.
    pub(crate) fn with_images(&self, keeps_images: bool) -> Self {
        Self { keeps_images, ..self.clone() }
    }

    /// The same definition with other limits.
    pub(crate) fn with_capped(&self, capped: Option<Capped>) -> Self {
        Self { capped, ..self.clone() }
    }

    /// The same definition with or without a declaration that it is clustered.
    pub(crate) fn with_clustered(&self, clustered: Option<Clustered>) -> Self {
        Self { clustered, ..self.clone() }
    }

    /// Whether another collection, or one that does not exist, checks the same documents in the same way.
    pub(crate) fn is_validated_like(&self, other: Option<&Self>) -> bool {
        let unset = Validation::default();
        let mine = self.validation.as_deref().unwrap_or(&unset);
        mine.is_same(other.and_then(|other| other.validation.as_deref()).unwrap_or(&unset))
    }

    /// The same definition with another validation.
    pub(crate) fn with_validation(&self, validation: Validation) -> Self {
        let validation = (!validation.is_unset()).then(|| Arc::new(validation));
        Self { validation, ..self.clone() }
    }
}

impl DocumentCount {
    /// The number of documents. Returns `None` if it is not known yet.
    pub(crate) fn known(&self) -> Option<u64> {
        self.known
            .load(Ordering::Acquire)
            .then(|| self.documents.load(Ordering::Acquire).max(0).cast_unsigned())
    }

    /// Sets the number of documents. The caller makes sure that no write to the collection runs.
    pub(crate) fn set(&self, documents: u64) {
        let _settling = self.settling.lock();
        self.documents.store(documents.cast_signed(), Ordering::Release);
        self.known.store(true, Ordering::Release);
    }

    /// Keeps the counter from being set until the guard is dropped. A truncate sets it together with a commit
    /// that holds no latch.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.settling.lock()
    }

    /// Sets the counter together with `commit`, which leaves this number of documents. The caller makes sure that
    /// no write runs. A count that is running has no effect afterwards.
    pub(crate) fn reset(&self, documents: u64, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let _place = lock_order::take(Place::Count);
        let _settling = self.settling.lock();
        // Under the lock, and before the counter: an audit that holds the counter sees both or neither.
        commit()?;
        self.documents.store(documents.cast_signed(), Ordering::Release);
        self.known.store(true, Ordering::Release);
        Ok(())
    }

    /// Keeps other counts from beginning until the guard is dropped. Returns `None` if a count still runs after `patience`.
    pub(crate) fn begin_counting(&self, patience: Duration) -> Option<impl Drop + '_> {
        sync::try_lock_for(&self.counting, patience)
    }

    /// The value of the counter now. The caller holds all latches and makes a snapshot at the same moment.
    pub(crate) fn mark(&self) -> CounterMark {
        CounterMark(self.documents.load(Ordering::Acquire))
    }

    /// Makes the number known: the snapshot of `mark` has `stored` documents, and later writes are added. A
    /// number that became known meanwhile stays.
    pub(crate) fn settle(&self, stored: u64, mark: CounterMark) {
        let _settling = self.settling.lock();
        if !self.known.load(Ordering::Acquire) {
            self.documents.fetch_add(stored.cast_signed() - mark.0, Ordering::AcqRel);
            self.known.store(true, Ordering::Release);
        }
    }

    /// A copy of the counter for the renamed collection. The caller makes sure that no write to the
    /// collection runs.
    fn moved(&self) -> Self {
        // The copy and its flag are of one moment.
        let _settling = self.settling.lock();
        Self {
            documents: AtomicI64::new(self.documents.load(Ordering::Acquire)),
            known: AtomicBool::new(self.known.load(Ordering::Acquire)),
            ..Self::default()
        }
    }

    /// Adds `change` documents. The caller holds the latches of what it wrote.
    #[inline]
    pub(crate) fn add(&self, change: i64) {
        // The latches order it with a count; the counter itself guards no other memory.
        self.documents.fetch_add(change, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        count.reset(0, || Ok(())).expect("cleared");
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
