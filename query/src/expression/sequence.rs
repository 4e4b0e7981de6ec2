//! Arrays made of numbers and of other arrays: `$range` and `$zip`.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node};
use crate::expression::parser::{Parser, invalid};
use crate::expression::signature::Signature;
use crate::expression::value::{ArrayBuilder, Value, type_name};

const ZIP: Signature = Signature {
    names: &["inputs", "useLongestLength", "defaults"],
    required: 1,
    not_object: Code::ZIP_NOT_OBJECT,
    unknown: Code::ZIP_UNKNOWN_ARGUMENT,
    missing: &[Code::ZIP_INPUTS_MISSING],
};

/// The most elements that a range has: MongoDB's default limit of 100 MiB, at 16 bytes for each number.
const RANGE_LENGTH_MAX: u64 = 100 * 1024 * 1024 / 16;

pub(super) fn range<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let start = arguments.int(
        (Code::RANGE_START_TYPE, Code::RANGE_START_VALUE),
        "the start",
        &arguments.value(0)?,
    )?;
    let end =
        arguments.int((Code::RANGE_END_TYPE, Code::RANGE_END_VALUE), "the end", &arguments.value(1)?)?;
    let step = match arguments.given(2)? {
        None => 1,
        Some(value) => {
            match arguments.int((Code::RANGE_STEP_TYPE, Code::RANGE_STEP_VALUE), "the step", &value)? {
                0 => {
                    return Err(arguments.wrong_value(
                        Code::RANGE_STEP_ZERO,
                        "the step",
                        "other than 0",
                        &value,
                    ));
                }
                step => step,
            }
        }
    };
    // The length is checked before the first element is made.
    let length = i64::from(start).abs_diff(i64::from(end)) / u64::from(step.unsigned_abs());
    if (start < end) == (step > 0) && length > RANGE_LENGTH_MAX {
        let found = format!("{length} elements");
        let fault = Fault::WrongValue { argument: "the range", expected: "shorter", found };
        return Err(arguments.fault(Code::EXCEEDED_MEMORY_LIMIT, fault));
    }
    let mut array = ArrayBuilder::new(arguments.operator, arguments.operation());
    // A step in the wrong direction gives an empty array.
    let mut next = Some(start).filter(|_| start != end && (start < end) == (step > 0));
    while let Some(number) = next {
        array.push(RawBsonRef::Int32(number))?;
        // A step beyond the range of an int32 is beyond the end.
        let following = number.checked_add(step);
        next = following.filter(|number| if step > 0 { *number < end } else { *number > end });
    }
    Ok(array.finish())
}

/// Parses `$zip`.
///
/// The arguments of the node are: whether to go on to the longest input, the number of inputs, the inputs, the
/// defaults.
pub(super) fn parse_zip(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [inputs, longest, defaults] = ZIP.read::<3>(operator, operand)?;
    let wrong = |argument, expected, code, found| {
        let fault = Fault::WrongType { argument, expected, found: type_name(found) };
        Error::Argument { operator, fault, code }
    };
    let inputs = inputs.unwrap_or(RawBsonRef::Null);
    let array =
        inputs.as_array().ok_or_else(|| wrong("inputs", "an array", Code::ZIP_INPUTS_TYPE, inputs))?;
    let inputs = array.into_iter().map(|input| parser.operand(input.map_err(invalid)?));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() {
        let fault = Fault::Missing { argument: "inputs" };
        return Err(Error::Argument { operator, fault, code: Code::ZIP_INPUTS_MISSING });
    }
    let longest = longest.unwrap_or(RawBsonRef::Boolean(false));
    let is_longest = longest
        .as_bool()
        .ok_or_else(|| wrong("useLongestLength", "a bool", Code::ZIP_USE_LONGEST_TYPE, longest))?;
    let mut fill = Vec::new();
    if let Some(defaults) = defaults {
        let array = defaults
            .as_array()
            .ok_or_else(|| wrong("defaults", "an array", Code::ZIP_DEFAULTS_TYPE, defaults))?;
        for value in array {
            fill.push(parser.operand(value.map_err(invalid)?)?);
        }
        // Without `useLongestLength` no default would ever be used, which MongoDB treats as a mistake.
        if !is_longest && !fill.is_empty() {
            let fault = Fault::Missing { argument: "useLongestLength" };
            return Err(Error::Argument { operator, fault, code: Code::ZIP_DEFAULTS_WITHOUT_LONGEST });
        }
        if !fill.is_empty() && fill.len() != inputs.len() {
            let found = format!("{} of them", fill.len());
            let fault = Fault::WrongValue { argument: "defaults", expected: "as many as the inputs", found };
            return Err(Error::Argument { operator, fault, code: Code::ZIP_DEFAULTS_COUNT });
        }
    }
    // A node has only expressions below it, so both settings become constants.
    let settings = [Value::boolean(is_longest), Value::count(inputs.len())].map(Node::Constant);
    let arguments = settings.into_iter().chain(inputs).chain(fill).map(Some).collect();
    Ok(Node::Call { operator, evaluate: zip, arguments })
}

fn zip<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let is_longest = arguments.value(0)?.is_true();
    let count = arguments.value(1)?.or_null().as_i32().and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or(0);
    // A null input makes the whole null, even if a later input is wrong.
    let mut columns = Vec::with_capacity(count);
    for at in 2..2 + count {
        let input = arguments.value(at)?;
        if input.is_nullish() {
            return Ok(Value::NULL);
        }
        columns.push(arguments.elements(Code::ZIP_INPUT_TYPE, "an input", &input)?);
    }
    let lengths = columns.iter().map(Vec::len);
    let length = if is_longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let mut fill = vec![Value::NULL; count];
    // Defaults are evaluated only if a row needs one.
    if columns.iter().any(|column| column.len() != length) {
        for (at, slot) in fill.iter_mut().enumerate() {
            *slot = arguments.given(2 + count + at)?.unwrap_or(Value::NULL);
        }
    }
    let mut rows = ArrayBuilder::new(arguments.operator, arguments.operation());
    for row in 0..length {
        let cells = columns.iter().zip(&fill).map(|(column, fill)| column.get(row).unwrap_or(fill).clone());
        rows.push(arguments.array(cells)?.or_null())?;
    }
    Ok(rows.finish())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error};

    #[test]
    fn ranges_go_up_and_down() {
        check(bson!({ "$range": [0, 3] }), bson!([0, 1, 2]));
        check(bson!({ "$range": [0, 10, 4] }), bson!([0, 4, 8]));
        check(bson!({ "$range": [3, 0, -2] }), bson!([3, 1]));
        check(bson!({ "$range": [3, 3] }), bson!([]));
        check(bson!({ "$range": [0, 3, -1] }), bson!([]));
        check(bson!({ "$range": [3, 0] }), bson!([]));
        check(bson!({ "$range": [0, 3, -1] }), bson!([]));
        check(bson!({ "$range": [2_147_483_640, 2_147_483_647, 5] }), bson!([2_147_483_640, 2_147_483_645]));
        check(bson!({ "$range": [0_i64, 2.0] }), bson!([0, 1]));
    }

    #[test]
    fn ranges_are_of_integers_and_bounded() {
        check_error(bson!({ "$range": ["$missing", 3] }), 34_443);
        check_error(bson!({ "$range": [0.5, 3] }), 34_444);
        check_error(bson!({ "$range": [0, "x"] }), 34_445);
        check_error(bson!({ "$range": [0, 3_000_000_000_i64] }), 34_446);
        check_error(bson!({ "$range": [0, 3, null] }), 34_447);
        check_error(bson!({ "$range": [0, 3, 0.5] }), 34_448);
        check_error(bson!({ "$range": [0, 3, 0] }), 34_449);
        check_error(bson!({ "$range": [0, (i32::MAX)] }), 146);
        check_error(bson!({ "$range": [0, 5_000_000] }), 10_334);
        check_error(bson!({ "$range": [0] }), 28_667);
    }

    #[test]
    fn arrays_are_zipped_to_the_shortest_or_longest() {
        check(bson!({ "$zip": { "inputs": [[1, 2, 3], ["a", "b"]] } }), bson!([[1, "a"], [2, "b"]]));
        let longest = bson!({ "inputs": [[1, 2], ["a"]], "useLongestLength": true });
        check(bson!({ "$zip": longest }), bson!([[1, "a"], [2, null]]));
        let filled = bson!({ "inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "$n"] });
        check(bson!({ "$zip": filled }), bson!([[1, "a"], [2, 5]]));
        check(bson!({ "$zip": { "inputs": [[1], "$missing"] } }), Bson::Null);
        check(bson!({ "$zip": { "inputs": [[]] } }), bson!([]));
    }

    #[test]
    fn the_form_of_zip_is_checked() {
        check_error(bson!({ "$zip": 1 }), 34_460);
        check_error(bson!({ "$zip": { "inputs": "$list" } }), 34_461);
        check_error(bson!({ "$zip": { "inputs": [[]], "defaults": 1 } }), 34_462);
        check_error(bson!({ "$zip": { "inputs": [[]], "useLongestLength": 1 } }), 34_463);
        check_error(bson!({ "$zip": { "inputs": [[]], "x": 1 } }), 34_464);
        check_error(bson!({ "$zip": { "inputs": [] } }), 34_465);
        check_error(bson!({ "$zip": {} }), 34_465);
        check_error(bson!({ "$zip": { "inputs": [[]], "defaults": [1] } }), 34_466);
        let many = bson!({ "inputs": [[]], "useLongestLength": true, "defaults": [1, 2] });
        check_error(bson!({ "$zip": many }), 34_467);
        check_error(bson!({ "$zip": { "inputs": [1] } }), 34_468);
    }
}
