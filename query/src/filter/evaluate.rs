//! The tree of a filter, and whether a document matches it.
//!
//! There are three kinds of question: a [`Node`] asks a document, a [`Condition`] one value, and a [`Test`] is what
//! both are made of. A test of a field holds if any value that the path reaches meets it; how paths
//! reach values is [`index::path::leaves`]' rule. Parsing bounds the depth of every tree, so recursion here is safe.
//!
//! Every question counts as a step of the operation that asks. Once that is to end, answers mean nothing and come fast:
//! [`Watch::outcome`] tells.

use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocument};
use index::path::{FieldPath, Leaf, leaves_within};

use crate::error::Error;
use crate::expression::{Expression, Variables};
use crate::filter::array::{any_element, any_object, has_length};
use crate::filter::bits::Bits;
use crate::filter::compare::{Comparison, Membership};
use crate::filter::element::{Modulo, TypeSet};
use crate::filter::schema::Schema;
use crate::pattern::{Pattern, Watch};

/// A question to a document.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Every part must match; without parts, every document does.
    All(Vec<Node>),
    /// At least one part must match.
    Any(Vec<Node>),
    /// The part must not match.
    Not(Box<Node>),
    /// Some value that the path reaches must meet the test.
    Field(FieldPath, Test),
    /// The expression must be true. It can fail, and stands only where a whole document is asked.
    Expression(Box<Expression>),
    /// The document must have a shape.
    Schema(Box<Schema>),
}

/// A question to one value.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
}

/// A question to one value that needs no other question.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Compare(Comparison),
    In(Membership),
    Exists,
    Type(TypeSet),
    Mod(Modulo),
    Pattern(Pattern),
    Bits(Bits),
    /// The value is an array of this length.
    Size(usize),
    /// The value is an array with an object that matches.
    AnyObject(Box<Node>),
    /// The value is an array with an element that meets the condition.
    AnyElement(Box<Condition>),
}

impl Node {
    /// Nodes that must all match; one alone stays itself.
    pub(super) fn all(mut nodes: Vec<Node>) -> Node {
        match nodes.pop() {
            Some(only) if nodes.is_empty() => only,
            last => {
                nodes.extend(last);
                Node::All(nodes)
            }
        }
    }

    /// The parts that must all match, those of parts included.
    pub(super) fn collect_conjuncts<'n>(&'n self, conjuncts: &mut Vec<&'n Node>) {
        match self {
            Node::All(nodes) => nodes.iter().for_each(|node| node.collect_conjuncts(conjuncts)),
            Node::Any(_) | Node::Not(_) | Node::Field(..) | Node::Expression(_) | Node::Schema(_) => {
                conjuncts.push(self);
            }
        }
    }

    /// The parts one of which must match, those of parts included; the node itself if it has none.
    pub(super) fn collect_branches<'n>(&'n self, branches: &mut Vec<&'n Node>) {
        match self {
            Node::Any(nodes) => nodes.iter().for_each(|node| node.collect_branches(branches)),
            Node::All(_) | Node::Not(_) | Node::Field(..) | Node::Expression(_) | Node::Schema(_) => {
                branches.push(self);
            }
        }
    }

    /// The question of what is asked of some value to the fields that `path` reaches.
    pub(super) fn field(path: &FieldPath, condition: Condition) -> Node {
        let below = |conditions: Vec<Condition>| {
            conditions.into_iter().map(|condition| Node::field(path, condition)).collect()
        };
        match condition {
            Condition::All(conditions) => Node::all(below(conditions)),
            Condition::Any(conditions) => Node::Any(below(conditions)),
            Condition::Not(condition) => Node::Not(Box::new(Node::field(path, *condition))),
            Condition::Test(test) => Node::Field(path.clone(), test),
        }
    }

    pub(super) fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.matches(document, watch)),
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(document, watch)),
            Node::Not(node) => !node.matches(document, watch),
            Node::Schema(schema) => schema.matches(RawBsonRef::Document(document), watch),
            // Only `try_matches` can tell that an expression failed, and which variables it sees.
            Node::Expression(_) => false,
            Node::Field(path, test) => {
                let mut is_match = false;
                let mut visit = |leaf: Leaf<'_>| {
                    is_match = test.matches_leaf(&leaf, watch);
                    if is_match { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                if watch.passes(document.as_bytes().len()) {
                    let _ = leaves_within(document, path, &|bytes| going_on(watch, bytes), &mut visit);
                }
                is_match
            }
        }
    }
}

impl Node {
    /// Whether a document matches, or why an expression cannot tell.
    pub(super) fn try_matches(
        &self,
        document: &RawDocument,
        variables: &Variables,
        watch: &Watch<'_>,
    ) -> Result<bool, Error> {
        match self {
            Node::All(nodes) => {
                for node in nodes {
                    if !node.try_matches(document, variables, watch)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Any(nodes) => {
                for node in nodes {
                    if node.try_matches(document, variables, watch)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Node::Not(node) => Ok(!node.try_matches(document, variables, watch)?),
            Node::Expression(expression) => Ok(expression.matches(document, variables)?),
            Node::Field(..) | Node::Schema(_) => Ok(self.matches(document, watch)),
        }
    }

    /// Whether there is an expression among the parts.
    pub(super) fn has_expression(&self) -> bool {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::has_expression),
            Node::Not(node) => node.has_expression(),
            Node::Expression(_) => true,
            Node::Field(..) | Node::Schema(_) => false,
        }
    }
}

impl Condition {
    /// Whether one value meets the condition; an array counts as itself only.
    pub(super) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        match self {
            Condition::All(conditions) => conditions.iter().all(|condition| condition.matches(value, watch)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.matches(value, watch)),
            Condition::Not(condition) => !condition.matches(value, watch),
            Condition::Test(test) => test.matches(Some(value), watch),
        }
    }
}

impl Test {
    /// Whether what a path reached meets the test, as a whole or by one of its elements.
    #[inline]
    fn matches_leaf(&self, leaf: &Leaf<'_>, watch: &Watch<'_>) -> bool {
        let is_met = |element: RawBsonRef<'_>| watch.goes_on() && self.matches(Some(element), watch);
        self.matches(leaf.value, watch)
            || (leaf.expand
                && self.looks_into_arrays()
                && leaf.value.is_some_and(|value| any_element(value, is_met)))
    }

    /// Whether the elements of an array are tried as well as the array.
    pub(super) fn looks_into_arrays(&self) -> bool {
        match self {
            Test::Compare(_)
            | Test::In(_)
            | Test::Exists
            | Test::Type(_)
            | Test::Mod(_)
            | Test::Pattern(_)
            | Test::Bits(_) => true,
            Test::Size(_) | Test::AnyObject(_) | Test::AnyElement(_) => false,
        }
    }

    /// Whether one value, or a field that is missing, meets the test.
    #[inline]
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>, watch: &Watch<'_>) -> bool {
        match (self, value) {
            (Test::Compare(comparison), value) => comparison.matches(value),
            (Test::In(membership), value) => membership.matches(value, watch),
            (_, None) => false,
            (Test::Exists, Some(_)) => true,
            (Test::Type(types), Some(value)) => types.matches(value),
            (Test::Mod(modulo), Some(value)) => modulo.matches(value),
            (Test::Pattern(pattern), Some(value)) => pattern.matches(value, watch),
            (Test::Bits(bits), Some(value)) => bits.matches(value),
            (Test::Size(length), Some(value)) => has_length(value, *length),
            (Test::AnyObject(node), Some(value)) => {
                any_object(value, |object| watch.goes_on() && node.matches(object, watch))
            }
            (Test::AnyElement(condition), Some(value)) => {
                any_element(value, |element| watch.goes_on() && condition.matches(element, watch))
            }
        }
    }
}

fn going_on(watch: &Watch<'_>, bytes: usize) -> ControlFlow<()> {
    if watch.passes(bytes) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
