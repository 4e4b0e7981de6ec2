//! Inserts, read from top to bottom: complete, prepare, entries, latches, absence, one commit, publish.
//!
//! A document comes as a draft. To complete it is to decide its `_id` and to number it (`auto_increment`, `complete`);
//! `prepare` makes the stored bytes and the record key, `entries` what its indexes get. The latches, the proof that its
//! keys are free, and the one commit are `commit`. What was committed is published last: sequences go on from there.

use base::error::{Error, ErrorKind, Result};
use base::insert_error::IndexedWriteError;
use base::write_error::Refusal;
use bson::Bson;
use index::multikey::ArrayComponents;

use crate::document::draft::Drafts;
use crate::document::validate::validate_insert;
use crate::write::auto_increment::many_documents::{ManyDocuments, NumberedPart};
use crate::write::auto_increment::one_document::OneDocument;
use crate::write::capped::{self, Call};
use crate::write::commit::{Candidate, commit_many, commit_one};
use crate::write::complete::CompleteDraft;
use crate::write::entries::{Drawn, Entry, entries_of};
use crate::write::outcome::{InsertOrder, InsertOutcome, Inserted, InsertedSet};
use crate::write::prepare::{KEY_BYTES, Prepared, encoded_id, prepare};
use crate::write::{COMMIT_BYTES_MAX, Target, staged};

/// Stores one document. When a generated value is in use already, the next one is tried, once.
#[inline]
pub(crate) fn insert_one(target: Target<'_>, drafts: &mut Drafts) -> Result<Inserted> {
    let mut document = OneDocument::of(drafts);
    // Numbers come before everything else: an ordered or gapless sequence is held from its first value to the commit, and
    // no latch may be waited for in front of a turn, because a writer that has the turn waits for latches.
    document.number(target)?;
    let in_turn = target.within_turn(document.takes_turns());
    let id = match store_one(in_turn, &mut document) {
        Ok(id) => id,
        Err(error) => store_renumbered(in_turn, &mut document, error)?,
    };
    // Only after the commit: a gapless sequence that went on before would skip what a failed commit did not store.
    let generated = document.publish(in_turn);
    // After the turn, so that writers who waited for it share one sync.
    target.sync_after_turn(in_turn)?;
    Ok(Inserted { id, generated })
}

/// Stores many documents, in as few commits as memory allows, by a caller that keeps the collection's gate.
///
/// An `Err` is a failure of the storage: commits before it hold, and the one that failed may or may not.
pub(crate) fn insert_many<S: InsertedSet>(
    target: Target<'_>,
    drafts: &mut Drafts,
    order: InsertOrder,
) -> Result<InsertOutcome<S>> {
    let mut inserting = InsertingMany::new(drafts, order);
    loop {
        if let Some(outcome) = inserting.go_on(target)? {
            return Ok(outcome);
        }
    }
}

/// The insert of many documents, which pauses when somebody wants to be alone in the collection. What is stored by then stays, as if
/// the rest were another call.
pub(crate) struct InsertingMany<'d, S> {
    drafts: &'d mut Drafts,
    order: InsertOrder,
    /// The first document that was not tried yet.
    next: usize,
    outcome: InsertOutcome<S>,
}

/// After how many documents it is looked whether somebody wants to be alone.
const DOCUMENTS_A_LOOK: usize = 256;

impl<'d, S: InsertedSet> InsertingMany<'d, S> {
    pub(crate) fn new(drafts: &'d mut Drafts, order: InsertOrder) -> Self {
        // The outcome of a single document is made with it.
        let outcome = match drafts.len() {
            1 => InsertOutcome::default(),
            count => InsertOutcome::with_capacity(count),
        };
        Self { drafts, order, next: 0, outcome }
    }

    /// Stores documents, in as few commits as memory allows. Returns `None` if it has paused: the caller is to leave the gate, and to
    /// go on once it has entered again.
    ///
    /// An `Err` is a failure of the storage: commits before it hold, and the one that failed may or may not.
    pub(crate) fn go_on(&mut self, target: Target<'_>) -> Result<Option<InsertOutcome<S>>> {
        if self.drafts.len() == 1 {
            return insert_only(target, self.drafts).map(Some);
        }
        let outcome = &mut self.outcome;
        let mut documents = ManyDocuments::enter(target, self.drafts, self.order, self.next)?;
        let in_turn = target.within_turn(documents.takes_turns());
        let mut paused_at = None;
        while let Some(part) = documents.number_part(in_turn, &mut outcome.refused)? {
            let stored = store_part(in_turn, part, outcome);
            let stored = stored.inspect_err(|error| documents.failed(error))?;
            paused_at = stored.paused_at;
            if paused_at.is_some() {
                break;
            }
            documents.publish_part(in_turn, stored.documents, outcome)?;
            // Between parts, because the values of a part that was begun cannot be given back.
            paused_at = documents.next().filter(|_| pauses(target));
            if paused_at.is_some() {
                break;
            }
        }
        // This ends the turns. The sync comes after it, so that writers who waited for a turn share one.
        documents.finish(in_turn)?;
        target.sync_after_turn(in_turn)?;
        match paused_at {
            Some(next) => {
                self.next = next;
                Ok(None)
            }
            None => Ok(Some(std::mem::take(&mut self.outcome))),
        }
    }
}

/// The result of a part.
struct StoredPart {
    /// The number of stored documents.
    documents: usize,
    /// The first document that was not tried, if the part has paused.
    paused_at: Option<usize>,
}

/// Stores the only document of a call that could have had more. MongoDB's drivers send such
/// a call for an `insert_one` too, so both are the same insert.
fn insert_only<S: InsertedSet>(target: Target<'_>, drafts: &mut Drafts) -> Result<InsertOutcome<S>> {
    match insert_one(target, drafts) {
        Ok(inserted) => Ok(InsertOutcome::of_one(inserted)),
        // The rejection of a document has its position, as for any other of a batch. All else fails the call.
        Err(error) if matches!(error.kind(), ErrorKind::Write(_)) => {
            let refused = error.into_refusal()?;
            Ok(InsertOutcome { refused: vec![refused.at(0)], ..InsertOutcome::default() })
        }
        Err(error) => Err(error),
    }
}

/// Prepares and commits one numbered document. Returns its `_id`.
#[inline]
fn store_one(target: Target<'_>, document: &mut OneDocument<'_>) -> Result<Bson> {
    // An upsert may have found a document before, which did not match any more.
    if let Some(retryable) = target.retryable {
        retryable.forget_attempt();
    }
    if let Some(once) = target.once {
        once.forget_attempt();
        once.note_generated(&document.generated());
    }
    let (complete, holds) = document.complete(target.generator)?;
    // Long enough for the key of any common `_id`, so that it is allocated once.
    let mut scratch = Vec::with_capacity(KEY_BYTES);
    let prepared = prepare(complete, target.collection, &mut scratch).map_err(Error::write)?;
    // The document that a find-and-modify returns for an upsert is made of the final bytes, and before the commit: if
    // it cannot be made, nothing may be stored.
    if let Some(preview) = target.preview {
        preview(prepared.bytes)?;
    }
    if let Some(checks) = target.checks
        && let Some(refusal) = checks.refuse(prepared.document())?
    {
        return Err(Error::write(refusal));
    }
    let drawn = draw(target, &prepared).map_err(Error::write)?;
    let candidate = Candidate { position: 0, prepared, drawn };
    if let Some(staging) = target.staging {
        staged::insert(target, staging, &candidate)?;
        return Ok(candidate.prepared.id());
    }
    // Before any latch: see `catalog::capped`.
    match capped::turn(target)? {
        Some(turn) => capped::commit_one(target, turn, &candidate, holds)?,
        None => commit_one(target, &candidate, holds)?,
    }
    Ok(candidate.prepared.id())
}

/// Stores a document with other values, if `error` says that a generated one is in use.
#[cold]
fn store_renumbered(target: Target<'_>, document: &mut OneDocument<'_>, error: Error) -> Result<Bson> {
    document.failed(&error);
    if !document.renumber(target, &error)? {
        return Err(error);
    }
    let stored = store_one(target, document);
    if let Err(error) = &stored {
        document.failed(error);
        document.write_passed(target, error)?;
    }
    stored
}

/// Prepares and commits documents that are numbered together, and adds to `outcome` what became of each. Where nothing is numbered, it
/// pauses after some if somebody wants to be alone in the collection.
fn store_part<S: InsertedSet>(
    target: Target<'_>,
    part: NumberedPart<'_, '_>,
    outcome: &mut InsertOutcome<S>,
) -> Result<StoredPart> {
    let NumberedPart { start, done, drafts, order, holds } = part;
    let refused_before = outcome.refused.len();
    let mut candidates = Vec::with_capacity(drafts.len());
    let mut scratch = Vec::new();
    let (mut stored, mut pending_bytes, mut paused_at) = (0, 0, None);
    for (position, draft) in (start - done..).zip(drafts.iter_mut()).skip(done) {
        // Between documents, so that a call that ran out of time ends with what it committed.
        target.operation.step()?;
        pending_bytes += draft.len();
        // The mark of a gapless sequence is right for the whole part only, which was cut to fit one commit.
        if pending_bytes > COMMIT_BYTES_MAX && !candidates.is_empty() && !holds.is_gapless() {
            pending_bytes = draft.len();
            stored += commit_all(target, Call { candidates: &candidates, order, holds }, outcome)?;
            candidates.clear();
        }
        // The commit above may have rejected a document: an ordered call stops there.
        if order == InsertOrder::Ordered && outcome.refused.len() > refused_before {
            break;
        }
        let is_look = position > start && (position - start).is_multiple_of(DOCUMENTS_A_LOOK);
        if is_look && target.fields.is_empty() && pauses(target) {
            paused_at = Some(position);
            break;
        }
        let complete = CompleteDraft::of(draft, target.generator);
        let prepared = complete.and_then(|complete| prepare(complete, target.collection, &mut scratch));
        let mut candidate = prepared.and_then(|prepared| {
            let drawn = draw(target, &prepared)?;
            Ok(Candidate { position, prepared, drawn })
        });
        if let Some(checks) = target.checks
            && let Ok(checked) = &candidate
            && let Some(refusal) = checks.refuse(checked.prepared.document())?
        {
            candidate = Err(refusal);
        }
        match candidate {
            Ok(candidate) => {
                // Entries count too: a document may have a thousand of them.
                pending_bytes += candidate.drawn.entries.iter().map(Entry::bytes).sum::<usize>();
                candidates.push(candidate);
            }
            Err(refusal) => outcome.refused.push(refusal.at(position)),
        }
    }
    stored += commit_all(target, Call { candidates: &candidates, order, holds }, outcome)?;
    if let Some(refused) = outcome.refused.get_mut(refused_before..) {
        refused.sort_unstable_by_key(|error| error.index);
    }
    if order == InsertOrder::Ordered {
        // A malformed document is found when it is prepared, a duplicate before it only by the commit.
        outcome.refused.truncate(refused_before + 1);
        // The last commit has rejected one: there is no rest to go on with.
        if outcome.refused.len() > refused_before {
            paused_at = None;
        }
    }
    Ok(StoredPart { documents: stored, paused_at })
}

/// Whether a call is to leave the collection for a moment. A statement of a transaction is not in it.
fn pauses(target: Target<'_>) -> bool {
    target.staging.is_none() && target.collection.is_wanted_alone()
}

/// Commits candidates, in the turn of a capped collection.
fn commit_all<S: InsertedSet>(
    target: Target<'_>,
    call: Call<'_, '_, '_>,
    outcome: &mut InsertOutcome<S>,
) -> Result<usize> {
    if let Some(staging) = target.staging {
        let staged = staged::insert_all(target, staging, (call.candidates, call.order), outcome)?;
        // The documents after those were rejected, so their numbers are free again.
        call.holds.back_to(staged);
        return Ok(staged);
    }
    match capped::turn(target)? {
        Some(turn) => capped::commit_many(target, turn, call, outcome),
        None => commit_many(target, call.candidates, call.order, call.holds, outcome),
    }
}

/// Builds the index entries of a prepared document.
#[inline]
fn draw(target: Target<'_>, prepared: &Prepared<'_>) -> std::result::Result<Drawn, Refusal> {
    let id = encoded_id(&prepared.record_key);
    let is_shortened = target.collection.record_keys.is_shortened(id);
    if target.indexes.is_empty() && !is_shortened {
        return Ok(Drawn::default());
    }
    let mut drawn = entries_of(target.indexes.iter().enumerate(), prepared.document(), id)?;
    let marks = [ArrayComponents::SHORTENED];
    if is_shortened && target.collection.record_keys.marks.misses(&marks) {
        drawn.arrays.push((None, marks.to_vec()));
    }
    Ok(drawn)
}

/// Rejects a document that no collection can store.
pub(crate) fn check_one(document: &Drafts) -> Result<()> {
    document.documents().try_for_each(validate_insert).map_err(Error::write)
}

/// The rejections of a call of which no document can be stored, whatever the collection holds; empty if one can.
pub(crate) fn refuse_all(documents: &Drafts, order: InsertOrder) -> Vec<IndexedWriteError> {
    let mut refused = Vec::new();
    for (position, document) in documents.documents().enumerate() {
        match validate_insert(document) {
            // One that can be stored makes the collection, and then the insert itself rejects the others.
            Ok(()) => return Vec::new(),
            Err(refusal) => refused.push(refusal.at(position)),
        }
        if order == InsertOrder::Ordered {
            break;
        }
    }
    refused
}
