//! The elements of a raw document, read in place, and operands, which are values by themselves. [`index::writer`] writes another
//! document of them.

use bson::raw::{RawElement, RawIter, cstr};
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use index::element::{Element, element_at};
use index::validate::{NESTING_MAX, validate};
use index::writer::StoredValue;

/// The offset of a document's first element: it follows the length of 4 bytes.
pub(crate) const FIRST_ELEMENT: usize = 4;

/// An error: bytes that are not BSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The reason.
    pub(crate) reason: String,
}

/// One element of a document or array.
pub(crate) struct Field<'a> {
    name: &'a str,
    element: Element<'a>,
    start: usize,
    /// The element as `bson` reads it, if only `bson` can make its value or say what is wrong with it.
    slow: Option<RawElement<'a>>,
}

impl<'a> Field<'a> {
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    pub(crate) fn kind(&self) -> ElementType {
        self.element.kind
    }

    /// The offset of the element in its document.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The offset of the first byte after the element in its document.
    pub(crate) fn end(&self) -> usize {
        self.start + self.element.whole.len()
    }

    /// The value's bytes, without type and name.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.element.value
    }

    /// The bytes of the whole element: type, name and value.
    pub(crate) fn whole(&self) -> &'a [u8] {
        self.element.whole
    }

    pub(crate) fn value(&self) -> Result<RawBsonRef<'a>, Malformed> {
        match &self.slow {
            Some(element) => element.value().map_err(Malformed::from),
            None => self.element.read().ok_or_else(|| self.malformed()),
        }
    }

    /// The document or array that the value is; an array is a document whose names are positions.
    pub(crate) fn container(&self) -> Result<&'a RawDocument, Malformed> {
        RawDocument::from_bytes(self.bytes()).map_err(Malformed::from)
    }

    #[cold]
    fn malformed(&self) -> Malformed {
        Malformed { reason: format!("malformed value of type {:?} in '{}'", self.kind(), self.name) }
    }
}

impl From<bson::error::Error> for Malformed {
    fn from(error: bson::error::Error) -> Self {
        Self { reason: error.to_string() }
    }
}

/// The elements of a document in their order. One that cannot be read gives an error, and ends the walk.
///
/// `bson` checks at each step what was checked when the document was, so its walk needs several times as long. It reads what is
/// read nowhere else: values of the type `DbPointer`, and what is malformed.
pub(crate) struct Fields<'a> {
    document: &'a RawDocument,
    next: usize,
    /// The walk of `bson`, begun at the first element that needs it, and where it is.
    slow: Option<Slow<'a>>,
}

struct Slow<'a> {
    elements: RawIter<'a>,
    next: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(document: &'a RawDocument) -> Self {
        Self { document, next: FIRST_ELEMENT, slow: None }
    }

    /// Passes over the next element unless its name is wanted. Returns whether it did. An element of which more must be looked
    /// at than its name is left to [`next`](Self::next), and so is the end.
    #[inline]
    pub(crate) fn pass(&mut self, is_wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let bytes = self.document.as_bytes();
        let Some(element) = element_at(bytes, self.next) else { return false };
        let end = self.next + element.whole.len();
        let is_plain = element.kind != ElementType::DbPointer && element.name.is_ascii() && end < bytes.len();
        let passes = is_plain && !is_wanted(element.name);
        if passes {
            self.next = end;
        }
        passes
    }

    /// Passes over the elements before the one called `name`, or over all if there is no name, and returns their bytes. It may end before that, at
    /// an element of which more must be looked at.
    pub(crate) fn pass_before(&mut self, name: Option<&str>) -> &'a [u8] {
        let start = self.next;
        while self.pass(|found| name.is_some_and(|name| found == name.as_bytes())) {}
        self.document.as_bytes().get(start..self.next).unwrap_or_default()
    }

    /// The element at the current place, as `bson` reads it.
    #[cold]
    fn next_slow(&mut self) -> Option<Result<Field<'a>, Malformed>> {
        let bytes = self.document.as_bytes();
        let slow = self
            .slow
            .get_or_insert_with(|| Slow { elements: self.document.iter_elements(), next: FIRST_ELEMENT });
        // It has not passed the elements that were read without it. All its steps together are one walk.
        let start = std::mem::replace(&mut self.next, bytes.len() - 1);
        for element in slow.elements.by_ref() {
            let element = match element {
                Ok(element) => element,
                Err(error) => return Some(Err(error.into())),
            };
            // One byte of type before the name, and a zero byte after it.
            let value_start = slow.next + 1 + element.key().len() + 1;
            let end = value_start + element.size();
            if std::mem::replace(&mut slow.next, end) == start {
                self.next = end;
                let (name, kind) = (element.key().as_str(), element.element_type());
                let part = |from: usize| bytes.get(from..end).unwrap_or_default();
                let found =
                    Element { whole: part(start), kind, name: name.as_bytes(), value: part(value_start) };
                return Some(Ok(Field { name, element: found, start, slow: Some(element) }));
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.document.as_bytes();
        let start = self.next;
        // The last byte is the zero byte that closes the document.
        if start + 1 == bytes.len() {
            return None;
        }
        // Only `bson` can make a value of this type.
        let read = element_at(bytes, start).filter(|element| element.kind != ElementType::DbPointer);
        let named = read.and_then(|element| Some((element, str::from_utf8(element.name).ok()?)));
        match named {
            Some((element, name)) if start + element.whole.len() < bytes.len() => {
                self.next += element.whole.len();
                Some(Ok(Field { name, element, start, slow: None }))
            }
            _ => self.next_slow(),
        }
    }
}

/// A value that is kept apart from any document: an operand of an update, in the bytes of its stored form.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// One field with the empty name.
    document: RawDocumentBuf,
}

impl Operand {
    pub(crate) fn new(value: RawBsonRef<'_>) -> Self {
        // The value is kept as the only field of a document, because a value alone has no owned raw form that
        // lends itself.
        let mut document = RawDocumentBuf::new();
        document.append(cstr!(""), value);
        Self { document }
    }

    pub(crate) fn value(&self) -> RawBsonRef<'_> {
        let first = self.document.iter().next().and_then(Result::ok);
        // `new` has put the one field there, so null represents a case that does not occur.
        first.map_or(RawBsonRef::Null, |(_, value)| value)
    }

    pub(crate) fn kind(&self) -> ElementType {
        self.value().element_type()
    }

    /// The levels of documents and arrays within the value: 0 for a scalar or an empty one.
    pub(crate) fn levels(&self) -> usize {
        // The document around the value is a level of its own. What is malformed counts as too deep, so that
        // it is rejected.
        validate(self.document.as_bytes()).map_or(NESTING_MAX, |valid| valid.nesting() - 1)
    }

    /// The value's bytes, without type and name.
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.document.as_bytes();
        // Before the value are the length, the type and the zero byte of an empty name; after it the closing
        // zero byte.
        bytes.get(FIRST_ELEMENT + 2..bytes.len() - 1).unwrap_or_default()
    }

    /// The value, borrowed.
    pub(crate) fn stored(&self) -> StoredValue<'_> {
        StoredValue::new(self.kind(), self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, rawdoc};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[test]
    fn fields_tell_where_they_lie() {
        let document = rawdoc! { "a": 5, "bc": "text", "d": { "e": [1] } };
        let fields = Fields::of(&document).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(fields.iter().map(Field::name).collect::<Vec<_>>(), ["a", "bc", "d"]);
        let wholes = fields.iter().flat_map(|field| field.whole().to_vec()).collect::<Vec<_>>();
        assert_eq!(wholes, document.as_bytes()[4..document.as_bytes().len() - 1]);
        assert_eq!(fields[0].bytes(), 5_i32.to_le_bytes());
        assert_eq!(fields[2].container().unwrap(), &*rawdoc! { "e": [1] });
    }

    /// A value of each form in which BSON stores one.
    fn any_value() -> impl Strategy<Value = Bson> {
        let text = "[a-zä]{0,4}";
        prop_oneof![
            any::<i32>().prop_map(Bson::Int32),
            any::<f64>().prop_map(Bson::Double),
            any::<bool>().prop_map(Bson::Boolean),
            Just(Bson::Null),
            text.prop_map(Bson::String),
            vec(text, 0..3).prop_map(Bson::from),
            text.prop_map(|text| bson::bson!({ "a": { text: 1 } })),
            text.prop_map(Bson::JavaScriptCode),
            text.prop_map(|code| {
                let scope = bson::doc! { "a": 1 };
                Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code, scope })
            }),
            vec(any::<u8>(), 0..4).prop_map(|bytes| {
                Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::BinaryOld, bytes })
            }),
            "[a-c]{0,2}".prop_map(|pattern| {
                let (pattern, options) = (pattern.try_into().unwrap(), "i".try_into().unwrap());
                Bson::RegularExpression(bson::Regex { pattern, options })
            }),
        ]
    }

    proptest! {
        #[test]
        fn fields_are_those_that_bson_finds(fields in vec(("[a-cä]{0,9}", any_value()), 0..6)) {
            let document = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap();
            let mut found = Fields::of(&document);
            for expected in document.iter_elements() {
                let (expected, field) = (expected.unwrap(), found.next().unwrap().unwrap());
                prop_assert_eq!(field.name(), expected.key().as_str());
                prop_assert_eq!(field.kind(), expected.element_type());
                prop_assert_eq!(field.bytes().len(), expected.size());
                // Bytes distinguish NaNs and zeros, which comparing the values does not.
                let (value, right) = (field.value().unwrap(), expected.value().unwrap());
                prop_assert_eq!(format!("{value:?}"), format!("{right:?}"));
            }
            prop_assert!(found.next().is_none());
        }

        #[test]
        fn malformed_fields_are_an_error_where_bson_finds_one(
            fields in vec(("[a-c]{0,2}", any_value()), 1..4),
            changes in vec((any::<Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap().into_bytes();
            let inside = bytes.len() - 5;
            for (place, byte) in changes {
                bytes[4 + place.index(inside)] = byte;
            }
            let document = RawDocument::from_bytes(&bytes).unwrap();
            let mut found = Fields::of(document).map(|field| {
                let field = field.ok()?;
                Some((field.name(), field.bytes().len(), format!("{:?}", field.value().ok()?)))
            });
            for expected in document.iter_elements() {
                let expected = expected.ok().and_then(|element| {
                    let value = format!("{:?}", element.value().ok()?);
                    Some((element.key().as_str(), element.size(), value))
                });
                prop_assert_eq!(found.next(), Some(expected.clone()));
                // Bytes after a value that cannot be read do not matter.
                if expected.is_none() {
                    return Ok(());
                }
            }
            prop_assert!(found.next().is_none());
        }
    }

    proptest! {
        #[test]
        fn what_is_passed_over_is_what_would_be_read(
            fields in vec(("[a-cä]{0,2}", any_value()), 1..6),
            changes in vec((any::<Index>(), any::<u8>()), 0..3),
        ) {
            let mut bytes = RawDocumentBuf::try_from(&Document::from_iter(fields)).unwrap().into_bytes();
            let inside = bytes.len() - 5;
            for (place, byte) in changes {
                bytes[4 + place.index(inside)] = byte;
            }
            let document = RawDocument::from_bytes(&bytes).unwrap();
            let (mut passing, mut reading) = (Fields::of(document), Fields::of(document));
            loop {
                if passing.pass(|name| name == b"a") {
                    let read = reading.next().unwrap().unwrap();
                    prop_assert_ne!(read.name(), "a");
                } else {
                    let names = [&mut passing, &mut reading].map(|fields| Some(fields.next()?.ok()?.name()));
                    prop_assert_eq!(names[0], names[1]);
                    if names[0].is_none() {
                        break;
                    }
                }
                prop_assert_eq!(passing.next, reading.next);
            }
        }
    }

    #[test]
    fn pointers_cost_one_walk() {
        let mut bytes = vec![0; 4];
        for _ in 0..200_000 {
            bytes.extend_from_slice(b"\x0Cp\0\x02\0\0\0c\0");
            bytes.extend_from_slice(&[7; 12]);
        }
        bytes.push(0);
        let length = i32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let document = RawDocument::from_bytes(&bytes).unwrap();
        // A walk for each would need minutes.
        let values = Fields::of(document).map(|field| field.unwrap().value().unwrap());
        assert_eq!(values.filter(|value| value.as_db_pointer().is_some()).count(), 200_000);
    }

    #[test]
    fn operands_keep_their_bytes() {
        let operand = Operand::new(RawBsonRef::Int64(7));
        assert_eq!((operand.kind(), operand.bytes()), (ElementType::Int64, 7_i64.to_le_bytes().as_slice()));
        assert_eq!(operand.value(), RawBsonRef::Int64(7));
    }
}
