//! Fields that number themselves, in documents: what is there, and how a number gets there.

use bson::{Bson, Document};
use sequence::error::SequenceError;

use crate::cluster::counter::{Field, Mode};

/// The decision about a field of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It gets a number.
    Numbered,
    /// It keeps an integer, which the counter passes.
    Passed(i64),
    /// It keeps what it has.
    Kept,
}

/// The decision about a field, by its mode.
pub(super) fn fate(document: &Document, field: &Field) -> Result<Fate, SequenceError> {
    let Some(value) = value_at(document, &field.path)? else { return Ok(Fate::Numbered) };
    if field.is_for_null && *value == Bson::Null {
        return Ok(Fate::Numbered);
    }
    let integer = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let refused =
        |expected| SequenceError::FieldValue { field: field.path.clone(), expected, found: type_of(value) };
    match (field.mode, integer) {
        (Mode::Always, _) => Ok(Fate::Numbered),
        (Mode::AlwaysStrict, _) => Err(refused("absent")),
        (Mode::Default | Mode::Strict, Some(integer)) => Ok(Fate::Passed(integer)),
        (Mode::Default, None) => Ok(Fate::Kept),
        (Mode::Strict, None) => Err(refused("an integer of 32 or 64 bits")),
    }
}

/// Puts a number into a field, at the end of its document.
pub(super) fn number(document: &mut Document, path: &str, value: i64) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    match rest {
        None => {
            document.remove(name);
            document.insert(name, value);
        }
        Some(rest) => {
            let parent = document.entry(name.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
            // That it is a document was found when its fate was reported.
            if let Some(parent) = parent.as_document_mut() {
                number(parent, rest, value);
            }
        }
    }
}

fn value_at<'a>(document: &'a Document, path: &str) -> Result<Option<&'a Bson>, SequenceError> {
    let mut current = document;
    let mut end = 0;
    loop {
        let rest = path.get(end..).unwrap_or_default();
        let Some((name, _)) = rest.split_once('.') else { return Ok(current.get(rest)) };
        let parent_end = end + name.len();
        end = parent_end + 1;
        match current.get(name) {
            None => return Ok(None),
            Some(Bson::Document(inner)) => current = inner,
            Some(other) => {
                return Err(SequenceError::FieldParent {
                    parent: path.get(..parent_end).unwrap_or_default().to_owned(),
                    field: path.to_owned(),
                    found: type_of(other),
                });
            }
        }
    }
}

fn type_of(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Symbol(_) => "symbol",
        Bson::Decimal128(_) => "decimal",
        Bson::Undefined => "undefined",
        Bson::MaxKey => "maxKey",
        Bson::MinKey => "minKey",
        Bson::DbPointer(_) => "dbPointer",
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn field(mode: Mode, is_for_null: bool) -> Field {
        Field { path: "a.n".to_owned(), mode, is_for_null }
    }

    #[track_caller]
    fn check(mode: Mode, document: &Document, expected: Option<Fate>) {
        assert_eq!(fate(document, &field(mode, false)).ok(), expected);
    }

    #[test]
    fn each_mode_has_its_own_way_with_what_a_document_brings() {
        for mode in [Mode::Default, Mode::Strict, Mode::Always, Mode::AlwaysStrict] {
            check(mode, &doc! {}, Some(Fate::Numbered));
            check(mode, &doc! { "a": {} }, Some(Fate::Numbered));
            check(mode, &doc! { "a": 5 }, None);
        }
        let (integer, text, null) =
            (doc! { "a": { "n": 5 } }, doc! { "a": { "n": "5" } }, doc! { "a": { "n": null } });
        check(Mode::Default, &integer, Some(Fate::Passed(5)));
        check(Mode::Default, &text, Some(Fate::Kept));
        check(Mode::Default, &null, Some(Fate::Kept));
        check(Mode::Strict, &integer, Some(Fate::Passed(5)));
        check(Mode::Strict, &text, None);
        check(Mode::Always, &text, Some(Fate::Numbered));
        check(Mode::AlwaysStrict, &integer, None);
        assert_eq!(fate(&null, &field(Mode::AlwaysStrict, true)), Ok(Fate::Numbered));
    }

    #[test]
    fn a_number_comes_at_the_end_of_its_document() {
        let mut document = doc! { "a": { "n": 1, "b": 2 }, "c": 3 };
        number(&mut document, "a.n", 7);
        assert_eq!(document, doc! { "a": { "b": 2, "n": 7_i64 }, "c": 3 });
        let mut empty = doc! {};
        number(&mut empty, "a.n", 7);
        assert_eq!(empty, doc! { "a": { "n": 7_i64 } });
    }
}
