//! The write path. `insert` is the straight line that the others follow: complete, prepare, entries, latches, absence,
//! one commit, publish. `auto_increment` numbers documents on that line.

pub(crate) mod auto_increment;
pub(crate) mod capped;
pub(crate) mod change;
mod changed_fields;
mod commit;
mod complete;
pub(crate) mod convert;
pub(crate) mod delete;
mod difference;
pub(crate) mod duplicate;
pub(crate) mod entries;
pub(crate) mod expire;
pub(crate) mod find;
pub(crate) mod index_build;
pub(crate) mod index_definition;
pub(crate) mod index_settings;
pub(crate) mod insert;
mod logged;
pub(crate) mod modified;
pub(crate) mod order_build;
pub(crate) mod outcome;
pub(crate) mod prepare;
pub(crate) mod staged;
mod unique;
pub(crate) mod update;
pub(crate) mod upsert;
pub(crate) mod validation;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::error::{Error, Result};
use base::lock_order::{self, Place};
use base::metrics::notes;
use query::operation::OperationContext;
use sequence::acquirer::Acquirer;
use sequence::generator::Generator;
use store::handles::Storage;
use store::latch::{LatchSet, Latched};
use store::write::{Batch, CommitLevel, RecordBytes};
use store::{Database, Family, Store};

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::entry;
use crate::catalog::given_keys::GivenKeys;
use crate::catalog::given_keys::filters::Absence;
use crate::catalog::given_keys::steps::{KeySpace, Step};
use crate::catalog::indexes::Index;
use crate::catalog::sequences::AutoFields;
use crate::changes::log::ChangeLog;
use crate::execute::read_view::ReadView;
use crate::options::PlantedFault;
use crate::outcomes::once::Once;
use crate::outcomes::retryable::{Effect, Retryable, Staged};
use crate::plan::selector::Selector;
use crate::transaction::Staging;
use crate::write::entries::{Entry, NewArrays};
use crate::write::logged::{DocumentChange, LoggedCollection};
use crate::write::validation::Checks;

/// The most bytes that one commit of many documents holds. It bounds memory, and how long other writers wait for the
/// latches.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// About how many bytes the row of a command that may be repeated has in a batch, with its key.
const ROW_BYTES: usize = 256;

/// The write context. The collection's gate is held shared for as long as this lives.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
    pub(crate) collection: &'a CollectionState,
    /// The definition of the collection. The indexes and fields that the write goes by follow.
    pub(crate) definition: &'a Definition,
    pub(crate) indexes: &'a [Index],
    pub(crate) fields: &'a AutoFields,
    /// The acquirer whose blocks values come from. `None` means the shared one.
    pub(crate) acquirer: Option<&'a Acquirer>,
    /// The generator of the `_id`s that documents lack.
    pub(crate) generator: &'a Generator,
    pub(crate) level: CommitLevel,
    /// Looks at the final bytes of a document that is inserted alone, before the commit. Its error fails the insert.
    pub(crate) preview: Option<Preview<'a>>,
    /// The transaction that the write is a part of. Absent for a plain one.
    pub(crate) staging: Option<Staging<'a>>,
    /// The command that the write is a part of, if it may be repeated.
    pub(crate) retryable: Option<&'a Retryable>,
    /// The call with a token that the write is.
    pub(crate) once: Option<&'a Once>,
    /// The checks of the documents that are written. Absent where none are checked.
    pub(crate) checks: Option<&'a Checks<'a>>,
    /// The write's limits of time and memory.
    pub(crate) operation: &'a OperationContext,
}

/// The number of steps that a write may compute while it holds latches: about a millisecond. What needs longer is
/// computed without them, and counts if the document is still the same under the latch.
const STEPS_UNDER_LATCH: u64 = 1 << 14;

/// Adds an event, if there is one.
#[inline]
fn add_event(batch: &mut Batch<'_>, event: Option<Vec<u8>>) {
    if let Some(event) = event {
        batch.add_event(event);
    }
}

/// Looks at a document's final bytes before they are committed.
pub(crate) type Preview<'a> = &'a dyn Fn(&[u8]) -> Result<()>;

impl<'a> Target<'a> {
    /// The context of a write in the gate of a collection. It numbers from the shared blocks, and checks and shows no
    /// document, unless its caller sets that.
    #[inline]
    pub(crate) fn within(
        storage: Storage<'a>,
        collection: &'a CollectionState,
        definition: &'a Definition,
        generator: &'a Generator,
        terms: (CommitLevel, &'a OperationContext),
    ) -> Self {
        let (level, operation) = terms;
        Self {
            store: storage.store,
            database: storage.database,
            collection,
            definition,
            indexes: &definition.indexes,
            fields: &definition.fields,
            acquirer: None,
            generator,
            level,
            preview: None,
            staging: None,
            retryable: None,
            once: None,
            checks: None,
            operation,
        }
    }

    /// The target of a call with MongoDB's `bypassDocumentValidation`: if it is set, no document is checked, and
    /// documents keep the values that they bring for auto-increment fields.
    pub(crate) fn bypassing(self, is_bypassed: Option<bool>) -> Self {
        if is_bypassed == Some(true) {
            Self { fields: self.fields.bypassed(), checks: None, ..self }
        } else {
            self
        }
    }

    /// The target of a change with MongoDB's `bypassDocumentValidation`: if it is set, no document is checked.
    pub(crate) fn unchecked(self, is_bypassed: Option<bool>) -> Self {
        if is_bypassed == Some(true) { Self { checks: None, ..self } } else { self }
    }

    /// The target of commits within a turn: other writers wait for the turn, and must not wait for a sync as well. Those of a
    /// capped collection always take turns.
    #[inline]
    fn within_turn(self, takes_turns: bool) -> Self {
        let takes_turns = takes_turns || self.collection.order().is_some();
        Self { level: self.level.within_turn(takes_turns), ..self }
    }

    /// Syncs after the turn what was committed by `in_turn`, if this write is to return only then.
    #[inline]
    fn sync_after_turn(&self, in_turn: Self) -> Result<()> {
        if self.level.owes_sync(in_turn.level) { self.store.sync_written(self.database) } else { Ok(()) }
    }

    /// Waits until what others have written is as safe as this write is to be. For a write that finds nothing left to do: its answer is
    /// true because of a write that may not be as safe yet, or that failed on its way there.
    #[cold]
    pub(crate) fn secure_what_it_saw(&self) -> Result<()> {
        self.store.reach(self.database, self.level)
    }

    fn storage(&self) -> Storage<'a> {
        Storage { store: self.store, database: self.database }
    }

    /// The view that a search by `selector` reads. The gate is held, so the catalog cannot change between its look-up
    /// and the snapshot.
    pub(crate) fn view(&self, selector: &Selector) -> Result<ReadView> {
        match self.staging {
            Some(Staging { open, state }) => {
                let view = ReadView::at(open.snapshot(), self.collection, selector)?;
                open.note_read(state, view.record_key())?;
                // After its indexes were looked up: one that is new has no entries in the snapshot.
                open.check(self.collection)?;
                Ok(view)
            }
            None => ReadView::under_gate(self.database, self.collection, selector),
        }
    }

    /// Adds a latched record key to those that the collection was given. Returns whether that proves the key absent.
    #[inline]
    fn admit_record(&self, record_key: &[u8]) -> Result<Absence> {
        let space = || KeySpace::of_records(self.collection.id);
        self.admit(&self.collection.given_keys, record_key, space)
    }

    /// Adds the latched key of a unique entry to those that its index was given. Returns whether that proves the key absent.
    #[inline]
    fn admit_unique(&self, entry: &Entry) -> Result<Absence> {
        let index = self.indexes.get(entry.index).expect("entries are made from these indexes");
        self.admit(&index.given_keys, &entry.key, || KeySpace::of_entries(index.id))
    }

    #[inline]
    fn admit(&self, given: &Arc<GivenKeys>, key: &[u8], space: impl Fn() -> KeySpace) -> Result<Absence> {
        let admission = given.admit(key, || space().last_stored(self.database, self.operation))?;
        if admission.needs_step {
            self.leave_step(given, space());
        }
        Ok(admission.absence)
    }

    /// Leaves a step of the making of a filter to the background thread.
    #[cold]
    fn leave_step(&self, given: &Arc<GivenKeys>, space: KeySpace) {
        let (keys, latches) = (Arc::clone(given), Arc::clone(&self.store.latches));
        // The number of entries of an index is not known: a document may have none, or many.
        let stored = self.collection.count.known().filter(|_| space.family == Family::Records);
        let step = Step { keys, latches, space, stored };
        match self.store.errands() {
            // If it is not accepted, a later write leaves another one.
            Some(errands) => errands.leave(Box::new(move |_, database| step.run(database))),
            // Under the checker of interleavings, whose threads are those of its scenario.
            None => step.run(self.database),
        }
    }

    /// The collection, if its changes are logged.
    #[inline]
    fn logged(&self) -> Option<LoggedCollection<'a>> {
        let Definition { log, keeps_images, .. } = self.definition;
        let logged = LoggedCollection { state: self.collection, keeps_images: *keeps_images };
        log.is_some().then_some(logged)
    }

    /// Stages a record that is absent. Its latch is held.
    #[inline]
    fn put_new_record(&self, batch: &mut Batch<'_>, key: &[u8], document: &[u8]) {
        batch.put_new_record(key, document);
        self.collection.builds.note(batch, key, document.len());
        add_event(batch, self.logged().map(|logged| logged.inserted(document)));
    }

    /// Stages a record whose key was free, or is freed by the same batch. Its latch is held.
    fn put_free_record(&self, batch: &mut Batch<'_>, key: &[u8], document: &[u8]) {
        batch.put(Family::Records, key, document);
        self.collection.builds.note(batch, key, document.len());
        add_event(batch, self.logged().map(|logged| logged.inserted(document)));
    }

    /// Stages the new bytes of a record, whose latch is held.
    fn put_changed_record(&self, batch: &mut Batch<'_>, key: &[u8], change: DocumentChange<'_>) {
        batch.put(Family::Records, key, change.new);
        self.collection.builds.note(batch, key, change.new.len());
        add_event(batch, self.logged().map(|logged| logged.changed(change)));
    }

    /// Stages the removal of a record, whose latch is held.
    fn delete_record(&self, batch: &mut Batch<'_>, key: &[u8], document: &[u8]) {
        batch.delete(Family::Records, key);
        self.collection.builds.note(batch, key, document.len());
        add_event(batch, self.logged().map(|logged| logged.deleted(document)));
    }

    /// Stages an entry of a document, whose latch is held.
    #[inline]
    fn put_entry(&self, batch: &mut Batch<'_>, entry: &Entry) {
        batch.put(Family::Entries, &entry.key, &entry.value);
        if let Some(index) = self.indexes.get(entry.index) {
            index.leaves.note(batch, &entry.key);
        }
    }

    /// Stages the removal of an entry of a document, whose latch is held.
    fn delete_entry(&self, batch: &mut Batch<'_>, key: &[u8]) {
        batch.delete(Family::Entries, key);
        if let Some(index) = self.indexes.iter().find(|index| key.starts_with(&index.id.prefix())) {
            index.leaves.note(batch, key);
        }
    }

    /// Whether a record is written as such, and nothing beside it.
    #[inline]
    fn writes_records_alone(&self) -> bool {
        self.collection.builds.is_idle() && !self.is_repeatable() && self.definition.log.is_none()
    }

    /// Commits a record that is absent, and has no entries. Its latch is held.
    #[inline]
    fn commit_new_record(&self, record: RecordBytes<'_>, latched: &mut Latched<'_>) -> Result<()> {
        // A record alone needs no batch: RocksDB's single put is cheaper.
        if self.writes_records_alone() {
            let committed = self.store.commit_new_record(self.database, record, self.level, latched);
            self.note_write(latched);
            return committed;
        }
        let mut batch = self.batch_with_row(record.key.len() + record.document.len());
        self.put_new_record(&mut batch, record.key, record.document);
        self.commit_batch(batch, latched)
    }

    /// A batch for a record of `bytes` bytes, and for the row of a command that may be repeated.
    fn batch_with_row(&self, bytes: usize) -> Batch<'a> {
        Batch::with_capacity(self.database, bytes + ROW_BYTES)
    }

    /// Commits the new bytes of a record without entries. Its latch is held.
    #[inline]
    fn commit_changed_record(
        &self,
        key: &[u8],
        change: DocumentChange<'_>,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        if self.writes_records_alone() {
            let record = RecordBytes { key, document: change.new };
            let committed = self.store.commit_changed_record(self.database, record, self.level, latched);
            self.note_write(latched);
            return committed;
        }
        let mut batch = self.batch_with_row(key.len() + change.new.len());
        self.put_changed_record(&mut batch, key, change);
        self.commit_batch(batch, latched)
    }

    /// Commits a batch of documents, with what the command is answered from if it is sent again.
    #[inline]
    pub(super) fn commit_batch(&self, batch: Batch<'_>, latched: &mut Latched<'_>) -> Result<()> {
        let committed = if self.is_repeatable() {
            self.commit_repeatable(batch, latched)
        } else {
            self.write_batch(batch, latched)
        };
        self.note_write(latched);
        committed
    }

    /// Writes a batch of documents with its events.
    #[inline]
    fn write_batch(&self, batch: Batch<'_>, latched: &mut Latched<'_>) -> Result<()> {
        match &self.definition.log {
            None => self.store.commit_latched(batch, self.level, latched),
            Some(log) => self.write_logged(log, batch, latched),
        }
    }

    #[cold]
    fn write_logged(&self, log: &ChangeLog, batch: Batch<'_>, latched: &mut Latched<'_>) -> Result<()> {
        log.write(self.storage(), batch, |batch| self.store.write_latched(batch, self.level, latched))?;
        // Apart, so that the sync of a journaled write lets streams see it.
        self.store.reach(self.database, self.level)
    }

    /// Whether the write leaves rows that it is answered from if it comes again.
    #[inline]
    fn is_repeatable(&self) -> bool {
        self.retryable.is_some() || self.once.is_some()
    }

    #[cold]
    fn commit_repeatable(&self, mut batch: Batch<'_>, latched: &mut Latched<'_>) -> Result<()> {
        let staged = self.retryable.map(|retryable| retryable.stage(&mut batch));
        let mut write = |batch| self.write_batch(batch, latched);
        // A batch that makes room is not an effect of the call.
        match self.once.filter(|once| once.is_expecting()) {
            None => write(batch)?,
            Some(once) => once.commit(batch, write, &|apart| self.store.commit(apart, self.level))?,
        }
        if let (Some(retryable), Some(Staged::Row)) = (self.retryable, staged) {
            retryable.committed();
        }
        Ok(())
    }

    /// Latches a key, and the token of the call if it has one.
    #[inline]
    pub(super) fn latch(&self, key: &[u8]) -> Result<Latched<'a>> {
        match self.latches_with(key) {
            None => Ok(self.store.latches.lock_one(key, self.operation)?),
            Some(latches) => Ok(self.store.latches.lock(&latches, self.operation)?),
        }
    }

    /// The latches of a key and of the token of the call. `None` if it has no token.
    #[inline]
    pub(super) fn latches_with(&self, key: &[u8]) -> Option<LatchSet> {
        let once = self.once?;
        let mut latches = self.store.latches.set();
        latches.add(key);
        latches.add_hash(once.hash());
        Some(latches)
    }

    /// Adds the latch of the token of the call.
    #[inline]
    pub(super) fn latch_token(&self, latches: &mut LatchSet) {
        if let Some(once) = self.once {
            latches.add_hash(once.hash());
        }
    }

    /// Says what the next commit does, if the command may be repeated.
    #[inline]
    pub(super) fn expect(&self, effect: Effect) {
        if let Some(once) = self.once {
            match effect {
                Effect::Deleted => once.expect_removal(),
                Effect::Inserted(_) | Effect::Updated | Effect::Upserted(_) => once.expect_change(),
            }
        }
        if let Some(retryable) = self.retryable {
            retryable.expect(effect);
        }
    }

    /// Commits a batch of documents with their entries, and adds to the catalog the arrays and shortened keys that it does not know of.
    #[inline]
    fn commit(&self, batch: Batch<'_>, arrays: &NewArrays, latched: &mut Latched<'_>) -> Result<()> {
        // Nearly always: the arrays of a path are new to the catalog once in the life of an index.
        if arrays.is_empty() {
            return self.commit_batch(batch, latched);
        }
        self.commit_noting(batch, arrays, latched)
    }

    /// Notes for serializable transactions that documents of the collection were written. To be called when the commit has returned,
    /// whatever became of it, and before the latches are released.
    #[inline]
    fn note_write(&self, latched: &Latched<'_>) {
        if latched.is_noting() {
            self.collection.note_write(self.database.latest_sequence());
        }
    }

    #[cold]
    fn commit_noting(
        &self,
        mut batch: Batch<'_>,
        arrays: &NewArrays,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        if self.database.fault() == PlantedFault::ArraysNotNoted {
            return self.commit_batch(batch, latched);
        }
        let indexes =
            || arrays.iter().filter_map(|(at, found)| Some((self.definition.marks_of(*at)?, found)));
        // One writer at a time, so that no catalog entry misses what an earlier one has. Readers are warned before the
        // commit: see `catalog::multikey`.
        let _place = lock_order::take(Place::Arrays);
        let _noting = self.collection.noting_arrays.lock();
        for (known, found) in indexes() {
            known.announce(found);
        }
        // As declared, and not as this write goes by it: one that bypasses validation numbers by other rules.
        let entry = entry::encode(&self.collection.namespace, self.definition)?;
        batch.put(Family::Meta, &self.collection.id.catalog_key(), &entry);
        self.commit_batch(batch, latched)?;
        for (known, found) in indexes() {
            known.confirm(found);
        }
        Ok(())
    }

    /// Counts what a commit stored or removed. `key` is the record key of one of its documents, whose latch is held.
    #[inline]
    fn count(&self, committed: Result<()>, key: &[u8], change: i64) -> Result<()> {
        match committed {
            Ok(()) => self.collection.count.add(change),
            Err(error) => return Err(self.count_unknown(error, key, change)),
        }
        if change > 0 {
            notes::inserted(change.unsigned_abs());
        } else {
            notes::deleted(change.unsigned_abs());
        }
        Ok(())
    }

    /// A commit that failed may have been made all the same, if only its sync could not be confirmed. Readers see it then,
    /// so it counts.
    #[cold]
    fn count_unknown(&self, error: Error, key: &[u8], change: i64) -> Error {
        let is_stored = change > 0;
        if error.is_commit_unknown()
            && self.exists(Family::Records, key).is_ok_and(|found| found == is_stored)
        {
            self.collection.count.add(change);
        }
        error
    }

    #[inline]
    fn exists(&self, family: Family, key: &[u8]) -> Result<bool> {
        Ok(self.database.get(family, key)?.is_some())
    }
}
