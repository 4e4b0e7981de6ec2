//! How the tree of an expression is evaluated over a document, and what a path reaches.
//!
//! Parsing bounds the depth of every tree, so recursion here is safe.

use bson::{RawArray, RawBsonRef};
use index::path::{FieldPath, value_at};

use crate::expression::bind;
use crate::expression::error::Error;
use crate::expression::node::{Arguments, Node, Scope, Source};
use crate::expression::regex;
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value};
use crate::operation::OperationContext;
use crate::random::random;
use crate::value::elements;

impl Node {
    /// The value in a scope. Each node is a step of the operation, which holds what the node computes.
    pub(super) fn evaluate<'d>(&self, scope: Scope<'_, 'd>) -> Result<Value<'d>, Error> {
        scope.operation().step()?;
        let mut value = self.compute(scope)?;
        value.hold(scope.operation())?;
        Ok(value)
    }

    fn compute<'d>(&self, scope: Scope<'_, 'd>) -> Result<Value<'d>, Error> {
        match self {
            Node::Constant(value) => Ok(value.clone()),
            Node::Path(source, path) => follow(scope, source, path),
            Node::Object(fields) => {
                let mut object = ObjectBuilder::new("an object", scope.operation());
                for (name, value) in fields {
                    object.append(name, &value.evaluate(scope)?)?;
                }
                Ok(object.finish())
            }
            Node::Array(values) => {
                let mut array = ArrayBuilder::new("an array", scope.operation());
                for value in values {
                    array.push(value.evaluate(scope)?.or_null())?;
                }
                Ok(array.finish())
            }
            Node::Call { operator, evaluate, arguments } => {
                evaluate(&Arguments::new(operator, arguments, scope))
            }
            Node::Let { values, body } => bind::evaluate_let(values, body, scope),
            Node::Map { input, body } => bind::evaluate_map(input, body, scope),
            Node::Filter { input, condition, limit } => {
                bind::evaluate_filter(input, condition, limit.as_deref(), scope)
            }
            Node::Reduce { input, initial, body } => bind::evaluate_reduce(input, initial, body, scope),
            Node::Regex(call) => regex::evaluate(call, scope),
            Node::Random => Ok(Value::double(random())),
        }
    }
}

/// What a path reaches in a variable.
fn follow<'d>(scope: Scope<'_, 'd>, source: &Source, path: &[FieldPath]) -> Result<Value<'d>, Error> {
    let start = scope.source(source)?;
    if path.is_empty() {
        return Ok(start);
    }
    let operation = scope.operation();
    let of_computed = |value| match walk(value, path, operation)? {
        Reached::Nothing => Ok(Value::Missing),
        Reached::InPlace(value) => Ok(Value::copied(value)),
        Reached::Built(value) => Ok(value),
    };
    Ok(match &start {
        Value::Missing => Value::Missing,
        Value::Borrowed(value) => match walk(*value, path, operation)? {
            Reached::Nothing => Value::Missing,
            Reached::InPlace(value) => Value::Borrowed(value),
            Reached::Built(value) => value,
        },
        Value::Shared(_) => return of_computed(start.or_null()),
    })
}

/// What a path finds: the value itself, or an array made of what it finds in the elements of an array.
enum Reached<'v> {
    Nothing,
    InPlace(RawBsonRef<'v>),
    Built(Value<'static>),
}

fn walk<'v>(
    start: RawBsonRef<'v>,
    path: &[FieldPath],
    operation: &OperationContext,
) -> Result<Reached<'v>, Error> {
    let mut value = start;
    let mut rest = path;
    while let Some((name, following)) = rest.split_first() {
        if let Some(document) = value.as_document() {
            let Some(found) = value_at(document, name) else { return Ok(Reached::Nothing) };
            (value, rest) = (found, following);
        } else if let Some(array) = value.as_array() {
            return walk_elements(array, rest, operation).map(Reached::Built);
        } else {
            return Ok(Reached::Nothing);
        }
    }
    Ok(Reached::InPlace(value))
}

/// An array on the way gives an array of what the rest of the path finds in its objects. Arrays right in an array
/// are passed over, and a number is never a position.
fn walk_elements(
    array: &RawArray,
    path: &[FieldPath],
    operation: &OperationContext,
) -> Result<Value<'static>, Error> {
    operation.pass(array.as_bytes().len())?;
    let mut found = ArrayBuilder::new("a path through an array", operation);
    for element in elements(array).filter(|element| element.as_document().is_some()) {
        match walk(element, path, operation)? {
            Reached::Nothing => {}
            Reached::InPlace(value) => found.push(value)?,
            Reached::Built(value) => found.push(value.or_null())?,
        }
    }
    Ok(found.finish())
}
