//! Objects: reading and setting fields, merging, conversion from and to arrays; and `$literal`.

use bson::raw::{CStr, CString, cstr};
use bson::{RawBsonRef, RawDocument};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value, field, fields, type_name};
use crate::value::elements;

const GET_FIELD: Signature = Signature {
    names: &["field", "input"],
    required: 2,
    not_object: Code::GET_FIELD_UNKNOWN_ARGUMENT,
    unknown: Code::GET_FIELD_UNKNOWN_ARGUMENT,
    missing: &[Code::GET_FIELD_FIELD_MISSING, Code::GET_FIELD_INPUT_MISSING],
};
const SET_FIELD: Signature = Signature {
    names: &["field", "input", "value"],
    required: 3,
    not_object: Code::SET_FIELD_NOT_OBJECT,
    unknown: Code::SET_FIELD_UNKNOWN_ARGUMENT,
    missing: &[Code::SET_FIELD_FIELD_MISSING, Code::SET_FIELD_INPUT_MISSING, Code::SET_FIELD_VALUE_MISSING],
};
const UNSET_FIELD: Signature = Signature { names: &["field", "input"], required: 2, ..SET_FIELD };

#[expect(clippy::unnecessary_wraps, reason = "all special forms are read by functions of one type")]
pub(super) fn parse_literal(_: Parser<'_>, _: &'static str, operand: RawBsonRef<'_>) -> Result<Node, Error> {
    Ok(Node::Constant(Value::copied(operand)))
}

/// Parses `$getField`: `{field, input}`, or only the name of a field of the document.
pub(super) fn parse_get_field(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let first = operand.as_document().and_then(|document| fields(document).next());
    // An object whose first name is an operator is an expression that computes the name, not an object of
    // arguments.
    let is_operator = first.is_some_and(|(name, _)| name.as_str().starts_with('$'));
    let (name, input) = if operand.as_document().is_none() || is_operator {
        (operand, Node::Path(parser.current(), Vec::new()))
    } else {
        let [name, input] = GET_FIELD.read::<2>(operator, operand)?;
        (name.unwrap_or(RawBsonRef::Null), parser.operand(input.unwrap_or(RawBsonRef::Null))?)
    };
    let name = parser.operand(name)?;
    // A constant name is checked while parsing, so that a wrong one is an error without any document.
    if let Some(constant) = name.constant() {
        check_name(operator, Code::GET_FIELD_CONSTANT_TYPE, constant)?;
    }
    Ok(Node::Call { operator, evaluate: get_field, arguments: vec![Some(name), Some(input)] })
}

fn get_field<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let name = arguments.value(0)?;
    let text = name.get().and_then(RawBsonRef::as_str);
    let text =
        text.ok_or_else(|| arguments.wrong_type(Code::GET_FIELD_FIELD_TYPE, "field", "a string", &name))?;
    let input = arguments.value(1)?;
    if input.is_nullish() {
        // A field of a missing value is missing, and a field of null is null.
        return Ok(if input.is_missing() { Value::Missing } else { Value::NULL });
    }
    Ok(input.field(text))
}

pub(super) fn parse_set_field(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [name, input, value] = SET_FIELD.read::<3>(operator, operand)?;
    set_field_node(parser, operator, name, input, value.unwrap_or(RawBsonRef::Null))
}

/// Parses `$unsetField`, which sets the field to a missing value.
pub(super) fn parse_unset_field(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [name, input] = UNSET_FIELD.read::<2>(operator, operand)?;
    set_field_node(parser, operator, name, input, RawBsonRef::String("$$REMOVE"))
}

fn set_field_node(
    parser: Parser<'_>,
    operator: &'static str,
    name: Option<RawBsonRef<'_>>,
    input: Option<RawBsonRef<'_>>,
    value: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let given = name.unwrap_or(RawBsonRef::Null);
    let refuse = |expected, code| {
        let found = crate::value::describe(given);
        let fault = Fault::WrongValue { argument: "field", expected, found };
        Error::Argument { operator, fault, code }
    };
    // The name could be meant as a path, so a name that starts with a dollar sign must be a `$literal`.
    if given.as_str().is_some_and(|name| name.starts_with('$')) {
        return Err(refuse("a name, or a $literal", Code::SET_FIELD_FIELD_IS_PATH));
    }
    let name = parser.operand(given)?;
    // MongoDB sets only fields whose names are known when the expression is parsed.
    let Some(constant) = name.constant() else {
        return Err(refuse("constant", Code::SET_FIELD_FIELD_NOT_CONSTANT));
    };
    check_name(operator, Code::SET_FIELD_FIELD_TYPE, constant)?;
    let input = parser.operand(input.unwrap_or(RawBsonRef::Null))?;
    let value = parser.operand(value)?;
    let arguments = vec![Some(name), Some(input), Some(value)];
    Ok(Node::Call { operator, evaluate: set_field, arguments })
}

fn check_name(operator: &'static str, code: Code, name: &Value<'_>) -> Result<(), Error> {
    if name.or_null().as_str().is_some() {
        return Ok(());
    }
    let fault = Fault::WrongType { argument: "field", expected: "a string", found: name.type_name() };
    Err(Error::Argument { operator, fault, code })
}

fn set_field<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(1)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let document = input.or_null().as_document();
    let document = document
        .ok_or_else(|| arguments.wrong_type(Code::SET_FIELD_INPUT_TYPE, "input", "an object", &input))?;
    let name = arguments.value(0)?;
    let name = name.get().and_then(RawBsonRef::as_str).unwrap_or_default();
    // A name of BSON ends with a zero byte and cannot hold one.
    let name = CString::try_from(name).map_err(|_| zero_in_name(arguments, Code::SET_FIELD_FIELD_TYPE))?;
    let value = arguments.value(2)?;
    let mut object = ObjectBuilder::new(arguments.operator, arguments.operation());
    // The field keeps its position, a new one comes last. If the object has the name twice, the second goes.
    let mut is_set = false;
    for (known, old) in fields(document) {
        if known == &*name {
            if !is_set {
                object.append(known, &value)?;
            }
            is_set = true;
        } else {
            object.append(known, &Value::Borrowed(old))?;
        }
    }
    if !is_set {
        object.append(&name, &value)?;
    }
    Ok(object.finish())
}

/// `$mergeObjects`: a later field replaces an earlier one of the same name, in its position. Null adds no fields.
///
/// A single argument may be an array of objects.
pub(super) fn merge<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut values = arguments.values().collect::<Result<Vec<_>, _>>()?;
    if let [only] = values.as_slice()
        && let Some(elements) = only.elements()
    {
        values = elements;
    }
    // The values are borrowed until all objects are merged, so that what is replaced is never copied.
    let mut merged = MergedFields::default();
    for value in &values {
        if value.is_nullish() {
            continue;
        }
        let document = value.or_null().as_document();
        let document = document.ok_or_else(|| {
            arguments.wrong_type(Code::MERGE_OBJECTS_TYPE, "an argument", "an object", value)
        })?;
        merged.add(document);
    }
    let mut object = ObjectBuilder::new(arguments.operator, arguments.operation());
    for (name, value) in merged.fields {
        object.append(name, &Value::Borrowed(value))?;
    }
    Ok(object.finish())
}

/// Fields by name. A field that is set again keeps its position.
#[derive(Default)]
struct MergedFields<'v> {
    fields: Vec<(&'v CStr, RawBsonRef<'v>)>,
    /// The position in `fields` of each name.
    positions: std::collections::BTreeMap<&'v str, usize>,
}

impl<'v> MergedFields<'v> {
    fn add(&mut self, document: &'v RawDocument) {
        for (name, value) in fields(document) {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &'v CStr, value: RawBsonRef<'v>) {
        let position = *self.positions.entry(name.as_str()).or_insert(self.fields.len());
        match self.fields.get_mut(position) {
            Some((_, slot)) => *slot = value,
            None => self.fields.push((name, value)),
        }
    }
}

pub(super) fn to_array<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let document = value.or_null().as_document();
    let document = document.ok_or_else(|| {
        arguments.wrong_type(Code::OBJECT_TO_ARRAY_TYPE, "the argument", "an object", &value)
    })?;
    let mut array = ArrayBuilder::new(arguments.operator, arguments.operation());
    for (name, value) in fields(document) {
        // Each pair is built with its own bound, so that one large value is rejected before the array grows.
        let mut pair = ObjectBuilder::new(arguments.operator, arguments.operation());
        pair.append(cstr!("k"), &Value::Borrowed(RawBsonRef::String(name.as_str())))?;
        pair.append(cstr!("v"), &Value::Borrowed(value))?;
        array.push(pair.finish().or_null())?;
    }
    Ok(array.finish())
}

/// `$arrayToObject`: an object made of pairs, which are all `[name, value]` or all `{k, v}`.
pub(super) fn from_array<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let array = value.or_null().as_array();
    let array = array.ok_or_else(|| {
        arguments.wrong_type(Code::ARRAY_TO_OBJECT_TYPE, "the argument", "an array", &value)
    })?;
    let pairs = elements(array).collect::<Vec<_>>();
    // The first element decides the form, and all others must have it.
    let read = match pairs.first() {
        None => return Ok(ObjectBuilder::new(arguments.operator, arguments.operation()).finish()),
        Some(RawBsonRef::Array(_)) => pair_of_array,
        Some(RawBsonRef::Document(_)) => pair_of_object,
        Some(other) => {
            let expected = "an array or an object";
            return Err(arguments.wrong_type(
                Code::ARRAY_TO_OBJECT_ELEMENT_TYPE,
                "an element",
                expected,
                &Value::Borrowed(*other),
            ));
        }
    };
    let mut merged = MergedFields::default();
    for pair in pairs {
        let (name, value) = read(arguments, pair)?;
        merged.set(name, value);
    }
    let mut object = ObjectBuilder::new(arguments.operator, arguments.operation());
    for (name, value) in merged.fields {
        object.append(name, &Value::Borrowed(value))?;
    }
    Ok(object.finish())
}

fn pair_of_array<'v>(
    arguments: &Arguments<'_, '_>,
    pair: RawBsonRef<'v>,
) -> Result<(&'v CStr, RawBsonRef<'v>), Error> {
    let wrong = |code, expected| arguments.wrong_type(code, "an element", expected, &Value::Borrowed(pair));
    let array = pair
        .as_array()
        .ok_or_else(|| wrong(Code::ARRAY_TO_OBJECT_PAIR_NOT_ARRAY, "an array like the first"))?;
    let parts = elements(array).collect::<Vec<_>>();
    // All pairs are checked, the ones that a later pair replaces too.
    let [name, value] = parts.as_slice() else {
        return Err(wrong(Code::ARRAY_TO_OBJECT_PAIR_LENGTH, "a pair"));
    };
    let text = name.as_str().ok_or_else(|| wrong_name(arguments, Code::ARRAY_TO_OBJECT_NAME_TYPE, *name))?;
    Ok((text.try_into().map_err(|_| zero_in_name(arguments, Code::ARRAY_TO_OBJECT_NAME_ZERO_BYTE))?, *value))
}

fn pair_of_object<'v>(
    arguments: &Arguments<'_, '_>,
    pair: RawBsonRef<'v>,
) -> Result<(&'v CStr, RawBsonRef<'v>), Error> {
    let wrong = |code, expected| arguments.wrong_type(code, "an element", expected, &Value::Borrowed(pair));
    let document = pair
        .as_document()
        .ok_or_else(|| wrong(Code::ARRAY_TO_OBJECT_PAIR_NOT_OBJECT, "an object like the first"))?;
    // Exactly two fields: counting stops after the third.
    if fields(document).take(3).count() != 2 {
        return Err(wrong(Code::ARRAY_TO_OBJECT_PAIR_FIELD_COUNT, "an object of k and v"));
    }
    let (Some(name), Some(value)) = (field(document, "k"), field(document, "v")) else {
        return Err(wrong(Code::ARRAY_TO_OBJECT_PAIR_FIELDS, "an object of k and v"));
    };
    let text = name.as_str().ok_or_else(|| wrong_name(arguments, Code::ARRAY_TO_OBJECT_K_TYPE, name))?;
    Ok((text.try_into().map_err(|_| zero_in_name(arguments, Code::ARRAY_TO_OBJECT_K_ZERO_BYTE))?, value))
}

fn wrong_name(arguments: &Arguments<'_, '_>, code: Code, name: RawBsonRef<'_>) -> Error {
    let fault = Fault::WrongType { argument: "a name", expected: "a string", found: type_name(name) };
    arguments.fault(code, fault)
}

fn zero_in_name(arguments: &Arguments<'_, '_>, code: Code) -> Error {
    let found = "a text with one".to_owned();
    let fault = Fault::WrongValue { argument: "a name", expected: "without zero characters", found };
    arguments.fault(code, fault)
}

pub(super) fn bson_size<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let value = arguments.value(0)?;
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let document = value.or_null().as_document();
    let document = document
        .ok_or_else(|| arguments.wrong_type(Code::BSON_SIZE_TYPE, "the argument", "an object", &value))?;
    Ok(Value::count(document.as_bytes().len()))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, check_missing};

    #[test]
    fn literals_are_not_looked_into() {
        check(bson!({ "$literal": { "$add": [1, "$n"] } }), bson!({ "$add": [1, "$n"] }));
        check(bson!({ "$const": "$n" }), bson!("$n"));
    }

    #[test]
    fn fields_of_any_name_are_read() {
        check(bson!({ "$getField": "n" }), bson!(5));
        check(bson!({ "$getField": "a.b" }), bson!("dotted"));
        check(bson!({ "$getField": { "$literal": "$price" } }), bson!(9));
        check(bson!({ "$getField": { "field": "b", "input": "$object" } }), bson!(2));
        check(bson!({ "$getField": { "field": { "$concat": ["", "b"] }, "input": "$object" } }), bson!(2));
        check(bson!({ "$getField": { "field": "b", "input": null } }), Bson::Null);
        check_missing(bson!({ "$getField": { "field": "b", "input": "$missing" } }));
        check_missing(bson!({ "$getField": { "field": "b", "input": 5 } }));
        check_missing(bson!({ "$getField": "missing" }));
        check_error(bson!({ "$getField": 5 }), 5_654_602);
        check_error(bson!({ "$getField": "$n" }), 3_041_704);
        check_error(bson!({ "$getField": { "x": 1 } }), 3_041_701);
        check_error(bson!({ "$getField": { "input": 1 } }), 3_041_702);
        check_error(bson!({ "$getField": { "field": "a" } }), 3_041_703);
    }

    #[test]
    fn fields_are_set_and_removed() {
        let set = |name: Bson, value: Bson| bson!({ "$setField": { "field": name, "input": "$object", "value": value } });
        check(set(bson!("b"), bson!("$n")), bson!({ "a": 1, "b": 5, "c": { "d": [1, 2] } }));
        check(set(bson!("x.y"), bson!(0)), bson!({ "a": 1, "b": 2, "c": { "d": [1, 2] }, "x.y": 0 }));
        check(set(bson!("b"), bson!("$$REMOVE")), bson!({ "a": 1, "c": { "d": [1, 2] } }));
        check(bson!({ "$unsetField": { "field": "c", "input": "$object" } }), bson!({ "a": 1, "b": 2 }));
        check(bson!({ "$unsetField": { "field": "c", "input": "$missing" } }), Bson::Null);
        check_error(bson!({ "$setField": 1 }), 4_161_100);
        check_error(bson!({ "$setField": { "x": 1 } }), 4_161_101);
        check_error(bson!({ "$setField": { "input": 1, "value": 1 } }), 4_161_102);
        check_error(bson!({ "$unsetField": { "input": 1 } }), 4_161_102);
        check_error(bson!({ "$unsetField": { "field": "a", "input": 1 } }), 4_161_105);
        check_error(set(bson!({ "$concat": ["$text", "a"] }), bson!(1)), 4_161_106);
        check_error(set(bson!(1), bson!(1)), 4_161_107);
        check_error(set(bson!("$n"), bson!(1)), 4_161_108);
    }

    #[test]
    fn objects_are_merged() {
        check(
            bson!({ "$mergeObjects": [{ "a": 1, "b": 2 }, null, { "c": 3, "a": 4 }] }),
            bson!({ "a": 4, "b": 2, "c": 3 }),
        );
        check(bson!({ "$mergeObjects": [[{ "a": 1 }, { "b": 2 }]] }), bson!({ "a": 1, "b": 2 }));
        check(bson!({ "$mergeObjects": "$missing" }), bson!({}));
        check(bson!({ "$mergeObjects": [] }), bson!({}));
        check_error(bson!({ "$mergeObjects": [{ "a": 1 }, 5] }), 40_400);
    }

    #[test]
    fn objects_become_arrays_and_back() {
        let pairs = bson!([{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }]);
        check(bson!({ "$objectToArray": { "a": 1, "b": 2 } }), pairs.clone());
        check(bson!({ "$arrayToObject": { "$literal": pairs } }), bson!({ "a": 1, "b": 2 }));
        check(bson!({ "$arrayToObject": [[["a", 1], ["b", 2], ["a", 3]]] }), bson!({ "a": 3, "b": 2 }));
        check(bson!({ "$arrayToObject": [[]] }), bson!({}));
        check(bson!({ "$arrayToObject": null }), Bson::Null);
        check(bson!({ "$objectToArray": "$missing" }), Bson::Null);
        check_error(bson!({ "$objectToArray": 1 }), 40_390);
        check_error(bson!({ "$arrayToObject": 1 }), 40_386);
        for (pairs, code) in [
            (bson!([1]), 40_398),
            (bson!([["a", 1], 1]), 40_396),
            (bson!([["a"]]), 40_397),
            (bson!([[1, 1]]), 40_395),
            (bson!([["a\0", 1]]), 4_940_400),
            (bson!([{ "k": "a", "v": 1 }, 1]), 40_391),
            (bson!([{ "k": "a" }]), 40_392),
            (bson!([{ "k": "a", "x": 1 }]), 40_393),
            (bson!([{ "k": 1, "v": 1 }]), 40_394),
            (bson!([{ "k": "\0", "v": 1 }]), 4_940_401),
        ] {
            check_error(bson!({ "$arrayToObject": { "$literal": pairs } }), code);
        }
    }

    #[test]
    fn objects_have_a_size_in_bytes() {
        check(bson!({ "$bsonSize": { "a": 1 } }), bson!(12));
        check(bson!({ "$bsonSize": null }), Bson::Null);
        check_error(bson!({ "$bsonSize": "x" }), 31_393);
    }
}
