//! Records that may have been inserted before the import was interrupted: each is looked up by its `_id`, and compared with
//! what the store has.

use std::collections::{HashMap, HashSet};

use cairndb::bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, cstr, doc, rawdoc};
use query::code::Code;

use crate::command::raw;
use crate::failure::Failure;
use crate::import::batch::Line;
use crate::import::write::Target;
use crate::store::Store;

/// The fields of a collection that number themselves, as dotted paths.
pub(super) fn numbered_fields(store: &dyn Store, target: &Target) -> Result<Vec<String>, Failure> {
    let command = raw(&doc! { "listAutoIncrements": target.collection.as_str() })?;
    let reply = match store.run(&target.database, command) {
        Ok(reply) => reply,
        // There is no collection yet, or a server that has no such fields.
        Err(failure)
            if [Code::NAMESPACE_NOT_FOUND, Code::COMMAND_NOT_FOUND]
                .iter()
                .any(|code| failure.code == Some(code.number())) =>
        {
            return Ok(Vec::new());
        }
        Err(failure) => return Err(failure),
    };
    let fields = reply.get_array("autoIncrements").map(Vec::as_slice).unwrap_or_default();
    Ok(fields
        .iter()
        .filter_map(|field| field.as_document()?.get_str("Field").ok().map(str::to_owned))
        .collect())
}

/// Which of the lines are in the store already, as they are.
pub(super) fn already_there(
    store: &dyn Store,
    target: &Target,
    numbered: &[String],
    lines: &[(usize, &Line)],
) -> Result<HashSet<usize>, Failure> {
    let mut ids = RawArrayBuf::new();
    let mut by_id: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let mut documents = HashMap::new();
    for (at, line) in lines {
        let Some(document) = line.document() else { continue };
        let Ok(Some(id)) = document.get("_id") else { continue };
        ids.push(id);
        by_id.entry(bytes(id)).or_default().push(*at);
        documents.insert(*at, document);
    }
    let mut found = HashSet::new();
    if by_id.is_empty() {
        return Ok(found);
    }
    let mut of_ids = RawDocumentBuf::new();
    of_ids.append(cstr!("$in"), ids);
    let mut filter = RawDocumentBuf::new();
    filter.append(cstr!("_id"), of_ids);
    let mut find = RawDocumentBuf::new();
    find.append(cstr!("find"), target.collection.as_str());
    find.append(cstr!("filter"), filter);
    // These very `_id`s, and none that is equal to the language of the collection.
    find.append(cstr!("collation"), rawdoc! { "locale": "simple" });
    let paths: Vec<&str> = numbered.iter().map(String::as_str).collect();
    let mut stored = store.stream(&target.database, find)?;
    while stored.advance()? {
        let stored = stored.current();
        let Ok(Some(id)) = stored.get("_id") else { continue };
        // Of lines that are equal only one was inserted; the others were rejected, and will be again.
        let same = by_id
            .get(&bytes(id))
            .into_iter()
            .flatten()
            .find(|at| documents.get(at).is_some_and(|document| is_same(stored, document, &paths, true)));
        found.extend(same);
    }
    Ok(found)
}

/// Whether the stored document is the line's: field by field, but for the `_id` that found it, values at `numbered` paths,
/// and the time that an insert puts in place of an empty timestamp.
fn is_same(stored: &RawDocument, line: &RawDocument, numbered: &[&str], is_top: bool) -> bool {
    let is_compared = |name: &str| !(is_top && name == "_id" || numbered.contains(&name));
    let mut expected = line.iter().flatten().filter(|(name, _)| is_compared(name.as_str())).peekable();
    for (name, value) in stored.iter().flatten().filter(|(name, _)| is_compared(name.as_str())) {
        let name = name.as_str();
        let below: Vec<&str> =
            numbered.iter().filter_map(|path| path.strip_prefix(name)?.strip_prefix('.')).collect();
        let matching = expected.next_if(|(other, _)| other.as_str() == name);
        let is_equal = match (matching, value) {
            (Some((_, RawBsonRef::Document(other))), RawBsonRef::Document(value)) if !below.is_empty() => {
                is_same(value, other, &below, false)
            }
            // A document that was made for a number alone.
            (None, RawBsonRef::Document(value)) if !below.is_empty() => {
                is_same(value, &RawDocumentBuf::new(), &below, false)
            }
            (Some((_, RawBsonRef::Timestamp(EMPTY))), RawBsonRef::Timestamp(_)) if is_top => true,
            (Some((_, other)), value) => bytes(other) == bytes(value),
            (None, _) => false,
        };
        if !is_equal {
            return false;
        }
    }
    expected.peek().is_none()
}

const EMPTY: Timestamp = Timestamp { time: 0, increment: 0 };

/// The value as it is stored. Values are not compared as such: NaN is not equal to itself.
fn bytes(value: RawBsonRef<'_>) -> Vec<u8> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("v"), value);
    document.into_bytes()
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[track_caller]
    fn check(stored: &RawDocumentBuf, line: &RawDocumentBuf, expected: bool) {
        assert_eq!(is_same(stored, line, &["n", "a.n"], true), expected);
    }

    #[test]
    fn documents_are_compared_but_for_numbers() {
        check(&rawdoc! { "_id": 1, "x": f64::NAN, "n": 5 }, &rawdoc! { "x": f64::NAN, "_id": 1 }, true);
        check(&rawdoc! { "x": 1, "a": { "b": 1, "n": 2 } }, &rawdoc! { "x": 1, "a": { "b": 1 } }, true);
        check(&rawdoc! { "x": 1, "a": { "n": 2 } }, &rawdoc! { "x": 1 }, true);
        check(&rawdoc! { "x": 1, "a": { "b": 1, "n": 2 } }, &rawdoc! { "x": 1, "a": { "b": 2 } }, false);
        check(&rawdoc! { "x": 1 }, &rawdoc! { "x": 1_i64 }, false);
        check(&rawdoc! { "x": 1 }, &rawdoc! { "x": 1, "y": 2 }, false);
        check(&rawdoc! { "x": 1, "y": 2 }, &rawdoc! { "x": 1 }, false);
        check(&rawdoc! { "x": 1, "y": 2 }, &rawdoc! { "y": 2, "x": 1 }, false);
        let empty = Timestamp { time: 0, increment: 0 };
        check(&rawdoc! { "t": Timestamp { time: 9, increment: 1 } }, &rawdoc! { "t": empty }, true);
    }
}
