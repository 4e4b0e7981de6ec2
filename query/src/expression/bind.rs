//! Operators that define variables (`$let`, `$map`, `$filter`, `$reduce`): how they are parsed and evaluated.
//!
//! At evaluation a variable is found by position, not by name: each of these operators adds one frame of values, and
//! parsing has counted the frames between a use and its definition.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, Scope, ValueFrame};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::{ArrayBuilder, Value, elements_bytes, fields};
use crate::expression::variables::check_name;
use crate::operation::Reservation;
use crate::value::integer;

const LET: Signature = Signature {
    names: &["vars", "in"],
    required: 2,
    not_object: Code::LET_NOT_OBJECT,
    unknown: Code::LET_UNKNOWN_ARGUMENT,
    missing: &[Code::LET_VARS_MISSING, Code::LET_IN_MISSING],
};
const MAP: Signature = Signature {
    names: &["input", "in", "as"],
    required: 2,
    not_object: Code::MAP_NOT_OBJECT,
    unknown: Code::MAP_UNKNOWN_ARGUMENT,
    missing: &[Code::MAP_INPUT_MISSING, Code::MAP_IN_MISSING],
};
const FILTER: Signature = Signature {
    names: &["input", "cond", "as", "limit"],
    required: 2,
    not_object: Code::FILTER_NOT_OBJECT,
    unknown: Code::FILTER_UNKNOWN_ARGUMENT,
    missing: &[Code::FILTER_INPUT_MISSING, Code::FILTER_COND_MISSING],
};
const REDUCE: Signature = Signature {
    names: &["input", "initialValue", "in"],
    required: 3,
    not_object: Code::REDUCE_NOT_OBJECT,
    unknown: Code::REDUCE_UNKNOWN_ARGUMENT,
    missing: &[Code::REDUCE_INPUT_MISSING, Code::REDUCE_INITIAL_VALUE_MISSING, Code::REDUCE_IN_MISSING],
};

/// The name of the current element: always in `$reduce`, and by default in `$map` and `$filter`.
const THIS: &str = "this";

pub(super) fn parse_let(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [definitions, body] = LET.read::<2>(operator, operand)?;
    let definitions = definitions.unwrap_or(RawBsonRef::Null);
    // The names are read from the document itself, so it cannot be computed.
    let Some(document) = definitions.as_document() else {
        let found = Value::Borrowed(definitions).type_name();
        let fault = Fault::WrongType { argument: "vars", expected: "an object", found };
        return Err(Error::Argument { operator, fault, code: Code::LET_VARS_NOT_OBJECT });
    };
    // The values are parsed outside of the new variables: they may not use each other.
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in fields(document) {
        check_name(name.as_str())?;
        names.push(name.as_str());
        values.push(parser.operand(value)?);
    }
    let body = parser.with_names(&names, |inside| inside.operand(body.unwrap_or(RawBsonRef::Null)))?;
    Ok(Node::Let { values, body: Box::new(body) })
}

pub(super) fn parse_map(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, body, name] = MAP.read::<3>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    // The input was parsed before its element has a name: only the body sees the variable.
    let name = element_name(operator, name)?;
    let body = parser.with_names(&[name], |inside| inside.operand(body.unwrap_or(RawBsonRef::Null)))?;
    Ok(Node::Map { input, body: Box::new(body) })
}

pub(super) fn parse_filter(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, condition, name, limit] = FILTER.read::<4>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    let name = element_name(operator, name)?;
    let condition =
        parser.with_names(&[name], |inside| inside.operand(condition.unwrap_or(RawBsonRef::Null)))?;
    // The limit is evaluated once, outside of the elements.
    let limit = limit.map(|limit| parser.operand(limit)).transpose()?.map(Box::new);
    Ok(Node::Filter { input, condition: Box::new(condition), limit })
}

pub(super) fn parse_reduce(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, initial, body] = REDUCE.read::<3>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    let initial = Box::new(parser.operand(initial.unwrap_or(RawBsonRef::Null))?);
    let body =
        parser.with_names(&[THIS, "value"], |inside| inside.operand(body.unwrap_or(RawBsonRef::Null)))?;
    Ok(Node::Reduce { input, initial, body: Box::new(body) })
}

pub(super) fn parse_random(
    _: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    // MongoDB takes `{}` and an empty list of arguments.
    let is_empty = operand.as_document().is_some_and(bson::RawDocument::is_empty)
        || operand.as_array().is_some_and(bson::RawArray::is_empty);
    if is_empty {
        return Ok(Node::Random);
    }
    let fault = Fault::WrongValue {
        argument: "the argument",
        expected: "an empty object",
        found: Value::Borrowed(operand).describe(),
    };
    Err(Error::Argument { operator, fault, code: Code::RAND_ARGUMENT })
}

pub(super) fn evaluate_let<'d>(
    values: &[Node],
    body: &Node,
    scope: Scope<'_, 'd>,
) -> Result<Value<'d>, Error> {
    // All values are computed in the outer scope, and once, however often the body uses them.
    let values = values.iter().map(|value| value.evaluate(scope)).collect::<Result<Vec<_>, _>>()?;
    body.evaluate(scope.within(&ValueFrame { values: &values, outer: scope.frame() }))
}

pub(super) fn evaluate_map<'d>(input: &Node, body: &Node, scope: Scope<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = elements(Named { operator: "$map", code: Code::MAP_INPUT_TYPE }, input, scope)?;
    let Some((input, _room)) = input else { return Ok(Value::NULL) };
    let mut mapped = ArrayBuilder::new("$map", scope.operation());
    for element in input {
        let frame = ValueFrame { values: &[element], outer: scope.frame() };
        // The result has an element for each element of the input: a missing one becomes null.
        mapped.push(body.evaluate(scope.within(&frame))?.or_null())?;
    }
    Ok(mapped.finish())
}

pub(super) fn evaluate_filter<'d>(
    input: &Node,
    condition: &Node,
    limit: Option<&Node>,
    scope: Scope<'_, 'd>,
) -> Result<Value<'d>, Error> {
    let input = elements(Named { operator: "$filter", code: Code::FILTER_INPUT_TYPE }, input, scope)?;
    let Some((input, _room)) = input else { return Ok(Value::NULL) };
    // No limit is a limit that no array reaches.
    let mut left = match limit {
        Some(limit) => read_limit(&limit.evaluate(scope)?)?,
        None => usize::MAX,
    };
    let mut kept = ArrayBuilder::new("$filter", scope.operation());
    for element in input {
        // Conditions of elements after the limit are not evaluated, so they cannot fail either.
        if left == 0 {
            break;
        }
        let frame = ValueFrame { values: std::slice::from_ref(&element), outer: scope.frame() };
        if condition.evaluate(scope.within(&frame))?.is_true() {
            kept.push(element.or_null())?;
            left -= 1;
        }
    }
    Ok(kept.finish())
}

pub(super) fn evaluate_reduce<'d>(
    input: &Node,
    initial: &Node,
    body: &Node,
    scope: Scope<'_, 'd>,
) -> Result<Value<'d>, Error> {
    let input = elements(Named { operator: "$reduce", code: Code::REDUCE_INPUT_TYPE }, input, scope)?;
    let Some((input, _room)) = input else { return Ok(Value::NULL) };
    let mut value = initial.evaluate(scope)?;
    for element in input {
        // In the order in which `parse_reduce` named them: `this`, then `value`.
        let frame = ValueFrame { values: &[element, value], outer: scope.frame() };
        value = body.evaluate(scope.within(&frame))?;
    }
    Ok(value)
}

/// The elements of an operator's input, and a reservation of the memory that they take meanwhile.
///
/// Returns `None` if the input is null or missing.
fn elements<'d>(
    named: Named,
    input: &Node,
    scope: Scope<'_, 'd>,
) -> Result<Option<(Vec<Value<'d>>, Reservation)>, Error> {
    let input = input.evaluate(scope)?;
    if input.is_nullish() {
        return Ok(None);
    }
    let wrong = || {
        let fault = Fault::WrongType { argument: "input", expected: "an array", found: input.type_name() };
        Error::Argument { operator: named.operator, fault, code: named.code }
    };
    let elements = input.elements().ok_or_else(wrong)?;
    let room = scope.operation().reserve(elements_bytes(&input, elements.len()))?;
    Ok(Some((elements, room)))
}

/// An operator, and MongoDB's number for an input that is no array.
#[derive(Clone, Copy)]
struct Named {
    operator: &'static str,
    code: Code,
}

fn read_limit(limit: &Value<'_>) -> Result<usize, Error> {
    if limit.is_nullish() {
        return Ok(usize::MAX);
    }
    let refuse = |code, expected| {
        let fault = Fault::WrongValue { argument: "limit", expected, found: limit.describe() };
        Error::Argument { operator: "$filter", fault, code }
    };
    let integer = integer(limit.or_null()).and_then(|limit| i32::try_from(limit).ok());
    match integer.ok_or_else(|| refuse(Code::FILTER_LIMIT_TYPE, "an integer of 32 bits"))? {
        integer @ 1.. => Ok(usize::try_from(integer).unwrap_or(usize::MAX)),
        ..=0 => Err(refuse(Code::FILTER_LIMIT_NOT_POSITIVE, "greater than 0")),
    }
}

fn element_name<'b>(operator: &'static str, name: Option<RawBsonRef<'b>>) -> Result<&'b str, Error> {
    let Some(name) = name else { return Ok(THIS) };
    let Some(name) = name.as_str() else {
        let found = Value::Borrowed(name).type_name();
        let fault = Fault::WrongType { argument: "as", expected: "a string", found };
        return Err(Error::Argument { operator, fault, code: Code::FAILED_TO_PARSE });
    };
    check_name(name)?;
    Ok(name)
}
