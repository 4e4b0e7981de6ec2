//! The tree of an expression, and what it is evaluated in: its scope, and the arguments of an operator.
//!
//! Most operators are a [`Node::Call`] of a function over arguments that are evaluated when the function asks for
//! them, so that a branch that is not chosen costs nothing and cannot fail. Operators that define variables are nodes
//! of their own. How nodes are evaluated is in `evaluate`. Parsing bounds the depth of every tree, so recursion is
//! safe.

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument};
use index::collation::Collation;
use index::path::FieldPath;

use crate::expression::error::Error;
use crate::expression::value::Value;
use crate::expression::variables::Variables;
use crate::operation::OperationContext;
use crate::pattern::{LastPattern, Pattern, Room};
use crate::percentile::PercentileRequest;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Constant(Value<'static>),
    /// A variable, or what a path reaches in it.
    Path(PathStart, Vec<FieldPath>),
    /// An object of computed fields.
    Object(Vec<(CString, Node)>),
    /// An array of computed elements.
    Array(Vec<Node>),
    /// A function of its arguments. An argument with a name may be absent.
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
    /// Percentiles of the numbers in an array.
    Percentile {
        input: Box<Node>,
        request: PercentileRequest,
    },
    /// A new random number at each evaluation.
    Random,
    /// A new `ObjectId` at each evaluation.
    NewObjectId,
    /// The time of each evaluation.
    CurrentDate,
}

/// The value that a path starts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStart {
    /// The document.
    Root,
    /// `$$NOW`.
    Now,
    /// `$$REMOVE`, which is missing.
    Remove,
    /// A variable of an operator, `outwards` operators around this place; `position` is its place among the
    /// variables of that operator.
    Local { outwards: usize, position: usize },
    /// A variable of the caller.
    User(String),
}

/// The values of the variables that one operator defines, and the operators around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueFrame<'f, 'd> {
    pub(super) values: &'f [Value<'d>],
    pub(super) outer: Option<&'f ValueFrame<'f, 'd>>,
}

/// Everything that an expression can refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'f, 'd> {
    root: &'d RawDocument,
    variables: &'d Variables,
    frame: Option<&'f ValueFrame<'f, 'd>>,
}

impl<'f, 'd> Scope<'f, 'd> {
    pub(super) fn new(root: &'d RawDocument, variables: &'d Variables) -> Self {
        Self { root, variables, frame: None }
    }

    /// The memory that compiled patterns may use.
    pub(super) fn room(&self) -> &'d Room {
        self.variables.room()
    }

    /// The variables of the operators around this place.
    pub(super) fn frame(&self) -> Option<&'f ValueFrame<'f, 'd>> {
        self.frame
    }

    /// The scope inside an operator that defines the variables of `frame`.
    pub(super) fn within<'i>(&self, frame: &'i ValueFrame<'i, 'd>) -> Scope<'i, 'd> {
        // The lifetime of the scope shrinks to that of the frame; the values keep theirs, and may leave the
        // operator.
        Scope { root: self.root, variables: self.variables, frame: Some(frame) }
    }

    /// The comparison of strings.
    #[inline]
    pub(super) fn collation(&self) -> &'d Collation {
        self.variables.collation()
    }

    /// The limits of the operation that evaluates.
    pub(super) fn operation(&self) -> &'d OperationContext {
        self.variables.operation()
    }

    /// The value that a path starts at.
    pub(super) fn source(&self, source: &PathStart) -> Result<Value<'d>, Error> {
        match source {
            PathStart::Root => Ok(Value::Borrowed(RawBsonRef::Document(self.root))),
            PathStart::Now => Ok(Value::Borrowed(self.variables.now())),
            PathStart::Remove => Ok(Value::Missing),
            PathStart::Local { outwards, position } => {
                let mut frame = self.frame;
                // Parsing counted the operators between a use and its definition, so no name is looked up
                // here.
                for _ in 0..*outwards {
                    frame = frame.and_then(|frame| frame.outer);
                }
                Ok(frame.and_then(|frame| frame.values.get(*position)).cloned().unwrap_or(Value::Missing))
            }
            PathStart::User(name) => match self.variables.value(name) {
                Some(value) => Ok(value.clone()),
                // Parsing checked the name; the caller evaluates with other variables than it parsed with.
                None => Err(Error::UndefinedVariable { name: name.clone() }),
            },
        }
    }
}

impl Node {
    /// The value, if the node is a constant.
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
            | Node::Percentile { .. }
            | Node::Random
            | Node::NewObjectId
            | Node::CurrentDate => None,
        }
    }

    /// Whether the value can depend on the document.
    pub(super) fn reads_document(&self) -> bool {
        // A variable of an operator reads the document if the operand that gives it its value does, and that operand is a part
        // of the tree as well. Variables of the caller are constants.
        self.any(|node| matches!(node, Node::Path(PathStart::Root, _)))
    }

    /// Whether every evaluation with the same variables gives the same value, whatever the document.
    pub(super) fn is_fixed(&self) -> bool {
        !self.reads_document() && !self.any(Node::is_new_each_time)
    }

    /// Whether each evaluation gives another value.
    fn is_new_each_time(&self) -> bool {
        matches!(self, Node::Random | Node::NewObjectId | Node::CurrentDate)
    }

    /// Whether the node or a part of it, at any depth, passes a test.
    fn any(&self, test: fn(&Node) -> bool) -> bool {
        test(self) || self.parts().into_iter().any(|part| part.any(test))
    }

    /// Adds the paths of the fields that the node reads of the document. Returns `None` if it reads the whole document.
    pub(super) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        match self {
            Node::Path(PathStart::Root, _) => {
                paths.push(self.field()?);
                Some(())
            }
            Node::Constant(_)
            | Node::Path(..)
            | Node::Random
            | Node::NewObjectId
            | Node::CurrentDate
            | Node::Percentile { .. }
            | Node::Object(_)
            | Node::Array(_)
            | Node::Call { .. }
            | Node::Let { .. }
            | Node::Map { .. }
            | Node::Filter { .. }
            | Node::Reduce { .. }
            | Node::Regex(_) => self.parts().into_iter().try_for_each(|part| part.collect_fields(paths)),
        }
    }

    /// The field of the document that the node is. Returns `None` for any other node, `$$ROOT` among them.
    pub(super) fn field(&self) -> Option<FieldPath> {
        let Node::Path(PathStart::Root, components) = self else { return None };
        let names: Vec<&str> = components.iter().map(FieldPath::as_str).collect();
        // An empty path is `$$ROOT`.
        let path = Some(names.join(".")).filter(|path| !path.is_empty())?;
        FieldPath::parse(&path).ok()
    }

    /// The nodes directly below this one.
    pub(super) fn parts(&self) -> Vec<&Node> {
        match self {
            Node::Constant(_) | Node::Path(..) | Node::Random | Node::NewObjectId | Node::CurrentDate => {
                Vec::new()
            }
            Node::Percentile { input, .. } => vec![input],
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

/// The function of an operator: it asks for the values of its arguments, and gives the result.
pub(super) type Evaluate = for<'d> fn(&Arguments<'_, 'd>) -> Result<Value<'d>, Error>;

/// The arguments of an operator, in the operator's own order, with the scope that they are evaluated in.
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

    /// The comparison of strings.
    #[inline]
    pub(super) fn collation(&self) -> &'d Collation {
        self.scope.collation()
    }
}

/// The operands of `$regexMatch`, `$regexFind` or `$regexFindAll`.
#[derive(Clone, Debug)]
pub(super) struct RegexCall {
    pub(super) operator: &'static str,
    pub(super) wanted: RegexResult,
    pub(super) input: Node,
    pub(super) regex: Node,
    pub(super) options: Option<Node>,
    pub(super) compiled: Compiled,
}

/// Whether the pattern was compiled while parsing.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    /// The pattern is constant; `None` if it is null.
    Constant(Option<Pattern>),
    /// The pattern is computed, and the last one is kept.
    Varying(LastPattern),
}

/// The result type of a search by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegexResult {
    /// Whether the text matches.
    Whether,
    /// The first match.
    First,
    /// All matches.
    All,
}

impl RegexCall {
    pub(super) fn parts(&self) -> Vec<&Node> {
        [&self.input, &self.regex].into_iter().chain(&self.options).collect()
    }
}
