//! The conditions on single fields that hold in every document for which an expression is true.
//!
//! These are comparisons of a field with something that no document changes, alone or within `$and` and `$or`. Everything else
//! is unknown, which costs an index and never an answer. What an index makes of it is in `filter::implied`.

use bson::{RawBson, RawDocumentBuf};
use index::path::FieldPath;

use crate::expression::error::Error;
use crate::expression::node::{Node, Scope};
use crate::expression::variables::Variables;

/// The conditions on fields that a true expression implies.
#[derive(Clone, Debug)]
pub(crate) enum Implied {
    Unknown,
    /// Every part is true. Without parts, nothing is said.
    All(Vec<Implied>),
    /// At least one part is true. Without parts, the expression is true for no document.
    Any(Vec<Implied>),
    Compared(Box<FieldComparison>),
}

/// A comparison of a field with an operand that no document changes.
#[derive(Clone, Debug)]
pub(crate) struct FieldComparison {
    pub(crate) path: FieldPath,
    pub(crate) comparator: Comparator,
    operand: Node,
}

/// The comparison of an expression between the value of a field, on the left, and an operand: by the one order of
/// values of all types, and an array as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparator {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
    /// The operand is an array, and the value is equal to one of its elements.
    In,
}

impl Implied {
    /// The parts that are all true. None of them is an [`Implied::All`].
    pub(crate) fn conjuncts(self) -> Vec<Self> {
        let mut open = vec![self];
        let mut conjuncts = Vec::new();
        while let Some(part) = open.pop() {
            match part {
                // The last one is read next, so that they come in the order in which they were written.
                Self::All(parts) => open.extend(parts.into_iter().rev()),
                Self::Any(_) | Self::Compared(_) | Self::Unknown => conjuncts.push(part),
            }
        }
        conjuncts
    }
}

impl Comparator {
    /// The comparator of an operator. Returns `None` for every other operator.
    fn of(operator: &str) -> Option<Self> {
        match operator {
            "$eq" => Some(Self::Eq),
            "$gt" => Some(Self::Gt),
            "$gte" => Some(Self::Gte),
            "$lt" => Some(Self::Lt),
            "$lte" => Some(Self::Lte),
            "$in" => Some(Self::In),
            _ => None,
        }
    }

    /// The comparator with its sides exchanged. Returns `None` if it has none: in `[5, "$a"]` the field of an `$in` is the list.
    fn flipped(self) -> Option<Self> {
        match self {
            Self::Eq => Some(Self::Eq),
            Self::Gt => Some(Self::Lt),
            Self::Gte => Some(Self::Lte),
            Self::Lt => Some(Self::Gt),
            Self::Lte => Some(Self::Gte),
            Self::In => None,
        }
    }
}

impl FieldComparison {
    /// The operand's value. `None` is a missing value, which comes after `MinKey` and before every other value.
    ///
    /// # Errors
    /// As [`Expression::evaluate`](crate::expression::Expression::evaluate).
    pub(crate) fn operand(&self, variables: &Variables) -> Result<Option<RawBson>, Error> {
        // No document is read, so an empty one does.
        let document = RawDocumentBuf::new();
        Ok(self.operand.evaluate(Scope::new(&document, variables))?.into_raw())
    }
}

/// The conditions that follow from the truth of a node.
pub(super) fn implied(node: &Node) -> Implied {
    if let Node::Constant(value) = node {
        return if value.is_true() { Implied::All(Vec::new()) } else { Implied::Any(Vec::new()) };
    }
    // Operators with variables of their own are left out: within them a path may start elsewhere.
    let Node::Call { operator, arguments, .. } = node else { return Implied::Unknown };
    let parts = || arguments.iter().flatten().map(implied).collect();
    match (*operator, arguments.as_slice()) {
        ("$and", _) => Implied::All(parts()),
        ("$or", _) => Implied::Any(parts()),
        (operator, [Some(left), Some(right)]) => compared(operator, left, right).unwrap_or(Implied::Unknown),
        _ => Implied::Unknown,
    }
}

/// The comparison of two nodes of which one is a field and the other is fixed.
fn compared(operator: &str, left: &Node, right: &Node) -> Option<Implied> {
    let comparator = Comparator::of(operator)?;
    // Two fields bound each other by a value that every document has another of.
    let (path, comparator, operand) = match (left.field(), right.field()) {
        (Some(path), None) => (path, comparator, right),
        (None, Some(path)) => (path, comparator.flipped()?, left),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    operand
        .is_fixed()
        .then(|| Implied::Compared(Box::new(FieldComparison { path, comparator, operand: operand.clone() })))
}
