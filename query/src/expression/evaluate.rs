//! The evaluation of an expression's tree over a document, and of paths.
//!
//! Parsing bounds the depth of every tree, so recursion here is safe.

use bson::oid::ObjectId;
use bson::{DateTime, RawArray, RawBsonRef};
use index::path::{FieldPath, value_at};

use crate::expression::bind;
use crate::expression::error::Error;
use crate::expression::node::{Arguments, Node, PathStart, Scope};
use crate::expression::percentile;
use crate::expression::regex;
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value};
use crate::operation::OperationContext;
use crate::random::random;
use crate::value::elements;

impl Node {
    /// The value in a scope. Each node counts as a step of the operation, and its value is reserved there.
    pub(super) fn evaluate<'d>(&self, scope: Scope<'_, 'd>) -> Result<Value<'d>, Error> {
        scope.operation().step()?;
        let mut value = self.compute(scope)?;
        // Reserved by the node that made it, and released with the last clone of the value.
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
                    // An array has no gaps: a missing element is null. A missing field of an object is left
                    // out.
                    array.push(value.evaluate(scope)?.or_null())?;
                }
                Ok(array.finish())
            }
            Node::Call { operator, evaluate, arguments } => {
                // Arguments are evaluated by the function, in its order, and not at all if it does not ask
                // for them.
                evaluate(&Arguments::new(operator, arguments, scope))
            }
            Node::Let { values, body } => bind::evaluate_let(values, body, scope),
            Node::Map { input, body } => bind::evaluate_map(input, body, scope),
            Node::Filter { input, condition, limit } => {
                bind::evaluate_filter(input, condition, limit.as_deref(), scope)
            }
            Node::Reduce { input, initial, body } => bind::evaluate_reduce(input, initial, body, scope),
            Node::Regex(call) => regex::evaluate(call, scope),
            Node::Percentile { input, request } => percentile::evaluate(input, request, scope),
            Node::Random => Ok(Value::double(random())),
            Node::CurrentDate => Ok(Value::date(DateTime::now().timestamp_millis())),
            Node::NewObjectId => Ok(Value::Borrowed(RawBsonRef::ObjectId(ObjectId::new()))),
        }
    }
}

/// The value that a path finds in the document or a variable.
fn follow<'d>(scope: Scope<'_, 'd>, source: &PathStart, path: &[FieldPath]) -> Result<Value<'d>, Error> {
    let start = scope.source(source)?;
    // A variable alone, such as `$$ROOT`, is passed on without a copy.
    if path.is_empty() {
        return Ok(start);
    }
    let operation = scope.operation();
    // A computed value is shared, and what lies in it cannot be borrowed for as long as the document: it is
    // copied.
    let of_computed = |value| match walk(value, path, operation)? {
        PathResult::Missing => Ok(Value::Missing),
        PathResult::InPlace(value) => Ok(Value::copied(value)),
        PathResult::Built(value) => Ok(value),
    };
    Ok(match &start {
        Value::Missing => Value::Missing,
        Value::Borrowed(value) => match walk(*value, path, operation)? {
            PathResult::Missing => Value::Missing,
            PathResult::InPlace(value) => Value::Borrowed(value),
            PathResult::Built(value) => value,
        },
        Value::Shared(_) => return of_computed(start.or_null()),
    })
}

/// The result of a path.
enum PathResult<'v> {
    /// The path leads to no value.
    Missing,
    /// The value itself.
    InPlace(RawBsonRef<'v>),
    /// An array of what the path finds in the elements of an array.
    Built(Value<'static>),
}

fn walk<'v>(
    start: RawBsonRef<'v>,
    path: &[FieldPath],
    operation: &OperationContext,
) -> Result<PathResult<'v>, Error> {
    let mut value = start;
    let mut rest = path;
    // A loop through objects: only an array needs recursion, because the rest of the path is followed in each
    // element.
    while let Some((name, following)) = rest.split_first() {
        if let Some(document) = value.as_document() {
            let Some(found) = value_at(document, name) else { return Ok(PathResult::Missing) };
            (value, rest) = (found, following);
        } else if let Some(array) = value.as_array() {
            return walk_elements(array, rest, operation).map(PathResult::Built);
        } else {
            return Ok(PathResult::Missing);
        }
    }
    Ok(PathResult::InPlace(value))
}

/// Follows a path through an array: the result is an array of what the path finds in its objects.
///
/// Arrays directly in the array are skipped, and a number in a path is a field's name, never a position.
fn walk_elements(
    array: &RawArray,
    path: &[FieldPath],
    operation: &OperationContext,
) -> Result<Value<'static>, Error> {
    // A path over a large array is one node, so its steps are counted by bytes.
    operation.pass(array.as_bytes().len())?;
    let mut found = ArrayBuilder::new("a path through an array", operation);
    for element in elements(array).filter(|element| element.as_document().is_some()) {
        match walk(element, path, operation)? {
            PathResult::Missing => {}
            PathResult::InPlace(value) => found.push(value)?,
            PathResult::Built(value) => found.push(value.or_null())?,
        }
    }
    Ok(found.finish())
}
