//! Comparisons, logic and choices: `$eq` and the other comparisons, `$and`, `$or`, `$not`, `$cond`, `$ifNull`.
//!
//! Unlike in filters, a comparison accepts values of all types, by the one order of all values. A missing value comes
//! before null in it.

use std::cmp::Ordering;

use bson::RawBsonRef;
use index::collation::Collation;
use index::order::{TypeClass, type_class};

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::{Arguments, Node};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::Value;

const COND: Signature = Signature {
    names: &["if", "then", "else"],
    required: 3,
    not_object: Code::COND_UNKNOWN_ARGUMENT,
    unknown: Code::COND_UNKNOWN_ARGUMENT,
    missing: &[Code::COND_IF_MISSING, Code::COND_THEN_MISSING, Code::COND_ELSE_MISSING],
};

pub(super) fn equal<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_eq)
}

pub(super) fn unequal<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_ne)
}

pub(super) fn greater<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_gt)
}

pub(super) fn greater_or_equal<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_ge)
}

pub(super) fn less<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_lt)
}

pub(super) fn less_or_equal<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    compared(arguments, Ordering::is_le)
}

pub(super) fn compare_three_ways<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::int(match compare_values(&arguments.value(0)?, &arguments.value(1)?, arguments.collation()) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

pub(super) fn and<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    for value in arguments.values() {
        // Expressions after a false value are not evaluated, so it can guard expressions that would fail.
        if !value?.is_true() {
            return Ok(Value::FALSE);
        }
    }
    Ok(Value::TRUE)
}

pub(super) fn or<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    for value in arguments.values() {
        // Expressions after a true value are not evaluated.
        if value?.is_true() {
            return Ok(Value::TRUE);
        }
    }
    Ok(Value::FALSE)
}

pub(super) fn not<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(Value::boolean(!arguments.value(0)?.is_true()))
}

/// Parses `$cond`: `[if, then, else]`, or an object with these names.
pub(super) fn parse_cond(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let arguments = if operand.as_document().is_some() {
        COND.parse(parser, operator, operand)?
    } else {
        let arguments = parser.list(operand)?;
        // The list has no entry in the table of counts, because `$cond` also accepts an object.
        if arguments.len() != 3 {
            let expected = "exactly 3".to_owned();
            return Err(Error::ArgumentCount {
                operator,
                expected,
                found: arguments.len(),
                code: Code::ARGUMENT_COUNT,
            });
        }
        arguments.into_iter().map(Some).collect()
    };
    Ok(Node::Call { operator, evaluate: choose, arguments })
}

fn choose<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    // Only the branch that is chosen is evaluated.
    if arguments.value(0)?.is_true() { arguments.value(1) } else { arguments.value(2) }
}

/// `$ifNull`: the first value that is not null; if there is none, the last value, which may be null or missing.
pub(super) fn if_null<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    // The last argument is returned as it is, so it is evaluated only when all before it are null.
    let last = arguments.count().saturating_sub(1);
    for at in 0..last {
        let value = arguments.value(at)?;
        if !value.is_nullish() {
            return Ok(value);
        }
    }
    arguments.value(last)
}

fn compared<'d>(arguments: &Arguments<'_, 'd>, holds: fn(Ordering) -> bool) -> Result<Value<'d>, Error> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    Ok(Value::boolean(holds(compare_values(&left, &right, arguments.collation()))))
}

/// Compares two values. A missing one comes after `MinKey` and before every other value.
#[inline]
pub(super) fn compare_values(left: &Value<'_>, right: &Value<'_>, collation: &Collation) -> Ordering {
    // The `index` crate orders values, and a missing one is none. MongoDB puts it where undefined is.
    let is_least = |value| type_class(value) == TypeClass::MinKey;
    match (left.get(), right.get()) {
        (Some(left), Some(right)) => collation.compare(left, right),
        (None, None) => Ordering::Equal,
        (None, Some(right)) => {
            if is_least(right) {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (Some(left), None) => {
            if is_least(left) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, check_missing};

    #[test]
    fn comparisons_look_at_all_types() {
        check(bson!({ "$eq": [1, 1.0] }), bson!(true));
        check(bson!({ "$ne": [1, "1"] }), bson!(true));
        check(bson!({ "$gt": ["a", 5] }), bson!(true));
        check(bson!({ "$gte": [[1], { "a": 1 }] }), bson!(true));
        check(bson!({ "$lt": [null, false] }), bson!(true));
        check(bson!({ "$lte": [2, 1] }), bson!(false));
        check(bson!({ "$cmp": [2, 1] }), bson!(1));
        check(bson!({ "$cmp": [1, 2] }), bson!(-1));
        check(bson!({ "$cmp": ["x", "x"] }), bson!(0));
        check(bson!({ "$lt": [(f64::NAN), 0] }), bson!(true));
        check_error(bson!({ "$eq": [1] }), 16_020);
    }

    #[test]
    fn what_is_missing_comes_before_null() {
        check(bson!({ "$eq": ["$missing", null] }), bson!(false));
        check(bson!({ "$eq": ["$missing", "$$REMOVE"] }), bson!(true));
        check(bson!({ "$lt": ["$missing", null] }), bson!(true));
        check(bson!({ "$gt": ["$missing", (Bson::MinKey)] }), bson!(true));
        check(bson!({ "$lt": ["$missing", (Bson::Undefined)] }), bson!(true));
    }

    #[test]
    fn logic_stops_where_it_knows() {
        check(bson!({ "$and": [] }), bson!(true));
        check(bson!({ "$or": [] }), bson!(false));
        check(bson!({ "$and": [1, "x", []] }), bson!(true));
        check(bson!({ "$and": [0, { "$divide": [1, 0] }] }), bson!(false));
        check(bson!({ "$or": [true, { "$divide": [1, 0] }] }), bson!(true));
        check(bson!({ "$not": "$missing" }), bson!(true));
        check(bson!({ "$not": [[false]] }), bson!(false));
        check_error(bson!({ "$or": [0, { "$divide": [1, 0] }] }), 2);
        check_error(bson!({ "$not": [1, 2] }), 16_020);
    }

    #[test]
    fn a_branch_not_taken_cannot_fail() {
        check(bson!({ "$cond": ["$n", 1, { "$divide": [1, 0] }] }), bson!(1));
        check(bson!({ "$cond": { "if": "$missing", "then": 1, "else": 2 } }), bson!(2));
        check_missing(bson!({ "$cond": [true, "$missing", 2] }));
        check_error(bson!({ "$cond": [1, 2] }), 16_020);
        check_error(bson!({ "$cond": { "if": 1, "then": 2, "else": 3, "or": 4 } }), 17_083);
        check_error(bson!({ "$cond": { "then": 2, "else": 3 } }), 17_080);
        check_error(bson!({ "$cond": { "if": 2, "else": 3 } }), 17_081);
        check_error(bson!({ "$cond": { "if": 2, "then": 3 } }), 17_082);
    }

    #[test]
    fn the_first_value_that_is_not_null_is_taken() {
        check(bson!({ "$ifNull": ["$missing", null, 3, { "$divide": [1, 0] }] }), bson!(3));
        check(bson!({ "$ifNull": [null, null] }), Bson::Null);
        check_missing(bson!({ "$ifNull": [null, "$missing"] }));
        check_error(bson!({ "$ifNull": [1] }), 1_257_300);
    }
}
