//! A path at whose end documents get a value: the array of a `$lookup`, an element of it, a position.

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf};
use index::path::FieldPath;
use index::writer::{StoredValue, Writer};
use memchr::memmem::Finder;

use crate::pipeline::error::Fault;
use crate::raw::{FIRST_ELEMENT, Fields, Malformed};

/// The bytes that are allocated in advance for a path and what is around its values.
const PATH_BYTES_GUESS: usize = 64;

/// A path by its components.
#[derive(Clone, Debug)]
pub(super) struct PutPath {
    names: Vec<String>,
    /// Finds the name of a path of one component, with the zero byte behind it, among the bytes of a document.
    only: Option<Box<Finder<'static>>>,
}

impl PutPath {
    pub(super) fn of(path: &FieldPath) -> Self {
        let names: Vec<String> = path.components().map(str::to_owned).collect();
        let only = match &*names {
            [name] => Some(Box::new(Finder::new(&[name.as_bytes(), &[0]].concat()).into_owned())),
            _ => None,
        };
        Self { names, only }
    }

    /// The components.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The whole path.
    pub(super) fn joined(&self) -> String {
        self.names.join(".")
    }

    /// A copy of a document with `value` at the end of the path, or without the field if `value` is `None`. Objects on the path
    /// are created if they are missing.
    pub(super) fn put(
        &self,
        document: &RawDocument,
        value: Option<StoredValue<'_>>,
    ) -> Result<RawDocumentBuf, Fault> {
        let bytes = document.as_bytes();
        // The path is written too, and most are short.
        let added = value.map_or(0, |value| value.len() + PATH_BYTES_GUESS);
        let mut out = Writer::with_capacity(bytes.len() + added);
        match (&*self.names, &self.only, value) {
            // Nothing in the document looks like the field: then it is copied without reading its fields.
            ([name], Some(only), Some(value)) if only.find(bytes).is_none() => {
                let start = out.open();
                out.copy(bytes.get(FIRST_ELEMENT..bytes.len() - 1).unwrap_or_default());
                out.stored(name, value);
                out.close(start);
            }
            (names, _, value) => write(&mut out, Some(document), names, value)?,
        }
        let made = RawDocumentBuf::from_bytes(out.into_bytes());
        made.map_err(|error| Fault::InvalidBson { reason: error.to_string() })
    }
}

/// Writes a document with the value at the end of the path. The recursion is as deep as the path, whose length is limited.
fn write(
    out: &mut Writer,
    document: Option<&RawDocument>,
    path: &[String],
    value: Option<StoredValue<'_>>,
) -> Result<(), Malformed> {
    let mark = out.open();
    let Some((name, rest)) = path.split_first() else {
        out.close(mark);
        return Ok(());
    };
    let mut is_found = false;
    let mut fields = document.map(Fields::of);
    while let Some(fields) = &mut fields {
        out.copy(fields.pass_before((!is_found).then_some(name)));
        let Some(field) = fields.next().transpose()? else { break };
        // Of fields with the same name only the first is replaced.
        if is_found || field.name() != name {
            out.copy(field.whole());
            continue;
        }
        is_found = true;
        let is_object = field.kind() == ElementType::EmbeddedDocument;
        match (value, rest) {
            (Some(value), []) => out.stored(name, value),
            (None, []) => {}
            // There is nothing to remove inside of a scalar.
            (None, _) if !is_object => out.copy(field.whole()),
            (_, _) => {
                let inside = if is_object { Some(field.container()?) } else { None };
                out.header(ElementType::EmbeddedDocument, name);
                write(out, inside, rest, value)?;
            }
        }
    }
    // A new field comes last, as with `$set`.
    match (is_found, value, rest) {
        // Written above, or to be left out and not there.
        (true, _, _) | (_, None, _) => {}
        (false, Some(value), []) => out.stored(name, value),
        (false, Some(_), _) => {
            out.header(ElementType::EmbeddedDocument, name);
            write(out, None, rest, value)?;
        }
    }
    out.close(mark);
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// Checks a put of 7 at a path.
    #[track_caller]
    fn check(path: &str, document: &RawDocument, expected: &RawDocument) {
        let path = PutPath::of(&FieldPath::parse(path).expect("a path"));
        let seven = 7_i32.to_le_bytes();
        let put = path.put(document, Some(StoredValue::new(ElementType::Int32, &seven)));
        assert_eq!(put, Ok(expected.to_owned()));
    }

    #[test]
    fn a_field_comes_last_unless_the_document_has_it() {
        check("ab", &rawdoc! {}, &rawdoc! { "ab": 7 });
        check("ab", &rawdoc! { "a": 1 }, &rawdoc! { "a": 1, "ab": 7 });
        check("ab", &rawdoc! { "ab": 1, "c": 2 }, &rawdoc! { "ab": 7, "c": 2 });
        check("ab", &rawdoc! { "c": { "a": 1 } }, &rawdoc! { "c": { "a": 1 }, "ab": 7 });
        check("a.b", &rawdoc! { "a": { "c": 1 } }, &rawdoc! { "a": { "c": 1, "b": 7 } });
    }

    #[test]
    fn what_looks_like_the_field_is_not_mistaken_for_it() {
        for document in [
            rawdoc! { "cab": 1 },
            rawdoc! { "c": "ab" },
            rawdoc! { "c": { "ab": 1 } },
            rawdoc! { "c": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: b"\x10ab\0".to_vec() } },
        ] {
            let mut expected = document.clone();
            expected.append(bson::cstr!("ab"), 7);
            check("ab", &document, &expected);
        }
    }
}
