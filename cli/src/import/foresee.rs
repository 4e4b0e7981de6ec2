//! The effect that an import would have on the existing documents, counted without writing: the document that each
//! statement matches is read, and compared.
//!
//! What earlier lines of the same input would have changed is not there, so two lines of one new key count as two inserts. What
//! only the store can reject (a unique key, a validator) is not foreseen.

use cairndb::bson::{RawBson, RawDocument, rawdoc};

use crate::failure::{Exit, Failure};
use crate::import::write::{Done, Mode, Target};
use crate::store::Store;

/// Counts what the statements would match, change, insert and delete.
pub(super) fn foreseen(
    store: &dyn Store,
    target: &Target,
    statements: &[(usize, &RawDocument)],
) -> Result<Done, Failure> {
    let mut done = Done::default();
    for (_, statement) in statements {
        let unreadable = |error: cairndb::bson::error::Error| Failure::new(Exit::Failed, error.to_string());
        let filter = statement.get_document("q").map_err(unreadable)?;
        let find = rawdoc! { "find": target.collection.as_str(), "filter": filter.to_owned(), "limit": 1 };
        let mut found = store.stream(&target.database, find)?;
        let is_found = found.advance()?;
        match (target.mode, is_found) {
            // An `_id` in use is for the store to find: it would be a reject.
            (Mode::Insert, _) => done.inserted += 1,
            (Mode::Upsert | Mode::Merge, false) => done.upserted += 1,
            (Mode::Upsert | Mode::Merge, true) => {
                let change = statement.get_document("u").map_err(unreadable)?;
                done.matched += 1;
                done.modified += u64::from(!leaves_alone(target.mode, change, found.current()));
            }
            (Mode::Delete, is_found) => done.deleted += u64::from(is_found),
        }
    }
    Ok(done)
}

/// The effect if there were no document at all.
pub(super) fn foreseen_of_nothing(target: &Target, statements: &[(usize, &RawDocument)]) -> Done {
    let count = statements.len() as u64;
    match target.mode {
        Mode::Insert => Done { inserted: count, ..Done::default() },
        Mode::Upsert | Mode::Merge => Done { upserted: count, ..Done::default() },
        Mode::Delete => Done::default(),
    }
}

/// Whether a change makes no difference to a document.
fn leaves_alone(mode: Mode, change: &RawDocument, document: &RawDocument) -> bool {
    match change.get_document("$set") {
        Ok(fields) if mode == Mode::Merge => fields
            .iter()
            .flatten()
            // By the bytes of the values, as an update decides whether it changes anything.
            .all(|(name, value)| document.get(name.as_str()).ok().flatten() == Some(value)),
        _ => {
            // The replacement keeps the `_id` of what it replaces, and need not have one.
            let without_id = |document: &RawDocument| {
                let fields = document.iter().flatten().filter(|(name, _)| name.as_str() != "_id");
                fields.map(|(name, value)| (name.to_owned(), value.into())).collect::<Vec<(_, RawBson)>>()
            };
            without_id(change) == without_id(document)
        }
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{Document, RawDocumentBuf, doc};

    use super::*;

    #[track_caller]
    fn check(mode: Mode, change: Document, document: Document, expected: bool) {
        let raw = |document: Document| RawDocumentBuf::try_from(&document).expect("it is encoded");
        assert_eq!(leaves_alone(mode, &raw(change), &raw(document)), expected);
    }

    #[test]
    fn a_change_makes_a_difference_by_type_and_by_order() {
        let stored = doc! { "_id": 1, "a": 1, "b": { "x": [1, "y"] } };
        check(Mode::Upsert, doc! { "a": 1, "b": { "x": [1, "y"] } }, stored.clone(), true);
        check(Mode::Upsert, doc! { "a": 1_i64, "b": { "x": [1, "y"] } }, stored.clone(), false);
        check(Mode::Upsert, doc! { "b": { "x": [1, "y"] }, "a": 1 }, stored.clone(), false);
        check(Mode::Upsert, doc! { "a": 1 }, stored.clone(), false);
        check(Mode::Merge, doc! { "$set": { "a": 1 } }, stored.clone(), true);
        check(Mode::Merge, doc! { "$set": {} }, stored.clone(), true);
        check(Mode::Merge, doc! { "$set": { "a": 2 } }, stored.clone(), false);
        check(Mode::Merge, doc! { "$set": { "c": null } }, stored, false);
    }
}
