//! The array element by which a document matches: the position that `$` means in an update or a projection.
//!
//! Only a condition that every match meets can give the position, so conditions below `$or` (of several
//! branches), `$nor` and `$not` give none. The last condition on an array decides. If both an element and the
//! array as a whole meet a condition, the element is chosen.

use std::ops::ControlFlow;

use bson::RawDocument;
use index::path::{Leaf, leaves};

use crate::error::Error;
use crate::filter::Filter;
use crate::filter::evaluate::{Node, Test};
use crate::operation::OperationContext;
use crate::pattern::Watch;
use crate::value::elements;

impl Filter {
    /// The position of the first array element by which a document matches, in the outermost array of the
    /// path.
    ///
    /// Returns `None` if no condition on an array gives a position. The filter must match the document.
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
    /// [`Error::PatternFailed`] if a regular expression exceeds its limits, [`Error::Interrupted`] if the
    /// operation is to end.
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

/// The position that a node gives for a document that it matches.
fn position(node: &Node, document: &RawDocument, watch: &Watch<'_>) -> Option<usize> {
    match node {
        // The last condition that gives a position decides, as in MongoDB.
        Node::All(nodes) => nodes.iter().rev().find_map(|node| position(node, document, watch)),
        // A single branch must hold. Of several it is not known which one the document meets.
        Node::Any(nodes) => match nodes.as_slice() {
            [only] => position(only, document, watch),
            [] | [_, _, ..] => None,
        },
        Node::Not(_) | Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => None,
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

/// Breaks if the value of a leaf meets the test, with the position of the element by which it does, if any.
fn matching_element(test: &Test, leaf: &Leaf<'_>, watch: &Watch<'_>) -> ControlFlow<Option<usize>> {
    let by_element = element_of(test, leaf, watch);
    // The path went through an array already: then the position in that outer array counts.
    match (by_element, leaf.position) {
        (Some(_), Some(outer)) => ControlFlow::Break(Some(outer)),
        (Some(element), None) => ControlFlow::Break(Some(element)),
        (None, outer) if test.matches(leaf.value, watch) => ControlFlow::Break(outer),
        (None, _) => ControlFlow::Continue(()),
    }
}

/// The position of the first element, of the array at a leaf, that makes the leaf meet the test.
fn element_of(test: &Test, leaf: &Leaf<'_>, watch: &Watch<'_>) -> Option<usize> {
    let array = leaf.value?.as_array()?;
    elements(array).position(|element| test.is_met_by_element(element, leaf, watch))
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
