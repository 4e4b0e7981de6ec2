//! The tree of a filter, and whether a document matches it.
//!
//! A [`Node`] is a predicate on a document and a [`Condition`] one on a value. Both consist of [`Test`]s. A
//! test of a field is met if any value at the path meets it; [`index::path::leaves`] defines which values are
//! at a path. Parsing bounds the depth of every tree, so recursion here is safe.
//!
//! Each evaluation counts as a step of its operation. Once the operation is to end, results are meaningless
//! and come fast, and [`Watch::outcome`] returns an error instead of them.

use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocument};
use index::path::{FieldPath, Leaf, leaves_within};

use crate::error::Error;
use crate::expression::{Expression, Variables};
use crate::filter::array::{any_element, any_object};
use crate::filter::compare::{Comparison, Membership};
use crate::filter::element::TypeSet;
use crate::filter::implied::ImpliedTest;
use crate::filter::schema::tree::Schema;
use crate::filter::value_test::ValueTest;
use crate::pattern::Watch;
use crate::value::document_or_array;

/// A predicate on a document.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Every part must match; without parts, every document does.
    All(Vec<Node>),
    /// At least one part must match.
    Any(Vec<Node>),
    /// The part must not match.
    Not(Box<Node>),
    /// Some value at the path must meet the test.
    Field(FieldPath, Test),
    /// The expression must be true. It can fail, and the parser allows it only on whole documents.
    Expression(Box<Expression>),
    /// The condition that an expression beside this node implies for a field. It is there for the planner, and true
    /// of every document, since the expression decides.
    Implied(Box<ImpliedTest>),
    /// The document must be valid by the schema.
    Schema(Box<Schema>),
}

/// A predicate on one value.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
}

/// A single operator with its operand, which one value meets or not.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Compare(Comparison),
    In(Membership),
    Exists,
    Type(TypeSet),
    /// One that asks the value alone.
    Value(ValueTest),
    /// The value is an array with an object, or an array treated as one, that matches the node.
    AnyObject(Box<Node>),
    /// The value is an array with an element that meets the condition.
    AnyElement(Box<Condition>),
}

impl Node {
    /// Joins nodes that must all match. A single node is returned as it is.
    pub(super) fn all(mut nodes: Vec<Node>) -> Node {
        // Most filters have a single condition. This saves them a level of the tree for each document.
        match nodes.pop() {
            Some(only) if nodes.is_empty() => only,
            last => {
                nodes.extend(last);
                Node::All(nodes)
            }
        }
    }

    /// Adds the parts that must all match, through nested conjunctions.
    pub(super) fn collect_conjuncts<'n>(&'n self, conjuncts: &mut Vec<&'n Node>) {
        match self {
            Node::All(nodes) => nodes.iter().for_each(|node| node.collect_conjuncts(conjuncts)),
            Node::Any(_)
            | Node::Not(_)
            | Node::Field(..)
            | Node::Expression(_)
            | Node::Implied(_)
            | Node::Schema(_) => conjuncts.push(self),
        }
    }

    /// Adds the parts of which one must match, through nested disjunctions. Any other node is its only part.
    pub(super) fn collect_branches<'n>(&'n self, branches: &mut Vec<&'n Node>) {
        match self {
            Node::Any(nodes) => nodes.iter().for_each(|node| node.collect_branches(branches)),
            Node::All(_)
            | Node::Not(_)
            | Node::Field(..)
            | Node::Expression(_)
            | Node::Implied(_)
            | Node::Schema(_) => branches.push(self),
        }
    }

    /// The node for a condition on the values at `path`.
    ///
    /// `{a: {$gt: 1, $lt: 9}}` becomes two fields, because a different array element may meet each operator.
    pub(super) fn field(path: &FieldPath, condition: Condition) -> Node {
        let below = |conditions: Vec<Condition>| {
            conditions.into_iter().map(|condition| Node::field(path, condition)).collect()
        };
        match condition {
            Condition::All(conditions) => Node::all(below(conditions)),
            Condition::Any(conditions) => Node::Any(below(conditions)),
            // The negation goes outside of the field: no value may meet the test, not only one that does not.
            Condition::Not(condition) => Node::Not(Box::new(Node::field(path, *condition))),
            Condition::Test(test) => Node::Field(path.clone(), test),
        }
    }

    /// Whether a document matches. A filter with expressions needs [`try_matches`](Self::try_matches).
    pub(super) fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.matches(document, watch)),
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(document, watch)),
            Node::Not(node) => !node.matches(document, watch),
            Node::Schema(schema) => schema.matches(RawBsonRef::Document(document), watch),
            // Here there are no variables, and an expression that fails could not be reported.
            Node::Expression(_) => false,
            Node::Implied(_) => true,
            Node::Field(path, test) => {
                let mut is_match = false;
                let mut visit = |leaf: Leaf<'_>| {
                    is_match = test.matches_leaf(&leaf, watch);
                    if is_match { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                // Each field may walk the whole document, so its bytes are charged once for each field.
                if watch.passes(document.as_bytes().len()) {
                    // Whether the walk was broken off is of no interest: `is_match` says what it found.
                    let _ = leaves_within(document, path, &|bytes| going_on(watch, bytes), &mut visit);
                }
                is_match
            }
        }
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// [`Error::Expression`] if an expression fails.
    pub(super) fn try_matches(
        &self,
        document: &RawDocument,
        variables: &Variables,
        watch: &Watch<'_>,
    ) -> Result<bool, Error> {
        match self {
            // As in MongoDB the first part that decides ends the walk, so a later expression may never fail.
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
            // None of these can contain an expression: the parser allows none below a field.
            Node::Field(..) | Node::Implied(_) | Node::Schema(_) => Ok(self.matches(document, watch)),
        }
    }

    /// Whether there is an expression in the tree.
    pub(super) fn has_expression(&self) -> bool {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::has_expression),
            Node::Not(node) => node.has_expression(),
            Node::Expression(_) => true,
            Node::Field(..) | Node::Implied(_) | Node::Schema(_) => false,
        }
    }
}

impl Condition {
    /// Whether one value meets the condition. An array counts as itself, not as its elements.
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
    /// Whether the value at a path meets the test, as a whole or by one of its elements.
    #[inline]
    fn matches_leaf(&self, leaf: &Leaf<'_>, watch: &Watch<'_>) -> bool {
        let is_met = |element: RawBsonRef<'_>| watch.goes_on() && self.matches(Some(element), watch);
        // A path that ends in a position (`a.0`) names an element: `expand` is unset, and its own elements do
        // not count.
        self.matches(leaf.value, watch)
            || (leaf.expand
                && self.looks_into_arrays()
                && leaf.value.is_some_and(|value| any_element(value, is_met)))
    }

    /// Whether `element`, of the array at a leaf, makes the leaf meet the test.
    pub(super) fn is_met_by_element(
        &self,
        element: RawBsonRef<'_>,
        leaf: &Leaf<'_>,
        watch: &Watch<'_>,
    ) -> bool {
        match self {
            // As in `matches`: an array inside of the array counts as an object with positions for names.
            Test::AnyObject(node) => {
                document_or_array(element).is_some_and(|object| node.matches(object, watch))
            }
            Test::AnyElement(condition) => condition.matches(element, watch),
            Test::Compare(_) | Test::In(_) | Test::Exists | Test::Type(_) | Test::Value(_) => {
                leaf.expand && self.looks_into_arrays() && self.matches(Some(element), watch)
            }
        }
    }

    /// Whether the test is applied to the elements of an array as well as to the array.
    pub(super) fn looks_into_arrays(&self) -> bool {
        match self {
            Test::Compare(_) | Test::In(_) | Test::Exists | Test::Type(_) => true,
            Test::Value(test) => !test.is_of_arrays(),
            Test::AnyObject(_) | Test::AnyElement(_) => false,
        }
    }

    /// Whether a value meets the test. `None` is a missing field.
    #[inline]
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>, watch: &Watch<'_>) -> bool {
        match (self, value) {
            (Test::Compare(comparison), value) => comparison.matches(value),
            (Test::In(membership), value) => membership.matches(value, watch),
            // Only these two have operands (null among them) that a missing field can meet.
            (_, None) => false,
            (Test::Exists, Some(_)) => true,
            (Test::Type(types), Some(value)) => types.matches(value),
            (Test::Value(test), Some(value)) => test.matches(value, watch),
            // An array may have a million elements, so each one counts as a step.
            (Test::AnyObject(node), Some(value)) => {
                any_object(value, |object| watch.goes_on() && node.matches(object, watch))
            }
            (Test::AnyElement(condition), Some(value)) => {
                any_element(value, |element| watch.goes_on() && condition.matches(element, watch))
            }
        }
    }
}

/// Charges `bytes` to the operation, and breaks if it is to end.
fn going_on(watch: &Watch<'_>, bytes: usize) -> ControlFlow<()> {
    if watch.passes(bytes) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
