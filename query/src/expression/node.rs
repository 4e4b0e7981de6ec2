//! The tree of an expression, and how it is evaluated over a document.
//!
//! Most operators are a [`Node::Call`] of a function over arguments that are evaluated when the function asks for
//! them, so that a branch not taken costs nothing and cannot fail. Operators that define variables are nodes of
//! their own. Parsing bounds the depth of every tree, so recursion here is safe.

use bson::raw::CString;
use bson::{RawArray, RawBsonRef, RawDocument};
use index::path::{FieldPath, value_at};

use crate::expression::arguments::{Arguments, Evaluate};
use crate::expression::bind;
use crate::expression::error::Error;
use crate::expression::regex::{self, RegexCall};
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value};
use crate::expression::variables::Variables;
use crate::operation::OperationContext;
use crate::pattern::Room;
use crate::random::random;
use crate::value::elements;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Value<'static>),
    /// A variable, or what a path reaches in it.
    Path(Source, Vec<FieldPath>),
    /// An object of computed fields.
    Object(Vec<(CString, Node)>),
    /// An array of computed elements.
    Array(Vec<Node>),
    /// A function of its arguments; an argument with a name may be absent.
    Call {
        operator: &'static str,
        evaluate: Evaluate,
        arguments: Vec<Option<Node>>,
    },
    Let {
        values: Vec<Node>,
        body: Box<Node>,
    },
    Map {
        input: Box<Node>,
        body: Box<Node>,
    },
    Filter {
        input: Box<Node>,
        condition: Box<Node>,
        limit: Option<Box<Node>>,
    },
    Reduce {
        input: Box<Node>,
        initial: Box<Node>,
        body: Box<Node>,
    },
    Regex(Box<RegexCall>),
    /// A new random number at each evaluation.
    Random,
}

/// Where a path starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The document.
    Root,
    Now,
    /// `$$REMOVE`, which is missing.
    Remove,
    /// A variable of an operator: so many operators outwards, and which one of its variables.
    Local {
        outwards: usize,
        place: usize,
    },
    /// A variable of the caller.
    User(String),
}

/// What the variables of operators are at this point of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'f, 'd> {
    pub(super) values: &'f [Value<'d>],
    pub(super) outer: Option<&'f Frame<'f, 'd>>,
}

/// All that an expression can refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'f, 'd> {
    root: &'d RawDocument,
    variables: &'d Variables,
    frame: Option<&'f Frame<'f, 'd>>,
}

impl<'f, 'd> Scope<'f, 'd> {
    pub(super) fn new(root: &'d RawDocument, variables: &'d Variables) -> Self {
        Self { root, variables, frame: None }
    }

    /// What compiled patterns may take.
    pub(super) fn room(&self) -> &'d Room {
        self.variables.room()
    }

    pub(super) fn frame(&self) -> Option<&'f Frame<'f, 'd>> {
        self.frame
    }

    /// The scope inside an operator that defines variables.
    pub(super) fn within<'i>(&self, frame: &'i Frame<'i, 'd>) -> Scope<'i, 'd> {
        Scope { root: self.root, variables: self.variables, frame: Some(frame) }
    }

    /// What the operation that evaluates may use.
    pub(super) fn operation(&self) -> &'d OperationContext {
        self.variables.operation()
    }

    fn source(&self, source: &Source) -> Result<Value<'d>, Error> {
        match source {
            Source::Root => Ok(Value::Borrowed(RawBsonRef::Document(self.root))),
            Source::Now => Ok(Value::Borrowed(self.variables.now())),
            Source::Remove => Ok(Value::Missing),
            Source::Local { outwards, place } => {
                let mut frame = self.frame;
                for _ in 0..*outwards {
                    frame = frame.and_then(|frame| frame.outer);
                }
                Ok(frame.and_then(|frame| frame.values.get(*place)).cloned().unwrap_or(Value::Missing))
            }
            Source::User(name) => match self.variables.value(name) {
                Some(value) => Ok(value.clone()),
                None => Err(Error::UndefinedVariable { name: name.clone() }),
            },
        }
    }
}

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

    pub(super) fn constant(&self) -> Option<&Value<'static>> {
        match self {
            Node::Constant(value) => Some(value),
            Node::Path(..)
            | Node::Object(_)
            | Node::Array(_)
            | Node::Call { .. }
            | Node::Let { .. }
            | Node::Map { .. }
            | Node::Filter { .. }
            | Node::Reduce { .. }
            | Node::Regex(_)
            | Node::Random => None,
        }
    }

    /// Whether the value can depend on the document.
    pub(super) fn reads_document(&self) -> bool {
        match self {
            Node::Constant(_) | Node::Random => false,
            Node::Path(source, _) => *source == Source::Root,
            Node::Object(_)
            | Node::Array(_)
            | Node::Call { .. }
            | Node::Let { .. }
            | Node::Map { .. }
            | Node::Filter { .. }
            | Node::Reduce { .. }
            | Node::Regex(_) => self.parts().into_iter().any(Node::reads_document),
        }
    }

    /// The nodes right below this one.
    pub(super) fn parts(&self) -> Vec<&Node> {
        match self {
            Node::Constant(_) | Node::Path(..) | Node::Random => Vec::new(),
            Node::Object(fields) => fields.iter().map(|(_, value)| value).collect(),
            Node::Array(values) => values.iter().collect(),
            Node::Call { arguments, .. } => arguments.iter().flatten().collect(),
            Node::Let { values, body } => values.iter().chain([&**body]).collect(),
            Node::Map { input, body } => vec![input, body],
            Node::Filter { input, condition, limit } => {
                [&**input, condition].into_iter().chain(limit.as_deref()).collect()
            }
            Node::Reduce { input, initial, body } => vec![input, initial, body],
            Node::Regex(call) => call.parts(),
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
