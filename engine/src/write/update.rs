//! Updates and replacements: find, latch, read again, compute, write what differs.
//!
//! The document is read under the latch of its record, so nothing that another writer does is lost: increments of any
//! number of threads add up. A change that adds keys to unique indexes needs their latches too, which must be taken
//! in one step with the record's. And a change that takes long to compute is computed without latches, which other
//! documents share. Either way what was computed counts only if the document is still the same under the latch.

use std::collections::HashSet;
use std::ops::AddAssign;

use base::error::{Error, Result};
use base::metrics::notes;
use bson::RawDocumentBuf;
use store::Family;
use store::latch::LatchSet;
use store::write::Batch;

use crate::catalog::capped::OrderTurn;
use crate::catalog::indexes::Index;
use crate::document::decode::stored;
use crate::options::PlantedFault;
use crate::write::capped;
use crate::write::change::Change;
use crate::write::changed_fields::ChangedFields;
use crate::write::entries::{Drawn, Entry, NewArrays, check_added, stored_entries_of};
use crate::write::find::{Check, DocumentSearch, on_each, on_first};
use crate::write::prepare::encoded_id;
use crate::write::unique::{is_taken, is_unique, taken_entry};
use crate::write::{STEPS_UNDER_LATCH, Target};

/// Which state of the document the caller wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    None,
    Before,
    After,
}

/// What the caller is shown of a document. It is made before the commit: if that fails, nothing is written.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) image: Image,
    /// Makes what is shown from the bytes of the wanted state.
    pub(crate) show: &'a dyn Fn(&[u8]) -> Result<RawDocumentBuf>,
}

impl Shown<'_> {
    /// Nothing is shown.
    pub(crate) const NOTHING: Shown<'static> =
        Shown { image: Image::None, show: &|bytes| Ok(RawDocumentBuf::from_bytes(bytes.to_vec())?) };

    fn of(&self, before: &[u8], after: &[u8]) -> Result<Option<RawDocumentBuf>> {
        match self.image {
            Image::None => Ok(None),
            Image::Before => (self.show)(before).map(Some),
            Image::After => (self.show)(after).map(Some),
        }
    }
}

/// A document that matched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matched {
    /// Whether the update changed it.
    pub(crate) is_modified: bool,
    /// What is shown of the wanted state; `None` if no state is wanted.
    pub(crate) shown: Option<RawDocumentBuf>,
}

impl Matched {
    /// The document as counts.
    pub(crate) fn counts(&self) -> Counts {
        Counts { matched: 1, modified: u64::from(self.is_modified) }
    }
}

/// How many documents matched, and how many of them were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.matched += other.matched;
        self.modified += other.modified;
    }
}

/// Changes the first document that matches.
#[inline]
pub(crate) fn update_one(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    change: &Change<'_>,
    shown: Shown<'_>,
) -> Result<Option<Matched>> {
    let matched = on_first(target, search, |key, check| update_found(target, key, check, change, shown))?;
    if matched.as_ref().is_some_and(|matched| !matched.is_modified) {
        target.sync_what_it_saw()?;
    }
    Ok(matched)
}

/// Changes every document that matched at the beginning, one after the other. An error ends it, the end of its time as
/// well; what was changed until then stays changed.
pub(crate) fn update_many(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    change: &Change<'_>,
) -> Result<Counts> {
    let mut counts = Counts::default();
    on_each(target, search, |key, check| {
        if let Some(matched) = update_found(target, key, check, change, Shown::NOTHING)? {
            counts += matched.counts();
        }
        Ok(())
    })?;
    if counts.modified == 0 && counts.matched > 0 {
        target.sync_what_it_saw()?;
    }
    Ok(counts)
}

/// Changes one document. Returns `None` if it is gone, or does not pass the check any more.
fn update_found(
    target: Target<'_>,
    key: &[u8],
    check: &Check<'_>,
    change: &Change<'_>,
    shown: Shown<'_>,
) -> Result<Option<Matched>> {
    let wish = Wish { check, change, shown };
    let compute = |current: &[u8]| compute(target, key, &wish, current);
    let mut held: Option<LatchSet> = None;
    // What was computed of a document as it was then.
    let mut ahead: Option<(Vec<u8>, Computed)> = None;
    loop {
        // Before the latches, and in each round: it must not be held while they are waited for again.
        let mut turn = capped::turn(target)?;
        let reads_early = target.database.fault() == PlantedFault::UpdatesReadEarly;
        let early = reads_early.then(|| target.database.record(key)).transpose()?;
        let latched = match &held {
            None => target.store.latches.lock_one(key, target.operation)?,
            Some(latches) => target.store.latches.lock(latches, target.operation)?,
        };
        let current = match early {
            None => target.database.record(key)?,
            Some(read) => read,
        };
        let Some(current) = current else { return Ok(None) };
        let known = ahead.take().filter(|(read, _)| *read == current);
        let computed = if let Some((_, computed)) = known {
            computed
        } else {
            let slice = target.operation.slice(STEPS_UNDER_LATCH);
            let computed = compute(&current);
            if slice.is_over() {
                drop((slice, latched, turn));
                let computed = compute(&current)?;
                ahead = Some((current, computed));
                continue;
            }
            computed?
        };
        let (new, shown) = match computed {
            Computed::NotMatched => return Ok(None),
            Computed::Same { shown } => return Ok(Some(Matched { is_modified: false, shown })),
            Computed::Changed { new, shown } => (new, shown),
        };
        if let Some(turn) = &mut turn {
            capped::resize(&mut turn.state, &current, &new);
        }
        let concerned = concerned(target, key, &current, &new)?;
        // Without entries to change the latch of the record is all that an update needs, and the commit is a single put.
        if concerned.is_empty() && turn.is_none() {
            target.commit_changed_record(key, &new)?;
            notes::updated(1);
            return Ok(Some(Matched { is_modified: true, shown }));
        }
        let difference = Difference::of(&concerned, key, &current, &new)?;
        let needed = difference.latches(target, key);
        if !needed.is_empty() && !held.as_ref().is_some_and(|held| held.covers(&needed)) {
            // Latches are taken in one global order, so none may be added to those that are held: all are let go and
            // taken together. Another writer may change the document in between.
            held = Some(needed);
            ahead = Some((current, Computed::Changed { new, shown }));
            continue;
        }
        difference.commit(target, turn, key, &new)?;
        notes::updated(1);
        return Ok(Some(Matched { is_modified: true, shown }));
    }
}

/// What a change makes of a document, and what the caller is shown.
enum Computed {
    /// The document does not pass the check any more.
    NotMatched,
    /// Its bytes stay the same.
    Same {
        shown: Option<RawDocumentBuf>,
    },
    Changed {
        new: Vec<u8>,
        shown: Option<RawDocumentBuf>,
    },
}

/// What is to become of a document.
struct Wish<'a> {
    check: &'a Check<'a>,
    change: &'a Change<'a>,
    shown: Shown<'a>,
}

fn compute(target: Target<'_>, key: &[u8], wish: &Wish<'_>, current: &[u8]) -> Result<Computed> {
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
    Ok(Computed::Changed { new, shown })
}

/// The indexes in which the entries of a document may change, with their positions.
fn concerned<'t>(target: Target<'t>, key: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<(usize, &'t Index)>> {
    if target.indexes.is_empty() {
        return Ok(Vec::new());
    }
    let changed = ChangedFields::between(stored(key, old)?, stored(key, new)?);
    Ok(target.indexes.iter().enumerate().filter(|(_, index)| changed.concern(index)).collect())
}

/// What an update changes in the indexes.
struct Difference {
    old: Vec<Entry>,
    new: Vec<Entry>,
    /// Positions in `new` of entries whose keys the old document did not have.
    added: Vec<usize>,
    /// Arrays of the new document that the catalog does not know of.
    arrays: NewArrays,
}

impl Difference {
    fn of(indexes: &[(usize, &Index)], key: &[u8], old: &[u8], new: &[u8]) -> Result<Self> {
        let indexes = || indexes.iter().copied();
        let drawn =
            |bytes| stored_entries_of(indexes(), stored(key, bytes)?, encoded_id(key)).map_err(Error::write);
        let Drawn { entries: new, arrays } = drawn(new)?;
        let old = drawn(old)?.entries;
        // By key alone: a unique key that both documents have needs no latch and no check.
        let keys: HashSet<&[u8]> = old.iter().map(|entry| entry.key.as_slice()).collect();
        let is_added = |entry: &Entry| !keys.contains(entry.key.as_slice());
        let added = new.iter().enumerate().filter(|(_, entry)| is_added(entry)).map(|(position, _)| position);
        let added: Vec<usize> = added.collect();
        let bytes = added.iter().filter_map(|&position| new.get(position)).map(Entry::bytes).sum();
        check_added(bytes).map_err(Error::write)?;
        Ok(Self { old, new, added, arrays })
    }

    fn added_unique<'s>(&'s self, target: Target<'s>) -> impl Iterator<Item = &'s Entry> {
        let added = self.added.iter().filter_map(|&position| self.new.get(position));
        added.filter(move |entry| is_unique(target, entry))
    }

    /// The latches of the record and of the unique keys that are added. Empty if no unique key is added.
    fn latches(&self, target: Target<'_>, key: &[u8]) -> LatchSet {
        let mut latches = LatchSet::default();
        if target.database.fault() == PlantedFault::UniqueNotLatched {
            return latches;
        }
        for entry in self.added_unique(target) {
            latches.add(&entry.key);
        }
        if !latches.is_empty() {
            latches.add(key);
        }
        latches
    }

    /// Writes the document in one commit with its entries: removes those that only the old document has, and adds those
    /// that only the new one has.
    fn commit(
        &self,
        target: Target<'_>,
        turn: Option<OrderTurn<'_>>,
        key: &[u8],
        document: &[u8],
    ) -> Result<()> {
        for entry in self.added_unique(target) {
            if is_taken(target, entry)? {
                return Err(Error::write(taken_entry(target, entry, encoded_id(key))));
            }
        }
        // An estimate of the batch, so that it grows seldom.
        let bytes = document.len() + 128 * (1 + self.added.len());
        let mut batch = Batch::with_capacity(target.database, bytes);
        target.put_record(&mut batch, key, document);
        let old: HashSet<(&[u8], &[u8])> =
            self.old.iter().map(|entry| (entry.key.as_slice(), entry.value.as_slice())).collect();
        // An entry with the same key may have other type bytes, as when 1 becomes 1.0.
        for entry in
            self.new.iter().filter(|entry| !old.contains(&(entry.key.as_slice(), entry.value.as_slice())))
        {
            batch.put(Family::Entries, &entry.key, &entry.value);
        }
        // By key alone here: an entry whose value changed was overwritten by the put above.
        let kept: HashSet<&[u8]> = self.new.iter().map(|entry| entry.key.as_slice()).collect();
        for entry in self.old.iter().filter(|entry| !kept.contains(entry.key.as_slice())) {
            if target.database.fault() != PlantedFault::OldEntriesKept {
                batch.delete(Family::Entries, &entry.key);
            }
        }
        let commit = |batch| target.commit(batch, &self.arrays);
        match turn {
            Some(mut turn) => turn.commit(batch, commit),
            None => commit(batch),
        }
    }
}
