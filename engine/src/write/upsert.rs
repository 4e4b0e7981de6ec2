//! Upserts: change what matches, or insert what the filter and the change make together.
//!
//! Between the search and the insert, another writer may have inserted a document with the same key. Where the filter
//! asks for nothing but the taken key, a second search finds that document. Any other duplicate is an error.

use bson::Document;

use crate::document::draft::Drafts;
use crate::error::{Error, Result};
use crate::plan::selector::is_equality_on_key;
use crate::write::Target;
use crate::write::change::Change;
use crate::write::duplicate::taken_key;
use crate::write::insert;
use crate::write::outcome::Inserted;

/// How often an upsert searches again. Each time, another writer inserted the document and removed it.
const ATTEMPTS: usize = 100;

/// What an upsert did.
pub(crate) enum Upserted<R> {
    /// It changed what was there.
    Changed(R),
    /// It inserted a document.
    Inserted(Inserted),
}

/// Refuses an upsert that no collection could accept.
pub(crate) fn check(filter: &Document, change: &Change<'_>) -> Result<()> {
    insert::check_one(&Drafts::of_bytes(&change.upserted(filter)?))
}

/// Changes what `look` finds, or inserts a document if it finds none.
pub(crate) fn upsert<R>(
    target: Target<'_>,
    filter: &Document,
    change: &Change<'_>,
    mut look: impl FnMut() -> Result<Option<R>>,
) -> Result<Upserted<R>> {
    let mut attempts = ATTEMPTS;
    loop {
        if let Some(done) = look()? {
            return Ok(Upserted::Changed(done));
        }
        let document = change.upserted(filter)?;
        // A bound, because two writers could insert and remove the document in turns without end.
        attempts -= 1;
        match insert::insert_one(target, &mut Drafts::of_bytes(&document)) {
            Ok(inserted) => return Ok(Upserted::Inserted(inserted)),
            Err(error) if attempts > 0 && is_found_by(filter, &error)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the filter finds the document whose key was taken.
fn is_found_by(filter: &Document, error: &Error) -> Result<bool> {
    match taken_key(error) {
        // A filter that asks for more than the key might not match the document that has it: then a second search would find
        // nothing, and its insert the same duplicate.
        Some((pattern, value)) => is_equality_on_key(filter, pattern, value),
        None => Ok(false),
    }
}
