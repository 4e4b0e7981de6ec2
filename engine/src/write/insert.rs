//! Inserts: one document, or many in one commit.
//!
//! The order is the contract. A key's latch is held from before its uniqueness check until the commit returned,
//! so two inserts of one key cannot both find it free; every change of a call is in one batch, so a document is
//! never there without its entries.

use std::collections::{HashMap, HashSet};

use bson::Bson;
use sequence::generator::Generator;

use crate::catalog::collection::Absence;
use crate::document::draft::{Draft, Drafts};
use crate::document::validate::validate_insert;
use crate::error::{Error, ErrorKind, IndexedWriteError, Refusal, Result};
use crate::generated::GeneratedValues;
use crate::storage::Family;
use crate::storage::latch::LatchSet;
use crate::storage::write::Batch;
use crate::write::Target;
use crate::write::entries::{Drawn, Entry, NewArrays, entries_of};
use crate::write::prepare::{KEY_BYTES, Prepared, encoded_id, prepare};
use crate::write::{duplicate, numbered};

/// The most bytes of documents that one commit of an `insert_many` holds: it bounds memory, and how long other
/// writers wait for the latches.
pub(super) const COMMIT_BYTES_MAX: usize = 8 << 20;

/// What an `insert_many` does at a refused document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// Stops there.
    Ordered,
    /// Goes on with the next.
    Unordered,
}

/// What became of the documents of an `insert_many`, by position in the call.
#[derive(Debug, Default)]
pub(crate) struct Outcome<K> {
    pub(crate) inserted: K,
    pub(crate) refused: Vec<IndexedWriteError>,
    /// Generated values of documents that are stored.
    pub(crate) generated: HashMap<usize, GeneratedValues>,
    /// The first value that was generated.
    pub(crate) last_generate_id: Option<i64>,
}

/// What a caller wants to know of the documents that are stored.
pub(crate) trait Kept: Default {
    fn with_capacity(documents: usize) -> Self;
    /// Takes note of a document; they come in ascending order.
    fn keep(&mut self, position: usize, document: &Prepared<'_>);
    /// The only document of a call.
    fn only(id: Bson) -> Self;
    fn has(&self, position: usize) -> bool;
    fn has_any(&self) -> bool;
    /// Takes what was kept of documents of which the first stands at `from`.
    fn append(&mut self, from: usize, behind: Self);
}

/// Their `_id`s.
impl Kept for HashMap<usize, Bson> {
    fn with_capacity(documents: usize) -> Self {
        Self::with_capacity(documents)
    }

    fn keep(&mut self, position: usize, document: &Prepared<'_>) {
        self.insert(position, document.id());
    }

    fn only(id: Bson) -> Self {
        Self::from([(0, id)])
    }

    fn has(&self, position: usize) -> bool {
        self.contains_key(&position)
    }

    fn has_any(&self) -> bool {
        !self.is_empty()
    }

    fn append(&mut self, from: usize, behind: Self) {
        self.extend(behind.into_iter().map(|(position, id)| (position + from, id)));
    }
}

/// Only their positions, ascending.
impl Kept for Vec<usize> {
    fn with_capacity(documents: usize) -> Self {
        Self::with_capacity(documents)
    }

    fn keep(&mut self, position: usize, _document: &Prepared<'_>) {
        self.push(position);
    }

    fn only(_id: Bson) -> Self {
        vec![0]
    }

    fn has(&self, position: usize) -> bool {
        self.binary_search(&position).is_ok()
    }

    fn has_any(&self) -> bool {
        !self.is_empty()
    }

    fn append(&mut self, from: usize, behind: Self) {
        self.extend(behind.into_iter().map(|position| position + from));
    }
}

/// What became of the document of an `insert_one`.
#[derive(Debug)]
pub(crate) struct Inserted {
    pub(crate) id: Bson,
    pub(crate) generated: GeneratedValues,
}

/// Changes that are to be written with the documents: where gapless sequences stand.
pub(super) trait Beside {
    /// Whether there are any.
    fn is_empty(&self) -> bool;
    /// Stages them, given how many documents of the commit are accepted.
    fn stage(&mut self, batch: &mut Batch<'_>, accepted: usize);
}

/// Nothing beside the documents.
pub(super) struct Nothing;

impl Beside for Nothing {
    fn is_empty(&self) -> bool {
        true
    }

    fn stage(&mut self, _batch: &mut Batch<'_>, _accepted: usize) {}
}

/// Stores one document; gives its `_id` and what was generated for it.
#[inline]
pub(crate) fn insert_one(
    target: Target<'_>,
    generator: &Generator,
    document: &mut Drafts,
) -> Result<Inserted> {
    if !target.fields.is_empty() {
        return numbered::insert_one(target, generator, document);
    }
    let id = insert_beside(target, generator, document, &mut Nothing)?;
    Ok(Inserted { id, generated: GeneratedValues::default() })
}

/// Prepares one document and stores it, and what is to be written with it.
#[inline]
pub(super) fn insert_beside(
    target: Target<'_>,
    generator: &Generator,
    document: &mut Drafts,
    beside: &mut impl Beside,
) -> Result<Bson> {
    let draft = document.iter_mut().next().expect("insert_one() is given a document");
    let prepared = prepare(draft, target.collection.id, generator, &mut Vec::with_capacity(KEY_BYTES))
        .map_err(Error::write)?;
    insert_prepared(target, &prepared, beside)?;
    Ok(prepared.id())
}

/// Stores one document, and what is to be written with it.
#[inline]
pub(super) fn insert_prepared(
    target: Target<'_>,
    prepared: &Prepared<'_>,
    beside: &mut impl Beside,
) -> Result<()> {
    if let Some(preview) = target.preview {
        preview(prepared.bytes)?;
    }
    if !target.indexes.is_empty() {
        return insert_with_entries(target, prepared, beside);
    }
    let _latched = target.store.latches.lock_one(&prepared.record_key);
    refuse_taken_id(target, prepared)?;
    if beside.is_empty() {
        target.store.commit_record(target.database, &prepared.record_key, prepared.bytes, target.level)?;
    } else {
        commit_with_entries(target, (prepared, &Drawn::default()), beside)?;
    }
    target.collection.count.add(1);
    Ok(())
}

/// Stores the only document of a call that could have had more. It is one insert, whichever door it came through.
pub(crate) fn insert_only<K: Kept>(
    target: Target<'_>,
    generator: &Generator,
    document: &mut Drafts,
) -> Result<Outcome<K>> {
    match insert_one(target, generator, document) {
        Ok(Inserted { id, generated }) => {
            let last_generate_id = numbered::first_value(Some(&generated));
            let generated =
                if generated.is_empty() { HashMap::new() } else { HashMap::from([(0, generated)]) };
            Ok(Outcome { inserted: K::only(id), refused: Vec::new(), generated, last_generate_id })
        }
        Err(error) if matches!(error.kind(), ErrorKind::Write(_)) => {
            let refused = error.into_refusal()?;
            Ok(Outcome { refused: vec![refused.at(0)], ..Outcome::default() })
        }
        Err(error) => Err(error),
    }
}

/// Stores many documents, in as few commits as memory allows.
///
/// An `Err` is a failure of the storage: commits before it hold, and the one that failed may or may not.
pub(crate) fn insert_many<K: Kept>(
    target: Target<'_>,
    generator: &Generator,
    documents: &mut Drafts,
    ordering: Ordering,
) -> Result<Outcome<K>> {
    if !target.fields.is_empty() {
        return numbered::insert_many(target, generator, documents, ordering);
    }
    insert_many_beside(target, generator, documents, (ordering, &mut Nothing))
}

/// Stores many documents, and what is to be written with them. Where there is anything, they fit one commit.
pub(super) fn insert_many_beside<K: Kept>(
    target: Target<'_>,
    generator: &Generator,
    documents: &mut Drafts,
    (ordering, beside): (Ordering, &mut impl Beside),
) -> Result<Outcome<K>> {
    let mut outcome = Outcome { inserted: K::with_capacity(documents.len()), ..Outcome::default() };
    let mut candidates = Vec::with_capacity(documents.len());
    let mut scratch = Vec::new();
    let mut pending_bytes = 0;
    for (position, draft) in documents.iter_mut().enumerate() {
        target.operation.step()?;
        pending_bytes += draft.len();
        if pending_bytes > COMMIT_BYTES_MAX && !candidates.is_empty() && beside.is_empty() {
            pending_bytes = draft.len();
            commit_chunk(target, std::mem::take(&mut candidates), (ordering, beside), &mut outcome)?;
        }
        if ordering == Ordering::Ordered && !outcome.refused.is_empty() {
            break;
        }
        match prepare_candidate(target, generator, (position, draft), &mut scratch) {
            Ok(candidate) => {
                pending_bytes += candidate.drawn.entries.iter().map(Entry::bytes).sum::<usize>();
                candidates.push(candidate);
            }
            Err(refusal) => outcome.refused.push(refusal.at(position)),
        }
    }
    commit_chunk(target, candidates, (ordering, beside), &mut outcome)?;
    outcome.refused.sort_unstable_by_key(|error| error.index);
    if ordering == Ordering::Ordered {
        // A malformed document may have been seen before a duplicate that stands in front of it.
        outcome.refused.truncate(1);
    }
    Ok(outcome)
}

/// Refuses a document that no collection can store.
pub(crate) fn check_one(document: &Drafts) -> Result<()> {
    document.documents().try_for_each(validate_insert).map_err(Error::write)
}

/// The refusals of a call of which no document can be stored whatever the collection holds; else nothing.
pub(crate) fn refuse_all(documents: &Drafts, ordering: Ordering) -> Vec<IndexedWriteError> {
    let mut refused = Vec::new();
    for (position, document) in documents.documents().enumerate() {
        match validate_insert(document) {
            Ok(()) => return Vec::new(),
            Err(refusal) => refused.push(refusal.at(position)),
        }
        if ordering == Ordering::Ordered {
            break;
        }
    }
    refused
}

/// A prepared document of a batch with its entries.
struct Candidate<'a> {
    position: usize,
    prepared: Prepared<'a>,
    drawn: Drawn,
}

fn insert_with_entries(target: Target<'_>, prepared: &Prepared<'_>, beside: &mut impl Beside) -> Result<()> {
    let drawn = entries_of(target.indexes, prepared.document(), encoded_id(&prepared.record_key))
        .map_err(Error::write)?;
    let mut latches = LatchSet::default();
    latches.add(&prepared.record_key);
    add_unique_latches(&mut latches, target, &drawn.entries);
    let _latched = target.store.latches.lock(&latches);
    refuse_taken_id(target, prepared)?;
    for entry in &drawn.entries {
        if is_unique(target, entry) && target.exists(Family::Entries, &entry.key)? {
            return Err(Error::write(taken_entry(target, entry, encoded_id(&prepared.record_key))));
        }
    }
    commit_with_entries(target, (prepared, &drawn), beside)?;
    target.collection.count.add(1);
    Ok(())
}

fn commit_with_entries(
    target: Target<'_>,
    (prepared, drawn): (&Prepared<'_>, &Drawn),
    beside: &mut impl Beside,
) -> Result<()> {
    let bytes = prepared.bytes.len() + 128 * (1 + drawn.entries.len());
    let mut batch = Batch::with_capacity(target.database, bytes);
    stage(&mut batch, prepared, &drawn.entries);
    beside.stage(&mut batch, 1);
    target.commit(batch, &drawn.arrays)
}

#[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
#[inline(always)]
fn refuse_taken_id(target: Target<'_>, prepared: &Prepared<'_>) -> Result<()> {
    if target.admit(&prepared.record_key)? == Absence::Unproven
        && target.exists(Family::Records, &prepared.record_key)?
    {
        return Err(Error::write(duplicate::of_id(&target.collection.namespace, &prepared.id())));
    }
    Ok(())
}

fn prepare_candidate<'a>(
    target: Target<'_>,
    generator: &Generator,
    (position, draft): (usize, Draft<'a>),
    scratch: &mut Vec<u8>,
) -> std::result::Result<Candidate<'a>, Refusal> {
    let prepared = prepare(draft, target.collection.id, generator, scratch)?;
    let drawn = if target.indexes.is_empty() {
        Drawn::default()
    } else {
        entries_of(target.indexes, prepared.document(), encoded_id(&prepared.record_key))?
    };
    Ok(Candidate { position, prepared, drawn })
}

fn commit_chunk<K: Kept>(
    target: Target<'_>,
    candidates: Vec<Candidate<'_>>,
    (ordering, beside): (Ordering, &mut impl Beside),
    outcome: &mut Outcome<K>,
) -> Result<()> {
    let mut latches = LatchSet::default();
    let mut bytes = 0;
    for candidate in &candidates {
        latches.add(&candidate.prepared.record_key);
        add_unique_latches(&mut latches, target, &candidate.drawn.entries);
        bytes += candidate.prepared.bytes.len() + 64 * (1 + candidate.drawn.entries.len());
    }
    let _latched = target.store.latches.lock(&latches);
    let mut batch = Batch::with_capacity(target.database, bytes);
    let mut staged = StagedKeys::default();
    let absence = admit_batch(target, &candidates);
    let mut accepted = Vec::with_capacity(candidates.len());
    let mut arrays = NewArrays::new();
    for candidate in &candidates {
        match find_taken(target, (candidate, absence), &mut staged)? {
            None => {
                stage(&mut batch, &candidate.prepared, &candidate.drawn.entries);
                arrays.extend(candidate.drawn.arrays.iter().cloned());
                staged.add(target, candidate);
                accepted.push(candidate.position);
            }
            Some(refusal) => {
                outcome.refused.push(refusal.at(candidate.position));
                if ordering == Ordering::Ordered {
                    break;
                }
            }
        }
    }
    if accepted.is_empty() {
        return Ok(());
    }
    beside.stage(&mut batch, accepted.len());
    target.commit(batch, &arrays)?;
    target.collection.count.add(i64::try_from(accepted.len()).unwrap_or(i64::MAX));
    let mut accepted = accepted.into_iter().peekable();
    for candidate in candidates {
        if accepted.next_if_eq(&candidate.position).is_some() {
            outcome.inserted.keep(candidate.position, &candidate.prepared);
        }
    }
    Ok(())
}

/// The keys of the documents that the batch holds already: a duplicate may stand in the same call.
#[derive(Default)]
struct StagedKeys<'a> {
    /// Record keys; gathered into `taken` only when a document comes whose `_id` is not proven absent.
    record_keys: Vec<&'a [u8]>,
    gathered: usize,
    taken: HashSet<&'a [u8]>,
}

impl<'a> StagedKeys<'a> {
    fn add(&mut self, target: Target<'_>, candidate: &'a Candidate<'_>) {
        self.record_keys.push(&candidate.prepared.record_key);
        self.taken.extend(unique_entries(target, &candidate.drawn.entries).map(|entry| entry.key.as_slice()));
    }

    fn holds_record(&mut self, key: &[u8]) -> bool {
        self.taken.extend(self.record_keys.iter().skip(self.gathered));
        self.gathered = self.record_keys.len();
        self.taken.contains(key)
    }

    fn holds_entry(&self, key: &[u8]) -> bool {
        self.taken.contains(key)
    }
}

/// Made ids ascend: one look at the bound admits all of them.
fn admit_batch(target: Target<'_>, candidates: &[Candidate<'_>]) -> Absence {
    let ascending = candidates.is_sorted_by(|a, b| a.prepared.record_key < b.prepared.record_key);
    if let (true, [first, .., last]) = (ascending, candidates)
        && target.collection.key_bound.raise_over(&first.prepared.record_key, &last.prepared.record_key)
    {
        return Absence::Proven;
    }
    Absence::Unproven
}

fn find_taken(
    target: Target<'_>,
    (candidate, absence): (&Candidate<'_>, Absence),
    staged: &mut StagedKeys<'_>,
) -> Result<Option<Refusal>> {
    let key = &candidate.prepared.record_key;
    if absence == Absence::Unproven
        && target.admit(key)? == Absence::Unproven
        && (staged.holds_record(key) || target.exists(Family::Records, key)?)
    {
        return Ok(Some(duplicate::of_id(&target.collection.namespace, &candidate.prepared.id())));
    }
    for entry in unique_entries(target, &candidate.drawn.entries) {
        if staged.holds_entry(&entry.key) || target.exists(Family::Entries, &entry.key)? {
            return Ok(Some(taken_entry(target, entry, encoded_id(key))));
        }
    }
    Ok(None)
}

fn stage(batch: &mut Batch<'_>, prepared: &Prepared<'_>, entries: &[Entry]) {
    batch.put(Family::Records, &prepared.record_key, prepared.bytes);
    for entry in entries {
        batch.put(Family::Entries, &entry.key, &entry.value);
    }
}

pub(super) fn add_unique_latches(latches: &mut LatchSet, target: Target<'_>, entries: &[Entry]) {
    for entry in unique_entries(target, entries) {
        latches.add(&entry.key);
    }
}

pub(super) fn is_unique(target: Target<'_>, entry: &Entry) -> bool {
    target.indexes.get(entry.index).is_some_and(|index| index.spec.is_unique())
}

pub(super) fn taken_entry(target: Target<'_>, entry: &Entry, encoded_id: &[u8]) -> Refusal {
    let index = target.indexes.get(entry.index).expect("entries are made from these indexes");
    let types = entry.value.strip_prefix(encoded_id).unwrap_or_default();
    duplicate::of_entry(&target.collection.namespace, index, &entry.key, types)
}

fn unique_entries<'a>(target: Target<'_>, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(move |entry| is_unique(target, entry))
}
