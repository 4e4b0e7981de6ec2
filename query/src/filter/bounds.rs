//! Which values of a field meet a test, as intervals for the scan of an index.
//!
//! The set need not be exact. A scan may read too many values but never too few, so its set is a superset of
//! the values that meet the test. Where a set is subtracted (`$ne`, `$nor`, `$not`), it must be a subset
//! instead. A missing field counts as null, as it does in an index. How the tests of a whole filter bound
//! entries is in `entries`.
//!
//! The sets are of keys with a collation: they have the key forms of values, which are the values themselves if the collation
//! is simple.

use bson::spec::ElementType;
use bson::{RawArray, RawBson};
use index::collation::Collation;
use index::interval::{Interval, Intervals, Limit};
use index::order::{TypeClass, type_class};

use crate::filter::compare::{Membership, Relation};
use crate::filter::evaluate::{Condition, Test};
use crate::filter::value_test::matched;
use crate::value::elements;

/// Whether values of a field may be arrays or elements of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// No document has an array at the path or on the way to it, as for `_id` and every index that is not
    /// multikey.
    Absent,
    /// Some document may have an array there.
    Possible,
}

/// A superset of the values that meet `test`: an index has one of them for every document with such a value.
///
/// Returns `None` if the test says nothing about the values in an index.
pub(super) fn superset(test: &Test, arrays: Arrays, keys: &Collation) -> Option<Intervals> {
    match test {
        // Keys in another order bound no text. Their whole class would be a bound, but to read all texts by an index costs
        // more than to read the documents.
        Test::Compare(comparison) => compared(comparison.relation(), &*comparison.operand_in(keys)?, arrays),
        Test::In(membership) => members(membership, arrays, keys),
        Test::Type(types) => typed(types.types(), arrays),
        Test::Value(test) => test.superset(keys),
        // An index holds the elements themselves, so the set of the element is that of the entry.
        Test::AnyElement(condition) => Some(condition_superset(condition, keys)),
        Test::Exists | Test::AnyObject(_) => None,
    }
}

/// A subset of the values that meet `test`: a document that does not meet the test has none of them.
pub(super) fn subset(test: &Test, keys: &Collation) -> Intervals {
    match test {
        // For values of one class that are not arrays, these sets are exact. Keys in another order have none.
        Test::Compare(comparison) => {
            let operand = comparison.operand_in(keys);
            let set = operand.and_then(|operand| compared(comparison.relation(), &operand, Arrays::Absent));
            set.unwrap_or_default()
        }
        Test::In(membership) => {
            let values = membership.values_in(keys).flatten();
            let values = values.map(|value| Interval::point(value.into_owned()));
            // Patterns are left out: the texts that match one form no interval.
            Intervals::from_any(values.chain(membership.has_null().then(null_points).into_iter().flatten()))
        }
        Test::Type(_) | Test::Value(_) | Test::Exists | Test::AnyObject(_) | Test::AnyElement(_) => {
            Intervals::none()
        }
    }
}

/// The points null and undefined. For a filter both are equal to a missing field, which an index stores as
/// null.
pub(super) fn null_points() -> [Interval; 2] {
    [Interval::point(RawBson::Undefined), Interval::point(RawBson::Null)]
}

/// A superset of the values that meet a condition. An array counts as itself, not as its elements.
fn condition_superset(condition: &Condition, keys: &Collation) -> Intervals {
    let superset_of = |condition| condition_superset(condition, keys);
    match condition {
        Condition::All(conditions) => Intervals::in_all(conditions.iter().map(superset_of).collect()),
        Condition::Any(conditions) => Intervals::from_any(conditions.iter().flat_map(superset_of)),
        // The complement of a subset is a superset of what does not match. That is why both directions exist.
        Condition::Not(condition) => condition_subset(condition, keys).complement(),
        Condition::Test(test) => whole_superset(test, keys),
    }
}

/// A superset of the values that meet a test. An array counts as itself, not as its elements.
pub(super) fn whole_superset(test: &Test, keys: &Collation) -> Intervals {
    // Those that look into the value, which must be an array, have the bounds of its elements.
    if test.looks_into_arrays() {
        superset(test, Arrays::Absent, keys).unwrap_or_else(Intervals::all)
    } else {
        Interval::class(TypeClass::Array).into()
    }
}

/// A subset of the values that meet a condition. An array counts as itself, not as its elements.
fn condition_subset(condition: &Condition, keys: &Collation) -> Intervals {
    let subset_of = |condition| condition_subset(condition, keys);
    match condition {
        Condition::All(conditions) => Intervals::in_all(conditions.iter().map(subset_of).collect()),
        Condition::Any(conditions) => Intervals::from_any(conditions.iter().flat_map(subset_of)),
        Condition::Not(condition) => condition_superset(condition, keys).complement(),
        Condition::Test(test) => subset(test, keys),
    }
}

/// The values that meet a comparison with `operand`, or `None` if the entries of arrays are not bounded by it.
fn compared(relation: Relation, operand: &RawBson, arrays: Arrays) -> Option<Intervals> {
    let class = type_class(operand.as_raw_bson_ref());
    let limit = match relation {
        Relation::Eq if class == TypeClass::Null => return Some(Intervals::from_any(null_points())),
        Relation::Eq => return Some(Intervals::from_any(equal(operand, arrays))),
        Relation::Gt | Relation::Lt => Limit::Exclusive,
        Relation::Gte | Relation::Lte => Limit::Inclusive,
    };
    // A multikey index holds the elements of an array and not the array. The array itself may meet a
    // comparison with another array, or with the key at the end of the order, which compares with every
    // class. No element bounds that.
    let end_key =
        if matches!(relation, Relation::Gt | Relation::Gte) { TypeClass::MinKey } else { TypeClass::MaxKey };
    if arrays == Arrays::Possible && (class == TypeClass::Array || class == end_key) {
        return None;
    }
    if class == TypeClass::Null {
        // No value is greater or less than null within its class, so only `$gte` and `$lte` match: null
        // itself.
        let null = (limit == Limit::Inclusive).then(null_points);
        return Some(Intervals::from_any(null.into_iter().flatten()));
    }
    Some(Intervals::from_any(match relation {
        Relation::Gt | Relation::Gte => Interval::above(operand.clone(), limit),
        Relation::Lt | Relation::Lte | Relation::Eq => Interval::below(operand.clone(), limit),
    }))
}

/// The entries of an index for a value equal to `operand`: that value, or, for an array, one entry that it surely
/// has.
fn equal(operand: &RawBson, arrays: Arrays) -> impl Iterator<Item = Interval> {
    let array = operand.as_array().filter(|_| arrays == Arrays::Possible);
    // One entry of the array is enough: the filter then checks the documents that have it.
    let first = array.map(|array| Interval::point(first_entry(array)));
    // The operand stays in the set, because an array inside of an array is an entry as a whole.
    first.into_iter().chain([Interval::point(operand.clone())])
}

/// An entry that an index has for an array: its first element, or undefined if it is empty.
fn first_entry(array: &RawArray) -> RawBson {
    elements(array).next().map_or(RawBson::Undefined, RawBson::from)
}

/// The values that a member of `$in` equals or matches, or `None` if keys in another order do not say them.
fn members(membership: &Membership, arrays: Arrays, keys: &Collation) -> Option<Intervals> {
    let mut values = Vec::new();
    for value in membership.values_in(keys) {
        values.extend(equal(&*value?, arrays));
    }
    let null = membership.has_null().then(null_points).into_iter().flatten();
    let patterns = membership.patterns().iter().flat_map(|pattern| matched(pattern, keys));
    Some(Intervals::from_any(values.into_iter().chain(null).chain(patterns)))
}

/// The values of some types, as whole type classes, or `None` if an array is among the types.
fn typed(types: &[ElementType], arrays: Arrays) -> Option<Intervals> {
    // A multikey index does not hold an array itself. It holds its elements, or undefined for an empty array.
    let is_bounded = |kind: &ElementType| arrays == Arrays::Absent || *kind != ElementType::Array;
    types
        .iter()
        .all(is_bounded)
        .then(|| Intervals::from_any(types.iter().map(|kind| Interval::class(class_of(*kind)))))
}

/// The class in which values of a type sort. Several types share one, so a class may hold more than the type.
pub(super) fn class_of(kind: ElementType) -> TypeClass {
    match kind {
        ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128 => {
            TypeClass::Number
        }
        ElementType::String | ElementType::Symbol => TypeClass::String,
        ElementType::EmbeddedDocument => TypeClass::Object,
        ElementType::Array => TypeClass::Array,
        ElementType::Binary => TypeClass::Binary,
        ElementType::Undefined => TypeClass::Undefined,
        ElementType::ObjectId => TypeClass::ObjectId,
        ElementType::Boolean => TypeClass::Boolean,
        ElementType::DateTime => TypeClass::Date,
        ElementType::Null => TypeClass::Null,
        ElementType::RegularExpression => TypeClass::RegularExpression,
        ElementType::DbPointer => TypeClass::DbPointer,
        ElementType::JavaScriptCode => TypeClass::Code,
        ElementType::JavaScriptCodeWithScope => TypeClass::CodeWithScope,
        ElementType::Timestamp => TypeClass::Timestamp,
        ElementType::MaxKey => TypeClass::MaxKey,
        ElementType::MinKey => TypeClass::MinKey,
    }
}
