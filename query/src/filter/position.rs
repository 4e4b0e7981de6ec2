//! Which array element made a document match: what the positional operator `$` of an update and of a projection
//! stands for.
//!
//! Only what must hold can say so: under `$or` of several branches, `$nor` and `$not` no element is to be blamed. Of
//! several conditions on arrays the last one decides. An element that meets a condition by itself comes before the
//! array that meets it as a whole.

use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocument};
use index::path::{Leaf, leaves};

use crate::error::Error;
use crate::filter::Filter;
use crate::filter::evaluate::{Node, Test};
use crate::operation::OperationContext;
use crate::pattern::Watch;
use crate::value::{document_or_array, elements};

impl Filter {
    /// The position, in the outermost array on the way, of the first element by which a document matches.
    ///
    /// Nothing is told if no condition on an array helped. The document must be one that the filter matches.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::filter::Filter;
    /// use cairndb_query::operation::OperationContext;
    ///
    /// let operation = OperationContext::default();
    /// let filter = Filter::parse(&rawdoc! { "grades": { "$gte": 85 } })?;
    /// assert_eq!(filter.array_position(&rawdoc! { "grades": [80, 87, 95] }, &operation)?, Some(1));
    /// assert_eq!(filter.array_position(&rawdoc! { "grades": 90 }, &operation)?, None);
    /// # Ok::<(), cairndb_query::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PatternFailed`] if a regular expression finds no answer within its limits, [`Error::Interrupted`] if
    /// the operation is to end.
    pub fn array_position(
        &self,
        document: &RawDocument,
        operation: &OperationContext,
    ) -> Result<Option<usize>, Error> {
        let watch = Watch::of(operation);
        let position = position(&self.root, document, &watch);
        Ok(watch.outcome(position)?)
    }
}

fn position(node: &Node, document: &RawDocument, watch: &Watch<'_>) -> Option<usize> {
    match node {
        Node::All(nodes) => nodes.iter().rev().find_map(|node| position(node, document, watch)),
        Node::Any(nodes) => match nodes.as_slice() {
            [only] => position(only, document, watch),
            [] | [_, _, ..] => None,
        },
        Node::Not(_) | Node::Expression(_) | Node::Schema(_) => None,
        Node::Field(path, test) => {
            let mut found = None;
            let mut visit = |leaf: Leaf<'_>| {
                let step = matching_element(test, &leaf, watch);
                found = step.break_value().flatten();
                step.map_break(|_| ())
            };
            let _ = leaves(document, path, &mut visit);
            found
        }
    }
}

/// Breaks if a leaf meets the test, with the element by which it does if there is one.
fn matching_element(test: &Test, leaf: &Leaf<'_>, watch: &Watch<'_>) -> ControlFlow<Option<usize>> {
    let by_element = leaf.value.and_then(|value| element_of(test, value, leaf.expand, watch));
    match (by_element, leaf.position) {
        (Some(_), Some(outer)) => ControlFlow::Break(Some(outer)),
        (Some(element), None) => ControlFlow::Break(Some(element)),
        (None, outer) if test.matches(leaf.value, watch) => ControlFlow::Break(outer),
        (None, _) => ControlFlow::Continue(()),
    }
}

/// The first element of an array that meets the test, or that makes the array meet it.
fn element_of(test: &Test, value: RawBsonRef<'_>, expand: bool, watch: &Watch<'_>) -> Option<usize> {
    let array = value.as_array()?;
    match test {
        Test::AnyObject(node) => elements(array)
            .position(|element| document_or_array(element).is_some_and(|object| node.matches(object, watch))),
        Test::AnyElement(condition) => elements(array).position(|element| condition.matches(element, watch)),
        Test::Compare(_)
        | Test::In(_)
        | Test::Exists
        | Test::Type(_)
        | Test::Mod(_)
        | Test::Pattern(_)
        | Test::Bits(_)
        | Test::Size(_) => {
            let looks_inside = expand && test.looks_into_arrays();
            elements(array).position(|element| looks_inside && test.matches(Some(element), watch))
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, doc};

    use super::*;

    #[track_caller]
    fn check(filter: &Document, document: &Document, expected: Option<usize>) {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
        let parsed = Filter::parse(&raw(filter)).unwrap();
        assert_eq!(
            parsed.array_position(&raw(document), &OperationContext::default()).unwrap(),
            expected,
            "{filter} in {document}"
        );
    }

    #[test]
    fn the_first_matching_element_counts() {
        check(&doc! { "a": 5 }, &doc! { "a": [1, 5, 5] }, Some(1));
        check(&doc! { "a": { "$gt": 1 } }, &doc! { "a": [1, 5] }, Some(1));
        check(&doc! { "a": { "$in": [7, 5] } }, &doc! { "a": [1, 5] }, Some(1));
        check(&doc! { "a.b": 2 }, &doc! { "a": [{ "b": 1 }, { "b": 2 }] }, Some(1));
        check(&doc! { "a.b": 2 }, &doc! { "a": { "b": [1, 2] } }, Some(1));
        check(
            &doc! { "a": { "$elemMatch": { "b": 2, "c": 1 } } },
            &doc! { "a": [{ "b": 2 }, { "b": 2, "c": 1 }] },
            Some(1),
        );
        check(&doc! { "a": { "$elemMatch": { "$gt": 3, "$lt": 9 } } }, &doc! { "a": [1, 10, 5] }, Some(2));
        check(&doc! { "a": { "$all": [1, 5] } }, &doc! { "a": [5, 1] }, Some(0));
    }

    #[test]
    fn the_outermost_array_counts() {
        check(&doc! { "a.b": 2 }, &doc! { "a": [{ "b": [1] }, { "b": [1, 2] }] }, Some(1));
        check(
            &doc! { "a.b": { "$elemMatch": { "$eq": 2 } } },
            &doc! { "a": [{ "b": [1] }, { "b": [1, 2] }] },
            Some(1),
        );
        check(&doc! { "a.0.b": 2 }, &doc! { "a": [{ "b": [1, 2] }] }, Some(1));
    }

    #[test]
    fn whole_values_have_no_position() {
        check(&doc! { "a": 5 }, &doc! { "a": 5 }, None);
        check(&doc! {}, &doc! { "a": [5] }, None);
        check(&doc! { "a": { "$size": 1 } }, &doc! { "a": [5] }, None);
        check(&doc! { "a": [5, 6] }, &doc! { "a": [5, 6] }, None);
        check(&doc! { "a": [5, 6] }, &doc! { "a": [[1], [5, 6]] }, Some(1));
        check(&doc! { "a.1": 6 }, &doc! { "a": [5, 6] }, None);
    }

    #[test]
    fn the_last_condition_on_an_array_decides() {
        check(&doc! { "a": 5, "b": 6 }, &doc! { "a": [5], "b": [7, 6] }, Some(1));
        check(&doc! { "b": 6, "a": 5 }, &doc! { "a": [5], "b": [7, 6] }, Some(0));
        check(&doc! { "a": 5, "c": 1 }, &doc! { "a": [0, 5], "c": 1 }, Some(1));
        check(&doc! { "$and": [{ "a": 5 }] }, &doc! { "a": [0, 5] }, Some(1));
    }

    #[test]
    fn what_need_not_hold_tells_nothing() {
        check(&doc! { "$or": [{ "a": 5 }, { "a": 6 }] }, &doc! { "a": [0, 5] }, None);
        check(&doc! { "$or": [{ "a": 5 }] }, &doc! { "a": [0, 5] }, Some(1));
        check(&doc! { "a": { "$ne": 7 } }, &doc! { "a": [0, 5] }, None);
        check(&doc! { "$nor": [{ "a": 7 }] }, &doc! { "a": [0, 5] }, None);
    }
}
