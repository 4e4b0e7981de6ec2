//! Arrays as sets: order and repetition do not count. Equal numbers of different types are one element.
//!
//! A set is a sorted list here, because values have an order.

use std::cmp::Ordering;

use index::collation::Collation;

use crate::code::Code;
use crate::expression::condition::compare_values;
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::value::Value;

pub(super) fn union<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut all = Vec::new();
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        all.extend(arguments.elements(Code::SET_UNION_TYPE, "an argument", &value)?);
    }
    arguments.array(sorted(all, arguments.collation()))
}

pub(super) fn intersection<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let collation = arguments.collation();
    let mut shared: Option<Vec<Value<'d>>> = None;
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        let next = arguments.elements(Code::SET_INTERSECTION_TYPE, "an argument", &value)?;
        let next = sorted(next, collation);
        shared = Some(match shared {
            None => next,
            Some(mut kept) => {
                // The set that is kept is sorted, so what remains of it is.
                kept.retain(|element| holds(&next, element, collation));
                kept
            }
        });
    }
    arguments.array(shared.unwrap_or_default())
}

/// `$setDifference`: the elements of the first array that are not in the second, in the order of the first.
pub(super) fn difference<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::NULL);
    }
    let left = arguments.elements(Code::SET_DIFFERENCE_FIRST_TYPE, "the first argument", &left)?;
    let collation = arguments.collation();
    let right = arguments.elements(Code::SET_DIFFERENCE_SECOND_TYPE, "the second argument", &right)?;
    let right = sorted(right, collation);
    // The positions are sorted by value to find repetitions, and back by position afterwards: the order of
    // the first array is kept without comparing each element with each.
    let mut positions = left.iter().enumerate().collect::<Vec<_>>();
    positions.sort_by(|(_, left), (_, right)| compare_values(left, right, collation));
    positions.dedup_by(|(_, later), (_, earlier)| compare_values(later, earlier, collation).is_eq());
    positions.retain(|(_, element)| !holds(&right, element, collation));
    let mut kept = positions.into_iter().map(|(position, _)| position).collect::<Vec<_>>();
    kept.sort_unstable();
    arguments.array(kept.into_iter().filter_map(|position| left.get(position).cloned()))
}

pub(super) fn equals<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let collation = arguments.collation();
    let mut first: Option<Vec<Value<'d>>> = None;
    for value in arguments.values() {
        let set = arguments.elements(Code::SET_EQUALS_TYPE, "an argument", &value?)?;
        let set = sorted(set, collation);
        match &first {
            None => first = Some(set),
            Some(first) => {
                let is_equal =
                    |(left, right): (&Value<'_>, &Value<'_>)| compare_values(left, right, collation).is_eq();
                if first.len() != set.len() || !first.iter().zip(&set).all(is_equal) {
                    return Ok(Value::FALSE);
                }
            }
        }
    }
    Ok(Value::TRUE)
}

pub(super) fn is_subset<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let left =
        arguments.elements(Code::SET_IS_SUBSET_FIRST_TYPE, "the first argument", &arguments.value(0)?)?;
    let right =
        arguments.elements(Code::SET_IS_SUBSET_SECOND_TYPE, "the second argument", &arguments.value(1)?)?;
    let collation = arguments.collation();
    let right = sorted(right, collation);
    Ok(Value::boolean(left.iter().all(|element| holds(&right, element, collation))))
}

pub(super) fn all_elements_true<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let elements = arguments.elements(Code::ALL_ELEMENTS_TRUE_TYPE, "the argument", &arguments.value(0)?)?;
    Ok(Value::boolean(elements.iter().all(Value::is_true)))
}

pub(super) fn any_element_true<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let elements = arguments.elements(Code::ANY_ELEMENT_TRUE_TYPE, "the argument", &arguments.value(0)?)?;
    Ok(Value::boolean(elements.iter().any(Value::is_true)))
}

/// The values in ascending order. Of equal ones only the first is kept.
fn sorted<'d>(mut values: Vec<Value<'d>>, collation: &Collation) -> Vec<Value<'d>> {
    // The sort is stable, so that the first of equal values is the one that came first.
    values.sort_by(|left, right| compare_values(left, right, collation));
    values.dedup_by(|later, earlier| compare_values(later, earlier, collation) == Ordering::Equal);
    values
}

/// Whether a sorted list has an equal value.
fn holds(sorted: &[Value<'_>], value: &Value<'_>, collation: &Collation) -> bool {
    sorted.binary_search_by(|element| compare_values(element, value, collation)).is_ok()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error};

    #[test]
    fn unions_and_intersections_are_sorted() {
        check(bson!({ "$setUnion": ["$list", [2, 4, 4]] }), bson!([1, 2, 3, 4]));
        check(bson!({ "$setUnion": [] }), bson!([]));
        check(bson!({ "$setUnion": [[1], null] }), Bson::Null);
        check(bson!({ "$setIntersection": ["$list", [3.0, 2, 9]] }), bson!([2, 3]));
        check(bson!({ "$setIntersection": ["$list", []] }), bson!([]));
        check(bson!({ "$setIntersection": ["$list", "$missing"] }), Bson::Null);
        check_error(bson!({ "$setUnion": [[1], 2] }), 17_043);
        check_error(bson!({ "$setIntersection": [[1], 2] }), 17_047);
    }

    #[test]
    fn a_difference_keeps_the_order() {
        check(bson!({ "$setDifference": [[3, 1, 3, 2], [1]] }), bson!([3, 2]));
        check(bson!({ "$setDifference": [[], [1]] }), bson!([]));
        check(bson!({ "$setDifference": [[1], null] }), Bson::Null);
        check_error(bson!({ "$setDifference": [1, []] }), 17_048);
        check_error(bson!({ "$setDifference": [[], 1] }), 17_049);
    }

    #[test]
    fn sets_are_compared() {
        check(bson!({ "$setEquals": ["$list", [1, 2, 2, 3.0]] }), bson!(true));
        check(bson!({ "$setEquals": [[1], [1], [2]] }), bson!(false));
        check(bson!({ "$setIsSubset": [[1, 1], "$list"] }), bson!(true));
        check(bson!({ "$setIsSubset": [[[1]], "$list"] }), bson!(false));
        check_error(bson!({ "$setEquals": [[1]] }), 17_045);
        check_error(bson!({ "$setEquals": [[1], null] }), 17_044);
        check_error(bson!({ "$setIsSubset": [null, []] }), 17_046);
        check_error(bson!({ "$setIsSubset": [[], null] }), 17_042);
    }

    #[test]
    fn elements_are_asked_for_their_truth() {
        check(bson!({ "$anyElementTrue": [[0, null, "x"]] }), bson!(true));
        check(bson!({ "$anyElementTrue": [[]] }), bson!(false));
        check(bson!({ "$allElementsTrue": "$list" }), bson!(true));
        check(bson!({ "$allElementsTrue": [[1, null]] }), bson!(false));
        check_error(bson!({ "$anyElementTrue": "$missing" }), 17_041);
        check_error(bson!({ "$allElementsTrue": [1] }), 17_040);
    }
}
