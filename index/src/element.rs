//! Reads fields of a validated document without checking its bytes a second time.
//!
//! `bson` verifies each name and string that it passes. Bytes from outside need that; a validated document
//! does not. A lookup here finds exactly what `RawDocument::get` finds: the first field of that name.
//! Malformed bytes give `None` or end the walk. They never cause a panic.

use std::str;

use bson::oid::ObjectId;
use bson::raw::CStr;
use bson::spec::{BinarySubtype, ElementType};
use bson::{
    DateTime, Decimal128, RawArray, RawBinaryRef, RawBsonRef, RawDocument, RawJavaScriptCodeWithScopeRef,
    RawRegexRef, Timestamp,
};
use serde::de::value::BorrowedBytesDeserializer;
use serde::{Deserialize, de};

use crate::words::zero_position;

/// The offset of a document's first element: after the length.
const FIRST_ELEMENT: usize = 4;

/// For each type byte how many bytes its values have, beside a length that [`LENGTH_FIRST`] says to add.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index out of bounds"
)]
const VALUE_BYTES: [u8; 1 << u8::BITS] = {
    let mut bytes = [NO_TYPE; 1 << u8::BITS];
    // The type alone is the value.
    bytes[ElementType::Null as usize] = 0;
    bytes[ElementType::Undefined as usize] = 0;
    bytes[ElementType::MinKey as usize] = 0;
    bytes[ElementType::MaxKey as usize] = 0;
    // Scalars, whose types say how long they are.
    bytes[ElementType::Boolean as usize] = 1;
    bytes[ElementType::Int32 as usize] = 4;
    bytes[ElementType::Double as usize] = 8;
    bytes[ElementType::Int64 as usize] = 8;
    bytes[ElementType::DateTime as usize] = 8;
    bytes[ElementType::Timestamp as usize] = 8;
    bytes[ElementType::ObjectId as usize] = 12;
    bytes[ElementType::Decimal128 as usize] = 16;
    // The length of a document, an array and code with a scope includes its own four bytes. That of a string
    // and of binary data does not.
    bytes[ElementType::EmbeddedDocument as usize] = LENGTH_FIRST;
    bytes[ElementType::Array as usize] = LENGTH_FIRST;
    bytes[ElementType::JavaScriptCodeWithScope as usize] = LENGTH_FIRST;
    bytes[ElementType::String as usize] = LENGTH_FIRST | 4;
    bytes[ElementType::JavaScriptCode as usize] = LENGTH_FIRST | 4;
    bytes[ElementType::Symbol as usize] = LENGTH_FIRST | 4;
    bytes[ElementType::Binary as usize] = LENGTH_FIRST | 5;
    bytes[ElementType::DbPointer as usize] = LENGTH_FIRST | 16;
    // The only values whose end must be searched for.
    bytes[ElementType::RegularExpression as usize] = TWO_TEXTS;
    bytes
};
/// The bit that says that a value begins with a length.
const LENGTH_FIRST: u8 = 0x80;
/// The value is two texts that end with a zero byte.
const TWO_TEXTS: u8 = 0x7E;
/// No value has this type.
const NO_TYPE: u8 = 0x7F;

/// One element of a document, borrowed from the document's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Type byte, name, zero byte and value.
    pub whole: &'a [u8],
    /// The type that the type byte names.
    pub kind: ElementType,
    /// The name, without its zero byte.
    pub name: &'a [u8],
    /// The bytes of the value.
    pub value: &'a [u8],
}

/// The elements of a document, in stored order. On malformed bytes the walk ends early.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    document: &'a [u8],
    /// The offset of the type byte of the next one.
    next: usize,
}

/// The elements of a document that [`validate`](crate::validate::validate) accepted.
///
/// ```
/// let document = bson::rawdoc! { "a": 1, "b": "text" };
/// let names: Vec<&[u8]> =
///     cairndb_index::element::elements(document.as_bytes()).map(|element| element.name).collect();
/// assert_eq!(names, [b"a", b"b"]);
/// ```
#[inline]
pub fn elements(document: &[u8]) -> Elements<'_> {
    Elements { document, next: FIRST_ELEMENT }
}

impl<'a> Elements<'a> {
    /// Goes on after the next element of that name, and returns it. If there is none, the walk stays where it is.
    #[inline]
    pub fn named(&mut self, name: &[u8]) -> Option<Element<'a>> {
        let (start, _value) = find(self.document, self.next, name)?;
        let found = element_at(self.document, start)?;
        self.next = start + found.whole.len();
        Some(found)
    }

    /// Whether all elements were walked: what is left is the zero byte that closes the document. After the last
    /// element `false` means that the bytes are malformed.
    pub fn is_at_end(&self) -> bool {
        self.next + 1 == self.document.len()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        // The document's closing zero byte is not a type, so the walk ends there.
        let element = element_at(self.document, self.next)?;
        self.next += element.whole.len();
        Some(element)
    }
}

/// The element whose type byte is at `offset` in the bytes of a document. Returns `None` at the document's end, and for what is
/// no element.
#[inline]
pub fn element_at(document: &[u8], offset: usize) -> Option<Element<'_>> {
    let rest = document.get(offset..)?;
    let (&type_byte, after_kind) = rest.split_first()?;
    let kind = ElementType::from(type_byte)?;
    let name = after_kind.get(..zero_position(after_kind)?)?;
    let after_name = after_kind.get(name.len() + 1..)?;
    let value = after_name.get(..value_bytes(type_byte, after_name)?)?;
    // Two more than name and value: the type byte, and the zero byte after the name.
    let whole = rest.get(..name.len() + 2 + value.len())?;
    Some(Element { whole, kind, name, value })
}

impl<'a> Element<'a> {
    /// The value. Returns `None` for malformed bytes, and for a `DbPointer`, which only `bson` can make.
    pub fn read(&self) -> Option<RawBsonRef<'a>> {
        build(self.kind, self.value)
    }
}

/// The value of the first field called `name`. Returns `None` if the document has no such field.
#[inline]
pub fn field<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    let bytes = document.as_bytes();
    let (start, value) = find(bytes, FIRST_ELEMENT, name.as_bytes())?;
    build(ElementType::from(*bytes.get(start)?)?, value).or_else(|| value_by_walk(document, start))
}

/// The offset of the first element called `name`, not before `start`, and the bytes from its value on.
#[inline]
fn find<'a>(document: &'a [u8], mut start: usize, name: &[u8]) -> Option<(usize, &'a [u8])> {
    // Most names differ in their first byte: one comparison there saves comparing whole names. An empty name
    // is found by its zero byte.
    let first = name.first().copied().unwrap_or_default();
    loop {
        let (&type_byte, after_kind) = document.get(start..)?.split_first()?;
        let is_match =
            *after_kind.first()? == first && matches!(after_kind.strip_prefix(name), Some([0, ..]));
        let name_len = if is_match { name.len() } else { zero_position(after_kind)? };
        // One more than the name: its zero byte.
        let value = after_kind.get(name_len + 1..)?;
        if is_match {
            return Some((start, value));
        }
        // Two more: the type byte, and the zero byte after the name.
        start += name_len + 2 + value_bytes(type_byte, value)?;
    }
}

/// The value of the element whose type byte is at `offset` in the bytes of a well-formed document.
pub fn value_at_offset(document: &RawDocument, offset: usize) -> Option<RawBsonRef<'_>> {
    let (kind, after_kind) = document.as_bytes().get(offset..)?.split_first()?;
    let value = after_kind.get(zero_position(after_kind)? + 1..)?;
    build(ElementType::from(*kind)?, value).or_else(|| value_by_walk(document, offset))
}

/// The value of the element at `offset`, found by `bson`, for the types that only `bson` can build.
fn value_by_walk(document: &RawDocument, offset: usize) -> Option<RawBsonRef<'_>> {
    let mut start = FIRST_ELEMENT;
    for element in document.iter_elements() {
        let element = element.ok()?;
        if start == offset {
            return element.value().ok();
        }
        start += 1 + element.key().len() + 1 + element.size();
    }
    None
}

/// The length of the value at the front of `bytes`, by its type byte.
#[inline]
fn value_bytes(type_byte: u8, bytes: &[u8]) -> Option<usize> {
    match *VALUE_BYTES.get(usize::from(type_byte))? {
        form if form & LENGTH_FIRST != 0 => Some(usize::from(form ^ LENGTH_FIRST) + length(bytes)?),
        TWO_TEXTS => two_texts_bytes(bytes),
        NO_TYPE => None,
        fixed => Some(usize::from(fixed)),
    }
}

#[cold]
fn two_texts_bytes(bytes: &[u8]) -> Option<usize> {
    let (pattern, rest) = cstring(bytes)?;
    let (options, _) = cstring(rest)?;
    Some(pattern.len() + options.len() + 2)
}

/// The value at the front of `bytes`, unless it is of a kind that only `bson` itself can build.
fn build(kind: ElementType, bytes: &[u8]) -> Option<RawBsonRef<'_>> {
    Some(match kind {
        ElementType::Null => RawBsonRef::Null,
        ElementType::Undefined => RawBsonRef::Undefined,
        ElementType::MinKey => RawBsonRef::MinKey,
        ElementType::MaxKey => RawBsonRef::MaxKey,
        ElementType::Boolean => match bytes.first()? {
            0 => RawBsonRef::Boolean(false),
            1 => RawBsonRef::Boolean(true),
            _ => return None,
        },
        ElementType::Int32 => RawBsonRef::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::Int64 => RawBsonRef::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::Double => RawBsonRef::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::DateTime => {
            RawBsonRef::DateTime(DateTime::from_millis(i64::from_le_bytes(*bytes.first_chunk()?)))
        }
        ElementType::Timestamp => {
            // BSON stores the increment before the time.
            let (increment, rest) = bytes.split_first_chunk()?;
            let increment = u32::from_le_bytes(*increment);
            RawBsonRef::Timestamp(Timestamp { time: u32::from_le_bytes(*rest.first_chunk()?), increment })
        }
        ElementType::ObjectId => RawBsonRef::ObjectId(ObjectId::from_bytes(*bytes.first_chunk()?)),
        ElementType::Decimal128 => RawBsonRef::Decimal128(Decimal128::from_bytes(*bytes.first_chunk()?)),
        ElementType::String => RawBsonRef::String(string(bytes)?),
        ElementType::Symbol => RawBsonRef::Symbol(string(bytes)?),
        ElementType::JavaScriptCode => RawBsonRef::JavaScriptCode(string(bytes)?),
        ElementType::EmbeddedDocument => {
            RawBsonRef::Document(RawDocument::from_bytes(bytes.get(..length(bytes)?)?).ok()?)
        }
        ElementType::Binary => binary(bytes)?,
        ElementType::RegularExpression => {
            let (pattern, rest) = cstring(bytes)?;
            let (options, _) = cstring(rest)?;
            let (pattern, options): (&CStr, &CStr) = (pattern.try_into().ok()?, options.try_into().ok()?);
            RawBsonRef::RegularExpression(RawRegexRef { pattern, options })
        }
        ElementType::Array => RawBsonRef::Array(array(bytes.get(..length(bytes)?)?)?),
        ElementType::JavaScriptCodeWithScope => {
            let (_, rest) = bytes.get(..length(bytes)?)?.split_first_chunk::<4>()?;
            let code_bytes = 4 + length(rest)?;
            let (code, scope) = rest.split_at_checked(code_bytes)?;
            let (code, scope) = (string(code)?, RawDocument::from_bytes(scope).ok()?);
            RawBsonRef::JavaScriptCodeWithScope(RawJavaScriptCodeWithScopeRef { code, scope })
        }
        // `bson` has no public constructor for it.
        ElementType::DbPointer => return None,
    })
}

/// An array, whose bytes are those of a document. `bson` has no constructor for a borrowed one; but it reads one from bytes, as
/// formats other than BSON have them.
fn array(bytes: &[u8]) -> Option<&RawArray> {
    <&RawArray>::deserialize(BorrowedBytesDeserializer::<de::value::Error>::new(bytes)).ok()
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

fn string(bytes: &[u8]) -> Option<&str> {
    // The length includes the closing zero byte, which is not a part of the text.
    let (&last, text) = bytes.get(4..4 + length(bytes)?)?.split_last()?;
    if last == 0 { str::from_utf8(text).ok() } else { None }
}

fn cstring(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (text, rest) = bytes.split_at_checked(zero_position(bytes)?)?;
    Some((str::from_utf8(text).ok()?, rest.get(1..)?))
}

fn binary(bytes: &[u8]) -> Option<RawBsonRef<'_>> {
    let (header, rest) = bytes.split_first_chunk::<5>()?;
    let content = rest.get(..length(header)?)?;
    let subtype = BinarySubtype::from(*header.last()?);
    // The old binary subtype repeats its length inside.
    let content = if subtype == BinarySubtype::BinaryOld {
        let (inner, rest) = content.split_first_chunk::<4>()?;
        (length(inner)? == rest.len()).then_some(rest)?
    } else {
        content
    };
    Some(RawBsonRef::Binary(RawBinaryRef { subtype, bytes: content }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proptest_support::any_value;
    use bson::raw::CString;
    use bson::{Document, RawBson, RawDocumentBuf};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// Names of which few differ, some longer than the eight bytes that are looked at in one step.
    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-c]{0,2}", "[ab]{6,9}", "aaaaaaaa[ab]{0,2}"]
    }

    proptest! {
        #[test]
        fn a_field_is_the_one_that_bson_finds(fields in vec((any_name(), any_value()), 0..6), name in any_name()) {
            let stored = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap();
            for name in stored.iter().map(|field| field.unwrap().0.as_str()).chain([name.as_str()]) {
                // Bytes distinguish NaNs and zeros, which comparing the values does not.
                let found = field(&stored, name).map(|value| format!("{value:?}"));
                let expected = stored.get(name).unwrap().map(|value| format!("{value:?}"));
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn elements_are_those_that_bson_finds(fields in vec((any_name(), any_value()), 0..6)) {
            let stored = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap();
            let mut walked = elements(stored.as_bytes());
            let mut whole = Vec::new();
            for expected in stored.iter_elements() {
                let (expected, found) = (expected.unwrap(), walked.next().unwrap());
                prop_assert_eq!(found.name, expected.key().as_str().as_bytes());
                prop_assert_eq!(found.kind, expected.element_type());
                prop_assert_eq!(found.value.len(), expected.size());
                // Bytes distinguish NaNs and zeros, which comparing the values does not.
                let read = found.read().map(|value| format!("{value:?}"));
                let value = expected.value().unwrap();
                let is_pointer = expected.element_type() == ElementType::DbPointer;
                prop_assert_eq!(read, (!is_pointer).then(|| format!("{value:?}")));
                whole.extend_from_slice(found.whole);
            }
            prop_assert!(walked.next().is_none() && walked.is_at_end());
            prop_assert_eq!(&whole[..], &stored.as_bytes()[4..stored.as_bytes().len() - 1]);
        }

        #[test]
        fn named_elements_are_all_of_that_name(fields in vec((any_name(), any_value()), 0..6), name in any_name()) {
            let mut stored = RawDocumentBuf::new();
            for (field, value) in &fields {
                let name = CString::try_from(field.as_str()).unwrap();
                stored.append(name, RawBson::try_from(value.clone()).unwrap());
            }
            let mut walk = elements(stored.as_bytes());
            let named = std::iter::from_fn(|| walk.named(name.as_bytes()));
            let all = elements(stored.as_bytes()).filter(|element| element.name == name.as_bytes());
            // Equal elements are distinguished by where they are.
            let place = |element: Element<'_>| element.whole.as_ptr_range();
            prop_assert_eq!(named.map(place).collect::<Vec<_>>(), all.map(place).collect::<Vec<_>>());
        }

        #[test]
        fn malformed_documents_give_a_value_or_nothing(
            fields in vec((any_name(), any_value()), 1..4),
            changes in vec((any::<Index>(), any::<u8>()), 1..4),
            name in any_name(),
        ) {
            let mut bytes = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap().into_bytes();
            let inside = bytes.len() - 5;
            for (place, byte) in changes {
                bytes[4 + place.index(inside)] = byte;
            }
            let stored = RawDocument::from_bytes(&bytes).unwrap();
            if let Ok(Some(expected)) = stored.get(&name) {
                prop_assert_eq!(format!("{:?}", field(stored, &name)), format!("{:?}", Some(expected)));
            } else {
                let _ = field(stored, &name);
            }
            prop_assert!(elements(&bytes).count() <= bytes.len());
            let mut walk = elements(&bytes);
            prop_assert!(std::iter::from_fn(|| walk.named(name.as_bytes())).count() <= bytes.len());
        }
    }

    #[test]
    fn an_element_is_found_by_its_offset() {
        let document = bson::rawdoc! { "a": 1, "b": true };
        let bytes = document.as_bytes();
        // Four bytes of length come first.
        let first = element_at(bytes, 4).unwrap();
        assert_eq!((first.name, first.value), (&b"a"[..], &[1, 0, 0, 0][..]));
        let second = 4 + first.whole.len();
        assert_eq!(element_at(bytes, second).map(|element| element.whole), Some(&b"\x08b\0\x01"[..]));
        assert_eq!(value_at_offset(&document, second), Some(RawBsonRef::Boolean(true)));
        assert!(element_at(bytes, bytes.len() - 1).is_none());
        let mut walk = elements(bytes);
        assert!(walk.named(b"b").is_some() && walk.is_at_end());
    }
}
