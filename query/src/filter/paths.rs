//! The paths at which a filter asks for values.

use index::path::FieldPath;

use crate::filter::evaluate::{Node, Test};

/// Adds the paths of tests that a value must meet, each once, until there are `limit`. `outer` is the path of the object
/// that the node is applied to.
pub(super) fn collect(node: &Node, outer: &str, limit: usize, paths: &mut Vec<FieldPath>) {
    match node {
        Node::All(nodes) | Node::Any(nodes) => {
            for node in nodes {
                collect(node, outer, limit, paths);
            }
        }
        Node::Field(path, test) => {
            let whole = if outer.is_empty() { Some(path.clone()) } else { joined(outer, path) };
            let Some(whole) = whole else { return };
            // Of all tests only this one has conditions on fields below its own.
            if let Test::AnyObject(inner) = test {
                collect(inner, whole.as_str(), limit, paths);
            } else if paths.len() < limit && !paths.contains(&whole) {
                paths.push(whole);
            }
        }
        // An expression is about whole documents, so there is no object around its path.
        Node::Implied(test) => {
            if paths.len() < limit && !paths.contains(test.path()) {
                paths.push(test.path().clone());
            }
        }
        // A negation asks for what is not there, and the others are not about single values.
        Node::Not(_) | Node::Expression(_) | Node::Schema(_) => {}
    }
}

fn joined(outer: &str, path: &FieldPath) -> Option<FieldPath> {
    FieldPath::parse(&format!("{outer}.{}", path.as_str())).ok()
}
