//! The bytes of a replacement: its own fields, with the `_id` and the auto-increment fields of the stored document.

use bson::RawDocument;
use index::element::elements;
use index::validate::ValidDocument;

use crate::document::length::{LENGTH_BYTES, write_length};
use crate::document::timestamp::Timestamps;

/// A replacement with the element `id` (type byte, name, value) as its `_id`, in place of the one it may have.
pub(crate) fn with_id_element(replacement: &ValidDocument<'_>, id: &[u8]) -> Vec<u8> {
    let whole = replacement.as_bytes();
    // Without an own `_id` an empty range is cut out, in front of the first field.
    let own = replacement.id_element().unwrap_or(LENGTH_BYTES..LENGTH_BYTES);
    let before = whole.get(LENGTH_BYTES..own.start).unwrap_or_default();
    let after = whole.get(own.end..).unwrap_or_default();
    // In front, where every stored document has its `_id`.
    let mut bytes = [&[0; LENGTH_BYTES], id, before, after].concat();
    write_length(&mut bytes);
    Timestamps::of(replacement).fill(&mut bytes);
    bytes
}

/// The bytes of a document's element with this name: type byte, name, value.
pub(crate) fn element<'a>(document: &'a RawDocument, name: &str) -> Option<&'a [u8]> {
    let mut elements = elements(document.as_bytes());
    elements.find(|element| element.name == name.as_bytes()).map(|element| element.whole)
}

/// Puts whole elements after those of a document.
pub(crate) fn append_elements(document: &mut Vec<u8>, elements: &[u8]) {
    // The terminator of the document, which moves to the new end.
    document.pop();
    document.extend_from_slice(elements);
    document.push(0);
    write_length(document);
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use index::validate::validate;

    use super::*;

    #[test]
    fn an_id_element_takes_the_place_of_the_own_one() {
        let id = rawdoc! { "_id": 1.0 };
        let element = id.as_bytes().get(4..id.as_bytes().len() - 1).expect("an element");
        for replacement in [rawdoc! { "a": 1, "_id": 1 }, rawdoc! { "a": 1 }] {
            let valid = validate(replacement.as_bytes()).expect("well-formed");
            assert_eq!(with_id_element(&valid, element), rawdoc! { "_id": 1.0, "a": 1 }.as_bytes());
        }
    }
}
