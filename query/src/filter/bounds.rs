//! Which values a field can have where a test of it is met.
//!
//! The answers are for choosing an index, and err on the side of too many values; where they are to be taken away, on the
//! side of too few. A missing field counts as null, as it does in an index. How the tests of a whole filter bound the
//! entries of an index is in `entries`.

use bson::spec::ElementType;
use bson::{RawArray, RawBson, Regex};
use index::interval::{Bound, Interval, Intervals, Limit};
use index::order::{TypeClass, type_class};

use crate::filter::Arrays;
use crate::filter::compare::{Comparison, Membership, Relation};
use crate::filter::evaluate::{Condition, Test};
use crate::pattern::Pattern;
use crate::value::elements;

/// Values, one of which an index has for every document with a value that meets the test; `None` if any value will do.
pub(super) fn admitted(test: &Test, arrays: Arrays) -> Option<Intervals> {
    match test {
        Test::Compare(comparison) => compared(comparison, arrays),
        Test::In(membership) => Some(members(membership, arrays)),
        Test::Type(types) => typed(types.types(), arrays),
        Test::Mod(_) => Some(Interval::class(TypeClass::Number).into()),
        Test::Bits(_) => Some(Intervals::from_any([
            Interval::class(TypeClass::Number),
            Interval::class(TypeClass::Binary),
        ])),
        Test::Pattern(pattern) => Some(Intervals::from_any(matched(pattern))),
        Test::AnyElement(condition) => Some(all_that_meet(condition)),
        Test::Exists | Test::Size(_) | Test::AnyObject(_) => None,
    }
}

/// Values that all meet the test, so that a document which lacks it has none of them.
pub(super) fn meeting(test: &Test) -> Intervals {
    match test {
        // Within one class, and for values, these sets are exact.
        Test::Compare(comparison) => compared(comparison, Arrays::Absent).unwrap_or_default(),
        Test::In(membership) => {
            let values = membership.values().iter().cloned().map(Interval::point);
            Intervals::from_any(values.chain(membership.has_null().then(nothing).into_iter().flatten()))
        }
        Test::Type(_)
        | Test::Mod(_)
        | Test::Bits(_)
        | Test::Pattern(_)
        | Test::Exists
        | Test::Size(_)
        | Test::AnyObject(_)
        | Test::AnyElement(_) => Intervals::none(),
    }
}

/// Null and undefined. A missing field counts as null; a filter takes all three for one.
pub(super) fn nothing() -> [Interval; 2] {
    [Interval::point(RawBson::Undefined), Interval::point(RawBson::Null)]
}

/// All values that meet a condition, which is asked of one value as it is; perhaps more.
fn all_that_meet(condition: &Condition) -> Intervals {
    match condition {
        Condition::All(conditions) => {
            let sets = conditions.iter().map(all_that_meet);
            sets.fold(Intervals::all(), |all, set| all.intersection(&set))
        }
        Condition::Any(conditions) => {
            conditions.iter().map(all_that_meet).fold(Intervals::none(), Intervals::union)
        }
        Condition::Not(condition) => only_that_meet(condition).complement(),
        // Here the value itself is the array.
        Condition::Test(Test::AnyElement(_) | Test::AnyObject(_) | Test::Size(_)) => {
            Interval::class(TypeClass::Array).into()
        }
        Condition::Test(test) => admitted(test, Arrays::Absent).unwrap_or_else(Intervals::all),
    }
}

/// Values that all meet a condition; perhaps not all of them.
fn only_that_meet(condition: &Condition) -> Intervals {
    match condition {
        Condition::All(conditions) => {
            let sets = conditions.iter().map(only_that_meet);
            sets.fold(Intervals::all(), |all, set| all.intersection(&set))
        }
        Condition::Any(conditions) => {
            conditions.iter().map(only_that_meet).fold(Intervals::none(), Intervals::union)
        }
        Condition::Not(condition) => all_that_meet(condition).complement(),
        Condition::Test(test) => meeting(test),
    }
}

fn compared(comparison: &Comparison, arrays: Arrays) -> Option<Intervals> {
    let (operand, relation) = (comparison.operand(), comparison.relation());
    let class = type_class(operand.as_raw_bson_ref());
    let limit = match relation {
        Relation::Eq if class == TypeClass::Null => return Some(Intervals::from_any(nothing())),
        Relation::Eq => return Some(Intervals::from_any(equal(operand, arrays))),
        Relation::Gt | Relation::Lt => Limit::Exclusive,
        Relation::Gte | Relation::Lte => Limit::Inclusive,
    };
    // An index has the elements of an array. The array itself, which it has not, may stand in the relation to another
    // one, and to the outermost values, which compare with every class.
    let outermost =
        if matches!(relation, Relation::Gt | Relation::Gte) { TypeClass::MinKey } else { TypeClass::MaxKey };
    if arrays == Arrays::Possible && (class == TypeClass::Array || class == outermost) {
        return None;
    }
    if class == TypeClass::Null {
        let null = (limit == Limit::Inclusive).then(nothing);
        return Some(Intervals::from_any(null.into_iter().flatten()));
    }
    Some(Intervals::from_any(match relation {
        Relation::Gt | Relation::Gte => Interval::above(operand.clone(), limit),
        Relation::Lt | Relation::Lte | Relation::Eq => Interval::below(operand.clone(), limit),
    }))
}

/// What an index has for a value that is equal to `operand`: the value itself, and for an array its elements.
fn equal(operand: &RawBson, arrays: Arrays) -> impl Iterator<Item = Interval> {
    let array = operand.as_array().filter(|_| arrays == Arrays::Possible);
    let first = array.map(|array| Interval::point(first_entry(array)));
    // An element of an array may be equal to an array as well.
    first.into_iter().chain([Interval::point(operand.clone())])
}

/// One value that an index has for an array.
fn first_entry(array: &RawArray) -> RawBson {
    elements(array).next().map_or(RawBson::Undefined, RawBson::from)
}

fn members(membership: &Membership, arrays: Arrays) -> Intervals {
    let values = membership.values().iter().flat_map(|value| equal(value, arrays));
    let null = membership.has_null().then(nothing).into_iter().flatten();
    Intervals::from_any(values.chain(null).chain(membership.patterns().iter().flat_map(matched)))
}

fn typed(types: &[ElementType], arrays: Arrays) -> Option<Intervals> {
    // An array is not in an index itself, and an empty one stands there as undefined.
    let is_bounded = |kind: &ElementType| arrays == Arrays::Absent || *kind != ElementType::Array;
    types
        .iter()
        .all(is_bounded)
        .then(|| Intervals::from_any(types.iter().map(|kind| Interval::class(class_of(*kind)))))
}

/// The texts that start as the pattern says, and the pattern itself as a value.
fn matched(pattern: &Pattern) -> Vec<Interval> {
    let itself = match (pattern.text().try_into(), pattern.options().try_into()) {
        (Ok(pattern), Ok(options)) => Interval::point(RawBson::RegularExpression(Regex { pattern, options })),
        (Err(_), _) | (_, Err(_)) => Interval::class(TypeClass::RegularExpression),
    };
    let texts = pattern.prefix().and_then(starting_with).unwrap_or(Interval::class(TypeClass::String));
    vec![texts, itself]
}

/// The texts that start with `prefix`: those below the same text with its last character one higher.
fn starting_with(prefix: &str) -> Option<Interval> {
    let last = prefix.chars().next_back()?;
    let (kept, _) = prefix.split_at_checked(prefix.len() - last.len_utf8())?;
    let lower = Bound { value: RawBson::String(prefix.to_owned()), limit: Limit::Inclusive };
    // Without a higher character, all texts from the prefix on.
    let Some(next) = (last..=char::MAX).nth(1) else {
        return Interval::above(lower.value, Limit::Inclusive);
    };
    Interval::new(lower, Bound { value: RawBson::String(format!("{kept}{next}")), limit: Limit::Exclusive })
}

fn class_of(kind: ElementType) -> TypeClass {
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
