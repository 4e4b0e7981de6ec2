//! The plan for a filter that asks for one value of one field, and for nothing else: a frequent search of few documents, whose
//! plan would need longer to make than the documents to read.
//!
//! It is made where the rules of the module would find no other: one index begins with the field, and no other one leaves
//! out documents, which would make it a rival.

use std::iter;

use bson::RawBson;
use index::collation::SIMPLE;
use index::interval::{Interval, Intervals};
use index::multikey::has_position;
use index::path::FieldPath;
use index::spec::IndexSpec;

use crate::filter::entries::EntryBounds;
use crate::planner::cover::Needs;
use crate::planner::request::{IndexView, Request};

/// The scan for an equality that is a whole filter.
pub(super) struct Equality<'a> {
    /// The position of the index in the request.
    pub(super) index: usize,
    pub(super) view: &'a IndexView<'a>,
    pub(super) bounds: EntryBounds,
    /// Whether every entry within the bounds is that of a match.
    pub(super) decides: bool,
}

/// The scan for the equality that is the whole filter of a request. Returns `None` if other plans have to be looked at.
pub(super) fn by_equality<'a>(request: &Request<'a>) -> Option<Equality<'a>> {
    // Fields of the documents may be had from entries alone, which is for the rules to find.
    let Request { hint: None, sort: None, one_of_each: None, needs: Needs::Documents, .. } = request else {
        return None;
    };
    let (path, value) = request.filter?.only_equality()?;
    if !SIMPLE.finds_by_key(value) || request.indexes.iter().any(|view| may_be_smaller(view, path)) {
        return None;
    }
    let begins = |spec: &IndexSpec| spec.fields().first().is_some_and(|field| field.path == *path);
    let mut with_field = request.indexes.iter().enumerate().filter(|(_, view)| begins(view.spec));
    // The records begin with the `_id`, and then an index may as well.
    let (index, view) = with_field.next().filter(|_| path.as_str() != "_id")?;
    if with_field.next().is_some() || !view.spec.collation().is_simple() {
        return None;
    }
    let decides = view.arrays.first().is_none_or(|arrays| arrays.is_empty());
    // An index has fewer values of a path that may name positions in arrays than the path reaches.
    if !decides && has_position(path) {
        return None;
    }
    // An entry within has the value in its first field, and may have any in the others.
    let first = Intervals::from(Interval::point(RawBson::from(value)));
    let others = iter::repeat_with(Intervals::all);
    let sets = iter::once(first).chain(others).take(view.spec.fields().len()).collect();
    Some(Equality { index, view, bounds: EntryBounds { sets, has_value: true }, decides })
}

/// Whether an index may have all documents with a value at a path, and not all others.
fn may_be_smaller(view: &IndexView<'_>, path: &FieldPath) -> bool {
    let has_path = || view.spec.fields().iter().any(|field| field.path == *path);
    view.partial.is_some() || view.spec.wildcard().is_some() || view.spec.is_sparse() && has_path()
}
