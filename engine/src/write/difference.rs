//! The result of a change of a document, and its changes of the indexes.

use base::error::{Error, Result};
use bson::RawDocumentBuf;
use query::operation::{OperationContext, Reservation};
use store::latch::{LatchSet, Latched};
use store::write::Batch;

use crate::catalog::capped::OrderTurn;
use crate::catalog::indexes::Index;
use crate::document::decode::stored;
use crate::options::PlantedFault;
use crate::write::Target;
use crate::write::change::Change;
use crate::write::changed_fields::ChangedFields;
use crate::write::entries::{Drawn, Entry, NewArrays, check_added, stored_entries_of};
use crate::write::find::Check;
use crate::write::logged::DocumentChange;
use crate::write::modified::Shown;
use crate::write::prepare::{Taker, encoded_id};
use crate::write::unique::{is_taken, is_unique, taken_entry};

/// The result of a change of a document, and the document for the caller.
pub(super) enum Computed {
    /// The document does not pass the check any more.
    NotMatched,
    /// Its bytes stay the same.
    Same { shown: Option<RawDocumentBuf> },
    Changed {
        new: Vec<u8>,
        shown: Option<RawDocumentBuf>,
        /// Absent if no index is concerned.
        difference: Option<Difference>,
    },
}

/// A record whose document is changed.
#[derive(Clone, Copy)]
pub(super) struct Changed<'a> {
    pub(super) key: &'a [u8],
    pub(super) change: DocumentChange<'a>,
}

/// The requested update of a document.
pub(super) struct Wish<'a> {
    pub(super) check: &'a Check<'a>,
    pub(super) change: &'a Change<'a>,
    pub(super) shown: Shown<'a>,
}

pub(super) fn compute(target: Target<'_>, key: &[u8], wish: &Wish<'_>, current: &[u8]) -> Result<Computed> {
    let Wish { check, change, shown } = wish;
    let old = stored(key, current)?;
    if !check.holds(old)? {
        return Ok(Computed::NotMatched);
    }
    let Some(new) = change.successor(target, check.selector(), key, old)? else {
        // MongoDB counts a document that stays the same as matched and not as modified.
        return Ok(Computed::Same { shown: shown.of(current, current)? });
    };
    if let Some(checks) = target.checks
        && let Some(refusal) = checks.refuse_change(old, stored(key, &new)?)?
    {
        return Err(Error::write(refusal));
    }
    let shown = shown.of(current, &new)?;
    let concerned = concerned(target, key, current, &new)?;
    let states = States { key, old: current, new: &new };
    let difference =
        (!concerned.is_empty()).then(|| Difference::of(&concerned, states, target.operation)).transpose()?;
    Ok(Computed::Changed { new, shown, difference })
}

/// The indexes in which the entries of a document may change, with their positions.
fn concerned<'t>(target: Target<'t>, key: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<(usize, &'t Index)>> {
    if target.indexes.is_empty() {
        return Ok(Vec::new());
    }
    let changed = ChangedFields::between(stored(key, old)?, stored(key, new)?);
    Ok(target.indexes.iter().enumerate().filter(|(_, index)| changed.concern(index)).collect())
}

/// The document before and after.
#[derive(Clone, Copy)]
struct States<'a> {
    key: &'a [u8],
    old: &'a [u8],
    new: &'a [u8],
}

/// The changes of an update in the indexes, without what stays.
#[derive(Default)]
pub(super) struct Difference {
    /// Entries that the old document did not have, or with another value.
    pub(super) written: Vec<Entry>,
    /// Positions in `written` of entries whose keys the old document did not have.
    added: Vec<usize>,
    /// The keys of entries that only the old document had.
    pub(super) removed: Vec<Vec<u8>>,
    /// Arrays of the new document that the catalog does not know of.
    pub(super) arrays: NewArrays,
    /// The bytes of all this, and their memory.
    bytes: usize,
    room: Option<Reservation>,
}

impl Difference {
    /// Index by index, so that no more is in memory than the entries of both documents in one of them. They can be many
    /// thousands for a change of one value in an array.
    fn of(indexes: &[(usize, &Index)], states: States<'_>, operation: &OperationContext) -> Result<Self> {
        let mut difference = Self { room: Some(Reservation::of(operation)), ..Self::default() };
        for &index in indexes {
            difference.add(index, states, operation)?;
        }
        let added = difference.added.iter().filter_map(|&position| difference.written.get(position));
        check_added(added.map(Entry::bytes).sum()).map_err(Error::write)?;
        Ok(difference)
    }

    fn add(
        &mut self,
        index: (usize, &Index),
        states: States<'_>,
        operation: &OperationContext,
    ) -> Result<()> {
        let States { key, old, new } = states;
        let drawn = |bytes| {
            let drawn =
                stored_entries_of([index], stored(key, bytes)?, encoded_id(key)).map_err(Error::write)?;
            let bytes = drawn.entries.iter().map(|entry| entry.bytes() + size_of::<Entry>()).sum();
            // Drawing them lasted about as long as reading them would.
            operation.pass(bytes)?;
            operation.steps(drawn.entries.len() as u64)?;
            // Beside those of the other document, as long as both are compared.
            Ok::<_, Error>((drawn, operation.reserve(bytes)?))
        };
        let (Drawn { entries: new, arrays }, _new_room) = drawn(new)?;
        let (Drawn { entries: old, .. }, _old_room) = drawn(old)?;
        self.arrays.extend(arrays);
        // Both ascend by their keys, and none has a key twice.
        let mut old = old.into_iter().peekable();
        for entry in new {
            while let Some(before) = old.next_if(|before| before.key < entry.key) {
                self.remove(before)?;
            }
            match old.next_if(|before| before.key == entry.key) {
                // An entry with the same key may have other type bytes, as when 1 becomes 1.0.
                Some(before) if before.value == entry.value => {}
                Some(_) => self.write(entry)?,
                // By key alone: a unique key that both documents have needs no latch and no check.
                None => {
                    self.added.push(self.written.len());
                    self.write(entry)?;
                }
            }
        }
        old.try_for_each(|before| self.remove(before))
    }

    fn write(&mut self, entry: Entry) -> Result<()> {
        self.grow(entry.bytes() + size_of::<Entry>())?;
        self.written.push(entry);
        Ok(())
    }

    fn remove(&mut self, entry: Entry) -> Result<()> {
        self.grow(entry.key.len() + size_of::<Vec<u8>>())?;
        self.removed.push(entry.key);
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        match &mut self.room {
            Some(room) => Ok(room.grow_by_steps(self.bytes)?),
            None => Ok(()),
        }
    }

    pub(super) fn added_unique<'s>(&'s self, target: Target<'s>) -> impl Iterator<Item = &'s Entry> {
        let added = self.added.iter().filter_map(|&position| self.written.get(position));
        added.filter(move |entry| is_unique(target, entry))
    }

    /// The latches of the record and of the unique keys that are added. Empty if no unique key is added.
    pub(super) fn latches(&self, target: Target<'_>, key: &[u8]) -> LatchSet {
        let mut latches = target.store.latches.set();
        if target.database.fault() == PlantedFault::UniqueNotLatched {
            return latches;
        }
        for entry in self.added_unique(target) {
            latches.add(&entry.key);
        }
        if !latches.is_empty() {
            latches.add(key);
            target.latch_token(&mut latches);
        }
        latches
    }

    /// Writes the document in one commit with its entries: removes those that only the old document has, and adds those
    /// that only the new one has.
    pub(super) fn commit(
        &self,
        target: Target<'_>,
        turn: Option<OrderTurn<'_>>,
        changed: Changed<'_>,
        latched: &mut Latched<'_>,
    ) -> Result<()> {
        let Changed { key, change } = changed;
        let document = change.new;
        for entry in self.added_unique(target) {
            if is_taken(target, entry)? {
                let taker = Taker { encoded_id: encoded_id(key), document: stored(key, document)? };
                return Err(Error::write(taken_entry(target, entry, taker, None)?));
            }
        }
        // An estimate of the batch, so that it grows seldom.
        let bytes = document.len() + 128 * (1 + self.added.len());
        let mut batch = Batch::with_capacity(target.database, bytes);
        target.put_changed_record(&mut batch, key, change);
        for entry in &self.written {
            target.put_entry(&mut batch, entry);
        }
        for key in &self.removed {
            if target.database.fault() != PlantedFault::OldEntriesKept {
                target.delete_entry(&mut batch, key);
            }
        }
        let mut commit = |batch| target.commit(batch, &self.arrays, latched);
        match turn {
            Some(mut turn) => turn.commit(batch, commit),
            None => commit(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bson::{RawDocumentBuf, doc};
    use query::operation::Allowance;

    use super::*;
    use crate::fixture::Fixture;
    use crate::options::IndexModel;

    /// A collection with eight indexes that begin with an array, and documents with `count` and one more values there.
    fn indexed(count: i32) -> (Fixture, [RawDocumentBuf; 2]) {
        let fixture = Fixture::filled(|client| {
            let things = client.database("test").collection::<bson::Document>("things");
            for field in ["b", "c", "d", "e", "f", "g", "h", "i"] {
                things
                    .create_index(IndexModel::builder().keys(doc! { "a": 1, field: 1 }).build())
                    .run()
                    .expect("made");
            }
        });
        let state = |count: i32| {
            let document = doc! { "_id": 1, "a": (0..count).collect::<Vec<_>>(), "b": count };
            RawDocumentBuf::try_from(&document).expect("a document")
        };
        (fixture, [state(count), state(count + 1)])
    }

    fn difference(
        fixture: &Fixture,
        states: [&RawDocumentBuf; 2],
        operation: &OperationContext,
    ) -> Result<Difference> {
        let [old, new] = states.map(|state| state.as_bytes());
        let indexes = fixture.collection("things").expect("there").indexes();
        let indexes: Vec<_> = indexes.iter().enumerate().collect();
        Difference::of(&indexes, States { key: b"\0\0\0\x01id", old, new }, operation)
    }

    /// The entries of both documents in all indexes were in memory at once, whatever the operation was allowed.
    #[test]
    fn an_update_holds_the_entries_of_one_index_at_a_time() {
        let (fixture, [old, new]) = indexed(10_000);
        let counting = OperationContext::counting();
        let found = difference(&fixture, [&old, &new], &counting).expect("computed");
        // All of those by the second field of the first index, which has changed, and one new value in each of the others.
        assert_eq!((found.written.len(), found.removed.len()), (10_001 + 7, 10_000));
        assert_eq!(found.added.len(), found.written.len());
        assert!(counting.steps_taken() > 8 * 20_000, "{}", counting.steps_taken());
        drop(found);
        assert_eq!(counting.bytes_reserved(), 0);
        // Of one index they are about 2 MB, of all 16.
        for (bytes, is_enough) in [(8 << 20, true), (1 << 20, false)] {
            let limited = OperationContext::new(Allowance { bytes: Some(bytes), ..Allowance::default() });
            let found = difference(&fixture, [&old, &new], &limited);
            assert_eq!(found.as_ref().err().and_then(Error::code), (!is_enough).then_some(146), "{bytes}");
        }
    }

    #[test]
    fn only_entries_that_change_are_written_and_removed() {
        let (fixture, _) = indexed(0);
        let operation = OperationContext::unlimited();
        let drawn = |document: &RawDocumentBuf| {
            let indexes = fixture.collection("things").expect("there").indexes();
            let drawn =
                stored_entries_of(indexes.iter().enumerate(), document, b"id").expect("drawn").entries;
            drawn.into_iter().map(|entry| (entry.key, entry.value)).collect::<BTreeSet<_>>()
        };
        let states = [
            doc! { "_id": 1, "a": [1, 2, 3], "b": 1 },
            doc! { "_id": 1, "a": [1.0, 2, 4], "b": 1 },
            doc! { "_id": 1, "a": [], "b": 5 },
            doc! { "_id": 1, "b": 2 },
            doc! { "_id": 1, "a": 3, "c": 1, "i": 1 },
        ]
        .map(|state| RawDocumentBuf::try_from(&state).expect("a document"));
        for old in &states {
            for new in &states {
                let found = difference(&fixture, [old, new], &operation).expect("computed");
                let mut stored = drawn(old);
                let before: BTreeSet<_> = stored.iter().map(|(key, _)| key.clone()).collect();
                for key in &found.removed {
                    assert!(before.contains(key));
                    stored.retain(|(other, _)| other != key);
                }
                for (position, entry) in found.written.iter().enumerate() {
                    let is_new = !before.contains(&entry.key);
                    assert_eq!(found.added.contains(&position), is_new);
                    stored.retain(|(other, _)| *other != entry.key);
                    assert!(stored.insert((entry.key.clone(), entry.value.clone())));
                }
                assert_eq!(stored, drawn(new));
                assert!(old != new || (found.written.is_empty() && found.removed.is_empty()));
            }
        }
    }
}
