//! Which filters a partial index may have: MongoDB allows only conditions that say what a document must have.

use crate::filter::evaluate::{Node, Test};

/// The operator of a filter that no partial index may have. Returns `None` if all are allowed.
pub(super) fn refused(node: &Node) -> Option<&'static str> {
    match node {
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().find_map(refused),
        // `$ne`, `$nin`, `$nor` and `{$exists: false}` are negations too.
        Node::Not(_) => Some("$not"),
        Node::Expression(_) | Node::Implied(_) => Some("$expr"),
        Node::Schema(_) => Some("$jsonSchema"),
        Node::Field(_, test) => match test {
            // The values of a pattern form no set that a proof could compare.
            Test::In(membership) if !membership.patterns().is_empty() => Some("$regex"),
            Test::Compare(_) | Test::In(_) | Test::Exists | Test::Type(_) => None,
            Test::Value(test) => Some(test.operator()),
            Test::AnyObject(_) | Test::AnyElement(_) => Some("$elemMatch"),
        },
    }
}
