//! Arrays: their size and elements, parts of them, and joining.

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::order::count_wanted;
use crate::expression::value::{ArrayBuilder, Value};

pub(super) fn size<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    let array = value.or_null().as_array();
    // Unlike most operators `$size` rejects null: MongoDB has no size of a missing array.
    let array =
        array.ok_or_else(|| arguments.wrong_type(Code::SIZE_TYPE, "the argument", "an array", &value))?;
    Ok(Value::count(crate::value::elements(array).count()))
}

pub(super) fn is_array<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::boolean(arguments.value(0)?.or_null().as_array().is_some()))
}

pub(super) fn element_at<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (array, position) = (arguments.value(0)?, arguments.value(1)?);
    if array.is_nullish() || position.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = arguments.elements(Code::ARRAY_ELEM_AT_ARRAY_TYPE, "the first argument", &array)?;
    let position = arguments.int(
        (Code::ARRAY_ELEM_AT_INDEX_TYPE, Code::ARRAY_ELEM_AT_INDEX_VALUE),
        "the second argument",
        &position,
    )?;
    Ok(index_of(position, elements.len())
        .and_then(|at| elements.into_iter().nth(at))
        .unwrap_or(Value::Missing))
}

pub(super) fn first<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    at_end(arguments, 0)
}

pub(super) fn last<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    at_end(arguments, -1)
}

pub(super) fn first_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (wanted, elements) = count_wanted(arguments)?;
    arguments.array(elements.into_iter().take(wanted))
}

pub(super) fn last_some<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (wanted, elements) = count_wanted(arguments)?;
    let skipped = elements.len().saturating_sub(wanted);
    arguments.array(elements.into_iter().skip(skipped))
}

pub(super) fn concat<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut array = ArrayBuilder::new(arguments.operator, arguments.operation());
    for value in arguments.values() {
        let value = value?;
        if value.is_nullish() {
            return Ok(Value::NULL);
        }
        // The elements are copied from one array to the other, without a list of them in between.
        let part = value.or_null().as_array();
        let part = part.ok_or_else(|| {
            arguments.wrong_type(Code::CONCAT_ARRAYS_TYPE, "an argument", "an array", &value)
        })?;
        for element in crate::value::elements(part) {
            array.push(element)?;
        }
    }
    Ok(array.finish())
}

pub(super) fn reverse<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = arguments.elements(Code::REVERSE_ARRAY_TYPE, "the argument", &value)?;
    arguments.array(elements.into_iter().rev())
}

/// `$slice`: `[array, count]`, or `[array, position, count]`. A negative number counts from the end.
pub(super) fn slice<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let (array, number) = (arguments.value(0)?, arguments.value(1)?);
    if array.is_nullish() || number.is_nullish() {
        return Ok(Value::NULL);
    }
    let elements = arguments.elements(Code::SLICE_ARRAY_TYPE, "the first argument", &array)?;
    let number =
        arguments.int((Code::SLICE_SECOND_TYPE, Code::SLICE_SECOND_VALUE), "the second argument", &number)?;
    let magnitude = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    // A magnitude above the length means the whole array.
    let from_end = elements.len().saturating_sub(magnitude);
    let Some(count) = arguments.given(2)? else {
        // With two arguments the number is how many: the first ones, or the last ones if it is negative.
        let (start, count) = if number < 0 { (from_end, usize::MAX) } else { (0, magnitude) };
        return arguments.array(elements.into_iter().skip(start).take(count));
    };
    if count.is_nullish() {
        return Ok(Value::NULL);
    }
    let found =
        arguments.int((Code::SLICE_THIRD_TYPE, Code::SLICE_THIRD_VALUE), "the third argument", &count)?;
    let taken = usize::try_from(found).ok().filter(|taken| *taken > 0);
    let taken = taken.ok_or_else(|| {
        arguments.wrong_value(Code::SLICE_COUNT_NOT_POSITIVE, "the third argument", "above 0", &count)
    })?;
    // With three it is where to start. A start before the first element is the first.
    let start = if number < 0 { from_end } else { magnitude };
    arguments.array(elements.into_iter().skip(start).take(taken))
}

fn at_end<'d>(arguments: &Arguments<'_, 'd>, position: i32) -> Result<Value<'d>, Error> {
    let array = arguments.value(0)?;
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    // MongoDB reports `$first` and `$last` by the number of `$arrayElemAt`.
    let elements = arguments.elements(Code::ARRAY_ELEM_AT_ARRAY_TYPE, "the argument", &array)?;
    Ok(index_of(position, elements.len())
        .and_then(|at| elements.into_iter().nth(at))
        .unwrap_or(Value::Missing))
}

/// The index that a position means in an array of `count` elements. A negative position counts from the end.
///
/// Returns `None` for a position before the first element; one after the last is for the caller to find.
fn index_of(position: i32, count: usize) -> Option<usize> {
    let magnitude = usize::try_from(position.unsigned_abs()).ok()?;
    if position < 0 { count.checked_sub(magnitude) } else { Some(magnitude) }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, check_missing};

    #[test]
    fn arrays_have_a_size() {
        check(bson!({ "$size": "$list" }), bson!(3));
        check(bson!({ "$size": [[]] }), bson!(0));
        check(bson!({ "$isArray": "$list" }), bson!(true));
        check(bson!({ "$isArray": ["x"] }), bson!(false));
        check(bson!({ "$isArray": "$missing" }), bson!(false));
        check_error(bson!({ "$size": "$missing" }), 17_124);
        check_error(bson!({ "$size": null }), 17_124);
        check_error(bson!({ "$size": [1, 2] }), 16_020);
    }

    #[test]
    fn elements_are_found_from_both_ends() {
        check(bson!({ "$arrayElemAt": ["$list", 0] }), bson!(3));
        check(bson!({ "$arrayElemAt": ["$list", -1] }), bson!(2));
        check(bson!({ "$arrayElemAt": ["$list", 1.0] }), bson!(1));
        check_missing(bson!({ "$arrayElemAt": ["$list", 3] }));
        check_missing(bson!({ "$arrayElemAt": ["$list", -4] }));
        check_missing(bson!({ "$arrayElemAt": ["$list", (i32::MIN)] }));
        check(bson!({ "$arrayElemAt": [null, 0] }), Bson::Null);
        check(bson!({ "$arrayElemAt": ["$list", "$missing"] }), Bson::Null);
        check_error(bson!({ "$arrayElemAt": ["x", 0] }), 28_689);
        check_error(bson!({ "$arrayElemAt": ["$list", "0"] }), 28_690);
        check_error(bson!({ "$arrayElemAt": ["$list", 0.5] }), 28_691);
        check(bson!({ "$first": "$list" }), bson!(3));
        check(bson!({ "$last": "$list" }), bson!(2));
        check_missing(bson!({ "$first": [[]] }));
        check(bson!({ "$last": "$missing" }), Bson::Null);
        check_error(bson!({ "$first": "x" }), 28_689);
    }

    #[test]
    fn ends_of_arrays_are_taken() {
        check(bson!({ "$firstN": { "n": 2, "input": "$list" } }), bson!([3, 1]));
        check(bson!({ "$lastN": { "n": 2_i64, "input": "$list" } }), bson!([1, 2]));
        check(bson!({ "$firstN": { "n": 9.0, "input": "$list" } }), bson!([3, 1, 2]));
        check_error(bson!({ "$firstN": { "n": 2, "input": "$missing" } }), 5_788_200);
        check_error(bson!({ "$firstN": { "n": "x", "input": "$list" } }), 5_787_902);
        check_error(bson!({ "$firstN": { "n": 1.5, "input": "$list" } }), 5_787_903);
        check_error(bson!({ "$lastN": { "n": 0, "input": "$list" } }), 5_787_908);
        check_error(bson!({ "$firstN": 1 }), 5_787_900);
        check_error(bson!({ "$firstN": { "n": 1, "input": [], "x": 1 } }), 5_787_901);
        check_error(bson!({ "$firstN": { "input": [] } }), 5_787_906);
        check_error(bson!({ "$firstN": { "n": 1 } }), 5_787_907);
    }

    #[test]
    fn arrays_are_joined_and_turned_around() {
        check(bson!({ "$concatArrays": ["$list", [4], []] }), bson!([3, 1, 2, 4]));
        check(bson!({ "$concatArrays": [] }), bson!([]));
        check(bson!({ "$concatArrays": ["$list", null] }), Bson::Null);
        check_error(bson!({ "$concatArrays": ["$list", 4] }), 28_664);
        check(bson!({ "$reverseArray": "$list" }), bson!([2, 1, 3]));
        check(bson!({ "$reverseArray": "$missing" }), Bson::Null);
        check_error(bson!({ "$reverseArray": "x" }), 34_435);
    }

    #[test]
    fn slices_have_a_count_and_perhaps_a_start() {
        check(bson!({ "$slice": ["$list", 2] }), bson!([3, 1]));
        check(bson!({ "$slice": ["$list", -2] }), bson!([1, 2]));
        check(bson!({ "$slice": ["$list", -9] }), bson!([3, 1, 2]));
        check(bson!({ "$slice": ["$list", 0] }), bson!([]));
        check(bson!({ "$slice": ["$list", 1, 1] }), bson!([1]));
        check(bson!({ "$slice": ["$list", -2, 1] }), bson!([1]));
        check(bson!({ "$slice": ["$list", 9, 1] }), bson!([]));
        check(bson!({ "$slice": ["$list", 1, (i32::MAX)] }), bson!([1, 2]));
        check(bson!({ "$slice": ["$list", 1, null] }), Bson::Null);
        check(bson!({ "$slice": ["$missing", 1] }), Bson::Null);
        check_error(bson!({ "$slice": ["x", 1] }), 28_724);
        check_error(bson!({ "$slice": ["$list", "1"] }), 28_725);
        check_error(bson!({ "$slice": ["$list", 1.5] }), 28_726);
        check_error(bson!({ "$slice": ["$list", 1, "1"] }), 28_727);
        check_error(bson!({ "$slice": ["$list", 1, 1.5] }), 28_728);
        check_error(bson!({ "$slice": ["$list", 1, 0] }), 28_729);
        check_error(bson!({ "$slice": ["$list"] }), 28_667);
    }
}
