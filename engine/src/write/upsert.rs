//! Upserts: change what matches, or insert what the filter and the change make together.
//!
//! Between looking and inserting another writer may have inserted the same. Where the filter asks for nothing but the
//! taken key, looking again finds that document; any other duplicate is the caller's to know.

use bson::Document;
use sequence::generator::Generator;

use crate::document::build::{Drafts, Timestamps};
use crate::document::complete::{Completion, Wanted};
use crate::document::validate::validate;
use crate::error::{Error, Result};
use crate::plan::bounds::ID_FIELD;
use crate::plan::selector::asks_for_key;
use crate::write::Target;
use crate::write::change::Change;
use crate::write::duplicate::taken_key;
use crate::write::insert::{self, Inserted};

/// How often an upsert looks again. Each time, another writer inserted the document and took it away.
const ATTEMPTS: usize = 100;

/// What an upsert did.
pub(crate) enum Upserted<R> {
    /// It changed what was there.
    Changed(R),
    /// It inserted these bytes.
    Inserted { inserted: Inserted, document: Vec<u8> },
}

/// Refuses an upsert that no collection could accept.
pub(crate) fn check(filter: &Document, change: &Change<'_>) -> Result<()> {
    insert::check_one(&Drafts::of_bytes(&change.upserted(filter)?))
}

/// Changes what `look` finds, or inserts a document if it finds nothing.
pub(crate) fn upsert<R>(
    target: Target<'_>,
    generator: &Generator,
    (filter, change): (&Document, &Change<'_>),
    mut look: impl FnMut() -> Result<Option<R>>,
) -> Result<Upserted<R>> {
    let mut attempts = ATTEMPTS;
    loop {
        if let Some(done) = look()? {
            return Ok(Upserted::Changed(done));
        }
        let document = whole(target, generator, change.upserted(filter)?)?;
        attempts -= 1;
        match insert::insert_one(target, generator, &mut Drafts::of_bytes(&document)) {
            Ok(inserted) => {
                let document = numbered(target, document, &inserted)?;
                return Ok(Upserted::Inserted { inserted, document });
            }
            Err(error) if attempts > 0 && is_found_by(filter, &error)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// The document as an insert stores it, but for numbers: `_id` in front, made if there is none and none will be given,
/// and zero timestamps filled in.
fn whole(target: Target<'_>, generator: &Generator, document: Vec<u8>) -> Result<Vec<u8>> {
    let mut draft = Drafts::of_bytes(&document);
    let Some(draft) = draft.iter_mut().next() else { return Ok(document) };
    let valid = validate(draft.document()).map_err(Error::write)?;
    let timestamps = Timestamps::of(&valid);
    let numbers_id = target.fields.iter().any(|field| field.field.segments().next() == Some(ID_FIELD));
    Ok(match valid.id_element() {
        Some(id) => draft.with_own_id(id, timestamps).to_vec(),
        None if numbers_id => document,
        None => draft.with_object_id(generator.generate(), timestamps).to_vec(),
    })
}

/// The document with the numbers that the insert gave it. It is not read again: by then another writer may have been
/// at it, and two callers would be told the same.
fn numbered(target: Target<'_>, document: Vec<u8>, inserted: &Inserted) -> Result<Vec<u8>> {
    if target.fields.is_empty() {
        return Ok(document);
    }
    let field = |position| &target.fields.at(position).field;
    let mut completion = Completion::default();
    completion.push(&document, target.fields.tree(), field)?;
    let Completion { drafts, events } = &mut completion;
    for event in events {
        if let Wanted::Value { place } = event.wanted {
            let value = inserted.generated.get(field(event.field).path());
            drafts.write_value(place, value.unwrap_or_default());
        }
    }
    Ok(drafts.documents().next().unwrap_or_default().to_vec())
}

/// Whether the filter finds the document whose key was taken.
fn is_found_by(filter: &Document, error: &Error) -> Result<bool> {
    match taken_key(error) {
        Some((pattern, value)) => asks_for_key(filter, pattern, value),
        None => Ok(false),
    }
}
