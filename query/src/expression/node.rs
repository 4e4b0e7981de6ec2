//! The tree of an expression, and how it is evaluated over a document.
//!
//! Most operators are a [`Node::Call`] of a function over arguments that are evaluated when the function asks for
//! them, so that a branch not taken costs nothing and cannot fail. Operators that define variables are nodes of
//! their own. Parsing bounds the depth of every tree, so recursion here is safe.

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};
use index::path::FieldPath;

use crate::expression::error::Error;
use crate::expression::value::Value;
use crate::expression::variables::Variables;
use crate::operation::OperationContext;
use crate::pattern::{Pattern, Room};

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

    /// The value that a path starts at.
    pub(super) fn source(&self, source: &Source) -> Result<Value<'d>, Error> {
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

/// The function of an operator.
pub(super) type Evaluate = for<'d> fn(&Arguments<'_, 'd>) -> Result<Value<'d>, Error>;

/// The arguments of an operator, in its own order, over a scope.
#[derive(Debug)]
pub(super) struct Arguments<'e, 'd> {
    pub(super) operator: &'static str,
    pub(super) nodes: &'e [Option<Node>],
    pub(super) scope: Scope<'e, 'd>,
}

impl<'e, 'd> Arguments<'e, 'd> {
    pub(super) fn new(operator: &'static str, nodes: &'e [Option<Node>], scope: Scope<'e, 'd>) -> Self {
        Self { operator, nodes, scope }
    }
}

/// A search in a text.
#[derive(Clone, Debug)]
pub(super) struct RegexCall {
    pub(super) operator: &'static str,
    pub(super) wanted: RegexResult,
    pub(super) input: Node,
    pub(super) regex: Node,
    pub(super) options: Option<Node>,
    pub(super) compiled: Compiled,
}

/// What is known of the pattern before evaluation.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    /// The pattern; none where it is null.
    Constant(Option<Pattern>),
    Varying,
}

/// What is asked about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegexResult {
    Whether,
    First,
    All,
}

impl RegexCall {
    pub(super) fn parts(&self) -> Vec<&Node> {
        [&self.input, &self.regex].into_iter().chain(&self.options).collect()
    }
}
