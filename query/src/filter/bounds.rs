//! Which values a field can have in the documents that match a filter.
//!
//! The answers are for choosing an index, and err on the side of too many values. A missing field counts as null,
//! as it does in an index. What an answer means when arrays are about is told at
//! [`Filter::intervals`](crate::filter::Filter::intervals).

use bson::spec::ElementType;
use bson::{RawBson, Regex};
use index::interval::{Bound, Interval, Intervals, Limit};
use index::order::{TypeClass, type_class};

use crate::filter::Arrays;
use crate::filter::compare::{Comparison, Membership, Relation};
use crate::filter::evaluate::{Node, Test};
use crate::pattern::Pattern;

/// The values of `path` in the documents that match `node`.
pub(super) fn intervals(node: &Node, path: &str, arrays: Arrays) -> Intervals {
    match node {
        Node::All(nodes) => {
            let sets = nodes.iter().map(|node| intervals(node, path, arrays));
            match arrays {
                Arrays::Absent => sets.fold(Intervals::all(), |all, set| all.intersection(&set)),
                Arrays::Possible => sets.min_by_key(width).unwrap_or_else(Intervals::all),
            }
        }
        Node::Any(nodes) => {
            let sets = nodes.iter().map(|node| intervals(node, path, arrays));
            sets.fold(Intervals::none(), Intervals::union)
        }
        Node::Field(field, test) if field.as_str() == path => tested(test, arrays),
        Node::Field(..) | Node::Schema(_) | Node::Expression(_) | Node::Not(_) => Intervals::all(),
    }
}

/// How much a set narrows, in coarse steps: of several conditions each of which another element may meet, only one
/// can be used.
fn width(set: &Intervals) -> usize {
    if set.is_empty() {
        0
    } else if set.is_points() {
        set.as_slice().len()
    } else if set.is_all() {
        usize::MAX
    } else {
        usize::MAX - 1
    }
}

fn tested(test: &Test, arrays: Arrays) -> Intervals {
    match test {
        Test::Compare(comparison) => compared(comparison, arrays),
        Test::In(membership) => members(membership, arrays),
        Test::Type(types) => typed(types.types(), arrays),
        Test::Mod(_) => Interval::class(TypeClass::Number).into(),
        Test::Bits(_) => {
            Intervals::from_any([Interval::class(TypeClass::Number), Interval::class(TypeClass::Binary)])
        }
        Test::Pattern(pattern) => Intervals::from_any(matched(pattern)),
        Test::Exists | Test::Size(_) | Test::AnyObject(_) | Test::AnyElement(_) => Intervals::all(),
    }
}

fn compared(comparison: &Comparison, arrays: Arrays) -> Intervals {
    let operand = comparison.operand();
    let class = type_class(operand.as_raw_bson_ref());
    // An index holds the elements of an array, not the array.
    if class == TypeClass::Array && arrays == Arrays::Possible {
        return Intervals::all();
    }
    let limit = match comparison.relation() {
        Relation::Eq => {
            return if class == TypeClass::Null {
                nothing().into()
            } else {
                Interval::point(operand.clone()).into()
            };
        }
        Relation::Gt | Relation::Lt => Limit::Exclusive,
        Relation::Gte | Relation::Lte => Limit::Inclusive,
    };
    if class == TypeClass::Null {
        return if limit == Limit::Inclusive { nothing().into() } else { Intervals::none() };
    }
    Intervals::from_any(match comparison.relation() {
        Relation::Gt | Relation::Gte => Interval::above(operand.clone(), limit),
        Relation::Lt | Relation::Lte | Relation::Eq => Interval::below(operand.clone(), limit),
    })
}

fn members(membership: &Membership, arrays: Arrays) -> Intervals {
    let is_array = |value: &RawBson| type_class(value.as_raw_bson_ref()) == TypeClass::Array;
    if arrays == Arrays::Possible && membership.values().iter().any(is_array) {
        return Intervals::all();
    }
    let values = membership.values().iter().cloned().map(Interval::point);
    let null = membership.has_null().then(nothing);
    Intervals::from_any(values.chain(null).chain(membership.patterns().iter().flat_map(matched)))
}

fn typed(types: &[ElementType], arrays: Arrays) -> Intervals {
    // An array is not in an index itself, and an empty one stands there as undefined.
    let is_bounded = |kind: &ElementType| arrays == Arrays::Absent || *kind != ElementType::Array;
    if !types.iter().all(is_bounded) {
        return Intervals::all();
    }
    Intervals::from_any(types.iter().map(|kind| Interval::class(class_of(*kind))))
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

/// Null, undefined and missing, which are one to a filter. Nothing lies between undefined and null.
fn nothing() -> Interval {
    let bound = |value| Bound { value, limit: Limit::Inclusive };
    let both = Interval::new(bound(RawBson::Undefined), bound(RawBson::Null));
    both.unwrap_or_else(|| Interval::class(TypeClass::Null))
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
