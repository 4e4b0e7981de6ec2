//! The one definition of how BSON values compare: type classes first, then the rule of the class.
//!
//! The order is total, and it is MongoDB's binary comparison (`BSONElement::compareElements` and
//! `canonicalizeBSONType` in its sources). How two texts compare can be given from outside: see `collation`. This module
//! knows neither key bytes, which must sort the same way, nor the looser equality of query operators.
//!
//! Values are walked with a stack on the heap, so that no nesting overflows the thread's stack.
//! A malformed nested element ends its container; it never panics.

use std::cmp::Ordering;

use bson::raw::{RawArrayIter, RawIter, cstr};
use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef, RawDbPointerRef, RawDocument, RawDocumentBuf};

use crate::number;

/// The type classes that decide a comparison first, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TypeClass {
    /// The value below all others.
    MinKey,
    /// The deprecated undefined value.
    Undefined,
    /// Null.
    Null,
    /// 32-bit and 64-bit integers, doubles and decimals, which compare with each other.
    Number,
    /// Strings and symbols, which compare with each other.
    String,
    /// Embedded documents.
    Object,
    /// Arrays.
    Array,
    /// Binary data of every subtype.
    Binary,
    /// ObjectIds.
    ObjectId,
    /// False and true.
    Boolean,
    /// UTC times in milliseconds.
    Date,
    /// Internal timestamps.
    Timestamp,
    /// Regular expressions.
    RegularExpression,
    /// The deprecated pointer to a document.
    DbPointer,
    /// JavaScript code without a scope.
    Code,
    /// JavaScript code with a scope.
    CodeWithScope,
    /// The value above all others.
    MaxKey,
}

/// The class that a value belongs to.
#[inline]
pub fn type_class(value: RawBsonRef<'_>) -> TypeClass {
    match value {
        RawBsonRef::MinKey => TypeClass::MinKey,
        RawBsonRef::Undefined => TypeClass::Undefined,
        RawBsonRef::Null => TypeClass::Null,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            TypeClass::Number
        }
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => TypeClass::String,
        RawBsonRef::Document(_) => TypeClass::Object,
        RawBsonRef::Array(_) => TypeClass::Array,
        RawBsonRef::Binary(_) => TypeClass::Binary,
        RawBsonRef::ObjectId(_) => TypeClass::ObjectId,
        RawBsonRef::Boolean(_) => TypeClass::Boolean,
        RawBsonRef::DateTime(_) => TypeClass::Date,
        RawBsonRef::Timestamp(_) => TypeClass::Timestamp,
        RawBsonRef::RegularExpression(_) => TypeClass::RegularExpression,
        RawBsonRef::DbPointer(_) => TypeClass::DbPointer,
        RawBsonRef::JavaScriptCode(_) => TypeClass::Code,
        RawBsonRef::JavaScriptCodeWithScope(_) => TypeClass::CodeWithScope,
        RawBsonRef::MaxKey => TypeClass::MaxKey,
    }
}

/// Compares two values exactly as MongoDB orders them. The order is total.
///
/// ```
/// use std::cmp::Ordering;
///
/// use bson::RawBsonRef;
/// use cairndb_index::order::compare;
///
/// assert_eq!(compare(RawBsonRef::Int32(2), RawBsonRef::Double(2.0)), Ordering::Equal);
/// assert_eq!(compare(RawBsonRef::Int64(9), RawBsonRef::String("9")), Ordering::Less);
/// ```
pub fn compare(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    compare_by_texts(left, right, &ByBytes)
}

/// Compares two values, their texts by an order of its own.
#[inline]
pub(crate) fn compare_by_texts(
    left: RawBsonRef<'_>,
    right: RawBsonRef<'_>,
    texts: &impl TextOrder,
) -> Ordering {
    match compare_values(left, right, texts) {
        Step::Decided(ordering) => ordering,
        Step::Descend(left, right) => compare_containers(left, right, texts),
    }
}

/// Compares two documents field by field in stored order: type class, then name, then value. If all fields
/// of one document start the other, the shorter document is smaller.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::order::compare_documents;
///
/// // Both have a number first, so the names decide before the values.
/// assert!(compare_documents(&rawdoc! { "a": 9 }, &rawdoc! { "b": 1 }).is_lt());
/// assert!(compare_documents(&rawdoc! { "a": 9 }, &rawdoc! { "a": 9, "b": 1 }).is_lt());
/// ```
pub fn compare_documents(left: &RawDocument, right: &RawDocument) -> Ordering {
    compare_containers(Container::document(left), Container::document(right), &ByBytes)
}

/// The comparison of two strings.
pub(crate) trait TextOrder {
    fn compare(&self, left: &str, right: &str) -> Ordering;
}

/// The order of texts by their bytes.
struct ByBytes;

impl TextOrder for ByBytes {
    #[inline]
    fn compare(&self, left: &str, right: &str) -> Ordering {
        left.cmp(right)
    }
}

/// One value of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The field's name in a document; `None` in an array.
    pub(crate) name: Option<&'a str>,
    pub(crate) value: RawBsonRef<'a>,
}

/// The elements of a document or of an array that are still to be visited.
pub(crate) enum Container<'a> {
    /// The pairs of a document.
    Document(RawIter<'a>),
    /// The elements of an array.
    Array(RawArrayIter<'a>),
    /// Elements that broke off because of malformed bytes.
    Ended,
}

impl<'a> Container<'a> {
    pub(crate) fn document(document: &'a RawDocument) -> Self {
        Self::Document(document.iter_elements())
    }

    pub(crate) fn next(&mut self) -> Option<Member<'a>> {
        let next = match self {
            Self::Document(elements) => elements.next().map(|element| {
                let element = element?;
                Ok(Member { name: Some(element.key().as_str()), value: element.value()? })
            }),
            Self::Array(values) => values.next().map(|value| Ok(Member { name: None, value: value? })),
            Self::Ended => None,
        };
        let next: bson::error::Result<_> = next?;
        // `bson` may go on after a malformed element. Ending here keeps comparisons and keys in agreement.
        if next.is_err() {
            *self = Self::Ended;
        }
        next.ok()
    }
}

/// The length that BSON stores with binary data. The deprecated subtype 2 repeats the length before the
/// bytes, and the four bytes of that repetition count.
pub(crate) fn stored_binary_len(binary: RawBinaryRef<'_>) -> usize {
    if binary.subtype == BinarySubtype::BinaryOld { binary.bytes.len() + 4 } else { binary.bytes.len() }
}

/// The result of comparing two values without their elements.
enum Step<'l, 'r> {
    Decided(Ordering),
    Descend(Container<'l>, Container<'r>),
}

fn compare_containers(left: Container<'_>, right: Container<'_>, texts: &impl TextOrder) -> Ordering {
    let mut open = Vec::with_capacity(4);
    open.push((left, right));
    while let Some((left, right)) = open.last_mut() {
        // Every pair on the stack is equal up to here, so the first difference decides. A container that ends
        // first is smaller, as in MongoDB.
        let step = match (left.next(), right.next()) {
            (None, None) => {
                open.pop();
                continue;
            }
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => compare_elements(left, right, texts),
        };
        match step {
            Step::Decided(Ordering::Equal) => {}
            Step::Decided(ordering) => return ordering,
            Step::Descend(left, right) => open.push((left, right)),
        }
    }
    Ordering::Equal
}

fn compare_elements<'l, 'r>(left: Member<'l>, right: Member<'r>, texts: &impl TextOrder) -> Step<'l, 'r> {
    // MongoDB's order within documents: the class, then the name, and the value last.
    let by_class = type_class(left.value).cmp(&type_class(right.value));
    match by_class.then_with(|| left.name.cmp(&right.name)) {
        Ordering::Equal => compare_values(left.value, right.value, texts),
        ordering @ (Ordering::Less | Ordering::Greater) => Step::Decided(ordering),
    }
}

#[inline]
fn compare_values<'l, 'r>(
    left: RawBsonRef<'l>,
    right: RawBsonRef<'r>,
    texts: &impl TextOrder,
) -> Step<'l, 'r> {
    // Values of different classes are never compared further: every string is above every number.
    let by_class = type_class(left).cmp(&type_class(right));
    if by_class != Ordering::Equal {
        return Step::Decided(by_class);
    }
    // Both values have one class now, so each accessor below succeeds and the final `unwrap_or` is not
    // reached.
    let ordering = match left {
        RawBsonRef::MinKey | RawBsonRef::Undefined | RawBsonRef::Null | RawBsonRef::MaxKey => {
            Some(Ordering::Equal)
        }
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            Some(number::compare(left, right))
        }
        RawBsonRef::String(left) | RawBsonRef::Symbol(left) => {
            right.as_str().or(right.as_symbol()).map(|right| texts.compare(left, right))
        }
        RawBsonRef::Binary(left) => right.as_binary().map(|right| compare_binary(left, right)),
        RawBsonRef::ObjectId(left) => right.as_object_id().map(|right| left.bytes().cmp(&right.bytes())),
        RawBsonRef::Boolean(left) => right.as_bool().map(|right| left.cmp(&right)),
        RawBsonRef::DateTime(left) => {
            right.as_datetime().map(|right| left.timestamp_millis().cmp(&right.timestamp_millis()))
        }
        RawBsonRef::Timestamp(left) => {
            right.as_timestamp().map(|right| (left.time, left.increment).cmp(&(right.time, right.increment)))
        }
        RawBsonRef::RegularExpression(left) => right.as_regex().map(|right| {
            let by_pattern = left.pattern.as_str().cmp(right.pattern.as_str());
            by_pattern.then_with(|| left.options.as_str().cmp(right.options.as_str()))
        }),
        RawBsonRef::DbPointer(left) => right.as_db_pointer().map(|right| compare_pointers(left, right)),
        RawBsonRef::JavaScriptCode(left) => right.as_javascript().map(|right| left.cmp(right)),
        RawBsonRef::Document(left) => return descend(Some(left), right.as_document()),
        RawBsonRef::Array(left) => {
            return right.as_array().map_or(Step::Decided(Ordering::Equal), |right| {
                Step::Descend(Container::Array(left.into_iter()), Container::Array(right.into_iter()))
            });
        }
        RawBsonRef::JavaScriptCodeWithScope(left) => {
            // The code decides before the scope.
            let right = right.as_javascript_with_scope();
            let by_code = right.map_or(Ordering::Equal, |right| left.code.cmp(right.code));
            if by_code == Ordering::Equal {
                return descend(Some(left.scope), right.map(|right| right.scope));
            }
            Some(by_code)
        }
    };
    Step::Decided(ordering.unwrap_or(Ordering::Equal))
}

fn descend<'l, 'r>(left: Option<&'l RawDocument>, right: Option<&'r RawDocument>) -> Step<'l, 'r> {
    match (left, right) {
        (Some(left), Some(right)) => Step::Descend(Container::document(left), Container::document(right)),
        (None, Some(_) | None) | (Some(_), None) => Step::Decided(Ordering::Equal),
    }
}

/// MongoDB compares the stored lengths first, then the subtypes, then the bytes.
fn compare_binary(left: RawBinaryRef<'_>, right: RawBinaryRef<'_>) -> Ordering {
    let by_len = stored_binary_len(left).cmp(&stored_binary_len(right));
    by_len
        .then_with(|| u8::from(left.subtype).cmp(&u8::from(right.subtype)))
        .then_with(|| left.bytes.cmp(right.bytes))
}

/// MongoDB compares whole `DBPointer` values by size, then as bytes; so the length of the namespace
/// comes first, then the namespace, then the id.
fn compare_pointers(left: RawDbPointerRef<'_>, right: RawDbPointerRef<'_>) -> Ordering {
    let (left, right) = (pointer_bytes(left), pointer_bytes(right));
    left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
}

/// The namespace of a `DBPointer` and, in the last 12 bytes, its id.
///
/// The fields are private in `bson`, so they are read back from the stored form. That costs an
/// allocation for a type that no driver has written for a decade.
pub(crate) fn pointer_bytes(pointer: RawDbPointerRef<'_>) -> Vec<u8> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), RawBsonRef::DbPointer(pointer));
    // Before the namespace: the document's length, type, empty name, the namespace's length.
    let mut bytes: Vec<u8> = document.into_bytes().into_iter().skip(4 + 1 + 1 + 4).collect();
    // After it: a zero, the id, and the end of the document.
    bytes.pop();
    let id_start = bytes.len().saturating_sub(12);
    let id = bytes.split_off(id_start);
    bytes.pop();
    bytes.extend(id);
    bytes
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{Binary, Bson, DateTime, JavaScriptCodeWithScope, Timestamp, bson, doc};
    use proptest::prelude::*;

    use super::*;
    use crate::proptest_support::{Raw, any_value, db_pointer, nested};

    /// Checks that each value is smaller than all that follow it.
    #[track_caller]
    fn check(ascending: &[Bson]) {
        for (position, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                let (left_raw, right_raw) = (Raw::new(left), Raw::new(right));
                let found = compare(left_raw.value(), right_raw.value());
                assert_eq!(found, position.cmp(&other), "{left:?} and {right:?}");
            }
        }
    }

    #[track_caller]
    fn check_equal(left: impl Into<Bson>, right: impl Into<Bson>) {
        let (left, right) = (Raw::new(&left.into()), Raw::new(&right.into()));
        assert_eq!(compare(left.value(), right.value()), Ordering::Equal);
    }

    fn binary(subtype: u8, bytes: &[u8]) -> Bson {
        Bson::Binary(Binary { subtype: subtype.into(), bytes: bytes.to_vec() })
    }

    fn regex(pattern: &str, options: &str) -> Bson {
        let (pattern, options) =
            (pattern.to_owned().try_into().unwrap(), options.to_owned().try_into().unwrap());
        Bson::RegularExpression(bson::Regex { pattern, options })
    }

    fn scoped(code: &str, scope: bson::Document) -> Bson {
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code: code.to_owned(), scope })
    }

    #[test]
    fn classes_come_first() {
        check(&[
            Bson::MinKey,
            Bson::Undefined,
            Bson::Null,
            Bson::Int32(7),
            bson!("7"),
            bson!({}),
            bson!([]),
            binary(0, b""),
            ObjectId::from_bytes([0; 12]).into(),
            false.into(),
            DateTime::from_millis(i64::MIN).into(),
            Timestamp { time: 0, increment: 0 }.into(),
            regex("", ""),
            db_pointer("", [0; 12]),
            Bson::JavaScriptCode(String::new()),
            scoped("", doc! {}),
            Bson::MaxKey,
        ]);
    }

    #[test]
    fn strings_compare_as_bytes() {
        check(
            &["", "\0", "\0\0", "\0a", "A", "a", "a\0", "aa", "b", "\u{e9}", "\u{ffff}", "\u{10000}"]
                .map(Bson::from),
        );
        check_equal("a", Bson::Symbol("a".to_owned()));
    }

    #[test]
    fn documents_compare_by_class_then_name_then_value() {
        check(&[
            bson!({}),
            bson!({ "b": null }),
            bson!({ "z": 1 }),
            bson!({ "a": "x" }),
            bson!({ "a": "x", "b": 1 }),
            bson!({ "a": "y" }),
            bson!({ "b": "" }),
            bson!({ "a": { "a": 1 } }),
            bson!({ "a": { "b": 1 } }),
            bson!({ "a": [] }),
        ]);
        check_equal(bson!({ "a": 1 }), bson!({ "a": 1.0 }));
    }

    #[test]
    fn field_order_matters() {
        check(&[bson!({ "a": 1, "b": 1 }), bson!({ "b": 1, "a": 1 })]);
    }

    #[test]
    fn arrays_compare_by_elements_then_length() {
        check(&[
            bson!([]),
            bson!([null]),
            bson!([1]),
            bson!([1, 1]),
            bson!([2]),
            bson!(["a"]),
            bson!([[]]),
            bson!([[1]]),
        ]);
    }

    #[test]
    fn binary_compares_by_length_then_subtype_then_bytes() {
        check(&[
            binary(5, b""),
            binary(0, b"b"),
            binary(5, b"a"),
            binary(0, b"aa"),
            binary(0, b"bb"),
            // The deprecated subtype stores four bytes more.
            binary(2, b""),
            binary(3, b"aaaa"),
            binary(2, b"a"),
        ]);
    }

    #[test]
    fn dates_are_signed_and_timestamps_are_not() {
        check(&[i64::MIN, -1, 0, 1, i64::MAX].map(|millis| DateTime::from_millis(millis).into()));
        let timestamps = [(0, 0), (0, u32::MAX), (1, 0), (u32::MAX, 0), (u32::MAX, u32::MAX)];
        check(&timestamps.map(|(time, increment)| Timestamp { time, increment }.into()));
    }

    #[test]
    fn expressions_pointers_and_code_compare_by_parts() {
        check(&[regex("a", ""), regex("a", "i"), regex("a", "m"), regex("ab", ""), regex("b", "")]);
        check(&[db_pointer("z", [1; 12]), db_pointer("z", [2; 12]), db_pointer("aa", [0; 12])]);
        check(&["a", "ab", "b"].map(|code| Bson::JavaScriptCode(code.to_owned())));
        check(&[
            scoped("a", doc! {}),
            scoped("a", doc! { "a": 1 }),
            scoped("a", doc! { "b": 1 }),
            scoped("b", doc! {}),
        ]);
        check(&[false.into(), true.into()]);
    }

    #[test]
    fn documents_compare_as_values_do() {
        let small = RawDocumentBuf::try_from(&doc! { "a": 1 }).unwrap();
        let large = RawDocumentBuf::try_from(&doc! { "a": 2 }).unwrap();
        assert_eq!(compare_documents(&small, &large), Ordering::Less);
        assert_eq!(compare_documents(&large, &large), Ordering::Equal);
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        for element_type in [0x03, 0x04] {
            let (deep, deeper) = (nested(100_000, element_type), nested(100_001, element_type));
            let deep = RawDocument::from_bytes(&deep).unwrap();
            let deeper = RawDocument::from_bytes(&deeper).unwrap();
            assert_eq!(compare_documents(deep, deep), Ordering::Equal);
            assert_eq!(compare_documents(deep, deeper), Ordering::Less);
        }
    }

    #[test]
    fn a_malformed_element_ends_its_container() {
        // The string of the second field claims to be longer than the document.
        let malformed = b"\x16\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x02b\x00\xff\x00\x00\x00x\x00\x00\x00";
        let malformed = RawDocument::from_bytes(&malformed[..]).unwrap();
        let shortened = RawDocumentBuf::try_from(&doc! { "a": 1 }).unwrap();
        assert_eq!(compare_documents(malformed, &shortened), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in any_value(), b in any_value(), c in any_value()) {
            let raw = [Raw::new(&a), Raw::new(&b), Raw::new(&c)];
            let [a, b, c] = [raw[0].value(), raw[1].value(), raw[2].value()];
            prop_assert_eq!(compare(a, a), Ordering::Equal);
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            let mut sorted = [a, b, c];
            sorted.sort_by(|left, right| compare(*left, *right));
            prop_assert_ne!(compare(sorted[0], sorted[1]), Ordering::Greater);
            prop_assert_ne!(compare(sorted[1], sorted[2]), Ordering::Greater);
            prop_assert_ne!(compare(sorted[0], sorted[2]), Ordering::Greater);
            // Equal values are interchangeable.
            if compare(a, b) == Ordering::Equal {
                prop_assert_eq!(compare(a, c), compare(b, c));
            }
        }

        #[test]
        fn any_bytes_compare_without_a_panic(left in malformed_document(), right in malformed_document()) {
            let (left, right) = (RawDocument::from_bytes(&left).unwrap(), RawDocument::from_bytes(&right).unwrap());
            prop_assert_eq!(compare_documents(left, left), Ordering::Equal);
            prop_assert_eq!(compare_documents(left, right), compare_documents(right, left).reverse());
        }
    }

    /// Valid documents of which some bytes inside were overwritten.
    fn malformed_document() -> impl Strategy<Value = Vec<u8>> {
        let faults = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        (any_value(), faults).prop_map(|(value, faults)| {
            let mut bytes = RawDocumentBuf::try_from(&doc! { "a": value }).unwrap().into_bytes();
            let len = bytes.len();
            for (place, byte) in faults {
                bytes[4 + place.index(len - 5)] = byte;
            }
            bytes
        })
    }
}
