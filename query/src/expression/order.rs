//! Arrays in order: `$sortArray`, the first and last elements of an order (`$top` and the like), and the greatest or least
//! elements of an array.

use std::cmp::Ordering;

use bson::{RawBsonRef, RawDocument};
use index::collation::Collation;
use index::key::Direction;
use index::path::{FieldPath, value_at};

use crate::code::Code;
use crate::expression::condition::compare_values;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Evaluate, Node};
use crate::expression::parser::{Parser, invalid};
use crate::expression::signature::Signature;
use crate::expression::value::{Value, fields};
use crate::value::{describe, integer};

/// The arguments of `$firstN`, `$lastN`, `$maxN` and `$minN`.
pub(super) const SOME: Signature = Signature {
    names: &["n", "input"],
    required: 2,
    not_object: Code::N_OPERATOR_NOT_OBJECT,
    unknown: Code::N_OPERATOR_UNKNOWN_ARGUMENT,
    missing: &[Code::N_MISSING, Code::N_OPERATOR_INPUT_MISSING],
};

const SORT: Signature = Signature {
    names: &["input", "sortBy"],
    required: 2,
    not_object: Code::SORT_ARRAY_NOT_OBJECT,
    unknown: Code::SORT_ARRAY_UNKNOWN_ARGUMENT,
    missing: &[Code::SORT_ARRAY_INPUT_MISSING, Code::SORT_ARRAY_SORT_BY_MISSING],
};

const BEST: Signature = Signature {
    names: &["sortBy", "input", "n"],
    required: 3,
    not_object: Code::TOP_EXPRESSION_NOT_OBJECT,
    unknown: Code::TOP_EXPRESSION_UNKNOWN_ARGUMENT,
    missing: &[Code::TOP_SORT_BY_MISSING, Code::N_OPERATOR_INPUT_MISSING, Code::TOP_N_MISSING],
};
const BEST_ONE: Signature = Signature { names: &["sortBy", "input"], required: 2, ..BEST };

pub(super) fn greatest_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    extreme(arguments, |left, right| compare_values(right, left, arguments.collation()))
}

pub(super) fn least_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    extreme(arguments, |left, right| compare_values(left, right, arguments.collation()))
}

/// The arguments of `$firstN`, `$lastN`, `$maxN` and `$minN`: how many elements are wanted, and the elements.
pub(super) fn count_wanted<'d>(arguments: &Arguments<'_, 'd>) -> Result<(usize, Vec<Value<'d>>), Error> {
    let (wanted, input) = (arguments.value(0)?, arguments.value(1)?);
    if !wanted.is_number() {
        return Err(arguments.wrong_type(Code::N_TYPE, "n", "an integer", &wanted));
    }
    let count = arguments.long(Code::N_NOT_INTEGER, "n", &wanted)?;
    // Zero elements are rejected: MongoDB treats that as a mistake.
    if count <= 0 {
        return Err(arguments.wrong_value(Code::N_NOT_POSITIVE, "n", "above 0", &wanted));
    }
    let elements = arguments.elements(Code::N_OPERATOR_INPUT_TYPE, "input", &input)?;
    Ok((usize::try_from(count).unwrap_or(usize::MAX), elements))
}

/// Parses `$sortArray`. Its pattern is a constant and not an expression: 1 or -1 to sort by whole elements, or an
/// object of paths with 1 or -1.
pub(super) fn parse_sort(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, pattern] = SORT.read::<2>(operator, operand)?;
    let input = parser.operand(input.unwrap_or(RawBsonRef::Null))?;
    let pattern = pattern.unwrap_or(RawBsonRef::Null);
    check_pattern(operator, pattern)?;
    // Copied as it is, so that a text in it is not mistaken for a path.
    let arguments = vec![Some(input), Some(Node::Constant(Value::copied(pattern)))];
    Ok(Node::Call { operator, evaluate: sort, arguments })
}

/// Parses `$top`, `$bottom`, `$topN` or `$bottomN`, whose patterns are those of `$sortArray`.
pub(super) fn parse_best(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let (signature, evaluate): (_, Evaluate) = match operator {
        "$top" => (&BEST_ONE, top),
        "$bottom" => (&BEST_ONE, bottom),
        "$topN" => (&BEST, top_some),
        _ => (&BEST, bottom_some),
    };
    let [pattern, input, wanted] = signature.read::<3>(operator, operand)?;
    let pattern = pattern.unwrap_or(RawBsonRef::Null);
    // A constant, as in `$sortArray`, and checked before the expressions.
    check_pattern(operator, pattern)?;
    let input = parser.operand(input.unwrap_or(RawBsonRef::Null))?;
    let wanted = wanted.map(|wanted| parser.operand(wanted)).transpose()?;
    // In the order of `sort`, which sorts their elements too.
    let arguments = vec![Some(input), Some(Node::Constant(Value::copied(pattern))), wanted];
    Ok(Node::Call { operator, evaluate, arguments })
}

fn check_pattern(operator: &'static str, pattern: RawBsonRef<'_>) -> Result<(), Error> {
    let refuse = |expected, found| {
        let fault = Fault::WrongValue { argument: "sortBy", expected, found: describe(found) };
        Err(Error::Argument { operator, fault, code: Code::BAD_VALUE })
    };
    let Some(document) = pattern.as_document() else {
        return if direction(pattern).is_some() {
            Ok(())
        } else {
            refuse("1, -1 or an object of such", pattern)
        };
    };
    if document.is_empty() {
        return refuse("an object with a field", pattern);
    }
    for element in document {
        let (name, value) = element.map_err(invalid)?;
        // An empty name would match no field, and sort nothing without a word.
        if name.as_str().split('.').any(str::is_empty) {
            return refuse("made of paths without empty names", RawBsonRef::String(name.as_str()));
        }
        if direction(value).is_none() {
            return refuse("made of 1 and -1", value);
        }
    }
    Ok(())
}

/// The direction that a number in a pattern means.
fn direction(value: RawBsonRef<'_>) -> Option<Direction> {
    match integer(value) {
        Some(1) => Some(Direction::Ascending),
        Some(-1) => Some(Direction::Descending),
        Some(_) | None => None,
    }
}

fn directed(direction: Direction, ordering: Ordering) -> Ordering {
    match direction {
        Direction::Ascending => ordering,
        Direction::Descending => ordering.reverse(),
    }
}

fn sort<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = sorted(arguments, &input, Code::SORT_ARRAY_INPUT_TYPE)?;
    arguments.array(elements)
}

fn top<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = sorted(arguments, &input, Code::TOP_ONE_INPUT_TYPE)?;
    Ok(elements.into_iter().next().unwrap_or(Value::NULL))
}

fn bottom<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = sorted(arguments, &input, Code::BOTTOM_ONE_INPUT_TYPE)?;
    Ok(elements.into_iter().next_back().unwrap_or(Value::NULL))
}

fn top_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let codes =
        [Code::TOP_EXPRESSION_N_TYPE, Code::TOP_EXPRESSION_INPUT_TYPE, Code::TOP_EXPRESSION_N_NEGATIVE];
    let Some((wanted, elements)) = sorted_and_wanted(arguments, codes)? else { return Ok(Value::NULL) };
    arguments.array(elements.into_iter().take(wanted))
}

fn bottom_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let codes = [
        Code::BOTTOM_EXPRESSION_N_TYPE,
        Code::BOTTOM_EXPRESSION_INPUT_TYPE,
        Code::BOTTOM_EXPRESSION_N_NEGATIVE,
    ];
    let Some((wanted, elements)) = sorted_and_wanted(arguments, codes)? else { return Ok(Value::NULL) };
    // The last ones stay in the order: the very last comes last.
    let skipped = elements.len().saturating_sub(wanted);
    arguments.array(elements.into_iter().skip(skipped))
}

/// The sorted elements, and how many of them are wanted. Returns `None` if one of both is null. `codes` are the numbers
/// for a count of another type, for an input of another type, and for a count below 0.
fn sorted_and_wanted<'d>(
    arguments: &Arguments<'_, 'd>,
    codes: [Code; 3],
) -> Result<Option<(usize, Vec<Value<'d>>)>, Error> {
    let [count_type, input_type, count_negative] = codes;
    let (wanted, input) = (arguments.value(2)?, arguments.value(0)?);
    // Nothing is asked of nothing, whatever the other argument is.
    if wanted.is_nullish() || input.is_nullish() {
        return Ok(None);
    }
    let count = arguments.long(count_type, "n", &wanted)?;
    // In MongoDB's order: a wrong input is reported before a negative count.
    let elements = sorted(arguments, &input, input_type)?;
    let Ok(count) = u64::try_from(count) else {
        return Err(arguments.wrong_value(count_negative, "n", "0 or more", &wanted));
    };
    Ok(Some((usize::try_from(count).unwrap_or(usize::MAX), elements)))
}

/// The elements of an array in the order of the second argument. `code` is the number for a value that is not an array.
fn sorted<'d>(arguments: &Arguments<'_, 'd>, input: &Value<'d>, code: Code) -> Result<Vec<Value<'d>>, Error> {
    let mut elements = arguments.elements(code, "input", input)?;
    let pattern = arguments.value(1)?;
    let collation = arguments.collation();
    if let Some(pattern) = pattern.or_null().as_document() {
        // The pattern was checked while parsing, so no path is lost here.
        let keys = paths(pattern);
        // The sort is stable: elements that compare as equal keep their order.
        elements.sort_by(|left, right| compare_by(&keys, left.or_null(), right.or_null(), collation));
    } else if let Some(direction) = direction(pattern.or_null()) {
        elements.sort_by(|left, right| directed(direction, compare_values(left, right, collation)));
    }
    Ok(elements)
}

fn paths(pattern: &RawDocument) -> Vec<(FieldPath, Direction)> {
    let key = |(name, value): (&bson::raw::CStr, RawBsonRef<'_>)| {
        Some((FieldPath::parse(name.as_str()).ok()?, direction(value)?))
    };
    fields(pattern).filter_map(key).collect()
}

/// Compares elements by fields. A field that is missing counts as null, and a value that is not an object has
/// no fields.
fn compare_by(
    keys: &[(FieldPath, Direction)],
    left: RawBsonRef<'_>,
    right: RawBsonRef<'_>,
    collation: &Collation,
) -> Ordering {
    keys.iter()
        .map(|(path, direction)| directed(*direction, collation.compare(key(left, path), key(right, path))))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn key<'v>(element: RawBsonRef<'v>, path: &FieldPath) -> RawBsonRef<'v> {
    element.as_document().and_then(|document| value_at(document, path)).unwrap_or(RawBsonRef::Null)
}

/// The first elements of an array in `order`; null and missing ones are left out.
fn extreme<'d>(
    arguments: &Arguments<'_, 'd>,
    order: impl Fn(&Value<'_>, &Value<'_>) -> Ordering,
) -> Result<Value<'d>, Error> {
    let (wanted, mut elements) = count_wanted(arguments)?;
    // Like `$max` and `$min`, these operators have no place for null.
    elements.retain(|element| !element.is_nullish());
    elements.sort_by(order);
    arguments.array(elements.into_iter().take(wanted))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use crate::expression::cases::{check, check_error};

    #[test]
    fn whole_elements_are_sorted_by_value() {
        check(bson!({ "$sortArray": { "input": "$list", "sortBy": 1 } }), bson!([1, 2, 3]));
        check(bson!({ "$sortArray": { "input": "$list", "sortBy": -1.0 } }), bson!([3, 2, 1]));
        let mixed = bson!(["a", null, 5, { "a": 1 }]);
        check(bson!({ "$sortArray": { "input": mixed, "sortBy": 1 } }), bson!([null, 5, "a", { "a": 1 }]));
        check(bson!({ "$sortArray": { "input": "$missing", "sortBy": 1 } }), Bson::Null);
    }

    #[test]
    fn objects_are_sorted_by_their_fields() {
        let input = bson!([{ "a": 2, "b": 1 }, { "a": 1, "b": 1 }, { "a": 1, "b": 2 }, {}]);
        let sorted = bson!([{}, { "a": 1, "b": 2 }, { "a": 1, "b": 1 }, { "a": 2, "b": 1 }]);
        check(bson!({ "$sortArray": { "input": input, "sortBy": { "a": 1, "b": -1 } } }), sorted);
        let nested = bson!([{ "a": { "b": 2 } }, { "a": { "b": 1 } }]);
        let sorted = bson!([{ "a": { "b": 1 } }, { "a": { "b": 2 } }]);
        check(bson!({ "$sortArray": { "input": nested, "sortBy": { "a.b": 1 } } }), sorted);
    }

    #[test]
    fn patterns_are_checked() {
        check_error(bson!({ "$sortArray": 1 }), 2_942_500);
        check_error(bson!({ "$sortArray": { "input": [], "sortBy": 1, "x": 1 } }), 2_942_501);
        check_error(bson!({ "$sortArray": { "sortBy": 1 } }), 2_942_502);
        check_error(bson!({ "$sortArray": { "input": [] } }), 2_942_503);
        check_error(bson!({ "$sortArray": { "input": "x", "sortBy": 1 } }), 2_942_504);
        for pattern in [bson!(0), bson!("a"), bson!({}), bson!({ "a": 2 }), bson!({ "a.": 1 })] {
            check_error(bson!({ "$sortArray": { "input": [], "sortBy": pattern } }), 2);
        }
    }

    #[test]
    fn the_best_elements_are_those_at_the_ends_of_an_order() {
        let call = |operator: &str, wanted: Bson, input: Bson, pattern: Bson| {
            let mut arguments = doc! { "input": input, "sortBy": pattern };
            if operator.ends_with('N') {
                arguments.insert("n", wanted);
            }
            let mut call = bson::Document::new();
            call.insert(operator, arguments);
            Bson::Document(call)
        };
        let input = bson!([2, null, 3, 1]);
        for (operator, wanted, pattern, found) in [
            ("$top", Bson::Null, bson!(-1), bson!(3)),
            ("$top", Bson::Null, bson!(1), Bson::Null),
            ("$bottom", Bson::Null, bson!(1), bson!(3)),
            ("$topN", bson!(2), bson!(-1), bson!([3, 2])),
            ("$topN", bson!(2.0), bson!(1), bson!([null, 1])),
            ("$bottomN", bson!(2), bson!(1), bson!([2, 3])),
            ("$bottomN", bson!(9), bson!(-1), bson!([3, 2, 1, null])),
            ("$topN", bson!(0), bson!(1), bson!([])),
            ("$bottomN", Bson::Null, bson!(1), Bson::Null),
        ] {
            check(call(operator, wanted, input.clone(), pattern), found);
        }
        let objects = bson!([{ "a": 2, "b": 1 }, { "a": 1, "b": 1 }, { "a": 1, "b": 2 }]);
        let pattern = bson!({ "a": 1, "b": -1 });
        check(call("$top", Bson::Null, objects.clone(), pattern.clone()), bson!({ "a": 1, "b": 2 }));
        check(call("$bottom", Bson::Null, objects, pattern), bson!({ "a": 2, "b": 1 }));
        for operator in ["$top", "$bottom", "$topN", "$bottomN"] {
            check(call(operator, bson!(1), bson!("$missing"), bson!(1)), Bson::Null);
        }
        check(call("$top", Bson::Null, bson!([]), bson!(1)), Bson::Null);
        for (operator, wanted, input, code) in [
            ("$top", Bson::Null, bson!("x"), 721_213),
            ("$bottom", Bson::Null, bson!(1), 721_217),
            ("$topN", bson!("x"), bson!([]), 721_210),
            ("$topN", bson!(1.5), bson!([]), 721_210),
            ("$topN", bson!(1), bson!(1), 721_211),
            ("$topN", bson!(-1), bson!([]), 721_212),
            ("$bottomN", bson!("x"), bson!([]), 721_214),
            ("$bottomN", bson!(1), bson!(1), 721_215),
            ("$bottomN", bson!(-1), bson!([]), 721_216),
        ] {
            check_error(call(operator, wanted, input, bson!(1)), code);
        }
        check_error(call("$top", Bson::Null, bson!([]), bson!(2)), 2);
        check_error(bson!({ "$top": 1 }), 721_218);
        check_error(bson!({ "$topN": { "n": 1, "input": [], "sortBy": 1, "output": 1 } }), 721_219);
        check_error(bson!({ "$bottom": { "n": 1, "input": [], "sortBy": 1 } }), 721_219);
        check_error(bson!({ "$bottomN": { "input": [], "sortBy": 1 } }), 5_788_003);
    }

    #[test]
    fn the_greatest_and_least_elements_are_not_null() {
        let input = bson!([3, null, 1, 2]);
        check(bson!({ "$maxN": { "n": 2, "input": (input.clone()) } }), bson!([3, 2]));
        check(bson!({ "$minN": { "n": 2, "input": (input.clone()) } }), bson!([1, 2]));
        check(bson!({ "$minN": { "n": 9, "input": input } }), bson!([1, 2, 3]));
        check_error(bson!({ "$minN": { "n": 1, "input": "x" } }), 5_788_200);
        check_error(bson!({ "$maxN": { "n": -1, "input": [] } }), 5_787_908);
    }
}
