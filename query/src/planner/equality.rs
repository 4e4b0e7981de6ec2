//! The plan for a filter that is about one field: a frequent search, often of few documents. To compare all plans would need longer than to
//! read them.
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
use crate::sort::Sort;

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
    if !SIMPLE.finds_by_key(value) {
        return None;
    }
    let (index, view) = only_index(request, path).filter(|(_, view)| view.spec.collation().is_simple())?;
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

/// The index whose scan need not be compared with others, if it reads less than all entries or gives the wanted order: filter and sort are
/// about one path, which is not the `_id`, and one index begins with it. Any other one would be read as a whole, because bounds on the
/// path do not shorten its scan, and would not give the order.
pub(super) fn of_one_path<'a>(request: &Request<'a>) -> Option<(usize, &'a IndexView<'a>)> {
    let Request { hint: None, one_of_each: None, .. } = request else { return None };
    let path = request.filter?.only_path()?;
    let mut sorted = request.sort.into_iter().flat_map(Sort::fields);
    let is_by_path = sorted.next().is_none_or(|(field, _)| field == path) && sorted.next().is_none();
    only_index(request, path).filter(|_| is_by_path)
}

/// The index that begins with a path, if no other one does and none leaves out documents.
fn only_index<'a>(request: &Request<'a>, path: &FieldPath) -> Option<(usize, &'a IndexView<'a>)> {
    if request.indexes.iter().any(|view| may_be_smaller(view, path)) {
        return None;
    }
    let begins = |spec: &IndexSpec| spec.fields().first().is_some_and(|field| field.path == *path);
    let mut with_field = request.indexes.iter().enumerate().filter(|(_, view)| begins(view.spec));
    // The records begin with the `_id`, and then an index may as well.
    let only = with_field.next().filter(|_| path.as_str() != "_id")?;
    with_field.next().is_none().then_some(only)
}

/// Whether an index may have all documents with a value at a path, and not all others.
fn may_be_smaller(view: &IndexView<'_>, path: &FieldPath) -> bool {
    let has_path = || view.spec.fields().iter().any(|field| field.path == *path);
    view.partial.is_some() || view.spec.wildcard().is_some() || view.spec.is_sparse() && has_path()
}
