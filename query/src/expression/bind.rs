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
    names: &["input", "in", "as", "arrayIndexAs"],
    required: 2,
    not_object: Code::MAP_NOT_OBJECT,
    unknown: Code::MAP_UNKNOWN_ARGUMENT,
    missing: &[Code::MAP_INPUT_MISSING, Code::MAP_IN_MISSING],
};
const FILTER: Signature = Signature {
    names: &["input", "cond", "as", "limit", "arrayIndexAs"],
    required: 2,
    not_object: Code::FILTER_NOT_OBJECT,
    unknown: Code::FILTER_UNKNOWN_ARGUMENT,
    missing: &[Code::FILTER_INPUT_MISSING, Code::FILTER_COND_MISSING],
};
const REDUCE: Signature = Signature {
    names: &["input", "initialValue", "in", "as", "valueAs", "arrayIndexAs"],
    required: 3,
    not_object: Code::REDUCE_NOT_OBJECT,
    unknown: Code::REDUCE_UNKNOWN_ARGUMENT,
    missing: &[Code::REDUCE_INPUT_MISSING, Code::REDUCE_INITIAL_VALUE_MISSING, Code::REDUCE_IN_MISSING],
};

/// The name of the current element, unless `as` says otherwise.
const THIS: &str = "this";
/// The name of what `$reduce` has computed so far, unless `valueAs` says otherwise.
const VALUE: &str = "value";
/// The name of the position of the current element, unless `arrayIndexAs` says otherwise. No user can define it.
const INDEX: &str = "IDX";

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
    let [input, body, name, index] = MAP.read::<4>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    // The input was parsed before its element has a name: only the body sees the variables.
    let variables = [NameArgument::element(name), NameArgument::index(index)];
    let names = variable_names(operator, Code::MAP_NAME_TWICE, &variables)?;
    let body = parser.with_names(&names, |inside| inside.operand(body.unwrap_or(RawBsonRef::Null)))?;
    Ok(Node::Map { input, body: Box::new(body) })
}

pub(super) fn parse_filter(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, condition, name, limit, index] = FILTER.read::<5>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    let variables = [NameArgument::element(name), NameArgument::index(index)];
    let names = variable_names(operator, Code::FILTER_NAME_TWICE, &variables)?;
    let condition =
        parser.with_names(&names, |inside| inside.operand(condition.unwrap_or(RawBsonRef::Null)))?;
    // The limit is evaluated once, outside of the elements.
    let limit = limit.map(|limit| parser.operand(limit)).transpose()?.map(Box::new);
    Ok(Node::Filter { input, condition: Box::new(condition), limit })
}

pub(super) fn parse_reduce(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, initial, body, name, value, index] = REDUCE.read::<6>(operator, operand)?;
    let input = Box::new(parser.operand(input.unwrap_or(RawBsonRef::Null))?);
    let initial = Box::new(parser.operand(initial.unwrap_or(RawBsonRef::Null))?);
    let value = NameArgument { argument: "valueAs", given: value, default: VALUE };
    let variables = [NameArgument::element(name), value, NameArgument::index(index)];
    let names = variable_names(operator, Code::REDUCE_NAME_TWICE, &variables)?;
    let body = parser.with_names(&names, |inside| inside.operand(body.unwrap_or(RawBsonRef::Null)))?;
    Ok(Node::Reduce { input, initial, body: Box::new(body) })
}

pub(super) fn parse_random(
    _: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    check_empty(operator, operand, Code::RAND_ARGUMENT).map(|()| Node::Random)
}

/// Parses `$currentDate`: unlike `$$NOW`, it is the time of each evaluation.
pub(super) fn parse_current_date(
    _: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    check_empty(operator, operand, Code::CURRENT_DATE_ARGUMENT).map(|()| Node::CurrentDate)
}

/// Rejects an argument of an operator that has none. MongoDB accepts `{}` and an empty list of arguments.
fn check_empty(operator: &'static str, operand: RawBsonRef<'_>, code: Code) -> Result<(), Error> {
    let is_empty = operand.as_document().is_some_and(bson::RawDocument::is_empty)
        || operand.as_array().is_some_and(bson::RawArray::is_empty);
    if is_empty {
        return Ok(());
    }
    let fault = Fault::WrongValue {
        argument: "the argument",
        expected: "an empty object",
        found: Value::Borrowed(operand).describe(),
    };
    Err(Error::Argument { operator, fault, code })
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
    for (index, element) in input.into_iter().enumerate() {
        let frame = ValueFrame { values: &[element, Value::count(index)], outer: scope.frame() };
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
    for (index, element) in input.into_iter().enumerate() {
        // Conditions of elements after the limit are not evaluated, so they cannot fail either.
        if left == 0 {
            break;
        }
        let values = [element, Value::count(index)];
        let frame = ValueFrame { values: &values, outer: scope.frame() };
        if condition.evaluate(scope.within(&frame))?.is_true() {
            let [element, _] = values;
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
    for (index, element) in input.into_iter().enumerate() {
        // In the order in which `parse_reduce` named them.
        let values = &[element, value, Value::count(index)];
        let frame = ValueFrame { values, outer: scope.frame() };
        value = body.evaluate(scope.within(&frame))?;
    }
    Ok(value)
}

/// The elements of an operator's input, and a reservation of the memory that they use meanwhile.
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

/// An operator, and MongoDB's number for an input that is not an array.
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

/// An argument that names a variable.
struct NameArgument<'b> {
    argument: &'static str,
    given: Option<RawBsonRef<'b>>,
    /// The name where the argument is not given.
    default: &'static str,
}

impl<'b> NameArgument<'b> {
    /// The name of the current element.
    fn element(given: Option<RawBsonRef<'b>>) -> Self {
        Self { argument: "as", given, default: THIS }
    }

    /// The name of its position.
    fn index(given: Option<RawBsonRef<'b>>) -> Self {
        Self { argument: "arrayIndexAs", given, default: INDEX }
    }

    fn name(&self, operator: &'static str) -> Result<&'b str, Error> {
        let Some(name) = self.given else { return Ok(self.default) };
        let Some(name) = name.as_str() else {
            let found = Value::Borrowed(name).type_name();
            let fault = Fault::WrongType { argument: self.argument, expected: "a string", found };
            return Err(Error::Argument { operator, fault, code: Code::FAILED_TO_PARSE });
        };
        check_name(name)?;
        Ok(name)
    }
}

/// The names of an operator's variables. `code` is the number for two variables of one name.
fn variable_names<'b, const N: usize>(
    operator: &'static str,
    code: Code,
    arguments: &[NameArgument<'b>; N],
) -> Result<[&'b str; N], Error> {
    let mut names = [""; N];
    for (position, argument) in arguments.iter().enumerate() {
        let name = argument.name(operator)?;
        if names.iter().take(position).any(|earlier| *earlier == name) {
            let (expected, found) = ("a name that no other variable has", format!("\"{name}\""));
            let fault = Fault::WrongValue { argument: argument.argument, expected, found };
            return Err(Error::Argument { operator, fault, code });
        }
        if let Some(slot) = names.get_mut(position) {
            *slot = name;
        }
    }
    Ok(names)
}
