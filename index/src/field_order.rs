//! In which order a document has the fields of an index.
//!
//! An entry has the values of its fields in the order of the index. A reader who answers from entries alone must
//! give the fields in the order of the document, as a reader of the document would. So an entry keeps that order
//! beside its types, as one number, and nothing at all in the common case that both orders are the same.
//!
//! The numbers are on disk: they never change their meaning.

use std::iter;

use crate::element::elements;
use crate::path;
use crate::spec::IndexSpec;

use bson::RawDocument;
use bson::spec::ElementType;

/// The number for all documents whose fields an entry cannot put back.
const UNTOLD: u8 = u8::MAX;

/// The order of an index's fields in one document.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::field_order::FieldOrder;
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "a": 1, "b": 1 }, SpecOptions::default())?;
/// let order = FieldOrder::of(&spec, &rawdoc! { "b": 1, "x": 2, "a": 3 });
/// assert_eq!(order.positions(2), Some(vec![1, 0]));
/// assert_eq!(FieldOrder::of(&spec, &rawdoc! { "a": 1, "b": 2 }), FieldOrder::AS_DECLARED);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldOrder {
    /// The rank of the order among all orders of so many fields, or [`UNTOLD`].
    code: u8,
}

impl FieldOrder {
    /// The document has the fields in the order of the index.
    pub const AS_DECLARED: Self = Self { code: 0 };

    /// The order of the fields in a document. Fields that the document lacks count as if they came right after
    /// the field that is before them in the index.
    pub fn of(spec: &IndexSpec, document: &RawDocument) -> Self {
        let mut places = Vec::with_capacity(spec.fields().len());
        for field in spec.fields() {
            // Of a repeated name an index has one value, and a projection shows both.
            let Ok(place) = place(document.as_bytes(), field.path.as_str()) else {
                return Self { code: UNTOLD };
            };
            let before = places.last().copied().unwrap_or_default();
            places.push(place.unwrap_or(before));
        }
        if places.is_sorted() {
            return Self::AS_DECLARED;
        }
        let mut positions: Vec<usize> = (0..places.len()).collect();
        positions.sort_by_key(|position| places.get(*position));
        Self { code: rank(&positions) }
    }

    /// The order that [`code`](Self::code) returned earlier.
    pub fn from_code(code: u8) -> Self {
        Self { code }
    }

    /// A number for the order. 0 is the order of the index.
    pub fn code(self) -> u8 {
        self.code
    }

    /// Whether each field of the index has one value in the document at most, so that the index has all of it.
    pub fn is_told(self) -> bool {
        self.code != UNTOLD
    }

    /// The positions of an index's `count` fields, in the order of the document. Returns `None` if that order
    /// was not kept.
    pub fn positions(self, count: usize) -> Option<Vec<usize>> {
        let mut left: Vec<usize> = (0..count).collect();
        let mut rest = u64::from(self.code);
        let mut positions = Vec::with_capacity(count);
        if !self.is_told() {
            return None;
        }
        // The rank is a number whose digits have the bases count, count - 1, and so on.
        for following in (0..count).rev() {
            let weight = factorial(following);
            let digit = usize::try_from(rest / weight).ok()?;
            rest %= weight;
            // A rank beyond the last order is not a rank of so many fields.
            positions.push((digit < left.len()).then(|| left.remove(digit))?);
        }
        Some(positions)
    }
}

/// A name that a document repeats on a path.
struct Repeated;

/// The place in memory of the value at a path, or of the value at which the path ends early. `None` if a field is
/// missing.
fn place(document: &[u8], path: &str) -> Result<Option<usize>, Repeated> {
    let mut rest = Some(path);
    let mut object = document;
    let mut last = None;
    while let Some(path) = rest {
        let (name, below) = path::split(path);
        let mut elements = elements(object);
        let Some(found) = elements.named(name.as_bytes()) else { break };
        // All elements are looked at, because a second one of the name may be anywhere.
        if elements.named(name.as_bytes()).is_some() {
            return Err(Repeated);
        }
        last = Some(found.value.as_ptr().addr());
        if found.kind != ElementType::EmbeddedDocument {
            break;
        }
        (object, rest) = (found.value, below);
    }
    Ok(last)
}

/// The position of an order in the list of all orders of so many fields, or [`UNTOLD`] if it is too large.
fn rank(positions: &[usize]) -> u8 {
    let digits = positions.iter().enumerate().map(|(at, position)| {
        let later = positions.iter().skip(at + 1);
        let smaller = later.clone().filter(|later| *later < position).count();
        (smaller as u64).saturating_mul(factorial(later.len()))
    });
    let rank = digits.fold(0_u64, u64::saturating_add);
    u8::try_from(rank).unwrap_or(UNTOLD)
}

/// The number of orders of `count` things, at most `u64::MAX`.
fn factorial(count: usize) -> u64 {
    iter::successors(Some(1_u64), |factor| factor.checked_add(1)).take(count).fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, doc, rawdoc};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::spec::SpecOptions;

    fn spec(keys: &Document) -> IndexSpec {
        IndexSpec::parse(&RawDocumentBuf::try_from(keys).unwrap(), SpecOptions::default()).unwrap()
    }

    #[track_caller]
    fn check(keys: &Document, document: &RawDocument, expected: Option<&[usize]>) {
        let order = FieldOrder::of(&spec(keys), document);
        assert_eq!(order.positions(keys.len()).as_deref(), expected, "{keys} {document:?}");
        assert_eq!(FieldOrder::from_code(order.code()), order);
    }

    #[test]
    fn the_order_is_that_of_the_document() {
        let keys = doc! { "a": 1, "b": -1, "c": 1 };
        check(&keys, &rawdoc! { "a": 1, "b": 2, "c": 3 }, Some(&[0, 1, 2]));
        check(&keys, &rawdoc! { "c": 1, "b": 2, "a": 3 }, Some(&[2, 1, 0]));
        check(&keys, &rawdoc! { "b": null, "x": 1, "a": null, "c": null }, Some(&[1, 0, 2]));
    }

    #[test]
    fn a_missing_field_follows_the_one_before_it_in_the_index() {
        let keys = doc! { "a": 1, "b": 1, "c": 1 };
        check(&keys, &rawdoc! {}, Some(&[0, 1, 2]));
        check(&keys, &rawdoc! { "c": 1, "a": 1 }, Some(&[2, 0, 1]));
        check(&keys, &rawdoc! { "b": 1 }, Some(&[0, 1, 2]));
    }

    #[test]
    fn fields_of_embedded_documents_are_where_these_are() {
        let keys = doc! { "a.x": 1, "b": 1, "a.y": 1 };
        check(&keys, &rawdoc! { "a": { "x": 1, "y": 2 }, "b": 3 }, Some(&[0, 2, 1]));
        check(&keys, &rawdoc! { "b": 1, "a": { "y": 1, "x": 2 } }, Some(&[1, 2, 0]));
        // Both paths end at the array, so the index decides.
        check(&keys, &rawdoc! { "a": [{ "y": 1, "x": 2 }], "b": 1 }, Some(&[0, 2, 1]));
    }

    #[test]
    fn a_repeated_name_on_a_path_is_told() {
        let mut document = rawdoc! { "a": 1, "b": 2 };
        document.append(bson::cstr!("a"), 3);
        check(&doc! { "a": 1 }, &document, None);
        check(&doc! { "b": 1 }, &document, Some(&[0]));
        check(&doc! { "x.a": 1 }, &rawdoc! { "x": document }, None);
    }

    #[test]
    fn an_order_whose_rank_is_too_large_is_not_kept() {
        let keys: Document = ('a'..='h').map(|name| (name.to_string(), 1.into())).collect();
        let mut reversed: Vec<_> = keys.clone().into_iter().collect();
        reversed.reverse();
        let document: Document = reversed.into_iter().collect();
        check(&keys, &RawDocumentBuf::try_from(&document).unwrap(), None);
        let mut swapped: Vec<_> = keys.clone().into_iter().collect();
        swapped.swap(6, 7);
        let swapped: Document = swapped.into_iter().collect();
        check(&keys, &RawDocumentBuf::try_from(&swapped).unwrap(), Some(&[0, 1, 2, 3, 4, 5, 7, 6]));
    }

    proptest! {
        #[test]
        fn every_order_of_few_fields_comes_back(choices in prop::collection::vec(any::<Index>(), 0..6)) {
            let mut left: Vec<usize> = (0..choices.len()).collect();
            let order: Vec<usize> =
                choices.iter().map(|choice| left.remove(choice.index(left.len()))).collect();
            prop_assert_eq!(FieldOrder { code: rank(&order) }.positions(order.len()), Some(order));
        }

        #[test]
        fn no_bytes_are_too_malformed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = place(&bytes, "a.b");
        }
    }
}
