//! Inserts into collections with auto-increment fields: documents are completed and numbered, then take the same
//! straight line as all others.
//!
//! The rules are SequoiaDB's. All documents of a call are completed before one is stored; what a field's mode refuses
//! refuses the call. Values that were taken stay taken when the insert fails, but those of gapless sequences, which
//! are written with their documents or not at all.

use std::ops::Range;

use bson::{Bson, Document};
use sequence::auto_increment::Field;
use sequence::generator::Generator;

use crate::document::complete::Completion;
use crate::document::draft::Drafts;
use crate::error::{Error, ErrorKind, IndexedWriteError, Result};
use crate::generated::GeneratedValues;
use crate::write::Target;
use crate::write::duplicate::{key_pattern, taken_key};
use crate::write::insert::{
    COMMIT_BYTES_MAX, Inserted, Kept, Nothing, Ordering, Outcome, insert_beside, insert_many_beside,
};
use crate::write::lacking::Lacking;
use crate::write::numbering::{Refusable, Writers, generated, values_of};

/// How many documents a gapless sequence numbers at once behind a refused one; then twice as many, and so on.
const CHUNK_LEN_BEHIND_REFUSAL: usize = 8;

/// Stores one document.
///
/// When a generated value is in use already, the rest of the block is given up and the next value tried, once. A
/// document that brings a value of its own is not tried again.
#[inline]
pub(super) fn insert_one(
    target: Target<'_>,
    generator: &Generator,
    document: &mut Drafts,
) -> Result<Inserted> {
    match Lacking::of(target, document) {
        Some(lacking) => lacking.insert(target, generator, document),
        None => insert_completed(target, generator, document),
    }
}

fn insert_completed(target: Target<'_>, generator: &Generator, document: &Drafts) -> Result<Inserted> {
    let mut writers = Writers::enter(target)?;
    let line = unsynced(target, writers.takes_turns());
    let mut generated = GeneratedValues::default();
    let mut inserted = attempt(line, generator, document, (&mut writers, &mut generated));
    if let Err(Failed { in_use: Some(index), .. }) = &inserted {
        writers.give_up(index);
        inserted = attempt(line, generator, document, (&mut writers, &mut generated));
        if matches!(inserted, Err(Failed { in_use: Some(_), .. })) {
            // Both values are in use by other documents, so passing them leaves no gap.
            writers.write_alone(line.level)?;
        }
    }
    let id = inserted.map_err(|failed| failed.error)?;
    drop(writers);
    settle(target, line)?;
    Ok(Inserted { id, generated })
}

/// Stores many documents. A gapless sequence numbers only those that are stored, so a refused one ends a commit,
/// and those behind it are numbered again.
pub(super) fn insert_many<K: Kept>(
    target: Target<'_>,
    generator: &Generator,
    documents: &Drafts,
    ordering: Ordering,
) -> Result<Outcome<K>> {
    let mut writers = Writers::enter(target)?;
    let line = unsynced(target, writers.takes_turns());
    let outcome = if writers.is_gapless() {
        insert_in_chunks(line, generator, documents, (ordering, &mut writers))?
    } else {
        let mut completion = complete(line, documents.documents())?;
        writers.fill(&mut completion, Refusable::Rest)?;
        let made = generated(line, &completion);
        let mut outcome: Outcome<K> =
            insert_many_beside(line, generator, &mut completion.drafts, (ordering, &mut Nothing))?;
        outcome.last_generate_id = first_value(made.first().map(|(_, values)| values));
        outcome.generated =
            made.into_iter().filter(|(document, _)| outcome.inserted.has(*document)).collect();
        outcome
    };
    drop(writers);
    settle(target, line)?;
    Ok(outcome)
}

/// The first generated value of a document, by the name of its field.
pub(crate) fn first_value(values: Option<&GeneratedValues>) -> Option<i64> {
    values?.iter().next().map(|(_, value)| value)
}

struct Failed {
    error: Error,
    /// The fields of the index in which a generated value was found in use.
    in_use: Option<Box<Document>>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, in_use: None }
    }
}

fn attempt(
    target: Target<'_>,
    generator: &Generator,
    document: &Drafts,
    (writers, generated): (&mut Writers<'_>, &mut GeneratedValues),
) -> std::result::Result<Bson, Failed> {
    let mut completion = complete(target, document.documents())?;
    writers.fill(&mut completion, Refusable::Whole)?;
    *generated = values_of(target, &completion.drafts, &completion.events);
    let id = match insert_beside(target, generator, &mut completion.drafts, writers) {
        Ok(id) => id,
        Err(error) => {
            let index = if completion.brings_values() { None } else { index_on_field(target, &error) };
            let in_use = index.cloned().map(Box::new);
            if in_use.is_some() {
                // Only the value that is in use is passed: those of other gapless fields are given again.
                writers.begin_again()?;
                writers.pass(&completion, 0, in_use.as_deref());
            }
            return Err(Failed { error, in_use });
        }
    };
    writers.publish()?;
    Ok(id)
}

fn insert_in_chunks<K: Kept>(
    target: Target<'_>,
    generator: &Generator,
    documents: &Drafts,
    (ordering, writers): (Ordering, &mut Writers<'_>),
) -> Result<Outcome<K>> {
    let all: Vec<&[u8]> = documents.documents().collect();
    if all.iter().map(|document| document.len()).sum::<usize>() > COMMIT_BYTES_MAX {
        // What a mode refuses refuses the call, so all are completed before the first is stored; where one commit holds
        // all, that is what it does.
        complete(target, all.iter().copied())?;
    }
    let mut whole = Outcome::<K>::default();
    let (mut done, mut passed) = (0, false);
    // Short behind a refusal, so that many of them do not number the whole rest again each time.
    let mut chunk_len = usize::MAX;
    while done < all.len() {
        let mut completion = Completion::default();
        let mut bytes = 0;
        for document in all.iter().skip(done).take(chunk_len) {
            bytes += document.len();
            if bytes > COMMIT_BYTES_MAX && completion.drafts.len() > 0 {
                break;
            }
            completion.push(document, target.fields.tree(), |position| field(target, position))?;
        }
        if let Err(error) = writers.fill(&mut completion, Refusable::Rest) {
            whole.refused.extend(refuse_rest(error, done..all.len(), ordering)?);
            break;
        }
        let made = generated(target, &completion);
        let length = completion.drafts.len();
        let chunk: Outcome<K> = insert_many_beside(
            target,
            generator,
            &mut completion.drafts,
            (Ordering::Ordered, &mut *writers),
        )?;
        if chunk.inserted.has_any() {
            writers.publish()?;
            passed = false;
        } else {
            writers.back_to(0);
        }
        whole.last_generate_id =
            whole.last_generate_id.or(first_value(made.first().map(|(_, values)| values)));
        whole.generated.extend(
            made.into_iter()
                .filter(|(document, _)| chunk.inserted.has(*document))
                .map(|(document, values)| (document + done, values)),
        );
        whole.inserted.append(done, chunk.inserted);
        let Some(mut refusal) = chunk.refused.into_iter().next() else {
            done += length;
            chunk_len = chunk_len.saturating_mul(2);
            continue;
        };
        chunk_len = CHUNK_LEN_BEHIND_REFUSAL;
        // A generated value that is in use by another document is passed, and leaves no gap.
        passed |= writers.pass(&completion, refusal.index, key_pattern(refusal.details.as_ref()));
        let behind = done + refusal.index + 1;
        refusal.index += done;
        whole.refused.push(refusal);
        if ordering == Ordering::Ordered {
            break;
        }
        done = behind;
    }
    if passed {
        writers.write_alone(target.level)?;
    }
    Ok(whole)
}

/// What a sequence refuses refuses the call, unless a part of it is done: then it refuses the rest, document by document.
fn refuse_rest(error: Error, rest: Range<usize>, ordering: Ordering) -> Result<Vec<IndexedWriteError>> {
    if rest.start == 0 || !matches!(error.kind(), ErrorKind::Sequence(_)) {
        return Err(error);
    }
    let refusal = error.into_refusal()?;
    let count = match ordering {
        Ordering::Ordered => 1,
        Ordering::Unordered => rest.len(),
    };
    Ok(rest.take(count).map(|position| refusal.clone().at(position)).collect())
}

/// The target of a write whose turn ends before it is synced.
pub(super) fn unsynced(target: Target<'_>, takes_turns: bool) -> Target<'_> {
    Target { level: target.level.within_turn(takes_turns), ..target }
}

/// Syncs behind the turn what the write concern wants synced.
pub(super) fn settle(target: Target<'_>, line: Target<'_>) -> Result<()> {
    if target.level == line.level { Ok(()) } else { target.store.sync(target.database) }
}

fn complete<'a>(target: Target<'_>, documents: impl Iterator<Item = &'a [u8]>) -> Result<Completion> {
    let mut completion = Completion::default();
    for document in documents {
        completion.push(document, target.fields.tree(), |position| field(target, position))?;
    }
    Ok(completion)
}

fn field(target: Target<'_>, position: usize) -> &Field {
    &target.fields.at(position).field
}

/// The fields of the index, if the error is a duplicate key of one that holds an auto-increment field.
pub(super) fn index_on_field<'a>(target: Target<'_>, error: &'a Error) -> Option<&'a Document> {
    let (pattern, _) = taken_key(error)?;
    let is_numbered = target.fields.iter().any(|field| pattern.contains_key(field.field.path()));
    is_numbered.then_some(pattern)
}
