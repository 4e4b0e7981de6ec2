//! The equalities of a filter that every match meets. An upsert builds the new document from them.

use bson::RawBsonRef;
use index::path::FieldPath;

use crate::filter::Filter;
use crate::filter::compare::Relation;
use crate::filter::evaluate::{Node, Test};

impl Filter {
    /// The fields that must equal a value, with the value, in the order of the filter.
    ///
    /// These are equalities at the top level, in `$and`, in the only branch of an `$or`, as the only member
    /// of an `$in`, and as members of an `$all`.
    pub fn equalities(&self) -> Vec<(&FieldPath, RawBsonRef<'_>)> {
        let mut found = Vec::new();
        collect(&self.root, &mut found);
        found
    }

    /// The field and the value of a filter that is nothing but the equality of both, with texts compared by their bytes.
    pub(crate) fn only_equality(&self) -> Option<(&FieldPath, RawBsonRef<'_>)> {
        let Node::Field(path, Test::Compare(comparison)) = &self.root else { return None };
        comparison.is_equality_of_bytes().then(|| (path, comparison.operand().as_raw_bson_ref()))
    }

    /// The only path that the filter has conditions on. Returns `None` if there are several, or conditions that are not on a path, as those
    /// of an `$elemMatch` on fields of its elements.
    pub(crate) fn only_path(&self) -> Option<&FieldPath> {
        let parts = if let Node::All(parts) = &self.root { parts } else { std::slice::from_ref(&self.root) };
        let mut paths = parts.iter().map(|part| {
            let Node::Field(path, test) = part else { return None };
            (!matches!(test, Test::AnyObject(_))).then_some(path)
        });
        let first = paths.next()??;
        paths.all(|path| path == Some(first)).then_some(first)
    }
}

/// Adds the equalities that a match of `node` must meet.
fn collect<'f>(node: &'f Node, found: &mut Vec<(&'f FieldPath, RawBsonRef<'f>)>) {
    match node {
        Node::All(nodes) => nodes.iter().for_each(|node| collect(node, found)),
        // Of several branches it is not known which one the new document should meet.
        Node::Any(nodes) => {
            if let [only] = nodes.as_slice() {
                collect(only, found);
            }
        }
        Node::Not(_) | Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => {}
        Node::Field(path, test) => found.extend(equal_value(test).map(|value| (path, value))),
    }
}

/// The value that a test compares with for equality. Returns `None` for tests that several values meet.
fn equal_value(test: &Test) -> Option<RawBsonRef<'_>> {
    match test {
        Test::Compare(comparison) if comparison.relation() == Relation::Eq => {
            Some(comparison.operand().as_raw_bson_ref())
        }
        // MongoDB treats an `$in` with one member as an equality.
        Test::In(membership) => match (membership.values(), membership.has_null(), membership.patterns()) {
            ([only], false, []) => Some(only.as_raw_bson_ref()),
            ([], true, []) => Some(RawBsonRef::Null),
            (_, _, _) => None,
        },
        Test::Compare(_)
        | Test::Exists
        | Test::Type(_)
        | Test::Value(_)
        | Test::AnyObject(_)
        | Test::AnyElement(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, doc};

    use super::*;

    #[track_caller]
    fn check(filter: &Document, expected: &[(&str, i32)]) {
        let parsed = Filter::parse(&RawDocumentBuf::try_from(filter).unwrap()).unwrap();
        let found = parsed.equalities();
        let found = found.iter().map(|(path, value)| (path.as_str(), value.as_i32().unwrap_or(-1)));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{filter}");
    }

    #[test]
    fn equalities_that_must_hold_are_found() {
        check(&doc! { "b": 1, "a.c": { "$eq": 2 } }, &[("b", 1), ("a.c", 2)]);
        check(&doc! { "$and": [{ "a": 1 }, { "$and": [{ "b": 2 }] }] }, &[("a", 1), ("b", 2)]);
        check(&doc! { "$or": [{ "a": 1 }] }, &[("a", 1)]);
        check(&doc! { "a": { "$in": [1] } }, &[("a", 1)]);
        check(&doc! { "a": { "$in": [(Bson::Null)] }, "b": (Bson::Null) }, &[("a", -1), ("b", -1)]);
        check(&doc! { "a": { "$all": [1, 2] } }, &[("a", 1), ("a", 2)]);
    }

    #[test]
    fn other_conditions_say_no_value() {
        check(&doc! { "$or": [{ "a": 1 }, { "a": 2 }], "$nor": [{ "b": 1 }] }, &[]);
        check(&doc! { "a": { "$in": [1, 2] }, "b": { "$gt": 1 }, "c": { "$not": { "$eq": 1 } } }, &[]);
        check(
            &doc! { "a": { "$ne": 1 }, "b": { "$elemMatch": { "$eq": 1 } }, "c": { "$exists": true } },
            &[],
        );
    }
}
