//! Upserts: change what matches, or insert what the filter and the change make together.
//!
//! Between the search and the insert, another writer may have inserted a document with the same key. Where the filter
//! asks for nothing but the existing key, a second search finds that document. Any other duplicate is an error.

use base::error::{Error, Result};
use bson::{Bson, Document, RawDocumentBuf};
use index::collation::{Collation, has_text};

use crate::document::draft::Drafts;
use crate::document::print::with_sort_keys_shown;
use crate::plan::selector::is_equality_on_key;
use crate::write::Target;
use crate::write::change::Change;
use crate::write::duplicate::{TakenKey, taken_key};
use crate::write::insert;
use crate::write::outcome::Inserted;

/// The number of times that an upsert searches again. Each time, another writer inserted the document and removed it.
const ATTEMPTS: usize = 100;

/// The result of an upsert.
pub(crate) enum Upserted<R> {
    /// It changed what was there.
    Changed(R),
    /// It inserted a document.
    Inserted(Inserted),
}

/// Rejects an upsert that no collection could accept.
pub(crate) fn check(filter: &Document, change: &Change<'_>) -> Result<()> {
    insert::check_one(&Drafts::of_bytes(&change.upserted(filter)?))
}

/// The filter of an upsert, and how it compares texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpsertFilter<'a> {
    pub(crate) filter: &'a Document,
    pub(crate) collation: &'a Collation,
}

/// Changes what `look` finds, or inserts a document if it finds none.
pub(crate) fn upsert<R>(
    target: Target<'_>,
    by: UpsertFilter<'_>,
    change: &Change<'_>,
    mut look: impl FnMut() -> Result<Option<R>>,
) -> Result<Upserted<R>> {
    let mut attempts = ATTEMPTS;
    loop {
        if let Some(done) = look()? {
            return Ok(Upserted::Changed(done));
        }
        let document = change.upserted(by.filter)?;
        // A bound, because two writers could insert and remove the document in turns without end.
        attempts -= 1;
        match insert::insert_one(target, &mut Drafts::of_bytes(&document)) {
            Ok(inserted) => return Ok(Upserted::Inserted(inserted)),
            Err(error) if attempts > 0 && is_found_by(by, &error)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the filter finds the document whose key was in use.
fn is_found_by(by: UpsertFilter<'_>, error: &Error) -> Result<bool> {
    let Some(TakenKey { pattern, value, collation }) = taken_key(error) else { return Ok(false) };
    // A filter that asks for more than the key might not match the document that has it: then a second search would find
    // nothing, and its insert the same duplicate. The same if it compares texts in another way than the index.
    if let Some(collation) = collation {
        let keys = Collation::parse(&RawDocumentBuf::try_from(collation)?)?;
        return is_equality_on_key(by.filter, pattern, value, &|asked| {
            if keys == *by.collation {
                let form = Bson::try_from(keys.key_form(asked).into_owned()).ok()?;
                return Some(with_sort_keys_shown(form));
            }
            (!has_text(asked)).then(|| Bson::try_from(asked).ok()).flatten()
        });
    }
    is_equality_on_key(by.filter, pattern, value, &|asked| Bson::try_from(asked).ok())
}
