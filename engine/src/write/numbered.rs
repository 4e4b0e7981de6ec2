//! Inserts into collections with auto-increment fields: documents are completed and numbered, then take the same
//! straight line as all others.
//!
//! The rules are SequoiaDB's. All documents of a call are completed before one is stored; what a field's mode refuses
//! refuses the call. Values that were taken stay taken when the insert fails, but those of gapless sequences, which
//! are written with their documents or not at all.

use bson::Document;
use sequence::auto_increment::Field;
use sequence::generator::Generator;

use crate::document::build::Drafts;
use crate::document::complete::Completion;
use crate::error::{Error, ErrorKind, Result, WriteError, WriteFailure};
use crate::generated::GeneratedValues;
use crate::storage::write::CommitLevel;
use crate::write::Target;
use crate::write::duplicate::DUPLICATE_KEY;
use crate::write::insert::{
    COMMIT_BYTES_MAX, Inserted, Nothing, Ordering, Outcome, insert_beside, insert_many_beside,
};
use crate::write::numbering::{Refusable, Writers, generated, values_of};

/// Stores one document.
///
/// When a generated value is in use already, the rest of the block is given up and the next value tried, once. A
/// document that brings a value of its own is not tried again.
pub(super) fn insert_one(target: Target<'_>, generator: &Generator, document: &Drafts) -> Result<Inserted> {
    let mut writers = Writers::enter(target)?;
    let line = unsynced(target, &writers);
    let mut inserted = attempt(line, generator, document, &mut writers);
    if let Err(Failed { in_use: Some(index), .. }) = &inserted {
        writers.give_up(index);
        inserted = attempt(line, generator, document, &mut writers);
        if matches!(inserted, Err(Failed { in_use: Some(_), .. })) {
            // Both values are in use by other documents, so passing them leaves no gap.
            writers.write_alone(line.level)?;
        }
    }
    let inserted = inserted.map_err(|failed| failed.error)?;
    drop(writers);
    settle(target, line)?;
    Ok(inserted)
}

/// Stores many documents. A gapless sequence numbers only those that are stored, so a refused one ends a commit,
/// and those behind it are numbered again.
pub(super) fn insert_many(
    target: Target<'_>,
    generator: &Generator,
    documents: &Drafts,
    ordering: Ordering,
) -> Result<Outcome> {
    let mut writers = Writers::enter(target)?;
    let line = unsynced(target, &writers);
    let outcome = if writers.is_gapless() {
        insert_in_chunks(line, generator, documents, (ordering, &mut writers))?
    } else {
        let mut completion = complete(line, documents.documents())?;
        writers.fill(&mut completion, Refusable::Rest)?;
        let made = generated(line, &completion);
        let mut outcome =
            insert_many_beside(line, generator, &mut completion.drafts, (ordering, &mut Nothing))?;
        outcome.last_generate_id = first_value(made.first().map(|(_, values)| values));
        outcome.generated =
            made.into_iter().filter(|(document, _)| outcome.inserted.contains_key(document)).collect();
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
    in_use: Option<Document>,
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
    writers: &mut Writers<'_>,
) -> std::result::Result<Inserted, Failed> {
    let mut completion = complete(target, document.documents())?;
    writers.fill(&mut completion, Refusable::Whole)?;
    let generated = values_of(target, &completion.drafts, &completion.events);
    let id = match insert_beside(target, generator, &mut completion.drafts, writers) {
        Ok(id) => id,
        Err(error) => {
            let index = if completion.brings_values() { None } else { index_on_field(target, &error) };
            let in_use = index.cloned();
            if in_use.is_some() {
                // Only the value that is in use is passed: those of other gapless fields are given again.
                writers.begin_again()?;
                writers.pass(&completion, 0, in_use.as_ref());
            }
            return Err(Failed { error, in_use });
        }
    };
    writers.publish()?;
    Ok(Inserted { id, generated })
}

fn insert_in_chunks(
    target: Target<'_>,
    generator: &Generator,
    documents: &Drafts,
    (ordering, writers): (Ordering, &mut Writers<'_>),
) -> Result<Outcome> {
    // All are completed once before the first is stored: what a mode refuses refuses the call.
    complete(target, documents.documents())?;
    let mut whole = Outcome::default();
    let (mut done, mut passed) = (0, false);
    while done < documents.len() {
        let mut completion = Completion::default();
        let mut bytes = 0;
        for document in documents.documents().skip(done) {
            bytes += document.len();
            if bytes > COMMIT_BYTES_MAX && completion.drafts.len() > 0 {
                break;
            }
            completion.push(document, target.fields.tree(), |position| field(target, position))?;
        }
        writers.fill(&mut completion, Refusable::Rest)?;
        let made = generated(target, &completion);
        let length = completion.drafts.len();
        let chunk = insert_many_beside(
            target,
            generator,
            &mut completion.drafts,
            (Ordering::Ordered, &mut *writers),
        )?;
        if chunk.inserted.is_empty() {
            writers.back_to(0);
        } else {
            writers.publish()?;
            passed = false;
        }
        whole.last_generate_id =
            whole.last_generate_id.or(first_value(made.first().map(|(_, values)| values)));
        whole.generated.extend(
            made.into_iter()
                .filter(|(document, _)| chunk.inserted.contains_key(document))
                .map(|(document, values)| (document + done, values)),
        );
        whole.inserted.extend(chunk.inserted.into_iter().map(|(document, id)| (document + done, id)));
        let Some(mut refusal) = chunk.refused.into_iter().next() else {
            done += length;
            continue;
        };
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

/// The target of a write whose turn ends before it is synced: writers share a sync instead of waiting for one each.
fn unsynced<'a>(target: Target<'a>, writers: &Writers<'_>) -> Target<'a> {
    if writers.takes_turns() { Target { level: CommitLevel::Buffered, ..target } } else { target }
}

fn settle(target: Target<'_>, line: Target<'_>) -> Result<()> {
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
fn index_on_field<'a>(target: Target<'_>, error: &'a Error) -> Option<&'a Document> {
    let ErrorKind::Write(WriteFailure::WriteError(WriteError { code: DUPLICATE_KEY, details, .. })) =
        error.kind()
    else {
        return None;
    };
    let pattern = key_pattern(details.as_ref());
    pattern.filter(|pattern| target.fields.iter().any(|field| pattern.contains_key(field.field.path())))
}

/// The fields of the index that a duplicate key was found in.
fn key_pattern(details: Option<&Document>) -> Option<&Document> {
    details?.get_document("keyPattern").ok()
}
