//! Equality of two values in a schema: as in the order of all values, but with the fields of objects in any order.

use std::collections::HashSet;

use bson::raw::RawElement;
use bson::{RawArray, RawBsonRef, RawDocument};
use index::key::{Direction, encode};
use index::validate::NESTING_MAX;

use crate::value::elements;

/// Bytes of a value. Two values have equal bytes if and only if the values are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity(Vec<u8>);

// No encoded value starts with one of these bytes, so they cannot be mistaken for a part of one.
const END: u8 = 0x00;
const OBJECT: u8 = 0x01;
const ARRAY: u8 = 0x02;
const FIELD: u8 = 0x03;

impl Identity {
    pub(super) fn of(value: RawBsonRef<'_>) -> Self {
        let mut bytes = Vec::new();
        write(value, 0, &mut bytes);
        Self(bytes)
    }

    /// The number of bytes to compare.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// The first element that is equal to one before it.
pub(crate) fn first_repeated(array: &RawArray) -> Option<RawBsonRef<'_>> {
    let mut seen = HashSet::new();
    elements(array).find(|element| !seen.insert(Identity::of(*element)))
}

/// The fields of a document up to the first malformed one.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = RawElement<'_>> {
    document.iter_elements().map_while(Result::ok)
}

/// Appends a value, with the fields of objects in ascending order of their names.
fn write(value: RawBsonRef<'_>, depth: usize, bytes: &mut Vec<u8>) {
    // No stored document is nested so deeply. The rest is encoded as it is, because that needs no recursion.
    if depth > NESTING_MAX {
        return encode(value, Direction::Ascending, bytes);
    }
    if let Some(document) = value.as_document() {
        write_object(document, depth, bytes);
    } else if let Some(array) = value.as_array() {
        bytes.push(ARRAY);
        elements(array).for_each(|element| write(element, depth + 1, bytes));
        bytes.push(END);
    } else {
        encode(value, Direction::Ascending, bytes);
    }
}

fn write_object(document: &RawDocument, depth: usize, bytes: &mut Vec<u8>) {
    let mut sorted: Vec<_> =
        fields(document).map_while(|field| Some((field.key().as_str(), field.value().ok()?))).collect();
    sorted.sort_by_key(|(name, _)| *name);
    bytes.push(OBJECT);
    for (name, value) in sorted {
        bytes.push(FIELD);
        // A name has no zero byte, so the byte after it ends it.
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(END);
        write(value, depth + 1, bytes);
    }
    bytes.push(END);
}

#[cfg(test)]
mod tests {
    use bson::{Bson, RawBson, bson};

    use super::*;

    #[track_caller]
    fn check(left: Bson, right: Bson, are_same: bool) {
        let [left, right] = [left, right].map(|value| RawBson::try_from(value).unwrap());
        let found = Identity::of(left.as_raw_bson_ref()) == Identity::of(right.as_raw_bson_ref());
        assert_eq!(found, are_same, "{left:?} {right:?}");
    }

    #[test]
    fn the_order_of_fields_does_not_count_and_that_of_elements_does() {
        check(bson!({ "a": 1, "b": { "c": 1, "d": 2 } }), bson!({ "b": { "d": 2, "c": 1.0 }, "a": 1 }), true);
        check(bson!([{ "a": 1, "b": 2 }]), bson!([{ "b": 2, "a": 1 }]), true);
        check(bson!([1, 2]), bson!([2, 1]), false);
        check(bson!({ "a": 1 }), bson!({ "a": 1, "b": 1 }), false);
        check(bson!({ "a": 1 }), bson!({ "b": 1 }), false);
    }

    #[test]
    fn types_of_numbers_do_not_count_and_classes_do() {
        check(bson!(1), bson!(1_i64), true);
        check(bson!(1), bson!("1"), false);
        check(bson!([]), bson!({}), false);
        check(bson!([[]]), bson!([]), false);
        check(Bson::Null, Bson::Undefined, false);
    }
}
