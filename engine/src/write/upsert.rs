//! Upserts: change what matches, or insert what the filter and the change make together.
//!
//! Between looking and inserting another writer may have inserted the same. Where the filter asks for nothing but the
//! taken key, looking again finds that document; any other duplicate is the caller's to know.

use bson::Document;
use sequence::generator::Generator;

use crate::document::draft::Drafts;
use crate::error::{Error, Result};
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
    /// It inserted a document.
    Inserted(Inserted),
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
        let document = change.upserted(filter)?;
        attempts -= 1;
        match insert::insert_one(target, generator, &mut Drafts::of_bytes(&document)) {
            Ok(inserted) => return Ok(Upserted::Inserted(inserted)),
            Err(error) if attempts > 0 && is_found_by(filter, &error)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the filter finds the document whose key was taken.
fn is_found_by(filter: &Document, error: &Error) -> Result<bool> {
    match taken_key(error) {
        Some((pattern, value)) => asks_for_key(filter, pattern, value),
        None => Ok(false),
    }
}
